# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""scripts/gdb debugs the kernel of a guest and a program in it: a breakpoint in our code is
hit by a registration by fd, with the file and the line, in the kernel, in a module and in the
program; and the guest's command goes on to its own end."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import bases  # noqa: E402
from mrfd import machine  # noqa: E402
from mrfd import products  # noqa: E402
from mrfd import processes  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from mrfd.paths import BUILD, inside  # noqa: E402
from tests.host.test_shell import Terminal  # noqa: E402

signal.signal(signal.SIGINT, signal.default_int_handler)  # see test_boot.py

GDB = os.path.join(TOP, "scripts", "gdb")
PROMPT = r"\(gdb\) $"
DIRECTORY = os.path.join(BUILD, "tests-gdb")
PROGRAM = inside(os.path.join(DIRECTORY, "register"))
SOURCE = """\
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ibv_mr *register_it(struct ibv_pd *pd, int memory)
{
	return ibv_reg_mr_fd(pd, NULL, 4096, IBV_MR_FD_TYPE_MEMFD, memory, IBV_ACCESS_LOCAL_WRITE);
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_pd *pd = ibv_alloc_pd(ibv_open_device(*devices));
	int memory = memfd_create("memory", 0);

	if (ftruncate(memory, 4096) || !register_it(pd, memory))
		return perror("register"), 1;
	puts("it is registered");
	return 7;
}
"""


def line_of(text, path):
    """The number of the first line of a file of the project with this text."""
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def batch(commands, *command):
    words = [word for each in commands for word in ("-ex", each)]
    return subprocess.run([GDB, "--batch", *words, "--", *command], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=patience(600), cwd=TOP, check=False)


def left_of(processes_before):
    """Those that are still there after some time: the kernel ends some of them."""
    end = time.monotonic() + patience(20)
    while left := [pid for pid in processes_before if os.path.exists(f"/proc/{pid}")]:
        if time.monotonic() > end:
            break
        time.sleep(0.1)
    return left


class WithGuest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Do what takes long the first time before any test measures a time."""
        rdma = inside(products.tool("rdma-core"))
        products.tool("perftest")
        products.model_directory()
        products.kernel_image("symbols")
        machine.accelerator("symbols")
        os.makedirs(DIRECTORY, exist_ok=True)
        with open(f"{DIRECTORY}/register.c", "w", encoding="utf-8") as file:
            file.write(SOURCE)
        subprocess.run([os.path.join(machine.SCRIPTS, "enter"), "gcc", "-g", f"{PROGRAM}.c", "-o",
                        PROGRAM, f"-I{rdma}/include", f"-L{rdma}/lib", "-libverbs"], check=True)


# runs: full
class Batch(WithGuest):
    """gdb without a terminal."""

    def hide_modules(self):
        """Have no modules of the kernel for the time of this case: on rxe it needs none."""
        modules = os.path.join(os.path.dirname(products.kernel_image("symbols")), "modules")
        shutil.rmtree(f"{modules}.hidden", ignore_errors=True)  # of a run that was killed
        if os.path.isdir(modules):
            os.rename(modules, f"{modules}.hidden")
            self.addCleanup(os.rename, f"{modules}.hidden", modules)

    def test_kernel_and_program_stop_in_our_code_and_go_on(self):
        self.hide_modules()
        done = batch([f"program {PROGRAM}", "break register_it", "break rxe_reg_user_mr_fd",
                      "continue", "backtrace", "continue", "backtrace",
                      "print $lx_current().comm", "list", "continue"], PROGRAM)
        self.assertEqual(done.returncode, 7, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?s)#0  register_it \(pd=0x\w+, memory=\d+\) at "
                         rf"{PROGRAM}.c:\d+\n#1  0x\w+ in main \(\) at {PROGRAM}.c:\d+\n")
        place = "kernel/drivers/infiniband/{}"
        rxe, core = (place.format(name) for name in ("sw/rxe/rxe_mr_fd.c",
                                                     "core/uverbs_std_types_mr_fd.c"))
        seen = re.search(r"#0  rxe_reg_user_mr_fd \(.*\) at \S*/(\S+/rxe_mr_fd.c):(\d+)\n",
                         done.stdout)
        self.assertTrue(seen, done.stdout + done.stderr)
        self.assertTrue(rxe.endswith(seen[1]), seen[0])
        first = line_of("struct ib_mr *rxe_reg_user_mr_fd(", rxe)
        self.assertIn(int(seen[2]) - first, range(12))
        self.assertRegex(done.stdout, r"#\d+ .* uverbs_reg_mr_fd \(.*\) at \S*/"
                         + re.escape(os.path.basename(core)) + r":\d+\n")
        self.assertIn('= "register\\000', done.stdout)
        with open(os.path.join(TOP, rxe), encoding="utf-8") as file:
            text = file.readlines()[int(seen[2]) - 1].strip()
        self.assertRegex(done.stdout, rf"(?m)^{seen[2]}\t\s*{re.escape(text)}$")
        self.assertIn("it is registered\n", done.stdout)

    def test_breakpoint_that_is_never_hit_is_a_failure(self):
        done = batch(["break rxe_reg_user_mr_fd", "continue", "backtrace"], "echo", "hello")
        self.assertEqual(done.returncode, 125, done.stdout + done.stderr)
        self.assertIn("hello\n", done.stdout)
        self.assertIn("gdb: no breakpoint was hit\n", done.stderr)

    def test_interrupt_is_130_and_leaves_no_process(self):
        with subprocess.Popen([GDB, "--batch", "-ex", "continue", "--", "sh", "-c",
                               "echo here; sleep 1000"], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=TOP,
                              start_new_session=True) as process:
            for line in process.stdout:
                if line == "here\n":
                    break
            names = processes.below(process.pid)
            self.assertLessEqual({"gdb", "qemu-system-x86_64"}, set(names.values()))
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=patience(60))
            self.assertEqual(process.returncode, 130)
        self.assertEqual(left_of(names), [])


# runs: full
class OnTerminal(WithGuest):
    """gdb's prompt, on a guest with a ConnectX, whose driver is a module."""

    def type(self, line):
        os.write(self.gdb.terminal, line.encode() + b"\n")
        return self.gdb.read_until(PROMPT, 300)

    def test_module_stops_in_our_code_and_ctrl_c_stops_the_guest(self):
        self.gdb = Terminal("make", "gdb", "DEVICE=connectx")
        self.assertIn('the first "guest LINE"', self.gdb.read_until(PROMPT, 600))
        self.assertRegex(self.type("break mlx5_ib_reg_user_mr_fd"), r"Breakpoint 1 at \S+: file "
                         r"\S+/drivers/infiniband/hw/mlx5/mr_fd.c, line \d+\.")
        self.assertRegex(self.type(f"guest cd /tmp; {PROGRAM}"), r"Breakpoint 1, "
                         r"mlx5_ib_reg_user_mr_fd \(.*\)\s+at \S+/hw/mlx5/mr_fd.c:\d+")
        self.assertRegex(self.type("backtrace"), r"uverbs_std_types_mr_fd.c:\d+")
        self.assertIn(f"Linux version {bases.base('linux')['upstream']}",
                      self.type("lx-dmesg"))
        self.assertRegex(self.type("lx-lsmod"), r"\bmlx5_ib\b")
        names = processes.below(self.gdb.pid)
        self.assertLessEqual({"gdb", "qemu-system-x86_64"}, set(names.values()))
        os.write(self.gdb.terminal, b"continue\n")
        self.gdb.read_until("it is registered\nguest: exit status 7\n", 60)
        os.write(self.gdb.terminal, b"\x03")
        self.assertIn("SIGINT", self.gdb.read_until(PROMPT, 60))
        os.write(self.gdb.terminal, b"guest pwd\n")
        self.gdb.read_until("\n/tmp\n", 60)
        os.write(self.gdb.terminal, b"\x03")
        self.gdb.read_until(PROMPT, 60)
        os.write(self.gdb.terminal, b"quit\n")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(self.gdb.pid, 0)[1]), 0)
        self.assertEqual(left_of(names), [])


class Refusals(unittest.TestCase):
    def test_gdb_needs_a_terminal_or_batch_and_says_so_first(self):
        done = subprocess.run([GDB, "true"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=patience(20), check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("scripts/gdb: error: it needs a terminal, or --batch", done.stderr)


if __name__ == "__main__":
    unittest.main()
