# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick; devices: rxe
# runs: full; devices: connectx
"""The examples of device memory (demo/dm) compile, and do what they are for, with several
peers at once: a lock excludes, a counter counts each addition once, and what is sent from
device memory arrives."""

import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
from lib import device  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
ADDRESS = os.environ["MRFD_ADDRESS"]
LIMIT = device.patience(40)  # seconds, for processes that wait for each other


def setUpModule():
    """Build the examples, as their users do; the paths are those of kit/mrfd/environment.py."""
    global OUT
    device.need("dm", "rdma-cm", "atomics")
    work = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(work.cleanup)
    OUT = work.name
    subprocess.run(["make", "-s", "-j2", "-C", f"{TOP}/demo/dm", f"OUT={OUT}",
                    "CFLAGS=-Wall -Wextra -Werror"], check=True)


def value(said, key):
    """What a program has printed of a key."""
    return re.search(rf"^{key}=(.*)$", said, re.M)[1]


class Examples(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = work.name
        self.running = []
        self.addCleanup(self.stop)

    def stop(self):
        for process in self.running:
            process.kill()
            process.communicate()

    def start(self, program, *words):
        """Start an example; its messages go where unittest's do."""
        process = subprocess.Popen([f"{OUT}/{program}", *words], stdout=subprocess.PIPE,
                                   text=True)
        self.running.append(process)
        return process

    def run_all(self, program, serve, peers):
        """Run a server and its peers, each with these words: what it and they have printed."""
        server = self.start(program, "serve", str(len(peers)), *serve)
        processes = [self.start(program, ADDRESS, *words) for words in peers]
        said = [process.communicate(timeout=LIMIT)[0] for process in processes]
        served = server.communicate(timeout=LIMIT)[0]
        for process in [server, *processes]:
            self.assertEqual(process.returncode, 0, (process.args, served, said))
        return served, said

    def make(self, name, size):
        """A file of random bytes, the same in each run."""
        with open(f"{self.work}/{name}", "wb") as file:
            file.write(random.Random(size).randbytes(size))
        return file.name

    def contents(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_lock_excludes_other_peers(self):
        rounds, waits = 50, 0
        # Peers that come one after another exclude nobody.
        while not waits:
            rounds *= 2
            served, said = self.run_all("lock", [], [[str(rounds)]] * 4)
            self.assertEqual(value(served, "counter"), str(4 * rounds))
            self.assertEqual(value(served, "lock"), "0")
            self.assertEqual(sorted(value(text, "number") for text in said), list("1234"))
            waits = sum(int(value(text, "waits")) for text in said)

    def test_counter_counts_each_addition_once(self):
        served, said = self.run_all("counter", [], [["150"]] * 4)
        self.assertEqual(value(served, "counter"), "600")
        tickets = [[int(n) for n in re.findall(r"^ticket=(\d+)$", text, re.M)] for text in said]
        self.assertEqual(sorted(sum(tickets, [])), list(range(600)))
        for own in tickets:
            self.assertEqual(own, sorted(own))
            self.assertEqual(len(own), 150)

    def test_staged_files_arrive_unchanged(self):
        files = [self.make(str(size), size) for size in (1, 4096, 5 * 4096, 100003)]
        served, said = self.run_all("staging", [f"{self.work}/got"], [[path] for path in files])
        self.assertEqual(value(served, "files"), "4")
        for path, text in zip(files, said):
            self.assertEqual(self.contents(f"{self.work}/got.{value(text, 'number')}"),
                             self.contents(path), path)
            size = os.path.getsize(path)
            self.assertEqual(int(value(text, "messages")), (size + 4095) // 4096 + 1)

    def test_one_write_is_sent_to_four_peers(self):
        for size in 16384, 100003:
            with self.subTest(size=size):
                path, got = self.make(str(size), size), [f"{self.work}/{i}" for i in range(4)]
                served, _ = self.run_all("many", [path], [[to] for to in got])
                writes = (size + 16383) // 16384 + 1
                self.assertEqual(value(served, "writes"), str(writes))
                self.assertEqual(value(served, "sends"), str(4 * writes))
                for to in got:
                    self.assertEqual(self.contents(to), self.contents(path))
                    os.remove(to)

    def test_wrong_arguments_exit_with_2(self):
        for words in ([], ["serve"], ["serve", "0"], ["serve", "65"], ["serve", "x"],
                      [ADDRESS, "0"]):
            for program in "lock", "counter":
                done = subprocess.run([f"{OUT}/{program}", *words], stderr=subprocess.PIPE,
                                      text=True, check=False)
                self.assertEqual(done.returncode, 2, (program, words))
                self.assertTrue(done.stderr.startswith(f"{program}: "), done.stderr)


if __name__ == "__main__":
    unittest.main()
