# SPDX-License-Identifier: GPL-2.0-or-later
"""What device.h is, for programs in Python."""

import os
import unittest

NAME = os.environ.get("MRFD_VERBS_DEVICE") or "rxe0"


def need(*words):
    """Skip the case if the device cannot do it; without a description it can do all."""
    can = os.environ.get("MRFD_DEVICE_CAN")
    for word in words:
        if can and word not in can.split():
            raise unittest.SkipTest(f"{os.environ.get('MRFD_DEVICE') or 'rxe'} has no {word}")
