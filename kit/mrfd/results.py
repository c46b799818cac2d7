# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of a run: kept once, in NAME.jsonl.

A run is one call of scripts/check, or one side of scripts/scoreboard.  Each line of
its file is a JSON object: first one with what ran ("run"), then one for each case,
and at the end one with the reason why the run ended early ("end"; empty if it did
not).  The cases of a program are written when the program has ended, so a run that
is interrupted keeps what it has.  If the last line is missing, the run was killed.

NAME.ktap and NAME.xml (JUnit) are written from it when the run ends.  Programs that
need results later (scripts/report) read NAME.jsonl.
"""

import fcntl
import json
import os
import re
import threading
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field

from mrfd.cases import Case
from mrfd.paths import BUILD

DIRECTORY = os.path.join(BUILD, "results")
RESULTS = ("ok", "skip", "not ok")
# The characters that XML 1.0 does not allow
ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass
class Results:
    """What a run left."""
    run: dict                       # name, kernel, began
    cases: list = field(default_factory=list)
    why: str = ""                   # why it is not complete

    def all(self):
        """Its cases, and one failed case if the run is not complete."""
        return self.cases + [Case(self.run["name"], "run", "not ok", self.why)] * bool(self.why)


def count(cases):
    """How many passed, were skipped, failed."""
    return [sum(case.result == result for case in cases) for result in RESULTS]


def print_failures(cases, run):
    """What failed in the run of this name, and the end of what it said."""
    for case in cases:
        if case.result == "not ok":
            print(f"\n{case.title} failed in {run}: {case.reason}")
            for line in case.log[-60:]:
                print(f"    {line}")


def total(cases):
    """The line that scripts/check and .ci/run end with."""
    passed, skipped, failed = count(cases)
    return f"{passed} passed, {failed} failed, {skipped} skipped"


class Busy(OSError):
    """Another run keeps its results under this name."""


def _hold(path):
    """Hold this name for one run, until the file that it returns is closed."""
    lock = open(path + ".lock", "w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise Busy(f"another run in this checkout keeps its results in "
                   f"{os.path.relpath(path)}.jsonl: wait until it ends, or end it") from None
    return lock


class Run:
    """Keeps the results of a run in path (without a suffix) while it goes on; any
    thread may add."""

    def __init__(self, path, kernel):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.held = _hold(path)
        _remove(path)  # of the run before
        self.path, self.lock, self.waiting = path, threading.Lock(), []
        self.results = Results({"name": os.path.basename(path), "kernel": kernel,
                                "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
        self.file = open(path + ".jsonl", "w", encoding="utf-8")
        self._write([{"run": self.results.run}])

    def _write(self, records):
        self.file.write("".join(json.dumps(record) + "\n" for record in records))
        self.file.flush()

    def _keep(self, cases):
        self._write({"kernel": self.results.run["kernel"], "device": case.device,
                     "program": case.program, "case": case.name, "result": case.result,
                     "reason": case.reason, "seconds": round(case.seconds, 3), "log": case.log}
                    for case in cases)

    def add(self, case):
        """A case has its result; its log may still grow until keep()."""
        with self.lock:
            self.results.cases.append(case)
            self.waiting.append(case)

    def keep(self, cases):
        """Write these cases to the file: their program has ended."""
        known = {id(case) for case in cases}
        with self.lock:
            self._keep(cases)
            self.waiting = [case for case in self.waiting if id(case) not in known]

    def close(self, why=""):
        """The run has ended; why is the reason if it ended early."""
        with self.lock:
            self._keep(self.waiting)
            self.waiting, self.results.why = [], why
            self._write([{"end": why}])
            self.file.close()
        write_ktap(self.path + ".ktap", self.results)
        write_junit(self.path + ".xml", self.results)
        self.held.close()


def load(path):
    """The Results in a .jsonl file."""
    run, cases, why = {"name": os.path.basename(path).removesuffix(".jsonl")}, [], "it was killed"
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                break  # the run was killed while it wrote
            record = json.loads(line)
            if "run" in record:
                run = record["run"]
            elif "end" in record:
                why = record["end"]
            else:
                cases.append(Case(record["program"], record["case"], record["result"],
                                  record["reason"], record["log"], record["device"],
                                  record["seconds"]))
    return Results(run, cases, why)


def of_run(name):
    """The cases of this run; one that left no results is one failed case."""
    try:
        return load(os.path.join(DIRECTORY, f"{name}.jsonl")).all()
    except (FileNotFoundError, json.JSONDecodeError):
        return Results({"name": name}, why="it left no results").all()


def forget(name):
    """Remove what this run has left."""
    _remove(os.path.join(DIRECTORY, name))


def _remove(path):
    for suffix in ".jsonl", ".ktap", ".xml":
        if os.path.exists(path + suffix):
            os.unlink(path + suffix)


def _replace(path, data):
    """Write a file, whole or not at all."""
    with open(path + ".part", "wb") as file:
        file.write(data)
    os.replace(path + ".part", path)


def write_ktap(path, results):
    """Write KTAP, as the kernel's Documentation/dev-tools/ktap.rst defines it."""
    cases = results.all()
    lines = ["KTAP version 1", f"1..{len(cases)}"]
    for number, case in enumerate(cases, 1):
        log = {"ok": [case.reason], "not ok": [case.reason, *case.log]}.get(case.result, [])
        lines += [f"# {line}" for text in log for line in text.splitlines() if line.strip()]
        skip = f" # SKIP {' '.join(case.reason.split())}" if case.result == "skip" else ""
        ok = "not ok" if case.result == "not ok" else "ok"
        lines.append(f"{ok} {number} {case.title}{skip}")
    _replace(path, ("\n".join(lines) + "\n").encode(errors="replace"))


def _legal(text):
    """Text in which the characters that XML does not allow are escaped."""
    return ILLEGAL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def write_junit(path, results):
    """Write JUnit for CI systems: a testsuite for each program, a testcase for each case.
    classname and name together are the printed name of the case.  classname also names
    a kernel with checkers, so that the same case on two kernels counts as two."""
    kernel = results.run["kernel"]
    where = "" if kernel == "base" else f" ({kernel})"
    programs = {}
    for case in results.all():
        programs.setdefault(case.title.removesuffix(f": {case.name}") + where, []).append(case)

    def numbers(cases):
        _, skipped, failed = count(cases)
        return {"tests": str(len(cases)), "failures": str(failed), "errors": "0",
                "skipped": str(skipped), "time": f"{sum(c.seconds for c in cases):.3f}"}
    root = xml.Element("testsuites", name=results.run["name"], **numbers(results.all()))
    for program, cases in programs.items():
        suite = xml.SubElement(root, "testsuite", name=_legal(program), **numbers(cases),
                               timestamp=results.run["began"].removesuffix("Z"))
        for case in cases:
            one = xml.SubElement(suite, "testcase", classname=_legal(program),
                                 name=_legal(case.name), time=f"{case.seconds:.3f}")
            reason, log = _legal(case.reason), _legal("\n".join(case.log))
            if case.result == "skip":
                xml.SubElement(one, "skipped", message=reason)
            elif case.result == "not ok":
                xml.SubElement(one, "failure", message=reason, type="failure").text = log
            elif reason or log:
                xml.SubElement(one, "system-out").text = "\n".join(filter(None, (reason, log)))
    xml.indent(root)
    _replace(path, xml.tostring(root, encoding="utf-8", xml_declaration=True))
