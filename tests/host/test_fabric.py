# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""Guests with a ConnectX model each, on one fabric: pingpongs, perftest, rdma_cm and libfabric
between two, also if packets are lost, come twice, late or in another order; three that all
talk to each other; two whose fabric dies under traffic.

The commands are in tests/host/two-guests, three-guests and fabric-dies.  A fabric that does
not end well is not taken for a success."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import fabric  # noqa: E402
from mrfd import machine  # noqa: E402
from mrfd import products  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import CONNECTX  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from mrfd.paths import BUILD, inside  # noqa: E402
from tests.host.model import GuestsWithModel  # noqa: E402

# A fabric that does {}, then listens.
STUB = """#!/bin/bash
exec -a connectx-fabric bash -c '{}; touch "$2"; while :; do sleep 0.1; done' bash "$@"
"""


class End(unittest.TestCase):
    """What becomes of connectx-fabric at the end, with stubs for it."""

    def fabric(self, does):
        """A Fabric whose program does this in bash before it listens."""
        os.makedirs(BUILD, exist_ok=True)
        directory = tempfile.TemporaryDirectory(dir=BUILD)
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "connectx-fabric")
        with open(path, "w", encoding="utf-8") as stub:
            stub.write(STUB.format(does))
        os.chmod(path, 0o755)
        where = mock.patch.object(products, "model_directory", lambda: inside(directory.name))
        where.start()
        self.addCleanup(where.stop)
        return fabric.Fabric(log_dir=directory.name)

    def test_ended_fabric_writes_its_report(self):
        with self.fabric('trap "echo the report; exit 0" TERM') as running:
            pid = running.pid()
        self.assertFalse(os.path.exists(f"/proc/{pid}"))
        with open(running.log, encoding="utf-8") as log:
            self.assertEqual(log.read(), "the report\n")

    def test_failed_fabric_raises_with_its_last_line(self):
        with self.assertRaisesRegex(products.BootError, r"(?s)status 3.*\ntwo leaks$"):
            with self.fabric('trap "echo two leaks; exit 3" TERM'):
                pass

    def test_fabric_killed_by_sigterm_raises(self):
        with self.assertRaisesRegex(products.BootError, "badly, status 143"):
            with self.fabric(":"):
                pass

    def test_hanging_fabric_raises_and_is_killed(self):
        with mock.patch.object(fabric, "END_LIMIT", 1):
            with self.assertRaisesRegex(products.BootError, "has not ended"):
                with self.fabric('trap "" TERM') as running:
                    pid = running.pid()
        end = time.monotonic() + patience(20)
        while os.path.exists(f"/proc/{pid}"):  # the kernel kills it, soon
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_failed_fabric_hides_no_error_of_guest(self):
        with self.assertRaises(ZeroDivisionError):
            with self.fabric('trap "exit 3" TERM'):
                print(1 / 0)


# The two ends of tests/host/pair.sh, here on one machine.  At the first program's server all has
# been compared, but it does not end, as over rxm now and then.  The second server is a file.
ENDS = """
sleep() { command sleep "${1/0.1/0.5}"; } # as on a busy host
. tests/host/pair.sh
[ "$MRFD_GUEST" = 1 ] || { result='^all$'; run first "" "" sh -c 'echo all; sleep 60' ofi_rxm; result=''; }
run second "touch $1" "test -e $1" env
exit $failed
"""


class Pair(unittest.TestCase):
    def test_client_outwaits_a_server_that_does_not_end(self):
        with tempfile.TemporaryDirectory() as directory:
            place = os.path.join(directory, "second")
            ends = [subprocess.Popen(["bash", "-uc", ENDS, "bash", place], cwd=TOP, text=True,
                                     env={**os.environ, "MRFD_GUEST": str(end), "MRFD_GUESTS": "2",
                                          "MRFD_PATIENCE": f"{patience(1):.1f}"},
                                     stdout=subprocess.PIPE)
                    for end in (0, 1)]
            said = [end.communicate()[0] for end in ends]
        self.assertEqual(said[1], "case second: ok\n")
        self.assertEqual(said[0], "case first: ok\ncase second: ok\n")


class Fabric(GuestsWithModel):
    def both(self, which, last, *options):
        """Run the programs, up to the one named last; each must succeed at both ends."""
        done = self.boot("--guests", "2", "--timeout", str(int(patience(600))), *options,
                         "tests/host/two-guests", which, timeout=900)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        ends = [re.findall(rf"^guest{end}: case (\S+): ok$", done.stdout, re.M) for end in (0, 1)]
        self.assertEqual(*ends, said)
        self.assertEqual(ends[0][-1:], [last], said)

    def test_programs_talk_between_two_guests(self):
        self.both("all", "ibv_xsrq_pingpong")

    # runs: full
    def test_programs_talk_over_lossy_reordering_fabric(self):
        with tempfile.TemporaryDirectory() as logs:
            self.both("reliable", "ucmatose", "--log-dir", logs,
                      "--fabric=--drop 1 --duplicate 1 --reorder 1 --delay 100 --seed 7")
            with open(os.path.join(logs, "fabric.log"), encoding="utf-8") as log:
                report = log.read()
        for what in "dropped", "duplicated", "reordered":
            self.assertRegex(report, rf"\b[1-9]\d* {what}\b")

    # runs: full
    def test_three_guests_talk(self):
        done = self.boot("--guests", "3", "--timeout", str(int(patience(600))), "-m", "512M",
                         "tests/host/three-guests", timeout=900)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        self.assertEqual(done.stdout.count("case rping: ok"), 3, said)

    # runs: full
    def test_dead_fabric_ends_traffic_with_an_error(self):
        """The ports go down, the error comes to whoever has sent something, nothing hangs."""
        with self.assertRaisesRegex(products.BootError, "has ended, status"):
            with fabric.Fabric() as running:
                env = {**self.ours, "MRFD_PATIENCE": f"{patience(3):.1f}"}
                guests = [machine.Guest(
                    ["tests/host/fabric-dies"], links=links, mac=number, fabric=running.socket,
                    **programs.guest_options("base", CONNECTX, timeout=patience(400), env=env,
                                             setup=machine.network_setup(number, 2, CONNECTX)))
                          for number, links in enumerate(machine.network(2))]
                for guest in guests:
                    self.addCleanup(guest.stop)
                    guest.start()
                for guest in guests:
                    guest.wait_for(rb"^traffic$", 300)
                os.kill(running.pid(), signal.SIGKILL)
                for guest in guests:
                    guest.wait()  # its own limit ends it
                    self.assertEqual(guest.status, 0, guest.output)
                    self.assertRegex(guest.output, rb"^traffic\n(error|waits)\n$")
                self.assertIn(b"error", b"".join(guest.output for guest in guests))


if __name__ == "__main__":
    unittest.main()
