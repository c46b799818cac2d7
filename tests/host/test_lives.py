# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""What has MRs goes away while another guest reaches them by RDMA: the process, its device,
the card, and the model itself.  The other guest gets errors, all data that arrived is
right, and nothing is left.

The program of the guests is tests/guests/lives.c."""

import os
import re
import signal
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import machine  # noqa: E402
from mrfd import products  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import CONNECTX  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from mrfd.processes import below  # noqa: E402
from tests.host.model import GuestsWithModel  # noqa: E402


def guid(pid):
    """The GUID of a model."""
    with open(f"/proc/{pid}/cmdline", "rb") as words:
        return int(re.search(rb"--guid\0(\w+)", words.read())[1], 16)


class Lives(GuestsWithModel):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        products.gpu_module()
        program = f"{programs.build_tests(['guests/lives'])}/guests/lives"
        settings = [word for item in CONNECTX.settings for word in ("-e", "=".join(item))]
        cls.guests = lambda self, *ways: (*settings, "-d", "gpu", program, *ways, ":::",
                                          program, *ways)

    def ended(self, guest, out):
        """The ways whose case a guest has ended well."""
        return re.findall(rf"^guest{guest}: case (\S+): ok$", out, re.M)

    def at_traffic(self, number):
        """Two guests in the middle of traffic, after a signal to the model of the first one."""
        process = self.start(*self.guests("pulled"))
        said = ""
        for line in process.stdout:
            said += line
            if line == "guest0: traffic\n":
                break
        else:
            self.fail(said + process.stderr.read())
        models = [pid for pid, name in below(process.pid).items() if name == "connectx"]
        self.assertEqual(len(models), 2)
        os.kill(min(models, key=guid), number)
        out, err = process.communicate(timeout=patience(300))
        return process.returncode, said + out, err

    def test_process_or_device_may_vanish_under_traffic(self):
        ways = ["killed", "removed"]
        if os.environ.get("MRFD_DEPTH") != "quick":
            ways += ["exits", "killed"]
        done = self.boot(*self.guests(*ways), timeout=600)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        for guest in 0, 1:
            self.assertEqual(self.ended(guest, done.stdout), ways, said)

    # runs: full
    def test_card_may_be_pulled_out_under_traffic(self):
        status, out, err = self.at_traffic(signal.SIGUSR1)
        self.assertEqual(status, 0, out + err)
        for guest in 0, 1:
            self.assertEqual(self.ended(guest, out), ["pulled"], out + err)

    # runs: full
    def test_peer_of_killed_model_ends_well(self):
        """Its guest dies with it, so the other guest tells."""
        status, out, err = self.at_traffic(signal.SIGKILL)
        self.assertEqual(status, machine.BROKEN, out + err)
        self.assertIn("it died of SIGKILL while the guest ran", err)
        self.assertEqual(self.ended(1, out), ["pulled"], out + err)


if __name__ == "__main__":
    unittest.main()
