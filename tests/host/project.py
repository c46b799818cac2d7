# SPDX-License-Identifier: GPL-2.0-or-later
"""A project in a temporary directory, for tests of the kit's shell programs.

It has copies of scripts/ and of the kit's shell part, a home and a cache of its own.
Tests replace single programs of it by stubs.  Nothing outside that directory is
touched and no userland is needed.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]

# Twenty lines, so that an edit at one end does not see the other end.
LINES = [f'int line_{n};' for n in range(1, 21)]


def lines(second='int'):
    """The text of drivers/a.c, with this type in its second line."""
    return '\n'.join(LINES).replace('int line_2;', f'{second} line_2;') + '\n'


def index(before, after):
    """The index line of a patch, which names the contents."""
    ids = [hashlib.sha1(b'blob %d\0' % len(text.encode()) + text.encode()).hexdigest()
           for text in (before, after)]
    return f'index {"..".join(ids)} 100644'


def edit(before, after):
    """A patch that makes another type of the second line."""
    return f'''\
Subject: a: Make line two {after}
SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

{"An int" if before == "int" else f"A {before}"} is too short for it.
---

diff --git a/drivers/a.c b/drivers/a.c
{index(lines(before), lines(after))}
--- a/drivers/a.c
+++ b/drivers/a.c
@@ -1,5 +1,5 @@
 int line_1;
-{before} line_2;
+{after} line_2;
 int line_3;
 int line_4;
 int line_5;
'''


EDIT = edit('int', 'long')

MAKEFILE = 'obj-y += a.o\n'
BUILT = MAKEFILE + 'obj-y += new/new.o\n'

BRING = f'''\
Subject: new: Add a driver
SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
Brings: drivers/new/new.c
Brings: drivers/new/run

There was none.

It does nothing yet.
---

diff --git a/Makefile b/Makefile
{index(MAKEFILE, BUILT)}
--- a/Makefile
+++ b/Makefile
@@ -1 +1,2 @@
 obj-y += a.o
+obj-y += new/new.o
'''


class ProjectTest(unittest.TestCase):

    def setUp(self):
        tmp = tempfile.TemporaryDirectory(prefix='mrfd-test-')
        self.addCleanup(tmp.cleanup)
        self.dir = pathlib.Path(tmp.name).resolve()
        self.project = self.dir / 'project'
        self.cache = self.dir / 'cache/mrfd'
        self.env = {'PATH': os.environ['PATH'], 'HOME': str(self.dir), 'TMPDIR': str(self.dir),
                    'XDG_CACHE_HOME': str(self.cache.parent)}
        shutil.copytree(TOP / 'scripts', self.project / 'scripts',
                        ignore=shutil.ignore_patterns('__pycache__'))
        shutil.copytree(TOP / 'kit', self.project / 'kit',
                        ignore=shutil.ignore_patterns('__pycache__', 'mrfd', 'guest'))
        self.write(self.project, {'.gitignore': '/build/\n'})

    @staticmethod
    def write(root, files):
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def edit(self, name, before, after):
        """Change a text of a file of the project."""
        path = self.project / name
        text = path.read_text()
        self.assertIn(before, text)
        path.write_text(text.replace(before, after))

    def stub(self, name, text):
        """Replace a program of the project by one of the test."""
        path = self.project / name
        path.unlink(missing_ok=True)
        self.write(self.project, {name: '#!/bin/bash\n' + text})
        path.chmod(0o755)

    def run_in(self, cwd, *command, **options):
        return subprocess.run(command, cwd=cwd, env=self.env, text=True, check=False,
                              stdin=subprocess.DEVNULL, capture_output=True, **options)

    def git(self, where, *command):
        done = self.run_in(where, 'git', '-c', 'user.name=Tester',
                           '-c', 'user.email=tester@example.org', *command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def script(self, name, *arguments, cwd=None):
        return self.run_in(cwd or self.project, self.project / 'scripts' / name, *arguments)

    def made(self, name, *arguments):
        """Run a program, which must succeed; return what it prints."""
        done = self.script(name, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()


class JoinedTest(ProjectTest):
    """With a pristine "kernel" of a few files, given by LINUX_SRC, and the new files
    that the patch BRING brings."""

    def setUp(self):
        super().setUp()
        self.upstream = self.dir / 'upstream'
        self.tree = self.project / 'build/linux'
        self.env['LINUX_SRC'] = str(self.upstream)
        # As in the kernel: dot files and objects are ignored, some are tracked.
        self.write(self.upstream, {
            'Makefile': MAKEFILE,
            'drivers/a.c': lines(),
            'drivers/b.c': 'int b;',
            'drivers/firmware.o': '\0\1\2\r\n',
            '.gitignore': '.*\n!.gitignore\n*.o\n',
            '.config.tracked': 'y\n',
        })
        os.symlink('a.c', self.upstream / 'drivers/link.c')
        self.write(self.project, {
            'kernel/drivers/new/new.c': '/* new */\nint new;\n',
            'kernel/drivers/new/run': '#!/bin/sh\n',
        })
        (self.project / 'kernel/drivers/new/run').chmod(0o755)
        self.git(self.project, 'init', '-q')

    def join(self, cwd=None):
        done = self.script('join', 'linux', cwd=cwd)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.strip(), str(self.tree.resolve()))

    def join_fails(self, cwd=None):
        done = self.script('join', 'linux', cwd=cwd)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def sources(self):
        return {p.relative_to(self.project): (p.stat().st_mode, p.read_bytes())
                for side in ('patches', 'kernel')
                for p in (self.project / side).rglob('*') if p.is_file()}
