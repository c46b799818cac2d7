# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""connectx and connectx-fabric as programs: --help, the man pages and the options that they
take agree, a wrong option is refused, and the fabric is in a sandbox.

What is about connectx and its sandbox is in test_connectx.py."""

import functools
import os
import re
import subprocess
import sys
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import products  # noqa: E402
from mrfd.fabric import Fabric  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from mrfd.paths import INSIDE, SCRIPTS  # noqa: E402
from tests.host.model import confined  # noqa: E402

PROGRAMS = "connectx", "connectx-fabric"
# The word that begins a line or follows a comma, and its argument.
OPTION = re.compile(r"(--[a-z-]+)(?: ([A-Z]+))?(?:, |\s|$)")


def setUpModule():
    """Build it before any test is timed."""
    products.model_directory()


def enter(*words):
    return subprocess.run([os.path.join(SCRIPTS, "enter"), *words], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=patience(120), check=False)


def program(name, *words):
    return enter(f"{products.model_directory()}/{name}", *words)


@functools.cache
def page(name):
    """The man page as a terminal shows it, on lines so wide that none breaks, and what is
    wrong with it."""
    done = enter("env", "MANWIDTH=1000", "man", "--warnings", "-l",
                 f"{INSIDE}/devices/connectx/{name}.1")
    return done.stdout, done.stderr


def section(text, head):
    return re.search(rf"^{head}\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)[1]


def options(text):
    """{option: its argument} of the lines that begin with options"""
    found = {}
    for line in text.splitlines():
        at = len(line) - len(line.lstrip())
        while match := OPTION.match(line, at):
            found[match[1]] = match[2]
            at = match.end() if match[0].endswith(", ") else len(line)
    return found


class Usage(unittest.TestCase):
    def test_help_and_man_page_list_same_options(self):
        for name in PROGRAMS:
            with self.subTest(name):
                done = program(name, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                offered = options(done.stdout)
                self.assertEqual(offered["--socket"], "PATH")
                self.assertEqual(offered, options(section(page(name)[0], "OPTIONS")))
                used = set(re.findall(r"--[a-z-]+", section(page(name)[0], "SYNOPSIS")))
                self.assertEqual(used, set(offered) - {"--help", "--version"})

    def test_offered_options_exist(self):
        for name in PROGRAMS:
            for option, argument in options(program(name, "--help").stdout).items():
                with self.subTest(name, option=option):
                    done = program(name, option if argument else f"{option}=x")
                    self.assertEqual((done.returncode, done.stdout), (2, ""))
                    self.assertIn("requires an argument" if argument else
                                  "doesn't allow an argument", done.stderr)

    def test_wrong_argument_is_named(self):
        some = ["--socket", "/tmp/socket"]
        for name, words, said in (
                (None, ["--no-such"], "unrecognized option '--no-such'"),
                (None, [], "--socket PATH is missing"),
                (None, [*some, "word"], "word"),
                ("connectx", [*some, "--guid", "x"], "--guid x"),
                ("connectx-fabric", [*some, "--drop", "101"], "--drop 101"),
                ("connectx-fabric", [*some, "--delay", "x"], "--delay x")):
            for one in [name] if name else PROGRAMS:
                with self.subTest(one, words=words):
                    done = program(one, *words)
                    self.assertEqual((done.returncode, done.stdout), (2, ""))
                    self.assertIn(said, done.stderr)
                    self.assertIn(f"Try {one} --help.", done.stderr)

    def test_man_pages_are_well_formed(self):
        for name in PROGRAMS:
            with self.subTest(name):
                text, wrong = page(name)
                self.assertEqual(wrong, "")
                self.assertIn(f"{name} - ", section(text, "NAME"))


class Sandbox(unittest.TestCase):
    def test_fabric_runs_in_its_sandbox(self):
        with Fabric() as fabric:
            end = time.monotonic() + patience(30)
            found = confined(fabric.pid())
            while found < ("2", "1", 1) and time.monotonic() < end:
                time.sleep(0.05)  # it listens a moment before
                found = confined(fabric.pid())
        self.assertEqual(found[:2], ("2", "1"))
        self.assertGreaterEqual(found[2], 1)


if __name__ == "__main__":
    unittest.main()
