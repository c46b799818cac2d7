# SPDX-License-Identifier: GPL-2.0-or-later
"""Run test programs in guests.  The programs of a lane run one after another, in the
same guest if possible.

A boot of the debug kernel and the leak scan at its end take longer than most
programs, so a guest is kept for the next program as long as all goes well.  If a
program fails, hangs or dies, or if the kernel has complained, the guest is ended
and the next program gets a new one: after a complaint lockdep may have turned
itself off, and memory may be damaged.

The kernel's log is read after each program, and a complaint belongs to the
program that ran at that time.  A complaint before the first program, or after
the last one, when the debug kernel scans for leaks, belongs to the guest; the
leak detector names the program that allocated the memory.

kit/guest/run starts the programs in the guest.

There are two lanes, each with a guest of its own.  On the debug kernel, where most programs
keep one CPU busy and a boot or a leak scan takes half a minute, both take programs in
guests: eight programs took 565 s, one after another 870 s.  On the other kernels two guests of
two CPUs slow each other down (a quick run took 27 min, with one guest 24); there one lane takes the programs that run on the host, which need one CPU mostly,
and the other those in such guests.  Then both take the programs in guests of one CPU: rdma-core's suite on two devices took 211 s,
in guests of two CPUs, one after the other, 383 s.
"""

import collections
import contextlib
import itertools
import os
import queue
import re
import shlex
import threading
import time

from mrfd import machine
from mrfd import console
from mrfd.cases import Case

RUN = f"{machine.GUEST}/run"
LIMIT = 1800            # seconds that a program may take
BOOT_LIMIT = 300        # seconds until a guest can run a program; KUnit runs in this time
END_LIMIT = 240         # seconds for the leak scans, and to power off
LOG_LIMIT = 10          # seconds until the kernel's log has what the guest wrote to it


class Guests:
    """One guest at a time.  tell() gets a failed Case for each problem that belongs to no
    program."""

    def __init__(self, tell):
        self.tell = tell
        self.guest = self.options = self.reader = None
        self.elsewhere = {}  # head of a data race in another part of the kernel: how often

    def run(self, name, words, options, reader, limit=LIMIT):
        """Run one program; its output and its end go to the reader."""
        if self.guest and self.options != options:
            self.end()
        if not self.guest and not self._start(name, options):
            guest, self.guest = self.guest, None
            why = guest.why
            if guest.status == machine.TIMED_OUT:
                why = f"still booting after {BOOT_LIMIT} s"
            reader.end(guest.status, f"the guest did not start: {why}",
                       guest.tail().split("\n"))
            return
        self.reader = reader
        reader.start()
        try:
            self.guest.send(shlex.join(words).encode() + b"\n")
        except OSError:  # it died after its last program; end() tells how
            self.reader = None
            self.end()
            self.run(name, words, options, reader, limit)
            return
        self.name = name
        status = self._wait(limit)
        self.reader = None
        if status is None:
            guest, self.guest = self.guest, None
            why = guest.why
            if guest.status == machine.TIMED_OUT:
                why = f"still running after {limit} s"
            reader.end(guest.status, why, guest.tail().split("\n"))
            self._complain(guest, reader.complaint)
            return
        reader.end(status)
        self.count += 1
        reports = self._complain(self.guest, reader.complaint)
        if reports or status or reader.failed:
            self.end()

    def end(self):
        """End the guest, if there is one, with the leak scan of a debug kernel."""
        guest, self.guest = self.guest, None
        if not guest:
            return
        try:
            guest.send(b"\n")
            if not guest.wait(machine.patience(END_LIMIT)):
                guest.expire()
                guest.wait()
        except OSError:
            pass  # the guest has ended already; guest.why says why
        finally:
            guest.stop()
        where = f"guest of {self.first} to {self.name}"
        if guest.why:
            self.tell(Case(where, "end", "not ok", guest.why, guest.tail().split("\n")))
        self._complain(guest, lambda reports: self._blame_nobody(where, reports))

    # How it is done

    def _blame_nobody(self, where, reports):
        self.tell(Case(where, "kernel log", "not ok", reports[0].head,
                       "\n".join(r.text for r in reports).split("\n")))

    def _start(self, name, options):
        """Start a guest; whether it is ready to run programs."""
        self.options, self.first, self.name = options, name, name
        self.count, self.looked, self.rest, self.said = 0, 0, b"", queue.Queue()
        more = {**options, "setup": [*options.get("setup", ()), RUN], "timeout": 1e9}
        self.guest = machine.Guest(
            [], stdin=True, output=self._take,
            log_dir=os.path.join(machine.BUILD, "run", "check-" + re.sub(r"\W+", "-", name)),
            **more)
        self.guest.start()
        if self._wait(BOOT_LIMIT) is None:
            return False
        self._complain(self.guest,
                       lambda reports: self._blame_nobody(f"boot for {name}", reports))
        return True

    def _take(self, data):
        """In the guest's thread: take the lines of kit/guest/run and of the program."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"\x1e"):
                self.said.put(int(line.split()[-1]) if line.startswith(b"\x1eended") else 0)
            elif self.reader:
                self.reader(line + b"\n")

    def _wait(self, limit):
        """Wait for the exit status of the program; None if the guest has ended instead."""
        deadline = time.monotonic() + machine.patience(limit)
        while True:
            gone = self.guest.wait(0)
            try:
                return self.said.get(timeout=0 if gone else 0.2)
            except queue.Empty:
                if gone:
                    return None
            if time.monotonic() > deadline:
                self.guest.expire()
                deadline += 1e9

    def _complain(self, guest, hear):
        """Call hear() with what the kernel has complained about since the last call."""
        ready = re.compile(rf"guest-run: {self.count}\r?\n")
        deadline = time.monotonic() + machine.patience(LOG_LIMIT)
        while True:
            text = guest.console
            match = ready.search(text, self.looked)
            if match or self.guest is None or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        end = match.end() if match and self.guest else len(text)
        reports = console.reports(text[self.looked:end], guest.allow)
        self.looked = end
        for report in filter(console.race_elsewhere, reports):
            self.elsewhere[report.head] = self.elsewhere.get(report.head, 0) + 1
        reports = [r for r in reports if not console.race_elsewhere(r)]
        if reports:
            hear(reports)
        return reports


def by_guest(programs):
    """The programs in an order in which those with the same guest follow each other."""
    groups = {}
    for program in programs:
        groups.setdefault(repr(program.guest()), []).append(program)
    return [program for group in groups.values() for program in group]


def lanes_of(programs, kernel):
    """For each lane an iterator of its programs.  Two guests of two CPUs run beside each other
    on the debug kernel only."""
    here, large, small = [], collections.deque(), collections.deque()
    for program in by_guest(programs):
        guest = program.guest()
        (here if guest is None else small if guest.get("cpus") == 1 else large).append(program)

    def taken(take):  # from the two ends, so that few guests are started
        with contextlib.suppress(IndexError):
            while True:
                yield take()
    rest = taken(large.pop) if kernel == "debug" else ()
    return [itertools.chain(here, taken(small.pop), rest),
            itertools.chain(taken(large.popleft), taken(small.popleft))]


def in_lanes(lanes, run):
    """Call run(program, guests) for each program, with one thread for each pair of Guests and
    an iterator of programs in lanes, and end the Guests.  An exception in a thread is raised
    here at once."""
    ends = queue.Queue()

    def work(guests, left):
        try:
            for program in left:
                run(program, guests)
            guests.end()
            ends.put(None)
        except BaseException as error:  # pylint: disable=broad-except
            ends.put(error)
    for lane in lanes:
        threading.Thread(target=work, args=lane, daemon=True).start()
    for _ in lanes:
        error = ends.get()
        if error:
            raise error
