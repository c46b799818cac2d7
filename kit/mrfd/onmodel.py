# SPDX-License-Identifier: GPL-2.0-or-later
"""Registration, page faults, moves, peer-to-peer writes and device memory on the ConnectX
model: a part of scripts/bench.

tests/bench/register.c, moving.c and dm.c run in a guest with the model and the GPU of the
tests, by the clock: what the model does takes none of the guest's instructions."""

import csv
import os

from mrfd import beside
from mrfd import machine
from mrfd import programs
from mrfd.devices import CONNECTX

PROGRAMS = ("register", "moving", "dm")
HEAD = ("operation", "memory", "bytes", "us", "ratio", "low", "high")
REREG = ("rereg access", "rereg PD", "rereg translation")
DM = ("dm write", "dm read", "dm fetch and add", "dm copy to", "dm copy from", "dm alloc")
MOVING = ("warm write", "write after reg", "write after move", "move", "move with MR")


def numbers(text):
    """{(operation, memory, bytes): (microseconds, ratio, its lower and upper quartile)}"""
    return {(row[0], row[1], int(row[2])): tuple(map(float, row[3:7]))
            for row in csv.reader(text.splitlines()[1:])}


def run(built):
    """All of it; BUILT is the directory of the programs."""
    results = {}
    for name in PROGRAMS:
        guest = machine.Guest([os.path.join(built, "bench", name)], name="bench",
                              **programs.guest_options("base", CONNECTX, timeout=900,
                                                       memory="3G", devices=["gpu"])).run()
        results.update(numbers(beside.text_of(guest)))
    return results


def ratio(row):
    return f"{row[1]:.2f} ({row[2]:.2f}-{row[3]:.2f})"


def versus(operation):
    """What the ratio of an operation is relative to, but for a bounce."""
    if operation in REREG:
        return "dereg and reg of the same"
    return {"dm copy to": "memcpy()", "dm copy from": "memcpy()",
            "dm alloc": "reg and dereg of memory"}.get(operation, "memory")


def registration(results, operation, size):
    """A line for each size, a column for each memory."""
    rows = {key[1:]: row for key, row in results.items() if key[0] == operation}
    memories = list(dict.fromkeys(memory for memory, _ in rows))
    yield f"{operation}, relative to {versus(operation)} (quartiles)"
    yield f"{'':>9}{'memory':>14}" + "".join(f"{memory:>20}" for memory in memories)
    for n in sorted({n for _, n in rows}):
        yield (f"{size(n):>9}{rows['memory', n][0]:>11.1f} us" + "".join(
            f"{ratio(rows[m, n]) if (m, n) in rows else '-':>20}" for m in memories))
    yield ""


def moving(results, size):
    """First writes and moves: by the size of the buffer and where it is then."""
    memories = ("VRAM", "GPU system")
    yield ("RDMA write of 8 B relative to the same when warm, and move of a buffer relative to "
           "one without an MR (quartiles)")
    yield f"{'':>34}" + "".join(f"{memory:>34}" for memory in memories)
    for n in sorted({key[2] for key in results if key[0] == "move"}):
        for operation in MOVING:
            cells = (results[operation, memory, n] for memory in memories)
            yield (f"{size(n):>9}  {operation:<23}"
                   + "".join(f"{f'{row[0]:.1f} us  {ratio(row)}':>34}" for row in cells))
    yield ""


def rates(results):
    """Writes of 1 MiB."""
    yield "RDMA writes of 1 MiB from ordinary memory; VRAM bounced: the CPU copies them there"
    for (operation, memory, n), row in results.items():
        if operation == "write":
            versus = "VRAM" if "bounced" in memory else "memory"
            yield (f"{memory:>16}{n / row[0]:>11.1f} MB/s   time relative to {versus}: "
                   f"{ratio(row)}")
    yield ""


def table(results, size):
    yield "on the ConnectX model, with a GPU behind the same PCIe switch"
    yield ""
    for operation in ("reg", "dereg", *REREG):
        yield from registration(results, operation, size)
    yield from moving(results, size)
    yield from rates(results)
    for operation in DM:
        yield from registration(results, operation, size)


def aims(results, size):
    """Lines: each aim on the model, and whether it is met."""
    for text, operation, which, limit in (
            *((f"{operation} on the model", operation, max, limit)
              for operation, limit in zip(REREG, (.5, .5, 1))),
            ("a bounce into VRAM is slower than peer to peer", "write", min, 1)):
        found = {key: row for key, row in results.items()
                 if key[0] == operation and (operation in REREG or "bounced" in key[1])}
        key = which(found, key=lambda key: found[key][1])
        value = round(found[key][1], 2)
        met = value > limit if which is min else value <= limit
        yield f"{text}: {'more than' if which is min else 'at most'} {limit:g}"
        yield (f"  {'met' if met else 'missed':<7}{ratio(found[key])}, "
               f"{'least' if which is min else 'most'}: {', '.join(key[:2])}, {size(key[2])}")


def write_csv(out, results):
    """model.csv in the directory OUT."""
    with open(os.path.join(out, "model.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEAD)
        writer.writerows(key + row for key, row in results.items())
