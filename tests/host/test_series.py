# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""What scripts/check-series reads: licences, and what checkpatch says."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
KIT = pathlib.Path(__file__).resolve().parents[2] / 'kit'
sys.path.insert(0, str(KIT))
from mrfd.checkpatch import judge  # noqa: E402
from mrfd.licences import licence_of  # noqa: E402

CLEAN = '\n0001-a.patch has no obvious style problems and is ready for submission.\n'
LINE = '''WARNING:LONG_LINE: line length of 104 exceeds 100 columns
#12: FILE: a.c:3:
+int x;

'''
ENOSYS = '''WARNING:ENOSYS: ENOSYS means 'invalid syscall nr' and nothing else
#40: FILE: a.c:9:
+	if (ret == ENOSYS)

'''


class CheckpatchTest(unittest.TestCase):

    def test_clean_patch_has_no_findings(self):
        self.assertEqual(judge(CLEAN), ([], []))

    def test_finding_is_told_with_its_lines(self):
        bad, excuses = judge(LINE + 'NOTE: For some of the reported defects\n')
        self.assertEqual((bad, excuses), ([LINE.strip()], []))

    def test_listed_finding_is_allowed_with_reason(self):
        bad, excuses = judge(ENOSYS + LINE + ENOSYS)
        self.assertEqual(bad, [LINE.strip()])
        self.assertEqual(len(excuses), 2)
        self.assertIn('user space', excuses[0])

    def test_allowed_type_with_other_text_is_a_finding(self):
        bad, _ = judge(ENOSYS.replace('ret == ENOSYS', 'return -ENOSYS'))
        self.assertEqual(len(bad), 1)

    def test_checkpatch_that_did_not_run_is_a_finding(self):
        for text in '', 'Can\'t locate Foo.pm in @INC\n':
            bad, _ = judge(text)
            self.assertIn('did not check', bad[0])

    def test_findings_are_written_beside_each_output(self):
        with tempfile.TemporaryDirectory() as where:
            outputs = [pathlib.Path(where) / name for name in ('1.out', '2.out')]
            outputs[0].write_text(CLEAN)
            outputs[1].write_text(LINE + ENOSYS)
            done = subprocess.run([sys.executable, KIT / 'mrfd/checkpatch.py', *outputs],
                                  stdout=subprocess.PIPE, text=True, check=True)
            self.assertEqual((pathlib.Path(where) / '1.out.findings').read_text(), '')
            self.assertEqual((pathlib.Path(where) / '2.out.findings').read_text(), LINE.rstrip() + '\n')
            self.assertRegex(done.stdout, r'^allowed 1 times: ENOSYS: .*\n$')


class LicenceTest(unittest.TestCase):

    def test_every_form_of_spdx_line_is_read(self):
        tag = 'SPDX-License-Identifier:'
        for line in (f'// {tag} GPL-2.0', f'/* {tag} GPL-2.0 */', f'<!-- {tag} GPL-2.0 -->',
                     f'# {tag} GPL-2.0', f'{tag} (GPL-2.0)', f".. {tag} GPL-2.0", f"'{tag} GPL-2.0'"):
            self.assertEqual(licence_of(f'#!/bin/sh\n{line}\n'), 'GPL-2.0', line)
        self.assertEqual(licence_of(f'/* {tag} (GPL-2.0 OR Linux-OpenIB) */'),
                         'GPL-2.0 OR Linux-OpenIB')

    def test_uapi_header_may_have_syscall_note(self):
        tag = 'SPDX-License-Identifier:'
        for name in 'GPL-2.0 OR Linux-OpenIB', '(GPL-2.0 OR Linux-OpenIB)':
            name = name.replace('GPL-2.0', '(GPL-2.0 WITH Linux-syscall-note)')
            self.assertEqual(licence_of(f'/* {tag} {name} */'), 'GPL-2.0 OR Linux-OpenIB')

    def test_spdx_line_counts_in_first_15_lines(self):
        text = 'x\n' * 14 + '# SPDX-License-Identifier: GPL-2.0\n'
        self.assertEqual(licence_of(text), 'GPL-2.0')
        self.assertIsNone(licence_of('x\n' + text))

    def test_spdx_line_of_patch_is_in_its_head(self):
        text = 'Subject: a\n\nSPDX-License-Identifier: GPL-2.0\n'
        self.assertIsNone(licence_of(text, patch=True))
        self.assertEqual(licence_of(text.replace('\n\n', '\n'), patch=True), 'GPL-2.0')

    def test_files_without_licence_are_named(self):
        with tempfile.TemporaryDirectory() as where:
            for name, data in (('good', b'# SPDX-License-Identifier: GPL-2.0\n'), ('none', b'int x;\n'),
                               ('other', b'// SPDX-License-Identifier: MIT\n'), ('empty', b''),
                               ('picture', b'\x89PNG\0')):
                (pathlib.Path(where) / name).write_bytes(data)
            done = subprocess.run([sys.executable, KIT / 'mrfd/licences.py', 'GPL-2.0', where],
                                  input='\n'.join(sorted(os.listdir(where))),
                                  stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(done.stdout.splitlines(), [
            'none: its first lines name no licence and not GPL-2.0',
            'other: its first lines name MIT and not GPL-2.0'])


if __name__ == '__main__':
    unittest.main()
