# SPDX-License-Identifier: GPL-2.0-or-later
"""How the programs of scripts/ end: with an exit status, and one line in place of a
traceback when something around them is wrong."""

import argparse
import os
import signal
import sys

from mrfd.machine import BootError


def parser(description):
    """An argument parser that shows the description as it is written."""
    return argparse.ArgumentParser(prog=f"scripts/{os.path.basename(sys.argv[0])}",
                                   description=description,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)


def _interrupt(*_):
    raise KeyboardInterrupt


def why(error):
    """What an exception means, for people."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, BrokenPipeError):
        return "the reader of its output has gone"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def run(main):
    """Call main() and exit with what it returns."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        status = main()
        sys.stdout.flush()
    except KeyboardInterrupt as error:
        print(f"{os.path.basename(sys.argv[0])}: {why(error)}", file=sys.stderr)
        status = 128 + signal.SIGINT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the interpreter's own flush
        status = 128 + signal.SIGPIPE
    except (BootError, OSError) as error:
        print(f"{os.path.basename(sys.argv[0])}: {why(error)}", file=sys.stderr)
        status = 1
    sys.exit(status)
