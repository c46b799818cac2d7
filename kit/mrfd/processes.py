# SPDX-License-Identifier: GPL-2.0-or-later
"""The processes of the host, and how long to wait for one.  What scripts/enter runs has a process
namespace of its own, and ends with scripts/enter; so a signal for it needs its number out here."""

import contextlib
import os
import signal


def patience(seconds):
    """A bound of so many seconds, and of more on a busy host: it ends what hangs, and must not
    judge the speed of a machine."""
    return seconds * max(1, os.getloadavg()[0] / os.cpu_count())


def below(pid):
    """The processes that come from this one: {pid: the name of its program}"""
    parents, found = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat, \
                    open(f"/proc/{name}/cmdline", "rb") as words:
                program = os.path.basename(words.read().split(b"\0")[0]).decode()
                parents.setdefault(int(stat.read().rpartition(")")[2].split()[1]), []).append(
                    (int(name), program))
        except OSError:
            pass
    more = [pid]
    while more:
        for child, program in parents.get(more.pop(), ()):
            found[child] = program
            more.append(child)
    return found


def end_below(pid):
    """Tell the processes that come from this one to end, as Ctrl-C does on a terminal."""
    for child in below(pid):
        with contextlib.suppress(OSError):  # it has ended, or is another user's (newuidmap)
            os.kill(child, signal.SIGTERM)
