# SPDX-License-Identifier: GPL-2.0-or-later
"""One page to look at: build/report/index.html, made of what the last runs of
make scoreboard, make bench, make check and make demo left.

It is static, needs no script, and follows the reader's choice of light or dark.
All that it shows is in its directory, so the directory can be copied anywhere.  For
a part that has no results yet it names the command that makes them."""

import glob
import html
import os
import platform
import re
import shutil
import subprocess
import time

from mrfd import results
from mrfd.devices import DEVICES
from mrfd.paths import BUILD, TOP
from mrfd.results import count

OUT = os.path.join(BUILD, "report")
KINDS = {"ok": "ok", "skip": "skipped", "not ok": "failed"}
CLASSES = {"ok": "ok", "skip": "skip", "not ok": "fail"}
PLOTS = {"bandwidth": "RDMA writes of each size, many under way: more is better.",
         "latency": "One RDMA write until its completion: less is better.",
         "register": "What a registration costs: less is better.",
         "rereg": "A re-registration beside dereg and reg: below 1 is cheaper.",
         "model-register": "What a registration costs on the ConnectX model: less is better.",
         "model-rereg": "A re-registration on the ConnectX model beside dereg and reg: below 1 "
                        "is cheaper."}

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1e21; --dim: #5b6068;
  --line: #d9dce1; --box: #f5f6f8; --ok: #1a7f37; --skip: #9a6700; --fail: #c62828;
  --link: #0b66c3 }
@media (prefers-color-scheme: dark) { :root { --paper: #16181c; --ink: #e6e6e6; --dim: #9aa1ab;
  --line: #3a3d43; --box: #1f2227; --ok: #57c26f; --skip: #d9a927; --fail: #ff7b72;
  --link: #6cb6ff } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif }
h1 { margin: .5rem 0 0; font-size: 1.6rem } h2 { margin: 2.5rem 0 .5rem; font-size: 1.25rem }
p { margin: .4rem 0 } .dim, figcaption { color: var(--dim); font-size: .9rem }
code { font-size: .9em; overflow-wrap: anywhere }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: .5rem 0 }
a { color: var(--link) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 1rem 0 }
dt { color: var(--dim) } dd { margin: 0; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .5rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top }
td.n, th.n { text-align: right; white-space: nowrap; width: 4.5rem }
td > code { overflow-wrap: normal }
.ok { color: var(--ok) } .skip { color: var(--skip) } .fail { color: var(--fail) }
.bar { display: flex; height: .7rem; min-width: 5rem; margin-top: .4rem; border-radius: 2px;
  overflow: hidden; background: var(--line) }
.bar i { background: currentColor }
summary { cursor: pointer } details ul { margin: .3rem 0; padding-left: 1.2rem }
details li { overflow-wrap: anywhere; font-size: .9rem }
pre { margin: .5rem 0; padding: .75rem; overflow-x: auto; background: var(--box);
  font-size: .8rem; line-height: 1.4 }
figure { margin: 0 } img { display: block; max-width: 100%; height: auto;
  border: 1px solid var(--line); border-radius: 4px }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr));
  gap: 1.25rem; margin: 1rem 0 }
@media (max-width: 40rem) { .wide { display: none } th, td { padding: .3rem .2rem }
  td.n, th.n { width: 2rem } }
"""


def text(words):
    return html.escape(str(words))


def missing(what, command):
    return f'<p class="dim">No {what} yet: <code>{command}</code> makes it.</p>'


def bar(numbers):
    """A coloured bar that shows the numbers beside it."""
    parts = "".join(f'<i class="{kind}" style="flex:{n}"></i>'
                    for kind, n in zip(CLASSES.values(), numbers) if n)
    return f'<div class="bar" aria-hidden="true">{parts}</div>'


def reason(case):
    """Why a case did not pass; without a reason, the first and last line that it printed."""
    said = [line.strip("# ") for line in case.log if line.strip("# ")]
    return " / ".join(filter(None, [case.reason, *(said[:1] + said[-1:])[:2 * (not case.reason)]]))


def reasons(cases):
    """What did not pass, by name, with why."""
    lines = [f'<li><span class="{CLASSES[case.result]}">{KINDS[case.result]}</span> '
             f"<code>{text(case.name)}</code>: {text(reason(case) or 'no reason given')}"
             for case in cases if case.result != "ok"]
    if not lines:
        return ""
    word = " and ".join(f"{n} {KINDS[kind]}" for kind, n in zip(KINDS, count(cases))
                        if n and kind != "ok")
    return f"<details><summary>{word}: why</summary><ul>{''.join(lines)}</ul></details>"


def by_program(cases):
    programs = {}
    for case in cases:
        programs.setdefault(case.title.removesuffix(f": {case.name}"), []).append(case)
    return programs


def numbers_cells(numbers):
    """Three cells; a zero has no colour, and without any case each is a dash."""
    return "".join(f'<td class="n {kind if n else "dim"}">{n if any(numbers) else "–"}</td>'
                   for kind, n in zip(CLASSES.values(), numbers))


def table(what, sides):
    """A line for each program, with the counts of each side ({title: cases}); the
    last side's have a bar and the reasons."""
    programs = {title: by_program(cases) for title, cases in sides.items()}

    def row(head, some):
        cells = "".join(numbers_cells(count(cases)) for cases in some)
        return f'<tr>{head}{cells}<td class="wide">{bar(count(some[-1]))}'
    rows = []
    for name in dict.fromkeys(name for cases in programs.values() for name in cases):
        some = [cases.get(name, []) for cases in programs.values()]
        shown = re.sub("([/_])", r"\1<wbr>", text(name))
        rows.append(row(f"<td><code>{shown}</code>{reasons(some[-1])}", some))
    heads = "".join(f'<th class="n" colspan="3">{title}' for title in sides)
    return (f'<table><thead><tr><th rowspan="2">{what}{heads}<th class="wide" rowspan="2"><tr>'
            + '<th class="n">ok<th class="n">skip<th class="n">fail' * len(sides)
            + "</thead><tbody>" + "\n".join(rows) + row("<th>all", list(sides.values()))
            + "</tbody></table>")


def scoreboard():
    """The sides of scripts/scoreboard, those on one device in one table."""
    def sides(*titles):
        paths = {side: os.path.join(BUILD, f"scoreboard/{side}.jsonl") for side in titles}
        return {side: results.load(path).all() for side, path in paths.items()
                if os.path.exists(path)}
    soft, model = sides("stock", "library", "ours"), sides("connectx-stock", "connectx")
    if len(soft) + len(model) < 5:
        return missing("scoreboard", "make scoreboard")
    return ("<p>rdma-core's own suite. A skip is a feature that the device or the stack lacks.</p>"
            "<h3>On Soft-RoCE</h3><p>The stock kernel and library, our library on the stock "
            f"kernel, and ours.</p>{table('module', soft)}"
            "<h3>On the ConnectX model</h3><p>The stock kernel and library, and ours.</p>"
            + table("module", model))


def checks():
    """What the last make check on each kernel left."""
    found = [results.load(path) for path in sorted(glob.glob(f"{BUILD}/results/check*.jsonl"))
             if not path.endswith("-selected.jsonl")]
    if not found:
        return missing("result of the tests", "make check")
    return "".join(
        f"<h3>On the {text(one.run['kernel'])} kernel</h3>"
        f"<p>Started {text(one.run['began'])}"
        + (f', <span class="fail">ended early: {text(one.why)}</span>' if one.why else "")
        + f"</p>{table('program', {'result': one.all()})}" for one in found)


def copy(path):
    """A file into the page's directory; its name there."""
    name = os.path.basename(path)
    shutil.copyfile(path, os.path.join(OUT, name))
    return name


def bench():
    summary = os.path.join(BUILD, "bench/summary.txt")
    if not os.path.exists(summary):
        return missing("bench", "make bench")
    figures = []
    for name, caption in PLOTS.items():
        light, dark = (copy(os.path.join(BUILD, "bench", f"{name}{suffix}.svg"))
                       for suffix in ("", "-dark"))
        figures.append(
            f'<figure><picture><source srcset="{dark}" media="(prefers-color-scheme: dark)">'
            f'<img src="{light}" alt="Plot: {text(caption)}" width="720" height="440"></picture>'
            f"<figcaption>{text(caption)}</figcaption></figure>")
    with open(summary, encoding="utf-8") as file:
        table = file.read()
    return ("<p>Ratios by the clock, and in parentheses by instructions, which vary less. "
            "Absolute times are those of an emulated machine. Then the ConnectX model, by the "
            "clock, and at the end the model beside Soft-RoCE.</p>"
            f'<div class="plots">{"".join(figures)}</div><pre>{text(table)}</pre>')


def demo():
    screen = os.path.join(BUILD, "demo/screen.png")
    if not os.path.exists(screen):
        return missing("picture", "make demo")
    shown = (f'<figure><img src="{copy(screen)}" alt="A screen with the demo\'s picture">'
             "<figcaption>The screen of a guest. Another guest wrote the picture into its frame "
             "buffer by RDMA.</figcaption></figure>")
    film = os.path.join(BUILD, "demo/film.png")
    if os.path.exists(film):
        shown += (f'<figure><img src="{copy(film)}" alt="Moving pictures of the demo">'
                  "<figcaption>Frames in the VRAM of a guest's GPU, seen from the host. mlx5 "
                  "wrote them there, peer to peer, from another guest.</figcaption></figure>")
    return shown


def run(*words):
    return subprocess.run(words, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=False).stdout.strip()


def subject():
    """What was tested, and on which machine."""
    commit = run("git", "log", "-1", "--format=%h %s")
    edits = " (and edits that are not committed)" if run("git", "status", "--porcelain") else ""
    patches = {name: len(glob.glob(f"{TOP}/patches/{name}/**/*.patch", recursive=True))
               for name in ("linux", "rdma-core", "perftest", "libfabric", "ucx")}

    def base(name):
        git = os.path.join(BUILD, name)
        return f"{run('git', '-C', git, 'log', '-1', '--format=%s', 'base')}, " \
               f"{patches[name]} patches" if os.path.isdir(git) else "not built"
    facts = {
        "Project": commit + edits if commit else "no git here",
        "Kernel": base("linux"),
        "Library": base("rdma-core"),
        "perftest": base("perftest"),
        "libfabric": base("libfabric"),
        "UCX": base("ucx"),
        "Devices": "; ".join(f"{d.name}: {d.title}, in QEMU" for d in DEVICES),
        "Machine": f"{os.cpu_count()} CPUs, {platform.machine()}",
        "Page made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }
    return "<dl>" + "".join(f"<dt>{text(k)}<dd>{text(v)}" for k, v in facts.items()) + "</dl>"


SECTIONS = (("scoreboard", "Scoreboard", scoreboard), ("bench", "Bench", bench),
            ("tests", "Tests", checks), ("demo", "Demo", demo))


def write():
    """Make the page, whole or not at all; its path."""
    os.makedirs(OUT, exist_ok=True)
    path = os.path.join(OUT, "index.html")
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in SECTIONS)
    body = "".join(f'<h2 id="{name}">{title}</h2>\n{make()}\n' for name, title, make in SECTIONS)
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>mrfd: report</title><style>{STYLE}</style></head><body>\n"
            "<h1>mrfd</h1><p>Memory regions from file descriptors: what was tested, and how fast "
            f"it is.</p>\n<nav>{links}</nav>\n{subject()}\n{body}</body></html>\n")
    os.replace(path + ".part", path)
    return path
