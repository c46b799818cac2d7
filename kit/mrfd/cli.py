# SPDX-License-Identifier: GPL-2.0-or-later
"""How the programs of scripts/ end: with an exit status, and with one line instead of a
traceback if the cause is outside the program."""

import argparse
import os
import signal
import sys

from mrfd import processes
from mrfd.products import BootError


def parser(description):
    """An argument parser that shows the description as it is written."""
    return argparse.ArgumentParser(prog=f"scripts/{os.path.basename(sys.argv[0])}",
                                   description=description,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)


SIGNALS = signal.SIGINT, signal.SIGTERM


def _interrupt(*_):
    """Only the first signal interrupts, because the results are written after it."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def why(error):
    """An exception as a message for the user."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, BrokenPipeError):
        return "the reader of the output has closed it"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def run(main):
    """Call main() and exit with what it returns."""
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    try:
        status = main()
        sys.stdout.flush()
    except KeyboardInterrupt as error:
        processes.end_below(os.getpid())  # the signal may be for this process alone
        print(f"{os.path.basename(sys.argv[0])}: {why(error)}", file=sys.stderr)
        status = 128 + signal.SIGINT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the interpreter's own flush
        status = 128 + signal.SIGPIPE
    except (BootError, OSError) as error:
        print(f"{os.path.basename(sys.argv[0])}: {why(error)}", file=sys.stderr)
        status = 1
    sys.exit(status)
