# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick; devices: all
"""The program in the README compiles and does what the README says."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
from lib import device  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class Readme(unittest.TestCase):
    def test_readme_program_registers_gpu_memory(self):
        device.need("reg_mr_fd")
        with open(os.path.join(TOP, "README.md"), encoding="utf-8") as file:
            program = re.search(r"^```c\n(.*?)^```", file.read(), re.M | re.S)[1]
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "example")
            with open(path + ".c", "w", encoding="utf-8") as file:
                file.write(program)
            subprocess.run(["gcc", "-Wall", "-Werror", path + ".c", "-o", path, "-libverbs",
                            "-ldrm"], check=True)  # the paths are those of kit/mrfd/environment.py
            said = subprocess.run([path], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertRegex(said, r"peers write 3145728 bytes of GPU memory at 0 with rkey 0x[0-9a-f]+")
