# SPDX-License-Identifier: GPL-2.0-or-later
"""Test what scripts/cases.py makes of the output of test programs."""

import os
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import cases  # noqa: E402

SUITE = b"""\
test_a (tests.test_x.T.test_a)
Say what it shows ... ok
test_b (tests.test_x.T.test_b) ... skipped 'not here'
test_c (tests.test_x.T.test_c) ... some output
ERROR
Ran 3 tests in 1.0s
"""
TAP = b"TAP version 13\n1..2\n# RUN x\nok 1 global.f.one\nnot ok 2 f.two\n"
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


def read(dialect, output, status, tell=lambda case: None):
    reader = cases.Reader("p", dialect, tell)
    reader(output)
    reader.end(status)
    return {case.name: case.result for case in reader.cases}


class Reader(unittest.TestCase):
    def test_unittest_is_read(self):
        self.assertEqual(read(cases.unittest_v, SUITE, 1), {
            "p: tests.test_x.T.test_a": "ok", "p: tests.test_x.T.test_b": "skip",
            "p: tests.test_x.T.test_c": "not ok"})

    def test_tap_is_read(self):
        self.assertEqual(read(cases.tap, TAP, 1), {"p: f.one": "ok", "p: f.two": "not ok"})

    def test_the_seed_of_a_random_case_is_told_though_it_passes(self):
        told = []
        read(cases.tap, b"1..2\n# MRFD_SEED=0x5\nok 1 one\nok 2 two\n", 0, told.append)
        self.assertEqual([case.reason for case in told], ["MRFD_SEED=0x5", ""])

    def test_kunit_is_read_one_level_down(self):
        self.assertEqual(read(cases.kunit, KUNIT, 1), {
            "p: suite: one": "ok", "p: suite: two": "not ok", "p: suite: three": "skip",
            "p: other: suite # it did not run": "not ok"})

    def test_a_program_that_dies_early_is_a_failure(self):
        self.assertEqual(read(cases.tap, TAP[:-14], 139)["p: program"], "not ok")

    def test_a_program_without_cases_is_a_failure(self):
        self.assertEqual(read(cases.tap, b"", 0), {"p: program": "not ok"})

    def test_a_status_that_no_case_accounts_for_is_a_failure(self):
        self.assertEqual(read(cases.tap, b"1..1\nok 1 a\n", 1)["p: program"], "not ok")

    def test_an_excused_failure_accounts_for_the_status(self):
        def excuse(case):
            case.result = "skip"
        self.assertEqual(read(cases.tap, b"1..1\nnot ok 1 a\n", 1, excuse), {"p: a": "skip"})


if __name__ == "__main__":
    unittest.main()
