#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Write Documentation/tests.md: a row for each test program, made from the head of its source.

usage: Documentation/tests.py

What a program shows is the first paragraph of its head: in C of the comment below the "runs"
lines, in Python of the docstring.  Where it runs is what these lines say (kit/mrfd/heads.py).
tests/host/test_tables.py checks that the page is what this program makes."""

import ast
import inspect
import os
import re
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../kit"))
from mrfd import heads  # noqa: E402
from mrfd import programs  # noqa: E402

PAGE = os.path.join(HERE, "tests.md")
TOP = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- made by Documentation/tests.py, from the heads of the tests -->
# Test programs

What each program shows, and where it runs: [the words](testing.md#to-add-a-case). Not here: \
rdma-core's own suite, whose modules [tests/rdma-core.runs](../tests/rdma-core.runs) names.
"""


def head_of(name, text):
    """The comment at the head of a source, without its marks."""
    if name.endswith(".py"):
        return ast.get_docstring(ast.parse(text)) or ""
    text = re.sub(r"\A//.*\n(?:/\* runs: .*\n)+", "", text)
    comment = re.match(r"/\*(.*?)\*/", text, re.DOTALL)
    return re.sub(r"^ \* ?", "", comment[1], flags=re.MULTILINE) if comment else ""


def first_paragraph(text):
    return " ".join(re.split(r"\n\s*\n", text.strip())[0].split())


def shows(program):
    """What a program shows; one without a source says it in its class."""
    path = getattr(program, "path", None)
    if not path:
        return first_paragraph(inspect.getdoc(type(program)))
    with open(path, encoding="utf-8") as file:
        return first_paragraph(head_of(path, file.read()))


def where(program):
    """The lines at its head, with the devices first."""
    path = getattr(program, "path", None)
    for head in heads.read(path) if path else (program.head,):
        devices = f"{', '.join(head.devices)}: " if head.devices else ""
        guest = f"; guest: {', '.join(head.guest)}" if head.guest else ""
        yield f"{devices}{', '.join(head.runs)}{guest}"


def row(program):
    path = getattr(program, "path", None)
    name = f"[{program.name}]({os.path.relpath(path, HERE)})" if path else program.name
    what = shows(program).replace("|", r"\|")
    return f"| {name} | {what} | {'<br>'.join(where(program))} |"


def page():
    found = {program.name: program for program in programs.ours("base")}  # each once
    folders = {}
    for name, program in found.items():
        folders.setdefault(os.path.dirname(name) or "others", []).append(program)
    parts = [TOP]
    for folder, those in folders.items():
        parts.append("\n".join(["", f"## {folder}", "", "| program | what it shows | runs |",
                                "| --- | --- | --- |", *map(row, those)]) + "\n")
    return "".join(parts)


def main():
    if len(sys.argv) > 1:
        print(__doc__, file=sys.stdout if sys.argv[1:] in (["-h"], ["--help"]) else sys.stderr)
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 2)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page())


if __name__ == "__main__":
    main()
