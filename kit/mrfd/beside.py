# SPDX-License-Identifier: GPL-2.0-or-later
"""Soft-RoCE and the ConnectX model side by side, and the model's own time: a part of
scripts/bench.

A guest has both devices, and tests/bench/beside.c works on them in turn: in one guest
whose devices are connected to themselves, then in two guests, joined by an Ethernet and by
an InfiniBand fabric.  The model's own time is in the table that it writes at its end
(devices/connectx/base/stats.h)."""

import csv
import dataclasses
import os
import re

from mrfd import machine
from mrfd import products
from mrfd import programs
from mrfd.devices import CONNECTX, RXE
from mrfd.fabric import Fabric

BOTH = dataclasses.replace(CONNECTX, setup=f"{RXE.setup} && {CONNECTX.setup}")
DEVICES = {RXE.verbs: "Soft-RoCE", CONNECTX.verbs: "ConnectX"}  # in this order
WHERE = {"loopback": "in loopback", "guests": "between two guests"}
REGISTRATION, INTERRUPT = "UMR", "interrupt"
ROW = re.compile(r"^connectx: (\S.*?) +(\d+) +([\d.]+) +([\d.]+)$", re.MULTILINE)


def text_of(guest):
    """What the program in a guest that has ended printed; BootError if it failed."""
    text = guest.output.decode(errors="replace")
    if guest.status:
        why = guest.why or f"exit status {guest.status}"
        raise products.BootError(f"{os.path.basename(guest.command[0])} failed: {why}\n{text}")
    return text


def own_time(log):
    """{what: (count, mean, longest)} in microseconds, of the model's log."""
    return {what: (int(count), float(mean), float(longest))
            for what, count, mean, longest in ROW.findall(log)}


def numbers(where, text):
    """{(where, operation, device): (bytes, microseconds)}"""
    return {(where, row[0], row[1]): (int(row[2]), float(row[3]))
            for row in csv.reader(text.splitlines()[1:])}


def in_loopback(program):
    """The numbers of one guest, and the own time of its model."""
    guest = machine.Guest([program, *DEVICES], name="bench",
                          **programs.guest_options("base", BOTH, timeout=900)).run()
    text = text_of(guest)
    with open(os.path.join(guest.log_dir, "connectx.log"), encoding="utf-8") as log:
        own = own_time(log.read())
    if REGISTRATION not in own:
        raise products.BootError(f"{guest.log_dir}/connectx.log has no times of the model")
    return numbers("loopback", text), own


def between_guests(program):
    """The numbers of two guests."""
    with Fabric() as fabric:
        guests = [machine.Guest([program, *DEVICES], name=f"bench{number}", links=links,
                                mac=number, fabric=fabric.socket,
                                **programs.guest_options(
                                    "base", BOTH, timeout=900,
                                    setup=machine.network_setup(number, 2, BOTH)))
                  for number, links in enumerate(machine.network(2))]
        try:
            for guest in guests:
                guest.start()
            while not all([guest.wait(0.2) for guest in guests]):
                fabric.check()
                if any(guest.status for guest in guests):
                    break
        finally:
            for guest in guests:
                guest.stop()
    for guest in sorted(guests, key=lambda guest: guest.why == "stopped"):
        text_of(guest)  # the one that failed first
    return numbers("guests", text_of(guests[0]))


def run(program):
    """All of it."""
    results, own = in_loopback(program)
    return {**results, **between_guests(program)}, own


def ratio(results, where, operation):
    """The model's time relative to Soft-RoCE's."""
    soft, model = (results[where, operation, device][1] for device in DEVICES)
    return model / soft


def table(results):
    yield "Soft-RoCE and the ConnectX model, side by side"
    yield f"{'':>44}" + "".join(f"{name:>16}" for name in DEVICES.values()) + f"{'ratio':>10}"
    for operation, label, rate in (("write", "1 MiB writes", True),
                                   ("latency", "8 B write, memory to memory", False),
                                   ("registration", "registration of 4 KiB and its end", False)):
        for where, words in WHERE.items():
            rows = [results.get((where, operation, device)) for device in DEVICES]
            if None in rows:  # a registration is the same in both places
                continue
            cells = [f"{size / us:.1f} MB/s" if rate else f"{us:.1f} us" for size, us in rows]
            times = ratio(results, where, operation)
            yield (f"{label + (' ' + words if operation != 'registration' else ''):<44}"
                   + "".join(f"{cell:>16}" for cell in cells)
                   + f"{1 / times if rate else times:>10.2f}")
    yield ""


def own_table(own):
    """The model's own time: registrations, all commands, and those that take longest."""
    commands = commands_of(own)
    slowest = sorted(commands, key=lambda what: commands[what][1], reverse=True)[:5]
    yield "the ConnectX model's own time"
    yield f"{'':>44}{'count':>10}{'mean':>12}{'longest':>12}"
    for what, (count, mean, longest) in (
            ("UMR of a registration or its end", own[REGISTRATION]),
            ("all commands", all_of(commands)), *((what, own[what]) for what in slowest),
            ("interrupts, which are not in these times", own[INTERRUPT])):
        yield f"{what:<44}{count:>10}{mean:>9.2f} us{longest:>9.2f} us"
    yield ""


def commands_of(own):
    return {what: row for what, row in own.items() if what not in (REGISTRATION, INTERRUPT)}


def all_of(commands):
    """(count, mean, longest) of several rows."""
    count = sum(row[0] for row in commands.values())
    return (count, sum(row[0] * row[1] for row in commands.values()) / count,
            max(row[2] for row in commands.values()))


def aims(results, own):
    """Lines: each aim of the model, and whether it is met."""
    def line(value, met, aim, unit, where=""):
        return (f"  {'met' if met else 'missed':<7}{value:.2f}{unit}, aim {aim}{unit}"
                + (f": {where}" if where else ""))
    commands = commands_of(own)
    slowest = max(commands, key=lambda what: commands[what][1])
    for where, times in ("loopback", 10), ("guests", 5):
        value = 1 / ratio(results, where, "write")
        yield f"the model writes 1 MiB {WHERE[where]} at {times} times Soft-RoCE's rate:"
        yield line(value, value >= times, times, " times")
    for where, words in WHERE.items():
        value = ratio(results, where, "latency")
        yield f"the model's write of 8 B {words} takes no longer than Soft-RoCE's:"
        yield line(value, round(value, 2) <= 1, 1, " times")
    for text, limit, value, where in (
            ("a registration of 4 KiB", 5, own[REGISTRATION][1], ""),
            ("a command", 20, all_of(commands)[1], "mean of all"),
            ("each command", 20, commands[slowest][1], f"most, {slowest}")):
        yield f"of {text} less than {limit} us are the model's own:"
        yield line(value, value < limit, limit, " us", where)


def write_csv(out, results, own):
    """beside.csv and own-time.csv in the directory OUT."""
    for name, head, rows in (
            ("beside", ("where", "operation", "device", "bytes", "us"),
             (key + row for key, row in results.items())),
            ("own-time", ("what", "count", "mean us", "longest us"),
             ((what, *row) for what, row in own.items()))):
        with open(os.path.join(out, f"{name}.csv"), "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(head)
            writer.writerows(rows)
