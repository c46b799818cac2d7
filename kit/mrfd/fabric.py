# SPDX-License-Identifier: GPL-2.0-or-later
"""The InfiniBand fabric that joins the ConnectX models of several guests:

    with Fabric() as fabric:
        guests = [Guest(..., devices=["connectx"], mac=n, fabric=fabric.socket) ...]
        ...
        fabric.check()

The process dies with the thread that has started it.
"""

import os
import subprocess
import time

from mrfd import console
from mrfd import machine
from mrfd.machine import BootError
from mrfd.paths import SCRIPTS, inside


class Fabric:
    """A context in which connectx-fabric runs, with these options.  Its directory in
    build/run has the socket, which every userland sees by the same short name, and the log."""

    def __init__(self, *options):
        self.options = options

    def __enter__(self):
        directory = machine.log_directory("fabric")
        path, self.log = (os.path.join(directory, name) for name in ("socket", "fabric.log"))
        self.socket = inside(path)
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [os.path.join(SCRIPTS, "enter"), f"{machine.model_directory()}/connectx-fabric",
                 "--socket", self.socket, *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            end = time.monotonic() + 30
            while not os.path.exists(path):
                self.check()
                if time.monotonic() > end:
                    raise BootError("the fabric does not listen after 30 s")
                time.sleep(0.01)
        except BaseException:
            self.__exit__()
            raise
        return self

    def check(self):
        """BootError if it has ended."""
        if self._process.poll() is not None:
            with open(self.log, errors="replace") as log:
                raise BootError(f"the fabric has ended, status {self._process.returncode}; the end "
                                f"of {self.log}:\n{console.tail(log.read())}")

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
