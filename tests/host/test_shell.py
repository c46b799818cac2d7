# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""scripts/shell is a place to work in: it says what is there, programs compile and run, man
pages open, Debian's own programs use our library; also with a ConnectX."""

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import machine  # noqa: E402
from mrfd import products  # noqa: E402
from mrfd.machine import patience  # noqa: E402

SHELL = os.path.join(TOP, "scripts", "shell")
PROMPT = r"mrfd:[^ \r\n]*# $"
RDMA = "/mrfd/build/rdma-core-obj"


def setUpModule():
    """Do what takes long the first time before any test measures a time."""
    products.tool("rdma-core")
    products.tool("perftest")
    products.model_directory()
    products.kernel_image()
    machine.accelerator()


class Terminal:
    """scripts/shell, or what else begins it, on a terminal of its own; type() gives the
    answer to a line."""

    def __init__(self, *words):
        self.text = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            termios.tcsetwinsize(0, (40, 200))
            os.chdir(TOP)
            words = words or (SHELL,)
            os.execvpe(words[0], words, {**os.environ, "TERM": "dumb"})

    def read_until(self, pattern, limit=120):
        """Read until the pattern is in the text; return the text before it."""
        limit = patience(limit)
        deadline = time.monotonic() + limit
        while not (match := re.search(pattern, self.text)):
            left = max(0, deadline - time.monotonic())
            if not select.select([self.terminal], [], [], left)[0]:
                raise AssertionError(f"no {pattern!r} in {limit:.0f} s: {self.text}")
            try:
                data = os.read(self.terminal, 4096)
            except OSError:
                raise AssertionError(f"it ended without {pattern!r}: {self.text}") from None
            self.text += data.decode(errors="replace").replace("\r", "")
        self.text = self.text[match.end():]
        return match.string[:match.start()]

    def type(self, line):
        """Run one line; return its (exit status, output)."""
        os.write(self.terminal, line.encode() + b"; echo status=$?\n")
        self.read_until(r"status=\$\?\n")  # the echo of what was typed
        output = self.read_until(PROMPT)
        match = re.search(r"status=(\d+)\n", output)
        return int(match[1]), output[:match.start()]

    def end(self):
        """Leave with status 7; the exit status of what was begun."""
        os.write(self.terminal, b"exit 7\n")
        try:
            while os.read(self.terminal, 4096):
                pass
        except OSError:
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Shell(unittest.TestCase):
    """One shell, in which the tests follow one another by name."""

    @classmethod
    def setUpClass(cls):
        cls.shell = Terminal()
        cls.banner = cls.shell.read_until(PROMPT)

    @classmethod
    def tearDownClass(cls):
        status = cls.shell.end()
        if status != 7:
            raise AssertionError(f"the shell's exit status is 7, that of scripts/shell {status}")

    def check(self, line, wanted="^"):
        status, output = self.shell.type(line)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, wanted)

    def test_banner_names_devices_and_commands(self):
        for words in ("run with our libraries", "rxe0", r"card\d is vgem", r"card\d is qxl", r"card\d is virtio_gpu",
                      "gcc x.c -libverbs", "man ibv_reg_mr_fd", "/mrfd", r"exit, or Ctrl-\]"):
            self.assertRegex(self.banner, words)

    def run_example(self, how):
        self.check("cd /tmp && sed -n '/^```c/,/^```/p' /mrfd/README.md | sed '1d;$d' >x.c")
        self.check(f"gcc -Wall -Werror x.c -o x {how} && ./x && rm x",
                   r"peers write 3145728 bytes of GPU memory at 0 with rkey 0x[0-9a-f]+\n")

    def test_compiled_example_of_readme_runs(self):
        self.run_example("$(pkg-config --cflags --libs libibverbs libdrm)")

    # runs: full
    def test_example_compiled_without_pkg_config_runs(self):
        self.run_example("-libverbs -ldrm")

    # runs: full
    def test_debian_programs_use_our_library(self):
        self.check("ldd /usr/bin/ibv_devices", rf"libibverbs.so.1 => {RDMA}/lib/")
        self.check("/usr/bin/ibv_devices", r"\brxe0\b")
        for server, client in (("rping -s -C 3", "rping -c -C 3 -a 10.0.0.1"),
                               ("ib_write_bw -n 5", "ib_write_bw -n 5 localhost")):
            # In a shell of its own, so that all output comes before the prompt.
            self.check(f"((sleep 1; exec /usr/bin/{client}) & /usr/bin/{server} && wait $!)")

    def test_man_pages_open(self):
        for name in ("ibv_reg_mr_fd", "ibv_rereg_mr_fd", "ibv_query_mr_fd_caps", "ibv_reg_mr",
                     "rdma_create_qp"):
            self.check(f"man -w {name}", rf"{RDMA}/share/man/man3/{name}\.3\n")
        self.check("man ibv_reg_mr_fd | cat", r"(?s)NAME\s.*register a memory region.*RETURN VALUE")
        self.check("man -w ls", "/usr/share/man/man1/ls.1")

    # runs: full
    def test_our_programs_and_pyverbs_come_first(self):
        self.check("command -v ibv_devinfo", f"{RDMA}/bin/ibv_devinfo\n")
        self.check("ibv_devinfo", r"hca_id:\s*rxe0\n")
        self.check("ibv_devinfo -v", r"mr_fd_dmabuf:\s*REG REREG CPU PINNED\n"
                                     r"\s*mr_fd_memfd:\s*REG REREG CPU PINNED\n")
        self.check("command -v ib_write_bw", "/mrfd/build/perftest-obj/ib_write_bw\n")
        self.check("python3 -c 'import pyverbs; print(pyverbs.__file__)'", f"{RDMA}/python/")


class ConnectX(unittest.TestCase):
    def test_make_shell_has_the_requested_device(self):
        shell = Terminal("make", "shell", "DEVICE=connectx")
        self.assertRegex(shell.read_until(PROMPT), r"rdma +mlx5_0, a model of a ConnectX")
        status, output = shell.type("ibv_devinfo")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"(?s)hca_id:\s*mlx5_0.*PORT_ACTIVE.*link_layer:\s*InfiniBand")
        self.assertEqual(shell.end(), 2)  # of make, because it is not 0


class Command(unittest.TestCase):
    # runs: full
    def test_options_of_a_command_are_its_own(self):
        shell = Terminal(SHELL, "-m", "512M", "sh", "-c", "echo $1 $(ls /dev/infiniband)", "x", "--help")
        self.assertRegex(shell.read_until("uverbs0"), r"--help .*rdma_cm ")


class Refusals(unittest.TestCase):
    def test_shell_without_terminal_is_refused_at_once(self):
        began = time.monotonic()
        done = subprocess.run([SHELL], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("scripts/shell: error: it needs a terminal", done.stderr)
        self.assertLess(time.monotonic() - began, patience(5))


if __name__ == "__main__":
    unittest.main()
