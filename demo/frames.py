#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""usage: frames.py pixels PICTURE >PIXELS
       frames.py png WIDTH HEIGHT PICTURE <PIXELS
       frames.py animation WIDTH HEIGHT PICTURE <PIXELS...

Convert between PNG files and the pixels of a screen, XRGB8888 in rows without gaps:
the pixels of a picture, the picture of pixels, or an animation of many, in half the
size.  Needs PIL, which the kit's userland has."""

import sys

from PIL import Image

MS = 80  # that each picture of an animation is shown


def read_frames(width, height):
    size = width * height * 4
    while pixels := sys.stdin.buffer.read(size):
        if len(pixels) != size:
            sys.exit(f"frames.py: {len(pixels)} bytes are no {width} x {height} pixels")
        yield Image.frombytes("RGB", (width, height), pixels, "raw", "BGRX")


def main():
    what, *words = sys.argv[1:] or [""]
    if what == "pixels" and len(words) == 1:
        pixels = Image.open(words[0]).convert("RGBA")
        sys.stdout.buffer.write(pixels.tobytes("raw", "BGRA"))
    elif what in ("png", "animation") and len(words) == 3:
        frames = list(read_frames(int(words[0]), int(words[1])))
        if not frames:
            sys.exit("frames.py: no pixels")
        if what == "png":
            frames[0].save(words[2])
        else:
            small = [frame.reduce(2) for frame in frames]
            small[0].save(words[2], save_all=True, append_images=small[1:], duration=MS, loop=0)
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
