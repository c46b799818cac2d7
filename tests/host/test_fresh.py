# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""The kit makes a product again after a change of anything that goes into it and after an
interrupted run, and at no other time.

The programs are the project's own.  What they would run inside the userland is
replaced by a stub that notes the call and makes an empty result.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from project import ProjectTest  # noqa: E402

# Called as "enter [OPTION...] bash -c TEXT PROGRAM FUNCTIONS FUNCTION ARGUMENT...".
ENTER = '''
here=$(cd "$(dirname "$0")/.." && pwd)
while [ "$1" != -c ]; do shift; done
shift 4
echo "$*" >>"$here/calls"
sleep "$(cat "$here/sleep" 2>/dev/null || echo 0)"
[ ! -e "$here/fail" ] || exit 1
for path; do path=$here${path#/mrfd}; done
case $1 in
configure) touch "$path/build.ninja"; mkdir -p "$path"/providers/{rxe,mlx5} ;;
compile)
	for path; do
		case $path in *.part.*) echo image >"$here${path#/mrfd}" ;; esac
	done ;;
compile_modules) mkdir "$path" ;;
compile_perftest | compile_libfabric | compile_ucx) mkdir -p "$here/build/${1#compile_}-obj" ;;
esac
'''

# The tests make the joined trees themselves.
JOIN = '''
for name; do :; done
echo "$(cd "$(dirname "$0")/.." && pwd)/build/$name"
'''


class FreshTest(ProjectTest):

    def setUp(self):
        super().setUp()
        self.stub('scripts/enter', ENTER)
        self.stub('scripts/rootfs', 'exit 0')
        self.stub('scripts/join', JOIN)
        for name in ('linux', 'rdma-core', 'perftest', 'libfabric', 'ucx'):
            tree = self.project / 'build' / name
            self.write(tree, {'a.c': 'int a;\n', '.gitignore': '*.o\n'})
            self.git(tree, 'init', '-q')
            self.git(tree, 'add', '.')
            self.git(tree, 'commit', '-q', '-m', 'a')

    def calls(self, name, *arguments):
        """The functions that a run of a program has run inside the userland."""
        path = self.project / 'calls'
        path.unlink(missing_ok=True)
        self.made(name, *arguments)
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def check_inputs(self, name, tree, makes, all_of_it=None):
        self.assertEqual(self.calls(name), makes)
        self.assertEqual(self.calls(name), [], 'nothing has changed')
        tree = self.project / 'build' / tree
        self.write(tree, {'a.c': 'long a;\n'})
        self.assertEqual(self.calls(name), makes[-1:], 'an edit that is not committed')
        self.assertEqual(self.calls(name), [], 'the same edit')
        self.write(tree, {'b.c': 'int b;\n'})
        self.assertEqual(self.calls(name), makes[-1:], 'a file that git does not know')
        self.write(tree, {'a.o': ''})
        self.assertEqual(self.calls(name), [], 'a file that git ignores')
        self.git(tree, 'add', '.')
        self.git(tree, 'commit', '-q', '-m', 'b')
        self.assertEqual(self.calls(name), makes[-1:], 'a commit')
        self.edit('kit/userland.packages', 'strace', 'strace ltrace')
        self.assertEqual(self.calls(name), all_of_it or makes, 'another userland')
        self.edit('kit/userland.packages', '# plots', '# what draws')
        self.assertEqual(self.calls(name), [], 'a comment in the list of packages')

    def test_kernel_is_rebuilt_after_changes_only(self):
        self.check_inputs('kernel', 'linux', ['compile'])
        self.edit('kit/configs/base.config', 'CONFIG_DRM_VGEM=y', '# CONFIG_DRM_VGEM is not set')
        self.assertEqual(self.calls('kernel'), ['compile'], 'a configuration')
        self.edit('scripts/kernel', 'KBUILD_BUILD_USER=mrfd', 'KBUILD_BUILD_USER=me')
        self.assertEqual(self.calls('kernel'), ['compile'], 'a flag')
        (self.project / 'build/kernel/bzImage').unlink()
        self.assertEqual(self.calls('kernel'), ['compile'], 'no image')
        self.assertEqual(self.calls('kernel'), [])

    # runs: full
    def test_modules_are_made_when_asked_for_and_follow_the_image(self):
        self.assertEqual(self.calls('kernel'), ['compile'])
        self.assertFalse((self.project / 'build/kernel/modules').exists())
        image = self.project / 'build/kernel/bzImage'
        before = image.stat().st_mtime_ns
        self.assertEqual(self.calls('kernel', '--modules'), ['compile_modules'])
        self.assertEqual(self.calls('kernel', '--modules'), [])
        self.assertEqual(self.calls('kernel'), [])
        self.assertEqual(image.stat().st_mtime_ns, before)
        self.write(self.project / 'build/linux', {'a.c': 'long a;\n'})
        self.assertEqual(self.calls('kernel'), ['compile'])
        self.assertEqual(self.calls('kernel', '--modules'), ['compile_modules'],
                         'those of an older image')
        self.assertEqual(self.calls('kernel', '--modules', '--debug'),
                         ['compile', 'compile_modules'])

    # runs: full
    def test_module_of_the_tests_makes_the_modules(self):
        self.write(self.project, {'tests/steps/a.c': 'int a;\n'})
        self.stub('kit/module.sh', (self.project / 'kit/module.sh').read_text().replace(
            'publish "$part"', 'touch "$part"; publish "$part"'))
        self.assertEqual(self.calls('steps'), ['compile', 'compile_modules', 'compile_module'])
        self.assertEqual(self.calls('steps'), [])

    # runs: full
    def test_config_fragment_rebuilds_its_kernels_only(self):
        self.calls('kernel')
        self.calls('kernel', '--debug')
        path = self.project / 'kit/configs/debug.config'
        path.write_text(path.read_text() + 'CONFIG_X=y\n')
        self.assertEqual(self.calls('kernel'), [])
        self.assertEqual(self.calls('kernel', '--debug'), ['compile'])

    # runs: full
    def test_rdma_core_is_rebuilt_after_changes_only(self):
        self.check_inputs('rdma-core', 'rdma-core', ['configure', 'compile'])
        self.edit('scripts/rdma-core', '-DIN_PLACE=1', '-DIN_PLACE=1 -DX=1')
        self.assertEqual(self.calls('rdma-core'), ['configure', 'compile'], 'a flag of cmake')
        self.edit('scripts/rdma-core', 'ninja -C', 'ninja -v -C')
        self.assertEqual(self.calls('rdma-core'), ['compile'], 'a flag of ninja')
        self.assertEqual(self.calls('rdma-core'), [])

    # runs: full
    def test_rdma_core_builds_for_one_provider(self):
        self.assertEqual(self.calls('rdma-core', '--provider', 'rxe'), ['configure', 'compile'])
        self.assertEqual(self.calls('rdma-core', '--provider', 'rxe'), [])
        self.assertEqual(self.calls('rdma-core', '--provider', 'mlx5'), ['compile'])
        self.assertEqual(self.calls('rdma-core', '--provider', 'rxe'), [], 'of the same source')
        self.assertEqual(self.calls('rdma-core'), ['compile'])
        self.assertEqual(self.calls('rdma-core', '--provider', 'mlx5'), [], 'the whole build has it')

    # runs: full
    def test_provider_build_replaces_that_of_other_source(self):
        tree = self.project / 'build/rdma-core'
        for first, then in ([], ['--provider', 'rxe']), (['--provider', 'rxe'], []), \
                (['--provider', 'rxe'], ['--provider', 'mlx5']):
            with self.subTest(first=first, then=then):
                self.write(tree, {'a.c': 'int a;\n'})
                self.calls('rdma-core', *first)
                self.write(tree, {'a.c': 'long a;\n'})
                self.assertEqual(self.calls('rdma-core', *then), ['compile'])
                self.write(tree, {'a.c': 'int a;\n'})
                self.assertEqual(self.calls('rdma-core', *first), ['compile'])

    # runs: full
    def test_perftest_is_rebuilt_after_changes_only(self):
        self.calls('rdma-core')
        self.check_inputs('perftest', 'perftest', ['compile_perftest'],
                          ['configure', 'compile', 'compile_perftest'])

    # runs: full
    def test_new_rdma_core_or_recipe_rebuilds_perftest(self):
        self.calls('perftest')
        self.write(self.project / 'build/rdma-core', {'a.c': 'long a;\n'})
        self.assertEqual(self.calls('perftest'), ['compile', 'compile_perftest'])
        self.edit('kit/autotools.sh', 'autoreconf -fi', 'autoreconf -f -i')
        self.assertEqual(self.calls('perftest'), ['compile_perftest'])

    # runs: full
    def test_libfabric_is_rebuilt_after_changes_only(self):
        self.calls('rdma-core')
        self.check_inputs('libfabric', 'libfabric', ['compile_libfabric'],
                          ['configure', 'compile', 'compile_libfabric'])

    # runs: full
    def test_ucx_is_rebuilt_after_changes_of_its_own_userland_only(self):
        self.assertEqual(self.calls('ucx'), ['compile_ucx'])
        self.write(self.project / 'build/ucx', {'a.c': 'long a;\n'})
        self.assertEqual(self.calls('ucx'), ['compile_ucx'])
        for change in (('kit/autotools.sh', '--enable-mt', '--disable-mt'),
                       ('kit/programs.packages', 'strace', 'strace ltrace')):
            self.edit(*change)
            self.assertEqual(self.calls('ucx'), ['compile_ucx'], change)
        self.edit('kit/userland.packages', 'strace', 'strace ltrace')
        self.assertEqual(self.calls('ucx'), [])

    # runs: full
    def test_failed_build_is_repeated(self):
        self.calls('kernel')
        self.write(self.project / 'build/linux', {'a.c': 'long a;\n'})
        self.write(self.project, {'fail': ''})
        for _ in range(2):
            done = self.script('kernel')
            self.assertEqual(done.returncode, 1)
            self.assertIn('FAILED', done.stderr)
        # The source is that of the last good build again, but the product is half of another.
        self.write(self.project / 'build/linux', {'a.c': 'int a;\n'})
        (self.project / 'fail').unlink()
        self.assertEqual(self.calls('kernel'), ['compile'])
        self.assertEqual(self.calls('kernel'), [])

    # runs: full
    def test_killed_build_is_repeated(self):
        self.calls('kernel')
        self.write(self.project / 'build/linux', {'a.c': 'long a;\n'})
        self.write(self.project, {'sleep': '30'})
        (self.project / 'calls').unlink(missing_ok=True)
        with subprocess.Popen([self.project / 'scripts/kernel'], env=self.env,
                              stderr=subprocess.DEVNULL, start_new_session=True) as process:
            while not (self.project / 'calls').exists():
                time.sleep(0.01)
            self.write(self.project / 'build/kernel', {'bzImage.part.1': 'half'})
            # Kill each process: the step has a process group of its own.
            for pid in [process.pid, *self.descendants(process.pid)]:
                with contextlib.suppress(ProcessLookupError):  # it was about to end
                    os.kill(pid, signal.SIGKILL)
        (self.project / 'sleep').unlink()
        self.write(self.project / 'build/linux', {'a.c': 'int a;\n'})
        self.assertEqual(self.calls('kernel'), ['compile'])
        self.assertEqual(list((self.project / 'build/kernel').glob('*.part.*')), [])

    def descendants(self, pid):
        with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as file:
            for child in map(int, file.read().split()):
                yield from self.descendants(child)
                yield child

    def test_concurrent_runs_build_once(self):
        self.write(self.project, {'sleep': '0.5'})
        runs = [subprocess.Popen([self.project / 'scripts/kernel'], env=self.env, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for _ in range(3)]
        said = [run.communicate() for run in runs]
        self.assertEqual([run.returncode for run in runs], [0] * 3, said)
        self.assertEqual(len((self.project / 'calls').read_text().splitlines()), 1)
        self.assertIn('waiting for another run', ''.join(err for _, err in said))


class CacheTest(ProjectTest):
    """The userland in the cache; test_sources.py has the sources."""

    def setUp(self):
        super().setUp()
        self.env['DEBIAN_MIRROR'] = 'http://mirror.example/debian'
        self.env['PATH'] = f'{self.project}/bin:{self.env["PATH"]}'
        self.stub('bin/mmdebstrap', '''
            echo mmdebstrap "$@" >>"$HOME/calls"
            mkdir -p "$HOME/root/usr"
            tar -C "$HOME/root" -c .
            [ ! -e "$HOME/fail" ]
            ''')

    def calls(self):
        path = self.dir / 'calls'
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return len(lines)

    def test_userland_is_made_once_per_list_and_recipe(self):
        first = self.made('rootfs')
        self.assertEqual(self.calls(), 1)
        self.assertEqual(self.made('rootfs'), first)
        self.assertEqual(self.made('rootfs', '--print'), first)
        self.assertEqual(self.calls(), 0)
        self.edit('kit/userland.packages', 'strace', 'strace ltrace')
        second = self.made('rootfs')
        self.assertNotEqual(second, first)
        self.assertEqual(self.calls(), 1)
        self.edit('kit/userland.sh', '--variant=minbase', '--variant=important')
        self.assertNotIn(self.made('rootfs'), (first, second))
        self.assertEqual(self.calls(), 1)

    # runs: full
    def test_failed_userland_is_made_again(self):
        (self.dir / 'fail').touch()
        done = self.script('rootfs')
        self.assertEqual(done.returncode, 1, done.stderr)
        self.calls()
        (self.dir / 'fail').unlink()
        self.made('rootfs')
        self.assertEqual(self.calls(), 1)
        self.assertEqual(list(self.cache.glob('*.part.*')), [])


if __name__ == '__main__':
    unittest.main()
