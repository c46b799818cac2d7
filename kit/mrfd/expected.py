# SPDX-License-Identifier: GPL-2.0-or-later
"""What is known to fail or to be skipped, and why: tests/expected-failures and
tests/expected-skips, whose heads say what they mean.  Each of their lines is

    what  # why

and a line without a reason is an error."""

import os
import re
import sys

from mrfd.paths import TOP

TESTS = os.path.join(TOP, "tests")
PINNED = "connectx/rdma-core/"  # the programs of which every skip has to be expected


def lines(name):
    """[(what, why)] of one of the files."""
    found = []
    with open(os.path.join(TESTS, name), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                what, _, why = (part.strip() for part in line.partition("  # "))
                if not why:
                    sys.exit(f"tests/{name}: no reason given for {what}")
                found.append((what, why))
    return found


class Expected:
    """judge() changes the result of a case into what it counts as."""

    def __init__(self):
        self.failures = dict(lines("expected-failures"))
        self.skips = [re.compile(what) for what, _ in lines("expected-skips")]

    def judge(self, case):
        why = self.failures.get(case.title)
        if why and case.result == "not ok":
            case.result, case.reason = "skip", f"expected failure: {why}"
        elif why and case.result == "ok" and not why.startswith("sometimes"):
            case.result, case.reason = "not ok", "it passes: remove it from tests/expected-failures"
        elif case.result == "skip" and case.title.startswith(PINNED):
            module, name = os.path.basename(case.program), case.name.rpartition(".")[2]
            what = f"{module}.{name}: {case.reason}"
            if not any(skip.fullmatch(what) for skip in self.skips):
                case.result = "not ok"
                case.reason = f"skipped, which tests/expected-skips does not have: {what}"
