# SPDX-License-Identifier: GPL-2.0-or-later
# runs: full
"""scripts/boot --cluster: guests between which ssh leads, with the userland of the programs, so
that an MPI job starts as its users start it.  Every byte that an unmodified Open MPI or MPICH
moves is compared, and the models count them: they went by RDMA.

The jobs are tests/mpi/job.c, for both, tests/lib/mpi_job.py by mpi4py, NetPIPE, and ScaLAPACK's
test of its LU factorization."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import bases  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.machine import patience  # noqa: E402

# UCX takes its default transport, rc_mlx5 with queues by DEVX; no variable of its own is set.
# Left to itself Open MPI takes another component for windows, which has no network here.
OPEN_MPI = "mpirun --host $MRFD_HOSTS --mca pml ucx --mca osc ucx"
MPICH = "mpirun.mpich -hosts $MRFD_HOSTS -launcher ssh"
PYTHON = "python3 /mrfd/tests/lib/mpi_job.py"
# UCX has no name for rxe, and up to 1.18 it drops each UD packet of a device that is not
# Mellanox's (Documentation/programs.md).
ON_RXE = "export UCX_TLS=rc_verbs,ud_verbs UCX_UD_VERBS_ETH_DGID_CHECK=n;"
PASS = "-x UCX_TLS -x UCX_UD_VERBS_ETH_DGID_CHECK"  # Open MPI does not by itself
# ScaLAPACK's test of the LU factorization, over one row of two processes; each column costs it
# some messages.  It compares a residual of each solution with its threshold.
LU = """'LU'
'two guests'
'LU.out' output file name (if any)
6 device out
1 number of problem sizes
57 values of M
50 values of N
1 number of NBs
16 values of NB
1 number of NRHSs
9 values of NRHS
1 number of NBRHSs
3 values of NBRHS
1 number of process grids
1 values of P
2 values of Q
1.0 threshold
T test condition estimation and iterative refinement
"""
XDLU = "/usr/lib/x86_64-linux-gnu/scalapack/{}-tests/xdlu"
READ = re.compile(r"by keys, first function: \d+ reads \((\d+) bytes\), "
                  r"\d+ writes \((\d+) bytes\)")
MOVED = 32 << 20    # bytes, of mpi_job.py


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        out = programs.build_tests(["mpi/job.openmpi", "mpi/job.mpich"], "programs")
        cls.open_mpi, cls.mpich = f"{out}/mpi/job.openmpi", f"{out}/mpi/job.mpich"

    def cluster(self, command, *options, count=2):
        """(what guest0 says, what the model of each guest has written into its log)"""
        with tempfile.TemporaryDirectory() as logs:
            done = subprocess.run(
                [os.path.join(TOP, "scripts/boot"), "--guests", str(count), "--cluster", "--log-dir",
                 logs, "--timeout", str(int(patience(300))), *options, "sh", "-c", command],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)
            models = []
            for guest in range(count):
                name = os.path.join(logs, f"guest{guest}", "connectx.log")
                if os.path.exists(name):
                    with open(name, encoding="utf-8") as log:
                        models.append(log.read())
        return done.stdout, models

    def test_ssh_leads_from_each_guest_to_each(self):
        said, _ = self.cluster("ssh guest1 'hostname; ssh guest0 hostname; env'; ls /boot; "
                               "echo of guest0 >/tmp/a; scp -q /tmp/a guest1:/tmp/b; "
                               "ssh guest1 cat /tmp/b", "--rxe")
        self.assertIn("guest0: of guest0\n", said)
        self.assertIn("guest0: guest1\nguest0: guest0\n", said)
        self.assertIn("guest0: MRFD_HOSTS=guest0,guest1\n", said)
        self.assertRegex(said, r"guest0: LD_LIBRARY_PATH=/mrfd/build/rdma-core")
        self.assertIn(f"guest0: config-{bases.base('linux')['upstream']}", said)

    def test_status_is_that_of_the_command(self):
        done = subprocess.run([os.path.join(TOP, "scripts/boot"), "--guests", "2", "--cluster",
                               "sh", "-c", "exit 7"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 7, done.stdout)

    def assert_moved(self, models, count, least):
        """Each model has read and written so many bytes at least."""
        self.assertEqual(len(models), count)
        for model in models:
            self.assertGreater(min(map(int, READ.search(model).groups())), least)

    def test_mpi4py_over_open_mpi_moves_every_byte_by_rdma(self):
        said, models = self.cluster(f"{OPEN_MPI} -np 2 {PYTHON}", "--connectx")
        self.assertIn("guest0: all bytes are right\n", said)
        self.assertNotIn("UCX  ERROR", said)
        self.assert_moved(models, 2, MOVED)

    def test_open_mpi_and_mpich_move_every_byte_by_rdma(self):
        for count in 2, 4:
            with self.subTest(guests=count):
                said, models = self.cluster(
                    f"{OPEN_MPI} -np {count} {self.open_mpi} && "
                    f"{MPICH} -np {count} {self.mpich}", "--connectx", "-m", "768M", count=count)
                self.assertEqual(said.count(f"guest0: {count} processes: all bytes are right\n"), 2)
                self.assertNotIn("UCX  ERROR", said)
                self.assert_moved(models, count, 20 << 20)

    def test_open_mpi_and_mpich_move_every_byte_by_soft_roce(self):
        # A kernel that reports the last WQE of a queue pair twice ends MPICH now and then.
        mpich = " && ".join([f"{MPICH} -np 2 {self.mpich}"] * 3)
        said, _ = self.cluster(
            f"{ON_RXE} {OPEN_MPI} {PASS} -np 2 {self.open_mpi} && {mpich} && "
            f"{OPEN_MPI} {PASS} -np 2 {PYTHON}; "
            "cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_bytes", "--rxe")
        self.assertEqual(said.count("guest0: 2 processes: all bytes are right\n"), 4)
        self.assertIn("guest0: all bytes are right\n", said)
        # After an atomic UCX says this of each connection of verbs, and goes on.
        self.assertEqual(re.findall(r"UCX  ERROR (?!.*flush\(remote\) is not supported"
                                    r"|.*error during flush: Unsupported operation)", said), [])
        self.assertGreater(int(re.search(r"^guest0: (\d+)$", said, re.M)[1]), 80 << 20)

    def test_scalapack_solves_by_rdma(self):
        said, models = self.cluster(
            f"cd /tmp; cat > LU.dat <<'E'\n{LU}E\n{OPEN_MPI} -np 2 {XDLU.format('openmpi')} && "
            f"{MPICH} -np 2 {XDLU.format('mpich')}", "--connectx")
        self.assertEqual(re.findall(r" (\d+) tests completed and passed residual checks", said),
                         ["1", "1"], said)
        self.assertEqual(re.findall(r"[1-9]\d* tests completed and failed", said), [])
        self.assert_moved(models, 2, 1 << 15)

    def test_mpich_passes_the_integrity_check_of_netpipe(self):
        # Without -n NetPIPE chooses by speed how often it sends each size, 3 times at least.
        said, models = self.cluster(f"cd /tmp; {MPICH} -np 2 NPmpich2 -I -i -u 100000 -n 10",
                                    "--connectx")
        self.assertEqual(said.count("Integrity check passed"), 30)
        self.assertEqual(len(re.findall("Integrity check (?!passed)", said)), 0)
        self.assert_moved(models, 2, 3 << 20)


if __name__ == "__main__":
    unittest.main()
