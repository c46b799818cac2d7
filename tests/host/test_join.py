# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""scripts/join, refresh and series do what they say, with one series of patches.

Each test has a project of its own in a temporary directory, with two patches, the new
files that they bring, and a pristine "kernel" of a few files, given by LINUX_SRC.
"""

import os
import shutil
import sys
import textwrap
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from project import BRING, EDIT, LINES, JoinedTest, lines  # noqa: E402

COVER = '''\
<!-- SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB -->
# Drivers that do nothing

The reason is told here.
'''


class JoinTest(JoinedTest):

    def setUp(self):
        super().setUp()
        self.write(self.project, {
            'patches/linux/0001-a-Make-line-two-long.patch': EDIT,
            'patches/linux/0002-new-Add-a-driver.patch': BRING,
            'patches/linux/cover.md': COVER,
        })

    def change_times(self):
        return {p.relative_to(self.tree): p.lstat().st_mtime_ns
                for p in self.tree.rglob('*')
                if '.git' not in p.relative_to(self.tree).parts and not p.is_dir()}

    # What join makes

    def test_each_patch_becomes_one_commit_in_order(self):
        self.join()
        self.assertEqual(
            self.git(self.tree, 'log', '--reverse', '--format=%s', 'base..mrfd').splitlines(),
            ['a: Make line two long', 'new: Add a driver'])
        self.assertEqual(self.git(self.tree, 'log', '-1', '--format=%b'),
                         'There was none.\n\nIt does nothing yet.')
        self.assertEqual(
            self.git(self.tree, 'show', '--format=', '--name-only', 'mrfd').splitlines(),
            ['Makefile', 'drivers/new/new.c', 'drivers/new/run'])

    def test_base_equals_the_upstream_tree(self):
        self.join()
        self.git(self.tree, 'checkout', '-q', 'base')
        self.assertEqual(self.run_in(self.dir, 'diff', '-r', '--no-dereference', '-x', '.git',
                                     self.upstream, self.tree).stdout, '')

    def test_new_files_keep_their_mode(self):
        self.join()
        self.assertEqual((self.tree / 'drivers/new/new.c').read_text(), '/* new */\nint new;\n')
        self.assertTrue(os.access(self.tree / 'drivers/new/run', os.X_OK))
        self.assertFalse(os.access(self.tree / 'drivers/new/new.c', os.X_OK))

    # runs: full
    def test_same_input_gives_same_commits(self):
        self.join()
        first = self.git(self.tree, 'rev-parse', 'mrfd')
        shutil.rmtree(self.project / 'build')
        self.join()
        self.assertEqual(self.git(self.tree, 'rev-parse', 'mrfd'), first)

    # What join leaves alone

    # runs: full
    def test_second_join_touches_nothing(self):
        self.join()
        before = self.change_times()
        self.join()
        self.assertEqual(self.change_times(), before)

    # runs: full
    def test_edit_of_new_file_touches_that_file_only(self):
        self.join()
        before = self.change_times()
        self.write(self.project, {'kernel/drivers/new/new.c': 'long new;\n'})
        self.join()
        after = self.change_times()
        changed = [str(p) for p in after if after[p] != before.get(p)]
        self.assertEqual(changed, ['drivers/new/new.c'])
        self.assertEqual((self.tree / 'drivers/new/new.c').read_text(), 'long new;\n')

    # runs: full
    def test_change_of_mode_alone_is_joined(self):
        self.join()
        (self.project / 'kernel/drivers/new/new.c').chmod(0o755)
        self.join()
        self.assertTrue(os.access(self.tree / 'drivers/new/new.c', os.X_OK))

    # runs: full
    def test_removed_patch_and_its_files_leave_the_tree(self):
        self.join()
        (self.project / 'patches/linux/0002-new-Add-a-driver.patch').unlink()
        shutil.rmtree(self.project / 'kernel/drivers')
        self.join()
        self.assertFalse((self.tree / 'drivers/new').exists())
        self.assertEqual((self.tree / 'Makefile').read_text(), 'obj-y += a.o\n')

    def test_edits_in_the_tree_are_kept(self):
        self.join()
        self.write(self.tree, {'drivers/b.c': 'int mine;\n'})
        self.write(self.project, {'kernel/drivers/new/new.c': 'long new;\n'})
        said = self.join_fails()
        self.assertIn('drivers/b.c', said)
        self.assertIn('would be lost', said)
        self.assertEqual((self.tree / 'drivers/b.c').read_text(), 'int mine;\n')

    # runs: full
    def test_commits_in_the_tree_are_kept(self):
        self.join()
        self.write(self.tree, {'drivers/b.c': 'int mine;\n'})
        self.git(self.tree, 'commit', '-q', '-am', 'b: Mine')
        mine = self.git(self.tree, 'rev-parse', 'HEAD')
        self.write(self.project, {'kernel/drivers/new/new.c': 'long new;\n'})
        self.assertIn('scripts/refresh', self.join_fails())
        self.assertEqual(self.git(self.tree, 'rev-parse', 'HEAD'), mine)

    # runs: full
    def test_untracked_files_in_the_tree_are_kept(self):
        self.join()
        self.write(self.tree, {'drivers/a.o': 'object', 'notes.txt': 'mine'})
        self.write(self.project, {'kernel/drivers/new/new.c': 'long new;\n'})
        self.join()
        self.assertEqual((self.tree / 'drivers/a.o').read_text(), 'object')
        self.assertEqual((self.tree / 'notes.txt').read_text(), 'mine')

    # Where it works

    def test_project_path_may_have_odd_characters(self):
        odd = self.dir / 'a b:c\'d,e"$%&;#=\\'
        self.project = self.project.rename(odd)
        self.tree = odd / 'build/linux'
        self.env['XDG_CACHE_HOME'] = str(odd / 'a cache: "1"')
        self.join(cwd='/')
        self.assertEqual(self.script('refresh', 'linux').returncode, 0)
        done = self.script('series', 'linux', cwd='/')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.strip(), str(odd / 'build/series/linux'), done.stderr)
        self.assertEqual(len(list((odd / 'build/series/linux').glob('*.patch'))), 3)

    # runs: full
    @unittest.skipUnless(os.getuid() == 0, 'needs root, to work on what another user owns')
    def test_project_may_belong_to_another_user(self):
        self.run_in(self.dir, 'chown', '-R', 'nobody', self.project)
        self.join()

    # How join stops

    def test_rejected_patch_is_shown_with_its_hunk(self):
        self.write(self.upstream, {
            'drivers/a.c': '\n'.join(['short line_2;' if n == 1 else line
                                      for n, line in enumerate(LINES)]) + '\n'})
        for cwd in (self.project, self.project / 'scripts'):
            with self.subTest(cwd=cwd):
                said = self.join_fails(cwd)
                self.assertIn('0001-a-Make-line-two-long.patch', said)
                self.assertIn('drivers/a.c', said)
                self.assertIn('+long line_2;', said)

    # runs: full
    def test_patch_of_missing_file_names_the_file(self):
        (self.upstream / 'drivers/a.c').unlink()
        (self.upstream / 'drivers/link.c').unlink()
        said = self.join_fails()
        self.assertIn('0001-a-Make-line-two-long.patch', said)
        self.assertIn('drivers/a.c: not in the source', said)

    # runs: full
    def test_rejected_later_patch_is_named(self):
        self.write(self.upstream, {'Makefile': 'obj-m += a.o\n'})
        said = self.join_fails()
        self.assertIn('0002-new-Add-a-driver.patch', said)
        self.assertNotIn('0001-', said)

    # runs: full
    def test_join_resumes_after_source_is_mended(self):
        good = (self.upstream / 'Makefile').read_text()
        self.write(self.upstream, {'Makefile': 'obj-m += a.o\n'})
        self.join_fails()
        self.write(self.upstream, {'Makefile': good})
        self.join()
        self.assertEqual(len(self.change_times()), 9)

    def test_new_file_without_patch_is_named(self):
        self.write(self.project, {'kernel/drivers/new/orphan.c': '\n'})
        self.assertIn('drivers/new/orphan.c', self.join_fails())

    # runs: full
    def test_missing_new_file_is_named(self):
        (self.project / 'kernel/drivers/new/new.c').unlink()
        self.assertIn('drivers/new/new.c', self.join_fails())

    # Interruption

    # runs: full
    def test_interrupted_checkout_is_finished(self):
        self.join()
        self.write(self.project, {'kernel/drivers/new/new.c': 'long new;\n'})
        # As a kill in the middle of git checkout leaves it.
        self.write(self.tree, {'.git/mrfd-checkout': '', '.git/index.lock': '',
                               'drivers/a.c': 'half of it', 'Makefile': ''})
        self.join()
        self.assertEqual(self.git(self.tree, 'status', '--porcelain'), '')
        self.assertEqual((self.tree / 'drivers/new/new.c').read_text(), 'long new;\n')
        self.assertFalse((self.tree / '.git/mrfd-checkout').exists())

    # runs: full
    def test_commits_after_interrupted_checkout_are_kept(self):
        self.join()
        self.write(self.project, {'kernel/drivers/new/new.c': 'long new;\n'})
        self.write(self.tree, {'.git/mrfd-checkout': '', 'drivers/b.c': 'int mine;\n'})
        self.git(self.tree, 'commit', '-q', '-am', 'b: Mine')
        mine = self.git(self.tree, 'rev-parse', 'HEAD')
        self.assertIn('has commits that patches/ does not have', self.join_fails())
        self.assertEqual(self.git(self.tree, 'rev-parse', 'HEAD'), mine)

    # runs: full
    def test_interrupted_first_checkout_is_finished(self):
        self.join()
        whole = set(self.change_times())
        for name in ('HEAD', 'index', 'mrfd-ours', 'mrfd-head'):
            (self.tree / '.git' / name).unlink()
        (self.project / 'build/linux.stamp').unlink()
        self.write(self.tree, {'.git/HEAD': 'ref: refs/heads/master\n',
                               '.git/mrfd-checkout': '', '.git/index.lock': ''})
        (self.tree / 'drivers/b.c').unlink()
        self.join()
        self.assertEqual(set(self.change_times()), whole)
        self.assertEqual(self.git(self.tree, 'status', '--porcelain'), '')

    # The way back, and out

    def test_refresh_after_join_changes_nothing(self):
        before = self.sources()
        self.join()
        done = self.script('refresh', 'linux')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.sources(), before)

    def test_refresh_writes_new_commit_as_patch(self):
        self.join()
        self.write(self.tree, {'drivers/b.c': 'int c;\n', 'drivers/c.c': 'int c;\n'})
        self.git(self.tree, 'add', '-f', 'drivers/b.c', 'drivers/c.c')
        self.git(self.tree, 'commit', '-q', '-m', 'c: Add it', '-m', 'For b.')
        head = self.git(self.tree, 'rev-parse', 'HEAD^{tree}')
        self.assertEqual(self.script('refresh', 'linux').returncode, 0)
        patch = (self.project / 'patches/linux/0003-c-Add-it.patch').read_text()
        self.assertIn('Brings: drivers/c.c', patch)
        # Joining goes on from there, even with a further edit before it.
        self.write(self.project, {'kernel/drivers/c.c': 'long c;\n'})
        self.join()
        self.assertEqual((self.tree / 'drivers/c.c').read_text(), 'long c;\n')
        self.write(self.project, {'kernel/drivers/c.c': 'int c;\n'})
        self.join()
        self.assertEqual(self.git(self.tree, 'rev-parse', 'mrfd^{tree}'), head)

    # runs: full
    def test_refresh_keeps_edits_that_were_not_joined(self):
        self.join()
        self.write(self.project, {'kernel/drivers/new/new.c': 'long new;\n'})
        before = self.sources()
        done = self.script('refresh', 'linux')
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('scripts/join', done.stderr)
        self.assertEqual(self.sources(), before)

    # runs: full
    def test_refresh_works_after_refused_join(self):
        self.join()
        self.write(self.tree, {'drivers/b.c': 'int mine;\n'})
        self.git(self.tree, 'commit', '-q', '-am', 'b: Mine')
        before = (self.project / 'kernel/drivers/new/new.c').read_text()
        self.write(self.project, {'kernel/drivers/new/new.c': 'long new;\n'})
        self.join_fails()
        self.write(self.project, {'kernel/drivers/new/new.c': before})
        done = self.script('refresh', 'linux')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.project / 'patches/linux/0003-b-Mine.patch').exists())

    # runs: full
    def test_refresh_can_follow_refresh(self):
        self.join()
        for n in 'one', 'two':
            self.write(self.tree, {'drivers/b.c': f'int {n};\n'})
            self.git(self.tree, 'commit', '-q', '-am', f'b: {n}')
            done = self.script('refresh', 'linux')
            self.assertEqual(done.returncode, 0, done.stderr)

    # runs: full
    def test_refresh_refuses_uncommitted_edits(self):
        self.join()
        before = self.sources()
        self.write(self.tree, {'drivers/b.c': 'int mine;\n'})
        done = self.script('refresh', 'linux')
        self.assertEqual(done.returncode, 1)
        self.assertIn('not committed', done.stderr)
        self.assertEqual(self.sources(), before)

    # runs: full
    def test_refresh_from_another_tree_keeps_edits_of_patches(self):
        self.join()
        self.git(self.project, 'add', '-A')
        self.git(self.project, 'commit', '-q', '-m', 'all')
        done = self.script('refresh', '--from', str(self.tree), 'linux')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.write(self.project, {'kernel/drivers/new/new.c': 'long new;\n'})
        before = self.sources()
        done = self.script('refresh', '--from', str(self.tree), 'linux')
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('kernel/drivers/new/new.c', done.stderr)
        self.assertEqual(self.sources(), before)

    # Removal

    def test_clean_removes_what_can_be_made_again(self):
        self.join()
        done = self.run_in(self.project, 'kit/clean')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse((self.project / 'build').exists())

    def test_clean_keeps_work_that_is_not_in_patches(self):
        self.join()
        for name, commit, said in (('drivers/b.c', False, 'drivers/b.c'),
                                   ('notes.txt', False, 'notes.txt'),
                                   ('drivers/b.c', True, 'scripts/refresh linux')):
            self.write(self.tree, {name: 'mine\n'})
            if commit:
                self.git(self.tree, 'commit', '-q', '-am', 'b: Mine')
            done = self.run_in(self.project, 'kit/clean')
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertEqual((self.tree / name).read_text(), 'mine\n')
            if not commit:
                self.git(self.tree, 'reset', '-q', '--hard')
                self.git(self.tree, 'clean', '-q', '-f')

    def test_clean_keeps_branches_and_stashes(self):
        self.join()
        for make, drop, said in ((('branch', 'mine'), ('branch', '-D', 'mine'), 'heads/mine'),
                                 (('stash', '-q'), ('stash', 'drop', '-q'), 'stash')):
            self.write(self.tree, {'drivers/b.c': 'mine\n'})
            self.git(self.tree, *make)
            self.git(self.tree, 'reset', '-q', '--hard')
            done = self.run_in(self.project, 'kit/clean')
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(said, done.stderr)
            self.git(self.tree, *drop)
        self.assertEqual(self.run_in(self.project, 'kit/clean').returncode, 0)

    # Out

    def test_series_replaces_no_files_of_another(self):
        self.join()
        self.write(self.dir, {'src/linux/main.c': 'int mine;\n'})
        done = self.script('series', '--output', str(self.dir / 'src'), 'linux')
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('--output', done.stderr)
        self.assertEqual((self.dir / 'src/linux/main.c').read_text(), 'int mine;\n')

    def test_git_am_of_series_gives_joined_tree(self):
        done = self.script('series', '--signoff', 'Jörg Tester <joerg@example.org>', 'linux')
        self.assertEqual(done.returncode, 0, done.stderr)
        patches = sorted((self.project / 'build/series/linux').glob('*.patch'))
        self.assertEqual([p.name for p in patches], [
            '0000-cover-letter.patch', '0001-a-Make-line-two-long.patch',
            '0002-new-Add-a-driver.patch'])
        pristine = self.dir / 'pristine'
        shutil.copytree(self.upstream, pristine, symlinks=True)
        self.git(pristine, 'init', '-q')
        self.git(pristine, 'add', '-A', '-f')
        self.git(pristine, 'commit', '-q', '-m', 'base')
        self.git(pristine, 'am', '-q', *patches[1:])
        self.assertEqual(self.git(pristine, 'rev-parse', 'HEAD^{tree}'),
                         self.git(self.tree, 'rev-parse', 'mrfd^{tree}'))
        self.assertEqual(self.git(pristine, 'log', '-2', '--format=%an <%ae>').splitlines(),
                         ['Jörg Tester <joerg@example.org>'] * 2)
        self.assertEqual(self.git(pristine, 'log', '-1', '--format=%B'), textwrap.dedent('''\
            new: Add a driver

            There was none.

            It does nothing yet.

            Signed-off-by: Jörg Tester <joerg@example.org>'''))

    def test_git_am_merges_onto_another_version(self):
        self.join()
        self.script('series', 'linux')
        patch, other = sorted((self.project / 'build/series/linux').glob('000[12]-*.patch'))
        for mail in patch, other, *self.project.glob('patches/linux/*.patch'):
            self.assertRegex(mail.read_text(), r'(?m)^index [0-9a-f]{40}\.\.[0-9a-f]{40}', mail.name)
        newer = self.dir / 'newer'
        shutil.copytree(self.upstream, newer, symlinks=True)
        self.git(newer, 'init', '-q')
        for text in lines(), lines().replace('int line_4;', 'char line_4;'):
            self.write(newer, {'drivers/a.c': text})
            self.git(newer, 'add', '-A', '-f')
            self.git(newer, 'commit', '-q', '-m', 'one more version')
        am = 'git', '-c', 'user.name=T', '-c', 'user.email=t@example.org', 'am', '-q'
        self.assertNotEqual(self.run_in(newer, *am, patch).returncode, 0)
        self.git(newer, 'am', '--abort')
        self.git(newer, 'am', '-q', '-3', patch, other)
        self.assertEqual((newer / 'drivers/a.c').read_text(),
                         lines('long').replace('int line_4;', 'char line_4;'))

    def test_mails_of_libfabric_and_ucx_go_to_their_lists(self):
        for name, to in (('libfabric', 'ofiwg@lists.openfabrics.org'),
                         ('ucx', 'ucx-group@elist.ornl.gov')):
            (self.project / name).mkdir()
            self.env[f'{name.upper()}_SRC'] = str(self.upstream)
            self.write(self.project, {f'patches/{name}/0001-a-Make-line-two-long.patch': EDIT,
                                      f'patches/{name}/cover.md': COVER})
            self.made('series', name)
            for mail in (self.project / 'build/series' / name).glob('*.patch'):
                self.assertIn(f'To: {to}\n', mail.read_text(), mail)

    # runs: full
    def test_cover_letter_has_text_and_diffstat(self):
        self.script('series', '--signoff', 'A Tester <a@example.org>', 'linux')
        cover = (self.project / 'build/series/linux/0000-cover-letter.patch').read_text()
        self.assertIn('From: A Tester <a@example.org>\n', cover)
        self.assertIn('Subject: [PATCH 0/2] Drivers that do nothing\n', cover)
        self.assertIn('\nThe reason is told here.\n', cover)
        self.assertIn('4 files changed', cover)
        self.assertNotIn('***', cover)
        self.assertNotIn('SPDX', cover)
        self.assertNotIn(str(self.dir), cover)

    # runs: full
    def test_series_takes_relative_tree_and_output(self):
        self.join()
        self.script('series', 'linux')
        done = self.script('series', '--tree', 'build/linux', '--output', '../out', 'linux')
        self.assertEqual(done.returncode, 0, done.stderr)
        names = {path.name for path in (self.project / 'build/series/linux').iterdir()}
        self.assertEqual({path.name for path in (self.dir / 'out/linux').iterdir()}, names)

    # runs: full
    def test_interrupted_series_leaves_nothing(self):
        self.join()
        self.stub('bin/git', 'case " $* " in *" format-patch "*) kill -INT $PPID $$ ;; esac\n'
                  f'exec {shutil.which("git")} "$@"')
        self.env['PATH'] = f'{self.project}/bin:{self.env["PATH"]}'
        out = self.dir / 'out'
        done = self.script('series', '--output', out, 'linux')
        self.assertNotIn(done.returncode, (0, 1))
        self.assertEqual([path for path in out.rglob('*') if path.suffix != '.lock'], [])

    # runs: full
    def test_series_without_signoff_says_so(self):
        done = self.script('series', 'linux')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('SIGNOFF=', done.stderr)
        patch = (self.project / 'build/series/linux/0001-a-Make-line-two-long.patch').read_text()
        self.assertIn('From: mrfd <mrfd@localhost>\n', patch)
        self.assertNotIn('Signed-off-by', patch)

    # runs: full
    def test_series_is_reproducible_and_drops_stale_files(self):
        def read():
            return {p.name: p.read_text() for p in (self.project / 'build/series/linux').iterdir()}
        self.script('series', 'linux')
        first = read()
        self.write(self.project, {'build/series/linux/0009-stale.patch': ''})
        self.script('series', 'linux')
        self.assertEqual(read(), first)

    # runs: full
    def test_malformed_signoff_is_refused(self):
        for wrong in ('A Tester', 'a@example.org', '<a@example.org>', 'A <a@b> <c@d>'):
            with self.subTest(wrong=wrong):
                done = self.script('series', '--signoff', wrong, 'linux')
                self.assertEqual(done.returncode, 2)
                self.assertIn('wants a name and an address, as in ', done.stderr)

    # runs: full
    def test_project_without_patches_is_passed_over(self):
        done = self.script('series')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('rdma-core: no patches', done.stderr)
        self.assertTrue((self.project / 'build/series/linux').is_dir())


if __name__ == '__main__':
    unittest.main()
