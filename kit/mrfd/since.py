# SPDX-License-Identifier: GPL-2.0-or-later
"""Which programs a change may affect: make check SINCE=REV.

Each changed file is followed to what is built of it: the includes of a C test and the
helpers that it links, the driver of a device, the modules that a guest is given, the
imports of a Python test, the guests that a host test boots and the C tests that it runs in
them.  A patch stands for the files that it edits, as it was and as it is.  A file that no
rule knows affects every program, and a part of the kit or of the model all that may use it.
"""

import functools
import glob
import os
import re
import subprocess

from mrfd.devices import DEVICES
from mrfd.paths import INSIDE, TOP

TESTS = os.path.join(TOP, "tests")
# A test of the model includes helpers of its floor and of those below, by their names.
MODEL_TESTS = glob.glob(os.path.join(TOP, "devices/connectx/test/*"))
GUEST_FOLDERS = {"gpu": "gpu", "steps": "steps", "kernel_dm": "kernel-dm",  # of tests/
                 "importer": "importer"}
MLX5 = tuple(device.word for device in DEVICES if device.vendor == "mlx5")
# The directory of a driver or provider: the devices that have it.
KERNEL = ((r"drivers/infiniband/sw/rxe/", ("rxe",)), (r"drivers/infiniband/hw/mlx5/", MLX5))
LIBRARY = ((r"providers/rxe/", ("rxe",)), (r"providers/mlx5/", MLX5))


class NoRevision(Exception):
    """Git does not know the revision."""


def git(*words):
    """What git prints; its lines, or NoRevision."""
    done = subprocess.run(["git", "-c", "safe.directory=*", "-C", TOP, *words], check=False,
                          capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise NoRevision(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def _number(count, noun):
    return f"{count} {noun}{'s' * (count != 1)}"


def changed(revision):
    """The files that differ from a commit, those that git does not track among them."""
    try:
        commit = git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")[0]
    except NoRevision:
        raise NoRevision(f"--since: git knows no such commit: {revision}") from None
    return commit, sorted({*git("diff", "--name-only", "--no-renames", commit),
                           *git("ls-files", "--others", "--exclude-standard")})


# Predicates of programs

def everything(_):
    return True


def nothing(_):
    return False


def named(*expressions):
    """The programs whose names, without their device, match one of these."""
    return lambda program: any(re.fullmatch(e, program.name) for e in expressions)


def on_device(*words):
    return lambda program: bool(program.device) and program.device.word in words


def any_of(*predicates):
    return lambda program: any(predicate(program) for predicate in predicates)


@functools.cache
def _text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def _host_text(program):
    """The source of a host test; of any other program nothing."""
    return _text(program.path) if program.name.startswith("host/") else ""


def boots(program):
    """Whether a host test may boot guests: it does that by these modules, or by a program of
    scripts/ with a time limit of machine.  No line says which kernel and device the guests
    have, so each change of one affects it."""
    return bool(re.search(r"\bmrfd(?: import |\.)(?:fabric|machine|pool|programs)\b"
                          r"|\btests\.host\.model\b", _host_text(program)))


def with_guest(word):
    """The programs whose guest has it: the head says it, or the text of a host test names it."""
    return lambda program: word in program.head.guest or (
        boots(program) and bool(re.search(rf"(?<![A-Za-z]){word}", _host_text(program))))


kernel_code = any_of(lambda program: bool(program.device), named("kunit", "demo"), boots)


# What a file is a part of

@functools.cache
def closure(path):
    """A C source with the local headers that it includes, and of each header the helper
    with its name, which is linked, with its own."""
    found, left = set(), [path]
    while left:
        path = left.pop()
        if path in found or not os.path.exists(path):
            continue
        found.add(path)
        base, _ = os.path.splitext(path)
        left += [f"{base}.c"] if path.endswith(".h") else []
        with open(path, encoding="utf-8") as file:
            for name in re.findall(r'^\s*#\s*include "(.*)"', file.read(), re.MULTILINE):
                others = MODEL_TESTS if os.path.dirname(path) in MODEL_TESTS else [TESTS]
                left += [os.path.normpath(os.path.join(where, name))
                         for where in (os.path.dirname(path), *others)]
    return found


def _compiled(program):
    """The C source of a program, or those of the C tests that a host test builds for its guests:
    the strings "FOLDER/NAME" in its text, or "FOLDER/NAME.VARIANT".  What is no C test has no
    source."""
    path, text = getattr(program, "path", ""), _host_text(program)
    if "build_tests(" in text:
        return [os.path.join(TESTS, f"{name}.c")
                for name in re.findall(r"[\"'](\w+/\w+)[\"'.]", text)]
    return [path] if path.endswith(".c") else []


def compiled_from(path):
    """The C tests that are compiled from this file, and the host tests that run them."""
    full = os.path.join(TOP, path)
    return lambda program: any(full in closure(source) for source in _compiled(program))


def imported_by(path):
    """The Python test in this file, or those that name its module, or its path in a guest."""
    full, module = os.path.join(TOP, path), os.path.splitext(os.path.basename(path))[0]

    def uses(program):
        source = getattr(program, "path", "")
        if source == full or not source.endswith(".py"):
            return source == full
        return bool(re.search(rf"\b(?:import|from) (?:[\w.]+\.)?{module}\b|{INSIDE}/{path}",
                              _text(source)))
    return uses


@functools.cache
def runners():
    """The modules of the kit that run every program and its guest, with those that they import."""
    found, left = set(), ["pool", "programs"]
    while left:
        name = left.pop()
        path = os.path.join(TOP, f"kit/mrfd/{name}.py")
        if name in found or not os.path.exists(path):
            continue
        found.add(name)
        for module, names in re.findall(r"^from mrfd(?:\.(\w+))? import (.*)", _text(path),
                                        re.MULTILINE):
            left += [module] if module else re.findall(r"\w+", names)
    return found


def of_kit(module):
    return everything if module in runners() else kit


def of_tree(path, drivers, rest):
    """A file of a tree with drivers."""
    if re.match(r"Documentation/|.*/man/|.*\.(md|rst|1|3)$", path):
        return nothing
    for start, words in drivers:
        if re.match(start, path):
            return any_of(on_device(*words), named("kunit"), boots)
    return rest


def of_kernel(path):
    return of_tree(path, KERNEL, kernel_code)


def of_library(path):
    if path.startswith("pyverbs/"):
        return named("rdma-core/.*")
    test = re.match(r"tests/(test_\w+)\.py", path)
    if path.startswith("tests/"):
        return named(f"rdma-core/{test[1] if test else '.*'}")
    return of_tree(path, LIBRARY, any_of(on_device("rxe", *MLX5), named("demo"), boots))


def of_perftest(_):
    return any_of(with_guest("perftest"), boots)  # a guest of scripts/boot has it on the path


def of_libfabric(path):
    return of_tree(path, (), named("host/libfabric"))


def of_ucx(path):
    return of_tree(path, (), named("host/hsa", "host/ucx"))


PROJECTS = {"linux": of_kernel, "rdma-core": of_library, "perftest": of_perftest,
            "libfabric": of_libfabric, "ucx": of_ucx}


PATCH_TESTS = "host/join", "host/patches", "host/series", "host/update"  # they read the patches


def of_patch(project, path, commit):
    """The files that a patch edits and edited."""
    texts = []
    if os.path.exists(os.path.join(TOP, path)):
        with open(os.path.join(TOP, path), encoding="utf-8", errors="replace") as file:
            texts.append(file.read())
    try:
        texts.append("\n".join(git("show", f"{commit}:{path}")))
    except NoRevision:
        pass  # it is new
    files = re.findall(r"^(?:---|\+\+\+) [ab]/(\S+)$", "\n".join(texts), re.MULTILINE)
    return any_of(named(*PATCH_TESTS), *map(PROJECTS[project], set(files)))


def of_base(project):
    """Another version of a project: all that its files have to do with."""
    return any_of(kit, PROJECTS[project]("moved"))


model = any_of(on_device(*MLX5), named("model/.*", "host/.*"))
kit = named("host/.*", "demo")
RULES = (  # the first that matches; a group is what the function gets
    (r"patches/(linux|rdma-core|perftest|libfabric|ucx)\b.*\.patch", of_patch),
    (r"patches/(linux|rdma-core|perftest|libfabric|ucx)/base", of_base),
    (r"patches/.*", lambda: kit),
    (r"kernel/(.*)", of_kernel),
    (r"rdma-core/(.*)", of_library),
    (r"perftest/(.*)", of_perftest),
    (r"libfabric/(.*)", of_libfabric),
    (r"ucx/(.*)", of_ucx),
    (r"devices/connectx/fuzz/.*", lambda: named("model/fuzz_.*", "host/.*")),
    (r"(devices/connectx/test/.*\.[ch])", compiled_from),
    (r"devices/connectx/.*", lambda: model),
    (r"(tests/\w+/\w+\.py)", imported_by),
    (r"tests/(gpu|steps|kernel_dm|importer)/.*", lambda name: with_guest(GUEST_FOLDERS[name])),
    (r"tests/(?:host|guests|dmabuf_test)/.*", lambda: kit),
    (r"tests/bench/.*", lambda: named("host/report")),
    (r"tests/hsa/.*", lambda: named("host/hsa", "host/libfabric")),
    (r"tests/(?:expected-.*|rdma-core\.runs)", lambda: named("rdma-core/.*")),
    (r"(tests/.*\.[ch])", compiled_from),
    (r"demo/.*", lambda: named("demo", "host/demo", "host/painter",
                                    "programs/dm_examples")),
    (r"kit/(?:configs|guest|userland).*", lambda: everything),
    (r"kit/mrfd/(\w+)\.py", of_kit),
    (r"kit/.*|scripts/.*|Makefile|\.ci/.*|\.github/.*", lambda: kit),
    (r"README\.md", lambda: named("host/.*", "programs/readme")),
    (r"Documentation/.*|LICENSES/.*|[A-Z]+(\.md)?|\.\w+", lambda *_: named("host/.*")),
)


def rule_of(path, commit):
    """The predicate of a changed file."""
    for expression, function in RULES:
        match = re.fullmatch(expression, path)
        if match and function is of_patch:
            return of_patch(match[1], path, commit)
        if match:
            return function(*match.groups())
    return everything


class Affected:
    """Whether the changes since a commit may affect a program."""

    def __init__(self, revision):
        self.revision = revision
        commit, paths = changed(revision)
        self.rules = {path: rule_of(path, commit) for path in paths}

    def __call__(self, program):
        return any(rule(program) for rule in self.rules.values())

    def reasons(self, programs):
        """Lines: what has changed, and how many of these programs it may affect."""
        yield f"{_number(len(self.rules), 'file')} changed since {self.revision}"
        for path, rule in self.rules.items():
            count = sum(map(rule, programs))
            yield f"{path}: " + (f"{_number(count, 'program')} at the full depth" if count
                               else "no program")
