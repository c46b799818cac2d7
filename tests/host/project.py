# SPDX-License-Identifier: GPL-2.0-or-later
"""A project in a temporary directory, for tests of the kit's shell programs.

It has copies of scripts/ and of the kit's shell part, a home and a cache of its own.
Tests replace single programs of it by stubs.  Nothing outside that directory is
touched and no userland is needed.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]


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
