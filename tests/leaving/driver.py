# SPDX-License-Identifier: GPL-2.0-or-later
"""The device leaves its driver, or its bus, while processes use it, and comes back; its
driver is unloaded and loaded (tests/leaving/leaves-in-use).  On a debug kernel nothing may be
left of it.  tests/host/test_leaving.py has what needs the host: the device is pulled out of
its slot."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
from lib import device  # noqa: E402

LEAVES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "leaves-in-use")


class Driver(unittest.TestCase):
    def leaves(self, how):
        device.need("pci")
        done = subprocess.run([LEAVES, how], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_unbound_in_use(self):
        self.leaves("unbind")

    def test_unbound_in_use_and_reset(self):
        self.leaves("reset")

    def test_reloaded_in_use(self):
        self.leaves("reload")

    def test_unloaded_in_use(self):
        self.leaves("unload")

    def test_removed_in_use(self):
        self.leaves("remove")


if __name__ == "__main__":
    unittest.main()
