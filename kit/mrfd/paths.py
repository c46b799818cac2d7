# SPDX-License-Identifier: GPL-2.0-or-later
"""The paths and the umask of kit/paths.sh, for Python."""

import os
import subprocess
import sys

os.umask(0o022)
_SAID = subprocess.run(
    ["bash", "-c", '. "$0" && printf "%s\\0" "$top" "$build" "$cache"',
     os.path.join(os.path.dirname(os.path.realpath(__file__)), os.pardir, "paths.sh")],
    stdout=subprocess.PIPE, check=False)
if _SAID.returncode:  # paths.sh has printed why
    sys.exit(_SAID.returncode)
TOP, BUILD, CACHE = (os.fsdecode(path) for path in _SAID.stdout.split(b"\0")[:3])
SCRIPTS = os.path.join(TOP, "scripts")
INSIDE = "/mrfd"  # the project inside the userland and in a guest


def inside(path):
    """The name that a path of the project or of the cache has inside."""
    for host, name in (TOP, INSIDE), (CACHE, "/cache"):
        if path == host or path.startswith(host + "/"):
            return name + path[len(host):]
    raise ValueError(f"{path} is neither in the project nor in the cache")
