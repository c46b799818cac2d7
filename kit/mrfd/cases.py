# SPDX-License-Identifier: GPL-2.0-or-later
"""Test programs and their cases: find them, run them, read what they say.

A program is one process: a file of host tests, a guest program, a module of
rdma-core's suite.  Running it gives Cases.  What a program prints is in one of
two dialects, TAP (the kernel's test harness) or that of unittest -v; both are
read line by line, so that a case is reported as soon as it has ended.

A program that dies, hangs, or ends without saying what became of its cases, and
a kernel that complained while it ran, are failed cases of their own: nothing
that goes wrong is without a line.
"""

import glob
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field

from mrfd import environment
from mrfd import machine
from mrfd import pool
from mrfd.paths import BUILD, SCRIPTS, TOP, inside

# Exporters of every kind: see tests/guest/exporter.c.
DEVICES = ["bochs-display", "virtio-gpu"]
# What rdma-core has for hardware that is not here.
VENDOR = re.compile(r"test_(mlx5|efa|irdma|hns|cuda)")

# What runs on the debug kernel: all of ours that drives our code, and of rdma-core's
# suite what goes through code that the series changes (see Documentation/testing.md).
DEBUG = re.compile(r"kunit|guest/(?!(perftest|libfabric|readme)$).*|"
                   r"rdma-core/test_(mr|mr_fd|memfd_mr|rereg\w*)")
# What needs fault injection, which the debug kernel has.
FAULTS = re.compile(r"guest/fail_nth.*")
# What runs on the kernel that finds data races: where there is much at once.
CONCURRENT = re.compile(r"kcsan|guest/(cut|data|fuzz|inflight|lifetime|stress|windows)")


@dataclass
class Case:
    name: str           # program: case
    result: str         # ok, not ok, skip
    reason: str = ""    # of a skip or a failure; of what is random, its seed
    log: list = field(default_factory=list)  # what the program said about it


def tap(line, state):
    """The Case that a line of TAP ends, or None.  "# MRFD_SEED=N" before it is
    what a random case began with; in the environment of scripts/check it makes
    the case begin with the same."""
    match = re.match(r"(ok|not ok) \d+ (?:- )?(.*?)(?:\s*# (SKIP|XFAIL)\s*(.*))?$", line)
    if match:
        ok, name, directive, reason = match.groups()
        seed = [x[2:] for x in state["lines"] if x.startswith("# MRFD_SEED=")]
        case = Case(re.sub(r"^global\.", "", name), "skip" if directive else ok,
                    reason or "".join(seed[:1]), state["lines"])
        state["lines"] = []
        return case
    match = re.match(r"1\.\.(\d+)", line)
    if match:
        state["planned"] = int(match[1])
    state["lines"].append(line)
    return None


def unittest_v(line, state):
    """The Case that a line of unittest -v ends, or None.  A docstring stands on
    a line between a test's name and its result, and so may output of its own."""
    match = re.match(r"(test\w*|setUpClass|tearDownClass) \(([\w.]+)\)", line)
    if match:
        state["name"] = match[2] if match[2].endswith(match[1]) else f"{match[2]}.{match[1]}"
    match = re.search(r"(?:\.\.\. |^)(ok|FAIL|ERROR|skipped (['\"])(.*)\2)$", line)
    if match and state.get("name"):
        result = {"ok": "ok", "FAIL": "not ok", "ERROR": "not ok"}.get(match[1], "skip")
        case = Case(state.pop("name"), result, match[3] or "", state["lines"])
        state["lines"] = []
        return case
    match = re.match(r"Ran (\d+) test", line)
    if match:
        state["planned"] = int(match[1])
    state["lines"].append(line)
    return None


def kunit(line, state):
    """The Case that a line of KUnit's KTAP ends, or None: one for each test of a
    suite, which is one level down; the parameters of a test are below it."""
    match = re.match(r" {4}# Subtest: (.*)$", line)
    if match:
        state["suite"] = match[1]
    match = re.match(r" {4}1\.\.(\d+)$", line)
    if match:
        state["planned"] = state.get("planned", 0) + int(match[1])
    if re.match(r" {4}(ok|not ok) ", line):
        case = tap(line.strip(), state)
        case.name = f"{state.get('suite')}: {case.name}"
        return case
    state["lines"].append(line)
    return None


class Reader:
    """Turns a program's output into Cases, each given to tell() at once."""

    def __init__(self, program, dialect, tell):
        self.program, self.dialect, self.tell = program, dialect, tell
        self.state, self.rest, self.cases = {"lines": []}, "", []
        self.failed = False  # kept apart: tell() may excuse a case

    def __call__(self, data):
        *lines, self.rest = (self.rest + data.decode(errors="replace")).split("\n")
        for line in lines:
            case = self.dialect(line.rstrip("\r"), self.state)
            if case:
                self._add(case)

    def _add(self, case):
        case.name = f"{self.program}: {case.name}"
        self.cases.append(case)
        self.failed |= case.result == "not ok"
        self.tell(case)

    def end(self, status, why=None, log=()):
        """The program has ended; what it left unsaid is said here."""
        self(b"\n")
        planned = self.state.get("planned")
        if planned is None or planned != len(self.cases):
            why = why or f"{len(self.cases)} of {planned or 'its'} cases have a result"
        elif status and not self.failed:
            why = why or f"exit status {status} without a failed case"
        if why:
            self._add(Case("program", "not ok", why, [*self.state["lines"][-60:], *log]))
        else:  # where unittest prints its tracebacks
            for case in self.cases:
                if case.result == "not ok" and not any("Traceback" in x for x in case.log):
                    case.log += self.state["lines"][-60:]

    def complaint(self, reports):
        """The kernel complained while the program ran."""
        self._add(Case("kernel log", "not ok", reports[0].head,
                       "\n".join(r.text for r in reports).split("\n")))


@dataclass
class Program:
    name: str
    words: list
    dialect: object
    source: str             # file in which a pattern is looked for
    guest: dict = None      # options of Guest; None: runs on the host

    def run(self, tell, guests=None):
        """Its Cases, each given to tell() too; in a guest of Guests, or in one
        of its own."""
        reader = Reader(self.name, self.dialect, tell)
        if self.guest is not None:
            some = guests or pool.Guests(lambda name, why, log: tell(
                Case(name, "not ok", why, log)))
            try:
                some.run(self.name, self.words, self.guest, reader)
            finally:
                if not guests:
                    some.end()
            return reader.cases
        process = subprocess.Popen(self.words, cwd=TOP, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for line in process.stdout:
            reader(line)
        reader.end(process.wait())
        return reader.cases


def host_programs():
    """Unit tests of the kit."""
    for path in sorted(glob.glob(os.path.join(TOP, "tests/host/test_*.py"))):
        name = os.path.basename(path)[len("test_"):-len(".py")]
        yield Program(f"host/{name}", [sys.executable, "-m", "unittest", "-v", path],
                      unittest_v, path)


def guest_options(kernel, **more):
    """A guest with a Soft-RoCE device that talks to itself."""
    setup = machine.network_setup(0, 1, machine.RXE)
    env = {"MRFD_NETDEV": "eth0", "PYTHONDONTWRITEBYTECODE": "1"}
    if "MRFD_SEED" in os.environ:
        env["MRFD_SEED"] = os.environ["MRFD_SEED"]
    return {"kernel": kernel, "setup": setup, "env": env, **more}


def build_guest():
    """Build what tests/guest has; the directories of it and of rdma-core."""
    linux, rdma = machine.tool("join", "linux"), machine.tool("rdma-core")
    out = os.path.join(BUILD, "guest")
    made = subprocess.run([os.path.join(SCRIPTS, "enter"), "make", "-s", "-j2",
                           "-C", inside(os.path.join(TOP, "tests/guest")),
                           f"OUT={inside(out)}", f"LINUX={inside(linux)}",
                           f"RDMA={inside(rdma)}"], check=False)
    if made.returncode:
        raise machine.BootError("tests/guest does not compile, see above")
    return inside(out), inside(rdma)


def guest_programs(kernel="base"):
    """Our cases; built first."""
    out, _ = build_guest()
    options = guest_options(kernel, devices=DEVICES)
    options["env"].update(environment.of_our_libraries())
    for path in sorted(glob.glob(os.path.join(TOP, "tests/guest/test_*"))):
        name, kind = os.path.splitext(os.path.basename(path)[len("test_"):])
        if kernel != "debug" and FAULTS.fullmatch(f"guest/{name}"):
            continue
        if kind == ".c":
            yield Program(f"guest/{name}", [os.path.join(out, f"test_{name}")], tap, path, options)
        else:
            yield Program(f"guest/{name}", ["python3", "-m", "unittest", "-v", inside(path)],
                          unittest_v, path, options)
    if kernel == "kcsan":
        path = os.path.join(TOP, "kit/guest/kcsan")
        yield Program("kcsan", [inside(path)], tap, path, options)


def kunit_program(kernel="base", suites=None):
    """The kernel's own unit tests: those suites that our files have."""
    if suites is None:
        suites = []
        for path in glob.glob(os.path.join(TOP, "kernel/**/*.c"), recursive=True):
            with open(path, encoding="utf-8") as file:
                suites += re.findall(r'struct kunit_suite \w+ = \{[^}]*?\.name = "([^"]+)"',
                                     file.read())
    if suites:
        path = os.path.join(TOP, "kit/guest/kunit")
        yield Program("kunit", [inside(path), *sorted(suites)], kunit, path,
                      guest_options(kernel, append="kunit.enable=1"))


def suite_programs(kernel="base", stock=False):
    """rdma-core's own suite, one process and one guest for each module."""
    flags = ["--stock"] if stock else []
    tree, rdma = machine.tool("join", *flags, "rdma-core"), machine.tool("rdma-core", *flags)
    options = guest_options(kernel)
    for path in sorted(glob.glob(os.path.join(tree, "tests/test_*.py"))):
        module = os.path.basename(path)[:-len(".py")]
        if not VENDOR.match(module):
            yield Program(f"rdma-core/{module}",
                          [f"{inside(rdma)}/bin/run_tests.py", "-v", f"tests.{module}"],
                          unittest_v, path, options)


def expected_failures():
    """{case name: why}, from tests/expected-failures."""
    expected = {}
    with open(os.path.join(TOP, "tests/expected-failures"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, _, why = line.partition("  # ")
                if not why.strip():
                    sys.exit(f"tests/expected-failures: no reason given for {name.strip()}")
                expected[name.strip()] = why.strip()
    return expected


def write_ktap(path, cases):
    """One file of results, as Documentation/dev-tools/ktap.rst has it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(f"KTAP version 1\n1..{len(cases)}\n")
        for number, case in enumerate(cases, 1):
            log = {"ok": [case.reason], "not ok": [case.reason, *case.log]}.get(case.result, [])
            file.writelines(f"# {line}\n" for line in log if line.strip())
            skip = f" # SKIP {case.reason}" if case.result == "skip" else ""
            ok = "not ok" if case.result == "not ok" else "ok"
            file.write(f"{ok} {number} {case.name}{skip}\n")
    os.replace(path + ".part", path)
