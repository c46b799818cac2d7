# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""The floors of the ConnectX model: an include or a call of what is above does not build."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd.machine import patience  # noqa: E402
from mrfd.paths import BUILD, SCRIPTS, inside  # noqa: E402

MODEL = os.path.join(TOP, "devices/connectx")


class Floors(unittest.TestCase):
    """On a copy of the model, of which the floor without headers of others is built."""

    def setUp(self):
        os.makedirs(BUILD, exist_ok=True)
        directory = tempfile.TemporaryDirectory(dir=BUILD, prefix="floors-")
        self.addCleanup(directory.cleanup)
        self.at = os.path.join(directory.name, "connectx")
        shutil.copytree(MODEL, self.at, ignore=shutil.ignore_patterns("corpus"))

    def append(self, name, text):
        with open(os.path.join(self.at, name), "a", encoding="utf-8") as file:
            file.write(text)

    def make(self, target):
        out = inside(os.path.dirname(self.at)) + "/out"
        return subprocess.run(
            [os.path.join(SCRIPTS, "enter"), "make", "-C", inside(self.at), f"OUT={out}",
             "LINUX=/nowhere", "RDMA=/nowhere", f"{out}/{target}"], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=patience(120), check=False)

    def test_a_floor_builds_alone(self):
        done = self.make("floors/base")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_an_include_from_above_does_not_compile(self):
        self.append("base/table.c", '#include "packet.h"\n')
        done = self.make("base/table.o")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("packet.h: No such file or directory", done.stderr)

    def test_a_call_from_below_does_not_link(self):
        self.append("base/table.c", "void link_free(void *l);\n"
                                    "void table_link(void *l);\n"
                                    "void table_link(void *l) { link_free(l); }\n")
        done = self.make("floors/base")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("undefined reference to `link_free'", done.stderr)
        self.assertIn("base calls what is not in it", done.stderr)

    def test_every_source_is_on_a_floor(self):
        with open(os.path.join(MODEL, "Makefile"), encoding="utf-8") as file:
            floors = next(line for line in file if line.startswith("floors := ")).split()[2:]
        folders = {os.path.relpath(os.path.dirname(path), MODEL)
                   for path in glob.glob(f"{MODEL}/**/*.[ch]", recursive=True)}
        self.assertEqual(folders - {"fuzz", "test/fuzz"} - {f"test/{name}" for name in floors},
                         set(floors))

    def test_no_two_files_have_one_name(self):
        """An include by a name finds one file; the tests are copied to one directory."""
        names = [os.path.basename(path) for path in glob.glob(f"{MODEL}/**/*.[ch]", recursive=True)
                 if not path.endswith("/main.c")]
        self.assertEqual(sorted(names), sorted(set(names)))


if __name__ == "__main__":
    unittest.main()
