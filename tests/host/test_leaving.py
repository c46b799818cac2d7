# SPDX-License-Identifier: GPL-2.0-or-later
"""The ConnectX goes away while processes use it (tests/host/leaves-in-use): unbound from
its driver, removed from the bus, or dead because its model was killed."""

import os
import subprocess
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from tests.host.model import GuestsWithModel  # noqa: E402

LEAVES = "tests/host/leaves-in-use"


class Leaving(GuestsWithModel):
    def test_unbound_in_use(self):
        done = self.boot(LEAVES, "unbind")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_removed_in_use(self):
        done = self.boot(LEAVES, "remove")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_killed_in_use(self):
        model, boot = self.by_hand()
        with subprocess.Popen([*boot, LEAVES, "dies"], cwd=TOP, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            self.addCleanup(process.terminate)
            self.assertEqual(process.stdout.readline(), "traffic\n")
            model.kill()
            said = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, said)


if __name__ == "__main__":
    unittest.main()
