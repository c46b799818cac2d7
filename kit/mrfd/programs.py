# SPDX-License-Identifier: GPL-2.0-or-later
"""The test programs: find them, build what they need, run them.

A program is one process, on the host or in a guest: a file of host tests, one of the
ConnectX model's unit tests or fuzz programs, a guest program on one device, a module of
rdma-core's suite, KUnit, the demo.  cases() reads the names of its cases from its source.
With wanted it runs only these cases, by the options of its own harness.  Nothing is built
to find the programs; build() builds what the selected ones need.

A program runs at one of two depths.  Quick leaves out the cases that are marked for the
full runs only (see sources.py), and MRFD_DEPTH in its environment tells it which it is,
for what it repeats.
"""

import copy
import functools
import glob
import os
import re
import shlex
import subprocess
import sys
import threading

from mrfd import environment
from mrfd import heads
from mrfd import machine
from mrfd import pool
from mrfd import processes
from mrfd import products
from mrfd import sources
from mrfd.cases import Cmocka, Kunit, Reader, Tap, Unittest
from mrfd.devices import DEVICES, RXE
from mrfd.machine import GUEST
from mrfd.paths import BUILD, SCRIPTS, TOP, inside

TESTS = os.path.join(TOP, "tests")
MODEL = os.path.join(TOP, "devices/connectx")
OUT = os.path.join(BUILD, "tests")  # what is built of tests/
# The folders of tests/ without guest programs.
NOT_CASES = {"host", "lib", "bench", "gpu", "guests", "kernel_dm", "steps", "importer",
             "dmabuf_test", "ucx", "mpi", "hsa"}
# Exporters of every kind: see tests/lib/memory.h.
EXPORTERS = ["qxl", "virtio-gpu"]
# The modules of the kernel that a guest may be given: by the word at the head of a test
# what builds it and the variable for its path.
MODULES = {"steps": ("steps", "MRFD_STEPS"), "kernel-dm": ("kernel-dm", "MRFD_KERNEL_DM")}
# Those that a guest loads before its programs start: the word is the program that builds it.
LOADED = ("importer",)
# The test exporter, which is a part of our kernels.
EXPORTER = ("dmabuf-test", "--stock")
# What the driver says once when the device has refused a work request of its own.
UMR_REFUSED = r"umr\.c:\d+ at mlx5r_umr_post_send_wait\+"
# Tests of rdma-core for the hardware of one vendor.
VENDOR = re.compile(r"test_(mlx5|efa|irdma|hns|cuda)")

@functools.cache  # a run uses one build of each, even if a source is edited meanwhile
def product(*command):
    """The directory that a program of the kit builds, as a path inside."""
    return inside(products.tool(*command))


def guest_options(kernel, device, **more):
    """Options of Guest for a guest with the device; the device is connected to itself."""
    env = {**device.env(), "PYTHONDONTWRITEBYTECODE": "1", **more.pop("env", {})}
    if "MRFD_SEED" in os.environ:
        env["MRFD_SEED"] = os.environ["MRFD_SEED"]
    return {"kernel": kernel, "setup": machine.network_setup(0, 1, device),
            "append": " ".join(filter(None, (device.append, more.pop("append", "")))),
            "devices": [*device.qemu, *more.pop("devices", ())], "model": device.model, "env": env,
            "allow": device.allow, **more}


def test_guest(kernel, device, *programs, gpu=False, **more):
    """Options of Guest for our own programs: with every exporter, perhaps the GPU of the
    tests, and with what these programs of the kit build on the path."""
    env = environment.of_our_libraries(product("rdma-core"), *map(product, programs))
    return guest_options(kernel, device, devices=EXPORTERS + ["gpu"] * gpu,
                         env={**env, **dict(device.settings)}, **more)


class Program:
    """One program; the kinds of it are below."""

    dialect = Tap
    needs = ()      # what scripts/ builds for it
    gpu = False     # whether its guest has the GPU of the tests
    target = None   # what make builds for it in OUT
    wanted = ()     # the cases to run; empty: all
    full = True     # its depth

    def __init__(self, name, kernel, device=None, head=heads.Head(("quick",))):
        self.name, self.kernel, self.device, self.head = name, kernel, device, head
        self.title = f"{device.name}/{name}" if device else name

    def cases(self):
        """{name of a case, by its source: whether only full runs have it}"""
        raise NotImplementedError

    def words(self):
        """The command, once everything is built."""
        raise NotImplementedError

    def guest(self):
        """Options of the Guest that it runs in; None: it runs on the host."""
        return None

    @property
    def cpus(self):
        """How many its guests have.  In a quick run a program that does not need two has one,
        since two guests of one CPU, beside each other, do more than one of two.  A full run,
        and one that looks for data races, has it on two."""
        few = self.kernel != "kcsan" and not self.full and "smp" not in self.head.guest
        return 1 if few else machine.CPUS

    def select(self, wanted):
        """The same program with these cases only."""
        some = copy.copy(self)
        some.wanted = tuple(wanted)
        return some

    def quick(self):
        """The same program at the quick depth."""
        cases = self.cases()
        some = self.select([case for case, full in cases.items() if not full]
                           if any(cases.values()) else ())
        some.full = False
        return some

    @property
    def depth(self):
        return "full" if self.full else "quick"

    def run(self, tell, guests):
        """Its Cases, each given to tell() too; guests is a pool.Guests."""
        reader = Reader(self.name, self.dialect, tell, self.device.name if self.device else "",
                        self.wanted)
        options = self.guest()
        if options is None:
            self._run_here(reader)
        else:
            words = ["env", f"MRFD_DEPTH={self.depth}",
                     f"MRFD_PATIENCE={machine.patience(3):.1f}", *self.words()]
            guests.run(self.title, words, options, reader)
        return reader.cases

    def _run_here(self, reader):
        with subprocess.Popen(self.words(), cwd=TOP, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "MRFD_KERNEL": self.kernel,
                                   "MRFD_DEPTH": self.depth,
                                   "MRFD_CPUS": str(self.cpus)}) as process:
            limit, late = machine.patience(pool.LIMIT), threading.Event()

            def expire():
                late.set()
                processes.end_below(process.pid)
                process.kill()
            timer = threading.Timer(limit, expire)
            timer.daemon = True
            timer.start()
            try:
                for line in process.stdout:
                    reader(line)
            finally:
                timer.cancel()
        reader.end(process.returncode, late.is_set() and f"still running after {limit:.0f} s")


class Host(Program):
    """A file of the kit's own tests.  One that needs a kernel builds it; MRFD_KERNEL in its
    environment names the kernel of the run."""

    dialect = Unittest

    def __init__(self, name, kernel):
        self.path = os.path.join(TESTS, f"host/test_{name}.py")
        super().__init__(f"host/{name}", kernel, head=heads.read(self.path)[0])
        self.module = f"tests.host.test_{name}"

    def cases(self):
        return sources.unittest_cases(self.path, self.module)

    def words(self):
        return [sys.executable, "-m", "unittest", "-v", *(self.wanted or [self.module])]


class Model(Program):
    """A file of the ConnectX model's unit tests.  All its cases run, whichever are wanted."""

    dialect = Cmocka
    needs = "connectx --test",

    def __init__(self, path, kernel):
        self.path, self.file = path, os.path.basename(path)[:-len(".c")]
        super().__init__(f"model/{self.file.removeprefix('test_')}", kernel,
                         head=heads.read(path)[0])

    def cases(self):
        return sources.cmocka_cases(self.path)

    def words(self):
        return [os.path.join(SCRIPTS, "enter"), "env", "CMOCKA_MESSAGE_OUTPUT=tap",
                f"{product('connectx', '--test')}/{self.file}"]


class Fuzz(Program):
    """A fuzz program of the ConnectX model: the inputs of its corpus, then changes of them.
    An input that breaks something ends the program, and is left in build/."""

    needs = Model.needs
    CHANGES = {"quick": 1000, "full": 20000}

    def __init__(self, path, kernel):
        self.path, self.file = path, os.path.basename(path)[:-len(".c")]
        super().__init__(f"model/{self.file}", kernel, head=heads.read(path)[0])

    def cases(self):
        return dict.fromkeys(["corpus", "changed_inputs"], False)

    def words(self):
        seed = [f"-seed={os.environ['MRFD_SEED']}"] if "MRFD_SEED" in os.environ else []
        built = product("connectx", "--test")
        return [os.path.join(SCRIPTS, "enter"), f"{built}/{self.file}",
                f"-runs={self.CHANGES[self.depth]}", *seed,
                f"-artifact={inside(os.path.join(BUILD, self.file))}.crash",
                f"{built}/corpus/{self.file}"]


class Demo(Program):
    """The demo is one case: the screen matches or it does not."""

    class dialect(Tap):
        def read(self, line):
            self.planned = 1
            if line.strip().startswith("screen matches: "):
                result = "ok" if line.endswith(" yes") else "not ok"
                return self._case(Demo.CASE, result, line.strip())
            self.lines.append(line)
            return None

    CASE = "the screen shows what was sent"
    needs = "rdma-core", "kernel"

    def cases(self):
        return {self.CASE: False}

    def words(self):
        return [os.path.join(SCRIPTS, "demo")]


class GuestProgram(Program):
    """tests/FOLDER/NAME.c, in the kernel's harness, or NAME.py, unittest."""

    def __init__(self, path, kernel, device, head):
        name, kind = os.path.splitext(os.path.relpath(path, TESTS))
        super().__init__(name, kernel, device, head)
        self.path, self.compiled = path, kind == ".c"
        self.module = f"tests.{name.replace('/', '.')}"
        self.needs = ["rdma-core", "kernel"]
        self.gpu = "gpu" in head.guest
        if self.compiled:
            self.target = name
        else:
            self.dialect = Unittest
        if "perftest" in head.guest:
            self.needs.append("perftest")
        self.modules = {MODULES[word][1]: (MODULES[word][0], *products.KERNELS[kernel])
                        for word in head.guest if word in MODULES}
        self.loaded = [(word, *products.KERNELS[kernel]) for word in head.guest if word in LOADED]
        if kernel == "stock":
            self.loaded.append(EXPORTER)
        self.needs.extend(map(shlex.join, (*self.modules.values(), *self.loaded)))

    def cases(self):
        if self.compiled:
            return sources.c_cases(self.path, TESTS)
        return sources.unittest_cases(self.path, self.module)

    def words(self):
        if not self.compiled:  # unittest looks for its modules where it is called
            return ["env", "-C", inside(TOP), "python3", "-m", "unittest", "-v",
                    *(self.wanted or [self.module])]
        return [inside(os.path.join(OUT, self.name)),
                *(f"-r{case if '.' in case else f'global.{case}'}" for case in self.wanted)]

    def guest(self):
        guest = test_guest(self.kernel, self.device, *(x for x in self.needs if x == "perftest"),
                           gpu=self.gpu, cpus=self.cpus,
                           append="swiotlb=force" if "bounce" in self.head.guest else "")
        guest["env"].update({name: product(*tool) for name, tool in self.modules.items()})
        for tool in self.loaded:
            guest["setup"] = [f"{GUEST}/load", product(*tool), *guest["setup"]]
        if "MRFD_STEPS" in self.modules:
            guest["allow"] = (*guest["allow"], UMR_REFUSED)
        return guest


class Kcsan(Program):
    """After the guest programs, in the same guest: check that KCSAN was at work."""

    needs = "rdma-core", "kernel"

    def __init__(self, kernel, device):
        super().__init__("kcsan", kernel, head=heads.Head(("kcsan",)))
        self.after = device

    def cases(self):
        return {"races were looked for": False}

    def words(self):
        return [f"{GUEST}/kcsan"]

    def guest(self):
        return test_guest(self.kernel, self.after)


class KunitProgram(Program):
    """The kernel's own unit tests, which run when it boots."""

    dialect = Kunit
    needs = "kernel",

    def __init__(self, kernel, device):
        super().__init__("kunit", kernel, head=heads.Head(("quick", "debug")))
        self.boots = device

    def cases(self):
        paths = sorted(glob.glob(os.path.join(TOP, "kernel/**/*.c"), recursive=True))
        return {case: False for path in paths for case in sources.kunit_cases(path)}

    def words(self):
        names = self.wanted or self.cases()
        return [f"{GUEST}/kunit", *sorted({case.split(": ")[0] for case in names})]

    def guest(self):
        append = "kunit.enable=1 kunit.autorun=1"
        if len(self.wanted) == 1:  # there is one pattern only: for more, whole suites run
            append += " kunit.filter_glob=" + ".".join(self.wanted[0].split(": "))
        return guest_options(self.kernel, self.boots, append=append)


class Suite(Program):
    """A module of rdma-core's own suite, in a process of its own, with huge pages."""

    dialect = Unittest

    def __init__(self, path, kernel, device, flags, head):
        self.module = os.path.basename(path).removesuffix(".py")
        super().__init__(f"rdma-core/{self.module}", kernel, device, head)
        self.path, self.rdma = path, ("rdma-core", *flags)
        self.needs = [shlex.join(self.rdma), "kernel"]

    def cases(self):
        return sources.unittest_cases(self.path, f"tests.{self.module}")

    def words(self):
        return [f"{product(*self.rdma)}/bin/run_tests.py", "-v",
                *(self.wanted or [f"tests.{self.module}"])]

    def guest(self):
        return guest_options(self.kernel, self.device, append="hugepages=64",
                             cpus=self.cpus)


def guest_programs(kernel, device):
    """tests/*/*.c and *.py; a file that has a .h file is a helper."""
    for path in sorted(glob.glob(os.path.join(TESTS, "*/*"))):
        name, kind = os.path.splitext(path)
        folder = os.path.basename(os.path.dirname(path))
        if kind not in (".c", ".py") or folder in NOT_CASES or os.path.exists(f"{name}.h"):
            continue
        head = heads.of_device(path, device.word)
        if head:
            yield GuestProgram(path, kernel, device, head)


def suite(kernel, device, stock=False):
    """rdma-core's suite, of the stock source or of the patched one."""
    flags = ["--stock"] if stock else []
    paths = {os.path.basename(path).removesuffix(".py"): path for path in sorted(
        glob.glob(os.path.join(products.tool("join", *flags, "rdma-core"), "tests/test_*.py")))}
    runs = heads.suite()
    missing = {*runs} - {*paths} if not stock else ()
    if missing:
        raise heads.BadHead(f"tests/rdma-core.runs names {' '.join(sorted(missing))}, which "
                            "rdma-core's suite does not have")
    for module, path in paths.items():
        vendor = VENDOR.match(module)
        if vendor and vendor[1] != device.vendor:
            continue
        if module not in runs:
            raise heads.BadHead(f"tests/rdma-core.runs does not name {module}: add it")
        for head in runs[module]:
            if device.word in head.devices:
                yield Suite(path, kernel, device, flags, head)


def ours(kernel):
    """The programs of this project: all but rdma-core's suite."""
    for path in sorted(glob.glob(os.path.join(TESTS, "host/test_*.py"))):
        yield Host(os.path.basename(path)[len("test_"):-len(".py")], kernel)
    for path in sorted(glob.glob(os.path.join(MODEL, "test/*/test_*.c")), key=os.path.basename):
        yield Model(path, kernel)
    for path in sorted(glob.glob(os.path.join(MODEL, "fuzz/fuzz_*.c"))):
        yield Fuzz(path, kernel)
    yield KunitProgram(kernel, DEVICES[0])
    for device in DEVICES:
        yield from guest_programs(kernel, device)
    yield Kcsan(kernel, RXE)
    yield Demo("demo", kernel)


def theirs(kernel):
    """rdma-core's suite; its source is fetched if it is not there."""
    for device in DEVICES:
        yield from suite(kernel, device)


def build_tests(targets, root="kit"):
    """Build these programs of tests/ (folder/name) in this userland of products.ROOTS; the
    directory that has them."""
    linux, out = inside(products.tool("join", "linux")), inside(OUT)
    enter = [os.path.join(SCRIPTS, "enter"), *products.ROOTS[root][1:]]
    made = subprocess.run([*enter, "make", "-s", f"-j{os.cpu_count()}",
                           "-C", inside(TESTS), f"OUT={out}", f"LINUX={linux}",
                           f"RDMA={product('rdma-core')}", *(f"{out}/{t}" for t in targets)],
                          check=False)
    if made.returncode:
        raise products.BootError("tests/ does not compile, see above")
    return out


def build(programs):
    """Build what these programs need, and nothing else."""
    needs = {need: program.kernel for program in programs
             for need in (*program.needs, *(program.device.needs if program.device else ()))}
    for need, kernel in needs.items():
        if need == "kernel":
            products.kernel_image(kernel)
        else:
            product(*shlex.split(need))
    if "kernel" in needs:  # made here, before two threads could do it at once
        products.init_program()
        machine.accelerator()
    for kernel in {p.kernel for p in programs if p.device and p.device.qemu}:  # a ConnectX
        products.kernel_modules(kernel)
    for kernel in {program.kernel for program in programs if program.gpu}:
        products.gpu_module(kernel)
    targets = [program.target for program in programs if program.target]
    if targets:
        build_tests(dict.fromkeys(targets))
