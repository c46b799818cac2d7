# SPDX-License-Identifier: GPL-2.0-or-later
# runs: full
"""UCX's transport API over dma-bufs, by fd, between two guests: Debian's UCX, unmodified, puts,
gets and adds from and to buffers of each exporter, VRAM of the tests' GPU to VRAM among them.

The program of the guests is tests/ucx/uct.c, which compares all bytes.  What lies in VRAM the
host finds there by itself; Soft-RoCE has no peer-to-peer, so the GPU moves its buffers away."""

import os
import re
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import fabric  # noqa: E402
from mrfd import machine  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import CONNECTX, RXE  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from mrfd.traffic import by_function  # noqa: E402

PROGRAM = "ucx/uct"
SIZE = 1 << 20  # of a buffer
SCENARIOS = ["udmabuf_and_vgem", "vgem_and_heap", "heap_and_virtio_gpu", "virtio_gpu_and_udmabuf",
             "qxl_and_qxl", "vram_and_vgem", "vram_and_vram"]
IN_VRAM = re.compile(r"^VRAM at (\d+):([ 0-9a-f]+)$", re.M)


class Uct(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = f"{programs.build_tests([PROGRAM], 'programs')}/{PROGRAM}"

    def run_on(self, device, transport):
        """The guests, which have ended well."""
        with fabric.Fabric() as running:
            guests = []
            for number, links in enumerate(machine.network(2)):
                options = programs.test_guest("base", device, gpu=True)
                options["setup"] = machine.network_setup(number, 2, device)
                options["env"].update(MRFD_PATIENCE=f"{patience(3):.1f}")
                guest = machine.Guest([self.program, transport], name=f"guest{number}",
                                      links=links, mac=number, timeout=patience(600),
                                      fabric=running.socket if device is CONNECTX else None,
                                      root="programs", **options)
                self.addCleanup(guest.stop)
                guests.append(guest.start())
            for guest in guests:
                guest.wait()  # its own limit ends it
        said = "".join(guest.output.decode() + guest.tail(10) for guest in guests)
        for guest in guests:
            self.assertEqual(guest.status, 0, said)
            self.assertEqual(re.findall(r"^case (\S+): ok$", guest.output.decode(), re.M),
                             [name for name in SCENARIOS if "vmap" in device.can.split()
                              or "qxl" not in name], said)
        return guests

    def assert_in_vram(self, guest):
        """The host sees in the VRAM of the owner's last buffer what the guest saw there."""
        where, data = IN_VRAM.findall(guest.output.decode())[-1]
        data, at = bytes.fromhex(data), int(where) + SIZE // 2
        self.assertEqual(guest.vram[at:at + len(data)], data)
        self.assertGreater(len(set(data)), 16)

    def test_rc_mlx5_moves_dma_bufs(self):
        guests = self.run_on(CONNECTX, "rc_mlx5")
        self.assert_in_vram(guests[0])
        for guest in guests:
            counted = by_function(guest)["first"]
            self.assertGreater(min(counted.read, counted.written), 5 * SIZE)

    def test_rc_verbs_moves_dma_bufs(self):
        self.assert_in_vram(self.run_on(CONNECTX, "rc_verbs")[0])

    def test_rc_verbs_moves_dma_bufs_on_soft_roce(self):
        self.run_on(RXE, "rc_verbs")


if __name__ == "__main__":
    unittest.main()
