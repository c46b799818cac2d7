# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""join, refresh, series and check-series do what they say in a project with several series.

01-long and 02-new are independent; 03-short edits the line that 01-long has edited.
"""

import collections
import os
import re
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from project import BRING, EDIT, TOP, JoinedTest, edit  # noqa: E402

sys.path.insert(0, str(TOP / 'kit'))
from mrfd import proof  # noqa: E402
from mrfd import selection  # noqa: E402

AGAIN = edit('long', 'short')

COVER = '''\
<!-- SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB -->
# {}

The reason is told here.
'''

# Prints who is named in MAINTAINERS for what the patches touch.  Each line of it is a
# role, a text in the patch, an address; --no-m, --no-r or --no-l leaves a role out.
GET_MAINTAINER = '''\
die if -e "$ENV{HOME}/.get_maintainer.conf";
my %off = map { $_ => 1 } @ARGV;
my $patches = join ' ', grep { /patch$/ } @ARGV;
$patches = `cat $patches`;
open my $list, '<', 'MAINTAINERS' or die;
while (<$list>) {
	my ($role, $file, $who) = split;
	print "$who\\n" if $patches =~ /$file/ && !$off{'--no-' . lc $role};
}
'''


class PatchesTest(JoinedTest):

    def setUp(self):
        super().setUp()
        self.patches = self.project / 'patches/linux'
        self.write(self.patches, {
            '01-long/0001-a-Make-line-two-long.patch': EDIT,
            '01-long/cover.md': COVER.format('A long line'),
            '02-new/0001-new-Add-a-driver.patch': BRING,
            '02-new/cover.md': COVER.format('Drivers that do nothing'),
            '03-short/0001-a-Make-line-two-short.patch': AGAIN,
            '03-short/cover.md': COVER.format('A short line') + '\nDepends on: 01-long\n',
        })

    def commit(self, message, text='int mine;\n'):
        self.write(self.tree, {'drivers/b.c': text})
        self.git(self.tree, 'commit', '-q', '-am', message)

    def refused(self, *said):
        """Refresh, which stops with these words and changes nothing."""
        before = self.sources()
        done = self.script('refresh', 'linux')
        self.assertEqual(done.returncode, 1, done.stderr)
        for words in said:
            self.assertIn(words, done.stderr)
        self.assertEqual(self.sources(), before)

    def series_fails(self, *said):
        done = self.script('series', 'linux')
        self.assertEqual(done.returncode, 1, done.stderr)
        for words in said:
            self.assertIn(words, done.stderr)

    def mails(self):
        out = self.project / 'build/series/linux'
        return {str(path.relative_to(out)): path.read_text() for path in sorted(out.rglob('*.patch'))}

    # join

    def test_patches_are_joined_series_by_series(self):
        self.join()
        self.assertEqual(
            self.git(self.tree, 'log', '--reverse', 'base..mrfd',
                     '--format=%s: %(trailers:key=Series,valueonly,separator=%x2C)').splitlines(),
            ['a: Make line two long: 01-long', 'new: Add a driver: 02-new',
             'a: Make line two short: 03-short'])

    # runs: full
    def test_series_number_gives_the_order(self):
        (self.patches / '02-new').rename(self.patches / '04-new')
        self.join()
        self.assertEqual(self.git(self.tree, 'log', '-1', '--format=%s'), 'new: Add a driver')

    # runs: full
    def test_patch_outside_a_series_is_named(self):
        for place in '0001-x.patch', '02-New/0001-x.patch', 'new/0001-x.patch', '04-bare/0001-x.patch', \
                '02-new/more/0001-x.patch':
            with self.subTest(place=place):
                self.write(self.patches, {place: EDIT})
                said = self.join_fails()
                self.assertIn(f'patches/linux/{place}\n', said)
                self.assertIn('01-long 02-new 03-short', said)
                (self.patches / place).unlink()

    # runs: full
    def test_series_without_cover_letter_is_refused(self):
        (self.patches / '02-new/cover.md').unlink()
        self.assertIn('02-new/0001-new-Add-a-driver.patch', self.join_fails())
        self.series_fails('02-new/0001-new-Add-a-driver.patch', 'cover.md')

    # runs: full
    def test_cover_letter_beside_series_is_refused(self):
        self.write(self.patches, {'cover.md': COVER.format('All')})
        self.assertIn('either one series or several', self.join_fails())

    # refresh

    # runs: full
    def test_refresh_after_join_changes_nothing(self):
        before = self.sources()
        self.join()
        self.made('refresh', 'linux')
        self.assertEqual(self.sources(), before)

    def test_refresh_puts_commit_into_its_series(self):
        self.join()
        self.commit('b: Mine\n\nFor me.\n\nFixes: 0123456789ab ("b: Yours")\nSeries: 03-short')
        tree = self.git(self.tree, 'rev-parse', 'HEAD^{tree}')
        self.made('refresh', 'linux')
        self.assertEqual(sorted(path.name for path in self.patches.glob('*/*.patch')), [
            '0001-a-Make-line-two-long.patch', '0001-a-Make-line-two-short.patch',
            '0001-new-Add-a-driver.patch', '0002-b-Mine.patch'])
        patch = (self.patches / '03-short/0002-b-Mine.patch').read_text()
        self.assertIn('\n\nFor me.\n\nFixes: 0123456789ab ("b: Yours")\n---\n', patch)
        self.assertNotIn('Series', patch)
        self.join()
        self.assertEqual(self.git(self.tree, 'rev-parse', 'mrfd^{tree}'), tree)

    # runs: full
    def test_refresh_keeps_cover_letter_of_empty_series(self):
        self.join()
        self.git(self.tree, 'reset', '-q', '--hard', 'HEAD~')
        self.made('refresh', 'linux')
        self.assertEqual([path.name for path in (self.patches / '03-short').iterdir()], ['cover.md'])
        self.assertIn('no patches in 03-short yet', self.script('series', 'linux').stderr)

    # runs: full
    def test_refresh_refuses_commit_without_series(self):
        self.join()
        self.commit('b: Mine')
        self.refused('"b: Mine" names no series', 'as in: Series: NN-name',
                     '01-long 02-new 03-short', 'NN-name/cover.md')

    # runs: full
    def test_refresh_refuses_unknown_series(self):
        self.join()
        self.commit('b: Mine\n\nSeries: 05-mine')
        self.refused('"b: Mine" is of the series 05-mine, which is not in patches/linux')
        self.write(self.patches, {'05-mine/cover.md': COVER.format('Mine')})
        self.made('refresh', 'linux')
        self.assertTrue((self.patches / '05-mine/0001-b-Mine.patch').exists())

    # runs: full
    def test_refresh_refuses_commit_of_two_series(self):
        self.join()
        self.commit('b: Mine\n\nSeries: 02-new\nSeries: 03-short')
        self.refused('more than one series: 02-new, 03-short')

    # runs: full
    def test_refresh_refuses_commit_out_of_order(self):
        self.join()
        self.commit('b: Mine\n\nSeries: 01-long')
        self.refused('of the series 01-long and comes after a commit of 03-short', 'rebase -i base')

    # runs: full
    def test_refresh_of_single_series_refuses_names(self):
        shutil.rmtree(self.patches / '02-new')
        shutil.rmtree(self.patches / '03-short')
        shutil.rmtree(self.project / 'kernel/drivers')
        for path in (self.patches / '01-long').iterdir():
            path.rename(self.patches / path.name)
        (self.patches / '01-long').rmdir()
        self.join()
        self.commit('b: Mine\n\nSeries: 01-long')
        self.refused('which is not in patches/linux')

    # series

    def test_each_series_has_folder_cover_letter_and_numbers(self):
        self.made('series', 'linux')
        mails = self.mails()
        self.assertEqual(sorted(mails), [
            '01-long/0000-cover-letter.patch', '01-long/0001-a-Make-line-two-long.patch',
            '02-new/0000-cover-letter.patch', '02-new/0001-new-Add-a-driver.patch',
            '03-short/0000-cover-letter.patch', '03-short/0001-a-Make-line-two-short.patch'])
        for name, text in mails.items():
            self.assertRegex(text, r'Subject: \[PATCH [01]/1\] ', name)
            self.assertNotIn('Series:', text, name)
            self.assertIn('To: linux-rdma@vger.kernel.org\n', text, name)
        self.assertIn(' 3 files changed', mails['02-new/0000-cover-letter.patch'])
        self.assertIn('new: Add a driver', mails['02-new/0000-cover-letter.patch'])

    # runs: full
    def test_cover_letter_names_dependencies_by_title(self):
        self.made('series', 'linux')
        cover = self.mails()['03-short/0000-cover-letter.patch']
        self.assertIn('\nDepends on:\n  A long line\n', cover)
        self.assertNotIn('01-long', cover)

    def test_git_am_of_all_series_gives_joined_tree(self):
        self.made('series', '--signoff', 'A Tester <a@example.org>', 'linux')
        patches = sorted((self.project / 'build/series/linux').glob('*/000[1-9]*.patch'))
        pristine = self.dir / 'pristine'
        shutil.copytree(self.upstream, pristine, symlinks=True)
        self.git(pristine, 'init', '-q')
        self.git(pristine, 'add', '-A', '-f')
        self.git(pristine, 'commit', '-q', '-m', 'base')
        self.git(pristine, 'am', '-q', *patches)
        self.assertEqual(self.git(pristine, 'rev-parse', 'HEAD^{tree}'),
                         self.git(self.tree, 'rev-parse', 'mrfd^{tree}'))

    # runs: full
    def test_series_depends_on_earlier_series_only(self):
        for wrong in '03-short', '02-new', '04-none', '.':
            with self.subTest(wrong=wrong):
                self.write(self.patches, {
                    '02-new/cover.md': COVER.format('New') + f'\nDepends on: 01-long, {wrong}\n'})
                self.series_fails(f'02-new/cover.md depends on {wrong}, ', 'these are: 01-long')

    # runs: full
    def test_malformed_cover_letter_is_named(self):
        for text, said in (('# Title\nText\n', 'second line'), ('# T\n\n' + 'x' * 76, '75 columns'),
                           ('# T\n\n\xe9\n', 'ASCII')):
            with self.subTest(said=said):
                self.write(self.patches, {'02-new/cover.md': text})
                self.series_fails('02-new/cover.md', said)

    def test_recipients_come_from_get_maintainer(self):
        self.write(self.upstream, {
            'scripts/get_maintainer.pl': GET_MAINTAINER,
            'MAINTAINERS': 'M drivers/a.c a@example.org\nM drivers/new new@example.org\n'
                           'R drivers/a.c b@example.org\nL drivers l@example.org\n'
                           'L Makefile new@example.org\n'})
        self.write(self.dir, {'.get_maintainer.conf': '--wrong\n'})
        self.made('series', 'linux')
        mails = self.mails()
        for number in '0000-cover-letter', '0001-a-Make-line-two-long':
            head = mails[f'01-long/{number}.patch']
            self.assertIn('\nTo: a@example.org\n', head)
            self.assertIn('\nCc: b@example.org,\n    l@example.org\n', head)
            self.assertNotIn('new@example.org', head)
        # Nobody gets a mail twice.
        self.assertIn('\nTo: new@example.org\nCc: l@example.org\n', mails['02-new/0000-cover-letter.patch'])

    # check-series

    def check(self):
        """The lines of check-series --quick about git am.  The userland's programs find nothing."""
        shutil.copytree(TOP / 'kit/mrfd', self.project / 'kit/mrfd', dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns('__pycache__'))
        self.stub('scripts/rootfs', 'exit 0')
        self.stub('scripts/enter', 'cd "${0%/*}/../build/check-series/checkpatch" || exit\n'
                  'find . -name "*.patch" | while read -r patch; do\n'
                  '\techo " has no obvious style problems" >"$patch.out"\ndone\n')
        said = self.script('check-series', '--quick', 'linux').stdout
        return [line for line in said.splitlines() if 'pristine' in line or 'checkpatch' in line]

    def test_each_series_applies_to_its_dependencies(self):
        self.assertEqual(self.check(), [
            'ok 1 linux: git am on the pristine source gives the joined tree, patch by patch',
            'ok 2 linux: 01-long applies to the pristine source',
            'ok 3 linux: 02-new applies to the pristine source',
            'ok 4 linux: 03-short applies to the pristine source with 01-long',
            'ok 5 linux: checkpatch --strict: 01-long/0001-a-Make-line-two-long.patch',
            'ok 6 linux: checkpatch --strict: 02-new/0001-new-Add-a-driver.patch',
            'ok 7 linux: checkpatch --strict: 03-short/0001-a-Make-line-two-short.patch'])

    # runs: full
    def test_unnamed_dependency_is_found(self):
        self.write(self.patches, {'03-short/cover.md': COVER.format('A short line')})
        said = self.check()
        self.assertIn('ok 3 linux: 02-new applies to the pristine source', said)
        self.assertIn('not ok 4 linux: 03-short applies to the pristine source', said)

    # runs: full
    def test_dependencies_are_transitive(self):
        shutil.copytree(self.patches / '02-new', self.patches / '04-last')
        self.write(self.patches, {
            '02-new/0001-new-Add-a-driver.patch': BRING,
            '04-last/0001-new-Add-a-driver.patch': edit('short', 'char'),
            '04-last/cover.md': COVER.format('Last') + '\nDepends on: 03-short\n'})
        self.assertIn('ok 5 linux: 04-last applies to the pristine source with 01-long 03-short', self.check())


class OverviewTest(unittest.TestCase):
    """What our own cover letters and patches/README.md say."""

    def covers(self):
        return {path.parent.name: path.read_text() for path in sorted(TOP.glob('patches/linux/*/cover.md'))}

    def test_overview_lists_series_and_dependencies(self):
        depends = {name: ''.join(re.findall('^Depends on: (.*)$', text, re.MULTILINE))
                   for name, text in self.covers().items()}
        said = re.findall(r'^\| \[(\S+)\]\(linux/\1/cover.md\) \| .+? \| (.*?) ?\| .+ \|$',
                          (TOP / 'patches/README.md').read_text(), re.MULTILINE)
        self.assertEqual(said, list(depends.items()))

    def test_cover_letters_fit_into_mails(self):
        for path in sorted(TOP.glob('patches/**/cover.md')):
            with self.subTest(cover=str(path.relative_to(TOP))):
                subject, empty, *rest = path.read_bytes().decode('ascii').splitlines()[1:]
                self.assertTrue(subject.startswith('# ') and not empty and rest)
                self.assertEqual([line for line in rest if len(line) > 75], [])

    def test_cover_letters_of_ready_series_fit_on_a_page(self):
        ready = re.findall(r'^\| \[\S+\]\((\S+)\) .*\| ready[^|]*\|$',
                           (TOP / 'patches/README.md').read_text(), re.MULTILINE)
        self.assertGreater(len(ready), 5)
        for path in ready:
            with self.subTest(cover=path):
                lines = (TOP / 'patches' / path).read_text().splitlines()
                self.assertLess(len(lines), 67)

    def test_tests_named_in_cover_letters_exist(self):
        self.assertEqual(proof.series(), list(self.covers()))
        for name in proof.series():
            self.assertTrue(proof.commands(name), name)
            for kernel, patterns in proof.commands(name).items():
                for pattern in patterns:
                    with self.subTest(series=name, kernel=kernel, pattern=pattern):
                        self.assertTrue(selection.select(pattern, kernel))

    def test_each_fault_of_the_stock_kernel_is_shown_by_one_case(self):
        for name, patches, pattern in proof.faults():
            with self.subTest(series=name, patches=patches):
                self.assertTrue(list(TOP.glob(f'patches/linux/{name}/{int(patches):04}-*.patch')))
                chosen = selection.select(pattern, 'stock')
                self.assertEqual([list(program.wanted) for program in chosen],
                                 [[pattern.partition(': ')[2]]])

    def test_overview_counts_the_faults_of_each_series(self):
        said = re.findall(r'^\| (\d\d)\b[^|]*\|(?:[^|]*\|){3} ?(\d*) ?\|$',
                          (TOP / 'patches/README.md').read_text(), re.MULTILINE)
        shown = collections.Counter(name[:2] for name, _, _ in proof.faults())
        self.assertGreater(len(said), 5)
        for series, count in said:
            with self.subTest(series=series):
                self.assertEqual(int(count or 0), shown[series])


if __name__ == '__main__':
    unittest.main()
