# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""What a new user sees first: if the host lacks something, a program says so at once, in a
line or two, with what to do; and the programs can be called from anywhere.

A full or read-only disk is a mount in a separate namespace, an ordinary user is "nobody";
both need root.
"""

import os
import pwd
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from project import TOP, ProjectTest  # noqa: E402

USER = 'nobody'
MOUNTS = os.getuid() == 0 and not subprocess.run(['unshare', '-m', 'true'], check=False,
                                                 stderr=subprocess.DEVNULL).returncode
needs_root = unittest.skipUnless(os.getuid() == 0, 'needs root, to be another user')
needs_mounts = unittest.skipUnless(MOUNTS, 'needs root, and to be allowed to mount')


class FrontTest(ProjectTest):

    def setUp(self):
        super().setUp()
        self.build = self.project / 'build'
        # These stubs of slow programs note that they were called.
        self.env['PATH'] = f'{self.project}/bin:{self.env["PATH"]}'
        for name in ('mmdebstrap', 'bwrap', 'newuidmap'):
            self.stub(f'bin/{name}', 'echo called >>"$HOME/called"; exit 1')

    def all_is_made(self):
        """Put the products, empty, where a whole run leaves them."""
        root = self.made('rootfs', '--print')
        os.makedirs(root)
        self.write(self.cache, {f'{os.path.basename(root)}.stamp': self.key('userland_key'),
                                'source-linux-0.git.stamp': ''})
        self.write(self.build, {'kernel/bzImage': '', 'linux/a.c': '', 'logs/x': ''})
        self.git(self.build / 'linux', 'init', '-q')

    def key(self, function):
        done = self.run_in(self.project, 'bash', '-c', f'. kit/lib.sh; {function}')
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def mounted(self, setup, *command):
        """Run a command with mounts that only it sees."""
        return self.run_in(self.project, 'unshare', '-m', '--propagation', 'private', 'bash', '-ec',
                           setup + '\nexec "$@"', 'bash', *command)

    def as_user(self, *command, subuid=f'{USER}:100000:65536\n', subgid=f'{USER}:100000:65536\n'):
        """Run a command as an ordinary user with these ranges of ids."""
        self.write(self.dir, {'subuid': subuid, 'subgid': subgid})
        return self.mounted(
            f'for f in subuid subgid; do touch /etc/$f; mount --bind "{self.dir}/$f" /etc/$f; done',
            'setpriv', '--reuid', USER, '--regid', str(pwd.getpwnam(USER).pw_gid), '--clear-groups',
            *command)

    def give(self, *paths):
        """Give these paths, with all below, to the ordinary user."""
        user = pwd.getpwnam(USER)
        subprocess.run(['chown', '-hR', f'{user.pw_uid}:{user.pw_gid}', *paths], check=True)

    def refused(self, done, *texts):
        """The program says so in a few lines, and has started nothing."""
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)
        self.assertLessEqual(len(done.stderr.splitlines()), 4, done.stderr)
        self.assertFalse((self.dir / 'called').exists(), 'mmdebstrap was run')

    # Room on the disk

    def needed(self, done):
        self.refused(done, 'are needed on it')
        return int(done.stderr.split(' MB are needed')[0].split()[-1])

    def needed_in_cache(self, product):
        return self.needed(self.mounted(
            f'mkdir -p "{self.cache}"; mount -t tmpfs -o size=1m tmpfs "{self.cache}"',
            self.project / 'kit/ready', product))

    @needs_mounts
    def test_too_small_cache_disk_is_named(self):
        self.cache.mkdir(parents=True)
        for name in ('rootfs', 'kernel', '../kit/ready'):
            with self.subTest(name=name):
                done = self.mounted(f'mount -t tmpfs -o size=300m tmpfs "{self.cache}"',
                                    self.project / 'scripts' / name,
                                    *(['kernel'] if 'ready' in name else []))
                self.refused(done, f'the file system {self.cache} has 300 MB free', 'are needed',
                             'XDG_CACHE_HOME')

    @needs_mounts
    def test_too_small_build_disk_is_named(self):
        self.all_is_made()
        shutil.rmtree(self.build)
        self.build.mkdir()
        done = self.mounted(f'mount -t tmpfs -o size=500m tmpfs "{self.build}"',
                            self.project / 'scripts/kernel')
        self.refused(done, f'the file system {self.build} has 500 MB free', 'are needed',
                     str(self.build))

    @needs_mounts
    def test_shared_disk_needs_room_for_cache_and_build(self):
        shutil.move(self.project, self.dir / 'disk-project')  # the mount hides it
        both = self.dir / 'disk'
        setup = (f'mkdir "{both}"; mount -t tmpfs -o size=9m tmpfs "{both}"; '
                 f'cp -a "{self.dir}/disk-project" "{both}/project"; export XDG_CACHE_HOME="{both}/c"')
        done = self.run_in(self.dir, 'unshare', '-m', 'bash', '-ec', setup + '\nexec "$@"', 'bash',
                           both / 'project/kit/ready', 'linux')
        self.refused(done, f'for {both}/c/mrfd, {both}/project/build')
        both_mb = self.needed(done)
        shutil.move(self.dir / 'disk-project', self.project)
        self.assertGreater(both_mb, self.needed_in_cache('linux'))

    @needs_mounts
    def test_each_userland_needs_room(self):
        mb = self.needed_in_cache
        self.assertGreater(mb('libfabric-obj'), mb('rdma-core-obj') + mb('source-libfabric') + 1000)

    @needs_mounts
    def test_full_disk_with_all_products_is_enough(self):
        self.all_is_made()
        done = self.mounted(
            f'cp -a "{self.build}" "{self.dir}/b"; mount -t tmpfs -o size=1m tmpfs "{self.build}"\n'
            f'cp -a "{self.dir}"/b/. "{self.build}"', self.project / 'kit/ready', 'kernel')
        self.assertEqual((done.returncode, done.stderr), (0, ''))

    FILL = 'head -c 2M /dev/zero >"{0}/fill" || true'

    def full_step(self, setup):
        """A step that writes to a disk of 1 MB."""
        self.build.mkdir()
        self.stub('scripts/fill', '. "${0%/*}/../kit/lib.sh"\n'
                  'step fill.log "filling the disk" head -c 2M /dev/zero\n')
        return self.mounted(f'mount -t tmpfs -o size=1m tmpfs "{self.build}"\n{setup}',
                            self.project / 'scripts/fill')

    @needs_mounts
    def test_disk_filled_by_a_step_is_named(self):
        done = self.full_step('')
        self.assertEqual(done.returncode, 1)
        self.assertIn(f'the file system {self.build} is full: it has 0 MB free', done.stderr)
        self.assertIn('takes 2.6 GB in all', done.stderr)

    @needs_mounts
    def test_disk_too_full_for_the_log_is_named(self):
        done = self.full_step(f'mkdir "{self.build}/logs"\n' + self.FILL.format(self.build))
        self.assertEqual(done.returncode, 1)
        self.assertIn('(nothing is in it)', done.stderr)
        self.assertIn(f'the file system {self.build} is full: it has 0 MB free', done.stderr)

    # The ordinary user

    @needs_mounts
    def test_user_without_subids_is_told_usermod(self):
        self.give(self.dir)
        others = 'a:100000:65536\nb:165536:65536\n'
        for name, ranges in (('subuid', {'subuid': others}), ('subgid', {'subgid': ''}),
                             ('subuid', {'subuid': f'{USER}:100000:1000\n'})):
            with self.subTest(name=name, **ranges):
                done = self.as_user(self.project / 'scripts/rootfs', **ranges)
                self.refused(done, f'the user {USER} has no range of 65536 ids in /etc/{name}',
                             'sudo usermod --add-subuids ', f' {USER}')
        done = self.as_user(self.project / 'scripts/rootfs', subuid=others)
        self.assertIn('--add-subuids 231072-296607', done.stderr, 'a range of nobody else')

    @needs_mounts
    def test_user_with_subids_passes(self):
        self.give(self.dir)
        done = self.as_user(self.project / 'kit/ready', 'rootfs')
        self.assertEqual((done.returncode, done.stderr), (0, ''))

    @needs_mounts
    def test_missing_program_is_named_to_user(self):
        self.give(self.dir)
        (self.project / 'bin/newuidmap').unlink()
        for name in ('bash', 'dirname', 'readlink', 'realpath', 'id', 'cut', 'sha256sum', 'grep', 'sed',
                     'mkdir', 'tr'):
            (self.project / 'bin' / name).symlink_to(shutil.which(name))
        for name in ('python3', 'git', 'flock'):
            self.stub(f'bin/{name}', '')
        done = self.as_user('env', f'PATH={self.project}/bin', self.project / 'scripts/rootfs')
        self.refused(done, 'missing on this host: uidmap', 'sudo apt-get install')

    # Places to write to

    @needs_mounts
    def test_read_only_checkout_is_refused(self):
        read_only = f'mount --bind "{self.project}" "{self.project}"\n' \
                    f'mount -o remount,ro,bind "{self.project}"'
        for there in False, True:
            with self.subTest(build_is_there=there):
                done = self.mounted(read_only, self.project / 'scripts/kernel')
                self.refused(done, f'cannot write to {self.build}: Read-only file system',
                             'clone the project')
            self.build.mkdir(exist_ok=True)

    @needs_mounts
    def test_checkout_of_another_user_is_refused(self):
        self.give(self.dir)
        shutil.chown(self.project, 'root')
        done = self.as_user(self.project / 'scripts/kernel')
        self.refused(done, f'cannot make {self.build}: {self.project} belongs to root', 'clone the project')

    @needs_mounts
    def test_build_or_cache_of_root_is_refused(self):
        for path in (self.build / 'linux', self.build / 'logs/kernel.log', self.cache / 'ccache'):
            with self.subTest(path=path):
                self.give(self.dir)
                path.mkdir(parents=True)
                self.give(*(p for p in (self.build, self.build / 'logs', self.cache.parent, self.cache)
                            if p.exists()))
                shutil.chown(path, 'root')
                done = self.as_user(self.project / 'scripts/kernel')
                self.refused(done, f'cannot write to {path}: it belongs to root',
                             f'sudo chown -R {USER} ')
                path.rmdir()

    def test_unset_home_falls_back_to_passwd(self):
        del self.env['HOME']
        del self.env['XDG_CACHE_HOME']
        done = self.script('rootfs', '--print')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f'{pwd.getpwuid(os.getuid()).pw_dir}/.cache/mrfd/', done.stdout)

    @needs_root
    def test_unset_home_of_unknown_uid_is_refused(self):
        del self.env['HOME']
        del self.env['XDG_CACHE_HOME']
        self.dir.chmod(0o755)
        done = self.run_in(self.project, 'setpriv', '--reuid', '54321', '--clear-groups',
                           self.project / 'scripts/rootfs', '--print')
        self.refused(done, 'no place for the cache', 'set XDG_CACHE_HOME')

    def test_relative_cache_path_is_refused(self):
        self.env['XDG_CACHE_HOME'] = 'cache'
        self.refused(self.script('rootfs'), 'has to be an absolute path: cache')

    def test_newline_in_path_is_refused(self):
        for name in ('a\nb', 'a\n'):
            with self.subTest(name=name):
                shutil.copytree(self.project, self.dir / name)
                done = self.run_in(self.dir, self.dir / name / 'scripts/rootfs')
                self.refused(done, 'there is a newline in the path')

    def test_python_programs_refuse_relative_cache_path(self):
        self.env['XDG_CACHE_HOME'] = 'cache'
        done = self.run_in(TOP, TOP / 'scripts/check', '--list')
        self.refused(done, 'has to be an absolute path: cache')

    # How it is called

    def test_programs_run_from_anywhere_and_through_links(self):
        want = self.made('rootfs', '--print')
        odd = self.dir / 'a b:c\'d,e"$%&;#=\\'
        shutil.copytree(self.project, odd)
        (self.dir / 'checkout').symlink_to(self.project)
        (self.dir / 'rootfs').symlink_to('checkout/scripts/rootfs')
        (self.dir / 'scripts').symlink_to(odd / 'scripts')
        for cwd, program in (('/', self.project / 'scripts/rootfs'),
                             (self.dir, 'checkout/scripts/rootfs'), (self.dir, './rootfs'),
                             ('/', self.dir / 'rootfs'), (self.dir, 'scripts/rootfs'),
                             (odd, 'scripts/rootfs'), (odd / 'scripts', './rootfs')):
            with self.subTest(cwd=cwd, program=program):
                done = self.run_in(cwd, program, '--print')
                self.assertEqual((done.stdout.strip(), done.stderr), (want, ''))
                done = self.run_in(cwd, program, '--help')
                self.assertIn('usage: scripts/rootfs', done.stdout)

    def test_every_program_has_help(self):
        programs = sorted(path for path in (TOP / 'scripts').iterdir() if path.is_file())
        self.assertGreater(len(programs), 14)
        for path in programs:
            for flag in '--help', '-h':
                with self.subTest(program=path.name, flag=flag):
                    done = self.run_in('/', path, flag)
                    self.assertEqual((done.returncode, done.stderr), (0, ''))
                    self.assertIn(f'usage: scripts/{path.name}', done.stdout)
                    self.assertNotIn('shellcheck', done.stdout)

    def test_unknown_argument_is_named(self):
        for name, *arguments in (
                ['rootfs', '--debgu'], ['rootfs', 'more'], ['sources', 'linux', '--debgu'],
                ['sources', 'linux', 'perftest'], ['update', 'windows'], ['join', 'windows'], ['join', 'linux', 'perftest'],
                ['refresh', 'windows'], ['refresh', 'linux', 'perftest'], ['kernel', '--debgu'],
                ['kernel', '--stock', 'more'], ['kernel', '--modules', 'more'],
                ['rdma-core', '--stock', '--debgu'], ['perftest', 'more'], ['libfabric', 'more'], ['ucx', 'more'],
                ['connectx', 'more'], ['gpu', '--debgu'], ['steps', '--debgu'], ['importer', '--debgu'],
                ['dmabuf-test', '--debug'],
                ['series', 'windows'], ['check-series', '--quick', 'windows'], ['enter', '--debgu']):
            with self.subTest(name=name, arguments=arguments):
                done = self.script(name, *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f'scripts/{name}: ', done.stderr)
                self.assertIn(f'unknown argument: {arguments[-1]}\n', done.stderr)

    def test_second_kernel_in_one_call_is_refused(self):
        done = self.script('kernel', '--debug', '--kcsan')
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn('scripts/kernel: --kcsan: ', done.stderr)

    def test_wrong_environment_is_named(self):
        for name, value in ('MRFD_CPUS', 'foo'), ('MRFD_CPUS', '0'), ('MRFD_ACCEL', 'foo'):
            with self.subTest(name=name, value=value):
                self.env[name] = value
                done = self.run_in(TOP, TOP / 'scripts/boot', '--help')
                del self.env[name]
                self.assertEqual((done.returncode, done.stdout), (2, ''))
                self.assertRegex(done.stderr, f"^boot: {name}: '{value}' is no.*\n$")
        self.env['MRFD_CPUS'] = ''
        self.assertEqual(self.run_in(TOP, TOP / 'scripts/boot', '--help').returncode, 0)

    def test_make_takes_0_for_no(self):
        done = self.run_in(TOP, 'make', '-n', 'check', 'FULL=0', 'DEBUG=0', 'KCSAN=0', 'STOCK=0')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn('--', done.stdout)

    def test_make_kernel_builds_the_kernel_that_is_asked_for(self):
        for words, options in (['DEBUG=1'], ['--debug']), (['KCSAN=1'], ['--kcsan']), ([], []):
            done = self.run_in(TOP, 'make', '-n', 'kernel', *words)
            self.assertEqual(done.stdout.split(), ['scripts/kernel', '--modules', *options])

    def test_unknown_device_is_refused_before_anything_is_built(self):
        for target in 'demo', 'shell', 'gdb':
            with self.subTest(target=target):
                done = self.run_in(TOP, 'make', target, 'DEVICE=bogus')
                self.assertEqual((done.returncode, done.stdout), (2, ''))
                self.assertRegex(done.stderr, r'^DEVICE=bogus: .*\n(make: .*\n)$')

    def test_missing_argument_is_named(self):
        for name, *arguments in (['sources'], ['join', '--stock'], ['refresh'], ['enter'],
                                 ['rdma-core', '--provider'],
                                 ['rdma-core', '--provider', 'windows'], ['series', '--signoff'], ['series', '--tree', '/nowhere'],
                                 ['series', '--tree', '/tmp'], ['series', '--tree', ''],
                                 ['series', '--output', ''],
                                 ['dmabuf-test'],
                                 ['refresh', '--from', '/nowhere', 'linux'],
                                 ['refresh', '--from', '/tmp', 'linux'],
                                 ['refresh', '--from', '', 'linux'],
                                 ['sources', '--compare', '/nowhere', 'linux']):
            with self.subTest(name=name, arguments=arguments):
                done = self.script(name, *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertRegex(done.stderr, 'name a |wants a ')


if __name__ == '__main__':
    unittest.main()
