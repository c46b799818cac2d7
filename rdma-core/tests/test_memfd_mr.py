# SPDX-License-Identifier: (GPL-2.0 OR Linux-OpenIB)
"""
Test module for registration of files in memory (memfd, tmpfs, hugetlbfs).

The cases of tests/test_mr_fd.py run here with a memfd. More cases test what
only such files have: seals, holes, truncation, the limit of pinned pages.
"""
import subprocess
import resource
import tempfile
import unittest
import errno
import fcntl
import sys
import os
import re

import tests.test_mr_fd as base
from pyverbs.wr import SGE, SendWR
from pyverbs.mr import MR
import pyverbs.libibverbs_enums as e
import tests.utils as u

PAGE = base.PAGE
HUGE_PAGE = 0x200000
F_SEAL_FUTURE_WRITE = 0x10
# enum ib_uverbs_device_cap_flags
DEVICE_FLUSH_GLOBAL = 1 << 38
DEVICE_FLUSH_PERSISTENT = 1 << 39
WRITE_ACCESS = [e.IBV_ACCESS_LOCAL_WRITE,
                e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE,
                e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_ATOMIC,
                e.IBV_ACCESS_MW_BIND]


class MemFd:
    """
    A memfd with the methods of a DmaBuf.
    """
    def __init__(self, size=base.BUF_SIZE, flags=os.O_RDWR, memfd_flags=os.MFD_ALLOW_SEALING):
        self.fd = self.rw_fd = os.memfd_create('pyverbs', os.MFD_CLOEXEC | memfd_flags)
        os.ftruncate(self.fd, size)
        if flags != os.O_RDWR:
            self.fd = os.open(f'/proc/self/fd/{self.rw_fd}', flags | os.O_CLOEXEC)

    def __del__(self):
        self.close()

    def close(self):
        for fd in {self.fd, self.rw_fd} - {-1}:
            os.close(fd)
        self.fd = self.rw_fd = -1

    def seal(self, seals):
        fcntl.fcntl(self.rw_fd, fcntl.F_ADD_SEALS, seals)

    def write(self, data, length, offset=0):
        data = data.encode() if isinstance(data, str) else data
        assert os.pwrite(self.rw_fd, data[:length], offset) == length

    def read(self, length, offset=0):
        return os.pread(self.rw_fd, length, offset)

    def allocated(self):
        return os.fstat(self.fd).st_blocks * 512


class MemFdMemory:
    fd_type = int(e.IBV_MR_FD_TYPE_MEMFD)

    def check_memory(self):
        pass

    def alloc(self, flags=os.O_RDWR):
        return MemFd(flags=flags)


class MemFdMRTest(MemFdMemory, base.MRFdTest):
    """
    Test what can be registered of a memfd.
    """
    def test_memfd_tmpfs(self):
        """
        Test a file of a tmpfs that is already unlinked
        """
        with tempfile.TemporaryFile(dir='/dev/shm') as file:
            file.truncate(2 * PAGE)
            with self.reg(fd=file.fileno(), offset=PAGE) as mr:
                mr.write('abc', 3)
                self.assertEqual(mr.read(3, 0), b'abc')

    def test_memfd_hole(self):
        """
        Test that a hole is filled in the region and nowhere else
        """
        self.assertEqual(self.mem.allocated(), 0)
        with self.reg(offset=3 * PAGE - 1, length=PAGE, iova=PAGE - 1, access=0):
            self.assertEqual(self.mem.allocated(), 2 * PAGE)
        self.assertEqual(self.mem.read(self.size), bytes(self.size))

    def test_memfd_sealed_size(self):
        """
        Test a file whose size is sealed
        """
        self.mem.seal(fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self.reg().close()

    def test_memfd_sealed_read(self):
        """
        Test that a file sealed against writing can be registered for reading
        """
        for seal in [fcntl.F_SEAL_WRITE, F_SEAL_FUTURE_WRITE]:
            with self.subTest(seal=seal):
                mem = MemFd()
                mem.seal(seal)
                for access in [0, e.IBV_ACCESS_REMOTE_READ]:
                    self.reg(access=access, fd=mem.fd).close()

    def test_memfd_seal_later(self):
        """
        Verify that a registered file cannot be sealed with F_SEAL_WRITE
        """
        with self.reg():
            with self.assertRaises(OSError) as ex:
                self.mem.seal(fcntl.F_SEAL_WRITE)
            self.assertEqual(ex.exception.errno, errno.EBUSY)
        self.mem.seal(fcntl.F_SEAL_WRITE)

    def test_memfd_grown(self):
        """
        Test a region past the old end of a file that has grown
        """
        os.ftruncate(self.mem.fd, self.size + PAGE)
        self.reg(offset=self.size).close()

    def test_memfd_huge_pages(self):
        """
        Test a region that crosses two huge pages
        """
        with HugePages(2):
            mem = MemFd(2 * HUGE_PAGE, memfd_flags=os.MFD_HUGETLB)
            length = 2 * PAGE
            with self.reg(fd=mem.fd, offset=HUGE_PAGE - PAGE + 5, length=length, iova=5) as mr:
                self.assertEqual(mr.length, length)
            mem.close()


class HugePages:
    """
    A context in which so many more huge pages can be allocated.
    """
    PATH = '/sys/kernel/mm/hugepages/hugepages-2048kB/'

    def __init__(self, count):
        self.count = count

    def get(self, name):
        with open(self.PATH + name) as file:
            return int(file.read())

    def set(self, count):
        with open(self.PATH + 'nr_hugepages', 'w') as file:
            file.write(str(count))

    def __enter__(self):
        try:
            self.old = self.get('nr_hugepages')
            self.set(self.old + self.count)
        except OSError as ex:
            raise unittest.SkipTest(f'Huge pages cannot be reserved: {ex}')
        if self.get('free_hugepages') < self.count:
            self.set(self.old)
            raise unittest.SkipTest('There is not enough memory for huge pages')

    def __exit__(self, *_):
        self.set(self.old)


class MemFdErrorTest(MemFdMemory, base.MRFdErrorTest):
    """
    Verify that each bad registration of a memfd fails with the errno of its
    cause.
    """
    def test_memfd_sealed_write(self):
        """
        Verify EPERM for write access to a file sealed against writing
        """
        for seal in [fcntl.F_SEAL_WRITE, F_SEAL_FUTURE_WRITE]:
            mem = MemFd()
            mem.seal(seal)
            for access in WRITE_ACCESS:
                with self.subTest(seal=seal, access=access):
                    self.reg_fails(errno.EPERM, access=access, fd=mem.fd)

    def test_memfd_not_readable(self):
        """
        Verify EACCES for a file descriptor that is open for writing only
        """
        mem = MemFd(flags=os.O_WRONLY)
        for access in [0] + WRITE_ACCESS:
            with self.subTest(access=access):
                self.reg_fails(errno.EACCES, access=access, fd=mem.fd)

    def test_mr_fd_access_not_supported(self):
        """
        Verify the errno of on demand, of persistent flush, which memfds lack, and of flush
        on a device without it
        """
        self.reg_fails(errno.EOPNOTSUPP, access=e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_ON_DEMAND)
        can = self.ctx.query_device_ex().device_cap_flags_ex
        for access, cap, error in [(e.IBV_ACCESS_FLUSH_GLOBAL, DEVICE_FLUSH_GLOBAL, 0),
                                   (e.IBV_ACCESS_FLUSH_PERSISTENT, DEVICE_FLUSH_PERSISTENT,
                                    errno.EINVAL)]:
            if not can & cap:
                error = errno.EOPNOTSUPP
            if error:
                self.reg_fails(error, access=e.IBV_ACCESS_LOCAL_WRITE | access)
            else:
                self.reg(access=e.IBV_ACCESS_LOCAL_WRITE | access).close()

    def test_memfd_shrunk(self):
        """
        Verify ERANGE past the end of a file that has shrunk
        """
        os.ftruncate(self.mem.fd, PAGE)
        self.reg_fails(errno.ERANGE, offset=PAGE)
        self.reg().close()

    def test_memfd_dmabuf(self):
        """
        Verify EBADFD for a memfd with the type of a dma-buf, where these can be registered
        """
        dma_buf = int(e.IBV_MR_FD_TYPE_DMABUF)
        can = self.ctx.query_mr_fd_caps(dma_buf) & e.IBV_MR_FD_CAP_REG
        self.reg_fails(errno.EBADFD if can else errno.EOPNOTSUPP, fd_type=dma_buf)

    def test_memfd_memlock(self):
        """
        Verify ENOMEM if more than RLIMIT_MEMLOCK would be pinned
        """
        with MemLock(8 * PAGE):
            with self.reg(length=6 * PAGE) as mr:
                self.reg_fails(errno.ENOMEM, length=3 * PAGE)
                self.reg(length=2 * PAGE).close()
                mr.close()
            self.reg_fails(errno.ENOMEM, length=8 * PAGE + 1)
            # Deregistration has given all of the limit back
            self.reg(length=8 * PAGE).close()


class MemLock:
    """
    A context in which only so many more bytes can be pinned, also by root.
    """
    NOBODY = 65534

    def __init__(self, size):
        self.size = size

    def __enter__(self):
        self.limits = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        self.uid = os.geteuid()
        with open('/proc/self/status') as status:
            pinned = int(re.search(r'^VmPin:\s*(\d+) kB', status.read(), re.M)[1]) * 1024
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (pinned + self.size, self.limits[1]))
        if self.uid == 0:
            os.seteuid(self.NOBODY)

    def __exit__(self, *_):
        os.seteuid(self.uid)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, self.limits)


class MemFdTrafficTest(MemFdMemory, base.MRFdTrafficTest):
    """
    Test that each operation of an RC QP works on an MR of a memfd.
    """
    def rdma_from_client(self, op, data):
        """
        RDMA write the data to the start of the server's MR, or read as much
        from there. Return what the client's MR then contains.
        """
        with MR(self.client.pd, len(data), e.IBV_ACCESS_LOCAL_WRITE) as mr:
            mr.write(data, len(data))
            wr = SendWR(opcode=op, num_sge=1, sg=[SGE(mr.buf, len(data), mr.lkey)])
            wr.set_wr_rdma(self.server.mr.rkey, self.server.mr.buf)
            u.post_send(self.client, wr)
            u.poll_cq(self.client.cq)
            return mr.read(len(data), 0)

    def test_memfd_not_mapped(self):
        """
        Test that another process sees the data and this one has no mapping
        """
        self.create_players(base.MRFdRC, memory=self)
        caps = self.client.ctx.query_mr_fd_caps(self.fd_type)
        if not caps & e.IBV_MR_FD_CAP_REREG:
            raise unittest.SkipTest('libibverbs maps memfds for this kernel or driver')
        data = os.urandom(self.client.msg_size)
        reader = 'import mmap, sys; ' \
            'sys.stdout.buffer.write(mmap.mmap(int(sys.argv[1]), 0)[:int(sys.argv[2])])'
        self.rdma_from_client(e.IBV_WR_RDMA_WRITE, data)
        with open('/proc/self/maps') as maps:
            self.assertNotIn('memfd:pyverbs', maps.read())
        seen = subprocess.run([sys.executable, '-c', reader, str(self.server.mem.fd), str(len(data))],
                              pass_fds=[self.server.mem.fd], stdout=subprocess.PIPE, check=True)
        self.assertEqual(seen.stdout, data)

    def test_memfd_truncated(self):
        """
        Test that the region keeps its old pages if the file is truncated
        """
        self.create_players(base.MRFdRC, memory=self)
        size = self.client.msg_size
        os.ftruncate(self.server.mem.fd, 0)
        self.rdma_from_client(e.IBV_WR_RDMA_WRITE, b'o' * size)
        os.ftruncate(self.server.mem.fd, size)
        self.assertEqual(self.rdma_from_client(e.IBV_WR_RDMA_READ, bytes(size)), b'o' * size)
        self.assertEqual(self.server.mem.read(size), bytes(size))
