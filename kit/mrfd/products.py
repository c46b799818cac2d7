# SPDX-License-Identifier: GPL-2.0-or-later
"""What the programs of the kit make: a kernel's image and modules, the model, a project's
libraries.  A program of the kit makes its product if it is not there or is old, shows how far
it is, and prints the product's path; these functions run it and return that path.

What a guest boots from is asked for once in a process, so all its guests get the same, even if
somebody builds another meanwhile.
"""

import functools
import lzma
import os
import signal
import subprocess
import tempfile
import time

from mrfd import processes
from mrfd.paths import SCRIPTS, TOP, inside

KERNELS = {"base": [], "debug": ["--debug"], "kcsan": ["--kcsan"], "symbols": ["--symbols"],
           "stock": ["--stock"], "modular": ["--modular"]}
# The kernel of the distribution, as it is, by the program that gets it.
NAMED = {**{name: ["kernel", *options] for name, options in KERNELS.items()},
         "debian": ["debian-kernel"]}
# Kernels of which every guest needs modules.
WITH_MODULES = ("modular", "debian")
# The userlands of guests, by the program that makes them.
ROOTS = {"kit": ["rootfs"], "programs": ["rootfs", "--programs"]}
# Of Debian's kernel, what finds the root of a guest and its ports.
BOOT_MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay")


class BootError(Exception):
    """A guest could not be started, or what it needs could not be made; the text says why."""


def tool(*command, where=SCRIPTS):
    """The one line that a program of the kit prints."""
    with subprocess.Popen([os.path.join(where, command[0]), *command[1:]],
                          stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.communicate()[0].strip()
        except BaseException:  # its build is a process group of its own
            processes.end_below(process.pid)
            process.terminate()
            raise
    if process.returncode:
        name = os.path.relpath(os.path.join(where, command[0]), TOP)
        raise BootError(f"{' '.join([name, *command[1:]])} failed")
    return line


def tools(*commands):
    """What tool() returns of each command; they run side by side.  If one fails, or this is
    interrupted, the others end.  Each has a process group, so that all of it can be ended."""
    def runs(program):
        return program.poll() is None

    def failed(program):
        return bool(program.poll())

    with tempfile.TemporaryDirectory(prefix="mrfd-steps-") as steps:
        running = [subprocess.Popen([os.path.join(SCRIPTS, command[0]), *command[1:]], text=True,
                                    stdout=subprocess.PIPE, process_group=0,
                                    env={**os.environ, "MRFD_STEPS": steps})
                   for command in commands]
        try:
            while not any(map(failed, running)) and any(map(runs, running)):
                time.sleep(0.1)
            blame = [command for command, program in zip(commands, running) if failed(program)]
        finally:
            for program in filter(runs, running):
                os.killpg(program.pid, signal.SIGTERM)
            lines = [program.communicate()[0].strip() for program in running]
    if blame:
        raise BootError(f"scripts/{' '.join(blame[0])} failed")
    return lines


def check_kernel(kernel):
    """BootError if that is neither the name of a kernel nor the path of an image."""
    if kernel in NAMED:
        return
    try:
        with open(kernel, "rb") as f:
            head = f.read(0x206)
    except FileNotFoundError:
        raise BootError(f"no kernel {kernel!r}: it is neither one of {', '.join(NAMED)} "
                        "nor a file") from None
    except OSError as error:
        raise BootError(f"cannot read the kernel {kernel}: {error.strerror}") from None
    if head[0x202:] != b"HdrS":
        raise BootError(f"{kernel} is not a kernel: it must be a bzImage")


@functools.cache  # all guests of a program get the same kernel, even if it is rebuilt meanwhile
def kernel_image(kernel="base"):
    """The path of a kernel's image, by name (it is built if needed) or by path."""
    check_kernel(kernel)
    return tool(*NAMED[kernel]) if kernel in NAMED else kernel


@functools.cache
def kernel_modules(kernel="base"):
    """The directory of a kernel's modules, as a path inside; they are built if needed."""
    image = tool(*NAMED[kernel], "--modules") if kernel in KERNELS else kernel_image(kernel)
    return inside(os.path.join(os.path.dirname(image), "modules"))


@functools.cache
def kernel_config(kernel="base"):
    """The configuration of a kernel that has a name, as a path inside; None: it is not known."""
    if kernel not in NAMED:
        return None
    name = ".config" if kernel in KERNELS else "config"
    return inside(os.path.join(os.path.dirname(kernel_image(kernel)), name))


def module_name(path):
    """The name by which the kernel knows the module at path."""
    return os.path.basename(path).split(".")[0].replace("-", "_")


@functools.cache
def boot_modules(kernel="base"):
    """[(name, content)] of the modules that a guest's first process has to load, in the order
    in which it can; the kit's kernels need none."""
    if kernel != "debian":
        return []
    where = os.path.join(os.path.dirname(kernel_image(kernel)), "modules")
    with open(os.path.join(where, "modules.dep"), encoding="utf-8") as f:
        needs = dict(line.strip().split(":") for line in f)
    with open(os.path.join(where, "modules.builtin"), encoding="utf-8") as f:
        built_in = {module_name(line.strip()) for line in f}
    paths = {module_name(path): path for path in needs}
    order = {}
    for name in BOOT_MODULES:
        if name in built_in:
            continue
        if name not in paths:
            raise BootError(f"the kernel {kernel} has no {name}, without which the kit's guests "
                            f"do not start: {where}")
        # modules.dep has what is needed last at the end of the line
        for path in (*reversed(needs[paths[name]].split()), paths[name]):
            order[path] = None
    found = []
    for path in order:
        with lzma.open(os.path.join(where, path)) as f:
            found.append((os.path.basename(path).removesuffix(".xz"), f.read()))
    return found


@functools.cache
def gpu_module(kernel="base"):
    """The path inside of the module for the GPU of the tests; it is built if needed."""
    if kernel not in KERNELS or kernel == "modular":
        raise BootError("the device gpu has a driver for the kit's kernels only: base, debug, "
                        "kcsan, symbols, stock")
    return inside(tool("gpu", *KERNELS[kernel]))


@functools.cache
def init_program():
    """The path of the guests' first process, compiled if needed."""
    return tool("build", where=os.path.join(TOP, "kit/guest"))


@functools.cache
def model_directory():
    """The directory with the ConnectX model and its fabric, as a path inside; they are built
    if needed."""
    return inside(tool("connectx"))
