# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""scripts/update says of each patch what becomes of it on the newest version that Debian has,
and changes nothing.

A server on the loopback plays Debian's mirror; apt is the host's.
"""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from archive import Server, deb, sha256, tar_gz, tree_id  # noqa: E402
from project import BRING, EDIT, MAKEFILE, TOP, ProjectTest, edit, index, lines  # noqa: E402

BASE = {'Makefile': MAKEFILE, 'drivers/a.c': lines(), 'drivers/b.c': 'int b;\n'}
COVER = '# T\n'


def package(version):
    return f'linux-source-{version[:3]}', version, \
        f'pool/main/l/linux/linux-source-{version[:3]}_{version}_all.deb'


class UpdateTest(ProjectTest):

    def setUp(self):
        super().setUp()
        self.server = Server()
        self.addCleanup(self.server.close)
        self.env['DEBIAN_MIRROR'] = f'{self.server.url}/debian'
        self.edit('kit/apt.sh', 'signed-by=/usr/share/keyrings/debian-archive-keyring.gpg',
                  'trusted=yes allow-insecure=yes')
        self.write(self.project, {
            'patches/linux/01-a/0001-long.patch': EDIT, 'patches/linux/01-a/cover.md': COVER,
            'patches/linux/02-new/0001-new.patch': BRING, 'patches/linux/02-new/cover.md': COVER,
            'patches/linux/03-b/0001-short.patch': edit('long', 'short'),
            'patches/linux/03-b/cover.md': COVER,
            'kernel/drivers/new/new.c': 'int new;\n', 'kernel/drivers/new/run': '#!/bin/sh\n'})
        self.linux = {}
        self.add('7.3.4-1~bpo13+1', BASE)
        name, version, path = package('7.3.4-1~bpo13+1')
        self.base('linux', package=name, version=version, suite='trixie-backports', upstream='7.3.4',
                  tree=tree_id(BASE), archive=path,
                  sha256=sha256(self.server.files[f'/debian/{path}']))
        self.git(self.project, 'init', '-q')

    def base(self, project, **words):
        self.write(self.project, {f'patches/{project}/base': ''.join(
            f'{key}: {value}\n' for key, value in words.items())})

    def add(self, version, files):
        """Debian has this version of Linux too."""
        name, version, path = package(version)
        self.server.files[f'/debian/{path}'] = deb(name, version, files)
        self.linux[version] = name, version, path
        self.server.debian(packages=self.linux.values())

    def update(self, status, *arguments):
        """What the program says on stdout of a run that ends so and changes no input of it."""
        def inputs():
            return {path: path.read_bytes() for side in ('patches', 'kernel', 'rdma-core')
                    for path in (self.project / side).rglob('*') if path.is_file()}
        before, source = inputs(), self.made('sources', 'linux')
        done = self.script('update', *(arguments or ['linux']))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertNotIn('Traceback', done.stderr)
        self.assertEqual(inputs(), before)
        self.assertEqual(self.made('sources', 'linux'), source)
        self.said = done.stderr
        return done.stdout

    def test_newest_base_needs_no_trial(self):
        self.add('7.2.12-1~bpo13+1', {'Makefile': ''})
        self.assertEqual(self.update(0), '')
        self.assertIn('the base, linux-source-7.3 7.3.4-1~bpo13+1, is the newest', self.said)
        self.assertFalse((self.project / 'build/linux').exists())

    def test_each_patch_is_tried_on_the_newest_version(self):
        self.add('7.3.9-1~bpo13+1', {'Makefile': ''})
        self.add('7.10.2-1~bpo13+1', {
            **BASE, 'drivers/a.c': lines().replace('int line_4;', 'char line_4;'),
            'drivers/b.c': 'long b;\n'})
        name, version, path = package('7.10.2-1~bpo13+1')
        # linux-source-7.10, not 7.1.
        self.linux[version] = 'linux-source-7.10', version, path
        self.server.debian(packages=self.linux.values())
        self.assertEqual(self.update(0).splitlines(), [
            'linux: the patches on linux-source-7.10 7.10.2-1~bpo13+1',
            '  merges     01-a/0001-long.patch',
            '  applies    02-new/0001-new.patch',
            '  merges     03-b/0001-short.patch',
            'linux: 1 patches apply, 2 merge, 0 are in it already, 0 conflict'])

    def test_conflict_is_shown_and_the_next_patch_is_tried(self):
        self.add('7.4.1-1~bpo13+1', {
            **BASE, 'drivers/a.c': 'struct x *f(void)\n' + lines('char'), 'drivers/new/run': 'x\n'})
        said = self.update(1)
        self.assertIn('  conflicts  01-a/0001-long.patch: drivers/a.c\n', said)
        for line in ('@@ line 3 @@ int line_1;', '<<<<<<< the new version', 'char line_2;',
                     '||||||| the base', 'int line_2;', '>>>>>>> the patch'):
            self.assertIn(f'      {line}\n', said)
        self.assertIn('  conflicts  02-new/0001-new.patch: drivers/new/run\n', said)
        self.assertIn('      the patch adds it, and it is there already\n', said)
        self.assertIn('03-b/0001-short.patch', said)
        self.assertNotIn('conflicts  03-b', said)
        self.assertIn('linux: 0 patches apply, 1 merge, 0 are in it already, 2 conflict', said)
        self.assertEqual([path.name for path in sorted((self.project / 'build/update/linux').iterdir())],
                         ['01-a-0001-long.conflicts', '02-new-0001-new.conflicts'])

    # runs: full
    def test_file_that_is_gone_is_named(self):
        self.add('7.4.1-1~bpo13+1', {key: text for key, text in BASE.items() if key != 'drivers/a.c'})
        self.assertIn('conflicts  01-a/0001-long.patch: drivers/a.c\n      drivers/a.c\n'
                      '      it is not there any more\n', self.update(1))

    # runs: full
    def test_patch_that_is_upstream_is_named(self):
        self.add('7.4.1-1~bpo13+1', {**BASE, 'drivers/a.c': lines('long')})
        said = self.update(0)
        self.assertIn('  is in it   01-a/0001-long.patch\n', said)
        self.assertIn('  applies    03-b/0001-short.patch\n', said)

    # runs: full
    def test_own_tree_is_tried(self):
        self.write(self.dir / 'own', {**BASE, 'drivers/a.c': lines('char')})
        self.made('sources', 'linux')
        self.server.close()
        self.env['LINUX_SRC'] = str(self.dir / 'own')
        done = self.script('update', 'linux')
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f'linux: the patches on {self.dir}/own\n', done.stdout)
        self.assertIn('conflicts  01-a/0001-long.patch: drivers/a.c', done.stdout)

    # runs: full
    def test_base_is_moved_as_the_kits_document_says(self):
        self.made('join', 'linux')
        name, version, path = package('7.4.1-1~bpo13+1')
        newer = {**BASE, 'drivers/a.c': lines().replace('int line_4;', 'char line_4;')}
        self.add(version, newer)
        self.edit('patches/linux/base', 'linux-source-7.3\n', f'{name}\n')
        self.edit('patches/linux/base', 'version: 7.3.4-1~bpo13+1', f'version: {version}')
        words = (self.project / 'patches/linux/base').read_text()
        old = package('7.3.4-1~bpo13+1')[2]
        self.edit('patches/linux/base', f'archive: {old}', f'archive: {path}')
        self.edit('patches/linux/base', words.split('sha256: ')[1].strip(),
                  sha256(self.server.files[f'/debian/{path}']))
        done = self.script('sources', 'linux')
        self.assertEqual(done.returncode, 1)
        self.assertIn(f'its tree is {tree_id(newer)} and not {tree_id(BASE)}', done.stderr)
        self.edit('patches/linux/base', tree_id(BASE), tree_id(newer))
        text = (TOP / 'Documentation/kit.md').read_text()
        commands = re.search(r'(?m)^    git -C build/linux fetch(?:.*\n)*?    scripts/refresh linux\n', text)[0]
        for role in 'AUTHOR', 'COMMITTER':
            self.env.update({f'GIT_{role}_NAME': 'T', f'GIT_{role}_EMAIL': 't@example.org'})
        done = self.run_in(self.project, 'bash', '-ec', commands)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.made('join', 'linux')
        self.assertEqual(self.git(self.project / 'build/linux', 'rev-parse', 'base^{tree}'),
                         tree_id(newer))
        patch = self.project / 'patches/linux/01-a/0001-a-Make-line-two-long.patch'
        self.assertIn(' char line_4;', patch.read_text())
        self.assertEqual((self.project / 'build/linux/drivers/a.c').read_text(),
                         newer['drivers/a.c'].replace('int line_2;', 'short line_2;'))

    # runs: full
    def test_newest_source_may_be_of_a_suite_whose_index_has_expired(self):
        paths = {version: f'pool/main/r/rdma-core/rdma-core_{version}.orig.tar.gz'
                 for version in ('65.0', '66.0')}
        for version, path in paths.items():
            self.server.files[f'/debian/{path}'] = tar_gz('rdma-core', {'a.c': f'int v{version[:2]};\n'})
        first = self.server.files[f'/debian/{paths["65.0"]}']
        self.base('rdma-core', package='rdma-core', version='65.0-1.1', suite='sid', upstream='65.0',
                  tree=tree_id({'a.c': 'int v65;\n'}), archive=paths['65.0'], sha256=sha256(first))
        before, after = 'int v65;\n', 'int ours;\n'
        self.write(self.project, {'rdma-core/.keep': '', 'patches/rdma-core/cover.md': COVER,
                                  'patches/rdma-core/0001-a.patch': f'''\
Subject: a: Make it ours
---

diff --git a/a.c b/a.c
{index(before, after)}
--- a/a.c
+++ b/a.c
@@ -1 +1 @@
-{before}+{after}'''})
        (self.project / 'rdma-core/.keep').unlink()
        self.server.debian(packages=self.linux.values(), other=[
            ('rdma-core', f'{version}-1', path) for version, path in paths.items()])
        said = self.update(1, 'rdma-core')
        self.assertIn('rdma-core: the patches on rdma-core 66.0-1\n', said)
        self.assertIn('conflicts  0001-a.patch: a.c', said)


if __name__ == '__main__':
    unittest.main()
