# SPDX-License-Identifier: GPL-2.0-or-later
# runs: full
"""libfabric with our patches and its own tests, fabtests, between two guests: messages and RMA
over connected endpoints of verbs and over ofi_rxm, with dma-bufs at both ends, each byte
compared; and a region that moves to another dma-buf (FI_REFRESH), with the traffic.

The commands are in tests/host/fabtests.  The models count that the bytes went by RDMA.  For memory
of an AMD GPU tests/hsa stands in for its runtime, over VRAM of the tests' GPU."""

import errno
import os
import re
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import products  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from mrfd.paths import inside  # noqa: E402
from mrfd.traffic import LINE  # noqa: E402

MOVED = 8 << 20     # bytes that each model reads, and writes, at least
LAST = {"udmabuf": "rdm_refresh-65536", "rocr": "rdm_rma_bw-writedata"}


class Libfabric(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ours = inside(products.tool("libfabric")) + "/bin"

    def boot(self, *words):
        """What scripts/boot prints, which must succeed."""
        limit = int(patience(600))
        done = subprocess.run(
            [os.path.join(TOP, "scripts/boot"), "--timeout", str(limit), "-e",
             f"MRFD_PATIENCE={patience(3):.1f}", *words], timeout=2 * limit, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def between_guests(self, memory, *words):
        """Run fabtests with this memory."""
        said = self.boot("--guests", "2", *words)
        ends = [re.findall(rf"^guest{end}: case (\S+): ok$", said, re.M) for end in (0, 1)]
        self.assertEqual(*ends, said)
        self.assertEqual(ends[0][-1:], [LAST[memory]], said)

    def between_models(self, memory, *words):
        """The same, on the ConnectX."""
        with tempfile.TemporaryDirectory() as logs:
            self.between_guests(memory, "--connectx", "--log-dir", logs, *words)
            for guest in "guest0", "guest1":
                with open(os.path.join(logs, guest, "connectx.log"), encoding="utf-8") as log:
                    [(_, read, written, _)] = LINE.findall(log.read())
                self.assertGreater(min(int(read), int(written)), MOVED)

    def test_fabtests_and_a_refresh_on_soft_roce(self):
        self.between_guests("udmabuf", "--rxe", "tests/host/fabtests")

    def test_fabtests_and_a_refresh_on_connectx(self):
        self.between_models("udmabuf", "tests/host/fabtests")

    def test_vram_is_registered_by_a_dma_buf_and_not_otherwise(self):
        """With patches/libfabric by the /boot/config-RELEASE that is the kernel's."""
        hsa = f"{programs.build_tests(['hsa/calls'], 'programs')}/hsa"
        command = f"export LD_LIBRARY_PATH={hsa}:$LD_LIBRARY_PATH;"
        words = ["-d", "gpu", "--root", "programs", "-e"]
        self.between_models("rocr", *words, "FI_HMEM_ROCR_USE_DMABUF=1", "sh", "-c",
                            f"{command} exec tests/host/fabtests rocr")
        # A client registers its buffers before it connects; guest0 has the address of the server.
        said = self.boot("--guests", "2", "--connectx", *words, "FI_HMEM_ROCR_USE_DMABUF=0",
                         "sh", "-c", f"{command} [ $MRFD_GUEST = 1 ] || "
                         f"{self.ours}/fi_msg_pingpong -p verbs -D rocr -S 64 $MRFD_ADDRESS; "
                         "echo status $?")
        self.assertIn(f"guest0: status {errno.EFAULT}\n", said)

    def devices(self, device, program, *settings):
        """The devices on which a libfabric offers memory of devices (FI_HMEM)."""
        return set(re.findall(r"^ +domain: (\w+)$", self.boot(
            device, "sh", "-c", f"{' '.join(settings)} {program} -p verbs -c FI_HMEM; true"), re.M))

    def test_each_device_is_asked_whether_it_registers_dma_bufs(self):
        self.assertEqual(self.devices("--rxe", f"{self.ours}/fi_info"), {"rxe0"})
        self.assertEqual(self.devices("--connectx", f"{self.ours}/fi_info"), {"mlx5_0"})
        self.assertEqual(self.devices("--rxe", f"{self.ours}/fi_info", "FI_VERBS_USE_DMABUF=no"),
                         set())

    def test_without_the_patch_it_goes_by_the_name_of_the_device(self):
        self.assertEqual(self.devices("--rxe", "/usr/bin/fi_info"), set())
        self.assertEqual(self.devices("--connectx", "/usr/bin/fi_info"), {"mlx5_0"})


if __name__ == "__main__":
    unittest.main()
