# SPDX-License-Identifier: GPL-2.0-or-later
"""The names of the cases that a test program has, read from its source, so that a
pattern can be checked before anything is built.

The comment "runs: full", alone on the line before a case, a variant of a fixture or a
class of Python, leaves this to the full runs.  So a function here gives
{name: whether only full runs have it}.

tests/host/test_selection.py compares the names with what the built programs list.
"""

import functools
import os
import re

from mrfd.heads import BadHead
from mrfd.paths import TOP

FULL = "RUNS_FULL"  # in place of the comment, which would go with the others


# A comment above a case, a variant or a class that begins as the mark does.
MARK = re.compile(r"^[ \t]*((?:/\*|#) *runs?\b.*)\n(?=[ \t]*(?:@|def test|class |[A-Z_]+\())",
                  re.MULTILINE)


def _check_marks(path, text):
    """No case drops out of a depth because its mark is misspelt."""
    for match in MARK.finditer(text):
        if match[1].rstrip() not in ("/* runs: full */", "# runs: full"):
            line = text.count("\n", 0, match.start()) + 1
            raise BadHead(f"{os.path.relpath(path, TOP)}:{line}: the mark of a case is "
                          f"\"runs: full\", not: {match[1].strip()}")


def _text(path, root, seen):
    """A C source with its local headers in it, without comments, a directive or
    statement on one line.  root is where #include "folder/file.h" is looked for."""
    path = os.path.realpath(path)
    if path in seen:
        return ""
    seen.add(path)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    _check_marks(path, text)
    text = re.sub(r"^[ \t]*/\* runs: full \*/$", FULL, text, flags=re.MULTILINE)
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"\\\n", " ", text)

    def include(match):
        for directory in os.path.dirname(path), root:
            header = os.path.join(directory, match[1])
            if os.path.exists(header):
                return _text(header, root, seen)
        return ""
    return re.sub(r'^\s*#\s*include "(.*)"', include, text, flags=re.MULTILINE)


def _expanded(text):
    """Macros that define cases or variants, such as
    #define MOVE(a, b) FIXTURE_VARIANT_ADD(rereg, a##_to_##b) ..., replaced."""
    define = r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^)]*)\)(.*(?:FIXTURE_VARIANT_ADD|TEST).*)$"
    for name, parameters, body in re.findall(define, text, re.MULTILINE):
        parameters = [p.strip() for p in parameters.split(",")]

        def replace(match):
            values = dict(zip(parameters, (v.strip() for v in match[1].split(","))))
            # pylint: disable=cell-var-from-loop
            filled = re.sub(r"\w+", lambda word: values.get(word[0], word[0]), body)
            return re.sub(r"\s*##\s*", "", filled)
        text = re.sub(rf"^[ \t]*{name}\(([^)]*)\)", replace, text, flags=re.MULTILINE)
    return text


@functools.cache
def c_cases(path, root):
    """Of a C program in the kernel's harness: fixture.variant.case."""
    text = _expanded(_text(path, root, set()))
    text = re.sub(r"^[ \t]*#.*$", "", text, flags=re.MULTILINE)
    mark, variants = rf"({FULL}\s+)?", {}
    for full, fixture, variant in re.findall(
            rf"{mark}\bFIXTURE_VARIANT_ADD\(\s*(\w+),\s*(\w+)", text):
        variants.setdefault(fixture, {})[f"{variant}."] = bool(full)
    cases = {name: bool(full) for full, name in
             re.findall(rf"{mark}\bTEST(?:_SIGNAL)?\(\s*(\w+)", text)}
    for full, fixture, name in re.findall(
            rf"{mark}\bTEST_F(?:_\w+)?\(\s*(\w+),\s*(\w+)", text):
        for variant, all_of_it in variants.get(fixture, {"": False}).items():
            cases[f"{fixture}.{variant}{name}"] = bool(full) or all_of_it
    return cases


@functools.cache
def cmocka_cases(path):
    """Of a C program in cmocka: the functions in its tables.  A table may name them through
    macros of its own or of a header beside it."""
    text = _text(path, os.path.dirname(path), set())
    macro = r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(\w+\)[ \t]+cmocka_unit_test"
    names = "|".join([r"cmocka_unit_test\w*", *re.findall(macro, text, re.MULTILINE)])
    text = re.sub(r"^[ \t]*#.*$", "", text, flags=re.MULTILINE)
    tables = re.findall(r"\bstruct CMUnitTest \w+\[\] = \{(.*?)\};", text, re.DOTALL)
    return {case: bool(full) for table in tables for full, case in
            re.findall(rf"({FULL}\s+)?\b(?:{names})\(\s*(\w+)", table)}


class _Module:
    """The classes of a Python source with their test methods.  It is read by lines,
    not by ast, which takes ten times as long."""

    def __init__(self, path):
        self.path = path
        self.classes = {}   # name: [its bases, {its test method: only full runs have it}]
        self.origin = {}    # name here: (module, name there), or (module, None)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        _check_marks(path, text)
        for full, name, bases, method in re.findall(
                r"^( *# runs: full\n)?(?: *@.*\n)*"
                r"(?:class (\w+)\s*(?:\(([^)]*)\))?:|    def (test\w*)\()", text, re.MULTILINE):
            if name:
                self.classes[name] = last = [re.findall(r"[\w.]+", bases), {}]
                all_of_it = bool(full)
            elif self.classes:
                last[1][method] = bool(full) or all_of_it
        for module, names in re.findall(r"^from (\S+) import \(?((?:[\w, ]|\\\n|\n(?= ))+)", text,
                                        re.MULTILINE):
            for name, _, alias in re.findall(r"(\w+)( as (\w+))?", names):
                self.origin[alias or name] = module, name
        for module, _, alias in re.findall(r"^import ([\w.]+)( as (\w+))?", text, re.MULTILINE):
            self.origin[alias or module] = module, None

    def methods(self, name):
        """The test methods of a class and of its bases."""
        where, _, attribute = name.rpartition(".")
        if name in self.classes:
            bases, own = self.classes[name]
            found = {}
            for base in reversed(bases):
                found.update(self.methods(base))
            return {**found, **own}
        module, there = self.origin.get(where or name, (None, None))
        path = module and self._file(module)
        return _module(path).methods(there or attribute) if path else {}

    def _file(self, module):
        """The source of a module that is beside this one or beside its folder, or None,
        as for unittest."""
        folder = os.path.dirname(os.path.abspath(self.path))
        inner = module.lstrip(".").replace(".", "/") + ".py"
        places = (os.path.join(place, inner) for place in (folder, os.path.dirname(folder)))
        return next(filter(os.path.exists, places), None)


_module = functools.cache(_Module)


@functools.cache
def unittest_cases(path, module):
    """Of a file of unittest cases that is imported by this name: module.Class.test_x."""
    source = _module(path)
    return {f"{module}.{name}.{test}": full for name in source.classes
            for test, full in sorted(source.methods(name).items())}


@functools.cache
def kunit_cases(path):
    """Of a kernel source with KUnit suites: suite: case."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    suites = re.findall(r"struct kunit_suite \w+ = \{([^}]*)\}", text)
    found = {}
    for suite in suites:
        name = re.search(r'\.name = "([^"]+)"', suite)[1]
        array = re.search(r"\.test_cases = (\w+)", suite)[1]
        body = re.search(rf"struct kunit_case {array}\[\] = \{{(.*?)\}};", text, re.DOTALL)[1]
        for case in re.findall(r"KUNIT_CASE\w*\(\s*(\w+)", body):
            found[f"{name}: {case}"] = False
    return found
