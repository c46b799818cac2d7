# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a test program runs, as its source says.

Near its head is a line for each group of devices,

    runs: quick debug kcsan; guest: gpu; devices: all pinned

runs     the runs that have the program, of RUNS
guest    what its guest has besides, of GUEST
devices  Device.word of each device, or "all" for the two main ones; a program that needs
         no device names none

A test without such a line, or with an unknown word, is an error: no test drops out of a
run because it is new or has another name.  tests/rdma-core.runs says the same for the
modules of rdma-core's suite.
"""

import functools
import os
import re
from dataclasses import dataclass

from mrfd.devices import DEVICES
from mrfd.products import BootError
from mrfd.paths import TOP

# A full run has all that the quick one on the same kernel has.
RUNS = {"quick": ("base", False), "full": ("base", True), "debug": ("debug", False),
        "debug-full": ("debug", True), "kcsan": ("kcsan", False)}
# The GPU of the tests (tests/gpu); the modules by which steps fail (tests/steps), which is a
# ULP of device memory (tests/kernel_dm), and which imports dma-bufs (tests/importer); perftest
# of perftest/ on the path; two CPUs in every run, for what threads do at the same time (see
# Program.cpus); a machine in which all DMA goes through bounce buffers.
GUEST = ("gpu", "steps", "kernel-dm", "importer", "perftest", "smp", "bounce")
ALL = ("rxe", "connectx")
WORDS = {"runs": RUNS, "guest": GUEST, "devices": ("all", *(device.word for device in DEVICES))}
LINES = 10      # at the head, in which the lines stand
SUITE = os.path.join(TOP, "tests/rdma-core.runs")


class BadHead(BootError):
    """A test does not say where it runs, or not in a way that is understood."""


@dataclass(frozen=True)
class Head:
    """One line."""
    runs: tuple
    guest: tuple = ()
    devices: tuple = ()

    def on(self, kernel, full):
        """Whether a run on this kernel, full or quick, has the program.  The stock kernel
        stands for the base kernel, of which it shows the faults."""
        kernel = "base" if kernel == "stock" else kernel
        return any(RUNS[word] in ((kernel, False), (kernel, full)) for word in self.runs)

    @property
    def kernels(self):
        """The kernels on which some run has the program."""
        return list(dict.fromkeys(RUNS[word][0] for word in self.runs))


def parse(where, text):
    """The Head in a line without its comment's marks."""
    words = {}
    for part in text.split(";"):
        key, _, value = part.strip().partition(":")
        words[key] = tuple(value.split())
    unknown = [key for key in words if key not in WORDS]
    unknown += [word for key, known in WORDS.items() for word in words.get(key, ())
                if word not in known]
    if unknown:
        raise BadHead(f"{where}: unknown in \"{text}\": {' '.join(unknown)}")
    if not all(words.values()):
        raise BadHead(f"{where}: nothing behind a colon of \"{text}\"")
    devices = [ALL if word == "all" else (word,) for word in words.get("devices", ())]
    return Head(words["runs"], words.get("guest", ()), tuple(sum(devices, ())))


@functools.cache
def read(path):
    """The Heads of a test."""
    name = os.path.relpath(path, TOP)
    with open(path, encoding="utf-8") as file:
        lines = [line for line, _ in zip(file, range(LINES))]
    found = [parse(name, match[1]) for line in lines
             if (match := re.match(r"[/*# ]*(runs: .*?)[*/ ]*$", line))]
    if not found:
        raise BadHead(f"{name} does not say where it runs, in a line like \"runs: quick; "
                      "devices: all\" below its licence (see kit/mrfd/heads.py)")
    return tuple(found)


def of_device(path, word):
    """The Head of a test in a guest for the device with this word, or None."""
    found = read(path)
    if not any(head.devices for head in found):
        raise BadHead(f"{os.path.relpath(path, TOP)} runs in a guest and names no device in the "
                      "line that says where it runs, as in \"runs: quick; devices: all\"")
    return next((head for head in found if word in head.devices), None)


@functools.cache
def suite():
    """{module of rdma-core's suite: its Heads}, of tests/rdma-core.runs."""
    found = {}
    with open(SUITE, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            name, _, text = line.partition(" ")
            if line.strip() and not line.startswith("#"):
                head = parse(f"{os.path.relpath(SUITE, TOP)}:{number}", text.strip())
                found.setdefault(name, []).append(head)
    return found
