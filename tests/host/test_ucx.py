# SPDX-License-Identifier: GPL-2.0-or-later
# runs: full
"""MPI from and to mapped dma-bufs: with Debian's UCX a job aborts at 256 KiB, with ours
(patches/ucx) an unmodified Open MPI moves every byte by regions that hold the dma-bufs.  UCX's
own tests of it (gtest) pass in a guest.

The job of the guests is tests/mpi/fd.c, which compares all bytes."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import machine  # noqa: E402
from mrfd import products  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import CONNECTX, RXE  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from mrfd.paths import inside  # noqa: E402

OPEN_MPI = "mpirun --host $MRFD_HOSTS --mca pml ucx --mca osc ucx -np 2"
ON_RXE = "-x UCX_TLS=rc_verbs,ud_verbs -x UCX_UD_VERBS_ETH_DGID_CHECK=n"
KINDS = "udmabuf", "vgem", "heap"
COPIED, LONGER = ["16384"], ["262144", "1048576", "window"]
# What UCX says as it aborts a job whose memory it could not register.
REFUSED = r"rndv_\w+\.c:\d+ +Assertion `rkey_size == "
READ = re.compile(r"by keys, first function: \d+ reads \((\d+) bytes\), "
                  r"\d+ writes \((\d+) bytes\)")


def our_ucx():
    """Where a guest finds our UCX.  Not every mirror of Debian has its source; without it only
    the case of Debian's UCX can run.  A source that is there and is not the base is a failure."""
    done = subprocess.run([os.path.join(TOP, "scripts/sources"), "ucx"], text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    why = done.stderr.partition("no way leads to ucx")[2]
    if why and not re.search(r" \w+ and not \w+", why):
        raise unittest.SkipTest("no source of UCX, UCX_SRC=DIR names one:" + " ".join(why.split()))
    if done.returncode:
        raise AssertionError(done.stderr)
    return inside(products.tool("ucx"))


class Mpi(unittest.TestCase):
    def setUp(self):
        self.fd = f"{programs.build_tests(['mpi/fd.openmpi'], 'programs')}/mpi/fd.openmpi"

    @property
    def ours(self):
        # Before our rdma-core, which the guest has in the variable
        return f"-x LD_LIBRARY_PATH={our_ucx()}/install/lib:$LD_LIBRARY_PATH"

    def cluster(self, command, device="--connectx"):
        """(status, what guest0 says, what the model of each guest has written into its log)"""
        with tempfile.TemporaryDirectory() as logs:
            done = subprocess.run(
                [os.path.join(TOP, "scripts/boot"), "--guests", "2", "--cluster", "--log-dir", logs,
                 "--timeout", str(int(patience(300))), device, "sh", "-c", command],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            models = []
            for guest in range(2):
                name = os.path.join(logs, f"guest{guest}", "connectx.log")
                if os.path.exists(name):
                    with open(name, encoding="utf-8") as log:
                        models.append(log.read())
        return done.returncode, done.stdout, models

    def steps(self, said):
        return re.findall(r"^guest0: (\w+) (\w+): ok$", said, re.M)

    def assert_aborts(self, command, kinds):
        """Each job copies a short message, and ends with an error at one that is registered."""
        for kind in kinds:
            with self.subTest(kind):
                status, said, _ = self.cluster(f"{command} {kind}")
                self.assertNotIn(status, (0, 124, 125, 127), said)
                self.assertEqual(self.steps(said), [(kind, step) for step in COPIED], said)
                self.assertRegex(said, REFUSED)

    def assert_moves(self, said):
        self.assertEqual(self.steps(said), [(kind, step) for kind in KINDS
                                            for step in (*COPIED, *LONGER)], said)
        # of each process, after the longest message
        regions = re.findall(r"^guest0: (\w+): (\d+) references$", said, re.M)
        self.assertEqual(sorted(kind for kind, _ in regions), sorted(2 * KINDS), said)
        self.assertGreater(min(int(count) for _, count in regions), 0, said)
        self.assertNotIn("failed to register", said)

    def test_debians_ucx_aborts_the_job(self):
        self.assert_aborts(f"{OPEN_MPI} {self.fd}", KINDS[:1])

    def test_our_ucx_moves_every_byte_by_rdma(self):
        status, said, models = self.cluster(f"{OPEN_MPI} {self.ours} {self.fd} {' '.join(KINDS)}")
        self.assertEqual(status, 0, said)
        self.assert_moves(said)
        self.assertNotIn("UCX  ERROR", said)
        self.assertEqual(len(models), 2)
        for model in models:  # a kind moves 1.25 MiB each way, and 1 MiB by the window
            self.assertGreater(sum(map(int, READ.search(model).groups())), 3 * (3 << 20))

    def test_our_ucx_moves_every_byte_by_soft_roce(self):
        status, said, _ = self.cluster(
            f"{OPEN_MPI} {ON_RXE} {self.ours} {self.fd} {' '.join(KINDS)}", "--rxe")
        self.assertEqual(status, 0, said)
        self.assert_moves(said)

    def test_without_a_descriptor_it_is_as_before(self):
        self.assert_aborts(f"{OPEN_MPI} {self.ours} {self.fd} closed", KINDS[:1])


class Gtest(unittest.TestCase):
    def test_mapped_dmabufs_are_found(self):
        gtest = f"{our_ucx()}/test/gtest/gtest"
        for device in CONNECTX, RXE:
            with self.subTest(device=device.name):
                guest = machine.Guest([gtest, "--gtest_filter=test_dmabuf.*"], root="programs",
                                      timeout=patience(300), name=device.name,
                                      **programs.test_guest("base", device, gpu=True))
                with guest:
                    guest.wait()  # its own limit ends it
                said = guest.output.decode()
                self.assertEqual(guest.status, 0, said + guest.tail(20))
                self.assertRegex(said, r"\[  PASSED  \] 9 tests", said)
                self.assertNotIn("SKIP", said)
                print(f"# {re.search(r'.* a query takes .*', said)[0].split('] ')[1]}")


if __name__ == "__main__":
    unittest.main()
