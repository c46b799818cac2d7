# SPDX-License-Identifier: GPL-2.0-or-later
"""Find what a kernel complained about in its console log.

reports(text) returns each complaint as a Report: its head line, and its text from the
first line to the last.  A complaint is what a healthy kernel never prints: a warning, a bug,
an oops, a report of a sanitizer, of lockdep or of the leak detector, a hung task, a
stall.  death(text) says which oops or panic ended the kernel.

Reports have no common form.  The last line of one depends on its kind: "end trace" for
a warning or an oops, a line of "=" for KASAN and KCSAN, its own last line for kmemleak,
the end of the call trace for the rest.  A report without a call trace is one line.
"""

import re
from collections import namedtuple

Report = namedtuple("Report", "head text")

TIME = re.compile(r"^\[ *\d+\.\d+\](\[ *[TC]\d+\])? ?")
HEAD = re.compile(r"""^(?:
    WARNING:\s | BUG:?\s | kernel\ BUG\ at | UBSAN: | Oops:?\s | Kernel\ panic
    | (?:general\ protection|double)\ fault | (?:divide|stack\ segment|invalid\ opcode)\b.*\[\#
    | (?:watchdog:\ )?BUG:\s | rcu:\ INFO:.*stall | INFO:\ .*\bstall
    | INFO:\ task\ .*\ blocked\ for\ more\ than
    | INFO:\ (?:possible|inconsistent|suspicious|trying\ to|HARDIRQ|SOFTIRQ)
    | (?:list_add|list_del|refcount_t)\b.*(?:corruption|;|\.)
    | DMA-API:\ (?!preallocated|debugging\ enabled|nr_total_entries)
    | kmemleak:\ .*(?:new\ suspected|unreferenced)
    | unregister_netdevice:\ waiting | restrack:\ .*BUG
    | guest-(?:init|run):\ .*cannot
    )""", re.VERBOSE)
OPENS = re.compile(r"^(-+\[ cut here \]-+|=+)$")
END_TRACE = re.compile(r"^-+\[ end (trace|Kernel panic)")
# Functions of rdma_rxe, ib_core, ib_uverbs and the dma-buf framework
OURS = re.compile(r"(do_|__|_)?(rxe|ib|rdma|uverbs|uapi|dma_buf|dma_resv|dma_fence|udmabuf)_"
                  r"|do_(complete|request|read|atomic)|(prepare|finish|send|process|check)_"
                  r"(ack|packet|data|rkey|resource|psn|op)")
LONGEST = 250  # lines
NEAR = 40  # lines, from a head to its call trace, from that to "end trace"


def _end(lines, start):
    """The index of the last line of the report whose head is lines[start]."""
    window = range(start + 1, min(start + LONGEST, len(lines)))
    if "KASAN" in lines[start] or "KCSAN" in lines[start]:
        for i in window:
            if OPENS.match(lines[i]):
                return i
    if lines[start].startswith("kmemleak:"):
        return next((i - 1 for i in window if not lines[i].startswith("kmemleak:")), window[-1])
    traced, end, near = False, start, start
    for i in window:
        if END_TRACE.match(lines[i]):
            return i
        if i > near + NEAR or OPENS.match(lines[i]):
            break
        if HEAD.match(lines[i]) and not lines[i].startswith("Oops"):
            break
        if lines[i].strip() == "Call Trace:":
            traced, near = True, i
        if traced and lines[i].strip() in ("</TASK>", "</IRQ>"):
            end = near = i
    return end


def reports(text, allow=()):
    """The complaints in a console log, without those whose head line matches one of the
    regular expressions in allow."""
    lines = [TIME.sub("", line) for line in text.replace("\r", "").split("\n")]
    found, i, done = [], 0, 0
    while i < len(lines):
        if not HEAD.match(lines[i]):
            i += 1
            continue
        first, last = i, _end(lines, i)
        while first > done and OPENS.match(lines[first - 1]):
            first -= 1
        if not any(re.search(pattern, lines[i]) for pattern in allow):
            found.append(Report(lines[i], "\n".join(lines[first:last + 1])))
        i = done = last + 1
    return found


def death(text):
    """A line that says which oops or panic ended the kernel; None if none did.  An oops
    is followed by the panic that it causes (oops=panic)."""
    before = None
    for report in reports(text):
        if report.head.startswith("Kernel panic"):
            reason = report.head.partition("not syncing: ")[2]
            if before and reason.startswith("Fatal exception"):
                return f"kernel oops: {before.head}"
            return f"kernel panic: {reason}"
        before = report
    return None


def race_elsewhere(report):
    """Whether it is a data race (KCSAN) outside RDMA and dma-buf: none of the last three
    calls on either side belongs to them."""
    if "KCSAN" not in report.head:
        return False
    near = -1
    for line in report.text.split("\n"):
        near = 0 if re.match(r"(read|write|race|assert)\b.* by (task|interrupt)", line) else near
        match = re.match(r" (\w[\w.]*)\+0x", line)
        if match and 0 <= near < 3:
            near += 1
            if OURS.match(match[1]):
                return False
    return True


def tail(text, count=40):
    """The last lines of a log; if sysrq was used, up to 200 lines from the last list of
    blocked tasks on."""
    lines = text.replace("\r", "").rstrip("\n").split("\n")
    asked = [i for i, line in enumerate(lines) if "sysrq: Show Blocked State" in line]
    return "\n".join(lines[asked[-1] if asked else -count:][:200])
