# SPDX-License-Identifier: GPL-2.0-or-later
"""Plots of the bench, by gnuplot in the userland: each as SVG for a light page,
as SVG for a dark one, and as PNG.  A kind of memory has the same colour in every
plot.  In the plots of transfers a dashed line is a bounce.  Those whose name begins with
"model-" are of the ConnectX model, the others of Soft-RoCE."""

import os
import subprocess

from mrfd import products
from mrfd.paths import SCRIPTS, inside

COLOURS = {"light": {"memory": "#555555", "dma-buf": "#0b66c3", "VRAM": "#b34700",
                     "memfd": "#7a3fa0", "GPU system": "#2e7d32"},
           "dark": {"memory": "#b8b8b8", "dma-buf": "#6cb6ff", "VRAM": "#ff9a57",
                    "memfd": "#d2a8ff", "GPU system": "#7ee787"}}
THEMES = {"light": ("#ffffff", "#222222", "#dddddd"), "dark": ("#16181c", "#e6e6e6", "#3a3d43")}

# name: title, label of y, is y logarithmic, value of a row, lines as
# {(operation, memory): (title, colour of which memory, dashes)}
RATIO_DASHES = {"rereg access": 1, "rereg PD": 3, "rereg translation": 2}
ON_MODEL = ("memory", "dma-buf", "memfd", "VRAM", "GPU system")
PLOTS = {
    "register": ("Registration against size", "microseconds", True, lambda key, row: row[0], {
        ("reg", memory): (memory, memory, 1) for memory in ("memory", "dma-buf", "memfd")}),
    "rereg": ("Re-registration, relative to dereg and reg", "ratio of instructions", False,
              lambda key, row: row[3], {
                  (operation, memory): (f"{operation[6:]}, {memory}", memory, dashes)
                  for operation, dashes in RATIO_DASHES.items()
                  for memory in ("memory", "dma-buf", "memfd")}),
    **{operation: (title, label, log, value, {
        (operation, memory): (memory, memory.split()[0], 2 if "bounced" in memory else 1)
        for memory in ("memory", "dma-buf", "VRAM", "dma-buf bounced", "VRAM bounced")})
       for operation, title, label, log, value in (
           ("bandwidth", "RDMA write, many under way", "MB/s", False,
            lambda key, row: key[2] / row[0]),
           ("latency", "RDMA write, one at a time", "microseconds to its completion", True,
            lambda key, row: row[0]))},
    "model-register": ("Registration on the ConnectX model", "microseconds", True,
                       lambda key, row: row[0],
                       {("reg", memory): (memory, memory, 1) for memory in ON_MODEL}),
    "model-rereg": ("Re-registration on the ConnectX model, relative to dereg and reg", "ratio",
                    False, lambda key, row: row[1], {
                        (operation, memory): (f"{operation[6:]}, {memory}", memory, dashes)
                        for operation, dashes in (("rereg access", 1), ("rereg translation", 2))
                        for memory in ON_MODEL}),
}


def tics(sizes):
    """gnuplot's words for sizes on an axis."""
    def name(n):
        for unit in "", "Ki", "Mi":
            if n < 1024:
                return f"{n}{unit}"
            n //= 1024
        return str(n)
    return ", ".join(f'"{name(n)}" {n}' for n in sorted(sizes))


def script(terminal, theme, plot, results):
    """One plot as gnuplot's input."""
    title, label, log, value, lines = plot
    paper, ink, grid = THEMES[theme]
    blocks, words = [], []
    for number, (line, (name, colour, dashes)) in enumerate(lines.items()):
        points = sorted((key[2], value(key, row)) for key, row in results.items()
                        if key[:2] == line)
        blocks.append(f"$line{number} << E\n"
                      + "".join(f"{x} {y:.4f}\n" for x, y in points) + "E")
        words.append(f"$line{number} with linespoints lw 2 pt 7 ps 0.5 dt {dashes} "
                     f'lc rgb "{COLOURS[theme][colour]}" title "{name}"')
    sizes = {key[2] for key in results if key[:2] in lines}
    return "\n".join([
        *blocks,
        f'{terminal} background rgb "{paper}"',
        f'set title "{title}" textcolor rgb "{ink}"',
        f'set border 3 lc rgb "{ink}"',
        f'set grid lc rgb "{grid}" lw 1 dt 1',
        f'set key top left maxrows 5 reverse Left textcolor rgb "{ink}" samplen 3',
        "set logscale x 2",
        f"set xrange [{min(sizes)}:{max(sizes) * 1.1}]",
        f'set xtics nomirror textcolor rgb "{ink}" ({tics(sizes)})',
        f'set ytics nomirror textcolor rgb "{ink}"',
        f'set xlabel "bytes" textcolor rgb "{ink}"',
        f'set ylabel "{label}" textcolor rgb "{ink}"',
        "set logscale y 10" if log else "set yrange [0:*]; set offsets 0, 0, graph 0.3, 0",
        "plot " + ", ".join(words),
        "unset output", ""])


def draw(out, results, model):
    """All plots into the directory OUT; MODEL is the results on the ConnectX model."""
    for name, plot in PLOTS.items():
        of = model if name.startswith("model-") else results
        for theme, suffix, terminal in (
                ("light", ".svg", "set terminal svg size 720,440 dynamic font 'sans-serif,13'"),
                ("dark", "-dark.svg", "set terminal svg size 720,440 dynamic font 'sans-serif,13'"),
                ("light", ".png", "set terminal pngcairo size 1080,660 font 'sans-serif,13'")):
            path = os.path.join(out, name + suffix)
            text = script(terminal, theme, plot, of).replace(
                "\nset title", f"\nset output '{inside(path)}'\nset title", 1)
            done = subprocess.run([os.path.join(SCRIPTS, "enter"), "gnuplot", "-"],
                                  input=text, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, check=False)
            if done.returncode or not os.path.exists(path):
                raise products.BootError(f"gnuplot cannot draw {path}:\n{done.stdout}")
