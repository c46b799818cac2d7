# SPDX-License-Identifier: GPL-2.0-or-later
"""The ConnectX goes away while processes use it (tests/host/leaves-in-use): unbound from
its driver, removed from the bus, pulled out of its slot, or with its model killed."""

import os
import signal
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import machine  # noqa: E402
from tests.host.model import GuestsWithModel  # noqa: E402

LEAVES = "tests/host/leaves-in-use"


class Leaving(GuestsWithModel):
    def test_unbound_in_use(self):
        done = self.boot(LEAVES, "unbind")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_removed_in_use(self):
        done = self.boot(LEAVES, "remove")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_pulled_out_in_use(self):
        process, model = self.running(LEAVES, "pulled")
        os.kill(model, signal.SIGUSR1)
        said = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, said)

    def test_killed_in_use(self):
        """QEMU's client ends QEMU (10.1: by an assertion), so the guest cannot be looked at."""
        process, model = self.running(LEAVES, "pulled")
        os.kill(model, signal.SIGKILL)
        said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, machine.BROKEN)
        self.assertIn("the ConnectX model failed: it died of SIGKILL while the guest ran", said)


if __name__ == "__main__":
    unittest.main()
