# SPDX-License-Identifier: (GPL-2.0 OR Linux-OpenIB)
"""
Test module for re-registration by file descriptor (MR.rereg_fd()).

An MR of each kind of memory is moved to each other kind, with each combination
of flags. After every step an RC QP writes and reads through the MR, and the
test compares these bytes with those in the memory.
"""
import unittest
import ctypes
import errno
import copy
import mmap
import os

from tests.base import RCResources, RDMATestCase
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.mr import MR, DmaBufMR, MRFd
from tests.test_mr import check_dmabuf_support
from tests.test_memfd_mr import MemFd
from tests.test_mr_fd import PAGE, BUF_SIZE, GUARD, IOVA
from pyverbs.dmabuf import DmaBuf
from pyverbs.wr import SGE, SendWR
from pyverbs.qp import QPAttr
import pyverbs.device as d
from pyverbs.pd import PD
import pyverbs.libibverbs_enums as e
import tests.utils as u

TRANS = int(e.IBV_REREG_MR_CHANGE_TRANSLATION)
CHANGE_PD = int(e.IBV_REREG_MR_CHANGE_PD)
CHANGE_ACCESS = int(e.IBV_REREG_MR_CHANGE_ACCESS)
REMOTE_WRITE = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
REMOTE_READ = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ
ACCESS = REMOTE_WRITE | REMOTE_READ


class Region:
    """
    A part of some memory, to register an MR with or to move an MR to. The rest
    of the memory must not change.
    """
    def __init__(self, offset=2 * PAGE + 123, length=3 * PAGE + 17, size=BUF_SIZE):
        self.offset = offset
        self.length = length
        self.size = size
        self.alloc()
        self.put(GUARD * size, 0)

    def part(self, offset, length):
        """
        Get another region of the same memory.
        """
        part = copy.copy(self)
        part.offset = offset
        part.length = length
        part.put(GUARD * part.size, 0)
        return part

    def fill(self, data):
        self.put(data, self.offset)

    def data(self):
        return self.get(self.length, self.offset)

    def check_guard(self):
        data = self.get(self.size, 0)
        around = data[:self.offset] + data[self.offset + self.length:]
        assert around == GUARD * len(around), 'Bytes outside of the MR were changed'


class HostRegion(Region):
    """
    Memory of the process, for ibv_reg_mr() and ibv_rereg_mr().
    """
    def alloc(self):
        self.map = mmap.mmap(-1, self.size)
        self.buf = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    @property
    def addr(self):
        return self.buf + self.offset

    def put(self, data, offset):
        self.map[offset:offset + len(data)] = data

    def get(self, length, offset):
        return self.map[offset:offset + length]

    def reg(self, pd, access):
        return MR(pd, self.length, access, address=self.addr)

    def rereg(self, mr, flags, pd, access=0):
        mr.rereg(flags, pd, self.addr, self.length, access)


class FdRegion(Region):
    """
    Memory of a file descriptor, for ibv_reg_mr_fd() and ibv_rereg_mr_fd().
    """
    def reg(self, pd, access):
        return MRFd(pd, self.length, access, self.fd, offset=self.offset, iova=self.addr,
                    fd_type=self.fd_type)

    def rereg(self, mr, flags, pd, access=0):
        mr.rereg_fd(flags, pd, self.length, access, self.fd, self.offset, self.addr, self.fd_type)

    def close(self):
        self.mem.close()

    def put(self, data, offset):
        self.mem.write(data, len(data), offset)

    def get(self, length, offset):
        return self.mem.read(length, offset)


class MemFdRegion(FdRegion):
    fd_type = int(e.IBV_MR_FD_TYPE_MEMFD)

    def alloc(self):
        self.mem = MemFd(self.size)
        self.fd = self.mem.fd

    @property
    def addr(self):
        return IOVA + self.offset % PAGE


class DmaBufRegion(FdRegion):
    fd_type = int(e.IBV_MR_FD_TYPE_DMABUF)
    gpu = gtt = 0

    def alloc(self):
        self.fd = self.mem = DmaBuf(self.size, gpu=self.gpu, gtt=self.gtt)

    @property
    def addr(self):
        return 16 * IOVA + self.offset % PAGE


class DmaBufMRRegion(DmaBufRegion):
    """
    A dma-buf, for ibv_reg_dmabuf_mr().
    """
    @property
    def addr(self):
        return self.offset

    def reg(self, pd, access):
        return DmaBufMR(pd, self.length, access, self.mem, offset=self.offset)


class ReregRC(RCResources):
    def __init__(self, dev_name, ib_port, gid_index, region, access=ACCESS):
        """
        Initialize RC resources with an MR of a region.
        :param dev_name: Device name to be used
        :param ib_port: IB port of the device to use
        :param gid_index: Which GID index to use
        :param region: The region
        :param access: Access flags of the MR
        """
        self.access = access
        self.region = region
        super().__init__(dev_name=dev_name, ib_port=ib_port, gid_index=gid_index)

    def create_mr(self):
        self.mr = self.region.reg(self.pd, self.access)

    def create_qp_attr(self):
        qp_attr = QPAttr(port_num=self.ib_port)
        qp_attr.qp_access_flags = ACCESS
        return qp_attr


class ReregTestCase(RDMATestCase):
    """
    Common part: the server's MR is re-registered, the client's is not.
    """
    def setUp(self):
        super().setUp()
        DmaBufRegion.gpu = self.config['gpu']
        DmaBufRegion.gtt = self.config['gtt']
        check_dmabuf_support(self.config['gpu'])
        with d.Context(name=self.dev_name) as ctx, PD(ctx) as pd:
            region = MemFdRegion()
            try:
                with region.reg(pd, ACCESS) as mr:
                    region.rereg(mr, TRANS, pd)
            except PyverbsRDMAError as ex:
                if ex.error_code == errno.EOPNOTSUPP:
                    raise unittest.SkipTest('Rereg MR by file descriptor is not supported')
                raise ex

    def start(self, region, access=ACCESS):
        """
        Create and connect the players, with the server's MR on the region.
        """
        self.region = region
        self.client = ReregRC(**self.dev_info, region=HostRegion(0, BUF_SIZE))
        self.server = ReregRC(**self.dev_info, region=region, access=access)
        self.pre_run()
        self.qp_attrs = [p.qp.query(0x1ffffff)[0] for p in (self.client, self.server)]

    def rdma(self, player, op, remote, length):
        """
        Do an RDMA operation between the starts of the players' MRs.
        """
        wr = SendWR(opcode=op, num_sge=1, sg=[SGE(player.region.addr, length, player.mr.lkey)])
        wr.set_wr_rdma(remote.mr.rkey, remote.region.addr)
        u.post_send(player, wr)
        u.poll_cq(player.cq)

    def check_write(self):
        """
        Verify that the client can write to the server's memory.
        """
        data = os.urandom(self.region.length)
        self.client.region.put(data, self.client.region.offset)
        self.rdma(self.client, e.IBV_WR_RDMA_WRITE, self.server, len(data))
        self.assertEqual(self.region.data(), data)
        self.region.check_guard()

    def check_read(self):
        """
        Verify that the client can read the server's memory.
        """
        data = os.urandom(self.region.length)
        self.region.fill(data)
        self.rdma(self.client, e.IBV_WR_RDMA_READ, self.server, len(data))
        self.assertEqual(self.client.region.get(len(data), self.client.region.offset), data)

    def check_local(self):
        """
        Verify that the server can send from its MR, with the lkey.
        """
        data = os.urandom(self.region.length)
        self.region.fill(data)
        self.rdma(self.server, e.IBV_WR_RDMA_WRITE, self.client, len(data))
        self.assertEqual(self.client.region.get(len(data), self.client.region.offset), data)

    def check_all(self):
        self.check_write()
        self.check_read()
        self.check_local()

    def check_refused(self, check):
        """
        Verify that the server refuses this operation of the client, and that
        its memory does not change. Then connect the QPs again.
        """
        before = self.region.get(self.region.size, 0)
        with self.assertRaisesRegex(PyverbsRDMAError, 'Remote access error'):
            self.rdma(self.client, check, self.server, self.region.length)
        self.assertEqual(self.region.get(self.region.size, 0), before)
        for player in self.client, self.server:
            player.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        for player, attr in zip((self.client, self.server), self.qp_attrs):
            player.qp.to_rts(attr)

    def rereg(self, region, flags=TRANS, pd=None, access=0):
        """
        Re-register the server's MR.
        """
        region.rereg(self.server.mr, flags, pd or self.server.pd, access)
        if flags & TRANS:
            self.server.region = self.region = region


class ReregMRFdTest(ReregTestCase):
    """
    Test moving an MR from each kind of memory to each other kind.
    """
    def move(self, old, new):
        """
        Move an MR from one region to the other, and back.
        """
        self.start(old)
        self.check_all()
        for region, left in (new, old), (old, new):
            before = left.get(left.size, 0)
            self.rereg(region)
            self.assertEqual((self.server.mr.buf, self.server.mr.length),
                             (region.addr, region.length))
            self.check_all()
            self.assertEqual(left.get(left.size, 0), before)

    def test_rereg_host_to_dmabuf(self):
        """
        Test rereg from memory of the process to a dma-buf and back
        """
        self.move(HostRegion(), DmaBufRegion(PAGE + 5, 2 * PAGE))

    def test_rereg_host_to_memfd(self):
        """
        Test rereg from memory of the process to a memfd and back
        """
        self.move(HostRegion(), MemFdRegion(PAGE + 5, 2 * PAGE))

    def test_rereg_host_to_host(self):
        """
        Test rereg from memory of the process to other such memory and back
        """
        self.move(HostRegion(), HostRegion(5, 2 * PAGE))

    def test_rereg_dmabuf_to_memfd(self):
        """
        Test rereg from a dma-buf to a memfd and back
        """
        self.move(DmaBufRegion(), MemFdRegion(0, PAGE))

    def test_rereg_dmabuf_to_dmabuf(self):
        """
        Test rereg from a dma-buf to another and back
        """
        self.move(DmaBufRegion(), DmaBufRegion(0, 1))

    def test_rereg_memfd_to_memfd(self):
        """
        Test rereg from a memfd to another and back
        """
        self.move(MemFdRegion(), MemFdRegion(BUF_SIZE - 1, 1))

    def test_rereg_dmabuf_mr_to_memfd(self):
        """
        Test rereg of an MR of ibv_reg_dmabuf_mr() to a memfd and back
        """
        self.move(DmaBufMRRegion(), MemFdRegion(PAGE, PAGE))

    def test_rereg_dmabuf_mr_to_host(self):
        """
        Test rereg of an MR of ibv_reg_dmabuf_mr() to memory of the process and
        back
        """
        self.move(DmaBufMRRegion(), HostRegion(PAGE, PAGE))

    def test_rereg_same_fd(self):
        """
        Test rereg to other offsets, lengths and addresses of the same memory
        """
        for old in HostRegion(), DmaBufRegion(), MemFdRegion():
            self.start(old)
            for offset, length in (0, 1), (PAGE - 1, 2), (7 * PAGE + 3, 5 * PAGE), (0, 5 * PAGE):
                with self.subTest(old=type(old).__name__, offset=offset, length=length):
                    self.rereg(old.part(offset, length))
                    self.check_all()

    def test_rereg_same_place(self):
        """
        Test rereg to the region that is registered already
        """
        for region in HostRegion(), DmaBufRegion(), MemFdRegion():
            with self.subTest(region=type(region).__name__):
                self.start(region)
                self.rereg(region)
                self.check_all()

    def test_rereg_addr(self):
        """
        Test ibv_rereg_mr_fd(), which takes the offset from the address
        """
        self.start(HostRegion())
        new = MemFdRegion(17, 2 * PAGE)
        self.server.mr.rereg_fd(TRANS, None, new.length, 0, new.fd, None, new.addr, new.fd_type)
        self.server.region = self.region = new
        self.check_all()

    def test_rereg_closed(self):
        """
        Test an MR whose file descriptors and exporter's handle are closed
        """
        for new in DmaBufRegion(), MemFdRegion():
            with self.subTest(new=type(new).__name__):
                self.start(HostRegion())
                fd = new.mem.fd
                self.server.mr.rereg_fd(TRANS, None, new.length, 0, fd, new.offset, new.addr,
                                        new.fd_type)
                new.close()
                self.server.region = new
                data = os.urandom(new.length)
                for op, before in (e.IBV_WR_RDMA_WRITE, data), (e.IBV_WR_RDMA_READ, bytes(len(data))):
                    self.client.region.fill(before)
                    self.rdma(self.client, op, self.server, len(data))
                self.assertEqual(self.client.region.get(len(data), 0), data)

    def test_rereg_many(self):
        """
        Test that an MR can be moved many times
        """
        regions = [HostRegion(), DmaBufRegion(), MemFdRegion()]
        self.start(regions[0])
        for _ in range(20):
            for region in regions[1], regions[2], regions[0]:
                self.rereg(region)
        self.check_all()


class ReregMRFdFlagsTest(ReregTestCase):
    """
    Test each combination of flags, on MRs of each kind of memory.
    """
    def change(self, old, new):
        """
        Change an MR with remote write access to the new region, another PD and
        remote read access, each only if its flag is set.
        """
        for flags in range(1, 8):
            with self.subTest(flags=flags):
                self.start(old, REMOTE_WRITE)
                access = REMOTE_READ if flags & CHANGE_ACCESS else 0
                pd = PD(self.server.ctx)
                self.rereg(new, flags, pd, access)
                if flags & CHANGE_PD:
                    self.check_refused(e.IBV_WR_RDMA_WRITE)
                    self.check_refused(e.IBV_WR_RDMA_READ)
                    self.rereg(new, CHANGE_PD)
                if flags & CHANGE_ACCESS:
                    self.check_refused(e.IBV_WR_RDMA_WRITE)
                    self.check_read()
                else:
                    self.check_refused(e.IBV_WR_RDMA_READ)
                    self.check_write()
                self.check_local()
                self.assertIs(self.region, new if flags & TRANS else old)
                self.server.mr.close()

    def test_rereg_flags_host(self):
        """
        Test rereg by file descriptor of an MR of the process's memory
        """
        self.change(HostRegion(), MemFdRegion(0, PAGE))

    def test_rereg_flags_dmabuf(self):
        """
        Test rereg by file descriptor of an MR of a dma-buf
        """
        self.change(DmaBufRegion(), DmaBufRegion(0, PAGE))

    def test_rereg_flags_dmabuf_mr(self):
        """
        Test rereg by file descriptor of an MR of ibv_reg_dmabuf_mr()
        """
        self.change(DmaBufMRRegion(), DmaBufRegion(0, PAGE))

    def test_rereg_flags_memfd(self):
        """
        Test rereg by file descriptor of an MR of a memfd
        """
        self.change(MemFdRegion(), DmaBufRegion(0, PAGE))

    def test_rereg_flags_dmabuf_to_host(self):
        """
        Test ibv_rereg_mr() of an MR of a dma-buf
        """
        self.change(DmaBufRegion(), HostRegion(0, PAGE))

    def test_rereg_flags_memfd_to_host(self):
        """
        Test ibv_rereg_mr() of an MR of a memfd
        """
        self.change(MemFdRegion(), HostRegion(0, PAGE))
