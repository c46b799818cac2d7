# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""What a pattern selects (make check T=PATTERN), and what is built for it."""

import dataclasses
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import heads  # noqa: E402
from mrfd import machine  # noqa: E402
from mrfd import products  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd import selection  # noqa: E402
from mrfd import sources  # noqa: E402
from mrfd.devices import RXE  # noqa: E402
from mrfd.paths import SCRIPTS, inside  # noqa: E402

DATA = "rxe/access/data: fd_mr.vgem.receive_lands_in_the_buffer"
MR = "rxe/rdma-core/test_mr: tests.test_mr.MRTest.test_mr_rereg_access"


def setUpModule():
    """For most tests one device is enough."""
    only = mock.patch.object(programs, "DEVICES", [RXE])
    only.start()
    unittest.addModuleCleanup(only.stop)


def selected(pattern, kernel="base"):
    """{printed name of a program: its cases, () if all}"""
    return {p.title: p.wanted for p in selection.select(pattern, kernel)}


class Patterns(unittest.TestCase):
    def test_empty_pattern_selects_everything(self):
        everything = selected("")
        for name in ("host/boot", "model/cq", "kunit", "rxe/access/data", "rxe/rdma-core/test_mr",
                     "demo"):
            self.assertEqual(everything[name], ())

    def test_printed_name_selects_that_case(self):
        for program, case in (name.split(": ", 1) for name in (
                DATA, MR, "host/cases: tests.host.test_cases.Reader.test_tap_is_read",
                "kunit: rxe_mr: test_missing_page_is_refused",
                "demo: the screen shows what was sent")):
            self.assertEqual(selected(f"{program}: {case}"), {program: (case,)})

    def test_device_may_be_left_out(self):
        self.assertEqual(selected(DATA.removeprefix("rxe/")), selected(DATA))

    def test_full_name_selects_no_longer_name(self):
        self.assertEqual(len(selection.select(MR + "_bad_flow", "base")), 1)
        self.assertEqual(selected(MR), {MR.split(": ")[0]: (MR.split(": ")[1],)})

    def test_program_result_selects_all_its_cases(self):
        for case in "program", "kernel log":
            self.assertEqual(selected(f"rxe/access/data: {case}"), {"rxe/access/data": ()})

    def test_guest_result_selects_its_programs(self):
        for pattern, names in (
                ("boot for kunit: kernel log", ["kunit"]),
                ("guest of rxe/access/cut to rxe/access/cut: end", ["rxe/access/cut"]),
                ("guest of rxe/access/cut to rxe/access/protection: kernel log",
                 ["rxe/access/cut", "rxe/access/data", "rxe/access/paged",
                  "rxe/access/protection"])):
            self.assertEqual(list(selected(pattern)), names)

    def test_failed_setup_selects_its_class(self):
        wanted = selected("host/guests: tests.host.test_guests.Lanes.setUpClass")["host/guests"]
        self.assertIn("tests.host.test_guests.Lanes.test_each_program_runs_once_and_two_at_a_time",
                      wanted)
        self.assertTrue(all(".Lanes." in case for case in wanted))

    def test_part_of_program_name_selects_all_cases(self):
        self.assertEqual(selected("access/da"), {"rxe/access/data": ()})
        self.assertEqual({t.split("/")[1] for t in selected("rdma-core/")}, {"rdma-core"})
        self.assertNotIn("demo", selected("rxe/"))

    def test_part_of_case_name_selects_matches(self):
        found = selected("vgem.receive_lands")
        self.assertEqual(found, {"rxe/access/data": (DATA.split(": ")[1],)})
        self.assertEqual(set(selected("rxe_mr: test_")), {"kunit"})

    def test_several_patterns_add_up(self):
        both = {p.title: p.wanted for p in selection.select_any(
            ["exporters/", "kunit: rxe_mr: test_long_copy_moves_every_byte",
             "kunit: rxe_mr: test_missing_page_is_refused",
             "receive_lands_in_the_buffer", "exporters/memory", "rxe/access/data"], "base")}
        self.assertEqual(both["kunit"], ("rxe_mr: test_long_copy_moves_every_byte",
                                         "rxe_mr: test_missing_page_is_refused"))
        self.assertEqual(both["rxe/access/data"], ())
        self.assertEqual(both["rxe/exporters/memory"], ())
        self.assertIn("rxe/exporters/vram", both)
        self.assertNotIn("rxe/access/cut", both)
        with self.assertRaises(selection.NoMatch):
            selection.select_any(["kunit", "typo"], "base")

    def test_program_of_another_kernel_is_named(self):
        with self.assertRaisesRegex(selection.NoMatch, "not run on the base kernel, but on: debug"):
            selected("faults/registration")
        self.assertIn("rxe/faults/registration", selected("faults/", "debug"))

    def test_similar_names_are_suggested(self):
        for pattern, near in (("rxe/acess/data", "  rxe/access/data\n"),
                              ("kuint", "  kunit\n"),
                              (DATA.replace("lands", "land"), f"  {DATA}\n"),
                              (MR + "x", f"  {MR}\n")):
            with self.assertRaises(selection.NoMatch) as caught:
                selected(pattern)
            self.assertIn(near, str(caught.exception))


class Devices(unittest.TestCase):
    def test_guest_program_runs_on_every_device(self):
        other = dataclasses.replace(RXE, name="other", verbs="other0", can="memfd")
        with mock.patch.object(programs, "DEVICES", [RXE, other]):
            self.assertEqual(list(selected("access/data")),
                             ["rxe/access/data", "other/access/data"])
            self.assertEqual(list(selected("other/access/data")), ["other/access/data"])
            self.assertEqual(selected(DATA.replace("rxe", "other")),
                             {"other/access/data": (DATA.split(": ")[1],)})
            self.assertEqual(len(selected(DATA.removeprefix("rxe/"))), 2)
            self.assertEqual(list(selected("rdma-core/test_mr:")),
                             ["rxe/rdma-core/test_mr", "other/rdma-core/test_mr"])

    def test_suite_includes_modules_of_the_vendor(self):
        other = dataclasses.replace(RXE, name="other", vendor="mlx5")
        with tempfile.TemporaryDirectory() as tree:
            os.mkdir(f"{tree}/tests")
            for name in "test_mr", "test_mlx5_cq", "test_efadv":
                open(f"{tree}/tests/{name}.py", "w", encoding="utf-8").close()
            runs = {name: [heads.Head(("quick",), (), ("rxe",))] for name in
                    ("test_mr", "test_mlx5_cq")}
            with mock.patch.object(products, "tool", lambda *words: tree), \
                    mock.patch.object(heads, "suite", lambda: runs):
                found = {device.name: [p.title for p in programs.suite("base", device)]
                         for device in (RXE, other)}
        self.assertEqual(found, {"rxe": ["rxe/rdma-core/test_mr"],
                                 "other": ["other/rdma-core/test_mlx5_cq",
                                           "other/rdma-core/test_mr"]})

    def test_needs_of_device_are_built_for_it_only(self):
        other = dataclasses.replace(RXE, name="other", needs=("model",))
        with mock.patch.object(programs, "DEVICES", [RXE, other]):
            self.assertIn("model", built("other/access/data"))
            self.assertNotIn("model", built("rxe/access/data"))

    def test_qemu_device_needs_the_modules_of_the_kernel(self):
        other = dataclasses.replace(RXE, name="other", qemu=("connectx",))
        with mock.patch.object(programs, "DEVICES", [RXE, other]):
            self.assertIn("base modules", built("other/access/data"))
            self.assertNotIn("base modules", built("rxe/access/data"))


def built(pattern, kernel="base"):
    """What is built for a pattern."""
    made = []

    def product(*words):
        made.append(" ".join(words))
        return "/product"
    with mock.patch.multiple(programs, product=product,
                             build_tests=lambda targets: made.extend(targets)), \
            mock.patch.object(machine, "accelerator"), \
            mock.patch.multiple(products, kernel_image=made.append,
                                gpu_module=lambda kernel: made.append("gpu"),
                                kernel_modules=lambda kernel: made.append(f"{kernel} modules"),
                                init_program=mock.DEFAULT):
        programs.build(selection.select(pattern, kernel))
    return sorted(made)


class CommandLines(unittest.TestCase):
    """The options by which each harness runs one case."""

    def words(self, pattern, kernel="base"):
        with mock.patch.object(programs, "product", lambda *words: "/product"):
            program, = selection.select(pattern, kernel)
            return program.words(), program.guest()

    def test_each_harness_gets_its_options(self):
        case = "fd_mr.vgem.receive_lands_in_the_buffer"
        self.assertEqual(self.words(DATA)[0], ["/mrfd/build/tests/access/data", f"-r{case}"])
        self.assertEqual(self.words(MR)[0][1:], ["-v", "tests.test_mr.MRTest.test_mr_rereg_access"])
        case = "tests.host.test_cases.Reader.test_tap_is_read"
        words, guest = self.words(f"host/cases: {case}")
        self.assertEqual((words[1:], guest), (["-m", "unittest", "-v", case], None))
        words, guest = self.words("model/table: wrong_number_finds_nothing")
        self.assertEqual((words[1:], guest),
                         (["env", "CMOCKA_MESSAGE_OUTPUT=tap", "/product/test_table"], None))
        with mock.patch.dict(os.environ, {"MRFD_SEED": "0x5"}):
            words, guest = self.words("model/fuzz_wqe: corpus")
        self.assertEqual((words[1:], guest),
                         (["/product/fuzz_wqe", "-runs=20000", "-seed=0x5",
                           "-artifact=/mrfd/build/fuzz_wqe.crash", "/product/corpus/fuzz_wqe"],
                          None))
        words, guest = self.words("kunit: rxe_mr: test_missing_page_is_refused")
        self.assertEqual(words, ["/mrfd/kit/guest/kunit", "rxe_mr"])
        self.assertIn("kunit.filter_glob=rxe_mr.test_missing_page_is_refused",
                      guest["append"].split())

    def test_guest_is_told_its_device(self):
        env = self.words(DATA)[1]["env"]
        self.assertEqual((env["MRFD_DEVICE"], env["MRFD_VERBS_DEVICE"]), ("rxe", "rxe0"))
        self.assertIn("rereg_mr_fd", env["MRFD_DEVICE_CAN"].split())

    def test_guest_loads_its_modules_first(self):
        load, case = "/mrfd/kit/guest/load", "rxe/exporters/importer: importer.invalid"
        self.assertNotIn(load, self.words(DATA)[1]["setup"])
        self.assertEqual(self.words(case)[1]["setup"][:3],
                         [load, "/product", "/mrfd/kit/guest/net"])
        # Our kernels have the test exporter.
        self.assertEqual(self.words(DATA, "stock")[1]["setup"].count(load), 1)
        self.assertEqual(self.words(case, "stock")[1]["setup"].count(load), 2)

    def test_quick_guest_has_one_cpu_unless_its_program_needs_two(self):
        def cpus(pattern, kernel="base", quick=True):
            with mock.patch.object(programs, "product", lambda *words: "/product"), \
                    mock.patch.object(machine, "CPUS", 2):
                program, = selection.select(pattern, kernel)
                return (program.quick() if quick else program).guest()["cpus"]
        race = "rxe/interface/fuzz: fuzz."
        self.assertEqual([cpus(DATA), cpus(MR), cpus(DATA, "debug"), cpus(race)], [1, 1, 1, 2])
        self.assertEqual([cpus(DATA, quick=False), cpus(race, "kcsan"), cpus(MR, quick=False)],
                         [2, 2, 2])


class Built(unittest.TestCase):
    def test_only_needed_products_are_built(self):
        for pattern, made in (
                ("host/cases", []),
                ("model/table", ["connectx --test"]),
                ("model/fuzz_packet", ["connectx --test"]),
                ("kunit: rxe_mr: test_missing_page_is_refused", ["base"]),
                (MR, ["base", "rdma-core"]),
                (DATA, ["access/data", "base", "rdma-core"]),
                ("programs/libfabric", ["base", "gpu", "programs/libfabric", "rdma-core"]),
                ("programs/perftest_gpu", ["base", "gpu", "perftest", "rdma-core"]),
                ("programs/readme", ["base", "rdma-core"])):
            self.assertEqual(built(pattern), made, pattern)
        self.assertEqual(built(DATA, "stock"),
                         ["access/data", "dmabuf-test --stock", "rdma-core", "stock"])


class Sources(unittest.TestCase):
    def c_cases(self, **files):
        with tempfile.TemporaryDirectory() as directory:
            for name, text in files.items():
                with open(f"{directory}/{name.replace('_', '.')}", "w", encoding="utf-8") as file:
                    file.write(text)
            return list(sources.c_cases(f"{directory}/a.c", directory))

    def test_c_fixtures_variants_and_headers_are_read(self):
        self.assertEqual(self.c_cases(
            a_c='#include "a.h"\n/* TEST(no) */\nTEST(plain) {}\n'
                'TEST_F(one, x)\n{}\nTEST_F_TIMEOUT(one, y, 60)\n{}\nTEST_F(two, z) {}\n',
            a_h="FIXTURE(one) {};\nFIXTURE_VARIANT_ADD(one, v) { 1 };\n"
                "FIXTURE_VARIANT_ADD(one, w) { 2 };\n"),
            ["plain", "one.v.x", "one.w.x", "one.v.y", "one.w.y", "two.z"])

    def test_variants_made_by_macros_are_read(self):
        self.assertEqual(self.c_cases(
            a_c="#define MOVE(a, b) \\\n\tFIXTURE_VARIANT_ADD(f, a##_to_##b) { }\n"
                "MOVE(x, y);\nMOVE(z, w);\nTEST_F(f, t)\n"), ["f.x_to_y.t", "f.z_to_w.t"])

    def test_misspelt_mark_of_a_case_is_an_error(self):
        self.assertEqual(self.c_cases(a_c="/* runs: full */\nTEST(a) {}\n"), ["a"])
        for mark in "/* runs: ful */", "/* run: full */", "/* runs: full; */", "/* runs full */":
            with self.assertRaisesRegex(heads.BadHead, ":1: the mark of a case is"):
                self.c_cases(a_c=f"{mark}\nTEST(a) {{}}\n")
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/a.py"
            with open(path, "w", encoding="utf-8") as file:
                file.write("class A(unittest.TestCase):\n    # runs: ful\n    def test_a(self):\n")
            with self.assertRaisesRegex(heads.BadHead, ":2: the mark of a case is"):
                sources.unittest_cases(path, "a")

    def test_cmocka_cases_named_by_macros_are_read(self):
        with tempfile.TemporaryDirectory() as directory:
            for name, text in (
                    ("a.h", "#define UP(name) cmocka_unit_test_setup_teardown(name, a, b)\n"),
                    ("a.c", '#include "a.h"\nint main(void)\n{\n'
                            "\tconst struct CMUnitTest tests[] = {\n"
                            "#define T(f) cmocka_unit_test_setup(f, a)\n"
                            "\t\tUP(one), T(two),\n\t\tcmocka_unit_test(three), /* T(no), */\n"
                            "\t};\n\tUP(neither);\n}\n")):
                with open(f"{directory}/{name}", "w", encoding="utf-8") as file:
                    file.write(text)
            self.assertEqual(list(sources.cmocka_cases(f"{directory}/a.c")),
                             ["one", "two", "three"])

    def test_parsed_cases_equal_those_of_programs(self):
        """Each compiled program lists the fixtures, variants and tests that were found in
        its source."""
        found = list({p.target: p for p in programs.ours("base") if p.target}.values())
        library = f"{inside(products.tool('rdma-core'))}/lib"
        out = programs.build_tests(p.target for p in found)
        code = 'export LD_LIBRARY_PATH=$1; shift; for t; do echo "== $t"; "$t" -l 2>&1; done; true'
        listed = subprocess.run(
            [os.path.join(SCRIPTS, "enter"), "bash", "-c", code, "bash", library,
             *(f"{out}/{program.target}" for program in found)],
            stdout=subprocess.PIPE, text=True, check=True).stdout.split("== ")[1:]
        self.assertEqual(len(listed), len(found))
        for program, text in zip(found, listed):
            rows = [line for line in text.splitlines()[1:] if not line.startswith(("#", "---"))]
            with self.subTest(program=program.name):
                self.assertEqual(set(" ".join(program.cases()).replace(".", " ").split()),
                                 set(" ".join(rows).split()) - {"global"})

    def test_parsed_host_cases_equal_those_of_unittest(self):
        code = ("import sys, unittest\n"
                "def ids(suite):\n"
                "    for test in suite:\n"
                "        suite = isinstance(test, unittest.TestSuite)\n"
                "        yield from ids(test) if suite else [test.id()]\n"
                "print(*ids(unittest.defaultTestLoader.loadTestsFromName(sys.argv[1])))")
        for program in programs.ours("base"):
            if isinstance(program, programs.Host):
                loaded = subprocess.run([sys.executable, "-c", code, program.module], cwd=TOP,
                                        stdout=subprocess.PIPE, text=True, check=True).stdout
                with self.subTest(module=program.module):
                    self.assertEqual(sorted(program.cases()), sorted(loaded.split()))

    def test_parsed_suite_cases_equal_those_of_rdma_core(self):
        rdma = products.tool("rdma-core")
        listed = subprocess.run(
            [os.path.join(SCRIPTS, "enter"), f"{inside(rdma)}/bin/run_tests.py", "--list-tests"],
            stdout=subprocess.PIPE, text=True, check=False).stdout.split()
        for program in programs.theirs("base"):
            mine = [name for name in listed if name.startswith(f"tests.{program.module}.")]
            with self.subTest(module=program.module):
                self.assertEqual(sorted(program.cases()), sorted(mine))


if __name__ == "__main__":
    unittest.main()
