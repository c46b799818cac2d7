# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""kit/mrfd/cases.py reads the output of every kind of test program right: results, reasons,
logs, and programs that end early."""

import os
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import cases  # noqa: E402
from mrfd.console import Report  # noqa: E402

SUITE = b"""\
test_a (tests.test_x.T.test_a)
Say what it shows ... ok
test_b (tests.test_x.T.test_b) ... skipped 'not here'
test_c (tests.test_x.T.test_c) ... some output
ERROR
test_d (tests.test_x.T.test_d) ... FAIL

======================================================================
ERROR: test_c (tests.test_x.T.test_c)
----------------------------------------------------------------------
OSError: of c

======================================================================
FAIL: test_d (tests.test_x.T.test_d) (way='x')
----------------------------------------------------------------------
AssertionError: of d

----------------------------------------------------------------------
Ran 4 tests in 1.0s
"""
TAP = b"TAP version 13\n1..2\n# RUN x\nok 1 global.f.one\nnot ok 2 f.two\n"
CMOCKA = b"""\
1..4
said by a
not ok 1 - a
# 0x1 != 0x2
# t.c:8: error: Failure!
not ok 2 # SKIP b
ok 3 - c
said by d
not ok 4 - d
# Test failed with exception: Segmentation fault(11)
# not ok - tests
"""

KUNIT = b"""\
KTAP version 1
1..1
    KTAP version 1
    # Subtest: suite
    # module: core
    1..3
    ok 1 one
        KTAP version 1
        # Subtest: two
        ok 1 a parameter
        not ok 2 another
        # two: pass:1 fail:1 skip:0 total:2
    # two: an expectation
    not ok 2 two
    ok 3 three # SKIP why
# suite: pass:1 fail:1 skip:1 total:3
not ok 1 suite
    # Subtest: other
    1..1
    not ok 1 suite # it did not run
"""


def reader(dialect, output, status, tell=lambda case: None, wanted=()):
    found = cases.Reader("p", dialect, tell, wanted=wanted)
    found(output)
    found.end(status)
    return found


def read(*arguments, **more):
    return {case.title: case.result for case in reader(*arguments, **more).cases}


class Reader(unittest.TestCase):
    def test_unittest_is_read(self):
        self.assertEqual(read(cases.Unittest, SUITE, 1), {
            "p: tests.test_x.T.test_a": "ok", "p: tests.test_x.T.test_b": "skip",
            "p: tests.test_x.T.test_c": "not ok", "p: tests.test_x.T.test_d": "not ok"})

    def test_traceback_belongs_to_its_case(self):
        found = {c.name[-1]: "\n".join(c.log) for c in reader(cases.Unittest, SUITE, 1).cases}
        self.assertIn("of c", found["c"])
        self.assertIn("of d", found["d"])
        for name, other in ("c", "of d"), ("d", "of c"), ("a", "of c"):
            self.assertNotIn(other, found[name])

    def test_tap_is_read(self):
        self.assertEqual(read(cases.Tap, TAP, 1), {"p: f.one": "ok", "p: f.two": "not ok"})

    def test_seed_of_passed_case_is_reported(self):
        told = []
        read(cases.Tap, b"1..2\n# MRFD_SEED=0x5\nok 1 one\nok 2 two\n", 0, told.append)
        self.assertEqual([case.reason for case in told], ["MRFD_SEED=0x5", ""])

    def test_kunit_cases_are_read_below_their_suite(self):
        found = reader(cases.Kunit, KUNIT, 1).cases
        self.assertEqual({case.title: (case.result, case.reason) for case in found}, {
            "p: suite: one": ("ok", ""), "p: suite: two": ("not ok", ""),
            "p: suite: three": ("skip", "why"),
            "p: other: suite": ("not ok", "it did not run")})

    def test_cmocka_is_read(self):
        found = reader(cases.Cmocka, CMOCKA, 2).cases
        self.assertEqual({case.title: case.result for case in found}, {
            "p: a": "not ok", "p: b": "skip", "p: c": "ok", "p: d": "not ok"})
        self.assertEqual([case.log for case in found], [
            ["1..4", "said by a", "# 0x1 != 0x2", "# t.c:8: error: Failure!"], [], [],
            ["said by d", "# Test failed with exception: Segmentation fault(11)"]])

    def test_printed_name_has_the_device(self):
        found = cases.Reader("folder/p", cases.Tap, lambda case: None, "rxe")
        found(TAP)
        self.assertEqual(found.cases[0].title, "rxe/folder/p: f.one")

    def test_program_that_dies_early_fails(self):
        self.assertEqual(read(cases.Tap, TAP[:-14], 139)["p: program"], "not ok")

    def test_program_without_cases_fails(self):
        self.assertEqual(read(cases.Tap, b"", 0), {"p: program": "not ok"})

    def test_exit_status_without_failed_case_fails(self):
        self.assertEqual(read(cases.Tap, b"1..1\nok 1 a\n", 1)["p: program"], "not ok")

    def test_excused_failure_explains_exit_status(self):
        def excuse(case):
            case.result = "skip"
        self.assertEqual(read(cases.Tap, b"1..1\nnot ok 1 a\n", 1, excuse), {"p: a": "skip"})


class SelectedCases(unittest.TestCase):
    """A Reader that waits for some cases only."""

    def test_selected_case_is_the_only_result(self):
        self.assertEqual(read(cases.Tap, b"1..1\nok 1 a\n", 0, wanted=["a"]), {"p: a": "ok"})

    def test_selected_case_that_did_not_run_fails(self):
        for output in b"1..0\n", b"1..1\nok 1 b\n":
            found = reader(cases.Tap, output, 0, wanted=["a"]).cases[-1]
            self.assertEqual((found.title, found.result), ("p: program", "not ok"))
            self.assertIn("did not run a", found.reason)

    def test_crash_fails_beside_selected_case(self):
        self.assertEqual(read(cases.Tap, b"1..1\n# RUN a\n", 139, wanted=["a"]),
                         {"p: program": "not ok"})
        self.assertEqual(read(cases.Tap, b"1..1\nok 1 a\n", 139, wanted=["a"]),
                         {"p: a": "ok", "p: program": "not ok"})

    def test_kernel_report_fails_beside_selected_case(self):
        found = reader(cases.Tap, b"1..1\nok 1 a\n", 0, wanted=["a"])
        found.complaint([Report("BUG: x", "BUG: x\n at y")])
        last = found.cases[-1]
        self.assertEqual((last.title, last.result, last.reason, last.log),
                         ("p: kernel log", "not ok", "BUG: x", ["BUG: x", " at y"]))


if __name__ == "__main__":
    unittest.main()
