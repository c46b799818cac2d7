#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw Documentation/data-direct.svg: the two ways that a ConnectX with Data Direct has
through a host.

usage: Documentation/data_direct.py [FILE]      (default: data-direct.svg beside it)

The drawing shows the two tables below.  tests/host/test_drawing.py checks that it is what
this program makes, and that each text fits into its box.  The style is that of
registration.py."""

import os
import sys
from html import escape

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)

from registration import TIP, style  # noqa: E402

COLUMN, GAP, SIDE = 230, 30, 20
ROWS = (84, 186, 288, 404)  # the upper edges
HEIGHTS = (62, 62, 62, 78)
WIDTH, HEIGHT = 2 * SIDE + 3 * COLUMN + 2 * GAP, 512

# (row, first column, columns, colour, name, lines)
BOXES = (
    (0, 0, 1, "core", "System memory", ("queues, completions,", "memory of the process")),
    (1, 0, 3, "exp", "Root complex of the CPU",
     ("need not forward from one port to another one, and may be slow at that",)),
    (2, 0, 1, "exp", "Root port", ()),
    (2, 1, 2, "exp", "PCIe switch", ("forwards from port to port, without the CPU",)),
    (3, 0, 1, "lib", "First function", ("doorbells, queues, events;", "data of ordinary MRs")),
    (3, 1, 1, "app", "Second function", ("Data Direct: data of the MRs", "that ask for it, nothing else")),
    (3, 2, 1, "rxe", "GPU", ("its memory is a dma-buf",)),
)


def left(column):
    return SIDE + column * (COLUMN + GAP)


def middle(column):
    return left(column) + COLUMN // 2


def bottom(row):
    return ROWS[row] + HEIGHTS[row]


# (class, words, path)
WAYS = (
    ("first", "every MR without Data Direct, and all that is not data of an MR",
     f"M{left(1) - GAP - 40} {ROWS[3]} V{bottom(0) + 2}"),
    ("far", "such an MR on memory of the GPU: only if the root complex forwards it",
     f"M{left(1) - GAP - 16} {ROWS[3]} V{ROWS[1] + 50} H{middle(2) + 30} V{ROWS[3] - 2}"),
    ("second", "an MR with Data Direct",
     f"M{middle(1)} {ROWS[3]} V{ROWS[2] + 50} H{middle(2) - 30} V{ROWS[3] - 2}"),
)
LINES = """.first, .far, .second { fill: none; stroke-width: 2; marker-end: url(#tip) }
.first { stroke: #3b7a4a }
.far { stroke: #3b7a4a; stroke-dasharray: 3 5 }
.second { stroke: #d07a12 }
.card { fill: none; stroke: #8a9099; stroke-dasharray: 6 4 }
"""


def box(row, column, columns, colour, name, lines):
    x, y = left(column), ROWS[row]
    width = columns * (COLUMN + GAP) - GAP
    text = (left(1) if columns == 3 else x) + 12  # the ways are at the right of the first column
    yield (f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHTS[row]}" rx="5" '
           f'class="box {colour}"/>')
    yield f'<text class="head" x="{text}" y="{y + 22}">{escape(name)}</text>'
    for number, line in enumerate(lines):
        yield (f'<text class="what" x="{text}" y="{y + 40 + 16 * number}">'
               f"{escape(line)}</text>")


def drawing():
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img">',
        "<!-- SPDX-License-Identifier: GPL-2.0-or-later -->",
        "<!-- Made by Documentation/data_direct.py; edit that. -->",
        "<title>Two ways of DMA: the first function goes by a root port and the root complex to "
        "system memory, the second one, for Data Direct, by a PCIe switch to the memory of a "
        "GPU</title>",
        f"<style>{style()}{LINES}</style>", TIP,
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>']
    for number, (kind, words, _) in enumerate(WAYS):
        y = 16 + 18 * number
        parts.append(f'<path class="{kind}" d="M{SIDE} {y} H{SIDE + 40}"/>'
                     f'<text class="what" x="{SIDE + 52}" y="{y + 4}">{escape(words)}</text>')
    for one in BOXES:
        parts += box(*one)
    parts += [f'<path class="{kind}" d="{path}"/>' for kind, _, path in WAYS]
    parts.append(f'<rect class="card" x="{left(0) - 8}" y="{ROWS[3] - 12}" '
                 f'width="{2 * COLUMN + GAP + 16}" height="{HEIGHTS[3] + 40}" rx="8"/>'
                 f'<text class="what" x="{left(0)}" y="{bottom(3) + 19}">one ConnectX, one '
                 "driver, one port</text>")
    return "\n".join(parts) + "\n</svg>\n"


def main():
    if sys.argv[1:2] in (["--help"], ["-h"]) or len(sys.argv) > 2:
        print(__doc__)
        return 2 if len(sys.argv) > 2 else 0
    where = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "data-direct.svg")
    with open(where, "w", encoding="utf-8") as file:
        file.write(drawing())
    return 0


if __name__ == "__main__":
    sys.exit(main())
