# SPDX-License-Identifier: GPL-2.0-or-later
"""How fast the host's time stamp counter (TSC) counts.

The counter of an emulated CPU is the host's.  A kernel that boots measures how fast it counts,
against 50 ms of a timer chip, the PIT.  If the host takes the emulator off its CPU at the moment
when the kernel has started the PIT and not yet read the counter, the kernel sees a part of the
50 ms only, takes the counter for slow, and its clock is then too fast for as long as it runs:
beside a build on two cores 3 of 50 guests had clocks that were 5 to 7 times too fast, and every
time limit in them was as much too short; of guests that boot six at a time 2 of 30, and none of
30 that were told.  So the kernel is told (tsc_early_khz=).
"""

import ctypes
import functools
import mmap
import time

# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
CODE = bytes.fromhex("0f31 48c1e220 4809d0 c3")
INTERVAL = 0.05  # seconds, for an error of at most 0.01 percent


def _counter():
    """A function that reads the counter."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(CODE)
    code = ctypes.c_char.from_buffer(page)
    read = ctypes.PYFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(code))
    read.keeps = code  # and so the page
    return read


def _sample(counter):
    """The time in ns and the counter at that time: of several, the one with the least between
    two looks at the clock, in which nothing can have come in between."""
    def look():
        before, ticks, after = time.monotonic_ns(), counter(), time.monotonic_ns()
        return after - before, before + (after - before) / 2, ticks
    return min(look() for _ in range(20))[1:]


@functools.cache
def khz():
    """Thousands of ticks each second; None if the counter has no constant rate, or the host
    lets nobody read it so."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        if "constant_tsc" not in file.read().split():
            return None
    try:
        counter = _counter()
    except OSError:  # no memory may be executed
        return None
    begin, first = _sample(counter)
    time.sleep(INTERVAL)
    end, last = _sample(counter)
    return round((last - first) / (end - begin) * 1e6)
