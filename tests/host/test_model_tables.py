# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""The tables of Documentation/connectx.md are what the model's source says."""

import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import products  # noqa: E402

PROGRAM = os.path.join(TOP, "Documentation", "connectx.py")


def load():
    loader = importlib.machinery.SourceFileLoader("connectx_tables", PROGRAM)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Tables(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = load()
        cls.header = os.path.join(products.tool("join", "linux"), cls.program.HEADER)

    def test_tables_are_up_to_date(self):
        with open(self.program.PAGE, encoding="utf-8") as file:
            self.assertEqual(file.read(), self.program.page(self.header), f"run {PROGRAM}")

    def test_each_kernel_command_is_listed_once(self):
        have, known = self.program.modelled(), self.program.opcodes(self.header)
        self.assertEqual(set(have) - set(known), set())
        self.assertIn("CREATE_QP", have)
        lines = list(self.program.commands(self.header))
        self.assertIn(f"{len(have)} of the {len(known)} commands", lines[0])
        shown = [command for line in lines[4:]
                 for command in line.strip("| ").split(" | ")[2].split(", ")]
        self.assertEqual(sorted(shown), sorted(f"{name} {known[name]:03x}" for name in have))

    def test_no_capability_is_left_out(self):
        body = re.search(r"struct field general\[\] = \{\n(.*?)^\};", self.program.read("caps.c"),
                         re.DOTALL | re.MULTILINE)[1]
        wanted = re.findall(r"GENERAL\((\w+)", body)
        text = "\n".join(self.program.capabilities(self.header))
        for name in wanted:
            self.assertRegex(text, rf"`{name}` \d")

    def test_every_limit_is_a_number(self):
        for line in list(self.program.limits(self.header))[2:]:
            self.assertRegex(line, r"\| (2\^)?\d+( [KM]iB)? \|$")

    def test_help_exits_with_0_and_wrong_call_with_2(self):
        done = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("usage: Documentation/connectx.py", done.stdout)
        self.assertEqual(subprocess.run([PROGRAM, "a", "b"], capture_output=True,
                                        check=False).returncode, 2)


if __name__ == "__main__":
    unittest.main()
