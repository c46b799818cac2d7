# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""What a reader meets first is true: each link of the documents leads somewhere, each
command and file that they name exists, the index names every document, each licence
that a file names has its text, and the drawing of ARCHITECTURE.md is what its program
makes, of functions that are in their files."""

import functools
import glob
import hashlib
import importlib.util
import itertools
import os
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import licences  # noqa: E402
from mrfd import products  # noqa: E402

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "patches/README.md",
             *sorted(os.path.relpath(path, TOP) for path in glob.glob(f"{TOP}/Documentation/*.md")))
INDEX = "Documentation/index.md"
# The inputs of the fuzz programs are bytes, some of which look like text by chance.
BYTES = "devices/connectx/fuzz/corpus/"
# The texts are standard: nobody edits them.
TEXTS = {"BSD-2-Clause": "0fb9ca2744f354753fb4593bccda0b191a375c82c8e5a6eb882a0c02d727f828",
         "BSD-3-Clause": "34daa3eb6afcdaabc3d51ab38260211a89f2e010523fb6903ec4b5863ec293a1",
         "GPL-2.0": "8177f97513213526df2cf6184d8ff986c675afb514d4e68a404010521b880643",
         "GPL-2.0-or-later": "8177f97513213526df2cf6184d8ff986c675afb514d4e68a404010521b880643",
         "Linux-OpenIB": "30362fc0eee23c9ffd0ca416d2c521c48456e75555a01c1eefc234b586e2d633",
         "Linux-syscall-note": "5bcef4fedbfc08776630e65d5d0d074dd31208037eddb167ca46a9ec4f737764"}

ANY_CODE = re.compile(r"^(```.*?^```|(?:    [^\n]+\n)+)", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
# A path of a room of the repository.  What is in capitals stands for something else.
PATH = re.compile(r"(?<![\w/.~$-])((?:scripts|kit|tests|demo|devices|kernel|rdma-core|perftest|libfabric|ucx|"
                  r"patches|Documentation|LICENSES|\.ci)/[\w./*+-]*)")
STANDS_FOR = re.compile(r"(?<![A-Z])(NAME|FOLDER|NN)(?![A-Z])|\.\.\.")


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read()


@functools.cache
def files():
    """The files of the project: build/ is none of it."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=TOP, text=True,
                            stdout=subprocess.PIPE, check=True).stdout.splitlines()
    return frozenset(name for name in listed if os.path.lexists(os.path.join(TOP, name)))


@functools.cache
def folders():
    return frozenset(itertools.chain.from_iterable(
        itertools.accumulate(name.split("/")[:-1], "{}/{}".format) for name in files()))


def is_there(path):
    return path in files() or path.rstrip("/") in folders()


def code(text):
    """All that is code in a document: spans, fenced and indented blocks."""
    return ANY_CODE.findall(text) + SPAN.findall(ANY_CODE.sub("\n", text))


def anchors(text):
    """The anchors that GitHub makes of the headings of a document."""
    seen = {}
    for heading in re.findall(r"^#+ +(.*?) *#*$", FENCED.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        seen[name] = seen.get(name, -1) + 1
        yield f"{name}-{seen[name]}" if seen[name] else name


def bad_links(document, text):
    """The links of a document that lead nowhere."""
    for target in LINK.findall(SPAN.sub("", FENCED.sub("", text))):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(document), path)) if path else document
        if not is_there(path):
            yield f"{target}: there is no {path}"
        elif anchor and anchor not in anchors(text if path == document else read(path)):
            yield f"{target}: {path} has no such heading"


def bad_commands(text, makefile):
    """The make targets and variables in a document that the Makefile does not have."""
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for call in re.findall(r"\bmake ((?:[\w=/'\"<> .-]|\[|\])+)", "\n".join(code(text))):
        words = call.split("  ")[0].split()
        if not words or words[0].startswith("-"):  # make -C DIRECTORY is another Makefile
            continue
        if re.fullmatch(r"[a-z-]+", words[0]) and words[0] not in targets:
            yield f"make {words[0]}: it is no target"
        for variable in re.findall(r"\b([A-Z_]+)=", call.split("  ")[0]):
            if not re.search(rf"\$\(?{variable}\b|\(if \$\({variable}\)", makefile):
                yield f"make {call.strip()}: the Makefile does not know {variable}"


def bad_paths(text):
    """The files and programs that a document names and that are not there."""
    for path in sorted(set(PATH.findall("\n".join(code(text))))):
        path = path.rstrip(".")
        if STANDS_FOR.search(path) or is_there(path):
            continue
        if "*" in path and any(is_there(os.path.relpath(found, TOP))
                               for found in glob.glob(os.path.join(TOP, path))):
            continue
        yield path


class Documents(unittest.TestCase):
    def check(self, find):
        """Nothing is found in any document."""
        found = {document: list(find(document, read(document))) for document in DOCUMENTS}
        self.assertEqual({document: bad for document, bad in found.items() if bad}, {})

    def test_every_link_leads_somewhere(self):
        self.check(bad_links)

    def test_every_command_is_in_the_makefile(self):
        makefile = read("Makefile")
        self.check(lambda _, text: bad_commands(text, makefile))

    def test_every_file_and_program_is_there(self):
        self.check(lambda _, text: bad_paths(text))

    def test_no_number_is_left_to_be_filled_in(self):
        self.check(lambda _, text: re.findall(r"@[A-Z][A-Z_]+@", text))

    def test_the_index_names_every_document(self):
        named = {os.path.normpath(os.path.join("Documentation", target))
                 for target in LINK.findall(read(INDEX))}
        wanted = {name for name in files()
                  if (name.endswith((".md", ".rst", ".1", "/README")) or name == "MAINTAINERS")
                  and not name.endswith("/cover.md") and name != INDEX}
        self.assertGreater(len(wanted), 15)
        self.assertEqual(wanted - named, set())

    def test_the_glossary_is_in_order_and_names_a_word_once(self):
        words = re.findall(r"^\| ([^|]+) \| ", read("Documentation/glossary.md"), re.MULTILINE)[2:]
        self.assertGreater(len(words), 40)
        self.assertEqual(words, sorted(words, key=str.lower))
        single = [word for words in words for word in words.split(", ")]
        self.assertEqual(len(single), len(set(single)))


class Checkers(unittest.TestCase):
    """The checks above find what is wrong."""

    def test_bad_links_are_found(self):
        text = "# One two\n\n## What's `up`?\n\n## One two\n"
        self.assertEqual(list(anchors(text)), ["one-two", "whats-up", "one-two-1"])
        for bad in "[x](nothing.md)", "![x](../build)", "[x](#three)", "[x](README.md#nothing)":
            self.assertEqual(len(list(bad_links("README.md", text + bad))), 1, bad)
        for good in ("[x](#one-two-1)", "[x](kit/)", "[x](https://example.org/y)", "`[x](y)`",
                     "[x](Documentation/kit.md#guests)", "```\n[x](y)\n```"):
            self.assertEqual(list(bad_links("README.md", text + good)), [], good)

    def test_bad_commands_are_found(self):
        makefile = "check: ready ## run\n\t@scripts/check $(if $(T),\"$$T\")\n"
        for bad in ("`make chekc`", "\n    make check X=1  # why\n", "```\nmake tests T=a\n```\n",
                    "`make check T=a FULL=1`"):
            self.assertEqual(len(list(bad_commands(bad, makefile))), 1, bad)
        for good in ("`make check T=a`", "make sense", "`make -C demo X=1`",
                     "\n    make check # X=\n"):
            self.assertEqual(list(bad_commands(good, makefile)), [], good)

    def test_bad_paths_are_found(self):
        for bad in ("`scripts/chekc`", "\n    scripts/boot2 --rxe\n", "`kit/*.nothing`",
                    "`devices/connectx/none.c`"):
            self.assertEqual(len(list(bad_paths(bad))), 1, bad)
        for good in ("`scripts/check --list`", "scripts/chekc", "`build/tests/access/x`", "`kit/`",
                     "`kit/*.sh`", "`tests/FOLDER/NAME.c`", "`../scripts/x`"):
            self.assertEqual(list(bad_paths(good)), [], good)


class Licences(unittest.TestCase):
    def test_every_licence_that_a_file_names_has_a_text_and_no_other(self):
        found = {}
        for name in files():
            path = os.path.join(TOP, name)
            if name.startswith((BYTES, "LICENSES/")) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                text = file.read(1 << 16).decode(errors="replace")
            for line in text.splitlines()[:licences.LINES]:
                if match := licences.SPDX.search(line):
                    for identifier in re.findall(r"[\w.+-]+", match[1]):
                        found.setdefault(identifier, name)
                    break
        for operator in "OR", "AND", "WITH":
            found.pop(operator, None)
        self.assertEqual(set(found), set(os.listdir(os.path.join(TOP, "LICENSES"))), found)

    def test_the_texts_are_the_standard_ones(self):
        for name, digest in TEXTS.items():
            with self.subTest(name=name), open(os.path.join(TOP, "LICENSES", name), "rb") as file:
                self.assertEqual(hashlib.sha256(file.read()).hexdigest(), digest)


class Drawing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        spec = importlib.util.spec_from_file_location(
            "architecture", os.path.join(TOP, "Documentation/architecture.py"))
        cls.program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(cls.program)

    def test_drawing_is_up_to_date(self):
        self.assertEqual(read("Documentation/architecture.svg"), self.program.drawing(),
                         "run Documentation/architecture.py")

    def test_drawing_is_svg_with_title_and_separate_boxes(self):
        root = xml.etree.ElementTree.fromstring(self.program.drawing())
        self.assertIn("ibv_reg_mr_fd", root.findtext("{http://www.w3.org/2000/svg}title"))
        places = [(row, column) for row, first, count, *_ in self.program.STEPS
                  for column in range(first, first + count)]
        self.assertEqual(len(places), len(set(places)))

    def test_every_function_is_in_its_file(self):
        for _, _, _, room, function, file, _ in self.program.STEPS:
            tree, path = self.program.path_of(room, file)
            top = products.tool("join", tree) if tree else TOP
            with self.subTest(function=function), \
                    open(os.path.join(top, path), encoding="utf-8") as source:
                # The definition: the name at the start of a line or after its type.
                self.assertRegex(source.read(), rf"(?m)^(\w[\w \t*]*[ *]|){re.escape(function)}\(")

    def test_every_text_fits_into_its_box(self):
        """A letter takes 7.9 pixels at most in a name, 6.4 in a description: measured."""
        for row, _, columns, _, function, _, what in self.program.STEPS:
            width = columns * self.program.STEP - 12 - 20
            with self.subTest(row=row, function=function):
                self.assertLessEqual(len(function + "()") * 7.9, width)
                self.assertLessEqual(len(what) * 6.4, width + 10)


if __name__ == "__main__":
    unittest.main()
