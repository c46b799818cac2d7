# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""What a failure or a skip counts as, by tests/expected-failures and tests/expected-skips."""

import os
import sys
import tempfile
import unittest
from unittest import mock

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import expected  # noqa: E402
from mrfd.cases import Case  # noqa: E402

FAILURES = """# a comment

rxe/queues/x: bad  # it is known
rxe/queues/x: rare  # sometimes: a race
"""
SKIPS = "test_x\\.c: no (card|port) for \\d+  # there is none\n"


class Expectations(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.write("expected-failures", FAILURES)
        self.write("expected-skips", SKIPS)
        where = mock.patch.object(expected, "TESTS", self.directory)
        where.start()
        self.addCleanup(where.stop)

    def write(self, name, text):
        with open(os.path.join(self.directory, name), "w", encoding="utf-8") as file:
            file.write(text)

    def judged(self, program, name, result, reason="", device="rxe"):
        case = Case(program, name, result, reason, device=device)
        expected.Expected().judge(case)
        return case.result, case.reason

    def test_expected_failure_counts_as_skip(self):
        self.assertEqual(self.judged("queues/x", "bad", "not ok", "7 != 8"),
                         ("skip", "expected failure: it is known"))

    def test_unexpected_pass_fails_unless_marked_sometimes(self):
        self.assertEqual(self.judged("queues/x", "bad", "ok")[0], "not ok")
        self.assertEqual(self.judged("queues/x", "rare", "ok"), ("ok", ""))

    def test_unlisted_skip_of_suite_on_model_fails(self):
        def on(device, reason, program="rdma-core/test_x", result="skip"):
            return self.judged(program, "tests.T.c", result, reason, device)
        self.assertEqual(on("connectx", "no card for 12"), ("skip", "no card for 12"))
        for reason in "", "no card for x", "no card for 12, and more", "there is no card for 12":
            result, said = on("connectx", reason)
            self.assertEqual(result, "not ok")
            self.assertIn(f"does not have: test_x.c: {reason}", said)
        self.assertEqual(on("connectx", "no card for 12", "rdma-core/test_y")[0], "not ok")
        self.assertEqual(on("rxe", "other")[0], "skip")
        self.assertEqual(on("connectx", "other", "access/data")[0], "skip")
        self.assertEqual(on("connectx", "", result="ok")[0], "ok")

    def test_line_without_reason_is_refused(self):
        self.write("expected-skips", "no card\n")
        with self.assertRaisesRegex(SystemExit, "no reason given for no card"):
            expected.Expected()

    def test_lists_of_the_project_are_readable(self):
        with mock.patch.object(expected, "TESTS", os.path.join(TOP, "tests")):
            known = expected.Expected()
        self.assertTrue(known.failures)
        self.assertTrue(known.skips)


if __name__ == "__main__":
    unittest.main()
