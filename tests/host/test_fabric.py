# SPDX-License-Identifier: GPL-2.0-or-later
"""Two guests with a ConnectX model each, on one fabric: the programs of rdma-core,
perftest and libfabric (tests/host/two-guests), also if packets are lost."""

import os
import re
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from tests.host.model import GuestsWithModel  # noqa: E402


class Fabric(GuestsWithModel):
    def both(self, which, *options):
        """Run the programs; each must succeed at both ends."""
        done = self.boot("--guests", "2", *options, "tests/host/two-guests", which, timeout=900)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        ends = [re.findall(rf"^guest{end}: case (\S+): ok$", done.stdout, re.M) for end in (0, 1)]
        self.assertEqual(*ends, said)
        self.assertIn("ibv_xsrq_pingpong", ends[0], said)  # the last one

    def test_programs_talk(self):
        self.both("all")

    def test_programs_talk_if_packets_are_lost(self):
        self.both("reliable", "--fabric=--drop 1 --seed 7")


if __name__ == "__main__":
    unittest.main()
