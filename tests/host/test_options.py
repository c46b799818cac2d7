# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""scripts/kernel refuses a configuration that is not what kit/configs asks for, and accepts
that an option is absent which a fragment calls absent in some versions.
"""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from project import TOP, ProjectTest  # noqa: E402

KCONFIG = 'config NET\n\tbool "Net"\n\nmenuconfig DRM\n\tbool "DRM"\n\tdepends on NET\n'


class OptionsTest(ProjectTest):

    def setUp(self):
        super().setUp()
        text = (TOP / 'scripts/kernel').read_text()
        self.functions = ''.join(re.search(
            rf'(?m)^{name}\(\) {{(?: .*}}$|\n(?:.*\n)*?}}$)', text)[0] + '\n'
                                 for name in ('wanted', 'known', 'check_config'))
        self.write(self.dir, {'tree/Kconfig': KCONFIG, 'tree/drivers/gpu/Kconfig.more': 'config GEM\n'})

    def check(self, fragments, config):
        """What the check says of a configuration; None if it is as wanted."""
        self.write(self.dir, {'out/fragments': fragments, 'out/.config': config})
        code = 'set -euo pipefail; . kit/lib.sh; eval "$1"; out=$3; check_config "$2" "$3"'
        done = self.run_in(self.project, 'bash', '-c', code, 'kernel', self.functions,
                           self.dir / 'tree', self.dir / 'out')
        return done.stderr if done.returncode else None

    def test_configuration_as_wanted_is_accepted(self):
        self.assertIsNone(self.check('CONFIG_NET=y\n# CONFIG_DRM is not set\n', 'CONFIG_NET=y\n'))

    def test_missing_or_other_value_is_refused(self):
        for config, said in (('', 'not there'), ('CONFIG_NET=m\n', 'CONFIG_NET=m')):
            self.assertIn(f'CONFIG_NET=y is missing; it is: {said}',
                          self.check('CONFIG_NET=y\n', config))
        self.assertIn('CONFIG_NET is set, it should not be',
                      self.check('# CONFIG_NET is not set\n', 'CONFIG_NET=y\n'))

    def test_option_may_be_absent_if_the_fragment_says_so(self):
        said = self.check('CONFIG_OLD=y\n', '')
        self.assertIn('CONFIG_OLD=y is missing', said)
        mark = '# absent in some versions: CONFIG_OLD\nCONFIG_OLD=y\n'
        self.assertIsNone(self.check(mark, ''))
        self.assertIn('CONFIG_OLDER=y is missing', self.check(mark + 'CONFIG_OLDER=y\n', ''))

    def test_option_that_the_kernel_has_may_not_be_absent(self):
        for option in 'NET', 'DRM', 'GEM':
            self.assertIn(f'CONFIG_{option}=y is missing', self.check(
                f'# absent in some versions: CONFIG_{option}\nCONFIG_{option}=y\n', ''))

    def test_kconfig_ignores_the_mark(self):
        """To it the line is a comment, for it begins with no option."""
        for path in (TOP / 'kit/configs').glob('*.config'):
            for line in path.read_text().splitlines():
                if 'absent' in line and 'CONFIG_' in line:
                    self.assertRegex(line, '^# absent in some versions: CONFIG_[A-Z0-9_]+$')


if __name__ == '__main__':
    unittest.main()
