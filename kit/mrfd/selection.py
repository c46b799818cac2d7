# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run consists of: all of a depth, or what patterns select (make check T=PATTERN).

A pattern is, in this order,

  the printed name of a case, with or without its device: this case alone
  a part of programs' names (rxe/, access/data, host/boot): all their cases
  a part of cases' names: these cases

Names come from the sources, so a pattern that matches nothing is reported before
anything is built.  What a pattern selects runs at the full depth.
"""

import difflib
import re

from mrfd import programs


class NoMatch(Exception):
    """The pattern matches nothing; the text gives similar names."""


def _names(program):
    """A program's printed name, and the one without its device."""
    return dict.fromkeys((program.title, program.name))


def _of_program(program, case):
    """The program with this case only; None if it has no such case."""
    cases = program.cases()
    if case in ("program", "kernel log"):  # printed if the program as a whole failed
        return program
    fixture = re.fullmatch(r"(.*)\.(?:setUp|tearDown)Class", case)
    wanted = [x for x in cases if x == case or fixture and x.startswith(f"{fixture[1]}.")]
    return program.select(wanted) if wanted else None


def _exact(pattern, found):
    """The programs that have the case with this printed name."""
    guest = re.match(r"(?:guest of|boot for) (\S+?)(?: to (\S+?))?: ", pattern)
    if guest:  # a guest that ran several programs
        titles = [p.title for p in found]
        ends = [titles.index(t) for t in (guest[1], guest[2] or guest[1]) if t in titles]
        return found[ends[0]:ends[1] + 1] if len(ends) == 2 else []
    name, _, case = pattern.partition(": ")
    some = [_of_program(p, case) for p in found if case and name in _names(p)]
    return [p for p in some if p]


def _by_case(pattern, found):
    for program in found:
        wanted = [case for case in program.cases()
                  if any(pattern in f"{name}: {case}" for name in _names(program))]
        if wanted:
            yield program.select(wanted)


def match(pattern, found):
    """What the pattern selects of a list of programs."""
    return (_exact(pattern, found)
            or [p for p in found if pattern in p.title]
            or list(_by_case(pattern, found)))


def nearest(pattern, found):
    """The printed names that are most similar to a pattern that matches nothing."""
    name, _, case = pattern.partition(": ")
    near = [p for p in found if name in _names(p)]
    if near and case:  # the program is right
        names = {c: f"{p.title}: {c}" for p in near for c in p.cases()}
        return [names[c] for c in difflib.get_close_matches(case, names, 5, 0.3)]
    names = {}  # {a word that may be meant: the printed names that have it}
    for program in found:
        for n in *_names(program), program.name.split("/")[-1]:
            names.setdefault(n, {})[program.title] = None
        for c in program.cases():
            names.setdefault(c.split(".")[-1], {})[f"{program.title}: {c}"] = None
    close = difflib.get_close_matches(name, names, 5, 0.6)
    return list(dict.fromkeys(n for word in close for n in names[word]))[:8]


def _candidates(pattern, kernel):
    """The programs that the pattern may match.  rdma-core's suite is among them only if
    the pattern may match it, because to list it may fetch its source."""
    found = list(programs.ours(kernel))
    folders = {p.name.split("/")[0] for p in found}
    start = re.match(r"(?:(?:%s)/)?(\w+)[/:]" % "|".join(d.name for d in programs.DEVICES), pattern)
    if start and start[1] in folders:
        return found
    return [*found, *programs.theirs(kernel)]


def select(pattern, kernel):
    """The programs that a pattern selects on this kernel; NoMatch if there is none."""
    found = _candidates(pattern, kernel)
    selected = match(pattern, found)
    here = [p for p in selected if p.head.on(kernel, full=True)]
    if here:
        return here
    if selected:
        others = sorted({k for p in selected for k in p.head.kernels})
        raise NoMatch(f"{pattern!r} does not run on the {kernel} kernel, but on: "
                      + ", ".join(others))
    near = nearest(pattern, found)
    text = f"no program and no case has {pattern!r} in its name"
    if near:
        text += "; similar names:\n  " + "\n  ".join(near)
    raise NoMatch(text + "\n(scripts/check --list names the programs)")


def select_any(patterns, kernel):
    """What one or more of the patterns select, each program once."""
    chosen = {}
    for pattern in patterns:
        for program in select(pattern, kernel):
            before = chosen.get(program.title)
            if before and before.wanted and program.wanted:
                program = program.select(dict.fromkeys((*before.wanted, *program.wanted)))
            elif before and not before.wanted:
                continue  # all its cases are chosen already
            chosen[program.title] = program
    return list(chosen.values())


def whole(kernel, is_full):
    """All programs of a run, each at the depth that is_full(program) says."""
    found = select("", kernel)
    return [p if is_full(p) else p.quick() for p in found
            if p.head.on(kernel, is_full(p))]
