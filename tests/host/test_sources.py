# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""scripts/sources gets the base by each way that leads to it, one after another when the first
ones are gone, and refuses every other source.

A server on the loopback plays Debian's mirror, its archive of the past and upstream; apt is
the host's.
"""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from archive import Server, deb, sha256, tar, tar_gz, tree_id  # noqa: E402
from project import BRING, EDIT, MAKEFILE, TOP, ProjectTest, lines  # noqa: E402

UPSTREAM = {'Makefile': MAKEFILE, 'drivers/a.c': lines(), 'drivers/b.c': 'int b;\n'}
DEBIAN = {**UPSTREAM, 'drivers/b.c': 'int debian;\n', 'debian.hex': '0\n'}
PACKAGE, VERSION = 'linux-source-7.3', '7.3.4-1~bpo13+1'
POOL = f'pool/main/l/linux/{PACKAGE}_{VERSION}_all.deb'
MIRROR, PAST, RELEASE = f'/debian/{POOL}', f'/2026/{POOL}', '/v7.x/linux-7.3.4.tar.xz'
CORE = 'pool/main/r/rdma-core/rdma-core_65.0.orig.tar.gz'


class SourcesTest(ProjectTest):

    @classmethod
    def setUpClass(cls):
        cls.deb = deb(PACKAGE, VERSION, DEBIAN)
        cls.tree = tree_id(DEBIAN)

    def setUp(self):
        super().setUp()
        self.server = Server()
        self.addCleanup(self.server.close)
        self.files = self.server.files
        self.env['DEBIAN_MIRROR'] = f'{self.server.url}/debian/'
        self.edit('kit/apt.sh', 'signed-by=/usr/share/keyrings/debian-archive-keyring.gpg',
                  'trusted=yes allow-insecure=yes')
        self.write(self.project, {
            'patches/linux/0001-a.patch': EDIT, 'patches/linux/0002-new.patch': BRING,
            'patches/linux/cover.md': '# T\n', 'kernel/drivers/new/new.c': 'int new;\n',
            'kernel/drivers/new/run': '#!/bin/sh\n'})
        self.base('linux', package=PACKAGE, version=VERSION, suite='trixie-backports',
                  upstream='7.3.4', tree=self.tree, archive=POOL, sha256=sha256(self.deb),
                  snapshot=f'{self.server.url}/2026', release=self.server.url + RELEASE)

    def base(self, project, **words):
        self.write(self.project, {f'patches/{project}/base': '# SPDX\n\n' + ''.join(
            f'{key}: {value}\n' for key, value in words.items())})

    def serve(self, *places, data=None):
        """Serve the archive at these places; "apt" is the index and the pool."""
        if 'apt' in places:
            self.files[MIRROR] = data or self.deb
            self.server.debian(packages=[(PACKAGE, VERSION, POOL)])
        else:
            self.server.debian()
        for place in set(places) - {'apt'}:
            self.files[place] = data or (
                tar('linux-7.3.4', UPSTREAM) if place == RELEASE else self.deb)

    def got(self, files, *arguments, project='linux'):
        """Run the program, which succeeds with a source of these files; return what it says."""
        done = self.script('sources', *arguments, project)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.git(done.stdout.strip(), 'rev-parse', 'base^{tree}'), tree_id(files))
        return done.stderr

    def refused(self, *said, project='linux'):
        done = self.script('sources', project)
        self.assertEqual((done.returncode, done.stdout), (1, ''), done.stderr)
        for words in said:
            self.assertRegex(done.stderr, words)
        self.assertEqual([path.name for path in self.cache.glob('source-*')
                          if not path.name.endswith('.lock') and '.part.' not in path.name], [])
        return done.stderr

    # Each way, and one after another

    def test_apt_gives_the_pinned_version(self):
        self.serve('apt')
        said = self.got(DEBIAN)
        self.assertEqual(said.splitlines(), [said.splitlines()[0]], 'one line, of the step')
        self.assertNotIn('//', ''.join(self.server.asked))
        # It stays in the cache; another place to get it from makes no other base.
        asked = len(self.server.asked)
        self.edit('patches/linux/base', '/2026', '/2027')
        self.assertEqual(self.got(DEBIAN), '')
        self.assertEqual(len(self.server.asked), asked)

    def test_mirror_serves_what_no_index_names(self):
        self.serve(MIRROR)
        said = self.got(DEBIAN)
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertNotIn(PAST, self.server.asked)

    # runs: full
    def test_mirror_may_be_named_without_a_slash(self):
        self.env['DEBIAN_MIRROR'] = self.env['DEBIAN_MIRROR'].rstrip('/')
        self.serve(MIRROR)
        self.got(DEBIAN)

    def test_snapshot_has_what_the_mirror_has_not(self):
        self.serve(PAST)
        said = self.got(DEBIAN)
        self.assertIn('no longer where it was', said)
        self.assertRegex(said, rf"(?m)^  apt: E: Couldn't find any package .*{PACKAGE}")
        self.assertRegex(said, rf'(?m)^  mirror: \S+{re.escape(MIRROR)}: 404 ')
        self.assertNotIn(RELEASE, self.server.asked)

    def test_upstream_has_what_debian_has_not(self):
        self.serve(RELEASE)
        said = self.got(UPSTREAM)
        for way in 'apt', 'mirror', 'snapshot':
            self.assertRegex(said, f'(?m)^  {way}: ')
        self.assertIn('linux 7.3.4 of upstream is another tree than the base, and the same for the '
                      'patches: each of the 2 files that they edit is there', said)

    # runs: full
    def test_apt_comes_before_snapshot_and_upstream(self):
        self.serve('apt', PAST, RELEASE)
        self.got(DEBIAN)
        self.assertFalse({PAST, RELEASE} & set(self.server.asked))

    def test_source_archive_of_another_suite_comes_from_the_pool(self):
        data = tar_gz('linux-rdma-rdma-core-58e4080', {'a.c': 'int a;\n'})
        self.base('rdma-core', package='rdma-core', version='65.0-1.1', suite='sid',
                  upstream='65.0', tree=tree_id({'a.c': 'int a;\n'}), archive=CORE,
                  sha256=sha256(data))
        self.files[f'/debian/{CORE}'] = data
        self.got({'a.c': 'int a;\n'}, project='rdma-core')
        self.assertEqual(self.server.asked, [f'/debian/{CORE}'], 'no index was read')
        # What a forge packs again has another sha256 and the same tree.
        self.edit('patches/rdma-core/base', f'sha256: {sha256(data)}\n',
                  f'sha256: {sha256(b"")}\nrelease: {self.server.url}/v65.0.tar.gz\n')
        self.edit('patches/rdma-core/base', '65.0-1.1', '65.0-2')
        self.files['/v65.0.tar.gz'] = tar_gz('rdma-core-65.0', {'a.c': 'int a;\n'})
        said = self.got({'a.c': 'int a;\n'}, project='rdma-core')
        self.assertIn(f'has the sha256 {sha256(data)} and not {sha256(b"")}', said)
        self.assertNotIn('another tree', said)

    # runs: full
    def test_source_archive_comes_by_apt(self):
        data = tar_gz('perftest-25', {'a.c': 'int a;\n'})
        path = 'pool/main/p/perftest/perftest_25.orig.tar.gz'
        self.files[f'/debian/{path}'] = data
        self.server.debian(sources=[('perftest', '25-1', path)])
        self.base('perftest', package='perftest', version='25-1', suite='trixie', upstream='25',
                  tree=tree_id({'a.c': 'int a;\n'}), archive=path, sha256=sha256(data))
        self.got({'a.c': 'int a;\n'}, project='perftest')
        self.assertIn('== apt', (self.project / 'build/logs/sources-perftest.log').read_text())
        self.assertNotIn('== mirror', (self.project / 'build/logs/sources-perftest.log').read_text())

    # runs: full
    def test_other_base_or_recipe_has_its_own_source(self):
        self.serve(MIRROR)
        seen = {self.made('sources', 'linux')}
        for name, before, after in (('scripts/sources', '--quiet --done', '--done --quiet'),
                                    ('patches/linux/base', f'version: {VERSION}', 'version: 7.3.4-2')):
            self.edit(name, before, after)
            seen.add(self.made('sources', 'linux'))
        self.assertEqual(len(seen), 3)

    # runs: full
    def test_failed_download_leaves_no_part(self):
        self.serve()
        self.refused('no way leads to')
        self.serve(MIRROR)
        self.got(DEBIAN)
        self.assertEqual(list(self.cache.glob('*.part.*')), [])

    # What is refused

    def test_wrong_archive_is_refused(self):
        wrong = deb(PACKAGE, VERSION, UPSTREAM)
        self.serve('apt', PAST, data=wrong)
        self.refused(*(rf'{way}: .*its? .*sha256 .*{sha256(wrong)} and not {sha256(self.deb)}'
                       for way in ('apt', 'mirror', 'snapshot')), 'LINUX_SRC=DIR')

    def test_archive_that_is_cut_short_is_refused(self):
        self.serve(MIRROR, PAST, RELEASE)
        self.server.cut = {MIRROR, PAST, RELEASE}
        said = self.refused(*(f'{way}: .*it ends after [0-9]+ of [0-9]+ bytes'
                              for way in ('mirror', 'snapshot', 'release')))
        self.assertNotIn('Traceback', said)
        self.server.cut = {MIRROR, PAST}
        self.assertIn('the same for the patches', self.got(UPSTREAM))

    def test_file_that_is_no_archive_is_refused(self):
        self.serve(RELEASE, data=b'<html>')
        self.refused('release: the archive cannot be unpacked')

    def test_upstream_that_the_patches_are_not_made_for_is_refused(self):
        for files, differ in (({'drivers/a.c': lines('short')}, 'drivers/a.c'),
                              ({'drivers/new/new.c': ''}, 'drivers/new/new.c')):
            with self.subTest(differ=differ):
                self.serve(RELEASE, data=tar('linux-7.3.4', {**UPSTREAM, **files}))
                self.refused(rf'release: linux 7.3.4 of upstream is not the base: its tree is \w+ and not '
                             rf'{self.tree}; of the files of the patches 1 differ: {differ}')

    # runs: full
    def test_patch_without_ids_proves_nothing(self):
        self.write(self.project, {'patches/linux/0001-a.patch': re.sub('(?m)^index .*\n', '', EDIT)})
        self.serve(RELEASE)
        self.refused('of the files of the patches 1 differ: drivers/a.c')

    def test_without_a_network_each_way_is_named(self):
        self.serve()
        self.server.close()
        said = self.refused(*(f'(?m)^  {way}: ' for way in ('apt', 'mirror', 'snapshot', 'release')),
                            'Connection refused')
        self.assertNotIn('Traceback', said)

    # runs: full
    def test_malformed_base_is_refused(self):
        for before, after, said in ((f'tree: {self.tree}\n', '', 'does not say the tree'),
                                    ('suite: ', 'suit: ', 'unknown word: suit:')):
            with self.subTest(said=said):
                self.edit('patches/linux/base', before, after)
                self.refused(said)
                self.edit('patches/linux/base', after or '# SPDX\n', before + ('' if after else '# SPDX\n'))
        (self.project / 'patches/linux/base').unlink()
        self.refused('patches/linux/base is missing')

    # A tree of one's own

    def test_own_tree_is_compared_and_used(self):
        self.env['LINUX_SRC'] = str(self.dir / 'own')
        for files, said in ((DEBIAN, ''), (UPSTREAM, 'the same for the patches'),
                            ({**DEBIAN, 'Makefile': 'x'}, ' 1 differ: Makefile; the patches may not apply')):
            with self.subTest(said=said):
                self.write(self.dir / 'own', files)
                for path in (self.dir / 'own').rglob('*'):
                    if path.is_file() and str(path.relative_to(self.dir / 'own')) not in files:
                        path.unlink()
                heard = self.got(files).splitlines()[1:]
                self.assertEqual(len(heard), 1 if said else 0)
                self.assertIn(said, ''.join(heard))

    # What Debian changes

    def test_compare_lists_what_the_base_changes(self):
        self.serve('apt')
        self.write(self.dir / 'own', UPSTREAM)
        done = self.script('sources', '--compare', self.dir / 'own', 'linux')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), [
            'only in the base: debian.hex', 'changed:          drivers/b.c',
            '2 files differ, none of which our patches edit or add'])
        self.write(self.dir / 'own', {'drivers/a.c': '', 'drivers/new/run': ''})
        done = self.script('sources', '--compare', self.dir / 'own', 'linux')
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-3:], [
            '4 files differ, and these are among those that our patches edit or add:',
            'drivers/a.c', 'drivers/new/run'])


class BaseTest(unittest.TestCase):
    """What our own files and patches say."""

    def test_each_base_has_its_words(self):
        sys.path.insert(0, str(TOP / 'kit'))
        from mrfd import bases  # pylint: disable=import-outside-toplevel
        for project in 'linux', 'rdma-core', 'perftest', 'libfabric', 'ucx':
            with self.subTest(project=project):
                base = bases.base(project)
                self.assertRegex(base['tree'], '^[0-9a-f]{40}$')
                self.assertRegex(base['sha256'], '^[0-9a-f]{64}$')
                self.assertRegex(base['snapshot'], r'/\d{8}T\d{6}Z$')
                self.assertTrue(base['version'].startswith(base['upstream']))
                self.assertIn(base['upstream'], base['archive'])

    def test_patches_name_each_content_by_its_full_id(self):
        for folder in TOP.glob('patches/*/'):
            now = {}
            for patch in sorted(folder.rglob('*.patch'), key=str):
                text = patch.read_text()
                heads = re.findall(r'^diff --git a/(\S+) b/\S+\n(?:(?:old|new) mode .*\n)*(?:index '
                                   r'([0-9a-f]{40})\.\.([0-9a-f]{40})(?: \d+)?\n)?', text, re.MULTILINE)
                for path, before, after in heads:
                    with self.subTest(patch=patch.name, path=path):
                        self.assertTrue(before, 'an index line; scripts/refresh writes it')
                        self.assertEqual(now.get(path, before), before, 'what the patch before made')
                        now[path] = after


if __name__ == '__main__':
    unittest.main()
