# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick debug-full
"""Buffers of a GPU move, are evicted, have two importers and are revoked, while another guest
writes, reads, adds and sends to them: no byte is lost, misplaced or stale, and after the
revoke there are only errors.

The program of the guests is tests/guests/moves.c."""

import os
import re
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import products  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import CONNECTX  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from tests.host.model import GuestsWithModel  # noqa: E402

KERNEL = os.environ.get("MRFD_KERNEL", "base")
SCENARIOS = ["there_and_back", "under_pressure", "two_nics", "revoked"]


class Moves(GuestsWithModel):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        products.gpu_module(KERNEL)
        cls.program = f"{programs.build_tests(['guests/moves'])}/guests/moves"

    def test_traffic_follows_moving_buffers(self):
        settings = [word for item in CONNECTX.settings for word in ("-e", "=".join(item))]
        for name in {"MRFD_DEPTH", "MRFD_MOVES", "MRFD_SEED"} & set(os.environ):
            settings += ["-e", f"{name}={os.environ[name]}"]
        done = self.boot("--kernel", KERNEL, "--timeout", str(int(patience(1100))), *settings,
                         "-d", "gpu", "-d", "connectx-2", self.program, ":::", self.program,
                         timeout=1200)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        for guest in 0, 1:
            with self.subTest(guest=guest):
                self.assertEqual(re.findall(rf"^guest{guest}: case (\S+): ok$", done.stdout, re.M),
                                 SCENARIOS, said)
        print("\n".join(line for line in done.stdout.splitlines() if " # " in line))


if __name__ == "__main__":
    unittest.main()
