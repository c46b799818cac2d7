# SPDX-License-Identifier: GPL-2.0-or-later
# runs: full
"""The RDMA stack as modules, as distributions have it: no driver needs ib_uverbs because of us,
the modules load when a device is added, and data moves."""

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
        out = programs.build_tests([PROGRAM])
        for device, driver in DRIVERS.items():
            with self.subTest(device=device.name):
                script = f"set -e; {out}/{PROGRAM}; cut -d' ' -f1 /proc/modules"
                guest = machine.Guest(["bash", "-c", script],
                                      **programs.test_guest(KERNEL, device))
                guest.run()
                said = guest.output.decode()
                self.assertEqual(guest.status, 0, said + guest.tail())
                for module in driver, "ib_uverbs", "ib_core":
                    self.assertIn(f"\n{module}\n", said)


if __name__ == "__main__":
    unittest.main()
