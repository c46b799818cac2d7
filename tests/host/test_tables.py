# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""Documentation/tests.md is what its program makes, and says of each test in a few lines what
it shows."""

import importlib.util
import os
import subprocess
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import programs  # noqa: E402

PROGRAM = os.path.join(TOP, "Documentation", "tests.py")
LONGEST = 300   # characters that a row has for what a program shows: three lines of a comment


class Table(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        spec = importlib.util.spec_from_file_location("tests_table", PROGRAM)
        cls.program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(cls.program)

    def test_page_is_up_to_date(self):
        with open(self.program.PAGE, encoding="utf-8") as file:
            self.assertEqual(file.read(), self.program.page(), f"run {PROGRAM}")

    def test_each_program_has_one_row(self):
        rows = [line.split(" | ")[0] for line in self.program.page().split("\n")]
        for name in {program.name for program in programs.ours("base")}:
            self.assertEqual(sum(row == f"| {name}" or row.startswith(f"| [{name}](")
                                 for row in rows), 1, name)

    def test_each_head_begins_with_a_short_paragraph(self):
        for program in programs.ours("base"):
            with self.subTest(program.name):
                self.assertRegex(self.program.shows(program), r"^\S.{10,}\.$")
                self.assertLessEqual(len(self.program.shows(program)), LONGEST)

    def test_first_paragraph_of_the_head_is_taken(self):
        for name, text, wanted in (
                ("a.c", "// SPDX\n/* runs: quick; devices: rxe */\n/* runs: full; devices: pinned */\n"
                 "/*\n * One\n * two.\n *\n * Three.\n */\nint x; /* four */\n", "One two."),
                ("b.c", "// SPDX\n/* runs: quick */\n/* One. */\n", "One."),
                ("c.c", "// SPDX\n/* runs: quick */\n\nint x; /* no head */\n", ""),
                ("d.py", "# SPDX\n# runs: quick\n\"\"\"One\ntwo.\n\nThree.\"\"\"\n", "One two."),
                ("e.py", "# SPDX\n# runs: quick\nimport os\n", "")):
            with self.subTest(name):
                self.assertEqual(self.program.first_paragraph(self.program.head_of(name, text)),
                                 wanted)

    def test_help_exits_with_0_and_wrong_call_with_2(self):
        done = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("usage: Documentation/tests.py", done.stdout)
        self.assertEqual(subprocess.run([PROGRAM, "x"], capture_output=True,
                                        check=False).returncode, 2)


if __name__ == "__main__":
    unittest.main()
