# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""scripts/check as it is called, in a small project that has host tests only: what it prints,
its exit status, interruption, and patterns."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import xml.etree.ElementTree as xml

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import results  # noqa: E402
from mrfd.machine import patience  # noqa: E402

TESTS = textwrap.dedent("""
    # runs: quick
    import os, sys, time, unittest
    class T(unittest.TestCase):
        def test_good(self):
            pass
        def test_bad(self):
            self.fail("as it should")
        def test_zcrash(self):
            os._exit(3)
        def test_slow(self):
            os.system("echo $$ >sleeper.part; mv sleeper.part sleeper; exec sleep 60")
        def test_known(self):
            self.fail("as expected")
    class U(unittest.TestCase):
        def test_good(self):
            pass
    """)
# What takes long, and a source for rdma-core's names
BUILDS = '#!/bin/sh\necho "$0 $*" >>"$(dirname "$0")/../built"\nexit 1\n'
JOIN = '#!/bin/sh\ncd "$(dirname "$0")/.." && echo "$PWD/joined"\n'


class Check(unittest.TestCase):
    def setUp(self):
        self.top = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        shutil.copytree(os.path.join(TOP, "kit"), os.path.join(self.top, "kit"))
        self.write("scripts/join", JOIN)
        for name in "kernel", "rdma-core", "perftest", "enter", "rootfs":
            self.write(f"scripts/{name}", BUILDS)
        for name in "check", "report", "scoreboard", "bench":
            shutil.copy(os.path.join(TOP, "scripts", name), os.path.join(self.top, "scripts"))
        self.write("tests/host/test_x.py", TESTS)
        self.write("tests/expected-failures",
                   "host/x: tests.host.test_x.T.test_known  # it is known\n")
        self.write("tests/expected-skips", "")
        self.write("tests/rdma-core.runs", "test_mr runs: quick; devices: all\n")
        self.write("joined/tests/test_mr.py", "class MRTest(X):\n    def test_reg(self):\n")

    def write(self, name, text):
        path = os.path.join(self.top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def start(self, *words, program="check", **env):
        return subprocess.Popen(
            [os.path.join(self.top, "scripts", program), *words], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1", **env})

    def check(self, *words, **more):
        """(exit status, lines of its output, its messages)"""
        with self.start(*words, **more) as process:
            out, err = process.communicate(timeout=patience(120))
        self.assertNotIn("Traceback", err)
        return process.returncode, out.splitlines(), err

    def cases(self, name="check-selected"):
        path = os.path.join(self.top, "build/results", name)
        xml.parse(path + ".xml")
        self.assertTrue(os.path.exists(path + ".ktap"))
        return [(c.name.split(".")[-1], c.result)
                for c in results.load(path + ".jsonl").all()]


class SelectedCases(Check):
    def test_printed_name_runs_one_case(self):
        status, out, _ = self.check("host/x: tests.host.test_x.T.test_good")
        self.assertEqual((status, out), (0, [
            "ok     host/x: tests.host.test_x.T.test_good", "", "1 passed, 0 failed, 0 skipped"]))
        self.assertEqual(self.cases(), [("test_good", "ok")])

    def make_check(self, *words):
        shutil.copy(os.path.join(TOP, "Makefile"), self.top)
        theirs = "DEBUG", "FULL", "KCSAN", "SINCE", "T"  # of the make that runs this test
        env = {name: value for name, value in os.environ.items()
               if "MAKE" not in name and name not in theirs}
        return subprocess.run(["make", "check", *words], cwd=self.top, env=env,
                              capture_output=True, text=True, check=False)

    # runs: full
    def test_make_passes_the_pattern_unchanged(self):
        done = self.make_check("T=host/x: tests.host.test_x.T.test_good")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]),
                         (0, "1 passed, 0 failed, 0 skipped"))

    def test_make_refuses_an_empty_revision(self):
        done = self.make_check("SINCE=")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("--since wants a revision, and got an empty one", done.stderr)

    def test_crash_of_selected_case_fails(self):
        status, out, _ = self.check("host/x: tests.host.test_x.T.test_zcrash")
        self.assertEqual((status, out[-1]), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.cases(), [("program", "not ok")])

    def test_reason_of_failure_is_shown(self):
        status, out, _ = self.check("x.T.test_bad")
        self.assertEqual((status, out[-1]), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertIn("    AssertionError: as it should", out)

    def test_expected_failure_is_skipped(self):
        status, out, _ = self.check("host/x: tests.host.test_x.T.test_known")
        self.assertIn("(expected failure: it is known)", out[0])
        self.assertEqual((status, out[-1]), (1, "0 passed, 0 failed, 1 skipped"))

    # runs: full
    def test_pattern_runs_every_matching_case(self):
        self.check("test_good")
        self.assertEqual(self.cases(), [("test_good", "ok")] * 2)

    def test_host_case_builds_nothing(self):
        self.check("x.T.test_good")
        self.assertFalse(os.path.exists(os.path.join(self.top, "built")))


class Mistakes(Check):
    def test_unmatched_pattern_suggests_and_builds_nothing(self):
        status, out, err = self.check("test_goood")
        self.assertEqual((status, out), (2, []))
        self.assertIn("host/x: tests.host.test_x.T.test_good\n", err)
        for name in "built", "build/results":
            self.assertFalse(os.path.exists(os.path.join(self.top, name)), name)

    def test_list_option_builds_nothing(self):
        status, out, _ = self.check("--list")
        modules = ["rxe/rdma-core/test_mr", "connectx/rdma-core/test_mr"]
        self.assertEqual(out[0].split(), ["#", "program", "runs", "guest", "depth", "cases"])
        self.assertEqual((status, [line.split()[0] for line in out[1:]]),
                         (0, ["host/x", "kunit", "demo", *modules]))
        self.assertEqual([line.split()[0] for line in self.check("--list", "test_reg")[1][1:]],
                         modules)
        self.assertFalse(os.path.exists(os.path.join(self.top, "built")))

    def test_wrong_options_exit_with_2(self):
        for program in "check", "bench", "scoreboard", "report":
            status, _, err = self.check("--debgu", program=program)
            self.assertEqual(status, 2)
            self.assertIn(f"scripts/{program}: error: unrecognized arguments: --debgu", err)
            self.assertEqual(self.check("--help", program=program)[0], 0)
        self.assertEqual(self.check("--debug", "--kcsan")[0], 2)
        self.assertEqual(self.check("--full", "--since", "HEAD")[0], 2)
        self.assertEqual(self.check("--full", "host/x")[0], 2)
        self.assertIn("got an empty one", self.check("--since", "")[2])
        status, out, err = self.check("--since", "v0")
        self.assertEqual((status, out), (2, []))
        self.assertIn("--since: git knows no such commit: v0\n", err)
        for words in ("", ), ("host/x", " "):
            status, _, err = self.check(*words)
            self.assertEqual(status, 2)
            self.assertIn("a pattern is empty", err)
        self.assertIn("--stock wants a pattern", self.check("--stock")[2])

    # runs: full
    def test_invalid_seed_exits_with_2(self):
        for seed in "abc", "-1", "0x10000000000000000":
            status, _, err = self.check("host/x", MRFD_SEED=seed)
            self.assertEqual(status, 2)
            self.assertIn(f"MRFD_SEED={seed}: it must be a number", err)
        self.assertEqual(self.check("U.test_good", MRFD_SEED="0x5f")[0], 0)

    # runs: full
    def test_unwritable_build_directory_is_named(self):
        self.write("build", "")
        for program, words in ("check", ["host/x"]), ("report", []):
            status, _, err = self.check(*words, program=program)
            self.assertEqual(status, 1)
            self.assertRegex(err, rf"^{program}: {self.top}/build.*: Not a directory\n$")

    def test_failed_build_fails_the_run(self):
        status, _, err = self.check("rdma-core/")
        self.assertEqual(status, 1)
        self.assertIn("check: scripts/rdma-core failed", err)
        self.assertEqual(self.cases(), [("run", "not ok")])


class Ends(Check):
    def sleeper_ends(self):
        """What has written its number to the file sleeper."""
        with open(os.path.join(self.top, "sleeper"), encoding="utf-8") as file:
            pid = file.read().strip()
        end = time.monotonic() + patience(10)
        while os.path.exists(f"/proc/{pid}"):  # init may not have waited for it yet
            self.assertLess(time.monotonic(), end, "what the test started is left")
            time.sleep(0.05)

    def test_interrupted_run_keeps_its_results(self):
        sleeper = os.path.join(self.top, "sleeper")
        for number in signal.SIGINT, signal.SIGTERM:
            with self.start("host/x") as process:
                for line in process.stdout:
                    if "test_known" in line:  # test_slow is next
                        break
                while not os.path.exists(sleeper):
                    time.sleep(0.02)
                for _ in range(2):  # as timeout(1) and users do
                    process.send_signal(number)
                    time.sleep(0.02)
                err = process.communicate(timeout=patience(60))[1]
            self.assertEqual(process.returncode, 130)
            self.assertNotIn("Traceback", err)
            self.assertIn("check: 1 passed, 1 failed, 1 skipped before it ended", err)
            self.assertIn("check: interrupted", err)
            self.assertEqual(self.cases(), [("test_bad", "not ok"), ("test_good", "ok"),
                                            ("test_known", "skip"), ("run", "not ok")])
            self.sleeper_ends()
            os.unlink(sleeper)

    def test_second_run_beside_the_first_is_refused(self):
        with self.start("host/x") as first:
            while not os.path.exists(os.path.join(self.top, "sleeper")):
                time.sleep(0.02)
            status, out, err = self.check("host/x")
            first.send_signal(signal.SIGINT)
            first.communicate(timeout=patience(60))
        self.assertEqual((status, out), (1, []))
        self.assertRegex(err, "check: another run in this checkout keeps its results in .*"
                         "build/results/check-selected.jsonl: wait")
        self.assertEqual(self.cases(), [("test_bad", "not ok"), ("test_good", "ok"),
                                        ("test_known", "skip"), ("run", "not ok")])

    def test_program_that_hangs_is_ended(self):
        path = os.path.join(self.top, "kit/mrfd/pool.py")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("LIMIT = 1800 ", text)
        self.write("kit/mrfd/pool.py", text.replace("LIMIT = 1800 ", "LIMIT = 3 "))
        status, out, _ = self.check("host/x: tests.host.test_x.T.test_slow")
        self.assertEqual((status, out[-1]), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertRegex(out[0], r"not ok host/x: program")
        self.assertIn("still running after", "\n".join(out))
        self.sleeper_ends()

    def test_interrupt_ends_a_build(self):
        """A build is a process group of its own, which no terminal interrupts."""
        sleeper = os.path.join(self.top, "sleeper")
        for name in "kernel", "rdma-core":
            self.write(f"scripts/{name}", "#!/bin/bash\nset -m\n"
                       f"sh -c 'echo $$ >{sleeper}.part; mv {sleeper}.part {sleeper}; exec sleep 300' &\n"
                       "trap 'kill $!; exit 143' TERM\nwait\n")
        with self.start("rdma-core/test_mr") as process:
            while not os.path.exists(sleeper):
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=patience(60))  # the build has its stderr
        self.sleeper_ends()

    # runs: full
    def test_closed_stdout_exits_as_by_sigpipe(self):
        with self.start("host/x") as process:
            process.stdout.close()
            err = process.stderr.read()
        self.assertEqual(process.returncode, 128 + signal.SIGPIPE)
        self.assertNotIn("Traceback", err)
        self.assertEqual(self.cases()[-1], ("run", "not ok"))

    def test_full_run_is_named_check(self):
        self.write("tests/host/test_x.py", "# runs: quick\nimport unittest\n" + TESTS[TESTS.index("class U"):])
        self.check()
        self.assertEqual(results.load(f"{self.top}/build/results/check.jsonl").run["name"], "check")


if __name__ == "__main__":
    unittest.main()
