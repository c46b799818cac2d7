# SPDX-License-Identifier: GPL-2.0-or-later
"""Types for argparse that name the range which a value must be in."""

import argparse
import os
import re
import shlex
import sys

UNITS = {"M": 1 << 20, "G": 1 << 30}


def whole(low, high):
    """A whole number from low to high."""
    def convert(word):
        if not re.fullmatch(r"[0-9]{1,18}", word) or not low <= int(word) <= high:
            raise argparse.ArgumentTypeError(
                f"{word!r} is not a whole number from {low} to {high}")
        return int(word)
    return convert


def seconds(high):
    """A positive number of seconds, at most high."""
    def convert(word):
        if re.fullmatch(r"[0-9]*\.?[0-9]+", word) and 0 < float(word) <= high:
            return float(word)
        raise argparse.ArgumentTypeError(
            f"{word!r} is not a number of seconds above 0 and up to {high}")
    return convert


def one_of(*words):
    """One of these words."""
    def convert(word):
        if word not in words:
            raise argparse.ArgumentTypeError(f"{word!r} is none of: {', '.join(words)}")
        return word
    return convert


def words(line):
    """The words of a line, as the shell would split it."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{line!r}: {error}") from None


def from_environment(name, default, convert):
    """The value of an environment variable, or the default if it is not set or empty.  A wrong
    one ends the program, as a wrong argument does."""
    word = os.environ.get(name)
    try:
        return convert(word) if word else default
    except argparse.ArgumentTypeError as error:
        print(f"{os.path.basename(sys.argv[0])}: {name}: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def bytes_of(size):
    """The bytes that a size like 512M or 2G means."""
    return int(size[:-1]) * UNITS[size[-1]]


def host_memory():
    """The bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def memory(low):
    """A size of memory like 512M or 2G: at least low, at most what this machine has."""
    def convert(word):
        if (not re.fullmatch(r"[0-9]{1,9}[MG]", word)
                or not bytes_of(low) <= bytes_of(word) <= host_memory()):
            raise argparse.ArgumentTypeError(
                f"{word!r} is not a size from {low} to {host_memory() >> 20}M "
                "(this machine's memory), such as 512M or 2G")
        return word
    return convert


def pattern(word):
    """A regular expression."""
    try:
        re.compile(word)
    except re.error as error:
        raise argparse.ArgumentTypeError(
            f"{word!r} is not a regular expression: {error}") from None
    return word
