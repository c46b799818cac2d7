# SPDX-License-Identifier: GPL-2.0-or-later
# runs: full
"""scripts/demo --vulkan: a shader paints in one guest, RDMA reads each frame where it was painted,
and each pixel arrives on the screen of another guest, or in its VRAM.  A frame that is blank,
stale, torn or painted in another way is a failure.

What a frame has to be the host computes by itself.  The message of a failure says whether the
frame was wrong already at the renderer, which prints a CRC of what it sees in its memory."""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zlib

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, TOP)
sys.path.insert(0, os.path.join(TOP, "kit"))
sys.dont_write_bytecode = True

from mrfd import machine  # noqa: E402
from mrfd.eyes import RenderedInVram  # noqa: E402
from mrfd.paths import inside  # noqa: E402
from mrfd.sunset import PERIOD, Sunset  # noqa: E402
from tests.host.test_demo import load  # noqa: E402

FRAME = 1280 * 800 * 4


class Picture(unittest.TestCase):
    """What kit/mrfd/sunset.py says about the bytes of a frame."""

    def setUp(self):
        self.film = Sunset(160, 500)

    def test_frames_of_a_period_differ_and_come_again(self):
        frames = [self.film.frame(number) for number in range(PERIOD)]
        self.assertEqual(len(set(frames)), PERIOD)
        self.assertEqual(self.film.frame(PERIOD + 7), frames[7])

    def test_each_frame_has_many_colours(self):
        frame = Sunset(1280, 800).frame(9)
        self.assertEqual(len(frame), FRAME)
        self.assertGreater(len({frame[at:at + 4] for at in range(0, FRAME, 4)}), 800)
        self.assertEqual(set(frame[3::4]), {0xff})

    def test_right_frame_has_no_fault(self):
        for number in 0, 1, 63, 64, 300:
            self.assertIsNone(self.film.fault(number, self.film.frame(number)))

    def test_stale_frame_is_named(self):
        self.assertEqual(self.film.fault(5, self.film.frame(4)),
                         "frame 4 is there where frame 5 should be")
        self.assertEqual(self.film.fault(60, self.film.frame(3)),
                         "frame 3 is there where frame 60 should be")

    def test_blank_frame_is_named(self):
        for blank in bytes(4), bytes.fromhex("60308000"):
            self.assertEqual(self.film.fault(5, blank * (160 * 500)),
                             f"all pixels are #{blank[2::-1].hex()} where frame 5 should be")

    def test_torn_frame_is_wrong(self):
        half = self.film.bytes // 2
        seen = self.film.frame(5)[:half] + self.film.frame(4)[half:]
        self.assertRegex(self.film.fault(5, seen), r"frame 5: \d+ of 80000 pixels differ")

    def test_wrong_pixel_is_located(self):
        for x, y in (0, 0), (159, 499), (17, 20):
            for byte in range(4):
                seen = bytearray(self.film.frame(5))
                seen[(y * 160 + x) * 4 + byte] ^= 1
                self.assertEqual(self.film.fault(5, bytes(seen)),
                                 f"frame 5: 1 of 80000 pixels differ, the first at x {x}, y {y}")

    def test_other_number_of_bytes_is_wrong(self):
        self.assertEqual(self.film.fault(5, self.film.frame(5)[:-4]),
                         "frame 5: there are 319996 bytes, not 320000")


class Crcs(unittest.TestCase):
    """What the host makes of the CRCs that the renderer prints."""

    def setUp(self):
        self.film = Sunset(64, 40)
        self.eye = RenderedInVram(self.film)
        self.eye.times = [0, 1, 2]
        self.says(*range(3))

    def says(self, *frames):
        """The renderer has printed the CRCs of frames 0, 1, 2 ..., which look so."""
        self.eye.sender = machine.Guest([])
        self.eye.sender._output += b"connected\n" + b"".join(
            b"crc=%d %08x\n" % (number, zlib.crc32(self.film.frame(frame)))
            for number, frame in enumerate(frames))

    def test_right_crcs_have_no_fault(self):
        self.assertIsNone(self.eye.crc_fault())

    def test_renderer_that_has_ended_without_a_crc_is_not_waited_for(self):
        self.says(0, 1)
        self.eye.sender._ended.set()
        self.eye.seen = self.film.frame(2)
        self.assertEqual(self.eye.blame(), ", and the renderer did not say what it painted")

    def test_other_and_missing_crcs_are_named(self):
        self.says(0, 1, 1)
        self.assertRegex(self.eye.crc_fault(),
                         "^the renderer says CRC [0-9a-f]{8} of frame 2, which has [0-9a-f]{8}$")
        self.says(0, 1)
        self.assertRegex(self.eye.crc_fault(), "^the renderer says no CRC of frame 2, which has ")

    def test_wrong_frame_is_blamed_on_whom_it_is_due(self):
        self.says(0, 1, 1)
        self.eye.seen = self.film.frame(1)
        self.assertEqual(self.eye.blame(), ", as the renderer painted it")
        self.says(0, 1, 2)
        self.assertEqual(self.eye.blame(), ", and the renderer painted something else")


class Refusals(unittest.TestCase):
    def test_picture_to_render_is_refused(self):
        made = [subprocess.run(words, cwd=TOP, capture_output=True, text=True, check=False)
                for words in (["scripts/demo", "--vulkan", "--picture", "a.png"],
                              ["make", "demo", "PAINTER=rembrandt"])]
        self.assertEqual([done.returncode for done in made], [2, 2])
        self.assertIn("--picture goes without --vulkan", made[0].stderr)
        self.assertIn("PAINTER=rembrandt: without PAINTER the picture is a file", made[1].stderr)


class Renders(unittest.TestCase):
    """Two guests, in one of which a renderer paints."""

    def setUp(self):
        os.makedirs(machine.BUILD, exist_ok=True)
        directory = tempfile.TemporaryDirectory(dir=machine.BUILD)
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.out = os.path.join(self.directory, "out")
        self.sources = os.path.join(self.directory, "demo/vulkan")

    def demo(self, *words):
        """(status, standard output, messages) of a run whose pictures are in self.out."""
        program = load()
        sources = self.sources if os.path.exists(self.sources) else program.VULKAN
        with (unittest.mock.patch.multiple(program, VULKAN=sources, VULKAN_OUT=self.out),
              unittest.mock.patch.object(sys, "argv", ["demo", "--vulkan", *words]),
              contextlib.redirect_stdout(io.StringIO()) as out,
              contextlib.redirect_stderr(io.StringIO()) as err):
            status = program.main()
        return status, out.getvalue(), err.getvalue()

    def edited(self, name, old, new):
        """Have the demo build the renderer with this change."""
        shutil.copytree(os.path.join(TOP, "demo"), os.path.dirname(self.sources))
        path = os.path.join(self.sources, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text.count(old), 1, old)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))

    def pixels(self, name):
        return load().convert("pixels", inside(os.path.join(self.out, name)))

    def check(self, frames, *words, rows):
        status, out, err = self.demo("--frames", str(frames), *words)
        self.assertEqual(status, 0, out + err)
        for row in (r"rendered: by llvmpipe \(LLVM .*\), into dma-bufs of udmabuf\n",
                    rf"written: {frames * FRAME} bytes, {frames} frames of 1280 x 800, by",
                    rf"checked: {frames} frames, every pixel, ", r"frames match: yes\n\Z", *rows):
            self.assertRegex(out, row)
        last = Sunset(1280, 800).frame(frames - 1)
        self.assertEqual(self.pixels("last.png"), last)
        self.assertEqual(self.pixels("computed.png"), last)
        for name in "proof.png", "film.png":
            self.assertIn(name, os.listdir(self.out))
        return out

    def test_rendered_frames_arrive_on_a_screen_by_soft_roce(self):
        self.check(5, rows=[r"registered: .* memory is of bochs-drm, dma-buf, 4096000 bytes\n",
                            "by rxe0\n", "every pixel, on the screen, and the renderer's CRCs\n"])

    def test_rendered_frames_arrive_in_vram_by_mlx5(self):
        out = self.check(8, "--connectx", rows=[
            r"registered: .* memory is of mrfd_gpu, dma-buf, 12288000 bytes\n", "by mlx5_0\n",
            "every pixel, in the GPU's BAR, and the renderer's CRCs\n"])
        counted = int(re.search(r"model counted: (\d+) bytes by the first function\n", out)[1])
        self.assertLess(counted - 8 * FRAME, 100000)

    def test_rendered_frames_arrive_in_vram_by_data_direct(self):
        self.check(4, "--connectx", "--direct", rows=[
            rf"model counted: {4 * FRAME} bytes by the second function, \d+ bytes by the first"])

    def failure(self, *words):
        status, out, err = self.demo("--frames", "4", *words)
        self.assertEqual((status, out), (1, "frames match: NO\n"), err)
        return err

    def test_shader_that_repeats_a_frame_fails(self):
        self.edited("sunset.frag", "push.frame % PERIOD", "push.frame / 2 * 2 % PERIOD")
        self.assertIn("demo: frame 0 is there where frame 1 should be, "
                      "as the renderer painted it\n", self.failure())

    def test_shader_that_paints_all_black_fails(self):
        self.edited("sunset.frag", "0xff000000u | uint(", "0xff000000u | 0u & uint(")
        self.assertIn("demo: all pixels are #000000 where frame 0 should be, as the renderer "
                      "painted it\n", self.failure())

    def test_frame_from_another_canvas_fails(self):
        self.edited("renderer.c", ".lkey = r->mr[place]->lkey", ".lkey = r->mr[0]->lkey")
        self.assertIn("demo: frame 0 is there where frame 1 should be, and the renderer painted "
                      "something else\n", self.failure("--connectx"))


if __name__ == "__main__":
    unittest.main()
