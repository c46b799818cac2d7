#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""usage: compare.py SENT SCREEN

Compare two pictures pixel by pixel.  If all pixels are equal, exit with 0.  If
not, print how many differ and both colours of the first one in reading order,
and exit with 1.  Needs PIL, which the kit's userland has."""

import sys

from PIL import Image, ImageChops


def difference(sent, screen):
    """Describe the difference of two pictures; None if they are equal."""
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
