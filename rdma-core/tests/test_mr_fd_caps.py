# SPDX-License-Identifier: (GPL-2.0 OR Linux-OpenIB)
"""
Test module for the query of what a device can do with the memory of a file
descriptor.

What the query promises is compared with what a registration and a
re-registration do. These get a file descriptor that is not open, so EBADF means
that the device would have registered the memory.
"""
import resource
import errno

from tests.base import PyverbsAPITestCase
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.mr import MR, MRFd
from pyverbs.pd import PD
import pyverbs.libibverbs_enums as e

PAGE = resource.getpagesize()
TYPES = [int(e.IBV_MR_FD_TYPE_DMABUF), int(e.IBV_MR_FD_TYPE_MEMFD)]


class MRFdCapsTest(PyverbsAPITestCase):
    """
    Test ibv_query_mr_fd_caps().
    """
    def check_cap(self, cap, call, *args, **kwargs):
        """
        Verify that each type of memory has the capability if and only if the
        call looks at the file descriptor.
        """
        for fd_type in TYPES:
            with self.subTest(fd_type=fd_type):
                caps = self.ctx.query_mr_fd_caps(fd_type)
                expected = errno.EBADF if caps & cap else errno.EOPNOTSUPP
                with self.assertRaises(PyverbsRDMAError) as ex:
                    call(*args, fd=-1, fd_type=fd_type, **kwargs)
                self.assertEqual(errno.errorcode[ex.exception.error_code],
                                 errno.errorcode[expected])

    def test_mr_fd_caps_reg(self):
        """
        Test that the query tells whether memory can be registered
        """
        with PD(self.ctx) as pd:
            self.check_cap(e.IBV_MR_FD_CAP_REG, MRFd, pd, PAGE, 0)

    def test_mr_fd_caps_rereg(self):
        """
        Test that the query tells whether an MR can be moved to the memory
        """
        with PD(self.ctx) as pd, MR(pd, PAGE, e.IBV_ACCESS_LOCAL_WRITE) as mr:
            self.check_cap(e.IBV_MR_FD_CAP_REREG, mr.rereg_fd,
                           e.IBV_REREG_MR_CHANGE_TRANSLATION, length=PAGE)

    def test_mr_fd_caps_place(self):
        """
        Verify that no memory is said to stay in its place and to move
        """
        both = e.IBV_MR_FD_CAP_PINNED | e.IBV_MR_FD_CAP_DYNAMIC
        for fd_type in TYPES:
            with self.subTest(fd_type=fd_type):
                self.assertNotEqual(self.ctx.query_mr_fd_caps(fd_type) & both, both)

    def test_mr_fd_caps_bad_type(self):
        """
        Verify EINVAL for types of file descriptors that do not exist
        """
        for fd_type in [0, 3, 0x7fffffff]:
            with self.subTest(fd_type=fd_type):
                with self.assertRaises(PyverbsRDMAError) as ex:
                    self.ctx.query_mr_fd_caps(fd_type)
                self.assertEqual(ex.exception.error_code, errno.EINVAL)
