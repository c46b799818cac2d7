#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""usage: compare.py SENT SCREEN

Compare two pictures pixel by pixel.  Exit with 0 if all are equal; else say how
many are not and what the first of them, in reading order, should have been and
is, and exit with 1.  Runs in the kit's userland, where PIL is."""

import sys

from PIL import Image, ImageChops


def difference(sent, screen):
    """What differs, in words; None if nothing does."""
    if sent.size != screen.size:
        return "the sizes differ: sent %d x %d, screen %d x %d" % (*sent.size, *screen.size)
    red, green, blue = ImageChops.difference(sent, screen).split()
    # 0 where all three are equal
    mask = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    box = mask.getbbox()
    if box is None:
        return None
    y = box[1]
    x = mask.crop((0, y, mask.width, y + 1)).getbbox()[0]
    different = mask.width * mask.height - mask.histogram()[0]
    return ("%d of %d pixels differ, the first at x %d, y %d: sent #%02x%02x%02x, "
            "screen #%02x%02x%02x" % (different, mask.width * mask.height, x, y,
                                      *sent.getpixel((x, y)), *screen.getpixel((x, y))))


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    words = difference(*(Image.open(path).convert("RGB") for path in sys.argv[1:]))
    if words:
        print(words)
    return 1 if words else 0


if __name__ == "__main__":
    sys.exit(main())
