# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick; guest: perftest; devices: direct
"""perftest --use_data_direct over buffers of vgem, registered by mlx5dv_reg_mr_fd() and by
mlx5dv_reg_dmabuf_mr(): they are reached by the second function of the card, because without
its bus nothing arrives and what goes by the first one goes on.  host/direct counts the bytes."""

import contextlib
import glob
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
from lib import device  # noqa: E402
from lib.perftest import ADDRESS, BY_DATA_DIRECT, COUNT, PerftestCase, drm  # noqa: E402

COMMAND, BUS_MASTER = 4, 4  # of the configuration space: a register, and its bit


def second_function():
    """The directory in sysfs of the function for Data Direct."""
    for path in glob.glob("/sys/bus/pci/devices/*"):
        with open(f"{path}/vendor", encoding="ascii") as vendor, \
                open(f"{path}/device", encoding="ascii") as number:
            if (vendor.read(), number.read()) == ("0x15b3\n", "0x2100\n"):
                return path
    raise AssertionError("the guest has no second function")


def set_bus_master(path, on):
    with open(f"{path}/config", "r+b", buffering=0) as config:
        (command,) = os.pread(config.fileno(), 1, COMMAND)
        command = command | BUS_MASTER if on else command & ~BUS_MASTER
        os.pwrite(config.fileno(), bytes([command]), COMMAND)


@contextlib.contextmanager
def no_bus(path):
    """The function reaches no memory, and its driver does not know."""
    set_bus_master(path, False)
    try:
        yield
    finally:
        set_bus_master(path, True)


class PerftestDirect(PerftestCase):
    def test_bandwidth_tests_go_by_data_direct(self):
        for tool in "ib_write_bw", "ib_read_bw", "ib_send_bw":
            for way in BY_DATA_DIRECT:
                self.check(tool, "vgem", way, "-s", "65536", size=65536)

    def test_latency_tests_go_by_data_direct(self):
        for tool in "ib_write_lat", "ib_read_lat", "ib_send_lat":
            for way in BY_DATA_DIRECT:
                self.check(tool, "vgem", way, "-s", "4096", size=4096)

    # host/direct runs this case alone, and counts its bytes.
    def test_writes_and_reads_go_by_data_direct(self):
        for way in BY_DATA_DIRECT:
            for tool in "ib_write_bw", "ib_read_bw":
                # What is sent again on a busy machine is read again: wait longer.
                self.run_pair(tool, drm("vgem", way), drm("vgem"), "-n", str(COUNT),
                              "-s", "65536", "-u", "20")

    def test_without_the_second_functions_bus_nothing_arrives(self):
        for way in BY_DATA_DIRECT:
            with self.subTest(way=way):
                with no_bus(second_function()):
                    self.serve("ib_write_bw", *drm("vgem", way))
                    client = self.start("ib_write_bw", ADDRESS)
                    said = client.communicate(timeout=device.patience(20))[0]
                    self.assertNotEqual(client.returncode, 0, said)
                    self.assertIn("Failed status 10", said, "not a remote access error")
                    self.stop()
                    self.check("ib_write_bw", "vgem", "fd", size=65536)
                self.check("ib_write_bw", "vgem", way, size=65536)

    def test_data_direct_needs_a_dma_buf(self):
        process = self.start("ib_write_bw", "--use_data_direct")
        said = process.communicate(timeout=device.patience(10))[0]
        self.assertNotEqual(process.returncode, 0, said)
        self.assertIn("DMABUF must be enabled in order to use Data Direct", said)


if __name__ == "__main__":
    unittest.main()
