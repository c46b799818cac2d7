# SPDX-License-Identifier: GPL-2.0-or-later
# runs: full
"""MPI with memory of a GPU, without a GPU that computes: unmodified UCX, Open MPI and MPICH of
Debian send, receive, put, get and add from VRAM to VRAM of another guest, while the buffers
rest, move and are evicted.  An HSA runtime of the tests stands in for that of an AMD GPU.

The stand-in is tests/hsa, over the tests' GPU; the job is tests/mpi/vram.c, which compares all
bytes and counts the regions that UCX has registered by fd.  What lies in VRAM at last the host
finds there by itself.  A job that copies through the host fails, and does so here on purpose.

The guests' /boot/config-RELEASE has one line that is not true, without which Debian's UCX does
not look for dma-bufs (tests/hsa/move-notify); with our patch (patches/ucx) it does."""

import os
import re
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, TOP)
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import fabric  # noqa: E402
from mrfd import machine  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import CONNECTX, RXE  # noqa: E402
from mrfd.machine import GUEST, patience  # noqa: E402
from mrfd.paths import INSIDE  # noqa: E402
from mrfd.traffic import by_function  # noqa: E402
from tests.host.test_ucx import our_ucx  # noqa: E402

OPEN_MPI = "mpirun --host $MRFD_HOSTS --mca pml ucx --mca osc ucx -np 2"
MPICH = "mpirun.mpich -hosts $MRFD_HOSTS -launcher ssh -np 2"
MOVES = 100     # of the buffers of a guest, in a case
LONGEST = 1 << 20
AT_REST = ["short_messages", "long_messages", "window"]
FOLLOWS = ["moving", "evicted", "in_vram_at_last"]
LEFT = ["nothing_is_left"]
WHERE = re.compile(r"process (\d): VRAM at (\d+): (\d+) bytes of pattern (\d+)$", re.M)

# rocm_ipc shares memory with other processes of a machine, which the stand-in does not do.
# By its estimate of a link that is as slow as QEMU says, UCX sends a MiB without a rendezvous:
# the sender's device reads the VRAM, the receiver copies.  With a threshold none copies.
# Without the other two thresholds UCX copies short pieces by the CPU itself; with them it has
# the runtime copy, which counts.
UCX = {"UCX_ROCM_COPY_DMABUF": "yes", "UCX_TLS": "^rocm_ipc", "UCX_RNDV_THRESH": "64k",
       "UCX_ROCM_COPY_H2D_THRESH": "0", "UCX_ROCM_COPY_D2H_THRESH": "0"}
MOVE_NOTIFY = [f"{INSIDE}/tests/hsa/move-notify"]
# As in test_cluster.py.
ON_RXE = {**UCX, "UCX_TLS": "rc_verbs,ud_verbs,rocm_copy", "UCX_UD_VERBS_ETH_DGID_CHECK": "n"}


def pattern(size, seed):
    """What fill() of tests/lib/pattern.c writes."""
    mask, mixed = 0xffffffff, seed * 40503 & 0xffffffff
    words = ((i * 2654435761 & mask) ^ mixed for i in range(size))
    return bytes((x >> 24 ^ x >> 11) & 0xff for x in words)


class Hsa(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        out = programs.build_tests(["mpi/vram.openmpi", "mpi/vram.mpich", "hsa/calls"], "programs")
        cls.open_mpi, cls.mpich = f"{out}/mpi/vram.openmpi", f"{out}/mpi/vram.mpich"
        cls.calls = f"{out}/hsa/calls"

    def cluster(self, device, settings, command, setup=MOVE_NOTIFY):
        """(what guest0 says, the guests), when the command has ended well in guest0.  A guest has
        one CPU, since a process of MPI polls without pause, and four are more than there are."""
        guests, limit = [], patience(900)
        with fabric.Fabric() as running:
            for number, links in enumerate(machine.network(2)):
                options = programs.test_guest("base", device, gpu=True)
                options["setup"] = [*setup, *machine.network_setup(number, 2, device)]
                options["env"].update(settings, MRFD_PATIENCE=f"{patience(3):.1f}",
                                      MRFD_MOVES=str(MOVES),
                                      UCX_RC_TIMEOUT=f"{patience(2):.0f}s")
                guest = machine.Guest([f"{GUEST}/cluster", "sh", "-c", command],
                                      name=f"guest{number}", links=links, mac=number,
                                      timeout=limit, root="programs", cpus=1,
                                      fabric=running.socket if device is CONNECTX else None,
                                      **options)
                self.addCleanup(guest.stop)
                guests.append(guest.start())
            for guest in guests:
                guest.wait()  # its own limit ends it
        said = guests[0].output.decode(errors="replace")
        for guest in guests:
            self.assertEqual(guest.status, 0, said + guest.tail(10))
        return said, guests

    def assert_cases(self, said, cases):
        """Both processes have passed these, and UCX asked the stand-in for nothing else."""
        for process in 0, 1:
            self.assertEqual(re.findall(rf"^process {process}: case (\w+): ok$", said, re.M),
                             cases, said)
        self.assertNotIn("hsa: ", said)

    def assert_in_vram(self, said, guests):
        """Each guest's VRAM has what the last put and the last message brought."""
        found = WHERE.findall(said)
        self.assertEqual([where[0] for where in sorted(found)], ["0", "0", "1", "1"], said)
        for process, at, size, seed in (map(int, where) for where in found):
            self.assertEqual(size, LONGEST)
            self.assertEqual(guests[process].vram[at:at + size], pattern(size, seed))

    def assert_right(self, command, settings, setup=MOVE_NOTIFY):
        said, guests = self.cluster(CONNECTX, settings, command, setup)
        self.assert_cases(said, AT_REST + FOLLOWS + LEFT)
        self.assertNotIn("UCX  ERROR", said)
        self.assert_in_vram(said, guests)
        for guest in guests:
            counted = by_function(guest)["first"]
            self.assertGreater(min(counted.read, counted.written), 20 * LONGEST)
        print("".join(f"# {line}\n" for line in said.splitlines() if line.startswith("process")))

    def test_the_stand_in_does_what_its_headers_say(self):
        guest = machine.Guest([self.calls], devices=["gpu"], root="programs",
                              timeout=patience(60)).run()
        self.assertEqual(guest.status, 0, guest.output.decode() + guest.tail(10))
        self.assertIn(b"\n0 calls were wrong", guest.output)

    def test_open_mpi_moves_vram(self):
        self.assert_right(f"{OPEN_MPI} {self.open_mpi}", UCX)

    def test_mpich_moves_vram(self):
        self.assert_right(f"{MPICH} {self.mpich}", UCX)

    def test_our_ucx_needs_no_line_that_is_not_true(self):
        """With patches/ucx UCX uses dma-bufs by the /boot/config-RELEASE that is the kernel's."""
        ours = f"-x LD_LIBRARY_PATH={our_ucx()}/install/lib:$LD_LIBRARY_PATH"
        self.assert_right(f"{OPEN_MPI} {ours} {self.open_mpi}", UCX, ())

    def test_without_dma_bufs_or_a_runtime_nothing_passes_for_rdma_to_vram(self):
        """UCX copies if it may not use dma-bufs, which the job tells; and a job that has no
        runtime for its VRAM does not get far."""
        settings = {**UCX, "UCX_ROCM_COPY_DMABUF": "no"}
        job = f"{OPEN_MPI} {self.open_mpi}"
        said, _ = self.cluster(CONNECTX, settings, f"{job} copied && echo COPIED && ! {job} && "
                               f"echo FAILED && ! {job} unknown")
        copied, failed, unknown = re.split("^(?:COPIED|FAILED)$", said, flags=re.M)
        self.assert_cases(copied, ["short_messages", "long_messages", *LEFT])
        self.assertIn("there is no region by fd", failed)
        self.assertNotIn("case long_messages", failed)
        self.assertRegex(unknown, r"rndv_\w+\.c:\d+ +Assertion .* failed")
        self.assertNotIn("case long_messages", unknown)

    def test_open_mpi_on_soft_roce_uses_it_in_system_memory(self):
        said, _ = self.cluster(RXE, ON_RXE, f"{OPEN_MPI} {self.open_mpi}")
        self.assert_cases(said, AT_REST + LEFT)


if __name__ == "__main__":
    unittest.main()
