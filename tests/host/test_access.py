# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""What the kit makes is readable for every user in a guest, also under a umask of 077, and
of a checkout that is not the user is told."""

import os
import stat
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from project import BRING, TOP, JoinedTest  # noqa: E402

sys.path.insert(0, str(TOP / "kit"))
from mrfd import access  # noqa: E402

WAY = "build/rdma-core-obj/lib/libibverbs.so.1"


class AccessTest(JoinedTest):

    def private(self, *command):
        """Run a command under the umask 077; what it prints."""
        done = self.run_in(self.project, "bash", "-c", 'umask 077; exec "$@"', "bash", *command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_files_of_a_program_are_readable_for_all(self):
        self.write(self.project, {"patches/linux/0001-new-Add-a-driver.patch": BRING,
                                  "patches/linux/cover.md": "# a: Improve\n\nText.\n"})
        self.private("scripts/join", "linux")
        private = [path for path in (self.tree, *self.tree.rglob("*"))
                   if not path.is_symlink() and ".git" not in path.parts
                   and not path.stat().st_mode & stat.S_IROTH]
        self.assertEqual(private, [])

    def test_python_programs_have_the_same_umask(self):
        code = (f"import os, sys; sys.path.insert(0, '{TOP}/kit'); from mrfd import paths; "
                "print(oct(os.umask(0)))")
        self.assertEqual(self.private(sys.executable, "-c", code), "0o22\n")

    def test_first_closed_part_of_the_path_is_named(self):
        self.write(self.project, {WAY: "", "kit/guest/load": ""})
        for path in (self.project, self.project / "kit/guest"):
            path.chmod(0o755)
        self.assertIsNone(access.closed(self.project))
        for path in (WAY, "build", "kit/guest", ""):
            closed = self.project / path
            mode = closed.stat().st_mode
            closed.chmod(0o600 if path == WAY else 0o700)
            self.assertEqual(access.closed(self.project), str(closed))
            closed.chmod(mode)

    def test_missing_file_is_not_closed(self):
        self.assertIsNone(access.closed(self.project))


if __name__ == "__main__":
    unittest.main()
