# SPDX-License-Identifier: GPL-2.0-or-later
"""Run test programs in guests, in a lane one after another in the same guest.

A boot of the debug kernel and the leak scan at its end take longer than most
programs, so a guest is kept for the next program as long as all goes well.  It
is given up, and the next program gets a new one, when a program fails, hangs or
dies, or when the kernel has complained: after that a lock checker may have
turned itself off, and memory may be damaged.

The kernel's log is looked at after each program, and a complaint belongs to the
program during which it came.  What comes before the first program, and after
the last one, when the debug kernel scans for leaks, belongs to the guest; the
leak detector names the program that allocated the memory.

In the guest kit/guest/run does what is asked here.

There may be two lanes, each with a guest of its own.  That is for the debug
kernel, where most programs keep one CPU busy and a boot or a leak scan is half a
minute; on the other kernels two guests take from each other what they gain.
"""

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
LIMIT = 900             # seconds that a program may take
BOOT_LIMIT = 300        # seconds to a guest that can run one: KUnit runs before that
END_LIMIT = 240         # seconds for the leak scans, and to power off
LANES = min(2, os.cpu_count())  # on the debug kernel


class Guests:
    """One guest at a time.  tell() is given a failed Case for what no program is to
    blame for."""

    def __init__(self, tell):
        self.tell = tell
        self.guest = self.options = self.reader = None
        self.elsewhere = {}  # heads of data races in other parts of the kernel: how often

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
                       console.tail(guest.console).split("\n"))
            return
        self.name, self.reader = name, reader
        reader.start()
        self.guest.send(shlex.join(words).encode() + b"\n")
        status = self._wait(limit)
        self.reader = None
        if status is None:
            guest, self.guest = self.guest, None
            why = guest.why
            if guest.status == machine.TIMED_OUT:
                why = f"still running after {limit} s"
            reader.end(guest.status, why, console.tail(guest.console).split("\n"))
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
            if not guest.wait(END_LIMIT):
                guest.expire()
                guest.wait()
        except OSError:
            pass  # it is gone; guest.why says why
        finally:
            guest.stop()
        where = f"guest of {self.first} to {self.name}"
        if guest.why:
            self.tell(Case(where, "end", "not ok", guest.why,
                           console.tail(guest.console).split("\n")))
        self._complain(guest, lambda reports: self._blame_nobody(where, reports))

    # How it is done

    def _blame_nobody(self, where, reports):
        self.tell(Case(where, "kernel log", "not ok", reports[0].head,
                       "\n".join(r.text for r in reports).split("\n")))

    def _start(self, name, options):
        """Whether a guest runs that waits for programs."""
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
        """In the guest's thread: lines of guest-run, and the program's."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"\x1e"):
                self.said.put(int(line.split()[-1]) if line.startswith(b"\x1eended") else 0)
            elif self.reader:
                self.reader(line + b"\n")

    def _wait(self, limit):
        """The status with which the program ended; None: the guest is gone."""
        deadline = time.monotonic() + limit
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
        """Give what the kernel complained of since the last look to hear()."""
        ready = re.compile(rf"guest-run: {self.count}\r?\n")
        deadline = time.monotonic() + 10
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


def in_lanes(lanes, programs, run):
    """Call run(program, guests) for each of the list of programs, in a thread
    for each of the Guests in lanes; these are ended then.  What is raised in one
    of the threads is raised here, at once."""
    left, ends = iter(programs), queue.Queue()

    def work(guests):
        try:
            for program in left:
                run(program, guests)
            guests.end()
            ends.put(None)
        except BaseException as error:  # pylint: disable=broad-except
            ends.put(error)
    for guests in lanes:
        threading.Thread(target=work, args=(guests,), daemon=True).start()
    for _ in lanes:
        error = ends.get()
        if error:
            raise error
