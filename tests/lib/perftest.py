# SPDX-License-Identifier: GPL-2.0-or-later
"""Pairs of perftest processes with their buffers on DRM devices."""

import glob
import os
import random
import subprocess
import time
import unittest

from lib import device

ADDRESS = "10.0.0.1"
COUNT = 100
REGISTERED = {"fd": "Calling ibv_reg_mr_fd_iova(", "dmabuf": "Calling ibv_reg_dmabuf_mr("}
BY_DATA_DIRECT = {"direct fd": "Calling mlx5dv_reg_mr_fd(",
                  "direct dmabuf": "Calling mlx5dv_reg_dmabuf_mr("}


def node(driver):
    """The DRM node of a driver."""
    for card in sorted(glob.glob("/sys/class/drm/card?")):
        if driver in os.path.realpath(f"{card}/device/driver") + os.path.realpath(card):
            return f"/dev/dri/{os.path.basename(card)}"
    raise AssertionError(f"the guest has no {driver}")


def drm(driver, way="fd"):
    """perftest's options for a buffer of this driver."""
    return [f"--use_drm={node(driver)}", *["--use_drm_dmabuf"] * ("dmabuf" in way),
            *["--use_data_direct"] * ("direct" in way)]


class PerftestCase(unittest.TestCase):
    port = 18515

    def setUp(self):
        device.need("reg_mr_fd")
        self.running = []
        self.addCleanup(self.stop)

    def stop(self):
        for process in self.running:
            process.kill()
            process.wait()
            process.stdout.close()
        self.running.clear()

    def start(self, tool, *words):
        """Start a process of perftest, with a pipe for its output."""
        process = subprocess.Popen(["stdbuf", "-oL", tool, "-d", device.NAME, "-F",
                                    "-p", str(self.port), *words],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.running.append(process)
        return process

    def serve(self, *words):
        """Start a server, and wait until it listens."""
        PerftestCase.port += 1
        server = self.start(*words)
        end = time.monotonic() + device.patience(20)
        listening = f":{self.port:04X} 00000000:0000 0A"
        while True:
            with open("/proc/net/tcp", encoding="ascii") as tcp:
                if listening in tcp.read():
                    return server
            if server.poll() is not None or time.monotonic() > end:
                server.kill()
                self.fail(f"the server does not listen:\n{server.communicate()[0]}")
            time.sleep(0.02)

    def run_pair(self, tool, server, client, *words):
        """Run a server and a client, which must both succeed; return what they printed."""
        one = self.serve(tool, *words, *server)
        two = self.start(tool, *words, *client, ADDRESS)
        said = [process.communicate(timeout=device.patience(20))[0] for process in (two, one)]
        for process, text in zip((two, one), said):
            self.assertEqual(process.returncode, 0, text)
        return said

    def check(self, tool, driver, way, *words, size=8, queue_pairs=1):
        """Both ends have their buffer on a DRM device, and all is sent."""
        with self.subTest(tool=tool, driver=driver, way=way):
            options = [*drm(driver, way), "-n", str(COUNT)]
            pair = self.run_pair(tool, options, options, *words)
            for said in pair:
                self.assertIn(f"on {node(driver)} at", said)
                self.assertIn({**REGISTERED, **BY_DATA_DIRECT}[way], said)
            # The client's table: bytes, how many times, and figures.
            self.assertRegex(pair[0], rf"(?m)^ *{size} +{queue_pairs * COUNT} ")

    def payload(self):
        """Bytes of a pattern, and the options that fill perftest's buffer with it."""
        words = [random.getrandbits(32) for _ in range(64)]
        path = f"/tmp/payload-{self.port}"
        with open(path, "w", encoding="ascii") as file:
            file.write(",".join(f"0x{word:08x}" for word in words))
        return (b"".join(word.to_bytes(4, "little") for word in words),
                [f"--payload_file_path={path}"])
