# SPDX-License-Identifier: GPL-2.0-or-later
"""What the patches of a project are made for: the words of patches/PROJECT/base, which
"scripts/sources --help" explains and kit/base.sh reads for the shell."""

import os

from mrfd.paths import TOP


def base(project, top=TOP):
    """A dictionary of the words."""
    with open(os.path.join(top, "patches", project, "base"), encoding="utf-8") as file:
        return dict(line.rstrip("\n").split(": ", 1) for line in file
                    if line.strip() and not line.startswith("#"))
