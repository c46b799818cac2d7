# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick debug-full
"""Data Direct in two guests on a fabric, or in one of them: each byte of the traffic between them
is right, the models say by which function it went, and when the second function of the one
leaves, the other one gets remote access errors.

The program of the guests is tests/guests/peers.c."""

import os
import re
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))
sys.path.insert(0, TOP)

from mrfd import fabric  # noqa: E402
from mrfd import machine  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import CONNECTX, CONNECTX_DIRECT  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from mrfd.traffic import Traffic, by_function  # noqa: E402
from tests.host.test_direct import SAID  # noqa: E402

KERNEL = os.environ.get("MRFD_KERNEL", "base")
PROGRAM = "guests/peers"
SCENARIOS = ["buffer_and_memory_of_process", "memory_of_process_and_buffer", "buffer_and_buffer",
             "function_leaves"]


class DirectPeers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = f"{programs.build_tests([PROGRAM])}/{PROGRAM}"

    def guest(self, number, links, device, where):
        options = programs.test_guest(KERNEL, device)
        options["setup"] = machine.network_setup(number, 2, device)
        options["env"].update(MRFD_PATIENCE=f"{patience(3):.1f}",
                              MRFD_DEPTH=os.environ.get("MRFD_DEPTH", "full"))
        guest = machine.Guest([self.program], name=f"guest{number}", links=links, mac=number,
                              fabric=where, timeout=patience(600), **options)
        self.addCleanup(guest.stop)
        return guest.start()

    def run_peers(self, *devices):
        """For each guest the Traffic that it said of the second function, and that its model
        counted, or None."""
        with fabric.Fabric() as running:
            guests = [self.guest(number, links, device, running.socket) for number, (links, device)
                      in enumerate(zip(machine.network(2), devices))]
            for guest in guests:
                guest.wait()  # its own limit ends it
        said = "".join(guest.output.decode() + guest.tail(10) for guest in guests)
        for guest in guests:
            self.assertEqual(guest.status, 0, said)
            self.assertEqual(re.findall(r"^case (\S+): ok$", guest.output.decode(), re.M),
                             SCENARIOS, said)
        return [(self.traffic(guest), by_function(guest).get("second")) for guest in guests]

    def traffic(self, guest):
        written, read, atomics = map(int, SAID.search(guest.output.decode()).groups())
        return Traffic(read, written, atomics)

    def assert_went_by_second(self, said, counted):
        self.assertGreater(min(said.written, said.read), 100000)
        self.assertGreaterEqual(counted.read, said.read)
        self.assertGreaterEqual(counted.written, said.written)
        self.assertGreaterEqual(counted.atomics, said.atomics)

    def test_both_guests_have_data_direct(self):
        for said, counted in self.run_peers(CONNECTX_DIRECT, CONNECTX_DIRECT):
            self.assert_went_by_second(said, counted)

    # runs: full
    def test_one_guest_has_data_direct(self):
        (said, counted), other = self.run_peers(CONNECTX_DIRECT, CONNECTX)
        self.assert_went_by_second(said, counted)
        self.assertEqual(other, (Traffic(), None))


if __name__ == "__main__":
    unittest.main()
