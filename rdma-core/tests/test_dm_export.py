# SPDX-License-Identifier: (GPL-2.0 OR Linux-OpenIB)
"""
Test module for device memory (DM) that is exported as a dma-buf.

The device under test registers the dma-buf with ibv_reg_mr_fd(). Traffic runs
with the memory of this device and of every other device whose memory it can
register. The last cases free the DM under its MR.
"""
import resource
import unittest
import errno
import fcntl
import os

from tests.base import PyverbsAPITestCase, RCResources, RDMATestCase
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.device import DM, AllocDmAttr
from pyverbs.wr import SGE, SendWR
from pyverbs.mr import MRFd
from pyverbs.qp import QPAttr
import pyverbs.device as d
from pyverbs.pd import PD
import pyverbs.libibverbs_enums as e
import tests.utils as u

PAGE = resource.getpagesize()
# Not a multiple of the page size, but of what the CPU of each device copies
DM_SIZE = 3 * PAGE + 4
GUARD = b'g'
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ


class DmMR(MRFd):
    """
    An MR of an exported DM. The DM reads and writes its memory.
    """
    def __init__(self, pd, length, access, dm, offset=0):
        fd = dm.export_dmabuf_fd()
        try:
            super().__init__(pd, length, access, fd, offset=offset)
        finally:
            os.close(fd)
        self.dm = dm

    def write(self, data, length, offset=0):
        data = data.encode() if isinstance(data, str) else data
        self.dm.copy_to_dm(self.offset + offset, data, length)

    def read(self, length, offset):
        return self.dm.copy_from_dm(self.offset + offset, length)


def check_export(exporter, importer):
    """
    Find out if a device registers the memory of another one.
    :param exporter: Name of the device whose memory it is
    :param importer: Name of the device that registers it
    :return: None if it does, otherwise the reason why not
    """
    with d.Context(name=exporter) as ctx:
        if ctx.query_device_ex().max_dm_size == 0:
            return 'Device memory is not supported'
        with DM(ctx, AllocDmAttr(length=PAGE)) as dm:
            try:
                os.close(dm.export_dmabuf_fd())
            except PyverbsRDMAError as ex:
                if ex.error_code in [errno.EOPNOTSUPP, errno.EPROTONOSUPPORT]:
                    return 'Export of device memory is not supported'
                raise ex
            try:
                with d.Context(name=importer) as other_ctx, PD(other_ctx) as pd, \
                        DmMR(pd, PAGE, e.IBV_ACCESS_LOCAL_WRITE, dm):
                    return None
            except PyverbsRDMAError as ex:
                if ex.error_code == errno.EOPNOTSUPP:
                    return f'{importer} cannot register the memory of {exporter}'
                raise ex


class DmExportAPITest(PyverbsAPITestCase):
    """
    Test ibv_dm_export_dmabuf_fd() and registration of what it exports.
    """
    def setUp(self):
        super().setUp()
        reason = check_export(self.dev_name, self.dev_name)
        if reason:
            raise unittest.SkipTest(reason)
        self.pd = PD(self.ctx)
        self.dm = DM(self.ctx, AllocDmAttr(length=DM_SIZE))
        self.fd = self.dm.export_dmabuf_fd()
        self.size = os.lseek(self.fd, 0, os.SEEK_END)

    def tearDown(self):
        os.close(self.fd)
        super().tearDown()

    def reg(self, length=PAGE, access=e.IBV_ACCESS_LOCAL_WRITE, fd=None, **kwargs):
        return MRFd(self.pd, length, access, self.fd if fd is None else fd, **kwargs)

    def reg_fails(self, err, **kwargs):
        """
        Verify that a registration fails with the given errno.
        """
        with self.assertRaises(PyverbsRDMAError) as ex:
            self.reg(**kwargs)
        self.assertEqual(errno.errorcode[ex.exception.error_code], errno.errorcode[err])

    def test_dm_export_size(self):
        """
        Test that the dma-buf has the length of the DM, rounded up to a page
        """
        self.assertEqual(self.size, 4 * PAGE)

    def test_dm_export_flags(self):
        """
        Test that the file descriptor is for reading and writing and is closed on exec
        """
        self.assertEqual(fcntl.fcntl(self.fd, fcntl.F_GETFL) & os.O_ACCMODE, os.O_RDWR)
        self.assertTrue(fcntl.fcntl(self.fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC)

    def test_dm_export_no_fd_left(self):
        """
        Verify EMFILE if the process may open no more files, and nothing else breaks
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(self.fd)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            with self.assertRaises(PyverbsRDMAError) as ex:
                self.dm.export_dmabuf_fd()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self.assertEqual(errno.errorcode[ex.exception.error_code], 'EMFILE')
        os.close(self.dm.export_dmabuf_fd())

    def test_dm_export_reg(self):
        """
        Test registration with each legal combination of access flags
        """
        for access in [0] + u.get_dmabuf_access_flags(self.ctx):
            with self.subTest(access=access), self.reg(access=access):
                pass

    def test_dm_export_reg_whole(self):
        """
        Test registration of the whole dma-buf, and ERANGE for one byte more
        """
        self.reg(length=self.size).close()
        self.reg_fails(errno.ERANGE, length=self.size + 1)

    def test_dm_export_reg_odd_offset(self):
        """
        Test registration of a region that starts and ends inside of pages
        """
        self.reg(offset=PAGE - 1, length=PAGE + 2).close()

    def test_dm_export_twice(self):
        """
        Test two dma-bufs of one DM, of which one is closed before the DM is freed
        """
        second = self.dm.export_dmabuf_fd()
        self.assertNotEqual(self.fd, second)
        with self.reg(), self.reg(fd=second):
            pass
        os.close(second)
        self.reg().close()
        self.dm.close()

    def test_dm_export_free(self):
        """
        Test that the DM is freed under a dma-buf and an MR, which end after it
        """
        mr = self.reg()
        self.dm.close()
        mr.close()

    def test_dm_export_freed(self):
        """
        Verify ENODEV for a registration after the DM was freed
        """
        second = self.dm.export_dmabuf_fd()
        self.dm.close()
        self.reg_fails(errno.ENODEV)
        self.reg_fails(errno.ENODEV, fd=second)
        os.close(second)

    def test_dm_export_context_closed(self):
        """
        Test that the dma-buf is revoked if the context of its DM is closed
        """
        with d.Context(name=self.dev_name) as ctx:
            dm = DM(ctx, AllocDmAttr(length=DM_SIZE))
            fd = dm.export_dmabuf_fd()
            mr = self.reg(fd=fd)
        self.reg_fails(errno.ENODEV, fd=fd)
        mr.close()
        os.close(fd)

    def test_dm_export_memory_returns(self):
        """
        Test that dma-bufs and MRs that are left over do not keep freed memory
        """
        self.dm.close()
        dm_size = self.attr_ex.max_dm_size // 2
        mrs = []
        for _ in range(4):
            with DM(self.ctx, AllocDmAttr(length=dm_size)) as dm:
                mrs.append(DmMR(self.pd, PAGE, e.IBV_ACCESS_LOCAL_WRITE, dm))
        for mr in mrs:
            mr.close()


class DmExportRC(RCResources):
    def __init__(self, dev_name, ib_port, gid_index, exporter, atomic=False, **kwargs):
        """
        Initialize RC resources over an MR of exported device memory.
        :param dev_name: Name of the device that registers the memory
        :param ib_port: IB port of the device to use
        :param gid_index: Which GID index to use
        :param exporter: Name of the device whose memory it is
        :param atomic: Allow remote atomic access
        """
        self.exporter = exporter
        self.access = ACCESS | (e.IBV_ACCESS_REMOTE_ATOMIC if atomic else 0)
        super().__init__(dev_name=dev_name, ib_port=ib_port, gid_index=gid_index, **kwargs)

    def create_mr(self):
        self.dm_ctx = d.Context(name=self.exporter)
        self.dm = self.alloc_dm()
        self.mr = DmMR(self.pd, self.msg_size, self.access, self.dm, offset=PAGE)

    def create_qp_attr(self):
        qp_attr = QPAttr(port_num=self.ib_port)
        qp_attr.qp_access_flags = self.access
        return qp_attr

    def alloc_dm(self):
        dm = DM(self.dm_ctx, AllocDmAttr(length=DM_SIZE))
        dm.copy_to_dm(0, GUARD * DM_SIZE, DM_SIZE)
        return dm

    def check_guard(self):
        """
        Verify that nothing was written outside of the region.
        """
        data = self.dm.copy_from_dm(0, DM_SIZE)
        around = data[:PAGE] + data[PAGE + self.msg_size:]
        assert around == GUARD * len(around), 'Bytes outside of the MR were changed'

    def close(self):
        self.ctx.close()
        self.dm_ctx.close()


class DmExportTrafficTest(RDMATestCase):
    """
    Test that each operation of an RC QP works on exported device memory, and is
    refused once the memory is freed.
    """
    def setUp(self):
        super().setUp()
        reasons = {dev.name.decode(): check_export(dev.name.decode(), self.dev_name)
                   for dev in d.get_device_list()}
        self.exporters = [name for name in reasons if not reasons[name]]
        if not self.exporters:
            raise unittest.SkipTest(reasons[self.dev_name])
        # The completion of mlx5 would bring small messages, not their memory
        self.set_env_variable('MLX5_SCATTER_TO_CQE', '0')

    def for_each_exporter(self, run, **kwargs):
        """
        Create players with the memory of each device in turn, and run with them.
        """
        for exporter in self.exporters:
            with self.subTest(exporter=exporter):
                self.create_players(DmExportRC, exporter=exporter, **kwargs)
                run()
                self.client.close()
                self.server.close()

    def traffic(self, traffic, send_op, **kwargs):
        def run():
            traffic(**self.traffic_args, send_op=send_op)
            self.client.check_guard()
            self.server.check_guard()

        self.for_each_exporter(run, **kwargs)

    def has_atomics(self):
        with d.Context(name=self.dev_name) as ctx:
            return ctx.query_device().atomic_caps != e.IBV_ATOMIC_NONE

    def atomic(self, send_op):
        if not self.has_atomics():
            raise unittest.SkipTest('Atomic operations are not supported')
        self.traffic(u.atomic_traffic, send_op, atomic=True, msg_size=8)

    def test_dm_export_send_recv(self):
        """
        Test send/recv
        """
        self.traffic(u.traffic, e.IBV_WR_SEND)

    def test_dm_export_write(self):
        """
        Test RDMA write
        """
        self.traffic(u.rdma_traffic, e.IBV_WR_RDMA_WRITE)

    def test_dm_export_write_pages(self):
        """
        Test RDMA write of messages that cross pages, up to the end of the DM
        """
        self.traffic(u.rdma_traffic, e.IBV_WR_RDMA_WRITE, msg_size=DM_SIZE - PAGE)

    def test_dm_export_write_with_imm(self):
        """
        Test RDMA write with immediate
        """
        self.traffic(u.traffic, e.IBV_WR_RDMA_WRITE_WITH_IMM)

    def test_dm_export_read(self):
        """
        Test RDMA read
        """
        self.traffic(u.rdma_traffic, e.IBV_WR_RDMA_READ)

    def test_dm_export_fetch_and_add(self):
        """
        Test atomic fetch and add
        """
        self.atomic(e.IBV_WR_ATOMIC_FETCH_AND_ADD)

    def test_dm_export_cmp_and_swap(self):
        """
        Test atomic compare and swap
        """
        self.atomic(e.IBV_WR_ATOMIC_CMP_AND_SWP)

    def client_op(self, send_op):
        """
        The client accesses the memory of the server.
        """
        mr = self.client.mr
        wr = SendWR(opcode=send_op, num_sge=1, sg=[SGE(mr.buf, 8, mr.lkey)])
        if send_op == e.IBV_WR_ATOMIC_FETCH_AND_ADD:
            wr.set_wr_atomic(self.server.mr.rkey, self.server.mr.buf, 1, 0)
        else:
            wr.set_wr_rdma(self.server.mr.rkey, self.server.mr.buf)
        u.post_send(self.client, wr)
        u.poll_cq(self.client.cq)

    def freed_remote(self, send_op):
        self.client_op(send_op)
        self.client.mr.write('c' * 8, 8)
        self.server.dm.close()
        self.server.dm = self.server.alloc_dm()
        with self.assertRaisesRegex(PyverbsRDMAError, 'Remote access error'):
            self.client_op(send_op)
        self.assertEqual(self.client.mr.read(8, 0), b'c' * 8)
        self.assertEqual(self.server.dm.copy_from_dm(0, DM_SIZE), GUARD * DM_SIZE)

    def test_dm_export_freed_write(self):
        """
        Verify that a write to memory that the remote side has freed is refused, and
        that the next owner of the memory does not see it
        """
        self.for_each_exporter(lambda: self.freed_remote(e.IBV_WR_RDMA_WRITE))

    def test_dm_export_freed_read(self):
        """
        Verify that a read of memory that the remote side has freed is refused
        """
        self.for_each_exporter(lambda: self.freed_remote(e.IBV_WR_RDMA_READ))

    def test_dm_export_freed_atomic(self):
        """
        Verify that an atomic on memory that the remote side has freed is refused
        """
        if not self.has_atomics():
            raise unittest.SkipTest('Atomic operations are not supported')
        self.for_each_exporter(lambda: self.freed_remote(e.IBV_WR_ATOMIC_FETCH_AND_ADD),
                               atomic=True)

    def freed_local(self):
        self.client_op(e.IBV_WR_RDMA_WRITE)
        self.client.dm.close()
        with self.assertRaisesRegex(PyverbsRDMAError, 'Local protection error'):
            self.client_op(e.IBV_WR_RDMA_WRITE)
        self.server.check_guard()

    def test_dm_export_freed_local(self):
        """
        Verify that memory that the local side has freed is not sent
        """
        self.for_each_exporter(self.freed_local)
