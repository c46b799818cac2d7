# SPDX-License-Identifier: GPL-2.0-or-later
"""Run commands in guests: what scripts/boot and the other programs of the kit use.

    from mrfd.machine import Guest
    guest = Guest(["uname", "-r"]).run()     # guest.status, guest.output
    with Guest(["./draw"], devices=["bochs-display"], stdin=True) as guest:
        guest.wait_for(rb"^drawn$")          # a line of its output
        guest.screendump("screen.png")
        guest.send(b"go on\\n")
    guest.status

A guest is one QEMU process with four sockets: the kernel's console, the command's
output, its exit status (see kit/guest/init.c), and QEMU's monitor.  One thread for
each guest starts QEMU, reads the sockets, enforces the time limit and waits for QEMU's
end.  QEMU dies with the thread that started it, so no guest outlives the program,
however the program ends.  QEMU inherits every socket and file as a descriptor.  So no
name can collide or be too long, no file must be removed afterwards, and the kernel's
image may be outside of what the userland shows.  Sockets also join the guests of one
network.

A guest with the device "connectx" has a second process, the ConnectX model: see
kit/with-connectx, which runs QEMU then.  What the model prints is in connectx.log, beside
console.log.  The device "connectx-2", besides, is a second one, with connectx-2.log.  Which
PCIe port a device has is in topology.py.

The device "gpu" is the GPU of the tests: an ivshmem-plain whose BAR is a memory file, which
the host can look at (Guest.vram), and in the guest the driver tests/gpu, which is loaded
before the command starts.  It and a ConnectX, and two ConnectX too, are behind one PCIe
switch, since on an emulated CPU the kernel lets them reach each other (peer-to-peer) only so.
The device "gpu-apart" is the same GPU without the switch.
"""

import contextlib
import json
import mmap
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from mrfd import access, arguments, console, products, topology, tsc
from mrfd.paths import BUILD, CACHE, INSIDE, SCRIPTS, TOP, inside
from mrfd.processes import patience
from mrfd.products import BootError

GUEST = f"{INSIDE}/kit/guest"  # the programs that the kit runs in a guest

TIMED_OUT, BROKEN, COMPLAINED = 124, 125, 70
MODEL_FAILED = 99  # of kit/with-connectx
MAX_GUESTS = 254  # in one network: 10.0.0.1 to 10.0.0.254
MAX_CPUS = 16     # CONFIG_NR_CPUS of the kit's kernels
# Of a guest, unless its options say otherwise
CPUS = arguments.from_environment("MRFD_CPUS", 2, arguments.whole(1, MAX_CPUS))
ACCEL = arguments.from_environment("MRFD_ACCEL", None, arguments.one_of("kvm", "tcg"))

# An oops causes a panic, and a panic a restart, which ends QEMU (-no-reboot): otherwise a
# kernel that has oopsed may hang.  printk.devkmsg=on: the kernel drops no messages of programs
# because there are many.  tsc=reliable: a guest that the host stopped for a moment does not
# change to the HPET, which takes QEMU's lock for each look at the time.  no_timer_check: if
# the host stops the guest while it checks that its timer ticks, it takes the timer for broken
# and panics.  no5lvl: mlx5 has implicit ODP with five levels of page tables on newer cards than
# a ConnectX-4 only.
KERNEL_LINE = ("console=ttyS0 loglevel=8 oops=panic panic=-1 printk.devkmsg=on "
               "random.trust_cpu=on tsc=reliable no_timer_check no5lvl "
               "kmemleak.verbose=1 kasan_multi_shot")


# What a guest that does not end is asked, and how its answer begins: which tasks block, and
# what does each CPU do?  A guest that is slow to read its console takes break and key for two
# breaks, so it is asked again if it does not answer.
SYSRQ = {"w": "sysrq: Show Blocked State", "l": "sysrq: Show backtrace of all active CPUs"}

# What kit/guest/init.c writes to the status port at the end.
EXIT = re.compile(rb"(?:(exit|signal) (\d+) (\d+)|error (.*))\n")


def late_reports():
    """A stall, a lockup or a hung task is reported late, because an emulated machine is slow, and
    later on a busy host, up to what the kernel takes; from the first moment on
    (watchdog_thresh=, not the sysctl), because a busy host holds up a boot too."""
    return (f"rcupdate.rcu_cpu_stall_timeout={min(300, int(patience(60)))} "
            f"watchdog_thresh={min(60, int(patience(30)))} "
            f"sysctl.kernel.hung_task_timeout_secs={int(patience(60))}")


def network_setup(number, count, device=None):
    """The words that go before a command in guest NUMBER of COUNT: they bring up the
    network and, if given, a devices.Device."""
    words = [device.verbs, device.setup] if device else []
    return [f"{GUEST}/net", str(number), str(count), *words, "--"]


def initramfs(records, modules=()):
    """The archive that a guest starts from, as a memory file: /init, /config, and the modules
    that /init loads, as products.boot_modules() has them."""
    with open(products.init_program(), "rb") as f:
        init = f.read()
    config = b"".join(os.fsencode(record) + b"\0" for record in records)
    fd = os.memfd_create("initramfs")
    with open(fd, "wb", closefd=False) as f:
        for number, (name, mode, data) in enumerate(
                [("init", 0o100755, init), ("config", 0o100600, config),
                 *((name, 0o100600, data) for name, data in modules), ("TRAILER!!!", 0, b"")]):
            fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
            head = b"070701" + b"".join(b"%08x" % n for n in fields) + name.encode() + b"\0"
            f.write(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))
    return fd


def kvm_works(kernel):
    """Whether a guest runs under KVM here.  It is tried once for each boot of the host:
    on some hosts /dev/kvm can be opened and guests hang all the same."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    with open("/proc/sys/kernel/random/boot_id") as f:
        host = f"{f.read().strip()} {os.path.basename(products.tool('rootfs', '--print'))}"
    # A result with a kernel of the kit holds for every kernel.  Any other kernel may itself
    # be the reason why the guest does not run.
    key = host if kernel in products.NAMED else f"{host} {kernel} {os.stat(kernel).st_mtime_ns}"
    path = os.path.join(CACHE, "kvm")
    try:
        with open(path) as f:
            known, answer = f.read().rsplit(" ", 1)
        if known in (host, key):
            return answer == "yes"
    except (OSError, ValueError):
        pass
    guest = Guest(["true"], name="kvm-probe", kernel=kernel, accel="kvm", timeout=patience(10),
                  cpus=1)
    works = guest.run().status == 0
    with open(f"{path}.part.{os.getpid()}", "w") as f:
        f.write(f"{key} {'yes' if works else 'no'}")
    os.rename(f.name, path)
    if not works:
        print("boot: there is a /dev/kvm but a guest does not run with it; guests are emulated"
              f" until the host reboots (to try again: MRFD_ACCEL=kvm, or rm {path})",
              file=sys.stderr)
    return works


def accelerator(kernel="base"):
    """kvm or tcg.  The kernel is the one to try it with."""
    return ACCEL or ("kvm" if kvm_works(kernel) else "tcg")


def log_directory(name):
    """Make a directory in build/run.  Keep the newest 50 of the older ones, and all of
    scripts/check, which uses them again."""
    runs = os.path.join(BUILD, "run")
    os.makedirs(runs, exist_ok=True)
    old = [e.path for e in os.scandir(runs) if not e.name.startswith("check-")]
    with contextlib.suppress(FileNotFoundError):  # another program removes them too
        for path in sorted(old, key=os.path.getmtime)[:-50]:
            shutil.rmtree(path, ignore_errors=True)
    stamp = time.strftime("%m%d-%H%M%S")
    return tempfile.mkdtemp(prefix=f"{name}-{stamp}-", dir=runs)


class Monitor:
    """QEMU's monitor (QMP) on a connected socket."""

    def __init__(self, sock):
        sock.settimeout(patience(60))
        self.file = sock.makefile("rwb")
        self.lock = threading.Lock()
        self.ready = False

    def command(self, name, **arguments):
        """Run one command; its result, or BootError with QEMU's words."""
        with self.lock:
            if not self.ready:
                self.file.readline()  # QEMU's greeting
                self.ready = True
                self._exchange("qmp_capabilities", {})
            return self._exchange(name, arguments)

    def _exchange(self, name, arguments):
        try:
            self.file.write(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
            self.file.flush()
            for line in self.file:
                answer = json.loads(line)
                if "error" in answer:
                    raise BootError(f"{name}: {answer['error']['desc']}")
                if "return" in answer:
                    return answer["return"]
        except OSError:
            pass
        raise BootError(f"{name}: the guest is gone, or QEMU does not answer")


class Guest:
    """One command in one virtual machine.

    command   list of words
    kernel    a name of products.NAMED, or the path of a bzImage
    devices   what QEMU's -device takes, or names of topology.py: "connectx", "direct" is its
              function for Data Direct; "gpu", and then there is vram, its memory as a mmap.mmap
    append    more for the kernel's command line
    root      its userland, a name of products.ROOTS
    links     the network: a list of connected sockets (see network()); mac: its number there
    fabric    the socket of a fabric.Fabric; without one its ConnectX is alone
    setup     words put before the command in the guest (see network_setup())
    output    called with each piece of output as it comes
    stdin     whether the command reads what send() writes
    tty       (rows, columns): the command has a terminal, on which send() types
    allow     regular expressions: a report whose head line matches one is expected
    icount    the clock of the guest counts instructions
    accel     kvm or tcg; without it accelerator() decides
    model     options of its ConnectX (devices/connectx/connectx.1)
    gdb       the path of a socket in build/ where gdb can debug it

    Afterwards it has status (see scripts/boot --help), output, console (text), reports,
    and, if the guest did not end as it should, why (a line), and with log and tail() the
    file that says more.
    """

    def __init__(self, command, *, name="guest", kernel="base", memory="1G", cpus=CPUS,
                 devices=(), append="", env=None, timeout=600, log_dir=None, links=(),
                 mac=0, fabric=None, setup=(), output=None, stdin=False, tty=None, allow=(),
                 icount=False, accel=None, model=(), gdb=None, root="kit"):
        self.command, self.name, self.kernel = list(command), name, kernel
        self.memory, self.cpus, self.devices, self.append = memory, cpus, list(devices), append
        self.env, self.timeout, self.links, self.mac = dict(env or {}), timeout, list(links), mac
        self.setup, self.on_output, self.stdin, self.tty = list(setup), output, stdin, tty
        self.allow, self.icount, self.accel = list(allow), icount, accel
        self.model, self.gdb, self.root = list(model), gdb, root
        self.log_dir, self.fabric, self.log = log_dir, fabric, "console.log"
        self.status, self.reports, self.why, self.vram = None, [], None, None
        self._output, self._console, self._process = bytearray(), bytearray(), None
        self._ended, self._stop, self._spawned = threading.Event(), False, threading.Event()
        self._expired = False
        self._news = threading.Condition()
        self._thread = self._error = None

    # What the user of a guest calls

    @property
    def output(self):
        """What the command has written so far."""
        with self._news:
            return bytes(self._output)

    @property
    def console(self):
        """What the kernel has written so far."""
        return bytes(self._console).decode(errors="replace")

    def tail(self, count=40):
        """The last lines of the log that tells why it failed."""
        text = self.console
        if self.log != "console.log":
            with open(os.path.join(self.log_dir, self.log), errors="replace") as f:
                text = f.read()
        return console.tail(text, count)

    def start(self):
        """Start QEMU; return when it runs."""
        access.warn_of_closed()
        image = products.kernel_image(self.kernel)
        self.accel = self.accel or accelerator(self.kernel)
        if self.log_dir is None:
            self.log_dir = log_directory(self.name)
        os.makedirs(self.log_dir, exist_ok=True)
        self._files = [os.open(image, os.O_RDONLY), initramfs(self._records(), products.boot_modules(self.kernel))]
        if topology.has_gpu(self.devices):
            self.vram = self._make_vram()
        self._ends, theirs = {}, {}
        for channel in ("console", "out", "status", "qmp"):
            self._ends[channel], theirs[channel] = socket.socketpair()
        words = self._qemu_words(*self._files[:2], {c: s.fileno() for c, s in theirs.items()})
        # the second one runs the first one, which runs QEMU
        for model in topology.models(self.devices):
            words = self._model_words(model) + words
        self.monitor = Monitor(self._ends["qmp"])
        fds = [s.fileno() for s in (*theirs.values(), *self.links)] + self._files
        self._thread = threading.Thread(target=self._attend, daemon=True,
                                        args=(words, fds, theirs.values()))
        self._thread.start()
        self._spawned.wait()
        if self._error:
            raise self._error
        return self

    def wait(self, timeout=None):
        """Wait until it has ended, at most timeout seconds; whether it has."""
        if not self._ended.wait(timeout):
            return False
        self._thread.join()
        return True

    def run(self):
        """start() and wait(); returns self."""
        self.start()
        try:
            self.wait()
        finally:
            self.stop()
        return self

    def expire(self):
        """End it as if its time limit had passed."""
        self._expired = True

    def stop(self):
        """End it now, if it runs."""
        self._stop = True
        if self._thread:
            if self._process:
                self._process.kill()
            self.wait()

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        if kind is None:
            self.wait()
        self.stop()

    def send(self, data):
        """Give the command input (stdin=True), or type on its terminal."""
        self._ends["out"].sendall(data)

    def wait_for(self, pattern, timeout=60):
        """Wait for output that matches (bytes; ^ and $ match at lines); the match.
        BootError if the guest ends or the time passes first."""
        wanted = re.compile(pattern, re.MULTILINE)
        deadline = time.monotonic() + patience(timeout)
        with self._news:
            while True:
                match = wanted.search(bytes(self._output))
                if match:
                    return match
                left = deadline - time.monotonic()
                if self._ended.is_set() or left <= 0:
                    raise BootError(f"{self.name}: no {pattern!r} in its output "
                                    + ("before it ended" if left > 0 else f"in {timeout} s"))
                self._news.wait(min(left, 1))

    def screendump(self, path):
        """Write what its display shows into a PNG file."""
        with tempfile.TemporaryDirectory(dir=BUILD) as where:  # where QEMU can write
            raw = os.path.join(where, "screen.png")
            self.monitor.command("screendump", filename=inside(raw), format="png")
            shutil.move(raw, path)

    def device_del(self, name):
        """Ask for the removal of the device with that id (on a bus=portN)."""
        self.monitor.command("device_del", id=name)

    def device_add(self, name):
        """Plug a device of topology.py in that was there when the guest started, on its port.
        BootError while the old one is still there."""
        self.monitor.command("device_add", **json.loads(topology.DEVICES[name]))

    # How it is made

    def _records(self):
        cwd = INSIDE
        with contextlib.suppress(OSError):  # the caller's directory may have been removed
            here = os.path.relpath(os.path.realpath(os.getcwd()), TOP)
            if here.split("/")[0] != os.pardir:
                cwd = os.path.normpath(os.path.join(INSIDE, here))
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
               "HOME": "/root", "LC_ALL": "C.UTF-8", "TERM": os.environ.get("TERM", "dumb"),
               "PYTHONDONTWRITEBYTECODE": "1", **self.env}
        yield f"dir={INSIDE}"
        yield f"cwd={cwd}"
        yield f"host={self.name}"
        if self.tty:
            yield "tty=%d %d" % tuple(self.tty)
        if self.stdin:
            yield "stdin=1"
        if (self.kernel in products.KERNELS and topology.has_connectx(self.devices)
                or self.kernel in products.WITH_MODULES):
            yield f"modules={products.kernel_modules(self.kernel)}"
        if products.kernel_config(self.kernel):
            yield f"config={products.kernel_config(self.kernel)}"
        for name, _ in products.boot_modules(self.kernel):
            yield f"load=/{name}"
        for item in env.items():
            yield "env=%s=%s" % item
        gpu = []
        if topology.has_gpu(self.devices):
            gpu = [f"{GUEST}/load", products.gpu_module(self.kernel)]
        for word in gpu + self.setup + self.command:
            yield b"arg=" + os.fsencode(word)

    def _qemu_words(self, image, initrd, fd):
        def share(tag, path):
            return ["-fsdev", f"local,id={tag},path={inside(path)},security_model=none,"
                    "readonly=on,multidevs=remap",
                    "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]

        accel = {"kvm": ["-accel", "kvm"], "tcg": ["-accel", "tcg,thread=multi"]}[self.accel]
        clock = []  # of an emulated CPU, see tsc.py
        if self.icount:
            accel = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"]
        elif self.accel == "tcg" and tsc.khz():
            clock = [f"tsc_early_khz={tsc.khz()}"]
        words = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
                 "-vga", "none", "-no-reboot", *accel, "-cpu", "max", "-smp", str(self.cpus),
                 "-object", f"memory-backend-memfd,id=ram,size={self.memory},share=on",
                 "-machine", "q35,memory-backend=ram", "-m", self.memory,
                 "-kernel", f"/proc/self/fd/{image}", "-initrd", f"/proc/self/fd/{initrd}",
                 "-append", " ".join([KERNEL_LINE, *clock, late_reports(), self.append])]
        for channel, number in fd.items():
            words += ["-chardev", f"socket,id={channel},fd={number}"]
        if self.gdb:
            words += ["-chardev", f"socket,id=gdb,path={inside(self.gdb)},server=on,wait=off",
                      "-gdb", "chardev:gdb"]
        words += ["-qmp", "chardev:qmp", "-serial", "chardev:console",
                  # the first virtio device, because init.c expects these names of its ports
                  "-device", "virtio-serial-pci", "-device", "virtio-rng-pci",
                  "-device", "virtserialport,nr=1,chardev=status", "-device",
                  f"{'virtconsole' if self.tty else 'virtserialport'},nr=2,chardev=out"]
        words += share("root", products.tool(*products.ROOTS[self.root])) + share("project", TOP)
        words += self._network_words()
        return words + topology.qemu_words(self.devices, self._files[2] if self.vram else None)

    def _make_vram(self):
        """The memory of the GPU: a file for QEMU, and a mapping of it."""
        self._files.append(os.memfd_create("vram"))
        os.ftruncate(self._files[-1], topology.VRAM)
        return mmap.mmap(self._files[-1], topology.VRAM)

    def _model_words(self, model="connectx"):
        """What goes before QEMU's words if the guest has this ConnectX."""
        self._files.append(os.open(os.path.join(self.log_dir, f"{model}.log"),
                                   os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
        words = [f"{INSIDE}/kit/with-connectx", str(self._files[-1]), topology.MODELS[model],
                 f"{products.model_directory()}/connectx"]
        if self.fabric:  # whose models need different GUIDs
            number = topology.models(self.devices).index(model)
            guid = 0x2c9030000000000 + 256 * self.mac + 128 * number
            words += ["--fabric", self.fabric, "--guid", f"{guid:016x}"]
        direct = topology.direct_socket(model, self.devices)
        if direct:
            words += ["--data-direct", direct]
        return [*words, *self.model, "--"]

    def _failed_log(self):
        """The log that tells how a model has failed."""
        logs = [f"{model}.log" for model in topology.models(self.devices)]
        for log in logs:
            with open(os.path.join(self.log_dir, log), errors="replace") as text:
                if "\nwith-connectx: " in f"\n{text.read()}":
                    return log
        return logs[0]

    def _network_words(self):
        if not self.links:
            return []
        streams = [f"stream,addr.type=fd,addr.str={s.fileno()}" for s in self.links]
        words = ["-device", f"virtio-net-pci,netdev=net,mac=52:54:00:00:00:{self.mac + 1:02x},"
                 "host_mtu=4200"]
        if len(streams) == 1:
            return ["-netdev", f"{streams[0]},id=net"] + words
        words = ["-netdev", "hubport,id=net,hubid=0"] + words
        for number, stream in enumerate(streams):
            words = ["-netdev", f"{stream},id=link{number}", "-netdev",
                     f"hubport,id=hub{number},hubid=0,netdev=link{number}"] + words
        return words

    # The guest's thread

    def _attend(self, words, fds, theirs):
        try:
            deadline = time.monotonic() + self.timeout
            with open(os.path.join(self.log_dir, "qemu.log"), "wb") as log:
                self._process = subprocess.Popen(
                    [os.path.join(SCRIPTS, "enter"), *words], stdin=subprocess.DEVNULL,
                    stdout=log, stderr=log, pass_fds=fds, start_new_session=True)
            for sock in (*theirs, *self.links):
                sock.close()
            for fd in self._files:
                os.close(fd)
            self._spawned.set()
            self._read_until_gone(deadline)
            self._conclude()
        except Exception as error:  # without this a waiting thread would wait for ever
            self._error, self.status, self.why = error, BROKEN, str(error)
            if self._process:
                self._process.kill()
                self._process.wait()
        finally:
            self._spawned.set()
            for sock in self._ends.values():
                sock.close()
            with self._news:
                self._ended.set()
                self._news.notify_all()

    def _read_until_gone(self, deadline):
        self._exit, timed_out, answered = b"", False, False
        questions = iter("wwwlll")
        log = open(os.path.join(self.log_dir, "console.log"), "wb", buffering=0)
        selector = selectors.DefaultSelector()
        for channel in ("console", "out", "status"):
            selector.register(self._ends[channel], selectors.EVENT_READ, channel)
        while selector.get_map():
            if self._expired:
                deadline, self._expired = 0, False
            if time.monotonic() > deadline:
                enough = self._stop or answered and self._is_off()
                timed_out = timed_out or not enough
                key = next((k for k in questions if SYSRQ[k] not in self.console), None)
                # A kernel that has printed nothing has not begun, and answers nothing.
                if key is None or enough or not self._console:
                    self._process.kill()
                else:
                    self._sysrq(key)
                deadline = time.monotonic() + patience(5)  # for its answer
            for key, _ in selector.select(1):
                try:
                    data = key.fileobj.recv(1 << 16)
                except ConnectionResetError:
                    data = b""
                if not data:
                    selector.unregister(key.fileobj)
                elif key.data == "console":
                    log.write(data)
                    self._console += data
                elif key.data == "out":
                    self._take(data)
                else:
                    self._exit += data
            if not answered and self._has_all():
                with contextlib.suppress(OSError):  # it is gone already
                    self._ends["status"].sendall(b"\n")
                answered, deadline = True, time.monotonic() + patience(15)  # to power off
        self._process.wait()
        self._timed_out = timed_out
        log.close()

    def _has_all(self):
        """Whether the command has ended and all of its output has arrived.  Also true if the
        command could not be started: the guest does not wait for an answer then."""
        said = EXIT.fullmatch(self._exit)
        return said and len(self._output) >= int(said[3] or 0)

    def _is_off(self):
        """Whether its kernel has powered off, and QEMU does not end for a reason of its own (seen
        once, on a busy machine).  If it has a model, that may be the reason."""
        return b"reboot: Power down" in self._console and not topology.has_connectx(self.devices)

    def _take(self, data):
        with self._news:
            self._output += data
            self._news.notify_all()
        if self.on_output:
            self.on_output(data)

    def _sysrq(self, key):
        try:
            self.monitor.command("chardev-send-break", id="console")
            self._ends["console"].sendall(key.encode())
        except (BootError, OSError):
            pass

    def _conclude(self):
        self.reports = console.reports(self.console, self.allow)
        said = EXIT.fullmatch(self._exit)
        if self._process.returncode == MODEL_FAILED and topology.models(self.devices):
            self.status, self.log = BROKEN, self._failed_log()
            self.why = f"the ConnectX model failed: {self.tail(1).partition(': ')[2]}"
        elif self._timed_out:
            self.status = TIMED_OUT
            self.why = "did not power off" if said else f"still running after {self.timeout:g} s"
        elif self._stop and not said:
            self.status, self.why = 128 + signal.SIGTERM, "stopped"
        elif not said or said[4]:
            self.status = BROKEN
            self.why = said[4].decode() if said else "ended without an exit status"
            death = console.death(self.console)
            if death:
                self.why = death
            elif not self.console:
                with open(os.path.join(self.log_dir, "qemu.log"), errors="replace") as f:
                    self.why = f"QEMU did not start it: {f.read().strip()}"
        else:
            self.status = int(said[2]) + (128 if said[1] == b"signal" else 0)
            if self.status == 0 and self.reports:
                self.status = COMPLAINED


def network(count):
    """The links of count guests on one Ethernet: a list of sockets for each guest.  The
    first guest has a link to every other one, and QEMU's hub joins them."""
    pairs = [socket.socketpair() for _ in range(count - 1)]
    return [[a for a, _ in pairs]] + [[b] for _, b in pairs]
