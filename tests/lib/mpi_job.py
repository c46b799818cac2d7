# SPDX-License-Identifier: GPL-2.0-or-later
"""An MPI job of two processes, for host/cluster: messages from a byte to a MiB there and back,
a sum, and a window that the other process writes and reads.  Each byte is compared."""

import random

from mpi4py import MPI

SIZES = [1, 7, 100, 4096, 5000, 70001, 1 << 20]
ROUNDS = 32     # of the longest


def pattern(size, seed):
    return random.Random(seed).randbytes(size)


def check(what, got, wanted):
    if bytes(got) != wanted:
        raise SystemExit(f"{what}: {len(wanted)} bytes are wrong")


def messages(comm, rank):
    for size in SIZES + [SIZES[-1]] * ROUNDS:
        mine, theirs = pattern(size, rank), pattern(size, 1 - rank)
        got = bytearray(size)
        comm.Sendrecv(mine, dest=1 - rank, recvbuf=got, source=1 - rank)
        check("message", got, theirs)


def window(comm, rank):
    size = SIZES[-1]
    memory = bytearray(pattern(size, 10 + rank))
    win = MPI.Win.Create(memory, comm=comm)
    win.Fence()
    got = bytearray(size)
    win.Get(got, 1 - rank)
    win.Fence()
    check("get", got, pattern(size, 11 - rank))
    win.Put(pattern(size, 20 + rank), 1 - rank)
    win.Fence()
    check("put", memory, pattern(size, 21 - rank))
    win.Free()


def main():
    comm = MPI.COMM_WORLD
    rank = comm.Get_rank()
    messages(comm, rank)
    if comm.allreduce(rank + 1) != 3:
        raise SystemExit("the sum is wrong")
    window(comm, rank)
    comm.Barrier()
    if rank == 0:
        print("all bytes are right", flush=True)


if __name__ == "__main__":
    main()
