# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""Results are kept once; KTAP, JUnit and the sums are made from them."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import results  # noqa: E402
from mrfd.cases import Case  # noqa: E402

CASES = [
    Case("access/data", "f.v.one", "ok", "", ["a line"], "rxe", 1.25),
    Case("access/data", "f.v.two", "skip", "rxe has no flush", [], "rxe"),
    Case("access/data", "f.v.three", "not ok", "it <broke>", ["1 & 2", "\x1b[1m\x00 ]]>"], "rxe"),
    Case("host/boot", "T.test_x", "ok", "MRFD_SEED=5"),
]


class Kept(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        self.path = os.path.join(self.directory, "check")

    def run_of(self, cases, why=None, kernel="base"):
        """A run with these cases, in two programs; why None: it is killed."""
        run = results.Run(self.path, kernel)
        for case in cases:
            run.add(case)
        run.keep([case for case in cases if case.device])
        if why is not None:
            run.close(why)
        else:
            run.file.close()

    def text(self, suffix):
        with open(self.path + suffix, encoding="utf-8") as file:
            return file.read()


class Runs(Kept):
    def test_kept_cases_are_loaded(self):
        self.run_of(CASES, "")
        loaded = results.load(self.path + ".jsonl")
        self.assertEqual((loaded.cases, loaded.why), (CASES, ""))
        self.assertEqual((loaded.run["name"], loaded.run["kernel"]), ("check", "base"))
        self.assertEqual(loaded.all(), CASES)

    def test_jsonl_line_has_all_of_a_case(self):
        self.run_of(CASES[:1], "", "debug")
        self.assertEqual(json.loads(self.text(".jsonl").splitlines()[1]), {
            "kernel": "debug", "device": "rxe", "program": "access/data", "case": "f.v.one",
            "result": "ok", "reason": "", "seconds": 1.25, "log": ["a line"]})

    def test_log_may_grow_until_program_ends(self):
        run = results.Run(self.path, "base")
        case = Case("p", "c", "not ok")
        run.add(case)
        case.log.append("a traceback")
        run.keep([case])
        run.close()
        self.assertEqual(results.load(self.path + ".jsonl").cases[0].log, ["a traceback"])

    def test_run_ended_early_keeps_cases_and_fails(self):
        self.run_of(CASES, "interrupted")
        loaded = results.load(self.path + ".jsonl")
        self.assertEqual(loaded.cases, CASES)
        self.assertEqual((loaded.all()[-1].title, loaded.all()[-1].reason),
                         ("check: run", "interrupted"))
        self.assertIn("not ok 5 check: run\n", self.text(".ktap"))
        self.assertIn('message="interrupted"', self.text(".xml"))

    def test_killed_run_keeps_ended_programs(self):
        self.run_of(CASES)
        with open(self.path + ".jsonl", "a", encoding="utf-8") as file:
            file.write('{"kernel": "ba')
        loaded = results.load(self.path + ".jsonl")
        self.assertEqual((loaded.cases, loaded.why), (CASES[:3], "it was killed"))

    def test_new_run_removes_old_results(self):
        self.run_of(CASES, "")
        self.run_of(CASES[:1])
        self.assertEqual(sorted(os.listdir(self.directory)), ["check.jsonl", "check.lock"])


class Ktap(Kept):
    def test_ktap_lists_results_and_logs(self):
        self.run_of(CASES, "")
        self.assertEqual(self.text(".ktap"), """\
KTAP version 1
1..4
ok 1 rxe/access/data: f.v.one
ok 2 rxe/access/data: f.v.two # SKIP rxe has no flush
# it <broke>
# 1 & 2
# \x1b[1m\x00 ]]>
not ok 3 rxe/access/data: f.v.three
# MRFD_SEED=5
ok 4 host/boot: T.test_x
""")


class Junit(Kept):
    ATTRIBUTES = {  # what each element must have: CI systems read these
        "testsuites": {"name", "tests", "failures", "errors", "skipped", "time"},
        "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
        "testcase": {"classname", "name", "time"}, "failure": {"message", "type"},
        "skipped": {"message"}, "system-out": set()}
    CHILDREN = {"testsuites": {"testsuite"}, "testsuite": {"testcase"},
                "testcase": {"failure", "skipped", "system-out"},
                "failure": set(), "skipped": set(), "system-out": set()}

    def check(self, element):
        self.assertEqual(set(element.attrib), self.ATTRIBUTES[element.tag])
        self.assertLessEqual({e.tag for e in element}, self.CHILDREN[element.tag])
        for name in "tests", "failures", "errors", "skipped":
            if name in element.attrib:
                self.assertRegex(element.get(name), r"^\d+$")
        if element.tag == "testcase":
            self.assertLessEqual(len(element), 1)
        if "tests" in element.attrib:
            cases = list(element.iter("testcase"))
            self.assertEqual(int(element.get("tests")), len(cases))
            self.assertEqual(int(element.get("failures")), len(list(element.iter("failure"))))
            self.assertEqual(int(element.get("skipped")), len(list(element.iter("skipped"))))
        for child in element:
            self.check(child)

    def parsed(self, **more):
        self.run_of(CASES, "", **more)
        root = xml.parse(self.path + ".xml").getroot()
        self.assertEqual(root.tag, "testsuites")
        self.check(root)
        return root

    def test_junit_has_suites_cases_and_counts(self):
        root = self.parsed()
        self.assertEqual([suite.get("name") for suite in root], ["rxe/access/data", "host/boot"])
        self.assertEqual([f"{case.get('classname')}: {case.get('name')}"
                          for case in root.iter("testcase")], [case.title for case in CASES])
        self.assertEqual((root.get("tests"), root.get("failures"), root.get("skipped")),
                         ("4", "1", "1"))
        self.assertEqual(root.find("*/testcase").get("time"), "1.250")
        self.assertEqual(root.find("*/testcase/skipped").get("message"), "rxe has no flush")
        self.assertEqual([e.text for e in root.iter("system-out")], ["a line", "MRFD_SEED=5"])

    def test_characters_outside_xml_are_escaped(self):
        failure = self.parsed().find("*/testcase/failure")
        self.assertEqual(failure.get("message"), "it <broke>")
        self.assertEqual(failure.text, "1 & 2\n\\x1b[1m\\x00 ]]>")

    def test_class_name_has_the_kernel(self):
        self.assertEqual(self.parsed(kernel="debug").find("*/testcase").get("classname"),
                         "rxe/access/data (debug)")


class Ci(unittest.TestCase):
    """.ci/run in a copy of what it needs, with commands that leave given results."""

    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        for name in ".ci/run", "scripts/report":
            os.makedirs(os.path.join(self.top, os.path.dirname(name)), exist_ok=True)
            shutil.copy(os.path.join(TOP, name), os.path.join(self.top, name))
        shutil.copytree(os.path.join(TOP, "kit"), os.path.join(self.top, "kit"))
        os.makedirs(os.path.join(self.top, "results"))

    def leaves(self, command, cases, why=""):
        """The run COMMAND has these results, and an exit status that fits."""
        run = results.Run(os.path.join(self.top, "results", command), "base")
        for case in cases:
            run.add(case)
        run.close(why)
        failed = why or any(case.result == "not ok" for case in cases)
        with open(os.path.join(self.top, "results", f"{command}.status"), "w",
                  encoding="utf-8") as file:
            file.write("2" if failed else "0")

    def ci(self):
        """The exit status and last line of .ci/run; self.printed is all that it printed."""
        path = os.path.join(self.top, "make")
        with open(path, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\n[ "$1" = check ] || exit 0\n'
                       'mkdir -p build/results\nname=check${2:+-debug}\n'
                       '[ "${2-DEBUG=1}" = DEBUG=1 ] || exit 3\n'
                       'cp results/$name.jsonl build/results 2>/dev/null\n'
                       'exit $(cat results/$name.status 2>/dev/null || echo 2)\n')
        os.chmod(path, 0o755)
        done = subprocess.run([os.path.join(self.top, ".ci/run")], stdout=subprocess.PIPE,
                              text=True, check=False,
                              env={**os.environ, "PATH": f"{self.top}:{os.environ['PATH']}"})
        self.printed = done.stdout
        return done.returncode, done.stdout.splitlines()[-1]

    def test_last_line_is_the_sum(self):
        self.leaves("check", CASES[:2])
        self.leaves("check-debug", CASES[:1])
        self.assertEqual(self.ci(), (0, "2 passed, 0 failed, 1 skipped"))

    def test_failure_of_either_run_fails(self):
        for bad, good in ("check", "check-debug"), ("check-debug", "check"):
            self.leaves(bad, CASES)
            self.leaves(good, CASES[:1])
            self.assertEqual(self.ci(), (1, "3 passed, 1 failed, 1 skipped"))

    def test_failure_of_the_first_run_is_told_at_the_end(self):
        self.leaves("check", CASES)
        self.leaves("check-debug", CASES[:1])
        self.ci()
        end = self.printed.partition("== all done")[2]
        self.assertIn("rxe/access/data: f.v.three failed in check: it <broke>\n    1 & 2\n", end)

    def test_command_without_results_fails(self):
        self.leaves("check", CASES[:1])
        self.assertEqual(self.ci(), (1, "1 passed, 1 failed, 0 skipped"))

    def test_earlier_results_do_not_count(self):
        os.makedirs(os.path.join(self.top, "build/results"))
        self.leaves("check", CASES[:1])
        self.leaves("check-debug", CASES[:1])
        shutil.move(os.path.join(self.top, "results/check-debug.jsonl"),
                    os.path.join(self.top, "build/results/check-debug.jsonl"))
        self.assertEqual(self.ci(), (1, "1 passed, 1 failed, 0 skipped"))

    def test_command_that_ended_early_fails(self):
        self.leaves("check", CASES[:1], "interrupted")
        self.leaves("check-debug", CASES[:1])
        self.assertEqual(self.ci(), (1, "2 passed, 1 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
