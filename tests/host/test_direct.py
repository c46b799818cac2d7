# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""Data Direct leaves by the second function of the card: the model's counts say so to the byte,
and a buffer that must stay in VRAM is reached only by the function that is near the GPU.  It
reaches the memory of another card too.  With
--late-data a program that forgets its flush sees old bytes.

So do the bytes of perftest, and the frames of the demo, which does not forget it."""

import contextlib
import dataclasses
import io
import os
import re
import sys
import unittest
import unittest.mock

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))
sys.path.insert(0, TOP)

from mrfd import machine  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import CONNECTX_DIRECT  # noqa: E402
from mrfd.paths import inside  # noqa: E402
from mrfd.traffic import Traffic, by_function  # noqa: E402
from tests.host.test_demo import load  # noqa: E402
from tests.host.test_gpu import PAGE, SEED, SIZE, pattern  # noqa: E402

PROGRAM = "guests/direct"
PERFTEST = ("tests.programs.perftest_direct.PerftestDirect."
            "test_writes_and_reads_go_by_data_direct")
SAID = re.compile(r"second function: (\d+) written, (\d+) read, (\d+) atomics")
# Of the trace, for each MR: the pages of the list to which its key leads.
PAGES = re.compile(r" crosses to 0x[0-9a-f]+, in pages of 1 << (\d+)")


class Direct(unittest.TestCase):
    def run_case(self, case, devices, **more):
        """Run one case: (the guest, what it said, the Traffic of the second function)."""
        out = programs.build_tests([PROGRAM])
        options = programs.test_guest("base", CONNECTX_DIRECT)
        options.update(devices=["qxl", *devices], **more)
        guest = machine.Guest([f"{out}/{PROGRAM}", "-r", f"way.{case}"], **options)
        guest.run()
        said = guest.output.decode()
        self.assertEqual(guest.status, 0, said + guest.tail())
        self.assertIn("pass:1 ", said)
        model = next(name for name in devices if name.startswith("connectx"))
        return guest, said, by_function(guest, model)["second"]

    def test_each_byte_leaves_by_its_function(self):
        _, said, second = self.run_case("each_byte_leaves_by_its_function", ["connectx", "direct"])
        written, read, atomics = map(int, SAID.search(said).groups())
        self.assertGreater(written, 200000)
        self.assertEqual(second, Traffic(read, written, atomics))

    def test_each_byte_of_perftest_leaves_by_its_function(self):
        guest = machine.Guest(
            ["env", "-C", inside(TOP), "python3", "-m", "unittest", PERFTEST],
            **programs.test_guest("base", CONNECTX_DIRECT, "perftest"))
        guest.run()
        self.assertEqual(guest.status, 0, guest.output.decode() + guest.tail())
        second = by_function(guest)["second"]
        self.assertEqual(second, Traffic(2 * 100 * 65536, 2 * 100 * 65536), "two runs of each")

    def test_list_has_pages_as_large_as_they_can_be(self):
        """Each MR is made by upstream's verb and by ours."""
        guest, said, _ = self.run_case("pages_are_as_large_as_they_can_be",
                                       ["connectx", "direct"], model=["--trace"])
        with open(os.path.join(guest.log_dir, "connectx.log"), encoding="utf-8") as log:
            found = [int(pages) for pages in PAGES.findall(log.read())]
        wanted = re.findall(r": pages (\d+)(\+?)$", said, re.M)
        self.assertEqual(len(wanted), 12)
        self.assertEqual(len(found), 2 * len(wanted))
        for number, (pages, or_larger) in enumerate(wanted):
            for verb in 0, 1:
                with self.subTest(region=number, verb=verb):
                    compare = self.assertGreaterEqual if or_larger else self.assertEqual
                    compare(found[2 * number + verb], int(pages))

    def test_two_cards_have_a_function_each(self):
        guest, said, second = self.run_case("each_card_has_its_own_function",
                                            ["connectx", "direct", "connectx-2", "direct-2"])
        wanted = [int(many) for many in re.findall(r"card \d: (\d+) bytes", said)]
        self.assertGreater(len(set(wanted)), 1)
        for found, many in zip((second, by_function(guest, "connectx-2")["second"]), wanted,
                               strict=True):
            self.assertEqual(found, Traffic(many, many))

    def test_device_memory_of_another_card_is_reached_by_the_second_function(self):
        _, _, second = self.run_case("second_function_reaches_dm_of_another_card",
                                     ["connectx", "direct", "connectx-2"])
        self.assertEqual(second, Traffic(2 * 8192, 2 * 8192), "by two verbs")

    def assert_vram_has_pattern(self, guest):
        at = guest.vram.find(pattern(SIZE, SEED))
        self.assertNotEqual(at, -1, "the pattern is nowhere in VRAM")
        self.assertEqual(at % PAGE, 0)

    def test_buffer_in_vram_is_reached_by_the_function_beside_the_gpu(self):
        # The CPU of an AMD host joins the root ports (cpu_supports_p2pdma()).
        guest, _, second = self.run_case("vram_is_near_the_second_function",
                                      ["connectx-apart", "direct", "gpu"], accel="tcg")
        self.assert_vram_has_pattern(guest)
        self.assertEqual(second, Traffic(SIZE, SIZE))

    def test_buffer_in_vram_is_not_reached_by_a_second_function_apart(self):
        guest, _, second = self.run_case("vram_is_near_the_first_function",
                                      ["connectx", "direct-apart", "gpu"], accel="tcg")
        self.assert_vram_has_pattern(guest)
        self.assertEqual(second, Traffic())

    def test_port_with_acs_blocks_the_second_function(self):
        devices = ["connectx", "direct-slot", "gpu-slot"]
        self.run_case("vram_is_near_the_second_function", devices, accel="tcg")
        # Request redirection, at every root port of QEMU.
        guest, _, second = self.run_case("vram_is_near_no_function", devices, accel="tcg",
                                         append="pci=config_acs=1xx@pci:1b36:000c")
        self.assertEqual(guest.console.count("Configured ACS to 0x0004"), 2)
        self.assertEqual(second, Traffic())

    def test_late_data_need_a_flush(self):
        for case, ms in ("late_data_need_a_flush", "3600000"), ("late_data_come_by_themselves", "200"):
            with self.subTest(case=case):
                self.run_case(case, ["connectx", "direct"], model=["--late-data", ms])


class Demo(unittest.TestCase):
    """scripts/demo --connectx --direct"""

    FRAMES, FRAME = 30, 1280 * 800 * 4

    def demo(self, **changes):
        """(status, standard output, messages) of a run on the device with these changes."""
        program = load()
        device = dataclasses.replace(CONNECTX_DIRECT, **changes)
        words = ["demo", "--connectx", "--direct", "--frames", str(self.FRAMES)]
        with (unittest.mock.patch.object(program, "CONNECTX_DIRECT", device),
              unittest.mock.patch.object(sys, "argv", words),
              contextlib.redirect_stdout(io.StringIO()) as out,
              contextlib.redirect_stderr(io.StringIO()) as err):
            status = program.main()
        return status, out.getvalue(), err.getvalue()

    def test_each_byte_of_the_frames_leaves_by_the_second_function(self):
        status, out, err = self.demo()
        self.assertEqual(status, 0, out + err)
        self.assertRegex(out, rf"written: {self.FRAMES * self.FRAME} bytes")
        counted = re.search(r"model counted: (\d+) bytes by the second function, "
                            r"(\d+) bytes by the first function\n", out)
        self.assertEqual(int(counted[1]), self.FRAMES * self.FRAME)
        self.assertLess(int(counted[2]), 100000)
        self.assertRegex(out, r"frames match: yes\n\Z")

    def test_no_frame_is_shown_before_late_data_have_arrived(self):
        status, out, err = self.demo(model=("--late-data", "3600000"))
        self.assertEqual(status, 0, out + err)
        self.assertRegex(out, r"frames match: yes\n\Z")

    def test_card_without_the_function_fails_and_sends_no_frame(self):
        status, out, err = self.demo(qemu=("connectx",))
        self.assertEqual((status, out), (1, ""))
        self.assertIn("cannot register 12288000 bytes of pixels with mlx5_0: No such device "
                      "(the card has no second function", err)
        self.assertIn("demo: the program in guest viewer failed", err)


if __name__ == "__main__":
    unittest.main()
