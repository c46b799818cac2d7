# SPDX-License-Identifier: GPL-2.0-or-later
# runs: full
"""Behind a vIOMMU each function of the card has a domain of its own: a buffer of Data Direct is
mapped for the second function alone, and every byte is right, on Debian's own kernel.  An access
by the wrong function would find other memory at the same address."""

import os
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import machine  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import CONNECTX_DIRECT  # noqa: E402
from mrfd.traffic import by_function  # noqa: E402

PROGRAM = "access/data"
# Without caching-mode QEMU does not start; before the devices that it is for.
IOMMU = "intel-iommu,caching-mode=on,intremap=off"


class Iommu(unittest.TestCase):
    def test_data_direct_behind_a_viommu_has_the_right_bytes(self):
        out = programs.build_tests([PROGRAM])
        options = programs.test_guest("debian", CONNECTX_DIRECT)
        options.update(devices=[IOMMU, "connectx", "direct"], append="intel_iommu=on")
        script = ("set -e; for function in 0x1013 0x2100; do for device in /sys/bus/pci/devices/*;"
                  " do ! grep -q $function $device/device || readlink $device/iommu_group; done;"
                  f" done; {out}/{PROGRAM} -v udmabuf")
        guest = machine.Guest(["bash", "-c", script], **options)
        guest.run()
        said = guest.output.decode()
        self.assertEqual(guest.status, 0, said + guest.tail())
        self.assertRegex(said, r"# Totals: pass:1\d fail:0 xfail:0 xpass:0 skip:\d+ error:0")
        groups = [line for line in said.splitlines() if "/iommu_groups/" in line]
        self.assertEqual(len(set(groups)), 2, said)
        second = by_function(guest)["second"]
        self.assertGreater(min(second.read, second.written), 300000)
        self.assertGreater(second.atomics, 0)


if __name__ == "__main__":
    unittest.main()
