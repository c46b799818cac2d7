# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick; devices: rxe
# runs: full; devices: connectx
"""Sockets over RDMA (rsocket(7)), by the programs of librdmacm: streams and datagrams arrive,
by RDMA and not by UDP, and a copied file is the same."""

import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
from lib import device  # noqa: E402

ADDRESS = os.environ["MRFD_ADDRESS"]
LIMIT = device.patience(20)  # seconds, for a program that waits for its peer
COUNT = 50  # messages of a run
FILE = "/usr/share/common-licenses/GPL-2"
# rxe has this counter, of all packets.
PACKETS = f"/sys/class/infiniband/{device.NAME}/ports/1/hw_counters/sent_pkts"


def packets():
    """How many packets the device has sent, or None if it does not count them so."""
    if not os.path.exists(PACKETS):
        return None
    with open(PACKETS, encoding="utf-8") as file:
        return int(file.read())


def udp_ports():
    with open("/proc/net/udp", encoding="utf-8") as file:
        return {int(line.split()[1].rpartition(":")[2], 16) for line in list(file)[1:]}


class Rsockets(unittest.TestCase):
    def setUp(self):
        device.need("rdma-cm")

    def start(self, *words):
        """A server, which ends with the case at the latest."""
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        return server

    def client(self, *words):
        """Run a client; it is tried again while its server does not listen yet."""
        end = time.monotonic() + LIMIT
        while True:
            done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT,
                                  check=False)
            if "rconnect" not in done.stderr or time.monotonic() > end:
                return done
            time.sleep(0.1)

    def stream(self, program, *how):
        server = self.start(program, *how, "-S", "64", "-C", "10", "-I", "2")
        try:
            done = self.client(program, *how, "-s", ADDRESS, "-S", "64", "-C", "10", "-I", "2")
            try:
                ended = server.wait(LIMIT)
            except subprocess.TimeoutExpired:
                ended = "still running"
            self.assertEqual((done.returncode, done.stderr, ended), (0, "", 0),
                             f"client's status and errors, server's status: {done.stdout}")
        finally:
            server.kill()  # it has the port of the next one
            server.wait()

    def test_stream_that_polls_gets_the_last_message(self):
        for _ in range(10):  # who is faster, decides whether the peer has left
            self.stream("rstream", "-T", "a")

    def test_streams_arrive(self):
        for program in "rstream", "riostream":
            for how in (), ("-T", "b"), ("-T", "n"):
                with self.subTest(program=program, how=how):
                    self.stream(program, *how)

    def client_of_datagrams(self, *how):
        done = subprocess.run(["udpong", *how, "-s", ADDRESS, "-S", "64", "-C", str(COUNT)],
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertRegex(done.stdout, r"custom +64 +\d+ ")

    def datagrams(self, *how):
        server = self.start("udpong", *how)
        end = time.monotonic() + LIMIT
        while 7174 not in udp_ports():  # a first datagram that is lost is not sent again
            self.assertLess(time.monotonic(), end, "udpong does not listen")
            time.sleep(0.05)
        before = packets()
        self.client_of_datagrams(*how)
        # Those go by UDP that are sent before a thread of librdmacm has resolved the peer.
        while before is not None and packets() - before < COUNT:
            self.assertLess(time.monotonic(), end, "datagrams do not go by RDMA")
            self.client_of_datagrams(*how)
        server.kill()
        server.wait()

    def test_datagrams_arrive_by_rdma(self):
        for how in (), ("-T", "e"), ("-T", "a"), ("-T", "b"):
            with self.subTest(how=how):
                self.datagrams(*how)

    def test_copied_file_is_the_same(self):
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "copy")
            self.start("rcopy")  # which waits for the next one then
            done = self.client("rcopy", FILE, f"{ADDRESS}:{path}")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(FILE, "rb") as file, open(path, "rb") as copy:
                self.assertEqual(copy.read(), file.read())


if __name__ == "__main__":
    unittest.main()
