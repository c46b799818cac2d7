# SPDX-License-Identifier: GPL-2.0-or-later
"""The moving pictures of demo/vulkan, computed by the host.

A renderer in a guest paints them, pixel by pixel, with the shader demo/vulkan/sunset.frag.
Here a row is put together from stretches of one colour: where the shader asks whether a pixel is
in the sun, this asks from where to where a row is.  So the two have the rules of the picture in
common, and no code.  All numbers are integers, which have to be the same to the bit.

A row has pixels of four bytes: blue, green, red, and 0xff."""

from math import isqrt

from mrfd.film import differing

PERIOD = 64  # frames; then all is where it was
ZENITH, DUSK = (22, 30, 74), (250, 146, 84)
SHALLOW, DEEP = (196, 104, 88), (14, 34, 74)
SUN, CLOUD, WAVE = (255, 240, 190), (255, 214, 190), (8, 20, 48)
SAIL, JIB, MAST, HULL = (246, 238, 222), (222, 196, 178), (60, 40, 30), (70, 26, 34)
HALOS = (150, 1), (96, 3), (56, 8)  # of the sun: a radius, and how many parts of 8 are sun


def blend(one, other, parts, whole):
    """So many parts of the whole are the other colour."""
    return tuple((a * (whole - parts) + b * parts) // whole for a, b in zip(one, other))


def scatter(number):
    """A number that looks random, always the same one."""
    number = number * 2654435761 & 0xffffffff
    number ^= number >> 15
    number = number * 2246822519 & 0xffffffff
    return number ^ number >> 13


class Row:
    """A row of pixels, first all of one colour."""

    def __init__(self, width, colour):
        self.width, self.data = width, bytearray(self.pixel(colour) * width)

    @staticmethod
    def pixel(colour):
        return bytes((*reversed(colour), 0xff))

    def stretch(self, first, last, colour):
        """Paint the pixels from the first to the last one."""
        first, last = max(first, 0), min(last, self.width - 1)
        if first <= last:
            self.data[4 * first:4 * (last + 1)] = self.pixel(colour) * (last + 1 - first)

    def around(self, middle, reach, colour):
        self.stretch(middle - reach, middle + reach, colour)


class Sunset:
    """All frames, of this size."""

    def __init__(self, width, height):
        self.width, self.height, self.bytes = width, height, width * height * 4
        self.horizon = height * 5 // 8

    def period(self):
        """The number of frames after which the picture is where it was."""
        return PERIOD

    def sky(self, y, phase):
        air = blend(ZENITH, DUSK, y, self.horizon)
        row = Row(self.width, air)
        sun_x, sun_y = self.width // 8 + phase * 12, self.horizon - 200 + phase * 4
        for radius, parts in HALOS:
            if abs(y - sun_y) <= radius:
                row.around(sun_x, isqrt(radius ** 2 - (y - sun_y) ** 2), blend(air, SUN, parts, 8))
        for number in range(4):
            x = (number * 370 + 150 + phase * (2 + number)) % self.width
            square = (150 - number * 22) ** 2 - 9 * (y - 90 - number * 48) ** 2
            if square >= 0:
                row.around(x, isqrt(square), blend(air, CLOUD, 3, 8))
        return row

    def sea(self, y, phase):
        depth = y - self.horizon
        chance = scatter(depth // 3 * PERIOD + phase // 2)
        water = blend(SHALLOW, DEEP, depth, self.height - self.horizon)
        row = Row(self.width, water if chance & 28 else blend(water, WAVE, 3, 8))
        if chance & 3:
            row.around(self.width // 8 + phase * 12 + (chance >> 16) % 17 - 8,
                       16 + depth // 3 + (chance >> 8) % 32, blend(water, SUN, 4, 8))
        return row

    def boat(self, row, y, phase):
        x = self.width - self.width // 8 - phase * 10
        up = (self.horizon + (self.height - self.horizon) * 3 // 10 + abs(phase % 8 - 4)) - y
        if 22 < up <= 190:
            row.around(x, 1, MAST)
        if 32 < up <= 160:
            row.stretch(x - 4 - (160 - up) * 7 // 16, x - 4, JIB)
        if 32 < up <= 180:
            row.stretch(x + 4, x + 4 + (180 - up) * 9 // 16, SAIL)
        if 0 < up <= 22:
            row.around(x, 47 + up, HULL)

    def frame(self, number):
        """The bytes that a frame must have."""
        phase, rows = number % PERIOD, []
        for y in range(self.height):
            row = (self.sky if y < self.horizon else self.sea)(y, phase)
            self.boat(row, y, phase)
            rows.append(row.data)
        return b"".join(rows)

    def fault(self, number, seen):
        """What is wrong with the bytes of a frame; None if they are right."""
        wanted = self.frame(number)
        if seen == wanted:
            return None
        if len(seen) == self.bytes and seen == seen[:4] * (self.bytes // 4):
            return f"all pixels are #{seen[2::-1].hex()} where frame {number} should be"
        for other in range(number - 1, max(0, number - PERIOD) - 1, -1):
            if seen == self.frame(other):
                return f"frame {other} is there where frame {number} should be"
        return f"frame {number}: {differing(wanted, seen, self.width)}"
