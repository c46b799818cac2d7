#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""usage: proof.py SENT SCREEN PICTURE [TITLE TITLE] <TABLE

Make one picture of a run of the demo: what was sent, beside it what the other machine's
screen shows, and below both the table of the run.  It is made for a page of text: 1200
pixels wide, 256 colours.  Needs PIL, which the kit's userland has."""

import sys

from PIL import Image, ImageDraw, ImageFont

WIDTH, MARGIN = 1200, 20
LINE, SIZE = 28, 19  # of the text
PAPER, INK, GREY = (255, 255, 255), (31, 35, 40), (101, 109, 118)
TITLES = ("Sender: the picture that it wrote by RDMA", "Receiver: its screen, as QEMU saves it")


def proof(sent, screen, rows, titles=TITLES):
    """The picture; rows are pairs of a name and a value."""
    width = (WIDTH - 3 * MARGIN) // 2
    height = max(width * picture.height // picture.width for picture in (sent, screen))
    top = 2 * MARGIN + LINE
    page = Image.new("RGB", (WIDTH, top + height + LINE * len(rows) + 2 * MARGIN), PAPER)
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(SIZE)
    for number, (title, picture) in enumerate(zip(titles, (sent, screen))):
        left = MARGIN + number * (width + MARGIN)
        draw.text((left, MARGIN), title, INK, font)
        page.paste(picture.resize((width, width * picture.height // picture.width),
                                  Image.Resampling.LANCZOS), (left, top))
    names = max(draw.textlength(name, font) for name, _ in rows) if rows else 0
    for number, (name, value) in enumerate(rows):
        y = top + height + MARGIN + number * LINE
        draw.text((MARGIN + names - draw.textlength(name, font), y), name, GREY, font)
        draw.text((2 * MARGIN + names, y), value, INK, font)
    return page.quantize(256, dither=Image.Dither.NONE)


def main():
    if len(sys.argv) not in (4, 6):
        print(__doc__, file=sys.stderr)
        return 2
    sent, screen = (Image.open(path).convert("RGB") for path in sys.argv[1:3])
    rows = [line.strip().split(": ", 1) for line in sys.stdin if ": " in line]
    proof(sent, screen, rows, sys.argv[4:] or TITLES).save(sys.argv[3], optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
