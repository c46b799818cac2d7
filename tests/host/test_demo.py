# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""scripts/demo tells a screen that matches from one that does not, paints any PNG, and says
what is wrong with one that it cannot paint.  Of moving pictures it finds a frame that is
torn, late, missing or wrong in one pixel; with the ConnectX model all arrive."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import zlib

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))
sys.dont_write_bytecode = True

from mrfd import machine  # noqa: E402
from mrfd import products  # noqa: E402
from mrfd.devices import CONNECTX, CONNECTX_DIRECT  # noqa: E402
from mrfd.film import Film  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from mrfd.paths import inside  # noqa: E402
from mrfd.traffic import Traffic  # noqa: E402

# A test that is started in the background may have SIGINT ignored, and so would
# the programs that it interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

DEMO = os.path.join(TOP, "scripts", "demo")
OUT = os.path.join(machine.BUILD, "demo")
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6  # PNG's colour types
PAPER = (0x1b, 0x26, 0x31)  # demo/picture.c


def png(path, width, height, data, colour=RGB, depth=8, palette=b""):
    """Write a PNG file; data has the samples of all rows, without filters."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(
            ">I", zlib.crc32(kind + body))
    row = len(data) // height
    rows = b"".join(b"\0" + data[y * row:(y + 1) * row] for y in range(height))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n"
                + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
                + (chunk(b"PLTE", palette) if palette else b"")
                + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def enter(*words):
    return subprocess.run([os.path.join(TOP, "scripts", "enter"), *words], cwd=TOP, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def demo(*words):
    return subprocess.run([DEMO, *words], cwd=TOP, capture_output=True, text=True,
                          timeout=patience(180))


def load():
    """scripts/demo as a module."""
    loader = importlib.machinery.SourceFileLoader("demo", DEMO)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("demo", loader))
    loader.exec_module(module)
    return module


def descendants(pid):
    """The processes that a process has started, directly or not."""
    table = subprocess.run(["ps", "-eo", "pid=,ppid="], stdout=subprocess.PIPE, text=True).stdout
    parents = [tuple(map(int, line.split())) for line in table.splitlines()]
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents if its_parent == parent]
    return found[1:]


class InDirectory(unittest.TestCase):
    def setUp(self):
        os.makedirs(machine.BUILD, exist_ok=True)
        directory = tempfile.TemporaryDirectory(dir=machine.BUILD)
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def path(self, name):
        return os.path.join(self.directory, name)


class Compare(InDirectory):
    """demo/compare.py"""

    def compare(self, sent, screen, size=(4, 3), other_size=None):
        png(self.path("sent.png"), *size, sent)
        png(self.path("screen.png"), *(other_size or size), screen)
        done = enter("python3", "demo/compare.py", inside(self.path("sent.png")),
                     inside(self.path("screen.png")))
        return done.returncode, done.stdout.strip()

    def test_equal_pictures_match(self):
        self.assertEqual(self.compare(bytes(range(36)), bytes(range(36))), (0, ""))

    def test_difference_of_one_in_one_colour_is_found(self):
        sent = bytes(range(36))
        for colour in range(3):
            screen = bytearray(sent)
            screen[(1 * 4 + 2) * 3 + colour] ^= 1
            status, text = self.compare(sent, bytes(screen))
            self.assertEqual(status, 1)
            self.assertIn("1 of 12 pixels differ, the first at x 2, y 1: sent #121314", text)
            self.assertIn("screen #" + screen[18:21].hex(), text)

    def test_first_differing_pixel_in_reading_order_is_named(self):
        screen = bytearray(36)
        screen[(1 * 4 + 3) * 3] = screen[(2 * 4 + 0) * 3] = 9
        self.assertEqual(self.compare(bytes(36), bytes(screen))[1],
                         "2 of 12 pixels differ, the first at x 3, y 1: "
                         "sent #000000, screen #090000")

    def test_pictures_of_different_size_differ(self):
        self.assertEqual(self.compare(bytes(36), bytes(36), (4, 3), (3, 4)),
                         (1, "the sizes differ: sent 4 x 3, screen 3 x 4"))


class Refusals(InDirectory):
    """What cannot be painted is refused with its name, before any guest runs."""

    def test_missing_picture_is_refused(self):
        done = demo("--picture", "/no/such.png")
        self.assertEqual((done.returncode, done.stderr), (
            1, "demo: cannot read the picture /no/such.png: No such file or directory\n"))

    def test_picture_without_a_name_is_refused(self):
        done = demo("--picture", "")
        self.assertEqual((done.returncode, done.stderr), (
            1, "demo: --picture wants the name of a PNG file, and got an empty one\n"))

    def test_file_that_is_no_png_is_refused(self):
        done = demo("--picture", "demo/tux.svg")
        self.assertEqual((done.returncode, done.stderr), (1, "demo: demo/tux.svg is not a PNG file\n"))

    def test_truncated_png_is_refused(self):
        png(self.path("a.png"), 64, 64, os.urandom(64 * 64 * 3))
        os.truncate(self.path("a.png"), 5000)
        done = demo("--picture", self.path("a.png"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, f"demo: cannot use {self.path('a.png')}: painter: the picture: .")

    def test_what_is_in_the_way_is_named_before_anything_is_built(self):
        module, said = load(), io.StringIO()
        module.OUT = self.path("demo")
        module.VULKAN_OUT = self.path("demo/vulkan")
        os.mkdir(module.OUT)
        open(module.VULKAN_OUT, "w").close()
        with unittest.mock.patch.object(sys, "argv", ["demo", "--vulkan"]), \
                unittest.mock.patch.object(module, "build") as build, \
                contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            self.assertEqual(module.main(), 1)
        build.assert_not_called()
        self.assertEqual(said.getvalue(),
                         f"demo: {module.VULKAN_OUT}: File exists\nthe demo writes there: remove "
                         "what is in the way, or make it writable\n")

    def test_data_direct_without_a_connectx_is_refused(self):
        made = subprocess.run(["make", "demo", "DIRECT=1"], cwd=TOP, capture_output=True, text=True)
        for done, said in ((demo("--direct"), "demo: error: --direct goes with --connectx"),
                           (made, "DIRECT=1 goes with DEVICE=connectx")):
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)

    def test_invalid_number_of_frames_is_refused(self):
        for frames in "0", "-1", "x", "1001":
            self.assertEqual(demo("--frames", frames).returncode, 2)


class Build(InDirectory):
    """demo/Makefile"""

    def setUp(self):
        super().setUp()
        self.rdma_core = inside(products.tool("rdma-core", "--provider", "mlx5"))
        self.assertEqual(self.make().returncode, 0)

    def make(self, *words):
        return enter("env", f"PKG_CONFIG_PATH={self.rdma_core}/lib/pkgconfig",
                     "make", "-C", "demo", f"OUT={inside(self.directory)}", *words)

    # runs: full
    def test_make_rebuilds_after_changes_only(self):
        self.assertEqual(self.make("-q").returncode, 0)
        for changed in "picture.c", "protocol.h", f"{self.rdma_core}/include/infiniband/verbs.h":
            with self.subTest(changed=changed):
                self.assertEqual(self.make("-q", "-W", changed).returncode, 1)

    def test_programs_load_our_libraries(self):
        for program in "screen", "painter", "camera", "viewer":
            for library in "libibverbs.so.1", "librdmacm.so.1":
                self.assertIn(f"{library} => {self.rdma_core}/lib/{library} ",
                              enter("ldd", inside(self.path(program))).stdout)


class Pictures(InDirectory):
    """painter --render: every kind of PNG as the pixels of a screen."""

    @classmethod
    def setUpClass(cls):
        os.makedirs(OUT, exist_ok=True)
        load().build()

    def rendered(self, pixels, width, height, *rest, **options):
        """The colours at these places of the screen for such a picture."""
        png(self.path("in.png"), width, height, *rest, **options)
        done = enter(inside(os.path.join(OUT, "painter")), "--render",
                     inside(self.path("out.png")), inside(self.path("in.png")))
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        done = enter("python3", "-c", "import sys; from PIL import Image; "
                     f"i = Image.open({inside(self.path('out.png'))!r}).convert('RGB'); "
                     f"print(i.size, [i.getpixel(p) for p in {list(pixels)!r}])")
        return done.stdout.strip()

    def check(self, expected, *rest, **options):
        self.assertEqual(self.rendered(expected, *rest, **options),
                         f"(1280, 800) {list(expected.values())}")

    def test_number_of_frames_is_a_number(self):
        for word in "0", "2x", "", "10001":
            done = enter(inside(os.path.join(OUT, "painter")), "--frames", word, "x.png", "host")
            self.assertEqual(done.returncode, 2)
            self.assertIn("--frames takes 1 to 10000", done.stdout)

    def test_picture_of_screen_size_is_unchanged(self):
        data = os.urandom(1280 * 800 * 3)
        places = [(0, 0), (1279, 0), (0, 799), (1279, 799), (640, 400), (17, 313)]
        self.check({(x, y): tuple(data[(y * 1280 + x) * 3:][:3]) for x, y in places},
                   1280, 800, data)

    def test_wide_picture_has_paper_above_and_below(self):
        self.check({(0, 199): PAPER, (0, 200): (1, 2, 3), (1279, 599): (1, 2, 3),
                    (640, 600): PAPER}, 64, 20, bytes((1, 2, 3)) * 64 * 20)

    # runs: full
    def test_high_picture_has_paper_left_and_right(self):
        self.check({(239, 0): PAPER, (240, 0): (9, 8, 7), (1039, 799): (9, 8, 7),
                    (1040, 400): PAPER}, 50, 50, bytes((9, 8, 7)) * 50 * 50)

    def test_larger_picture_is_averaged(self):
        self.check({(0, 0): (100, 101, 102), (1279, 799): (100, 101, 102)}, 2560, 1600,
                   (bytes((50, 51, 52)) + bytes((150, 151, 152))) * 1280 * 1600)

    # runs: full
    def test_enlarged_pixels_keep_their_colours(self):
        self.check({(0, 0): (255, 0, 0), (639, 799): (255, 0, 0), (640, 0): (0, 0, 255)},
                   16, 10, (bytes((255, 0, 0)) * 8 + bytes((0, 0, 255)) * 8) * 10)

    def test_grey_picture_is_rendered(self):
        self.check({(0, 0): (77, 77, 77)}, 16, 10, bytes([77]) * 160, GREY)

    # runs: full
    def test_one_bit_grey_is_rendered(self):
        self.check({(0, 0): (255, 255, 255), (1279, 0): (0, 0, 0)}, 16, 10, b"\xff\0" * 10, GREY, 1)

    # runs: full
    def test_palette_picture_is_rendered(self):
        self.check({(0, 0): (4, 5, 6), (1279, 799): (1, 2, 3)}, 16, 10,
                   (b"\1" * 8 + b"\0" * 8) * 10, PALETTE, palette=bytes((1, 2, 3, 4, 5, 6)))

    # runs: full
    def test_sixteen_bit_picture_is_rendered(self):
        self.check({(0, 0): (0x12, 0x56, 0x9a)}, 16, 10, b"\x12\x12\x56\x56\x9a\x9a" * 160, RGB, 16)

    def test_transparent_pixels_show_the_paper(self):
        self.check({(0, 0): (10, 20, 30), (1279, 0): PAPER}, 16, 10,
                   (bytes((10, 20, 30, 255)) * 8 + bytes((10, 20, 30, 0)) * 8) * 10, RGBA)
        self.check({(0, 0): (10, 10, 10), (1279, 0): PAPER}, 16, 10,
                   (bytes((10, 255)) * 8 + bytes((10, 0)) * 8) * 10, GREY_ALPHA)

    # runs: full
    def test_picture_one_pixel_wide_is_rendered(self):
        self.check({(639, 0): (5, 5, 5), (638, 0): PAPER}, 1, 3000, bytes((5, 5, 5)) * 3000)


class Verdict(InDirectory):
    """What scripts/demo says about a screen, without real guests."""

    def verdict(self, sent, screen):
        results = {"driver": "d", "fd_type": "f", "bytes": "4096000", "register_ns": "1500000",
                   "frames": "2", "written": "8192000", "write_ns": "100000000"}

        def run(_sent, shown, _frames):
            png(shown, 1280, 800, screen)
            return results

        png(self.path("a.png"), 1280, 800, sent)
        program = load()
        with (unittest.mock.patch.object(program, "run", run),
              unittest.mock.patch.object(sys, "argv", ["demo", "--picture", self.path("a.png")]),
              contextlib.redirect_stdout(io.StringIO()) as out,
              contextlib.redirect_stderr(io.StringIO()) as err):
            status = program.main()
        return status, out.getvalue(), err.getvalue()

    def test_matching_screen_is_a_success(self):
        data = os.urandom(1280 * 800 * 3)
        status, out, _ = self.verdict(data, data)
        self.assertEqual((status, out), (0, """\
      registered: d, f, 4096000 bytes
time to register: 1.500 ms
         written: 8192000 bytes, 2 frames
            rate: 81.9 MB/s
  screen matches: yes
"""))

    def test_screen_with_one_wrong_pixel_is_a_failure(self):
        data = os.urandom(1280 * 800 * 3)
        status, out, err = self.verdict(data, data[:-1] + bytes([data[-1] ^ 1]))
        self.assertEqual(status, 1)
        self.assertIn("screen matches: NO\n", out)
        self.assertTrue(os.path.exists(os.path.join(OUT, "proof.png")))
        self.assertIn("demo: the screen is not what was sent: 1 of 1024000 pixels differ, "
                      "the first at x 1279, y 799", err)


class Proof(InDirectory):
    """demo/proof.py"""

    ROWS = "registered: bochs-drm, dma-buf\n      rate: 81.9 MB/s\n"

    def colours(self, *places):
        """The size of the picture, and what is at these places."""
        done = subprocess.run([os.path.join(TOP, "scripts", "enter"), "python3", "demo/proof.py",
                               *(inside(self.path(f"{name}.png")) for name in ("sent", "screen", "proof"))],
                              cwd=TOP, text=True, input=self.ROWS, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        done = enter("python3", "-c", "from PIL import Image; "
                     f"i = Image.open({inside(self.path('proof.png'))!r}).convert('RGB'); "
                     f"print(i.size, [i.getpixel(p) for p in {list(places)!r}])")
        return done.stdout.strip()

    def test_both_pictures_are_side_by_side_above_the_table(self):
        png(self.path("sent.png"), 1280, 800, bytes((200, 10, 10)) * 1280 * 800)
        png(self.path("screen.png"), 1280, 800, bytes((10, 10, 200)) * 1280 * 800)
        self.assertEqual(self.colours((300, 200), (900, 200), (5, 5)),
                         "(1200, 520) [(200, 10, 10), (10, 10, 200), (255, 255, 255)]")

    def test_proof_picture_is_small(self):
        noise = os.urandom(1280 * 800 * 3)
        for name in "sent", "screen":
            png(self.path(f"{name}.png"), 1280, 800, noise)
        self.colours()
        self.assertLess(os.path.getsize(self.path("proof.png")), 500000, "even of noise")


class WholeRun(InDirectory):
    """Two guests, a picture, and the screen."""

    def check(self, done, frames):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"registered: bochs-drm, dma-buf, 4096000 bytes\n")
        self.assertRegex(done.stdout, r"time to register: \d+\.\d+ ms\n")
        self.assertRegex(done.stdout, rf"written: {frames * 4096000} bytes")
        self.assertRegex(done.stdout, r"rate: \d+\.\d MB/s\n")
        self.assertRegex(done.stdout, r"screen matches: yes\n\Z")
        self.assertIn("this table are in build/demo/proof.png\n", done.stderr)

    # runs: full
    def test_tux_arrives_on_the_screen(self):
        self.check(demo("--frames", "2"), 2)

    # runs: full
    def test_rgba_noise_of_odd_size_arrives(self):
        png(self.path("a.png"), 333, 777, os.urandom(333 * 777 * 4), RGBA)
        self.check(demo("--picture", self.path("a.png"), "--frames", "1"), 1)

    # runs: full
    def test_interrupt_leaves_nothing_running(self):
        with subprocess.Popen([DEMO, "--frames", "1000"], stderr=subprocess.PIPE, text=True,
                              cwd=TOP, start_new_session=True) as process:
            for line in process.stderr:
                if "connected to" in line:
                    break
            running = descendants(process.pid)
            self.assertGreaterEqual(len(running), 2)
            os.killpg(process.pid, signal.SIGINT)
            self.assertIn("demo: interrupted", process.stderr.read())
        self.assertEqual(process.returncode, 130)
        end = time.monotonic() + patience(5)
        while any(os.path.exists(f"/proc/{pid}") for pid in running):
            self.assertLess(time.monotonic(), end, "processes of the demo run after the interrupt")
            time.sleep(0.1)


class Convert(InDirectory):
    """demo/frames.py"""

    def test_png_converts_to_its_pixels(self):
        png(self.path("a.png"), 2, 1, bytes((1, 2, 3, 4, 5, 6)))
        self.assertEqual(load().convert("pixels", inside(self.path("a.png"))),
                         bytes((3, 2, 1, 255, 6, 5, 4, 255)))

    def test_pixels_survive_conversion_to_png(self):
        pixels = bytes((3, 2, 1, 255, 6, 5, 4, 255)) * 8
        load().convert("png", "4", "4", inside(self.path("a.png")), pixels=pixels)
        self.assertEqual(load().convert("pixels", inside(self.path("a.png"))), pixels)

    def test_truncated_pixels_are_refused(self):
        program = load()
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(program.DemoError):
            program.convert("png", "4", "4", inside(self.path("a.png")), pixels=bytes(60))


class Frames(unittest.TestCase):
    """What kit/mrfd/film.py says about the bytes of a frame."""

    WIDTH, HEIGHT, STRIP = 64, 40, 64 * 4 * 16

    def setUp(self):
        self.picture = os.urandom(self.WIDTH * self.HEIGHT * 4)
        self.film = Film(self.picture, self.WIDTH, self.HEIGHT)

    def test_each_frame_moves_by_eight_pixels(self):
        self.assertEqual(self.film.period(), 8)
        for number, pixels in (0, 0), (1, 8), (7, 56), (8, 0):
            begin = self.STRIP + 4 * pixels
            self.assertEqual(self.film.frame(number)[self.STRIP:-self.STRIP],
                             self.picture[begin:begin + 8 * self.WIDTH * 4])

    def test_strips_show_frame_number_in_binary(self):
        zero, one = bytes.fromhex("4f3216ff"), bytes.fromhex("57c8ffff")
        row = one * 4 + zero * 40 + one * 4 + zero * 4 + one * 8 + zero * 4
        self.assertEqual(self.film.strip(0x8016), row * 16)
        self.assertEqual(self.film.number_in(row * 16), 0x8016)
        self.assertIsNone(self.film.number_in(row * 15 + row[:-1] + b"\0"))

    def test_right_frame_has_no_fault(self):
        for number in 0, 1, 300:
            self.assertIsNone(self.film.fault(number, self.film.frame(number)))

    def test_stale_frame_is_named(self):
        self.assertEqual(self.film.fault(5, self.film.frame(3)),
                         "frame 3 is there where frame 5 should be")
        self.assertEqual(self.film.fault(5, bytes(len(self.picture))),
                         "no frame is there where frame 5 should be")

    def test_torn_frame_is_named(self):
        seen = self.film.frame(5)[:-self.STRIP - 1] + self.film.frame(3)[-self.STRIP - 1:]
        self.assertEqual(self.film.fault(5, seen),
                         "frame 5 is torn: its top is of frame 5, its bottom of frame 3")

    def test_wrong_pixel_is_located(self):
        for x, y in (0, 16), (63, 23), (17, 20):
            seen = bytearray(self.film.frame(5))
            seen[(y * self.WIDTH + x) * 4] ^= 1
            self.assertEqual(self.film.fault(5, bytes(seen)), "frame 5: 1 of 2560 pixels differ, "
                             f"the first at x {x}, y {y}")


class Viewer(unittest.TestCase):
    """What scripts/demo makes of what the viewer says and of what is in VRAM."""

    AT = 4096  # where the buffer is

    def setUp(self):
        self.program = load()
        self.film = Film(os.urandom(64 * 40 * 4), 64, 40)
        self.eye = self.program.Eye(self.film)
        self.eye.guest = unittest.mock.Mock(
            vram=bytearray(self.AT + self.eye.PLACES * self.film.bytes))
        self.eye(b"offset=4096\n")

    def put(self, number, data=None):
        begin = self.AT + number % self.eye.PLACES * self.film.bytes
        self.eye.guest.vram[begin:begin + self.film.bytes] = data or self.film.frame(number)

    def test_each_right_frame_is_answered(self):
        for number in range(12):
            self.put(number)
            self.eye(b"frame=")
            self.assertEqual(self.eye.guest.send.call_count, number)
            self.eye(b"%d\n" % number)
            self.assertEqual(self.eye.guest.send.call_count, number + 1)
        self.assertIsNone(self.eye.fault)
        self.assertEqual(len(self.eye.times), 12)

    def test_wrong_frame_stops_the_answers(self):
        self.put(0)
        self.eye(b"frame=0\nframe=1\n")
        self.assertEqual(self.eye.fault, "no frame is there where frame 1 should be")
        self.put(2)
        self.eye(b"frame=2\n")
        self.assertEqual(self.eye.guest.send.call_count, 1)

    def test_missing_frame_stops_the_answers(self):
        self.put(0)
        self.put(1)
        self.eye(b"frame=1\n")
        self.assertEqual(self.eye.fault, "frame 0 is missing: number 1 has come")
        self.eye.guest.send.assert_not_called()

    def test_other_route_than_peer_to_peer_is_refused(self):
        right = {"place": "VRAM", "peers": "1", "moves": "0"}
        self.program.check_route(right)
        for name, value in ("place", "system memory"), ("peers", "0"), ("moves", "1"):
            with self.assertRaisesRegex(self.program.DemoError, "did not go peer to peer"):
                self.program.check_route({**right, name: value})

    def test_frames_by_another_function_are_refused(self):
        frame, result = 4096000, {"written": "8192000"}
        both = {"first": Traffic(written=99), "second": Traffic(written=2 * frame)}
        self.assertEqual(self.program.check_function(CONNECTX_DIRECT, result, both),
                         "8192000 bytes by the second function, 99 bytes by the first function")
        usual = {"first": Traffic(written=2 * frame + 99)}
        self.assertEqual(self.program.check_function(CONNECTX, result, usual),
                         "8192099 bytes by the first function")
        for device, traffic in ((CONNECTX_DIRECT, {}), (CONNECTX_DIRECT, usual), (CONNECTX, {}),
                                (CONNECTX, {**usual, "second": Traffic(written=1)}),
                                (CONNECTX_DIRECT, {**both, "first": Traffic(written=frame)}),
                                (CONNECTX_DIRECT, {**both, "second": Traffic(written=frame)})):
            with self.subTest(device=device.name, traffic=traffic), self.assertRaisesRegex(
                    self.program.DemoError, "8192000 bytes of the frames did not go"):
                self.program.check_function(device, result, traffic)

    def film_run(self, seconds, frames=3, fault=None):
        """(status, standard output, messages) of a run without guests, so fast."""
        def run(_device, _sender, eye):
            eye.guest = self.eye.guest
            eye.seen, eye.fault = bytes(eye.film.bytes), fault
            eye.times = [seconds * n for n in range(frames)]
            eye.kept = [eye.seen] * 2
            if fault:
                self.program.watch([unittest.mock.Mock(**{"wait.return_value": False})], eye,
                                   unittest.mock.Mock())
            return {"driver": "d", "fd_type": "f", "bytes": "8192000", "register_ns": "1500000",
                    "device": "mlx5_0", "written": "12288000", "frames": "3", "place": "VRAM",
                    "peers": "1", "moves": "0"}, {"first": Traffic(written=12288001)}

        with (unittest.mock.patch.object(self.program, "run_film", run),
              unittest.mock.patch.object(self.program, "prepare"),
              unittest.mock.patch.object(self.program, "convert",
                                         lambda *_, **__: bytes(1280 * 800 * 4)),
              unittest.mock.patch.object(os, "getloadavg", lambda: (1.26, 0, 0)),
              unittest.mock.patch.object(sys, "argv",
                                         ["demo", "--connectx", "--frames", "3"]),
              contextlib.redirect_stdout(io.StringIO()) as out,
              contextlib.redirect_stderr(io.StringIO()) as err):
            status = self.program.main()
        return status, out.getvalue(), err.getvalue()

    def test_right_run_prints_its_table(self):
        status, out, err = self.film_run(0.02)
        self.assertEqual((status, out), (0, f"""\
      registered: d, f, 8192000 bytes
time to register: 1.500 ms
           route: mlx5_0, peer to peer into VRAM
         written: 12288000 bytes, 3 frames of 1280 x 800
   model counted: 12288001 bytes by the first function
            rate: 50.0 frames/s, 204.8 MB/s
         machine: {os.cpu_count()} CPUs, load 1.3, guests by {machine.accelerator().upper()}
         checked: 3 frames, every pixel, from the host in the GPU's BAR
    frames match: yes
"""))
        self.assertNotIn("less than 30 frames a second", err)

    def test_slow_run_warns_and_succeeds(self):
        status, out, err = self.film_run(0.04)
        self.assertEqual(status, 0)
        self.assertIn("rate: 25.0 frames/s", out)
        self.assertIn("demo: less than 30 frames a second", err)

    def test_wrong_frame_is_a_failure(self):
        status, out, err = self.film_run(0.02, fault="frame 2 is torn")
        self.assertEqual((status, out), (1, "frames match: NO\n"))
        self.assertIn("demo: frame 2 is torn\n", err)

    def test_missing_frames_are_a_failure(self):
        status, _, err = self.film_run(0.02, frames=2)
        self.assertEqual(status, 1)
        self.assertIn("demo: 2 of 3 frames have come\n", err)


class MovingPictures(InDirectory):
    """Two guests with the ConnectX model, and frames in the VRAM of one."""

    FRAMES = 90

    def pixels(self, path):
        with open(path, "rb") as file:
            self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")
        return load().convert("pixels", inside(path))

    def test_every_frame_arrives_in_vram(self):
        done = demo("--connectx", "--frames", str(self.FRAMES))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for row in (r"registered: mrfd_gpu, dma-buf, 12288000 bytes",
                    r"route: mlx5_0, peer to peer into VRAM",
                    rf"written: {self.FRAMES * 4096000} bytes, {self.FRAMES} frames of 1280 x 800",
                    r"model counted: \d{9} bytes by the first function\n",
                    rf"checked: {self.FRAMES} frames, every pixel, from the host in the GPU's BAR",
                    r"frames match: yes\n\Z"):
            self.assertRegex(done.stdout, row)
        # A busy machine is slower, but not so slow that it waits for timers or retries.
        rate = re.search(r"rate: (\d+\.\d) frames/s, (\d+\.\d) MB/s", done.stdout)
        self.assertGreater(float(rate[1]), 3 / patience(1))
        self.assertAlmostEqual(float(rate[2]), float(rate[1]) * 4.096, delta=0.3)

        film = Film(self.pixels(os.path.join(OUT, "sent.png")), 1280, 800)
        self.assertEqual(self.pixels(os.path.join(OUT, "vram.png")), film.frame(self.FRAMES - 1))
        done = enter("python3", "-c", "from PIL import Image; "
                     f"i = Image.open({inside(os.path.join(OUT, 'film.png'))!r}); "
                     "print(i.size, i.n_frames)")
        self.assertEqual(done.stdout, "(640, 400) 18\n")


if __name__ == "__main__":
    unittest.main()
