# SPDX-License-Identifier: GPL-2.0-or-later
"""The processes of the host.  What scripts/enter runs has a process namespace of its own,
and ends with scripts/enter; so a signal for it needs its number out here."""

import os


def cpu_seconds():
    """The CPU time of this process and of all that come from it, those that have ended and
    were waited for among them."""
    ticks = 0
    for pid in (os.getpid(), *below(os.getpid())):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
                ticks += sum(map(int, stat.read().rpartition(")")[2].split()[11:15]))
        except OSError:
            pass  # it has ended
    return ticks / os.sysconf("SC_CLK_TCK")


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
