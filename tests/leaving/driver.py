# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick debug-full; devices: all
"""The device is unbound, reset, reloaded, or removed from its bus while processes use it, and
comes back; its driver is unloaded and loaded.  On a debug kernel nothing may be left of it.

The commands are in tests/leaving/leaves-in-use.  tests/host/test_leaving.py has what needs the
host: the device is pulled out of its slot."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
from lib import device  # noqa: E402

# A process with registers of the device in its memory, which forks as long as that is there.
FORKS = """
import os, sys
from pyverbs.device import Context
context = Context(name=sys.argv[1])
print("open", flush=True)
while os.path.exists(f"/sys/class/infiniband/{sys.argv[1]}"):
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
"""
LEAVES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "leaves-in-use")


class Driver(unittest.TestCase):
    def leaves(self, how):
        device.need("pci")
        done = subprocess.run([LEAVES, how], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=device.patience(100), check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_driver_can_be_unbound_in_use(self):
        self.leaves("unbind")

    # runs: full
    def test_driver_can_be_unbound_while_process_forks(self):
        device.need("pci")
        with subprocess.Popen([sys.executable, "-c", FORKS, device.NAME],
                              stdout=subprocess.PIPE, text=True) as forks:
            self.addCleanup(forks.kill)
            self.assertEqual(forks.stdout.readline(), "open\n")
            self.leaves("unbind")
            self.assertEqual(forks.wait(60), 0)

    # runs: full
    def test_device_unbound_in_use_can_be_reset(self):
        self.leaves("reset")

    def test_driver_can_be_reloaded_in_use(self):
        self.leaves("reload")

    def test_modules_can_be_unloaded_in_use(self):
        self.leaves("unload")

    def test_device_can_be_removed_in_use(self):
        self.leaves("remove")


if __name__ == "__main__":
    unittest.main()
