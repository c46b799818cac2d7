# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether every user in a guest can read the project: a checkout that was made under a umask
like 077 is for its owner only, and programs of others silently get Debian's libraries."""

import functools
import os
import stat
import sys

from mrfd.paths import TOP

# What a program in a guest goes through to our libraries and the kit's programs.
WAYS = ("", "kit", "kit/guest", "kit/guest/load", "build", "build/rdma-core-obj",
        "build/rdma-core-obj/lib", "build/rdma-core-obj/lib/libibverbs.so.1")


def closed(top):
    """The first of these files and directories that others cannot read, or None."""
    for way in WAYS:
        path = os.path.join(top, way).rstrip("/")
        try:
            mode = os.stat(path).st_mode
        except OSError:  # not made yet
            continue
        needed = 0o005 if stat.S_ISDIR(mode) else 0o004
        if mode & needed != needed:
            return path
    return None


@functools.cache  # once in a program, whatever the number of its guests
def warn_of_closed():
    path = closed(TOP)
    if path:
        print(f"mrfd: only its owner can read {path}: processes of other users in a guest "
              "will not find what is in /mrfd, and run with Debian's libraries\n"
              f"  run: chmod -R go+rX '{TOP}'", file=sys.stderr)
