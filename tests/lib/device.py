# SPDX-License-Identifier: GPL-2.0-or-later
"""device.h for programs in Python."""

import os
import unittest

NAME = os.environ["MRFD_VERBS_DEVICE"]


def can(word):
    """Whether the device can do it."""
    return word in os.environ["MRFD_DEVICE_CAN"].split()


def need(*words):
    """Skip the case if the device cannot do it."""
    for word in words:
        if not can(word):
            raise unittest.SkipTest(f"{os.environ['MRFD_DEVICE']} has no {word}")
