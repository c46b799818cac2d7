# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests with the ConnectX model, for tests."""

import os
import subprocess
import unittest

from mrfd import environment
from mrfd import machine
from mrfd import products
from mrfd.machine import patience  # noqa: E402
from mrfd.paths import SCRIPTS, TOP
from mrfd.processes import below

BOOT = os.path.join(SCRIPTS, "boot")


def confined(pid):
    """What confines a process: (mode of seccomp, no_new_privs, filters that were added here).
    bwrap sets the second, and the host's own container may have a filter, so the third
    tells whether the program itself has done anything."""
    def status(of):
        with open(f"/proc/{of}/status", encoding="utf-8") as lines:
            return dict(line.rstrip("\n").split(":\t", 1) for line in lines)
    it, this = status(pid), status("self")
    return (it["Seccomp"], it["NoNewPrivs"],
            int(it["Seccomp_filters"]) - int(this["Seccomp_filters"]))


class GuestsWithModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Do what takes long the first time before any test measures a time."""
        products.kernel_image()
        machine.accelerator()
        products.model_directory()
        cls.ours = environment.ours()

    def words(self, *words):
        return [BOOT, "--connectx", "-e", f"MRFD_PATIENCE={patience(3):.1f}", *words]

    def boot(self, *words, timeout=300):
        return subprocess.run(self.words(*words), cwd=TOP, capture_output=True,
                              timeout=patience(timeout),
                              text=True, check=False)

    def start(self, *words):
        """A boot, which ends with the case."""
        process = subprocess.Popen(self.words(*words), cwd=TOP, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        return process

    def running(self, *words):
        """A boot whose command has printed its first line, and the pid of its model."""
        process = self.start(*words)
        said = process.stdout.readline()
        self.assertTrue(said, process.poll())
        model, = (pid for pid, name in below(process.pid).items() if name == "connectx")
        return process, model
