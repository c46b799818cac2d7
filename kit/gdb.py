# SPDX-License-Identifier: GPL-2.0-or-later
"""What gdb runs first under scripts/gdb: it takes the guest, which waits before its command
with everything set up, knows the symbols of its modules, and has two more commands, "guest"
and "program".  kit/mrfd/debugger.py starts gdb and says here what there is (the variables
MRFD_GDB_*)."""

import os
import struct
import sys

import gdb

BUILD, SOCKET, LINES, COMMAND = (
    os.environ[f"MRFD_GDB_{name}"] for name in ("BUILD", "SOCKET", "LINES", "COMMAND"))
MODULES = "gpu", "importer", "kernel_dm", "steps"  # of the tests, whose sources are compiled in /tmp
BASE = 0x555555554000  # where a program that may be anywhere is: the kernel has norandmaps


def send(line):
    """Give the guest's kit/guest/debugged a line; it reads it when the guest goes on."""
    os.write(int(LINES), line.encode() + b"\n")


class GuestCommand(gdb.Command):
    """Run a line of shell in the guest: guest LINE
The guest goes on, as by "continue", and stops at a breakpoint or by Ctrl-C.  Its shell keeps
variables and the directory from one line to the next; "guest exit" ends the guest."""

    def __init__(self):
        super().__init__("guest", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        if not argument:
            raise gdb.GdbError("guest wants a line of shell")
        send(argument)
        gdb.execute("continue", from_tty)


class ProgramCommand(gdb.Command):
    """Load the symbols of a program that runs in the guest: program FILE
Then its functions can have breakpoints too, before it starts or after."""

    def __init__(self):
        super().__init__("program", gdb.COMMAND_FILES, gdb.COMPLETE_FILENAME)

    def invoke(self, argument, _):
        try:
            with open(argument, "rb") as file:
                head = file.read(18)
        except OSError as error:
            raise gdb.GdbError(f"{argument}: {error.strerror}") from None
        if head[:4] != b"\x7fELF":
            raise gdb.GdbError(f"{argument} is not a program")
        anywhere = struct.unpack("<H", head[16:])[0] == 3  # ET_DYN
        gdb.execute(f"add-symbol-file {argument} -o {BASE if anywhere else 0:#x}")


class Run:
    """Whether the guest has gone on, and how often a breakpoint has stopped it."""

    def __init__(self):
        self.went_on, self.hits = False, 0
        gdb.events.cont.connect(self._on_cont)
        gdb.events.stop.connect(self._on_stop)

    def _on_cont(self, _):
        self.went_on = True

    def _on_stop(self, event):
        self.hits += isinstance(event, gdb.BreakpointEvent)

    def check(self):
        """The last command of a batch."""
        if self.went_on and not self.hits:
            print("gdb: no breakpoint was hit", file=sys.stderr, flush=True)
            gdb.execute("quit 1")


def take_guest():
    kernel = os.path.join(BUILD, "kernel-symbols")
    for setting in ("pagination off", "confirm off", "python print-stack message"):
        gdb.execute(f"set {setting}")
    places = []
    for name in MODULES:
        gdb.execute(f"set substitute-path /tmp/{name} /mrfd/tests/{name}")
        places.append(f"{BUILD}/{name}-symbols")
    sys.path.insert(0, f"{kernel}/scripts/gdb")  # vmlinux-gdb.py is a link to the source's
    gdb.execute(f"source {kernel}/vmlinux-gdb.py")
    gdb.execute(f"target remote {SOCKET}", to_string=True)
    here, modules = os.getcwd(), f"{kernel}/modules"  # which only a guest with mlx5 needs
    # lx-symbols searches all below the directory that gdb is in.
    gdb.execute(f"cd {modules if os.path.isdir(modules) else '/tmp'}", to_string=True)
    gdb.execute(f"lx-symbols {' '.join(filter(os.path.isdir, places))}", to_string=True)
    gdb.execute(f"cd {here}", to_string=True)
    ProgramCommand()
    if not COMMAND:
        GuestCommand()
    send("")
    return Run()


try:
    run = take_guest()
except (gdb.error, OSError) as error:
    print(f"gdb: cannot take the guest: {error}", flush=True)
    gdb.execute("quit 1")
print(f"""\
The guest waits before {COMMAND or 'the first "guest LINE"'}.  break FUNCTION; program FILE; then \
{"continue" if COMMAND else "guest ibv_devinfo"}.
Ctrl-C stops the guest; lx-dmesg, lx-ps, apropos lx; quit ends all.""", flush=True)
