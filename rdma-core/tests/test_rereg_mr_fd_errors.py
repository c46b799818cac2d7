# SPDX-License-Identifier: (GPL-2.0 OR Linux-OpenIB)
"""
Test module for failures of re-registration by file descriptor.

Each failure must report its cause and leave the MR unchanged, which RDMA through
the MR shows each time.
"""
from contextlib import suppress
import unittest
import errno
import fcntl
import os

from tests.test_rereg_mr_fd import ReregTestCase, HostRegion, DmaBufRegion, \
    MemFdRegion, ACCESS, TRANS, CHANGE_PD, CHANGE_ACCESS
from pyverbs.pyverbs_error import PyverbsRDMAError
from tests.test_mr_fd import PAGE, BUF_SIZE, IOVA
from tests.test_memfd_mr import MemFd, MemLock
from pyverbs.mr import MW, MWBindInfo, MWBind
from pyverbs.dmabuf import DmaBuf
import pyverbs.device as d
from pyverbs.pd import PD
import pyverbs.libibverbs_enums as e
import tests.utils as u

UNMAPPED = 1 << 40


class ReregMRFdErrorTest(ReregTestCase):
    """
    Verify that a failed rereg reports its cause and leaves the MR unchanged.
    """
    def state(self):
        mr = self.server.mr
        return mr.buf, mr.length, mr.handle, mr.lkey, mr.rkey

    def fd_fails(self, err, region=None, flags=TRANS, access=0, pd=None, **kwargs):
        """
        Verify that a rereg by file descriptor in which only the given arguments
        are wrong fails with the errno, and that the MR is unchanged. The class
        of the error says so too, whoever finds the mistake.
        """
        region = region or self.other
        args = {'length': region.length, 'fd': region.fd, 'offset': region.offset,
                'iova': region.addr, 'fd_type': region.fd_type}
        before = self.state()
        with self.assertRaises(PyverbsRDMAError) as ex:
            self.server.mr.rereg_fd(flags, pd or self.server.pd, access=access,
                                    **{**args, **kwargs})
        self.assertRegex(str(ex.exception), r'IBV_REREG_MR_ERR_INPUT\b')
        self.assertEqual(errno.errorcode[ex.exception.error_code], errno.errorcode[err])
        self.assertEqual(self.state(), before)
        self.check_all()

    def each(self):
        """
        Create an MR of each kind of memory in turn.
        """
        for region in HostRegion(), DmaBufRegion(), MemFdRegion():
            self.other = DmaBufRegion() if isinstance(region, MemFdRegion) else MemFdRegion()
            self.start(region)
            yield region

    def test_rereg_input(self):
        """
        Verify EINVAL for mistakes that the library finds
        """
        with d.Context(name=self.dev_name) as ctx, PD(ctx) as pd:
            for _ in self.each():
                self.fd_fails(errno.EINVAL, flags=0)
                self.fd_fails(errno.EINVAL, flags=TRANS | 8)
                self.fd_fails(errno.EINVAL, length=0)
                self.fd_fails(errno.EINVAL, access=ACCESS)
                self.fd_fails(errno.EINVAL, flags=CHANGE_PD, pd=pd)
                with self.assertRaises(PyverbsRDMAError) as ex:
                    self.server.mr.rereg_fd(CHANGE_PD)
                self.assertEqual(ex.exception.error_code, errno.EINVAL)

    def test_rereg_not_open(self):
        """
        Verify EBADF for a file descriptor that is not open
        """
        for _ in self.each():
            closed = os.dup(self.other.mem.fd)
            os.close(closed)
            self.fd_fails(errno.EBADF, fd=closed)
            self.fd_fails(errno.EBADF, fd=-1)

    def test_rereg_other_kind(self):
        """
        Verify EBADFD for file descriptors of other kinds
        """
        with open('/dev/zero', 'rb+', buffering=0) as zero:
            for _ in self.each():
                self.fd_fails(errno.EBADFD, fd=zero.fileno())
                self.fd_fails(errno.EBADFD, fd_type=self.other.fd_type ^ 3)

    def test_rereg_place(self):
        """
        Verify the errno for a region that cannot exist
        """
        for _ in self.each():
            self.fd_fails(errno.ERANGE, offset=BUF_SIZE, iova=IOVA)
            self.fd_fails(errno.ERANGE, length=BUF_SIZE)
            self.fd_fails(errno.EOVERFLOW, offset=2**64 - PAGE, length=2 * PAGE, iova=IOVA)
            self.fd_fails(errno.EOVERFLOW, offset=0, length=2 * PAGE, iova=2**64 - PAGE)
            self.fd_fails(errno.EINVAL, iova=self.other.addr + 1)
            self.fd_fails(errno.EINVAL, fd_type=0)

    def test_rereg_access(self):
        """
        Verify the errno for bad access, alone and together with other changes
        """
        for region in self.each():
            for flags in CHANGE_ACCESS, TRANS | CHANGE_PD | CHANGE_ACCESS:
                for err, access in (errno.EINVAL, ACCESS | 1 << 19), \
                        (errno.EINVAL, e.IBV_ACCESS_REMOTE_WRITE), \
                        (errno.EINVAL, e.IBV_ACCESS_REMOTE_ATOMIC), \
                        (errno.EOPNOTSUPP, ACCESS | e.IBV_ACCESS_ON_DEMAND):
                    if err == errno.EOPNOTSUPP and not flags & TRANS and \
                            isinstance(region, HostRegion):
                        continue  # A device with on-demand paging can do this
                    with self.subTest(flags=flags, access=access):
                        self.fd_fails(err, flags=flags, access=access)

    def test_rereg_nothing_changes(self):
        """
        Verify that PD and access do not change if the file descriptor is bad
        """
        for _ in self.each():
            with PD(self.server.ctx) as pd:
                self.fd_fails(errno.EBADF, flags=7, pd=pd, fd=-1)
                self.fd_fails(errno.ERANGE, flags=7, pd=pd, length=BUF_SIZE)

    def test_rereg_not_writable(self):
        """
        Verify EACCES for write access, kept or new, to read-only memory
        """
        read_only = [(DmaBuf(BUF_SIZE, gpu=DmaBufRegion.gpu, gtt=DmaBufRegion.gtt,
                             flags=os.O_RDONLY), DmaBufRegion.fd_type),
                     (MemFd(BUF_SIZE, flags=os.O_RDONLY), MemFdRegion.fd_type)]
        for mem, fd_type in read_only:
            for _ in self.each():
                args = {'fd': mem.fd, 'fd_type': fd_type}
                self.fd_fails(errno.EACCES, **args)
                self.fd_fails(errno.EACCES, flags=TRANS | CHANGE_ACCESS,
                              access=e.IBV_ACCESS_LOCAL_WRITE, **args)
                # Read access is possible, and cannot be changed to write access
                self.server.mr.rereg_fd(TRANS | CHANGE_ACCESS, None, PAGE,
                                        e.IBV_ACCESS_REMOTE_READ, mem.fd, 0, 0, fd_type)
                with self.assertRaises(PyverbsRDMAError) as ex:
                    self.server.mr.rereg_fd(CHANGE_ACCESS, access=ACCESS)
                self.assertEqual(ex.exception.error_code, errno.EACCES)

    def test_rereg_sealed(self):
        """
        Verify EPERM for write access to a memfd that is sealed against writing
        """
        sealed = MemFdRegion()
        sealed.mem.seal(fcntl.F_SEAL_WRITE)
        for _ in self.each():
            self.fd_fails(errno.EPERM, region=sealed)

    def test_rereg_memlock(self):
        """
        Verify ENOMEM if old and new memory together exceed RLIMIT_MEMLOCK
        """
        for region in HostRegion(0, 4 * PAGE), MemFdRegion(0, 4 * PAGE):
            self.other = MemFdRegion(0, 5 * PAGE)
            # The queues of a device may be pinned too
            with MemLock(1 << 22):
                self.start(region)
                with MemLock(4 * PAGE):
                    self.fd_fails(errno.ENOMEM)
                    # Memory that a rereg has released does not count any more
                    for new in [MemFdRegion(0, 4 * PAGE), region] * 4:
                        self.rereg(new)
                    self.check_all()
                self.client.mr.close()
                self.server.mr.close()

    def test_rereg_unmapped(self):
        """
        Verify that ibv_rereg_mr() to an unmapped address changes nothing
        """
        for _ in self.each():
            before = self.state()
            with self.assertRaises(PyverbsRDMAError):
                self.server.mr.rereg(TRANS, self.server.pd, UNMAPPED, PAGE)
            self.assertEqual(self.state(), before)
            self.check_all()

    def needs_hold(self):
        """
        Skip a device that lets an MR with a bound memory window change.
        """
        with suppress(PyverbsRDMAError):
            self.server.mr.rereg_fd(CHANGE_ACCESS, access=ACCESS | e.IBV_ACCESS_MW_BIND)
            raise unittest.SkipTest('Memory windows do not hold their MR on this device')

    def test_rereg_window(self):
        """
        Verify EINVAL while a memory window is bound to the MR
        """
        access = ACCESS | e.IBV_ACCESS_MW_BIND
        for new in DmaBufRegion(), MemFdRegion():
            self.start(HostRegion(), access)
            self.other = new
            mr = self.server.mr
            with MW(self.server.pd, e.IBV_MW_TYPE_1) as mw:
                info = MWBindInfo(mr, mr.buf, mr.length, e.IBV_ACCESS_REMOTE_WRITE)
                self.server.qp.bind_mw(mw, MWBind(info, e.IBV_SEND_SIGNALED))
                u.poll_cq(self.server.cq)
                self.needs_hold()
                for flags in range(1, 8):
                    self.fd_fails(errno.EINVAL, flags=flags,
                                  access=access if flags & CHANGE_ACCESS else 0)
            self.rereg(new)
            self.check_all()
