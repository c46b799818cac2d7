#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The inputs of a fuzz target are lines of one text, so that a review can read them.

usage: fuzz/corpus.py unpack CORPUS DIR          a file in DIR, which is made, for each input
       fuzz/corpus.py pack INPUT... >>CORPUS     a line for each file

An input is a line "NAME HEX", and its further bytes are the lines below it that begin with
a tab.  A line that begins with # is a comment; an empty line separates."""

import os
import re
import sys

WIDTH = 40  # bytes in a line
# A name that begins with a dot would be left out by main.c.
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
LINE = re.compile(rf"({NAME} |\t)((?:[0-9a-f]{{2}})+)")


class Malformed(Exception):
    pass


def pack(name, data):
    """The lines of an input."""
    if not re.fullmatch(NAME, name) or not data:
        raise Malformed(f"{name}: no bytes, or no name for an input")
    rows = (data[at:at + WIDTH].hex() for at in range(0, len(data), WIDTH))
    return f"{name} " + "\n\t".join(rows) + "\n"


def unpack(path):
    """{name: bytes} of a corpus."""
    inputs, name = {}, None
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                name = None
                continue
            match = LINE.fullmatch(line)
            if not match:
                raise Malformed(f'{path}:{number}: not "NAME HEX" and not a tab and HEX')
            if match[1] != "\t":
                name = match[1].rstrip()
                if name in inputs:
                    raise Malformed(f"{path}:{number}: {name} is there already")
                inputs[name] = b""
            elif name is None:
                raise Malformed(f"{path}:{number}: no input that it belongs to")
            inputs[name] += bytes.fromhex(match[2])
    return inputs


def main(argv):
    if len(argv) == 3 and argv[0] == "unpack":
        inputs = unpack(argv[1])
        os.makedirs(argv[2])
        for name, data in inputs.items():
            with open(os.path.join(argv[2], name), "wb") as file:
                file.write(data)
    elif len(argv) > 1 and argv[0] == "pack":
        for path in argv[1:]:
            with open(path, "rb") as file:
                sys.stdout.write(pack(os.path.basename(path), file.read()))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (Malformed, OSError) as error:
        sys.exit(f"corpus.py: {error}")
