# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick debug-full
"""The second function of a card, which Data Direct goes by, is unplugged or pulled out of its
slot while a process of the guest writes by it, and is plugged in again: remote access errors and
no byte from then on, the first function notices nothing, and what comes back works.

The program of the guest is tests/guests/leaves.c."""

import os
import signal
import sys
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))
sys.path.insert(0, TOP)

from mrfd import machine  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import CONNECTX_DIRECT  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from mrfd.processes import below  # noqa: E402
from mrfd.products import BootError  # noqa: E402

KERNEL = os.environ.get("MRFD_KERNEL", "base")
PROGRAM = "guests/leaves"
UNPLUGGED = "the function of Data Direct is unplugged"


def pull_out():
    """The function of Data Direct answers nothing any more; the card itself stays."""
    model, = (pid for pid, name in below(os.getpid()).items() if name == "connectx")
    os.kill(model, signal.SIGUSR2)


def said(guest):
    """What the model has said so far."""
    with open(os.path.join(guest.log_dir, "connectx.log"), encoding="utf-8") as log:
        return log.read()


def plug_in(guest):
    """QEMU forgets a device before it closes its connection, and the model has room for one."""
    end = time.monotonic() + patience(60)
    while UNPLUGGED not in said(guest) and time.monotonic() < end:
        time.sleep(0.05)
    guest.device_add("direct")


class DirectLeaves(unittest.TestCase):
    def leaves(self, case, leave, return_):
        """Run the case; call these when it says that it is time. What the model said."""
        out = programs.build_tests([PROGRAM])
        options = programs.test_guest(KERNEL, CONNECTX_DIRECT)
        options["env"]["MRFD_PATIENCE"] = f"{patience(3):.1f}"
        with machine.Guest([f"{out}/{PROGRAM}", "-r", f"second.{case}"], timeout=patience(600),
                           **options) as guest:
            try:
                guest.wait_for(rb"^traffic$", 200)
                leave(guest)
                guest.wait_for(rb"^gone$", 200)
                return_(guest)
            except BootError as error:
                guest.stop()
                self.fail(f"{error}\n{guest.output.decode()}{guest.tail()}")
        output = guest.output.decode()
        self.assertEqual(guest.status, 0, output + guest.tail())
        self.assertIn("pass:1 ", output)
        self.assertEqual(said(guest).count(UNPLUGGED), 1)
        return said(guest)

    def test_function_may_be_unplugged_under_traffic(self):
        self.leaves("unplugged_function_ends_traffic_and_comes_back",
                    lambda guest: guest.device_del("direct"), plug_in)

    def test_function_may_be_pulled_out_under_traffic(self):
        def slot_is_used_again(guest):
            guest.device_del("direct")
            plug_in(guest)
        log = self.leaves("pulled_function_ends_traffic_and_comes_back",
                          lambda guest: pull_out(), slot_is_used_again)
        self.assertIn("SIGUSR2: the function of Data Direct leaves its slot", log)


if __name__ == "__main__":
    unittest.main()
