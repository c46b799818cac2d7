# SPDX-License-Identifier: GPL-2.0-or-later
# runs: full
"""An MPI job over four guests, one of which dies amid collectives: the others end with the errors
that their libraries document, within the limits of those, and nothing is left in their kernels
or in the models.

The job is tests/mpi/job.c.  The guest dies as a machine does that loses its power: QEMU is killed."""

import os
import re
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))
sys.path.insert(0, TOP)

from mrfd import environment  # noqa: E402
from mrfd import fabric  # noqa: E402
from mrfd import machine  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import CONNECTX  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from tests.host.test_cluster import MPICH, OPEN_MPI  # noqa: E402

COUNT = 4
GOES_ON = f"{COUNT} processes go on".encode()
# Wait until a guest has nothing of RDMA for processes; what is the kernel's own has its name in
# brackets.  Else print what is left.
LEFT = """
left() { for what in qp cq mr pd; do rdma resource show $what; done | grep -v "comm \\["; }
for try in $(seq 600); do [ -n "$(left)" ] || exit 0; sleep 0.5; done
left"""
KINDS = {"openmpi": OPEN_MPI, "mpich": MPICH}


class JobDies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        out = programs.build_tests([f"mpi/job.{kind}" for kind in KINDS], "programs")
        cls.job = {kind: f"{out}/mpi/job.{kind}" for kind in KINDS}

    def start(self, command, where):
        """Guests of a cluster, of which the first runs the command."""
        guests = []
        for number, links in enumerate(machine.network(COUNT)):
            guest = machine.Guest(
                [f"{machine.GUEST}/cluster", "sh", "-c", command], name=f"guest{number}",
                root="programs", memory="768M", devices=CONNECTX.qemu, append=CONNECTX.append,
                allow=CONNECTX.allow, links=links, mac=number, fabric=where,
                setup=machine.network_setup(number, COUNT, CONNECTX),
                env={**environment.ours(), **CONNECTX.env(),
                     "MRFD_PATIENCE": f"{patience(3):.1f}",
                     "UCX_UD_TIMEOUT": f"{int(patience(60))}s"}, timeout=patience(900))
            self.addCleanup(guest.stop)
            guests.append(guest.start())
        return guests

    def run_job(self, kind):
        """What the first guest said of a job whose last guest was killed."""
        job = f"{KINDS[kind]} -np {COUNT} {self.job[kind]} --endless"
        command = (f"timeout {int(patience(600))} {job} 2>&1; echo status $?; "
                   f"for guest in guest0 guest1 guest2; do ssh $guest '{LEFT}'; done; echo end")
        with fabric.Fabric() as running:
            *rest, last = guests = self.start(command, running.socket)
            while GOES_ON not in guests[0].output:
                self.assertFalse(guests[0].wait(0.2), guests[0].output.decode())
            last.stop()
            for guest in rest:
                guest.wait()  # its own limit ends it
        said = guests[0].output.decode()
        for guest in rest:
            self.assertEqual((guest.status, guest.reports), (0, []), said + guest.tail())
        # Before it may be what a process has said without a newline.
        ended = re.search(r"status (\d+)\r?\n(.*?)^end\r?$", said, re.M | re.S)
        self.assertTrue(ended, said)
        status, left = ended.groups()
        self.assertEqual(left, "", said)
        return int(status), said

    # If the launcher misses the daemon before a process has ended, its status is 0.
    def test_open_mpi_ends_when_a_guest_dies(self):
        status, said = self.run_job("openmpi")
        self.assertNotEqual(status, 124, said)
        self.assertIn("PRTE has lost communication with a remote daemon", said)

    def test_mpich_ends_when_a_guest_dies(self):
        status, said = self.run_job("mpich")
        self.assertNotIn(status, (0, 124), said)
        self.assertIn("Transport retry count exceeded", said)
        self.assertIn("BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", said)


if __name__ == "__main__":
    unittest.main()
