# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests with the ConnectX model, for tests."""

import json
import os
import subprocess
import tempfile
import time
import unittest

from mrfd import environment
from mrfd import machine
from mrfd.devices import CONNECTX
from mrfd.paths import BUILD, SCRIPTS, TOP, inside

BOOT, ENTER = (os.path.join(SCRIPTS, name) for name in ("boot", "enter"))


class GuestsWithModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Do what takes long the first time before any test measures a time."""
        machine.kernel_image()
        machine.accelerator()
        machine.model_directory()
        ours = environment.of_our_libraries(*(inside(machine.tool(product)) for product in
                                              ("rdma-core", "perftest")))
        cls.env = [word for item in ours.items() for word in ("-e", "=".join(item))]

    def words(self, *words):
        return [BOOT, "--connectx", *self.env, *words]

    def boot(self, *words, timeout=300):
        return subprocess.run(self.words(*words), cwd=TOP, capture_output=True, timeout=timeout,
                              text=True, check=False)

    def by_hand(self, *options):
        """(a model that outlives its guest, the words of a boot with its device)"""
        directory = tempfile.TemporaryDirectory(dir=BUILD)
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "socket")
        model = subprocess.Popen([ENTER, f"{machine.model_directory()}/connectx", "--socket",
                                  inside(path), *options],
                                 stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(model.wait)
        self.addCleanup(model.kill)
        end = time.monotonic() + 30
        while not os.path.exists(path):
            self.assertLess(time.monotonic(), end, "the model does not listen")
            time.sleep(0.05)
        device = {"driver": "vfio-user-pci", "bus": "port0",
                  "socket": {"type": "unix", "path": inside(path)}}
        described = (word for item in CONNECTX.env().items() for word in ("-e", "=".join(item)))
        return model, [BOOT, *self.env, *described, "--append", CONNECTX.append,
                       "-d", json.dumps(device)]
