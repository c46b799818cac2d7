# SPDX-License-Identifier: GPL-2.0-or-later
"""What a ConnectX model counted: the bytes that memory keys read and wrote by each of its PCI
functions, of which the second one is for Data Direct.  The model writes it at its end into
its log (devices/connectx/device/main.c)."""

import os
import re
from dataclasses import dataclass

LINE = re.compile(r"by keys, (first|second) function: \d+ reads \((\d+) bytes\), "
                  r"\d+ writes \((\d+) bytes\), (\d+) atomics")


@dataclass(frozen=True)
class Traffic:
    read: int = 0       # bytes
    written: int = 0    # bytes
    atomics: int = 0


def by_function(guest, model="connectx"):
    """{"first" or "second": Traffic} of a guest that has ended; a model that has no second
    function says nothing of it."""
    with open(os.path.join(guest.log_dir, f"{model}.log"), encoding="utf-8") as log:
        return {which: Traffic(*map(int, numbers)) for which, *numbers in LINE.findall(log.read())}
