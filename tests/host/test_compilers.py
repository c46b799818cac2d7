# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""The cache of compilers never gives an object whose source has changed (kit/compilers), and
builds that start side by side make the library for huge pages once (kit/huge.c)."""

import os
import shutil
import subprocess
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
# As kbuild compiles the image of a kernel, whose contents are in another file.
COMPILE = 'cd "$1" && gcc -Wp,-MMD,piggy.d -c -o piggy.o piggy.S && objcopy -O binary piggy.o out'


class Cache(unittest.TestCase):
    def setUp(self):
        os.makedirs(os.path.join(TOP, "build"), exist_ok=True)
        self.at = tempfile.mkdtemp(dir=os.path.join(TOP, "build"), prefix="compilers-")
        self.addCleanup(shutil.rmtree, self.at)

    def write(self, name, text):
        with open(os.path.join(self.at, name), "w", encoding="ascii") as f:
            f.write(text)

    def image(self, contents):
        self.write("contents", contents)
        subprocess.run([os.path.join(TOP, "scripts/enter"), "sh", "-c", COMPILE, "sh",
                        f"/mrfd/build/{os.path.basename(self.at)}"], cwd=TOP, check=True)
        with open(os.path.join(self.at, "out"), encoding="ascii") as f:
            return f.read()

    def test_included_file_of_the_same_length_is_read_again(self):
        # Nothing of an earlier run of this test is in the cache.
        self.write("piggy.S", f"/* {os.urandom(8).hex()} */\n"
                              '.data\n.incbin "contents"\n')
        self.assertEqual(self.image("old kernel"), "old kernel")
        self.assertEqual(self.image("new kernel"), "new kernel")

    def test_builds_side_by_side_share_the_library_for_huge_pages(self):
        where = f"/mrfd/build/{os.path.basename(self.at)}"
        command = f". /mrfd/kit/lib.sh; build={where}; use_huge_pages; exec true"
        builds = [subprocess.Popen([os.path.join(TOP, "scripts/enter"), "bash", "-c", command],
                                   cwd=TOP, stderr=subprocess.PIPE, text=True) for _ in range(8)]
        self.assertEqual([(build.communicate()[1], build.returncode) for build in builds],
                         [("", 0)] * len(builds))
        self.assertEqual(sorted(os.listdir(self.at)), ["huge.so", "huge.so.lock"])


if __name__ == "__main__":
    unittest.main()
