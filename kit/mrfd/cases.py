# SPDX-License-Identifier: GPL-2.0-or-later
"""Turn the output of a test program into Cases.

A Reader takes the output piece by piece and passes each Case on as soon as it has a
result.  A dialect knows what the lines of one kind of program mean: Tap (the
kernel's C harness), Unittest (unittest -v), Kunit, Cmocka.

A program that dies, hangs, or ends without a result for each of its cases gets a
failed case "program", and a complaint of the kernel is a failed case "kernel log".
So every problem has a line in the results.
"""

import re
import time
from dataclasses import dataclass, field

TAIL = 60  # lines of output that a failure shows


@dataclass
class Case:
    program: str        # access/data
    name: str           # fixture.variant.case
    result: str         # ok, not ok, skip
    reason: str = ""    # of a skip or a failure; of a random case, its seed
    log: list = field(default_factory=list)  # what the program printed about it
    device: str = ""    # rxe; empty: the program uses none
    seconds: float = 0

    @property
    def title(self):
        """Its printed name."""
        program = f"{self.device}/{self.program}" if self.device else self.program
        return f"{program}: {self.name}"


class Tap:
    """The lines of TAP."""

    def __init__(self):
        self.planned = None     # how many cases the program announced
        self.lines = []         # since the last result

    def read(self, line):
        """(name, result, reason, log) if the line ends a case, or None."""
        match = re.match(r"(ok|not ok) \d+ (?:- )?(.*?)(?:\s*# (SKIP|XFAIL)\s*(.*))?$", line)
        if not match:
            self._other(line)
            return None
        ok, name, directive, reason = match.groups()
        # A random case prints its seed; with MRFD_SEED=N in the environment of
        # scripts/check it starts with the same seed again.
        seeds = [x[2:] for x in self.lines if x.startswith("# MRFD_SEED=")]
        return self._case(re.sub(r"^global\.", "", name), "skip" if directive else ok,
                          reason or "".join(seeds[:1]))

    def _other(self, line):
        match = re.match(r"1\.\.(\d+)", line)
        if match:
            self.planned = int(match[1])
        self.lines.append(line)

    def _case(self, name, result, reason):
        log, self.lines = self.lines, []
        return name, result, reason, log

    def afterwards(self, name):
        """What the program printed about a failed case after its last result."""
        return []


class Unittest(Tap):
    """The lines of unittest -v.  The test's docstring and its output may come between its
    name and its result; tracebacks come at the end."""

    NAME = r"(test\w*|setUpClass|tearDownClass) \(([\w.]+)\)"
    name = None

    @staticmethod
    def _full(match):
        short, path = match.groups()
        return path if path.endswith(f".{short}") else f"{path}.{short}"

    def read(self, line):
        match = re.match(self.NAME, line)
        if match:
            self.name = self._full(match)
        match = re.search(r"(?:\.\.\. |^)(ok|FAIL|ERROR|skipped (['\"])(.*)\2)$", line)
        if match and self.name:
            name, self.name = self.name, None
            result = {"ok": "ok", "FAIL": "not ok", "ERROR": "not ok"}.get(match[1], "skip")
            return self._case(name, result, match[3] or "")
        match = re.match(r"Ran (\d+) test", line)
        if match:
            self.planned = int(match[1])
        self.lines.append(line)
        return None

    def afterwards(self, name):
        found, take = [], False
        for line in self.lines:
            match = re.match(rf"(?:FAIL|ERROR): {self.NAME}", line)
            if match:
                take = self._full(match) == name
            elif re.match(r"={70}$|Ran \d+ test", line):
                take = False
            if take:
                found.append(line)
        return found


class Kunit(Tap):
    """The lines of KUnit's KTAP.  A test of a suite is one level down; the
    parameters of a test are below it and do not count as cases."""

    suite = None

    def read(self, line):
        match = re.match(r" {4}# Subtest: (.*)$", line)
        if match:
            self.suite = match[1]
        match = re.match(r" {4}1\.\.(\d+)$", line)
        if match:
            self.planned = (self.planned or 0) + int(match[1])
        if not re.match(r" {4}(ok|not ok) ", line):
            self.lines.append(line)
            return None
        name, result, reason, log = super().read(line.strip())
        name, _, said = name.partition(" # ")
        return f"{self.suite}: {name}", result, reason or said, log


class Cmocka(Tap):
    """The TAP of cmocka.  What it says about a failure follows the result, and a skip has
    no name but that behind its word."""

    def __init__(self):
        super().__init__()
        self.said = {}      # what follows the result of a case
        self.last = None    # the case whose lines follow

    def read(self, line):
        if self.last and line.startswith("# ") and not re.match(r"# (not )?ok - ", line):
            self.said[self.last].append(line)
            return None
        self.last = None
        case = super().read(line)
        if not case:
            return None
        name, result, reason, log = case
        if result == "skip":
            return name or reason, result, "", log
        self.last, self.said[name] = name, []
        return name, result, "", log

    def afterwards(self, name):
        return self.said.get(name, [])


class Reader:
    """Turn a program's output into Cases, and pass each to tell() at once.

    wanted  the names of the cases that were selected; empty: all.  A wanted case
            without a result is a failure."""

    def __init__(self, program, dialect, tell, device="", wanted=()):
        self.program, self.device, self.wanted, self.tell = program, device, wanted, tell
        self.dialect, self.rest, self.cases = dialect(), "", []
        self.failed = False  # a failure counts here even if tell() turns it into a skip
        self.start()

    def start(self):
        """The program starts now: the time of its first case is measured from here."""
        self.since = time.monotonic()

    def __call__(self, data):
        *lines, self.rest = (self.rest + data.decode(errors="replace")).split("\n")
        for line in lines:
            case = self.dialect.read(line.rstrip("\r"))
            if case:
                self._add(*case)

    def _add(self, name, result, reason, log):
        now = time.monotonic()
        case = Case(self.program, name, result, reason, log, self.device, now - self.since)
        self.since = now
        self.cases.append(case)
        self.failed |= result == "not ok"
        self.tell(case)

    def end(self, status, why=None, log=()):
        """The program has ended; add a failed case for what it did not report itself."""
        self(b"\n")
        for case in self.cases:
            if case.result == "not ok":
                case.log += self.dialect.afterwards(case.name)
        why = why or self._unsaid(status)
        if why:
            self._add("program", "not ok", why, [*self.dialect.lines[-TAIL:], *log])

    def _unsaid(self, status):
        planned, count = self.dialect.planned, len(self.cases)
        missing = set(self.wanted) - {case.name for case in self.cases}
        if planned is None or planned != count:
            return f"{count} of {planned or 'its'} cases have a result"
        if status and not self.failed:
            return f"exit status {status} without a failed case"
        if missing:
            return f"it did not run {', '.join(sorted(missing))}"
        return None

    def complaint(self, reports):
        """The kernel complained while the program ran."""
        self._add("kernel log", "not ok", reports[0].head,
                  "\n".join(r.text for r in reports).split("\n"))
