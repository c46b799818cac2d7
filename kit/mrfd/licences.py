# SPDX-License-Identifier: GPL-2.0-or-later
"""Print those of the files named on standard input that do not have a licence.

    licences.py LICENCE DIRECTORY

The names are relative to DIRECTORY.  A file has the licence if one of its first 15
lines says so (SPDX-License-Identifier), inside a comment or not, with parentheses or
not.  In a patch that line is in the head.  A file that is empty or binary needs none.
The exception that headers of the kernel's uAPI have, so that any program may include
them, makes no other licence of it.
"""

import itertools
import os
import re
import sys

LINES = 15
UAPI = re.compile(r"\((\S+) WITH Linux-syscall-note\)")
SPDX = re.compile(r"SPDX-License-Identifier:\s*(.*?)\s*(\*/|-->|['\"])?$")


def licence_of(text, patch=False):
    """The licence that a text names, or None."""
    for line in itertools.islice(text.splitlines(), LINES):
        match = SPDX.search(line.rstrip())
        if match:
            name = UAPI.sub(r"\1", match[1])
            return name[1:-1] if name.startswith("(") and name.endswith(")") else name
        if patch and not line:
            return None
    return None


def main(licence, directory):
    for name in sys.stdin.read().splitlines():
        with open(os.path.join(directory, name), "rb") as file:
            data = file.read(1 << 16)
        if not data.strip() or b"\0" in data:
            continue
        found = licence_of(data.decode(errors="replace"), name.endswith(".patch"))
        if found != licence:
            print(f"{name}: its first lines name {found or 'no licence'} and not {licence}")


if __name__ == "__main__":
    main(*sys.argv[1:])
