# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""The receiver of moving pictures ends well when the sender is gone before the receiver knows
that its last answer has arrived (demo/film.c), and says so when it goes earlier.

The sender is the camera with a change: it never takes an answer, so that the receiver's sends
stay incomplete, and leaves when its frames are written."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import machine  # noqa: E402
from mrfd import products  # noqa: E402
from mrfd.machine import patience  # noqa: E402
from mrfd.paths import inside  # noqa: E402

# Where a sender waits for answers; and its peer shall try again for as long as there is no
# receive for one
EDITS = [("film.c", "for (i = 0; i < o->places; i++)", "for (i = 0; i < 0; i++)"),
         ("film.c", "while (written < s->frames || shown < s->frames)",
          "while (written < s->frames)"),
         ("connect.c", ".retry_count = 6", ".retry_count = 6, .rnr_retry_count = 7")]
NOT_THE_LAST = [("film.c", "number == s->frames - 1 ? DEMO_LAST : 0", "0")]
BOTH = """
cd "$1"
./screen --film </dev/null >/tmp/said 2>&1 &
screen=$!
until grep -q waiting /tmp/said; do sleep 0.1; done
./camera --frames 1 picture.png 10.0.0.1
wait $screen
echo "screen: status $?"
cat /tmp/said
"""


class Ends(unittest.TestCase):
    def both(self, edits):
        """What the receiver says, with its status, when a sender with these edits has left."""
        os.makedirs(machine.BUILD, exist_ok=True)
        directory = tempfile.TemporaryDirectory(dir=machine.BUILD)
        self.addCleanup(directory.cleanup)
        demo = os.path.join(directory.name, "demo")
        shutil.copytree(os.path.join(TOP, "demo"), demo)
        self.make(os.path.join(TOP, "demo"), demo, "screen")
        os.remove(os.path.join(demo, "film.o"))  # the sender's alone has the edits
        for name, old, new in edits:
            with open(os.path.join(demo, name), "r+", encoding="utf-8") as file:
                text = file.read()
                self.assertEqual(text.count(old), 1, old)
                file.seek(0)
                file.write(text.replace(old, new))
                file.truncate()
        self.make(demo, demo, "camera")
        subprocess.run(["scripts/enter", "python3", "-c",
                        "import sys; from PIL import Image; "
                        "Image.new('RGB', (64, 64)).save(sys.argv[1])",
                        inside(os.path.join(demo, "picture.png"))], cwd=TOP, check=True)
        done = subprocess.run(["scripts/boot", "--timeout", str(int(patience(120))), "--rxe",
                               "-d", "bochs-display", "sh", "-c", BOTH, "sh", inside(demo)],
                              cwd=TOP, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def make(self, sources, out, program):
        rdma_core = inside(products.tool("rdma-core"))
        subprocess.run(["scripts/enter", "env", f"PKG_CONFIG_PATH={rdma_core}/lib/pkgconfig",
                        "make", "-s", "-C", inside(sources),
                        "CFLAGS=-O2 -I/mrfd/tests/gpu",
                        f"OUT={inside(out)}", f"{inside(out)}/{program}"],
                       cwd=TOP, check=True, capture_output=True)

    def test_sender_may_leave_when_it_has_the_last_answer(self):
        self.assertRegex(self.both(EDITS), r"screen: status 0\n(.*\n)*frame=0\nshown=1\n")

    def test_sender_that_leaves_before_its_last_frame_fails_the_receiver(self):
        self.assertRegex(self.both(EDITS + NOT_THE_LAST),
                         r"screen: status 1\n(.*\n)*.*: the peer went away in the middle\n")


if __name__ == "__main__":
    unittest.main()
