# SPDX-License-Identifier: GPL-2.0-or-later
"""What proves a series: the commands that its cover letter names, and the faults that the
kernel without our patches has (tests/stock-faults)."""

import os
import re
import shlex

from mrfd.paths import TOP

LINUX = os.path.join(TOP, "patches/linux")
FAULTS = os.path.join(TOP, "tests/stock-faults")


def series():
    """The names of the kernel's series, in their order."""
    return sorted(name for name in os.listdir(LINUX) if os.path.isdir(os.path.join(LINUX, name)))


def commands(name):
    """{kernel: [pattern]} of the lines "make check T=PATTERN" in a cover letter."""
    found = {}
    with open(os.path.join(LINUX, name, "cover.md"), encoding="ascii") as file:
        for line in re.findall(r"^  make check (.*?)(?:  .*)?$", file.read(), re.MULTILINE):
            words = dict(word.split("=", 1) for word in shlex.split(line))
            kernel = next((word.lower() for word in ("DEBUG", "KCSAN") if word in words), "base")
            found.setdefault(kernel, []).append(words["T"])
    return found


def faults(name=None):
    """[(numbers of patches, pattern of cases)] of a series; without a name [(series, ...)]."""
    with open(FAULTS, encoding="ascii") as file:
        lines = [line.split(maxsplit=2) for line in file if line.strip() and line[0] != "#"]
    rows = [(where, patches, pattern.strip()) for where, patches, pattern in lines]
    return rows if name is None else [row[1:] for row in rows if row[0] == name]
