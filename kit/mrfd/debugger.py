# SPDX-License-Identifier: GPL-2.0-or-later
"""gdb on the kernel of a guest: what scripts/boot --gdb does.

QEMU's gdbstub listens at a socket in a directory of build/run, which no network reaches.
The guest boots and sets up its devices; then kit/guest/debugged waits in it, and gdb is
started in the userland, where the source lies at the path that it was compiled at.  What
gdb does first is in kit/gdb.py.  Lines that it writes to a pipe go to the guest.

On a terminal gdb is the foreground, so Ctrl-C is for gdb alone.  The guest ends with gdb.
In a batch gdb has no input, and the guest goes on when gdb has ended; if gdb has failed, the
guest ends too, because it may still wait for gdb."""

import contextlib
import os
import signal
import subprocess
import termios
import threading

from mrfd import machine
from mrfd import products
from mrfd.paths import BUILD, INSIDE, SCRIPTS, inside

READY = b"ready for gdb\n"
GRACE = 20  # seconds that gdb has in a batch when the guest has ended


def take_terminal(group):
    """Make a process group the foreground of the terminal."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # as one that is in the background
    os.tcsetpgrp(0, group)
    signal.signal(signal.SIGTTOU, before)


def become_foreground():
    """In the process that becomes gdb.  gdb has a handler for Ctrl-C; what runs it ignores it."""
    os.setpgid(0, 0)
    take_terminal(os.getpid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Debugger:
    """gdb for a Guest that is not started yet; without a command it runs lines from gdb."""

    def __init__(self, guest, *, batch, commands):
        """The commands are those of gdb."""
        self.guest, self.batch, self.commands = guest, batch, commands
        self.shown, self.output = " ".join(guest.command[:1]), guest.on_output
        directory = machine.log_directory("gdb")
        guest.gdb = os.path.join(directory, "gdb.socket")
        guest.log_dir = guest.log_dir or directory
        guest.command = [f"{machine.GUEST}/debugged", *guest.command]
        guest.stdin, guest.on_output = True, None

    def run(self):
        """Run the guest and gdb until both have ended; gdb's exit status."""
        try:
            self.guest.start()
            self._wait()
            status = self._run_gdb()
            if self.batch and not status:
                self._let_end()
            return status
        finally:
            self.guest.stop()
            with contextlib.suppress(OSError):
                os.unlink(self.guest.gdb)

    def _wait(self):
        """Wait until the guest is ready; hand its output on, also the later one."""
        try:
            ready = self.guest.wait_for(b"^" + READY, self.guest.timeout)
        except products.BootError:
            self.output(self.guest.output)
            raise
        self.output(ready.string[:ready.start()])
        self.guest.on_output = self.output

    def _words(self, lines):
        kernel = f"{inside(BUILD)}/kernel-symbols"
        commands = [*self.commands, *(["python run.check()"] if self.batch else [])]
        variables = {"BUILD": inside(BUILD), "SOCKET": inside(self.guest.gdb), "LINES": lines,
                     "COMMAND": self.shown}
        return [os.path.join(SCRIPTS, "enter"), "env",
                *(f"MRFD_GDB_{name}={value}" for name, value in variables.items()),
                "PYTHONDONTWRITEBYTECODE=1", "gdb", "-q", "-iex", "set auto-load off",
                *(["--batch"] if self.batch else []), "-x", f"{INSIDE}/kit/gdb.py",
                *(word for command in commands for word in ("-ex", command)),
                f"{kernel}/vmlinux"]

    def _run_gdb(self):
        reading, writing = os.pipe()
        how = ({"stdin": subprocess.DEVNULL, "start_new_session": True} if self.batch else
               {"preexec_fn": become_foreground})
        terminal, gdb = None if self.batch else termios.tcgetattr(0), None
        try:
            gdb = subprocess.Popen(self._words(writing), pass_fds=[writing], **how)
            os.close(writing)
            threading.Thread(target=self._carry, args=(reading,), daemon=True).start()
            while self.batch and gdb.poll() is None and not self.guest.wait(0.2):
                pass
            return gdb.wait(GRACE if self.batch else None)
        except subprocess.TimeoutExpired:
            raise products.BootError(f"gdb has not ended {GRACE} s after the guest") from None
        finally:
            if gdb and gdb.poll() is None:
                gdb.kill()
                gdb.wait()
            if terminal:
                take_terminal(os.getpgrp())
                termios.tcsetattr(0, termios.TCSADRAIN, terminal)

    def _carry(self, reading):
        """Carry lines from gdb to the guest."""
        with open(reading, "rb", buffering=0) as lines, contextlib.suppress(OSError):
            while data := lines.read(4096):
                self.guest.send(data)

    def _let_end(self):
        """Let the guest go on, wherever gdb has left it, until its command ends."""
        with contextlib.suppress(products.BootError, OSError):
            self.guest.monitor.command("cont")
            if not self.shown:
                self.guest.send(b"exit\n")
        self.guest.wait()
