# SPDX-License-Identifier: GPL-2.0-or-later
"""The moving pictures of the demo, as demo/camera.c sends them, seen from the host.

A frame has rows of pixels of four bytes, without gaps: a strip, rows of the picture, and
the strip again.  The strip shows the frame's number in binary.  The picture moves on by PAN
pixels from frame to frame.  What is read here is the memory of the GPU itself, as QEMU has
it, so neither guest can say more than is there."""

STRIP_ROWS, STRIP_BITS, PAN = 16, 16, 8
COLOURS = {False: bytes((0x4f, 0x32, 0x16, 0xff)), True: bytes((0x57, 0xc8, 0xff, 0xff))}


def differing(wanted, seen, width):
    """How many pixels of two pictures differ, and where the first of them is."""
    if len(seen) != len(wanted):
        return f"there are {len(seen)} bytes, not {len(wanted)}"
    wrong = [i for i in range(0, len(wanted), 4) if seen[i:i + 4] != wanted[i:i + 4]]
    y, x = divmod(wrong[0] // 4, width)
    return f"{len(wrong)} of {len(wanted) // 4} pixels differ, the first at x {x}, y {y}"


class Film:
    """All frames of a picture, which is the bytes of its pixels."""

    def __init__(self, picture, width, height):
        if len(picture) != width * height * 4:
            raise ValueError(f"{len(picture)} bytes are no {width} x {height} pixels")
        self.picture, self.width, self.height = picture, width, height
        self.bytes, self.strip_bytes = len(picture), STRIP_ROWS * width * 4

    def strip(self, number):
        row = b"".join(COLOURS[bool(number >> STRIP_BITS - 1 - x * STRIP_BITS // self.width & 1)]
                       for x in range(self.width))
        return row * STRIP_ROWS

    def begin(self, number):
        """Where in the picture the part begins that a frame has."""
        return self.strip_bytes + number * PAN % self.width * 4

    def frame(self, number):
        """The bytes that a frame must have."""
        strip, begin = self.strip(number), self.begin(number)
        return strip + self.picture[begin:begin + self.bytes - 2 * len(strip)] + strip

    def is_frame(self, number, seen):
        """Whether these bytes are that frame; this copies none, since many are asked for."""
        strip, middle = self.strip(number), memoryview(seen)[self.strip_bytes:-self.strip_bytes]
        return (len(seen) == self.bytes and seen.startswith(strip) and seen.endswith(strip)
                and self.picture.startswith(middle, self.begin(number)))

    def period(self):
        """The number of frames after which the picture is where it was."""
        return self.width // PAN

    def number_in(self, strip):
        """The number that a strip shows; None if these bytes are no strip."""
        middles = [(2 * bit + 1) * self.width // (2 * STRIP_BITS) * 4 for bit in range(STRIP_BITS)]
        number = 0
        for at in middles:
            number = 2 * number + (strip[at:at + 4] == COLOURS[True])
        return number if strip == self.strip(number) else None

    def fault(self, number, seen):
        """What is wrong with the bytes of a frame; None if they are right."""
        if self.is_frame(number, seen):
            return None
        strips = seen[:self.strip_bytes], seen[-self.strip_bytes:]
        top, bottom = ("no frame" if shown is None else f"frame {shown}"
                       for shown in map(self.number_in, strips))
        if top != bottom:
            return f"frame {number} is torn: its top is of {top}, its bottom of {bottom}"
        if top != f"frame {number}":
            return f"{top} is there where frame {number} should be"
        return f"frame {number}: {differing(self.frame(number), seen, self.width)}"
