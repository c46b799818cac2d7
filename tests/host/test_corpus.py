# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""The corpus of each fuzz target of the ConnectX model, and the program that reads it."""

import glob
import os
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
FUZZ = os.path.join(TOP, "devices/connectx/fuzz")
sys.path.insert(0, FUZZ)

import corpus  # noqa: E402


def run(*words):
    return subprocess.run([os.path.join(FUZZ, "corpus.py"), *words], text=True,
                          capture_output=True, check=False)


def names(pattern):
    return {os.path.splitext(os.path.basename(path))[0]
            for path in glob.glob(os.path.join(FUZZ, pattern))}


class Corpus(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.at = directory.name

    def write(self, name, data):
        path = os.path.join(self.at, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def test_each_target_has_a_corpus(self):
        targets = names("fuzz_*.c")
        self.assertIn("fuzz_wqe", targets)
        self.assertEqual(names("corpus/*.txt"), targets)

    def test_each_corpus_unpacks_and_packs_to_the_same_lines(self):
        for target in sorted(names("corpus/*.txt")):
            path = os.path.join(FUZZ, "corpus", f"{target}.txt")
            with open(path, encoding="utf-8") as file:
                lines = [line for line in file if line.strip() and not line.startswith("#")]
            inputs = corpus.unpack(path)
            self.assertGreater(len(inputs), 50, target)
            self.assertEqual("".join(corpus.pack(*x) for x in inputs.items()), "".join(lines))

    def test_packed_files_unpack_unchanged(self):
        inputs = {f"of-{size}": bytes(i * 7 & 255 for i in range(size))
                  for size in (1, 39, 40, 41, 80, 4096)}
        inputs["text"] = b"# a\n\tb \r\n"
        packed = run("pack", *(self.write(name, data) for name, data in inputs.items()))
        self.assertEqual((packed.returncode, packed.stderr), (0, ""))
        self.assertLess(max(map(len, packed.stdout.splitlines())), 100)
        text = self.write("corpus", f"# What it is.\n\n{packed.stdout}".encode())
        again = os.path.join(self.at, "again")
        done = run("unpack", text, again)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(set(os.listdir(again)), set(inputs))
        for name, data in inputs.items():
            with open(os.path.join(again, name), "rb") as file:
                self.assertEqual(file.read(), data, name)

    def test_a_malformed_line_is_refused(self):
        for number, text in ((2, "# x\na 0"), (1, "a 0g"), (1, "a"), (1, "a "), (1, " 00"),
                             (1, "../a 00"), (1, ".a 00"), (1, "a 00 01"), (1, "a\t00"),
                             (1, "a 0A"), (1, "\t00"), (3, "a 00\n# x\n\t00"),
                             (3, "a 00\nb 00\na 01"), (2, "a 00\n    00")):
            path = self.write("corpus", f"{text}\n".encode())
            with self.subTest(text), self.assertRaisesRegex(corpus.Malformed, f"^{path}:{number}: "):
                corpus.unpack(path)
        no = os.path.join(self.at, "no")
        done = run("unpack", path, no)
        self.assertEqual((done.returncode, os.path.exists(no)), (1, False))
        self.assertIn(f"corpus.py: {path}:2: ", done.stderr)

    def test_invalid_name_or_empty_input_is_not_packed(self):
        for name, data in ((".hidden", b"x"), ("a b", b"x"), ("empty", b"")):
            with self.assertRaisesRegex(corpus.Malformed, f"^{name}: "):
                corpus.pack(name, data)
