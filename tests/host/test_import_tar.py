# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""kit/import-tar makes of an archive the tree that git makes of the unpacked files."""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from project import TOP  # noqa: E402

PROGRAM = os.path.join(TOP, 'kit/import-tar')


def archive(*members):
    """A tar archive of these: (name, content), (name, content, mode), or (name, kind, target)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w', format=tarfile.PAX_FORMAT) as tar:
        for name, what, *more in members:
            info = tarfile.TarInfo(name)
            if isinstance(what, str):
                info.size = len(what.encode())
                info.mode = more[0] if more else 0o644
                tar.addfile(info, io.BytesIO(what.encode()))
            else:
                info.type, info.linkname = what, more[0] if more else ''
                tar.addfile(info)
    return out.getvalue()


class ImportTarTest(unittest.TestCase):

    def setUp(self):
        tmp = tempfile.TemporaryDirectory(prefix='mrfd-tar-')
        self.addCleanup(tmp.cleanup)
        self.at = tmp.name
        self.env = {**os.environ, 'GIT_CONFIG_GLOBAL': os.devnull, 'GIT_CONFIG_NOSYSTEM': '1',
                    'GIT_DIR': os.path.join(self.at, 'git')}
        self.git('init', '-q', '--bare')

    def git(self, *command, data=b'', **env):
        done = subprocess.run(['git', *command], env={**self.env, **env}, input=data, cwd=self.at,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode().strip()

    def stream(self, data):
        return subprocess.run([PROGRAM, 'a title'], input=data, capture_output=True, check=False)

    def imported(self, data):
        stream = self.stream(data)
        self.assertEqual((stream.returncode, stream.stderr), (0, b''))
        self.git('fast-import', '--quiet', '--done', data=stream.stdout)
        return self.git('rev-parse', 'refs/heads/base^{tree}')

    def added(self, data):
        """The tree of the archive as tar and git make it."""
        with tempfile.TemporaryDirectory(prefix='mrfd-tar-') as work:
            subprocess.run(['tar', '-x', '--strip-components=1', '-C', work], input=data, check=True)
            where = {'GIT_WORK_TREE': work, 'GIT_INDEX_FILE': os.path.join(self.at, 'index')}
            self.git('add', '-A', '-f', work, **where)
            return self.git('write-tree', **where)

    def refused(self, data, *said):
        done = self.stream(data)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn(b'\ndone\n', done.stdout)
        for words in ('kit/import-tar: ', *said):
            self.assertIn(words, done.stderr.decode())
        self.assertNotIn('Traceback', done.stderr.decode())

    def test_tree_is_that_of_the_unpacked_files(self):
        data = archive(('top', tarfile.DIRTYPE), ('top/a', 'one\r\n\0two'), ('top/empty', ''),
                       ('top/.gitignore', '*\n'), ('top/run', '#!/bin/sh\n', 0o755),
                       ('top/d/link', tarfile.SYMTYPE, '../a'), ('top/d/same', tarfile.LNKTYPE, 'top/run'),
                       ('top/d/a name "quoted" \\n\n\u00e4', 'x'), ('top/none/', tarfile.DIRTYPE))
        self.assertEqual(self.imported(data), self.added(data))
        for path, mode in ('run', '100755'), ('d/same', '100755'), ('a', '100644'), ('d/link', '120000'):
            self.assertTrue(self.git('ls-tree', 'base', path).startswith(mode), path)

    def test_equal_archives_give_one_commit(self):
        data = archive(('top/a', 'a'))
        self.imported(data)
        first = self.git('rev-parse', 'base')
        self.git('update-ref', '-d', 'refs/heads/base')
        self.imported(data)
        self.assertEqual(self.git('rev-parse', 'base'), first)

    def test_what_a_commit_cannot_hold_is_refused(self):
        self.refused(archive(('top/pipe', tarfile.FIFOTYPE)), 'top/pipe', 'no file, link or directory')
        for name in 'alone', 'top/../a', '/top/a/../../b':
            with self.subTest(name=name):
                self.refused(archive((name, 'a')), repr(name), 'in no top directory')

    def test_broken_archive_gives_no_commit(self):
        whole = archive(('top/a', 'a' * 5000))
        for data in b'', b'<html>', whole[:2000], b'\xfd7zXZ\0broken':
            with self.subTest(data=data[:10]):
                self.refused(data)
