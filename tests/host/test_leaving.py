# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""The ConnectX goes away while processes wait for its events: it is pulled out of its slot, or
its model is killed.  With thousands of mkeys in the driver's pool it goes and comes back
soon.

The commands are in tests/leaving/leaves-in-use.  The rest is in tests/leaving/driver.py."""

import os
import signal
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import beside  # noqa: E402
from mrfd import machine  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from tests.host.model import GuestsWithModel  # noqa: E402

LEAVES = "tests/leaving/leaves-in-use"


class Leaving(GuestsWithModel):
    def test_connectx_can_be_pulled_out_in_use(self):
        process, model = self.running(LEAVES, "pulled")
        os.kill(model, signal.SIGUSR1)
        said = process.communicate(timeout=patience(300))
        self.assertEqual(process.returncode, 0, said)

    # runs: full
    def test_model_killed_in_use_is_a_failure(self):
        """QEMU's client ends QEMU (10.1: by an assertion), so the guest cannot be looked at."""
        process, model = self.running(LEAVES, "pulled")
        os.kill(model, signal.SIGKILL)
        said = process.communicate(timeout=patience(60))[1]
        self.assertEqual(process.returncode, machine.BROKEN)
        self.assertIn("the ConnectX model failed: it died of SIGKILL while the guest ran", said)

    # runs: full
    def test_model_destroys_mkeys_of_unbind_quickly(self):
        """The driver destroys thousands of mkeys; the model's part of that is short."""
        with tempfile.TemporaryDirectory() as logs:
            done = self.boot("--log-dir", logs, "--timeout",
                             str(int(patience(900))), LEAVES, "full", timeout=1000)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(os.path.join(logs, "connectx.log"), encoding="utf-8") as log:
                own = beside.own_time(log.read())
        count, mean, _ = own["DESTROY_MKEY 202"]
        print(f"{done.stdout}the model took {mean} us for each of {count} mkeys", flush=True)
        self.assertGreater(count, 6000)
        self.assertLess(mean, patience(100), "microseconds of the model for each mkey; the aim is 20")


if __name__ == "__main__":
    unittest.main()
