# SPDX-License-Identifier: (GPL-2.0 OR Linux-OpenIB)
"""
Test module for registration of memory by file descriptor (pyverbs' MRFd).

The memory is a dma-buf of a DRM device, for example a GPU or vgem.
tests/test_memfd_mr.py runs the same cases with a memfd.
"""
import resource
import unittest
import socket
import errno
import os

from tests.base import PyverbsAPITestCase, RCResources, RDMATestCase
from pyverbs.pyverbs_error import PyverbsRDMAError
from tests.test_mr import check_dmabuf_support
from pyverbs.wr import SGE, SendWR
from pyverbs.dmabuf import DmaBuf
from pyverbs.mr import MR, MRFd
from pyverbs.qp import QPAttr
import pyverbs.device as d
from pyverbs.pd import PD
import pyverbs.libibverbs_enums as e
import tests.utils as u

PAGE = resource.getpagesize()
BUF_SIZE = 16 * PAGE
# Different from every offset, and larger than 32 bits
IOVA = 0x7f0012340000
GUARD = b'g'


class DmaBufMemory:
    """
    The memory that a test case registers: its type, support and allocation.
    """
    fd_type = int(e.IBV_MR_FD_TYPE_DMABUF)

    def check_memory(self):
        check_dmabuf_support(self.config['gpu'])

    def alloc(self, flags=os.O_RDWR):
        """
        Allocate a buffer. Its file descriptor is opened with the flags.
        """
        return DmaBuf(BUF_SIZE, gpu=self.config['gpu'], gtt=self.config['gtt'], flags=flags)

    def check_support(self, ctx):
        """
        Skip the test if there is no such memory, or if the RDMA driver does
        not register it by file descriptor.
        """
        self.check_memory()
        mem = self.alloc()
        try:
            with PD(ctx) as pd, MRFd(pd, PAGE, 0, mr_fd(mem), fd_type=self.fd_type):
                pass
        except PyverbsRDMAError as ex:
            if ex.error_code == errno.EOPNOTSUPP:
                raise unittest.SkipTest('Reg MR by file descriptor is not supported by the RDMA driver')
            raise ex


def mr_fd(mem):
    """
    Get the argument of MRFd() for a buffer: a DmaBuf, or a file descriptor.
    """
    return mem if isinstance(mem, DmaBuf) else mem.fd


class MRFdAPITest(DmaBufMemory, PyverbsAPITestCase):
    """
    Common part of the tests without traffic: a PD and a buffer.
    """
    def setUp(self):
        super().setUp()
        self.check_support(self.ctx)
        self.pd = PD(self.ctx)
        self.mem = self.alloc()
        # The exporter may have rounded the size up
        self.size = os.lseek(self.mem.fd, 0, os.SEEK_END)

    def reg(self, length=PAGE, access=e.IBV_ACCESS_LOCAL_WRITE, fd=None, **kwargs):
        kwargs.setdefault('fd_type', self.fd_type)
        return MRFd(self.pd, length, access, mr_fd(self.mem) if fd is None else fd, **kwargs)

    def reg_fails(self, err, **kwargs):
        """
        Verify that a registration fails with the given errno.
        """
        with self.assertRaises(PyverbsRDMAError) as ex:
            self.reg(**kwargs)
        self.assertEqual(errno.errorcode[ex.exception.error_code], errno.errorcode[err])


class MRFdTest(MRFdAPITest):
    """
    Test what ibv_reg_mr_fd() and ibv_reg_mr_fd_iova() register.
    """
    def test_mr_fd_reg(self):
        """
        Test ibv_reg_mr_fd_iova() with each legal combination of access flags
        """
        for access in [0] + u.get_dmabuf_access_flags(self.ctx):
            with self.subTest(access=access), self.reg(access=access):
                pass

    def test_mr_fd_reg_whole(self):
        """
        Test registration of the whole buffer
        """
        with self.reg(length=self.size) as mr:
            self.assertEqual(mr.length, self.size)

    def test_mr_fd_reg_addr(self):
        """
        Test ibv_reg_mr_fd(), which takes the offset from the address
        """
        with self.reg(offset=None, iova=IOVA + 17) as mr:
            self.assertEqual((mr.buf, mr.offset), (IOVA + 17, 17))

    def test_mr_fd_reg_twice(self):
        """
        Test two MRs over the same bytes
        """
        with self.reg() as mr1, self.reg() as mr2:
            self.assertNotEqual(mr1.lkey, mr2.lkey)

    def test_mr_fd_dereg_twice(self):
        """
        Verify that explicit call to MRFd's close() doesn't fail
        """
        with self.reg() as mr:
            # Pyverbs supports multiple destruction of objects, we are not
            # expecting an exception here.
            mr.close()
            mr.close()

    def test_mr_fd_closed(self):
        """
        Test an MR whose file descriptor and exporter's handle are closed
        """
        mr = self.reg(fd=self.mem.fd)
        self.mem.close()
        mr.close()

    def test_mr_fd_odd_offset(self):
        """
        Test an odd offset and an iova that is equal modulo the page size only
        """
        with self.reg(offset=3 * PAGE + 1, iova=IOVA + 1) as mr:
            self.assertEqual(mr.buf, IOVA + 1)

    def test_mr_fd_end(self):
        """
        Test a region of one byte at the very end of the buffer
        """
        self.reg(length=1, offset=self.size - 1, iova=IOVA + PAGE - 1).close()

    def test_mr_fd_write_read(self):
        """
        Test that MRFd's read() and write() start at the offset
        """
        with self.reg(length=PAGE, offset=PAGE + 5) as mr:
            mr.write('abc', 3, 1)
            self.assertEqual(mr.read(3, 1), b'abc')
            self.assertEqual(self.mem.read(3, PAGE + 6), b'abc')

    def test_mr_fd_read_only(self):
        """
        Test that a read-only file descriptor is enough for read access
        """
        mem = self.alloc(os.O_RDONLY)
        for access in [0, e.IBV_ACCESS_REMOTE_READ]:
            self.reg(access=access, fd=mem.fd).close()


class MRFdErrorTest(MRFdAPITest):
    """
    Verify that each bad registration fails with the errno of its cause.
    """
    def test_mr_fd_not_open(self):
        """
        Verify EBADF for a file descriptor that is not open
        """
        closed = os.dup(self.mem.fd)
        os.close(closed)
        for fd in [closed, -1, -2]:
            with self.subTest(fd=fd):
                self.reg_fails(errno.EBADF, fd=fd)

    def test_mr_fd_other_kind(self):
        """
        Verify EBADFD for file descriptors of other kinds
        """
        with open('/dev/zero', 'rb+', buffering=0) as zero, open(__file__, 'rb') as file, \
                socket.socket() as sock:
            for other in [zero, file, sock]:
                with self.subTest(other=other):
                    self.reg_fails(errno.EBADFD, fd=other.fileno(), access=0)

    def test_mr_fd_not_writable(self):
        """
        Verify EACCES for write access through a read-only file descriptor
        """
        mem = self.alloc(os.O_RDONLY)
        for access in [e.IBV_ACCESS_LOCAL_WRITE,
                       e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE,
                       e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_ATOMIC,
                       e.IBV_ACCESS_MW_BIND]:
            with self.subTest(access=access):
                self.reg_fails(errno.EACCES, access=access, fd=mem.fd)

    def test_mr_fd_past_end(self):
        """
        Verify ERANGE for a region that extends past the end of the buffer
        """
        for offset, length in [(0, self.size + 1), (self.size - 1, 2), (self.size, 1),
                               (1 << 40, PAGE)]:
            with self.subTest(offset=offset, length=length):
                self.reg_fails(errno.ERANGE, offset=offset, length=length)

    def test_mr_fd_offset_wraps(self):
        """
        Verify EOVERFLOW if offset + length does not fit into 64 bits
        """
        self.reg_fails(errno.EOVERFLOW, offset=2**64 - PAGE, length=2 * PAGE, iova=IOVA)

    def test_mr_fd_iova_wraps(self):
        """
        Verify EOVERFLOW if iova + length does not fit into 64 bits
        """
        self.reg_fails(errno.EOVERFLOW, iova=2**64 - PAGE, length=2 * PAGE)

    def test_mr_fd_zero_length(self):
        """
        Verify EINVAL for an empty region
        """
        self.reg_fails(errno.EINVAL, length=0)

    def test_mr_fd_page_offset(self):
        """
        Verify EINVAL for an iova and an offset that differ modulo the page size
        """
        self.reg_fails(errno.EINVAL, offset=1, iova=IOVA)
        self.reg_fails(errno.EINVAL, offset=PAGE, iova=IOVA + PAGE // 2)

    def test_mr_fd_bad_type(self):
        """
        Verify EINVAL for types of file descriptors that do not exist
        """
        for fd_type in [0, 0x7fffffff]:
            with self.subTest(fd_type=fd_type):
                self.reg_fails(errno.EINVAL, fd_type=fd_type)

    def test_mr_fd_bad_access(self):
        """
        Verify EINVAL for an access flag that does not exist
        """
        self.reg_fails(errno.EINVAL, access=e.IBV_ACCESS_LOCAL_WRITE | 1 << 19)

    def test_mr_fd_remote_without_local(self):
        """
        Verify EINVAL for remote write or atomic without local write
        """
        for access in [e.IBV_ACCESS_REMOTE_WRITE, e.IBV_ACCESS_REMOTE_ATOMIC]:
            with self.subTest(access=access):
                self.reg_fails(errno.EINVAL, access=access)

    def test_mr_fd_access_not_supported(self):
        """
        Verify EOPNOTSUPP for access that only host memory supports
        """
        for access in [e.IBV_ACCESS_ON_DEMAND, e.IBV_ACCESS_FLUSH_GLOBAL,
                       e.IBV_ACCESS_FLUSH_PERSISTENT]:
            with self.subTest(access=access):
                self.reg_fails(errno.EOPNOTSUPP, access=e.IBV_ACCESS_LOCAL_WRITE | access)


class MRFdRC(RCResources):
    def __init__(self, dev_name, ib_port, gid_index, memory, offset=0, iova=IOVA,
                 at_end=False, closed=False, atomic=False, **kwargs):
        """
        Initialize RC resources over an MR registered by file descriptor.
        :param dev_name: Device name to be used
        :param ib_port: IB port of the device to use
        :param gid_index: Which GID index to use
        :param memory: A DmaBufMemory
        :param offset: Offset of the MR in the buffer
        :param iova: Address of the MR, to which the offset in the page is added
        :param at_end: Place the MR at the end of the buffer
        :param closed: Close the buffer, so that only the MR holds the memory
        :param atomic: Allow remote atomic access
        """
        self.memory = memory
        self.offset = offset
        self.iova = iova
        self.at_end = at_end
        self.closed = closed
        self.access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | \
            e.IBV_ACCESS_REMOTE_READ
        if atomic:
            self.access |= e.IBV_ACCESS_REMOTE_ATOMIC
        super().__init__(dev_name=dev_name, ib_port=ib_port, gid_index=gid_index, **kwargs)

    def create_mr(self):
        self.mem = self.memory.alloc()
        self.size = os.lseek(self.mem.fd, 0, os.SEEK_END)
        if self.at_end:
            self.offset = self.size - self.msg_size
        self.mem.write(GUARD * self.size, self.size)
        self.mr = MRFd(self.pd, self.msg_size, self.access,
                       self.mem.fd if self.closed else mr_fd(self.mem),
                       offset=self.offset, iova=self.iova + self.offset % PAGE,
                       fd_type=self.memory.fd_type)
        if self.closed:
            self.mem.close()

    def create_qp_attr(self):
        qp_attr = QPAttr(port_num=self.ib_port)
        qp_attr.qp_access_flags = self.access
        return qp_attr

    def check_guard(self):
        """
        Verify that nothing was written outside of the region.
        """
        data = self.mem.read(self.size)
        around = data[:self.offset] + data[self.offset + self.msg_size:]
        assert around == GUARD * len(around), 'Bytes outside of the MR were changed'


class MRFdTrafficTest(DmaBufMemory, RDMATestCase):
    """
    Test that each operation of an RC QP works on an MR of a file descriptor.
    """
    def setUp(self):
        super().setUp()
        self.iters = 100
        with d.Context(name=self.dev_name) as ctx:
            self.check_support(ctx)

    def rdma(self, send_op, **kwargs):
        self.create_players(MRFdRC, memory=self, **kwargs)
        u.rdma_traffic(**self.traffic_args, send_op=send_op)
        self.client.check_guard()
        self.server.check_guard()

    def send_recv(self, send_op, **kwargs):
        self.create_players(MRFdRC, memory=self, **kwargs)
        u.traffic(**self.traffic_args, send_op=send_op)
        self.client.check_guard()
        self.server.check_guard()

    def atomic(self, send_op, **kwargs):
        ctx = d.Context(name=self.dev_name)
        if ctx.query_device().atomic_caps == e.IBV_ATOMIC_NONE:
            raise unittest.SkipTest('Atomic operations are not supported')
        self.create_players(MRFdRC, memory=self, atomic=True, msg_size=8, **kwargs)
        u.atomic_traffic(**self.traffic_args, send_op=send_op)
        self.client.check_guard()
        self.server.check_guard()

    def test_mr_fd_send_recv(self):
        """
        Test send/recv
        """
        self.send_recv(e.IBV_WR_SEND)

    def test_mr_fd_send_recv_odd_offset(self):
        """
        Test send/recv of messages that cross pages, at an odd offset
        """
        self.send_recv(e.IBV_WR_SEND, offset=2 * PAGE + 123, msg_size=3 * PAGE + 17)

    def test_mr_fd_write(self):
        """
        Test RDMA write
        """
        self.rdma(e.IBV_WR_RDMA_WRITE)

    def test_mr_fd_write_iova_zero(self):
        """
        Test RDMA write with an MR at address 0
        """
        self.rdma(e.IBV_WR_RDMA_WRITE, offset=PAGE, iova=0)

    def test_mr_fd_write_odd_offset(self):
        """
        Test RDMA write of messages that cross pages, at an odd offset
        """
        self.rdma(e.IBV_WR_RDMA_WRITE, offset=2 * PAGE + 123, msg_size=3 * PAGE + 17)

    def test_mr_fd_write_at_end(self):
        """
        Test RDMA write up to the last byte of the buffer
        """
        self.rdma(e.IBV_WR_RDMA_WRITE, at_end=True, msg_size=PAGE + 1)

    def test_mr_fd_write_with_imm(self):
        """
        Test RDMA write with immediate
        """
        self.send_recv(e.IBV_WR_RDMA_WRITE_WITH_IMM)

    def test_mr_fd_read(self):
        """
        Test RDMA read
        """
        self.rdma(e.IBV_WR_RDMA_READ)

    def test_mr_fd_read_odd_offset(self):
        """
        Test RDMA read of messages that cross pages, at an odd offset
        """
        self.rdma(e.IBV_WR_RDMA_READ, offset=2 * PAGE + 123, msg_size=3 * PAGE + 17)

    def test_mr_fd_fetch_and_add(self):
        """
        Test atomic fetch and add
        """
        self.atomic(e.IBV_WR_ATOMIC_FETCH_AND_ADD)

    def test_mr_fd_cmp_and_swap(self):
        """
        Test atomic compare and swap, at the end of a page
        """
        self.atomic(e.IBV_WR_ATOMIC_CMP_AND_SWP, offset=2 * PAGE - 8)

    def test_mr_fd_past_end_of_mr(self):
        """
        Verify that an access one byte past the end of the MR is refused
        """
        self.create_players(MRFdRC, memory=self)
        self.client.raddr += 1
        with self.assertRaisesRegex(PyverbsRDMAError, 'Remote access error'):
            u.rdma_traffic(**self.traffic_args, send_op=e.IBV_WR_RDMA_WRITE)
        self.server.check_guard()

    def test_mr_fd_closed_traffic(self):
        """
        Test RDMA write and read with all file descriptors closed
        """
        self.create_players(MRFdRC, memory=self, closed=True)
        size = self.client.msg_size
        mr = MR(self.client.pd, size, e.IBV_ACCESS_LOCAL_WRITE)
        for op, data in [(e.IBV_WR_RDMA_WRITE, 'c' * size), (e.IBV_WR_RDMA_READ, '0' * size)]:
            mr.write(data, size)
            wr = SendWR(opcode=op, num_sge=1, sg=[SGE(mr.buf, size, mr.lkey)])
            wr.set_wr_rdma(self.server.mr.rkey, self.server.mr.buf)
            u.post_send(self.client, wr)
            u.poll_cq(self.client.cq)
        self.assertEqual(mr.read(size, 0), b'c' * size)
