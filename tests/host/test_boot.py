# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""scripts/boot does what its --help says: arguments, environment and working directory
arrive in the guest, output and exit status come back whole, and no failure is taken for
success."""

import hashlib
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import bases  # noqa: E402
from mrfd import environment  # noqa: E402
from mrfd import machine  # noqa: E402
from mrfd import products  # noqa: E402
from mrfd import tsc  # noqa: E402
from mrfd.devices import CONNECTX, RXE  # noqa: E402
from mrfd import console  # noqa: E402
from mrfd.machine import patience  # noqa: E402

# A test that is started in the background may have SIGINT ignored, and so would
# the programs that it interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

BOOT = os.path.join(TOP, "scripts", "boot")
OURS = "/mrfd/build/rdma-core-obj/lib"
# The first line on stderr.
SAYS_OURS = f"boot: RDMA libraries: ours, {OURS} (Debian's: -e LD_LIBRARY_PATH=)\n".encode()


def setUpModule():
    """Do what takes long the first time before any test measures a time."""
    products.kernel_image()
    environment.ours()
    machine.accelerator()


def boot(*words, cwd=TOP, **options):
    return subprocess.run([BOOT, *words], capture_output=True, timeout=patience(120), cwd=cwd,
                          **options)


def start_boot(*words):
    """A boot in a process group of its own, whose command has printed "here"."""
    process = subprocess.Popen([BOOT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               cwd=TOP, start_new_session=True)
    assert process.stdout.readline() == b"here\n", process.stderr.read()
    return process


def qemus(token):
    """The processes that have a word in their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if token.encode() in f.read() and int(pid) != os.getpid():
                    found.append(int(pid))
        except OSError:
            pass
    return found


class Arguments(unittest.TestCase):
    """A wrong argument is named, with what is allowed, before anything is built."""

    def check(self, said, *words):
        with self.subTest(words=words):
            done = boot(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn("scripts/boot: error: " + said, done.stderr.decode())

    def test_numbers_out_of_range_are_refused(self):
        for option, name, wrong, right in (
                ("--guests", "--guests", ("0", "300", "-1", "x"), "a whole number from 1 to 254"),
                ("-c", "-c/--cpus", ("0", "17", "1000", "1.5"), "a whole number from 1 to 16"),
                ("-m", "-m/--memory", ("banana", "0", "512", "1M", "900000G"),
                 f"a size from 256M to {os.sysconf('SC_PHYS_PAGES') >> 8}M"),
                ("--timeout", "--timeout", ("-1", "0", "nan", "inf", "2000000"),
                 "a number of seconds above 0 and up to 1000000")):
            for word in wrong:
                self.check(f"argument {name}: {word!r} is not {right}", option, word, "true")

    def test_guests_with_more_memory_than_host_are_refused(self):
        half = os.sysconf("SC_PHYS_PAGES") // 2 >> 8  # MiB
        self.check(f"3 guests with {3 * half}M of memory: this machine has ",
                   "-m", f"{half}M", "--guests", "3", "true")

    def test_malformed_and_conflicting_arguments_are_refused(self):
        for item in "NAME", "=value":
            self.check(f"argument -e/--env: {item!r} is not NAME=VALUE", "-e", item, "true")
        self.check("argument --allow: '(' is not a regular expression", "--allow", "(", "true")
        self.check("unrecognized arguments: --gests", "--gests", "2", "true")
        self.check("argument --connectx: not allowed with argument --rxe", "--rxe", "--connectx",
                   "true")
        self.check("argument -c/--cpus: '99' is not", "true", ":::", "-c", "99", "true")
        for words in ("--connectx",), ("--guests", "2"), ("--rxe", "--guests", "2"):
            self.check("--fabric is for several guests with --connectx", *words,
                       "--fabric=--drop 1", "true")
        self.check("--model is for --connectx", "--rxe", "--model=--no-paging", "true")
        for option in ("--connectx", "--model"), ("--connectx", "--fabric"):
            self.check(f"argument {option[1]}: '--x \"': No closing quotation", *option[:1],
                       f'{option[1]}=--x "', "true")
        self.check("--cluster is for --guests N, two or more", "--cluster", "true")
        self.check("--cluster needs the userland of the programs", "--guests", "2", "--cluster",
                   "--root", "kit", "true")
        self.check("no command")
        self.check("a guest has no command", "true", ":::")

    def test_device_that_cannot_be_is_refused(self):
        say = "argument -d/--device: "
        self.check(f"{say}a device has no name", "-d", "", "true")
        self.check(f"{say}{{bad is not JSON", "-d", "{bad", "true")
        self.check(f"{say}direct is the second function of connectx, which the guest does not have",
                   "-d", "direct", "true")
        self.check(f"{say}direct-2 is the second function of connectx-2", "--connectx",
                   "-d", "direct-2", "true")

    def test_unusable_kernel_is_refused(self):
        say = "argument -k/--kernel: "
        self.check(f"{say}no kernel 'nope': it is neither one of base, debug, kcsan, symbols, "
                   "stock, modular, debian nor a file", "-k", "nope", "true")
        self.check(f"{say}cannot read the kernel /tmp: Is a directory", "-k", "/tmp", "true")
        self.check(f"{say}README.md is not a kernel: it must be a bzImage",
                   "-k", "README.md", "true")

    def test_unwritable_log_directory_is_refused(self):
        self.check("argument --log-dir: cannot write to /dev/null/x: Not a directory",
                   "--log-dir", "/dev/null/x", "true")


class Command(unittest.TestCase):
    """One command in one guest."""

    def test_boot_returns_output_and_status_0(self):
        done = boot("echo", "hello")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"hello\n", SAYS_OURS))

    def test_boot_returns_exit_status_and_stderr(self):
        done = boot("sh", "-c", "echo to stderr >/dev/stderr; exit 7")
        self.assertEqual((done.returncode, done.stdout), (7, b"to stderr\n"))

    # runs: full
    def test_killed_command_gives_128_plus_signal(self):
        self.assertEqual(boot("sh", "-c", "kill -9 $$").returncode, 137)

    # runs: full
    def test_missing_command_gives_127(self):
        done = boot("no-such-command")
        self.assertEqual(done.returncode, 127)
        self.assertIn(b"cannot run no-such-command: No such file", done.stdout)

    def test_arguments_arrive_byte_for_byte(self):
        words = ["two words", "", "it's \"quoted\" $HOME \\", "a\nb", "-x", "a=b,c", b"\xff\xfe",
                 "long" * 20000]
        done = boot("printf", "%s\\0", *words)
        self.assertEqual(done.stdout.split(b"\0")[:-1], [os.fsencode(w) for w in words])

    # runs: full
    def test_ten_megabytes_of_output_arrive_whole(self):
        done = boot("seq", "1400000")
        wanted = "".join(f"{i}\n" for i in range(1, 1400001)).encode()
        self.assertEqual(len(done.stdout), len(wanted))
        self.assertEqual(hashlib.sha256(done.stdout).digest(), hashlib.sha256(wanted).digest())

    def test_command_gets_environment_and_read_only_checkout(self):
        done = subprocess.run(
            [BOOT, "-e", "MARK=a b", "sh", "-c",
             'pwd; cat; echo "$MARK $HOME"; ulimit -l; cat /proc/sys/kernel/hostname;'
             'ls ../kit/configs/base.config; touch ../x || touch /usr/x && ls /usr/x; nproc'],
            capture_output=True, cwd=os.path.join(TOP, "scripts"), input=b"not for the guest")
        self.assertEqual(done.stdout.decode().split("\n"), [
            "/mrfd/scripts", "a b /root", "unlimited", "guest",
            "../kit/configs/base.config",
            "touch: cannot touch '../x': Read-only file system", "/usr/x", str(machine.CPUS), ""])
        self.assertFalse(os.path.exists(os.path.join(TOP, "x")))
        self.assertFalse(os.path.exists(os.path.join(products.tool("rootfs"), "usr/x")))

    # runs: full
    def test_kernel_and_log_directory_may_be_anywhere(self):
        with tempfile.TemporaryDirectory(prefix="a b:c,") as there:
            shutil.copy(products.kernel_image(), os.path.join(there, "my kernel"))
            done = boot("-k", "my kernel", "--log-dir", "new/logs", "pwd", cwd=there)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"/mrfd\n", SAYS_OURS))
            with open(os.path.join(there, "new/logs/console.log"), encoding="utf-8") as log:
                self.assertIn(f"Linux version {bases.base('linux')['upstream']}", log.read())

    # runs: full
    def test_command_starts_where_the_caller_is(self):
        def cwd():
            records = dict(r.split("=", 1) for r in machine.Guest(["true"])._records()
                           if isinstance(r, str))
            return records["cwd"]
        self.addCleanup(os.chdir, os.getcwd())
        with tempfile.TemporaryDirectory() as there:
            os.symlink(TOP, os.path.join(there, "link"))
            os.mkdir(os.path.join(there, "gone"))
            for path, wanted in ((TOP, "/mrfd"),
                                 (os.path.join(TOP, "kit/guest"), "/mrfd/kit/guest"),
                                 (os.path.join(there, "link/kit"), "/mrfd/kit"),
                                 (there, "/mrfd"), ("/", "/mrfd"), (machine.CACHE, "/mrfd"),
                                 (os.path.join(there, "gone"), "/mrfd")):
                with self.subTest(path=path):
                    os.chdir(path)
                    if path.endswith("/gone"):
                        os.rmdir(path)
                    self.assertEqual(cwd(), wanted)

    # runs: full
    def test_bochs_display_appears_as_drm_card(self):
        done = boot("-d", "bochs-display", "sh", "-c",
                    "ls /dev/dri/card1 && readlink /sys/class/drm/card1/device/driver")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, rb"^/dev/dri/card1\n.*/bochs-drm\n$")  # card0 is vgem

    def test_shell_runs_on_terminal_of_caller(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(TOP)
            os.execv(BOOT, [BOOT, "--shell", "--", "sh", "-c",
                            "stty size; tty; read x; echo got $x; exit 3"])
        os.set_blocking(terminal, True)
        subprocess.run(["stty", "rows", "40", "cols", "99"], stdin=terminal, check=True)
        seen = b""
        try:
            while True:
                seen += os.read(terminal, 4096)
                if seen.endswith(b"/dev/hvc0\r\n"):
                    os.write(terminal, b"typed\r")
        except OSError:
            pass
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 3, seen)
        self.assertIn(b"\n40 99\r\n", b"\n" + seen)
        self.assertIn(b"got typed\r\n", seen)


class Libraries(unittest.TestCase):
    """Programs run with our libraries, and the first line says so."""

    WHICH = "ldd /usr/bin/ibv_devices | grep -o 'libibverbs.* => [^ ]*'"
    OTHERS = "setpriv --reuid 65534 --regid 65534 --clear-groups"

    def test_programs_of_any_user_have_our_libraries(self):
        done = boot("sh", "-c", f'{self.WHICH}; {self.OTHERS} sh -c "$1"', "sh", self.WHICH)
        self.assertEqual((done.stdout.decode(), done.stderr),
                         (f"libibverbs.so.1 => {OURS}/libibverbs.so.1\n" * 2, SAYS_OURS))

    def test_empty_path_gives_debian_libraries(self):
        done = boot("-e", "LD_LIBRARY_PATH=", "sh", "-c", self.WHICH)
        self.assertEqual((done.stdout, done.stderr),
                         (b"libibverbs.so.1 => /lib/x86_64-linux-gnu/libibverbs.so.1\n",
                          b"boot: RDMA libraries: Debian's\n"))


class Network(unittest.TestCase):
    """kit/guest/net and kit/guest/ready, alone in a guest."""

    # runs: full
    def test_guest_253_gets_its_addresses_and_device(self):
        done = boot(f"{machine.GUEST}/net", "253", "1", RXE.verbs, RXE.setup, "--", "sh", "-c",
                    "echo $MRFD_GUEST of $MRFD_GUESTS: $MRFD_VERBS_DEVICE;"
                    "ip -brief address show eth0; rdma link show")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rb"(?s)^253 of 1: rxe0\n.* 10.0.0.254/24 fd00::254/64 .*"
                         rb"link rxe0/1 state ACTIVE")

    # runs: full
    def test_ready_needs_active_port_lid_and_ipoib(self):
        # A directory stands for the device: it has an InfiniBand port without a LID.
        done = boot("sh", "-c", f"""
            export MRFD_GUEST=0 MRFD_VERBS_DEVICE=ib0
            {machine.GUEST}/ready 1 && exit 9
            mount -t tmpfs none /sys/class/infiniband
            mkdir -p /sys/class/infiniband/ib0/ports/1 && cd /sys/class/infiniband/ib0/ports/1
            echo InfiniBand >link_layer; echo '4: ACTIVE' >state; echo 0x0 >lid
            {machine.GUEST}/ready 1 && exit 9
            echo 0x1 >lid
            MRFD_NETDEV=lo {machine.GUEST}/ready 1 && exit 9
            {machine.GUEST}/ready""")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.decode().splitlines(), [
            "guest-net: ib0 is not ready after 1 s: state none, GIDs none",
            "guest-net: ib0 is not ready after 1 s: state 4: ACTIVE, LID 0x0",
            "guest-net: ib0 is not ready after 1 s: state 4: ACTIVE, LID 0x1, IPoIB unknown"])


class Trouble(unittest.TestCase):
    """No failure is taken for success."""

    PROVOKE = "echo {} >/sys/kernel/debug/provoke-crash/DIRECT; echo done"

    def test_kernel_warning_fails_successful_command(self):
        done = boot("sh", "-c", self.PROVOKE.format("WARNING"))
        self.assertEqual((done.returncode, done.stdout), (70, b"done\n"))
        self.assertRegex(done.stderr, rb"(?s)boot: guest: the kernel complained: WARNING: .*"
                         rb"cut here.*lkdtm_WARNING.*end trace")

    # runs: full
    def test_allowed_warning_leaves_status_0(self):
        done = boot("--allow", "lkdtm_WARNING", "sh", "-c", self.PROVOKE.format("WARNING"))
        self.assertEqual((done.returncode, done.stderr), (0, SAYS_OURS))

    # runs: full
    def test_failed_command_keeps_status_after_warning(self):
        done = boot("sh", "-c", self.PROVOKE.format("WARNING") + "; exit 5")
        self.assertEqual(done.returncode, 5)
        self.assertIn(b"the kernel complained", done.stderr)

    def test_panic_gives_125_and_report(self):
        done = boot("sh", "-c", self.PROVOKE.format("PANIC"))
        self.assertEqual(done.returncode, 125)
        self.assertRegex(done.stderr, rb"(?s)Kernel panic - not syncing: dumptest.*"
                         rb"boot: guest: kernel panic: dumptest\n$")

    # runs: full
    def test_oops_gives_125_and_report_at_once(self):
        for kind, head in (("EXCEPTION", "BUG: kernel NULL pointer dereference, address: 0+"),
                           ("BUG", r"kernel BUG at \S+bugs.c:\d+!")):
            with self.subTest(kind=kind):
                began = time.monotonic()
                done = boot("sh", "-c", f"({self.PROVOKE.format(kind)}) & sleep 1000")
                self.assertLess(time.monotonic() - began, patience(60))
                self.assertEqual(done.returncode, 125)
                self.assertRegex(done.stderr.decode(), rf"(?s)the kernel complained: {head}\n.*"
                                 rf"lkdtm_{kind}\+0x.*end trace.*"
                                 rf"boot: guest: kernel oops: {head}\n$")

    def test_timeout_gives_124_and_backtraces(self):
        began = time.monotonic()
        done = boot("--timeout", "8", "sleep", "1000")
        self.assertEqual(done.returncode, 124)
        self.assertLess(time.monotonic() - began, patience(40))
        self.assertIn(b"still running after 8 s", done.stderr)
        # The backtraces are longer than the tail that is shown.
        log = re.search(rb"the end of (\S+/console.log)", done.stderr)[1]
        with open(os.path.join(os.fsencode(TOP), log), "rb") as file:
            self.assertRegex(file.read(), rb"(?s)sysrq: Show Blocked State.*"
                             rb"sysrq: Show backtrace of all active CPUs")

    # runs: full
    def test_unknown_qemu_device_gives_125_and_message(self):
        done = boot("-d", "no-such-device", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"'no-such-device' is not a valid device", done.stderr)

    def test_emulated_kernel_need_not_measure_its_counter(self):
        """What it measures is wrong now and then, and its clock then too fast (tsc.py)."""
        log = boot("dmesg", env={**os.environ, "MRFD_ACCEL": "tcg"}).stdout.decode()
        khz = round(float(re.search(r"tsc: Detected ([0-9.]+) MHz", log)[1]) * 1000)
        if tsc.khz():
            self.assertAlmostEqual(khz, tsc.khz(), delta=khz // 1000)
            self.assertNotIn("PIT calibration", log)
        self.assertEqual("tsc_early_khz=" in log, bool(tsc.khz()))

    def test_counter_that_nobody_can_read_has_no_rate(self):
        with unittest.mock.patch.object(tsc.mmap, "mmap", side_effect=PermissionError):
            self.assertIsNone(tsc.khz.__wrapped__())
        cpuinfo = unittest.mock.mock_open(read_data="flags\t: fpu tsc\n")
        with unittest.mock.patch("builtins.open", cpuinfo):
            self.assertIsNone(tsc.khz.__wrapped__())

    def test_interrupt_gives_130_and_leaves_no_process(self):
        token = f"mrfd.test=interrupt-{os.getpid()}"
        process = start_boot("--append", token, "sh", "-c", "echo here; sleep 1000")
        self.assertTrue(qemus(token))
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(patience(20)), 130)
        process.communicate()
        self.assertEqual(qemus(token), [])

    # runs: full
    def test_killed_boot_leaves_no_process(self):
        token = f"mrfd.test=kill-{os.getpid()}"
        process = start_boot("--append", token, "sh", "-c", "echo here; sleep 1000")
        self.assertTrue(qemus(token))
        process.kill()
        process.communicate()
        end = time.monotonic() + patience(10)
        while qemus(token) and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(qemus(token), [])


# Say hello to the other guests, in packets of the full MTU, until each has been
# heard; then for a moment more, for those that came up later.
GREET = """
import os, socket, time
me, count = int(os.environ["MRFD_GUEST"]), int(os.environ["MRFD_GUESTS"])
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", 7))
s.settimeout(0.1)
heard, end = set(), time.monotonic() + 10 * float(os.environ["MRFD_PATIENCE"])
while time.monotonic() < end:
    for n in set(range(count)) - {me}:
        for host in f"fd00::{n + 1}", f"::ffff:10.0.0.{n + 1}", f"guest{n}":
            try:
                s.sendto(b"x" * 4000, (host, 7))
            except OSError:
                pass
    try:
        data, (host, *_) = s.recvfrom(9000)
        heard.add((host.replace("::ffff:", ""), len(data)))
    except TimeoutError:
        pass
    if len(heard) == 2 * (count - 1):
        end = min(end, time.monotonic() + 1.5)
print("heard", *sorted(host for host, size in heard))
"""


def greeting():
    """The options that give GREET to the guests."""
    return "-e", f"GREET={GREET}", "-e", f"MRFD_PATIENCE={patience(3):.1f}"


class SeveralGuests(unittest.TestCase):
    """Guests on one network."""

    def test_two_guests_reach_each_other_and_have_rxe(self):
        done = boot("--guests", "2", "--rxe", *greeting(), "sh", "-c",
                    'rdma link show; python3 -c "$GREET"')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for number in 0, 1:
            self.assertIn(b"guest%d: link rxe0/1 state ACTIVE physical_state LINK_UP netdev eth0"
                          % number, done.stdout)
            self.assertIn(b"guest%d: heard 10.0.0.%d fd00::%d\n"
                          % (number, 2 - number, 2 - number), done.stdout)

    # runs: full
    def test_three_guests_run_own_commands_and_devices(self):
        greet = 'ls /dev/dri; python3 -c "$GREET"'
        done = boot(*greeting(), "sh", "-c", greet, ":::", "-d", "bochs-display",
                    "sh", "-c", greet, ":::", "-c", "1", "sh", "-c", greet + "; nproc")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.decode().split("\n")
        self.assertIn("guest0: heard 10.0.0.2 10.0.0.3 fd00::2 fd00::3", lines)
        self.assertIn("guest1: heard 10.0.0.1 10.0.0.3 fd00::1 fd00::3", lines)
        self.assertIn("guest2: heard 10.0.0.1 10.0.0.2 fd00::1 fd00::2", lines)
        self.assertEqual([line for line in lines if "card1" in line], ["guest1: card1"])
        self.assertIn("guest2: 1", lines)

    # runs: full
    def test_failed_guest_ends_the_others(self):
        began = time.monotonic()
        done = boot("sleep", "1000", ":::", "sh", "-c", "exit 9")
        self.assertEqual(done.returncode, 9)
        self.assertLess(time.monotonic() - began, patience(40))
        self.assertIn(b"guest0: stopped", done.stderr)


class FromPython(unittest.TestCase):
    """The module, as other programs of the kit use it."""

    def test_host_and_guest_take_turns(self):
        script = "echo ready; read x; echo got $x; read y || echo no more"
        with machine.Guest(["sh", "-c", script], stdin=True) as guest:
            guest.wait_for(rb"^ready$")
            guest.send(b"this\n")
            self.assertEqual(guest.wait_for(rb"^got (.*)$")[1], b"this")
            guest.stop()
        self.assertEqual((guest.status, guest.why), (143, "stopped"))

    # runs: full
    def test_host_takes_screenshot_and_pulls_device_out(self):
        script = "ls /dev/dri; until ! [ -e /dev/dri/card1 ]; do sleep 0.1; done; echo gone"
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "screen.png")
            with machine.Guest(["sh", "-c", script],
                                 devices=["bochs-display,id=screen,bus=port0"]) as guest:
                guest.wait_for(rb"^card1$")
                guest.screendump(path)
                guest.device_del("screen")
                guest.wait_for(rb"^gone$")
            with open(path, "rb") as f:
                self.assertEqual(f.read(8), b"\x89PNG\r\n\x1a\n")
        self.assertEqual((guest.status, guest.reports), (0, []))

    # runs: full
    def test_slowly_read_output_arrives_whole(self):
        # This much fits into the queue between the guest and QEMU; QEMU ends with the guest.
        guest = machine.Guest(["head", "-c", "3000000", "/dev/zero"],
                              output=lambda data: time.sleep(len(data) / 1e6)).run()
        self.assertEqual((guest.status, guest.why, len(guest.output)), (0, None, 3000000))

    # runs: full
    def test_qemu_that_outlives_its_guest_is_ended(self):
        class Outliving(machine.Guest):
            def _qemu_words(self, *args):
                return [*super()._qemu_words(*args), "-no-shutdown"]
        guest = Outliving(["sh", "-c", "exit 7"]).run()
        self.assertEqual((guest.status, guest.why), (7, None))
        guest = Outliving(["true"], devices=CONNECTX.qemu).run()  # the model may be the cause
        self.assertEqual((guest.status, guest.why), (124, "did not power off"))

    # runs: full
    def test_wait_for_missing_output_raises_boot_error(self):
        with machine.Guest(["true"]) as guest:
            with self.assertRaisesRegex(products.BootError, "before it ended"):
                guest.wait_for(b"never")


KASAN = """\
[    4.1] ==================================================================
[    4.2] BUG: KASAN: slab-use-after-free in f+0x1/0x2
[    4.3] Read of size 8 at addr ffff888 by task sh/1
[    4.4] Call Trace:
[    4.5]  <TASK>
[    4.6]  f+0x1/0x2
[    4.7]  </TASK>
[    4.8] Allocated by task 1:
[    4.9]  g+0x1/0x2
[    5.0] =================================================================="""

LOCKDEP = """\
[    4.1] ======================================================
[    4.2] WARNING: possible circular locking dependency detected
[    4.3] 7.3.4 #1 Not tainted
[    4.4] ------------------------------------------------------
[    4.5] sh/1 is trying to acquire lock:
[    4.6] stack backtrace:
[    4.7] Call Trace:
[    4.8]  <TASK>
[    4.9]  </TASK>"""

HUNG = """\
[  184.1] INFO: task sh:1 blocked for more than 60 seconds.
[  184.2]       Not tainted 7.3.4 #1
[  184.3] task:sh              state:D stack:0     pid:1
[  184.4] Call Trace:
[  184.5]  <TASK>
[  184.6]  </TASK>"""

LEAK = """\
[   20.1] kmemleak: unreferenced object 0xffff888012345678 (size 64):
[   20.2] kmemleak:   comm "sh", pid 1, jiffies 4294937296
[   20.3] kmemleak:   backtrace (crc 0):
[   20.4] kmemleak:     f+0x1/0x2
[   20.5] kmemleak: 1 new suspected memory leaks (see /sys/kernel/debug/kmemleak)"""

LINE = "[    9.9] DMA-API: device driver frees DMA memory with different size"


class Console(unittest.TestCase):
    """The search for complaints in a console log."""

    def check(self, *texts):
        """Each of the texts is one whole report; the lines between them are none."""
        log = "[    1.0] fine\r\n" + "\n[    1.1] fine too\n".join(texts) + "\n[  200.0] and fine\n"
        found = console.reports(log)
        strip = [re.sub(r"(?m)^\[ *[\d.]+\] ", "", text) for text in texts]
        self.assertEqual([report.text for report in found], strip)

    def test_each_report_is_found_from_first_to_last_line(self):
        for text in KASAN, LOCKDEP, HUNG, LEAK, LINE:
            self.check(text)

    def test_several_reports_are_told_apart(self):
        self.check(KASAN, LINE, LOCKDEP, HUNG, LEAK, LINE, KASAN)

    def test_healthy_log_has_no_reports(self):
        log = ("[    0.0] Command line: panic=-1 WARNING: BUG:\n"
               "[    0.1] DMA-API: preallocated 65536 debug entries\n"
               "[    0.2] Lock dependency validator: Copyright (c) 2006 Red Hat, Inc.\n"
               "[    0.3] kmemleak: Kernel memory leak detector initialized\n"
               "[    0.4] lkdtm: Performing direct entry WARNING\n"
               "[    0.5] ODEBUG: selftest passed\n")
        self.assertEqual(console.reports(log), [])

    def test_data_race_is_ours_if_a_last_call_is(self):
        for call, deep, elsewhere in (("rxe_mr_copy", "vfs_write", False),
                                      ("list_add", "ib_umem_fd_get", False),
                                      ("list_add", "vfs_write", True)):
            race = (f"{'=' * 66}\nBUG: KCSAN: data-race in f / {call}\n\n"
                    "write to 0xff of 8 bytes by task 1 on cpu 0:\n f+0x1/0x2\n g+0x1/0x2\n\n"
                    f"read to 0xff of 8 bytes by interrupt on cpu 1:\n {call}+0x1/0x2\n"
                    f" {deep}+0x1/0x2\n h+0x1/0x2\n ib_uverbs_ioctl+0x1/0x2\n{'=' * 66}")
            report, = console.reports(race)
            self.assertEqual(console.race_elsewhere(report), elsewhere, call)
        self.assertFalse(console.race_elsewhere(console.reports(KASAN)[0]))

    def test_death_names_the_oops_or_the_panic(self):
        panic = "[    5.1] Kernel panic - not syncing: {}\n[    5.2] Kernel Offset: disabled\n"
        oops = ("[    4.1] kernel BUG at f.c:1!\n[    4.2] Oops: invalid opcode: 0000 [#1] SMP\n"
                "[    4.3] Call Trace:\n[    4.4]  <TASK>\n[    4.5]  </TASK>\n"
                "[    4.6] ---[ end trace 0000000000000000 ]---\n")
        for text, wanted in (
                (oops + panic.format("Fatal exception"), "kernel oops: kernel BUG at f.c:1!"),
                (oops + panic.format("Fatal exception in interrupt"),
                 "kernel oops: kernel BUG at f.c:1!"),
                (LINE + "\n" + panic.format("Attempted to kill init!"),
                 "kernel panic: Attempted to kill init!"),
                (panic.format("Fatal exception"), "kernel panic: Fatal exception"),
                (HUNG, None), ("", None)):
            self.assertEqual(console.death(text), wanted)

    def test_allow_matches_the_head_line_only(self):
        self.assertEqual(console.reports(KASAN, ["slab-use-after-free in f"]), [])
        self.assertEqual(len(console.reports(KASAN, ["Allocated by"])), 1)


if __name__ == "__main__":
    unittest.main()
