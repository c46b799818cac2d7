# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""What the ConnectX model writes into VRAM by DMA is in the file that is the BAR of the tests'
GPU, and not in a copy that only the guest sees.  Where no path leads from the ConnectX to
the GPU, a buffer is reached in system memory, or refused."""

import os
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import machine  # noqa: E402
from mrfd import products  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import CONNECTX, CONNECTX_PINNED  # noqa: E402

PROGRAM = "exporters/gpu"
# It writes 64 pages of the pattern of seed 1 by RDMA into a buffer that stays in VRAM, and
# nothing else into that buffer.
CASE = "gpu.vram_only_buffer_needs_p2p"
PAGE, SIZE, SEED = 4096, 64 * 4096, 1


def pattern(size, seed):
    """As fill() of tests/lib/pattern.c."""
    out = bytearray(size)
    for i in range(size):
        x = (i * 2654435761 & 0xffffffff) ^ (seed * 40503 & 0xffffffff)
        out[i] = (x >> 24 ^ x >> 11) & 0xff
    return bytes(out)


class Gpu(unittest.TestCase):
    def test_rdma_write_lands_in_vram(self):
        out = programs.build_tests([PROGRAM])
        for device in CONNECTX, CONNECTX_PINNED:
            with self.subTest(device=device.name):
                guest = machine.Guest([f"{out}/{PROGRAM}", "-r", CASE],
                                      **programs.test_guest("base", device, gpu=True))
                guest.run()
                self.assertEqual(guest.status, 0, guest.output.decode() + guest.tail())
                at = guest.vram.find(pattern(SIZE, SEED))
                self.assertNotEqual(at, -1, "the pattern is nowhere in VRAM")
                self.assertEqual(at % PAGE, 0)


class GpuApart(unittest.TestCase):
    # runs: full
    def test_buffer_without_peer_path_is_in_system_memory(self):
        out = programs.build_tests(["guests/apart"])
        for device in CONNECTX, CONNECTX_PINNED:
            with self.subTest(device=device.name):
                options = programs.test_guest("base", device)
                options["devices"].append("gpu-apart")
                # The CPU of an AMD host joins the root ports (cpu_supports_p2pdma()).
                guest = machine.Guest([f"{out}/guests/apart"], accel="tcg", **options)
                guest.run()
                said = guest.output.decode()
                self.assertEqual(guest.status, 0, said + guest.tail())
                self.assertIn("# Totals: pass:3 fail:0 xfail:0 xpass:0 skip:0 error:0", said)


class Mistakes(unittest.TestCase):
    def test_kernel_without_gpu_driver_is_refused(self):
        for kernel in "modular", "/boot/vmlinuz":
            with self.assertRaisesRegex(products.BootError, "the device gpu has a driver for"):
                products.gpu_module(kernel)


if __name__ == "__main__":
    unittest.main()
