# SPDX-License-Identifier: GPL-2.0-or-later
# runs: debug
"""A leak of memory on the debug kernel fails the guest, even one that happens just before the
command ends; the report names the program that allocated the object."""

import os
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import machine  # noqa: E402
from mrfd import products  # noqa: E402
from mrfd.paths import inside  # noqa: E402

KERNEL = os.environ.get("MRFD_KERNEL", "debug")
# single_open() of /proc allocates and single_release() frees, unless a step leaves it out.  The
# command leaks at its end, just before the leak scans.
LEAK = """
insmod "$0" || exit 1
exec 3>/dev/mrfd_steps 4</proc/self/status
echo "single_release return 0" >&3
echo "at 1" >&3
exec 4<&-
"""


class Leaks(unittest.TestCase):
    def test_leak_just_before_the_end_fails_the_guest(self):
        module = inside(products.tool("steps", *products.KERNELS[KERNEL]))
        guest = machine.Guest(["sh", "-c", LEAK, module], kernel=KERNEL).run()
        self.assertEqual(guest.status, machine.COMPLAINED, f"{guest.why}\n{guest.tail()}")
        objects = [report.text for report in guest.reports if "unreferenced" in report.head]
        self.assertTrue(any("single_open" in text for text in objects), guest.tail())
        for text in objects:
            self.assertIn('comm "sh"', text)


if __name__ == "__main__":
    unittest.main()
