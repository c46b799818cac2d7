# SPDX-License-Identifier: GPL-2.0-or-later
"""What the demo reads of its guests while they run, and how it looks at the moving pictures.

An eye is told "frame=K" by the program that shows frame K.  It looks at it from outside of the
guest, asks the film whether each byte is right, and answers, so that the guest goes on.  So no
frame is looked at too late, and none is left out."""

import re
import sys
import time
import zlib

from mrfd.products import BootError

ANIMATED = 32  # frames of the animation, at most


def say(text):
    print(text, file=sys.stderr, flush=True)


class Talk:
    """Print the messages of a guest's program as they come, without its results."""

    def __init__(self):
        self.rest = b""

    def __call__(self, data):
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            result = re.fullmatch(rb"(\w+)=(.*)", line)
            if result:
                self.take(*(word.decode(errors="replace") for word in result.groups()))
            else:
                say(line.decode(errors="replace"))

    def take(self, name, value):
        """A result has come."""


class Eye(Talk):
    """Looks at the VRAM of the viewer's guest, from outside, whenever that has a frame, and
    answers if the frame is right.  It runs in the guest's thread.  The film is a Film, or
    whatever else knows its frames."""

    PLACES = 3  # demo/viewer.c

    def __init__(self, film):
        super().__init__()
        self.film, self.guest, self.sender, self.at = film, None, None, None
        self.fault, self.seen, self.times, self.kept = None, None, [], []

    def take(self, name, value):
        if name == "offset":
            self.at = int(value)
        elif name == "frame" and not self.fault:
            self.look(int(value))

    def see(self, number):
        """The bytes that are there."""
        begin = self.at + number % self.PLACES * self.film.bytes
        return self.guest.vram[begin:begin + self.film.bytes]

    def look(self, number):
        self.seen = self.see(number)
        fault = (self.film.fault(number, self.seen) if number == len(self.times)
                 else f"frame {len(self.times)} is missing: number {number} has come")
        self.times.append(time.monotonic())
        period = self.film.period()
        if number < period and number % max(1, period // ANIMATED) == 0:
            self.kept.append(self.seen)
        self.fault = fault  # last: the main thread looks for it first, and then at the rest
        if not fault:
            self.guest.send(b"\n")

    def blame(self):
        """What else is known of a wrong frame."""
        return ""

    def rate(self):
        """Frames a second, by the host's clock; None if there was only one."""
        times = self.times
        return (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else None


class RenderedInVram(Eye):
    """The same, of frames whose sender prints a CRC of each, as it has them in its own memory,
    before it sends the frame.  The sender is a Guest."""

    CRC = rb"^crc=%s ([0-9a-f]{8})$"

    def blame(self):
        """Whether a wrong frame was wrong already at the sender."""
        number = len(self.times) - 1
        try:
            crc = int(self.sender.wait_for(self.CRC % b"%d" % number)[1], 16)
        except BootError:
            return ", and the renderer did not say what it painted"
        return (", as the renderer painted it" if crc == zlib.crc32(self.seen)
                else ", and the renderer painted something else")

    def crc_fault(self):
        """Which frame has another CRC at the sender than here; None if all are right.  The
        sender has ended."""
        crcs = {int(number): int(crc, 16) for number, crc in
                re.findall(self.CRC % rb"(\d+)", self.sender.output, re.MULTILINE)}
        for number in range(len(self.times)):
            wanted = zlib.crc32(self.film.frame(number))
            if crcs.get(number) != wanted:
                found = f"CRC {crcs[number]:08x}" if number in crcs else "no CRC"
                return f"the renderer says {found} of frame {number}, which has {wanted:08x}"
        return None


class RenderedOnScreen(RenderedInVram):
    """The same on a screen, which QEMU saves as a picture; read() has the bytes of its pixels.
    A picture does not have a pixel's fourth byte, so that one only the CRC shows."""

    def __init__(self, film, picture, read):
        super().__init__(film)
        self.picture, self.read = picture, read

    def see(self, number):
        self.guest.screendump(self.picture)
        return self.read(self.picture)
