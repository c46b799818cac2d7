# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick; guest: perftest; devices: rxe
# runs: full; guest: perftest; devices: connectx
"""perftest over buffers of DRM devices (vgem, virtio-gpu, qxl), registered by
ibv_reg_mr_fd_iova() and, with --use_drm_dmabuf, by ibv_reg_dmabuf_mr().

perftest does not look at what arrives, except in latency tests of a write, where each
end waits until it sees the other's bytes in its buffer.  So two more cases look into
the buffer of a running perftest, through /proc/PID/mem: that can read a qxl buffer,
but none of the other drivers."""

import os
import re
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
from lib import device  # noqa: E402
from lib.perftest import ADDRESS, COUNT, REGISTERED, PerftestCase, drm  # noqa: E402


class Perftest(PerftestCase):
    def test_bandwidth_tests_use_vgem_buffers(self):
        for tool in "ib_write_bw", "ib_read_bw", "ib_send_bw":
            for way in REGISTERED:
                self.check(tool, "vgem", way, "-s", "65536", size=65536)

    def test_latency_tests_use_vgem_buffers(self):
        for tool in "ib_write_lat", "ib_read_lat", "ib_send_lat":
            for way in REGISTERED:
                self.check(tool, "vgem", way, "-s", "4096", size=4096)

    # runs: full
    def test_atomic_tests_use_vgem_buffers(self):
        device.need("atomics")
        self.check("ib_atomic_bw", "vgem", "fd")
        self.check("ib_atomic_lat", "vgem", "fd")

    # runs: full
    def test_write_latency_uses_other_drm_drivers(self):
        for driver in ["virtio"] + ["qxl"] * device.can("vmap"):
            for way in REGISTERED:
                self.check("ib_write_lat", driver, way, "-s", "16384", size=16384)

    def test_latency_tests_sleep_until_an_event(self):
        """perftest arms a CQ before it polls what the event has told of."""
        for transport in "RC", "UC", "UD":
            with self.subTest(transport=transport):
                self.run_pair("ib_send_lat", drm("vgem"), drm("vgem"), "-e", "-c", transport,
                              "-n", str(COUNT), "-s", "1024")
        self.run_pair("ib_read_lat", drm("vgem"), drm("vgem"), "-e", "-n", str(COUNT),
                      "-s", "1024")

    def test_each_queue_pair_may_have_its_own_mr(self):
        self.check("ib_write_bw", "vgem", "fd", "-q", "4", "--mr_per_qp", "-s", "4096",
                   size=4096, queue_pairs=4)

    def test_vgem_buffer_talks_to_process_memory(self):
        for server, client in (drm("vgem"), []), ([], drm("vgem")):
            self.run_pair("ib_write_lat", server, client, "-n", str(COUNT), "-s", "8192")

    def arrives_in(self, process, wanted):
        """Wait until the buffer of a qxl perftest has these bytes."""
        said = ""
        for line in process.stdout:
            said += line
            at = re.match(r"allocated (\d+) bytes on \S+ at 0x([0-9a-f]+)", line)
            if at:
                break
        else:
            self.fail(f"perftest ended without a buffer:\n{said}")
        size, address, end = int(at[1]), int(at[2], 16), time.monotonic() + device.patience(10)
        with open(f"/proc/{process.pid}/mem", "rb", buffering=0) as memory:
            while time.monotonic() < end:
                if wanted in os.pread(memory.fileno(), size, address):
                    return
                for one in self.running:
                    if one.poll() is not None:
                        self.fail(f"perftest ended by itself:\n{one.communicate()[0]}")
                time.sleep(0.1)
        self.fail(f"{len(wanted)} bytes of the other end do not come into the buffer")

    def test_write_lands_in_the_buffer(self):
        device.need("vmap")
        for way in REGISTERED:
            with self.subTest(way=way):
                pattern, options = self.payload()
                words = ["ib_write_bw", "-s", "65536", "--run_infinitely"]
                server = self.serve(*words, *drm("qxl", way))
                self.start(*words, *drm("vgem", way), *options, ADDRESS)
                self.arrives_in(server, pattern * (65536 // len(pattern)))
                self.stop()

    def test_read_lands_in_the_buffer(self):
        device.need("vmap")
        for way in REGISTERED:
            with self.subTest(way=way):
                pattern, options = self.payload()
                words = ["ib_read_bw", "-s", "65536", "--run_infinitely"]
                self.serve(*words, *drm("vgem", way), *options)
                client = self.start(*words, *drm("qxl", way), ADDRESS)
                self.arrives_in(client, pattern * (65536 // len(pattern)))
                self.stop()

    def refused(self, *words):
        """What a client prints that has a server and must fail."""
        self.serve("ib_write_bw")
        process = self.start("ib_write_bw", *words, ADDRESS)
        said = process.communicate(timeout=device.patience(10))[0]
        self.assertNotEqual(process.returncode, 0, said)
        return said

    def test_wrong_options_are_named(self):
        self.assertIn("Couldn't open DRM node /dev/dri/none: No such file or directory",
                      self.refused("--use_drm=/dev/dri/none"))
        self.assertRegex(self.refused("--use_drm=/dev/null"),
                         "Couldn't allocate [0-9]+ bytes on /dev/null: Inappropriate ioctl")
        self.assertIn("without --use_drm", self.refused("--use_drm_dmabuf"))
        self.assertIn("multiple memory types", self.refused("--mmap=/dev/zero", *drm("vgem")))


if __name__ == "__main__":
    unittest.main()
