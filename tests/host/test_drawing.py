# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""Documentation/registration.svg and data-direct.svg are what their programs make.  Each
function that the first one names is in the file that it names; the texts of the second one fit
into their boxes, and no way crosses a text."""

import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import products  # noqa: E402

PROGRAM = os.path.join(TOP, "Documentation", "registration.py")
WAYS = os.path.join(TOP, "Documentation", "data_direct.py")


def load(program=PROGRAM):
    loader = importlib.machinery.SourceFileLoader("drawing", program)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Drawing(unittest.TestCase):
    def test_registration_svg_is_up_to_date(self):
        with open(os.path.join(TOP, "Documentation", "registration.svg"),
                  encoding="utf-8") as file:
            self.assertEqual(file.read(), load().drawing(), f"run {PROGRAM}")

    def test_drawing_is_svg_with_title(self):
        root = xml.etree.ElementTree.fromstring(load().drawing())
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        self.assertIn("ibv_reg_mr_fd", root.findtext("{http://www.w3.org/2000/svg}title"))

    def test_every_named_function_is_in_its_file(self):
        module = load()
        for _, function, where, _ in module.REGISTRATION + module.ACCESS:
            project, path = where.split(": ")
            tree = products.tool("join", project)
            with self.subTest(function=function), \
                    open(os.path.join(tree, path), encoding="utf-8") as file:
                # The definition: the name at the start of a line or after its type.
                self.assertRegex(file.read(), rf"(?m)^(\w[\w \t*]*[ *]|){re.escape(function)}\(")

    def test_help_exits_with_0_and_wrong_call_with_2(self):
        for program in PROGRAM, WAYS:
            done = subprocess.run([program, "--help"], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"usage: {os.path.relpath(program, TOP)}", done.stdout)
            self.assertEqual(subprocess.run([program, "a", "b"], capture_output=True).returncode, 2)


class Ways(unittest.TestCase):
    """Documentation/data_direct.py"""

    def setUp(self):
        self.program = load(WAYS)

    def test_data_direct_svg_is_up_to_date(self):
        with open(os.path.join(TOP, "Documentation", "data-direct.svg"), encoding="utf-8") as file:
            self.assertEqual(file.read(), self.program.drawing(), f"run {WAYS}")

    def test_drawing_is_svg_with_title(self):
        root = xml.etree.ElementTree.fromstring(self.program.drawing())
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        self.assertIn("Data Direct", root.findtext("{http://www.w3.org/2000/svg}title"))

    def test_each_text_fits_and_no_way_crosses_it(self):
        """A letter takes 6.4 pixels at most in a description: measured."""
        root = xml.etree.ElementTree.fromstring(self.program.drawing())
        svg = "{http://www.w3.org/2000/svg}"
        words = [(float(text.get("x")), float(text.get("y")), len(text.text) * 6.4)
                 for text in root.iter(f"{svg}text") if text.get("class") == "what"]
        for row, column, columns, *_ in self.program.BOXES:
            x, y = self.program.left(column), self.program.ROWS[row]
            right = x + columns * (self.program.COLUMN + self.program.GAP) - self.program.GAP
            inside = [(at, width) for at, base, width in words
                      if x < at < right and y < base < y + self.program.HEIGHTS[row]]
            for at, width in inside:
                self.assertLessEqual(at + width, right + 10)
        for kind, _, path in self.program.WAYS:
            x, y = map(float, re.match(r"M(\d+) (\d+)", path).groups())
            for move, number in re.findall(r"([HV])(\d+)", path):
                to = (float(number), y) if move == "H" else (x, float(number))
                for at, base, width in words:
                    across = (min(x, to[0]) < at + width and max(x, to[0]) > at
                              and min(y, to[1]) < base and max(y, to[1]) > base - 10)
                    self.assertFalse(across, f"{kind} crosses the text at {at} {base}")
                x, y = to


if __name__ == "__main__":
    unittest.main()
