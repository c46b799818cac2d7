# SPDX-License-Identifier: GPL-2.0-or-later
# runs: full
"""Our library on kernels that know nothing of us, Debian 13's own and the base without our
patches: it registers by the means that there are, and says what cannot be."""

import os
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import machine  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import CONNECTX, RXE  # noqa: E402

PROGRAM = "interface/oldkernel"
# No dma-buf at all, no new memory for an MR, no device memory.
RXE_LACKS = "reg_mr_fd", "rereg_mr_fd", "dm", "dm-export"


class OldKernel(unittest.TestCase):
    def check(self, kernel, device, lacks=()):
        """Run the program; lacks has the words for what the device cannot do there."""
        out = programs.build_tests([PROGRAM])
        options = programs.test_guest(kernel, device)
        options["setup"] = ["sh", "-c", "modprobe -q vgem; exec \"$@\"", "sh", *options["setup"]]
        can = [word for word in device.can.split() if word not in lacks]
        options["env"].update(MRFD_OLD_KERNEL="1", MRFD_DEVICE_CAN=" ".join(can))
        guest = machine.Guest([f"{out}/{PROGRAM}"], **options)
        guest.run()
        said = guest.output.decode()
        self.assertEqual(guest.status, 0, said + guest.tail())
        self.assertRegex(said, r"# Totals: pass:[1-9]\d* fail:0 xfail:0 xpass:0 skip:\d+ error:0")

    def test_library_works_on_debian_kernel_with_rxe(self):
        self.check("debian", RXE, RXE_LACKS)

    def test_library_works_on_debian_kernel_with_connectx(self):
        self.check("debian", CONNECTX, ["dm-export"])

    def test_library_works_on_stock_kernel_with_rxe(self):
        self.check("stock", RXE, RXE_LACKS)

    def test_library_works_on_stock_kernel_with_connectx(self):
        self.check("stock", CONNECTX)


if __name__ == "__main__":
    unittest.main()
