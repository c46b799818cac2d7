# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""Tests of long steps: what is shown of how far one is, on a terminal and elsewhere, the
estimate of what is left, and how a step ends that fails or is interrupted."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from project import TOP, ProjectTest  # noqa: E402

sys.path.insert(0, str(TOP / 'kit'))
from mrfd import machine  # noqa: E402
from mrfd import products  # noqa: E402


def load():
    """kit/progress as a module."""
    loader = importlib.machinery.SourceFileLoader('progress', str(TOP / 'kit/progress'))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('progress', loader))
    with unittest.mock.patch.object(sys, 'dont_write_bytecode', True):
        loader.exec_module(module)
    return module


progress = load()

KBUILD = b'''objects there before: 0
make: Entering directory '/mrfd/build/linux'
  GEN     Makefile
  HOSTCC  scripts/kallsyms
  CC      init/main.o
  AS      arch/x86/entry/entry_64.o
  AR      init/built-in.a
  CC [M]  drivers/a.o
  LD      vmlinux
drivers/b.c: warning: CC is a word
'''


class Reading(unittest.TestCase):
    def count(self, *pieces, in_all=None):
        count = progress.Count(in_all)
        for piece in pieces:
            count.read(piece)
        return count.done, count.total, count.whole

    def test_objects_of_make_are_counted(self):
        self.assertEqual(self.count(KBUILD), (4, None, True))
        self.assertEqual(self.count(KBUILD, in_all=10), (4, 10, True))

    def test_pieces_of_a_log_may_end_anywhere(self):
        for at in range(len(KBUILD)):
            self.assertEqual(self.count(KBUILD[:at], KBUILD[at:], in_all=10), (4, 10, True), at)

    def test_ninja_names_done_and_total(self):
        log = b'ninja: Entering directory\n[1/20] Building C object a.o\n[2/20] Linking [7/9] x\n'
        self.assertEqual(self.count(log), (2, 20, True))

    def test_objects_of_automake_are_counted(self):
        log = (b'objects there before: 0\nautoreconf: running: libtoolize\n'
               b'  CC       src/common.lo\n  CXX      gtest-main.o\n  CCLD     libfabric.la\n'
               b'  CXXLD    gtest\n  GEN      ucx.pc\n')
        self.assertEqual(self.count(log, in_all=4), (2, 4, True))

    def test_objects_that_were_there_count(self):
        self.assertEqual(self.count(b'objects there before: 5\n  CC      a.o\n', in_all=10),
                         (6, 10, False))

    def test_total_of_a_partial_build_is_unknown(self):
        self.assertEqual(self.count(b'objects there before: 10\n  CC      a.o\n', in_all=10),
                         (1, None, False))
        self.assertEqual(self.count(b'  CC      a.o\n', in_all=10), (1, None, False))

    def test_more_objects_than_expected_are_the_total(self):
        self.assertEqual(self.count(KBUILD, in_all=3), (3, 3, True))

    def test_other_logs_contain_no_objects(self):
        self.assertEqual(self.count(b'cc -c a.c\n-- Looking for x\nI: downloading [1/2]\n'),
                         (0, None, False))


class InDirectory(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        self.log = self.dir / 'a.log'

    def record(self, name='a.log'):
        return progress.Record(str(self.dir / 'steps'), name)


class Estimate(InDirectory):
    def test_estimate_without_a_record_uses_the_part_made(self):
        self.assertEqual(self.record().left(30, 0.25), 90)

    def test_early_step_has_no_estimate(self):
        self.assertIsNone(self.record().left(30, 0))
        self.assertIsNone(self.record().left(1, 0.5))

    def test_estimate_moves_from_last_build_to_this_one(self):
        self.record().save(100, 200, [(at * 2, at) for at in range(101)])
        record = self.record()
        self.assertEqual((record.objects, record.seconds), (100, 200))
        self.assertEqual(record.left(0, 0), 200)
        self.assertEqual(record.left(10, 0.10), 135)  # half by its pace, of 100 s; half by 200 s
        self.assertEqual(record.left(25, 0.50), 25)

    def test_estimate_includes_a_long_end(self):
        # The objects take 60 s, and then it links for 40 s.
        self.record().save(100, 100, [(at * 0.6, at) for at in range(101)])
        self.assertAlmostEqual(self.record().left(60, 1), 40)
        self.assertAlmostEqual(self.record().left(60, 0.5), 140)

    def test_partial_build_is_not_recorded(self):
        self.record().save(100, 200, [(200, 100)])
        self.record().save(4, 2, [(2, 4)])
        self.assertEqual(self.record().objects, 100)

    def test_unreadable_record_is_ignored(self):
        path = self.dir / 'steps/a.json'
        path.parent.mkdir()
        for text in '', '[]', '{"objects": 9}', '{"objects": 9, "seconds": 1, "curve": [1, 2]}':
            path.write_text(text)
            self.assertIsNone(self.record().objects, text)

    def test_first_kernel_build_knows_its_objects(self):
        for name in 'kernel.log', 'kernel-debug.log', 'kernel-stock.log':
            self.assertGreater(self.record(name).objects, 1000)

    def test_only_a_build_from_scratch_is_recorded(self):
        for text, kept in ('objects there before: 3\n  CC      a.o\n', False), (KBUILD.decode(), True):
            self.log.write_text(text)
            progress.Step(str(self.log), 'title', str(self.dir / 'steps')).end()
            self.assertEqual((self.dir / 'steps/a.json').exists(), kept)
        self.assertEqual(json.loads((self.dir / 'steps/a.json').read_text())['objects'], 4)


class Lines(InDirectory):
    """What is written, by a clock that jumps a second each time it is waited."""

    def shown(self, terminal, seconds, log=None, columns=80, last=b'made\n', beside=None):
        """What is written while make makes an object a second, of 100."""
        now, written = [0], []

        def wait(*_):
            now[0] += 1
            with open(self.log, 'ab') as file:
                file.write(b'  CC      a.o\n' if log is None else log)
            return ([0] if now[0] >= seconds else [], [], [])
        self.log.write_text('objects there before: 0\n')
        answers = [last, b''] if last else [b'']
        with (unittest.mock.patch.object(progress.time, 'monotonic', lambda: now[0]),
              unittest.mock.patch.object(progress.select, 'select', wait),
              unittest.mock.patch.multiple(progress.os, isatty=lambda _: terminal,
                                           read=lambda *_: answers.pop(0), get_terminal_size=lambda _:
                                           os.terminal_size((columns, 24))),
              unittest.mock.patch.object(progress, 'write', written.append)):
            step = progress.Step(str(self.log), 'building it', str(self.dir / 'steps'))
            step.count.in_all = 100 if log is None else None
            self.made = progress.show(step, beside or progress.Beside(None))
        return written

    def test_terminal_shows_one_line_that_is_updated(self):
        written = self.shown(True, 31)
        self.assertEqual(written[9], '\rbuilding it: 10 of 100 objects, 0:10, about 1:30 left\033[K')
        self.assertEqual(written[29], '\rbuilding it: 30 of 100 objects, 0:30, about 1:10 left\033[K')
        self.assertEqual(written[-1], '\r\033[K')
        self.assertNotIn('\n', ''.join(written))

    def test_line_fits_into_the_terminal(self):
        self.assertEqual(self.shown(True, 11, columns=20)[9], '\rbuilding it: 10 of \033[K')

    def test_a_log_has_a_line_a_minute(self):
        written = self.shown(False, 130)
        self.assertEqual(written, ['building it: 60 of 100 objects, 1:00, about 0:40 left\n',
                                   'building it: 100 of 100 objects, 2:00, about 0:00 left\n'])
        self.assertEqual(self.shown(False, 59), [])

    def test_step_without_objects_shows_the_time(self):
        self.assertEqual(self.shown(False, 61, log=b'text\n'), ['building it: 1:00\n'])

    def test_step_of_mmdebstrap_shows_what_it_does(self):
        log = b'I: extracting archives...\nI: using /tmp/x as tempdir\nI: creating'
        self.assertEqual(self.shown(False, 61, log=log + b' tarball...\n'),
                         ['building it: creating tarball, 1:00\n'])
        self.log.write_bytes(log)
        step = progress.Step(str(self.log), 'userland', str(self.dir / 'steps'))
        step.look()
        self.assertEqual(step.text(short=True), 'userland: extracting archives, 0:00')

    def test_result_is_that_of_the_step(self):
        self.shown(True, 3)
        self.assertTrue(self.made)
        self.shown(True, 3, last=b'')
        self.assertFalse(self.made)

    def test_first_of_two_steps_writes_for_both(self):
        one, two = progress.Beside(str(self.dir / 'both')), progress.Beside(str(self.dir / 'both'))
        os.mkdir(self.dir / 'both')
        one.name, two.name = f'1-{os.getpid()}', f'2-{os.getppid()}'
        self.log.write_text('[3/12] x\n')
        step = progress.Step(str(self.log), 'one', str(self.dir / 'steps'))
        step.look()
        step.begin -= 10
        self.assertEqual(one.line(step), 'one: 3 of 12 objects, 0:10, about 0:30 left')
        self.assertIsNone(two.line(progress.Step('/no/log', 'two', str(self.dir / 'steps'))))
        self.assertEqual(one.line(step), 'one: 3/12, about 0:30 left | two: 0:00')
        one.end()
        self.assertEqual(two.line(step), 'one: 3 of 12 objects, 0:10, about 0:30 left')
        (self.dir / 'both/0-999999999').write_text('one that was killed')
        self.assertIn('one: 3', two.line(step))


class Steps(ProjectTest):
    """step() in a program of the kit."""

    def program(self, command):
        """A program with one product, made by a step."""
        self.stub('scripts/work', '. "${0%/*}/../kit/lib.sh"\n'
                  f'work() {{\n{command}\n}}\n'
                  'key() { echo k; }\n'
                  'recipe() { step work.log "working" work; touch "$build/it"; }\n'
                  'produce "$build/it" key recipe\necho it\n')
        self.product, self.stamp = self.project / 'build/it', self.project / 'build/it.stamp'

    OBJECTS = 'for n in 1 2 3 4; do echo "[$n/4] a.o"; sleep 0.7; done'

    def test_step_in_a_pipe_prints_one_line(self):
        self.program(self.OBJECTS)
        done = self.script('work')
        self.assertEqual((done.returncode, done.stdout), (0, 'it\n'))
        self.assertRegex(done.stderr, r'\Aworking \.\.\. done in \d s\n\Z')
        self.assertTrue(self.stamp.exists())
        self.assertEqual(json.loads((self.cache / 'steps/work.json').read_text())['objects'], 4)

    def on_terminal(self):
        """Start the program with a terminal for its messages."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([self.project / 'scripts/work'], env=self.env, stderr=theirs,
                                   stdout=subprocess.PIPE, start_new_session=True)
        os.close(theirs)
        self.addCleanup(process.stdout.close)
        self.addCleanup(os.close, ours)
        return process, ours

    def read(self, terminal, until=None):
        text = ''
        while until is None or not re.search(until, text):
            try:
                text += os.read(terminal, 1000).decode()
            except OSError:
                break
        return text

    def test_step_on_a_terminal_shows_its_progress(self):
        self.program(self.OBJECTS)
        process, terminal = self.on_terminal()
        text = self.read(terminal)
        self.assertEqual(process.wait(), 0)
        self.assertRegex(text, r'\rworking: [1-3] of 4 objects, 0:0[0-3]')
        self.assertRegex(text, r'\r\x1b\[Kworking \.\.\. done in \d s\r\n\Z')
        self.assertEqual(text.count('\n'), 1)

    def test_failed_step_prints_the_end_of_its_log(self):
        self.program('seq 100; exit 3')
        done = self.script('work')
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertRegex(done.stderr, r'\Aworking \.\.\. FAILED after \d s; the end of .*work\.log:\n61\n')
        self.assertTrue(done.stderr.endswith('\n100\n'))
        self.assertFalse(self.stamp.exists())
        self.assertFalse((self.cache / 'steps/work.json').exists())

    def test_interrupt_ends_all_processes(self):
        for number in signal.SIGINT, signal.SIGTERM:
            with self.subTest(number=number):
                self.program('echo $BASHPID >"$build/pid"; sleep 60 & echo $! >>"$build/pid"; wait')
                process, terminal = self.on_terminal()
                self.read(terminal, 'working')
                pids = [int(pid) for pid in (self.project / 'build/pid').read_text().split()]
                self.assertEqual(len(pids), 2)
                begin = time.monotonic()
                os.killpg(process.pid, number)
                self.assertEqual(process.wait(), 130)
                self.assertLess(time.monotonic() - begin, machine.patience(20))
                self.read(terminal)  # until nobody has the terminal open, kit/progress too
                end = time.monotonic() + machine.patience(10)
                while any(os.path.exists(f'/proc/{pid}') for pid in pids):
                    self.assertLess(time.monotonic(), end, 'processes are left')
                    time.sleep(0.1)
                self.assertFalse(self.product.exists() or self.stamp.exists())

    def test_step_works_if_kit_progress_fails(self):
        self.stub('kit/progress', 'import sys\nsys.exit(1)\n')
        self.program('echo made')
        done = self.script('work')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r'\Aworking \.\.\. done in \d s\n\Z')


class SideBySide(unittest.TestCase):
    """products.tools(): programs of the kit that run at the same time."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.scripts = pathlib.Path(directory.name)
        self.enterContext(unittest.mock.patch.object(products, 'SCRIPTS', directory.name))
        self.script('waits', f'echo $$ >{self.scripts}/pid; sleep 1000')
        self.script('fails', f'until [ -s {self.scripts}/pid ]; do sleep 0.1; done; exit 3')
        self.script('fails-at-once', 'exit 3')
        self.script('says', 'echo "$1 in $MRFD_STEPS"')

    def script(self, name, text):
        (self.scripts / name).write_text(f'#!/bin/sh\n{text}\n')
        (self.scripts / name).chmod(0o755)

    def test_programs_give_their_lines_and_share_a_directory(self):
        one, two = (line.split() for line in products.tools(['says', 'a'], ['says', 'b']))
        self.assertEqual((one[0], two[0], one[2]), ('a', 'b', two[2]))
        self.assertFalse(os.path.exists(one[2]))

    def test_failed_program_ends_the_others_and_is_named(self):
        with self.assertRaisesRegex(products.BootError, '^scripts/fails x failed$'):
            products.tools(['waits'], ['fails', 'x'])
        pid = int((self.scripts / 'pid').read_text())
        self.assertRaises(ProcessLookupError, os.kill, pid, 0)

    def test_failure_of_any_program_is_raised(self):
        for commands in (['says'], ['fails-at-once']), (['fails-at-once'], ['says']):
            with self.assertRaises(products.BootError):
                products.tools(*commands)


if __name__ == '__main__':
    unittest.main()
