# SPDX-License-Identifier: GPL-2.0-or-later
"""The InfiniBand fabric that joins the ConnectX models of several guests:

    with Fabric() as fabric:
        guests = [Guest(..., devices=["connectx"], mac=n, fabric=fabric.socket) ...]
        ...
        fabric.check()

At the end it says in its log what it did with the packets.  The process dies with the
thread that has started it.
"""

import contextlib
import os
import signal
import subprocess
import time

from mrfd import console
from mrfd import machine
from mrfd import products
from mrfd.products import BootError
from mrfd.paths import SCRIPTS, inside
from mrfd.processes import below

PROGRAM = "connectx-fabric"
END_LIMIT = 60  # seconds in which it ends after SIGTERM


class Fabric:
    """A context in which connectx-fabric runs, with these options.  Its directory in
    build/run has the socket, which every userland sees by the same short name, and, unless
    there is another log_dir, fabric.log.  It is an error if it does not end well."""

    def __init__(self, *options, log_dir=None):
        self.options, self.log_dir = options, log_dir

    def __enter__(self):
        directory = machine.log_directory("fabric")
        path = os.path.join(directory, "socket")
        self.log = os.path.join(self.log_dir or directory, "fabric.log")
        self.socket = inside(path)
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [os.path.join(SCRIPTS, "enter"), f"{products.model_directory()}/{PROGRAM}",
                 "--socket", self.socket, *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            end = time.monotonic() + machine.patience(30)
            while not os.path.exists(path):
                self.check()
                if time.monotonic() > end:
                    raise BootError("the fabric does not listen")
                time.sleep(0.01)
        except BaseException:
            self._kill()
            raise
        return self

    def check(self):
        """BootError if it has ended."""
        if self._process.poll() is not None:
            raise self._error(f"has ended, status {self._process.returncode}")

    def pid(self):
        """The process of connectx-fabric itself; None if it has ended."""
        return next((pid for pid, name in below(self._process.pid).items() if name == PROGRAM),
                    None)

    def __exit__(self, kind, *_):
        try:
            if kind is None:  # else what is being reported is the cause
                self._end()
        finally:
            self._kill()

    def _end(self):
        """Have it write its report and end.  Only the process itself may get the signal:
        scripts/enter, or rather bwrap, would die of it and take the process along."""
        self.check()
        pid = self.pid()
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        try:
            self._process.wait(machine.patience(END_LIMIT))
        except subprocess.TimeoutExpired as late:
            raise self._error(f"has not ended {late.timeout:.0f} s after SIGTERM") from None
        if self._process.returncode:
            raise self._error(f"has ended badly, status {self._process.returncode}")

    def _error(self, what):
        with open(self.log, errors="replace") as log:
            return BootError(f"the fabric {what}; the end of {self.log}:\n"
                             f"{console.tail(log.read())}")

    def _kill(self):
        self._process.kill()
        self._process.wait()
