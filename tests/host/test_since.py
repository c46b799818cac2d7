# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""Which programs a change affects (make check SINCE=REV), and what each test says about
where it runs."""

import ast
import glob
import os
import sys
import tempfile
import unittest
from unittest import mock

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import heads  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd import selection  # noqa: E402
from mrfd import since  # noqa: E402
from mrfd import sources  # noqa: E402

OURS = list(programs.ours("base"))


def affected(*paths):
    """The printed names of our programs that a change of these files affects."""
    with mock.patch.object(since, "changed", lambda revision: ("HEAD", list(paths))):
        predicate = since.Affected("HEAD")
    return {program.title for program in OURS if predicate(program)}


def in_no_host_test(*paths):
    return {title for title in affected(*paths) if not title.startswith("host/")}


def of(expression):
    return {program.title for program in OURS if since.named(expression)(program)}


class Affected(unittest.TestCase):
    def test_a_test_affects_itself(self):
        self.assertEqual(affected("tests/access/cut.c"), of("access/cut"))
        self.assertEqual(affected("tests/host/test_join.py"), {"host/join"})
        self.assertEqual(affected("devices/connectx/test/hca/test_cq.c"), {"model/cq"})
        self.assertEqual(affected("tests/programs/readme.py"), of("programs/readme"))

    def test_each_rule_that_names_programs_matches_one(self):
        with open(since.__file__, encoding="utf-8") as file:
            calls = [node for node in ast.walk(ast.parse(file.read()))
                     if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "named"]
        names = {word.value for call in calls for word in call.args
                 if isinstance(word, ast.Constant)} | set(since.PATCH_TESTS)
        self.assertGreater(len(names), 10)
        names.remove("rdma-core/.*")  # its suite is not among OURS
        for name in names:
            with self.subTest(name=name):
                self.assertTrue(of(name))

    def test_the_run_says_what_each_file_affects(self):
        with mock.patch.object(since, "changed",
                               lambda _: ("HEAD", ["README.de.txt", "tests/programs/readme.py"])):
            self.assertEqual(list(since.Affected("HEAD").reasons(OURS)), [
                "2 files changed since HEAD",
                f"README.de.txt: {len(OURS)} programs at the full depth",
                "tests/programs/readme.py: 2 programs at the full depth"])

    def test_a_moved_base_affects_what_runs_on_it(self):
        moved = affected("patches/linux/base")
        for title in "rxe/access/cut", "connectx/moves/traffic", "host/sources", "kunit":
            self.assertIn(title, moved)
        self.assertEqual(affected("patches/libfabric/base") & of("host/libfabric"),
                         of("host/libfabric"))

    def test_a_helper_affects_what_links_it(self):
        found = affected("tests/lib/hugepages.c")
        self.assertIn("rxe/interface/hugepages", found)
        self.assertNotIn("rxe/access/cut", found)
        self.assertEqual(found, affected("tests/lib/hugepages.h"))
        self.assertEqual(affected("devices/connectx/test/host/vfio_client.h"),
                         of("model/vfio_.*"))
        self.assertEqual(affected("devices/connectx/test/base/fake_loop.h"),
                         of("model/(link|link_local|pcap|sa|sa_table|switch)"))
        self.assertIn("host/patches", affected("tests/host/project.py"))
        self.assertNotIn("host/boot", affected("tests/host/project.py"))

    def test_a_driver_affects_its_devices(self):
        rxe = in_no_host_test("kernel/drivers/infiniband/sw/rxe/rxe_dm.c")
        self.assertEqual(rxe, {p.title for p in OURS if p.device and p.device.word == "rxe"}
                         | {"kunit"})
        patch, = glob.glob(os.path.join(TOP, "patches/linux*/14-mlx5-rereg/0002-*.patch"))
        mlx5 = affected(os.path.relpath(patch, TOP))
        self.assertIn("connectx-pinned/rereg/changes", mlx5)
        self.assertLess(set(since.PATCH_TESTS), mlx5)
        self.assertFalse({title for title in mlx5 if title.startswith("rxe/")})
        core = affected("kernel/drivers/infiniband/core/umem_fd.c")
        self.assertLess(rxe | mlx5 - set(since.PATCH_TESTS), core)
        self.assertNotIn("host/results", core)
        self.assertEqual(affected("kernel/Documentation/infiniband/dm.rst"), set())

    def test_a_provider_affects_its_devices(self):
        found = affected("rdma-core/providers/rxe/rxe_dm.c")
        self.assertIn("rxe/dm/data", found)
        self.assertNotIn("connectx/dm/data", found)
        self.assertIn("connectx/dm/data", affected("rdma-core/libibverbs/cmd_mr_fd.c"))

    def test_each_connectx_has_the_model_its_driver_and_its_provider(self):
        words = {device.word for device in programs.DEVICES if "connectx" in device.needs}
        self.assertIn("direct", words)
        on_model = {p.title for p in OURS if p.device and p.device.word in words}
        for path in ("devices/connectx/hca/cq.c", "kernel/drivers/infiniband/hw/mlx5/mr.c",
                     "rdma-core/providers/mlx5/verbs.c", "rdma-core/libibverbs/cmd_mr_fd.c"):
            self.assertLessEqual(on_model, affected(path), path)

    def test_what_guests_have_affects_the_host_tests_that_boot_them(self):
        for path in ("kernel/drivers/infiniband/core/umem_fd.c",
                     "kernel/drivers/infiniband/hw/mlx5/mr.c", "rdma-core/libibverbs/cmd_mr_fd.c",
                     "rdma-core/providers/mlx5/verbs.c", "perftest/src/memory.c"):
            found = affected(path)
            self.assertLess(of("host/(direct.*|leaving|lives|gpu|fabric|connectx|moves|modules"
                               "|debian|iommu|cluster|boot|shell|gdb)"), found, path)
            self.assertFalse(of("host/(join|patches|results|sources)") & found, path)
        self.assertLess(of("host/(demo|direct|gpu|lives|moves|painter)"), affected("tests/gpu/bo.c"))
        self.assertNotIn("host/iommu", affected("tests/gpu/bo.c"))
        self.assertLess(of("host/(iommu|modules)"), affected("tests/access/data.c"))
        self.assertEqual(affected("tests/lib/guests.c"), of("host/(direct_peers|lives|moves|uct)"))
        self.assertEqual(affected("tests/mpi/job.c"), {"host/cluster", "host/job_dies"})
        self.assertEqual(affected("tests/mpi/fd.c"), {"host/ucx"})
        self.assertEqual(affected("ucx/src/uct/dmabuf/dmabuf_md.c"), of("host/(hsa|ucx)"))
        self.assertEqual(affected("tests/lib/mpi_job.py"), {"host/cluster"})
        self.assertEqual(affected("tests/mpi/vram.c"), {"host/hsa"})
        for path in ("tests/hsa/memory.c", "tests/hsa/move-notify"):
            self.assertEqual(affected(path), {"host/hsa", "host/libfabric"})
        self.assertIn("host/hsa", affected("tests/lib/mover.c"))
        self.assertIn("rxe/programs/perftest", affected("tests/lib/perftest.py"))

    def test_the_model_affects_what_runs_on_it(self):
        found = affected("devices/connectx/hca/cq.c")
        self.assertLess(of("model/.*|host/connectx"), found)
        self.assertIn("connectx-two/dm/export", found)
        self.assertFalse({title for title in found if title.startswith("rxe/")})

    def test_a_module_affects_the_guests_that_have_it(self):
        self.assertEqual(in_no_host_test("tests/steps/mrfd_steps.c"),
                         of("faults/steps|faults/umr|faults/pages|faults/direct|faults/reported"))
        self.assertIn("rxe/exporters/gpu", affected("tests/gpu/bo.c"))
        self.assertEqual(in_no_host_test("tests/importer/Kbuild"), of("exporters/importer|dm/held"))

    def test_the_kit_affects_its_own_tests(self):
        self.assertEqual(affected("kit/mrfd/report.py"), of("host/.*|demo"))
        self.assertEqual(affected("Documentation/kit.md"), of("host/.*"))

    def test_what_each_program_runs_by_affects_everything(self):
        for name in ("machine", "pool", "devices", "programs", "environment", "topology",
                     "products", "console", "cases"):
            self.assertEqual(affected(f"kit/mrfd/{name}.py"), {p.title for p in OURS}, name)
        for name in "fabric", "selection", "since", "results":  # a part of the kit only
            self.assertEqual(affected(f"kit/mrfd/{name}.py"), of("host/.*|demo"), name)

    def test_what_no_rule_knows_affects_everything(self):
        for path in "kit/configs/base.config", "something/new.c":
            self.assertEqual(affected(path), {program.title for program in OURS})

    def test_what_changed_is_what_git_says(self):
        with tempfile.TemporaryDirectory() as top, mock.patch.object(since, "TOP", top):
            def write(name):
                with open(os.path.join(top, name), "w", encoding="utf-8") as file:
                    file.write("x")
            since.git("init", "-q")
            write("same"), write("edited"), write("gone")
            since.git("add", ".")
            since.git("-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "m")
            os.unlink(os.path.join(top, "gone"))
            with open(os.path.join(top, "edited"), "a", encoding="utf-8") as file:
                file.write("y")
            write("new")
            self.assertEqual(since.changed("HEAD")[1], ["edited", "gone", "new"])
            for wrong in "nosuch", "--help":
                with self.assertRaises(since.NoRevision):
                    since.changed(wrong)


class Depths(unittest.TestCase):
    def test_no_case_is_in_neither_depth(self):
        """What the quick runs leave out is in the full ones, and each program is in a run."""
        for kernel in "base", "debug", "kcsan":
            full = {p.title: p for p in OURS if p.head.on(kernel, True)}
            quick = [p for p in OURS if p.head.on(kernel, False)]
            self.assertLessEqual({p.title for p in quick}, set(full))
            for program in quick:
                self.assertLessEqual(set(program.quick().wanted), set(program.cases()))
                self.assertTrue(program.quick().wanted or not any(program.cases().values()),
                                f"{program.title} has no case in the quick run")
        for program in OURS:
            self.assertTrue(program.head.kernels, program.title)

    def test_each_guest_program_is_in_a_quick_run(self):
        quick = {p.name for p in OURS for kernel in ("base", "debug") if p.head.on(kernel, False)}
        # They need a kernel, a userland or a build that no program of a quick run has.
        self.assertEqual({p.name for p in OURS} - quick,
                         {"kcsan", "host/cluster", "host/debian", "host/hsa", "host/iommu",
                          "host/job_dies", "host/libfabric", "host/modules", "host/painter",
                          "host/uct", "host/ucx"})

    def test_a_depth_is_what_was_asked_for(self):
        with mock.patch.object(programs, "theirs", lambda kernel: []):
            quick = selection.whole("base", lambda program: False)
            full = selection.whole("base", lambda program: True)
            mixed = selection.whole("base", lambda program: program.name == "kunit")
        self.assertFalse(any(p.full for p in quick))
        self.assertTrue(all(p.full and not p.wanted for p in full))
        self.assertEqual([p.name for p in mixed if p.full], ["kunit"])
        self.assertLess(len(quick), len(full))


class Heads(unittest.TestCase):
    def read(self, text, suffix=".c"):
        with tempfile.NamedTemporaryFile("w", suffix=suffix, encoding="utf-8") as file:
            file.write(text)
            file.flush()
            return heads.read(file.name)

    def test_lines_of_c_and_python_are_read(self):
        self.assertEqual(
            self.read("// SPDX\n/* runs: quick debug; guest: gpu; devices: all pinned */\n"
                      "/* runs: full; devices: two */\n"),
            (heads.Head(("quick", "debug"), ("gpu",), ("rxe", "connectx", "pinned")),
             heads.Head(("full",), (), ("two",))))
        self.assertEqual(self.read("# SPDX\n# runs: quick\n", ".py"), (heads.Head(("quick",)),))

    def test_what_is_wrong_is_named(self):
        for text, word in (("int x;\n", "does not say where it runs"),
                           ("/* runs: quick fast */\n", "fast"), ("/* runs: quick; gest: gpu */", "gest"),
                           ("/* runs: quick; guest: gup */", "gup"), ("/* runs: quick; guest: */", "colon"),
                           ("/* runs: quick; devices: alll */", "alll"),
                           ("/* runs: quick; devices: rxe bogus */", "bogus")):
            with self.assertRaisesRegex(heads.BadHead, word):
                self.read(text)

    def test_guest_program_without_device_is_an_error(self):
        with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
            file.write("/* runs: quick */\n")
            file.flush()
            with self.assertRaisesRegex(heads.BadHead, "names no device"):
                heads.of_device(file.name, "rxe")

    def test_every_test_says_where_it_runs(self):
        for path in glob.glob(os.path.join(TOP, "tests/*/*.[cp]*")):
            name, _ = os.path.splitext(path)
            folder = os.path.basename(os.path.dirname(path))
            if folder not in programs.NOT_CASES and not os.path.exists(f"{name}.h"):
                known = {word for head in heads.read(path) for word in head.devices}
                self.assertTrue(known <= {d.word for d in programs.DEVICES} and known, path)

    def test_marks_of_cases_are_read(self):
        with tempfile.TemporaryDirectory() as top:
            path = os.path.join(top, "a.c")
            with open(path, "w", encoding="utf-8") as file:
                file.write("#define V(a) FIXTURE_VARIANT_ADD(f, a) {}\nFIXTURE_VARIANT_ADD(f, x) {}\n"
                           "/* runs: full */\nV(y);\n/* why */\n/* runs: full */\nTEST_F(f, slow)\n{ }\n"
                           "TEST_F(f, fast)\n{ }\n/* runs: full */\nTEST(alone) {}\n")
            self.assertEqual(sources.c_cases(path, top),
                             {"alone": True, "f.x.slow": True, "f.y.slow": True,
                              "f.x.fast": False, "f.y.fast": True})
            path = os.path.join(top, "b.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write("class A(unittest.TestCase):\n    def test_a(self):\n        pass\n\n"
                           "    # runs: full\n    @skip\n    def test_b(self):\n        pass\n\n\n"
                           "# runs: full\nclass B(A):\n    def test_c(self):\n        pass\n")
            self.assertEqual(sources.unittest_cases(path, "m"),
                             {"m.A.test_a": False, "m.A.test_b": True, "m.B.test_a": False,
                              "m.B.test_b": True, "m.B.test_c": True})


if __name__ == "__main__":
    unittest.main()
