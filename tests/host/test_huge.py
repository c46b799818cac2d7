# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""What the kit runs to build has its large pieces of memory in huge pages (kit/huge.c)."""

import os
import subprocess
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

# Print the flags of memory that is mapped now, as /proc/PID/smaps names them.
LOOK = """
import ctypes, mmap
memory = mmap.mmap(-1, {}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
inside = False
for line in open("/proc/self/smaps"):
    first = line.split()[0]
    if "-" in first:
        begin, end = (int(x, 16) for x in first.split("-"))
        inside = begin <= at < end
    elif inside and first == "VmFlags:":
        print(line)
"""
RUN = '. kit/lib.sh; look() { python3 -c "$1"; }; in_userland look "$1"'


@unittest.skipUnless(os.path.exists("/sys/kernel/mm/transparent_hugepage"),
                     "this kernel has no transparent huge pages")
class HugePages(unittest.TestCase):
    def flags(self, size):
        done = subprocess.run(["bash", "-c", RUN, "huge", LOOK.format(size)], cwd=TOP, text=True,
                              check=False, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_large_piece_of_memory_asks_for_huge_pages(self):
        self.assertIn("hg", self.flags(8 << 20))

    def test_small_piece_of_memory_asks_for_no_huge_pages(self):
        flags = self.flags(64 << 10)
        self.assertIn("VmFlags:", flags)
        self.assertNotIn("hg", flags)


if __name__ == "__main__":
    unittest.main()
