# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""Documentation/registration.svg is what its program makes, and each function that it
names is in the file that it names."""

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


def load():
    loader = importlib.machinery.SourceFileLoader("registration", PROGRAM)
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
        done = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("usage: Documentation/registration.py", done.stdout)
        self.assertEqual(subprocess.run([PROGRAM, "a", "b"], capture_output=True).returncode, 2)


if __name__ == "__main__":
    unittest.main()
