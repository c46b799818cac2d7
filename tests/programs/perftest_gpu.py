# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick; guest: gpu perftest; devices: all direct
"""perftest --use_drm over VRAM of the GPU of the tests: what it writes and reads is found in
the GPU's BAR, so the device has reached VRAM itself.  On a card with a second function it goes
by Data Direct."""

import glob
import mmap
import os
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
from lib import device  # noqa: E402
from lib.perftest import ADDRESS, BY_DATA_DIRECT, REGISTERED, PerftestCase, drm  # noqa: E402

SIZE = 65536
WAYS = BY_DATA_DIRECT if device.can("direct") else REGISTERED


def vram():
    """A mapping of the GPU's memory, for reading."""
    (path,) = glob.glob("/sys/bus/pci/drivers/mrfd_gpu/0*/resource2")
    with open(path, "rb") as bar:
        return mmap.mmap(bar.fileno(), os.path.getsize(path), prot=mmap.PROT_READ)


class PerftestGpu(PerftestCase):
    def setUp(self):
        device.need("pci")  # for another device the GPU moves its buffers out of VRAM
        super().setUp()

    def gets_there(self, bar, wanted):
        """Wait until VRAM has these bytes."""
        end = time.monotonic() + device.patience(10)
        while wanted not in bar[:]:
            for one in self.running:
                if one.poll() is not None:
                    self.fail(f"perftest ended by itself:\n{one.communicate()[0]}")
            if time.monotonic() > end:
                self.fail(f"{len(wanted)} bytes of the other end do not come into VRAM")
            time.sleep(0.1)

    def arrives(self, tool, source_listens):
        """The end that is the source has memory of vgem, the other one VRAM."""
        for way in WAYS:
            pattern, options = self.payload()
            source, target = [*drm("vgem", way), *options], drm("mrfd_gpu", way)
            server, client = (source, target) if source_listens else (target, source)
            words = [tool, "-s", str(SIZE), "--run_infinitely"]
            with self.subTest(way=way), vram() as bar:
                self.serve(*words, *server)
                self.start(*words, *client, ADDRESS)
                self.gets_there(bar, pattern * (SIZE // len(pattern)))
                self.stop()

    def test_write_lands_in_vram(self):
        self.arrives("ib_write_bw", source_listens=False)

    def test_read_lands_in_vram(self):
        self.arrives("ib_read_bw", source_listens=True)

    def test_vram_works_at_both_ends(self):
        for way in WAYS:
            self.check("ib_write_lat", "mrfd_gpu", way, "-s", "4096", size=4096)


if __name__ == "__main__":
    unittest.main()
