# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""QEMU and its ConnectX model start and end together, and a model that fails is not taken for
a success.  Two guests reach each other; a model that is started by hand captures and
traces; a model at rest is in its sandbox and takes almost no CPU.

This is tried with stubs for both, for which nothing is built, and in guests."""

import collections
import json
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

from mrfd import machine  # noqa: E402
from mrfd import products  # noqa: E402
from mrfd import topology  # noqa: E402
from mrfd.devices import CONNECTX  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from mrfd.paths import BUILD, SCRIPTS, inside  # noqa: E402
from tests.host.model import BOOT, GuestsWithModel, confined  # noqa: E402

ENTER = os.path.join(SCRIPTS, "enter")

# Arguments: what to do when QEMU has left or has sent something; the options.
MODEL = """
import os, signal, socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[sys.argv.index("--socket") + 1])
server.listen()
print(os.getpid(), len(os.listdir("/proc/self/fd")), flush=True)
client, _ = server.accept()
client.recv(1)
eval(sys.argv[1])
"""
# Arguments: the socket; what to do with it.
QEMU = """
import os, signal, socket, sys, time
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
eval(sys.argv[2])
"""

# A server and a client in one guest: SENDs of one packet, WRITEs and READs of several.
TALK = """
pair() {
	tries=0
	"$@" & until "$@" localhost; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || exit 1
		sleep 0.2
	done
	wait $! || exit 1
}
pair ibv_rc_pingpong -p 20001 -s 64 -n 10
pair ib_write_bw -p 20002 -F -s 10000 -n 5
pair ib_read_bw -p 20003 -F -s 10000 -n 5
"""
# What the trace has of it: a command, a work request, a packet.
TRACED = (r"cmd \d+ 0x200 CREATE_MKEY op_mod .* status 0 ",
          r"QP 0x[0-9a-f]+: WQE \d+ opcode 0x8, 10000 bytes, psn \d+$",
          r"out RC WRITE_FIRST \d+>\d+ qp 0x[0-9a-f]+ psn \d+ \d+ bytes va 0x[0-9a-f]+ rkey ")
# Opcodes of RC (IBA table 38), and how many packets of each there are at least in it.
SEND_FIRST, SEND_ONLY, READ_REQUEST, ACKNOWLEDGE = 0, 4, 12, 17
WRITES, RESPONSES = (6, 7, 8), (13, 14, 15)  # first, middle, last
SENT = {SEND_ONLY: 20, READ_REQUEST: 5, ACKNOWLEDGE: 1,
        **dict.fromkeys((*WRITES, *RESPONSES), 5)}
SA_SET, SA_ANSWER = 2, 0x81  # methods: to join a group, and that it is done
FIRST_LID = 2  # of a guest; 1 is the subnet administrator


def tshark(capture, *options):
    """The lines that it prints about a capture."""
    return subprocess.run([ENTER, "tshark", "-r", capture, *options], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True).stdout.splitlines()


def opcodes(capture):
    """How many packets of {(source LID, opcode): ...} there are."""
    lines = tshark(capture, "-T", "fields", "-e", "infiniband.lrh.slid", "-e",
                   "infiniband.bth.opcode")
    return collections.Counter(tuple(int(word, 0) for word in line.split()) for line in lines)


class WithConnectx(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.socket = os.path.join(directory.name, "socket")
        self.log = open(os.path.join(directory.name, "log"), "w+b")
        self.addCleanup(self.log.close)

    def run_both(self, model, qemu, code=MODEL):
        """(exit status, what is in the log)"""
        done = subprocess.run(
            [os.path.join(TOP, "kit/with-connectx"), str(self.log.fileno()), self.socket,
             sys.executable, "-c", code, model, "--",
             sys.executable, "-c", QEMU, self.socket, qemu],
            pass_fds=[self.log.fileno()], timeout=patience(60), check=False)
        self.log.seek(0)
        return done.returncode, self.log.read().decode()

    def test_exit_status_is_that_of_qemu(self):
        for model in "time.sleep(100)", "sys.exit(0)":
            for status in 0, 1, 7:
                with self.subTest(model=model, status=status):
                    got, log = self.run_both(model, f"sys.exit({status})")
                    self.assertEqual(got, status)
                    self.assertNotIn("with-connectx", log)
                    os.unlink(self.socket)
        self.assertEqual(self.run_both("0", "os.kill(os.getpid(), signal.SIGSEGV)")[0],
                         128 + signal.SIGSEGV)

    def test_model_inherits_nothing_and_ends_with_qemu(self):
        status, log = self.run_both("time.sleep(100)", "0")
        pid, descriptors = log.split("\n")[0].split()
        self.assertEqual(status, 0)
        self.assertEqual(descriptors, "5")  # 0, 1, 2, its socket, the directory that it lists
        self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def test_dying_model_ends_qemu(self):
        for end, said in (("os.abort()", "it died of SIGABRT while the guest ran"),
                          ("sys.exit(3)", "it ended with status 3 while the guest ran")):
            began = time.monotonic()
            status, log = self.run_both(end, "client.send(b'x'), time.sleep(100)")
            self.assertEqual((status, log.split("with-connectx: ")[1]),
                             (machine.MODEL_FAILED, said + "\n"))
            self.assertLess(time.monotonic() - began, patience(20))
            os.unlink(self.socket)
            self.log.seek(0)
            self.log.truncate()

    def test_bad_exit_of_model_is_a_failure(self):
        code = "signal.signal(signal.SIGTERM, lambda *_: os._exit(23)), time.sleep(100)"
        status, log = self.run_both(code, "time.sleep(1)", MODEL.replace("client.recv(1)", ""))
        self.assertEqual(status, machine.MODEL_FAILED)
        self.assertIn("it ended with status 23 when the guest had ended", log)

    def test_model_that_does_not_start_says_why(self):
        status, log = self.run_both("0", "0", "import sys; sys.exit('connectx: no such option')")
        self.assertEqual(status, machine.MODEL_FAILED)
        self.assertEqual(log, "connectx: no such option\n"
                              "with-connectx: it ended with status 1 before it listened\n")


class CommandLine(unittest.TestCase):
    """What a guest with the device is started with."""

    def test_model_and_qemu_share_a_socket(self):
        with tempfile.TemporaryDirectory() as directory, \
                mock.patch.object(products, "model_directory", lambda: "/mrfd/build/connectx"), \
                mock.patch.object(products, "tool", lambda *_: machine.TOP):
            guest = machine.Guest(["true"], devices=CONNECTX.qemu, log_dir=directory, accel="tcg",
                                  fabric="/mrfd/f", mac=2)
            guest._files = []
            model, qemu = guest._model_words(), guest._qemu_words(3, 4, {})
            self.addCleanup(os.close, guest._files[0])
            self.assertTrue(os.path.samestat(os.fstat(guest._files[0]),
                                             os.stat(f"{directory}/connectx.log")))
        self.assertEqual(model, ["/mrfd/kit/with-connectx", str(guest._files[0]),
                                 topology.MODEL_SOCKET, "/mrfd/build/connectx/connectx", "--fabric",
                                 "/mrfd/f", "--guid", "02c9030000000200", "--"])
        device = qemu.index('{"driver": "vfio-user-pci", "bus": "port99", "socket": '
                            f'{{"type": "unix", "path": "{topology.MODEL_SOCKET}"}}}}')
        self.assertLess(qemu.index("pcie-root-port,id=port99,chassis=1,slot=1"), device)


class InGuests(GuestsWithModel):
    def test_guest_has_the_connectx(self):
        device = f"/sys/class/infiniband/{CONNECTX.verbs}"
        with tempfile.TemporaryDirectory() as directory:
            logs = os.path.join(directory, "a-long-name-" * 15)
            done = self.boot("--log-dir", logs, "cat", f"{device}/ports/1/state",
                             f"{device}/ports/1/link_layer", f"{device}/device/current_link_speed")
            self.assertEqual((done.returncode, done.stdout),
                             (0, "4: ACTIVE\nInfiniBand\n8.0 GT/s PCIe\n"), done.stderr)
            self.assertTrue(os.path.exists(os.path.join(logs, "connectx.log")))

    def check_capture(self, capture):
        """Nothing is malformed, and the subnet administrator is asked and answers."""
        self.assertEqual(tshark(capture, "-Y", "_ws.malformed"), [])
        for method in SA_SET, SA_ANSWER:
            mads = tshark(capture, "-Y", "infiniband.bth.destqp == 1 and infiniband.mad.mgmtclass "
                          f"== 3 and infiniband.mad.method == {method}")
            self.assertNotEqual(mads, [], f"no MAD of method {method}")

    # runs: full
    def test_two_guests_reach_each_other(self):
        talk = ("if [ $MRFD_GUEST = 0 ]; then ibv_rc_pingpong -n 100; else "
                "until ibv_rc_pingpong -n 100 10.0.0.1; do sleep 0.2; done; fi")
        with tempfile.TemporaryDirectory(dir=BUILD) as directory:
            capture = inside(os.path.join(directory, "capture"))
            done = self.boot("--guests", "2", f"--fabric=--pcap {capture}", "sh", "-c", talk)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.check_capture(capture)
            found = opcodes(capture)
        for number in 0, 1:
            self.assertRegex(done.stdout, rf"guest{number}: 100 iters in")
            self.assertGreaterEqual(found[FIRST_LID + number, SEND_FIRST], 100, found)

    # runs: full
    def test_model_of_idle_guest_sleeps_in_sandbox(self):
        """The model sleeps if its guest does, in the sandbox that it has narrowed by then."""
        with tempfile.TemporaryDirectory() as logs:
            process, model = self.running("--log-dir", logs, "sh", "-c", "echo here; sleep 20")
            seccomp, no_new_privs, filters = confined(model)
            self.assertEqual((seccomp, no_new_privs), ("2", "1"))
            self.assertGreaterEqual(filters, 2)
            said = process.communicate(timeout=patience(300))
            self.assertEqual(process.returncode, 0, said)
            with open(os.path.join(logs, "connectx.log"), encoding="utf-8") as log:
                busy, = re.findall(r"^connectx: ([\d.]+) s of CPU time in ([\d.]+) s$", log.read(),
                                   re.MULTILINE)
        # What the boot took is in it.
        self.assertGreater(float(busy[1]), 20)
        self.assertLess(float(busy[0]) / float(busy[1]), 0.05, busy)

    def by_hand(self, *options):
        """(a model that outlives its guest, the words of a boot with its device)"""
        directory = tempfile.TemporaryDirectory(dir=BUILD)
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "socket")
        model = subprocess.Popen([ENTER, f"{products.model_directory()}/connectx", "--socket",
                                  inside(path), *options],
                                 stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(model.wait)
        self.addCleanup(model.kill)
        end = time.monotonic() + patience(30)
        while not os.path.exists(path):
            self.assertLess(time.monotonic(), end, "the model does not listen")
            time.sleep(0.05)
        device = {"driver": "vfio-user-pci", "bus": "port0",
                  "socket": {"type": "unix", "path": inside(path)}}
        described = (word for item in CONNECTX.env().items() for word in ("-e", "=".join(item)))
        return model, [BOOT, *described, "--append", CONNECTX.append,
                       "-d", json.dumps(device)]

    def test_model_started_by_hand_captures_and_traces(self):
        with tempfile.TemporaryDirectory(dir=BUILD) as directory:
            log = os.path.join(directory, "log")
            capture = inside(os.path.join(directory, "capture"))
            model, boot = self.by_hand("--pcap", capture, "--trace", "--log", inside(log))
            done = subprocess.run([*boot, *machine.network_setup(0, 1, CONNECTX), "sh", "-c", TALK],
                                  capture_output=True, timeout=patience(300), text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(model.wait(patience(60)), 0)
            self.check_capture(capture)
            found = opcodes(capture)
            with open(log, encoding="utf-8") as lines:
                trace = lines.read()
        for opcode, count in SENT.items():
            self.assertGreaterEqual(found[FIRST_LID, opcode], count, found)
        for line in TRACED:
            self.assertTrue(re.search(rf"^ *\d+\.\d{{6}} {line}", trace, re.MULTILINE), line)

    def test_dying_model_is_a_failure(self):
        process, model = self.running("sh", "-c", "echo here; sleep 1000")
        os.kill(model, signal.SIGKILL)
        said = process.communicate(timeout=patience(60))[1]
        self.assertEqual(process.returncode, machine.BROKEN)
        self.assertIn("the ConnectX model failed: it died of SIGKILL while the guest ran", said)

    # runs: full
    def test_model_ends_with_killed_boot(self):
        process, model = self.running("sh", "-c", "echo here; sleep 1000")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        end = time.monotonic() + patience(20)
        while os.path.exists(f"/proc/{model}"):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main()
