# SPDX-License-Identifier: GPL-2.0-or-later
# runs: full
"""The RDMA stack as modules, as distributions have it: no driver needs ib_uverbs because of us,
the modules load when a device is added, and data moves.  Without CONFIG_PCI_P2PDMA no device
says that it reaches the memory of another one.

A video driver of the kernel, vim2m, has device memory, and nobody waits for it
(tests/guests/video.c).  The memory of a DM counts in the memory cgroup of its owner
(tests/guests/memcg.c)."""

import os
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import machine  # noqa: E402
from mrfd import products  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import CONNECTX, RXE  # noqa: E402

KERNEL = "modular"
PROGRAM = "access/data"
DRIVERS = {RXE: "rdma_rxe", CONNECTX: "mlx5_ib"}


class Modules(unittest.TestCase):
    def test_drivers_do_not_need_uverbs(self):
        image = products.tool("kernel", "--modules", "--modular")
        with open(os.path.join(os.path.dirname(image), "modules/modules.dep"),
                  encoding="utf-8") as f:
            needs = {os.path.basename(path).removesuffix(".ko"): text
                     for path, text in (line.strip().split(":") for line in f)}
        self.assertIn("ib_uverbs", needs)
        for driver in DRIVERS.values():
            self.assertIn("ib_core.ko", needs[driver])
            self.assertNotIn("ib_uverbs.ko", needs[driver], driver)

    def test_modules_load_and_data_moves(self):
        for device, driver in DRIVERS.items():
            with self.subTest(device=device.name):
                said = self.run_program(
                    device, "trap \"cut -d' ' -f1 /proc/modules\" EXIT", PROGRAM)
                for module in driver, "ib_uverbs", "ib_core":
                    self.assertIn(f"\n{module}\n", said)

    def run_program(self, device, before, program, *arguments, can=None):
        """What the program says after the commands BEFORE."""
        out = programs.build_tests([program])
        options = programs.test_guest(KERNEL, device)
        if can is not None:
            options["env"]["MRFD_DEVICE_CAN"] = can
        guest = machine.Guest(
            ["bash", "-ec", before + '; "$@"', program, f"{out}/{program}", *arguments], **options)
        guest.run()
        said = guest.output.decode()
        self.assertEqual(guest.status, 0, said + guest.tail())
        return said

    def test_capabilities_are_those_of_a_kernel_without_p2pdma(self):
        for device in DRIVERS:
            with self.subTest(device=device.name):
                said = self.run_program(
                    device, ":", "interface/device", "-t",
                    "capabilities_agree_with_query_mr_fd_caps",
                    can=" ".join(word for word in device.can.split() if word != "p2p"))
                self.assertIn("pass:1 ", said)

    def test_video_driver_that_has_device_memory_makes_nobody_wait(self):
        for device in DRIVERS:
            with self.subTest(device=device.name):
                said = self.run_program(device, "modprobe vim2m", "guests/video")
                self.assertIn("pass:2 ", said)

    def test_dm_counts_in_the_memory_cgroup_of_its_owner(self):
        self.assertIn("pass:1 ", self.run_program(RXE, ":", "guests/memcg"))


if __name__ == "__main__":
    unittest.main()
