# SPDX-License-Identifier: GPL-2.0-or-later
"""device.h for programs in Python."""

import os
import unittest

NAME = os.environ["MRFD_VERBS_DEVICE"]


def patience(seconds):
    """A bound of what takes so many seconds on an idle machine, as in clock.h."""
    return float(os.environ.get("MRFD_PATIENCE", 3)) * seconds


def can(word):
    """Whether the device can do it."""
    return word in os.environ["MRFD_DEVICE_CAN"].split()


def need(*words):
    """Skip the case if the device cannot do it."""
    for word in words:
        if not can(word):
            raise unittest.SkipTest(f"{os.environ['MRFD_DEVICE']} has no {word}")
