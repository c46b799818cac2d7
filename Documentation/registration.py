#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw Documentation/registration.svg: how a registration travels from
ibv_reg_mr_fd() to the exporter and back, and how a packet then reaches the memory,
file by file.

usage: Documentation/registration.py [FILE]      (default: registration.svg beside it)

The drawing shows the two tables below.  Each step names a function, the file
that has it, and what it does; tests/host/test_drawing.py checks that the function is
in that file and that the drawing is what this program makes."""

import os
import sys
from html import escape

# Who does the step, in the order of the legend: (key, words).
WHO = (("app", "application"), ("lib", "rdma-core"), ("core", "kernel: uverbs and ib_core"),
       ("rxe", "kernel: rxe"), ("exp", "kernel: dma-buf and its exporter"))

# (who, function, file, what it does)
REGISTRATION = (
    ("app", "ibv_reg_mr_fd", "rdma-core: libibverbs/verbs.c",
     "addr is the iova; the region starts at byte (addr mod page) of the fd"),
    ("lib", "rxe_reg_mr_fd", "rdma-core: providers/rxe/rxe.c",
     "the provider's operation: allocates struct verbs_mr"),
    ("lib", "ibv_cmd_reg_mr_fd", "rdma-core: libibverbs/cmd_mr_fd.c",
     "fills the attributes and calls ioctl()"),
    ("core", "uverbs_reg_mr_fd", "linux: drivers/infiniband/core/uverbs_std_types_mr_fd.c",
     "asks whether the device can, checks access, calls the driver"),
    ("core", "ib_mr_buffer_get", "linux: drivers/infiniband/core/umem_fd.c",
     "looks the fd up, checks type, mode and range"),
    ("rxe", "rxe_reg_user_mr_fd", "linux: drivers/infiniband/sw/rxe/rxe_mr_fd.c",
     "takes the memory by the function that fits, makes lkey and rkey"),
    ("core", "ib_umem_vmap_get", "linux: drivers/infiniband/core/umem_vmap.c",
     "pins a buffer that could move; a memfd goes to umem_memfd.c"),
    ("exp", "dma_buf_vmap", "linux: drivers/dma-buf/dma-buf.c",
     "the exporter maps the buffer for the CPU; the umem keeps that"),
)
ACCESS = (
    ("app", "ibv_post_send", "rdma-core: libibverbs/verbs.h",
     "the peer posts an RDMA write to (iova, rkey)"),
    ("rxe", "rxe_requester", "linux: drivers/infiniband/sw/rxe/rxe_req.c",
     "the peer's rxe cuts the message into packets and sends them"),
    ("rxe", "rxe_rcv", "linux: drivers/infiniband/sw/rxe/rxe_recv.c",
     "on this side: checks the packet and queues it for the QP"),
    ("rxe", "check_rkey", "linux: drivers/infiniband/sw/rxe/rxe_resp.c",
     "looks up the MR; checks PD, rights and range for every packet"),
    ("rxe", "rxe_mr_copy", "linux: drivers/infiniband/sw/rxe/rxe_mr.c",
     "a memfd has pages, like ordinary memory; a dma-buf is a mapping"),
    ("rxe", "rxe_vmap_copy", "linux: drivers/infiniband/sw/rxe/rxe_mr_fd.c",
     "copies with the accessors of iosys_map: VRAM is I/O memory"),
    ("rxe", "send_ack", "linux: drivers/infiniband/sw/rxe/rxe_resp.c",
     "acknowledges; the peer's write completes"),
)

WIDTH, BOX, GAP, TOP, COLUMN = 940, 62, 18, 92, 440
LEFT = (20, WIDTH - 20 - COLUMN)
COLOURS = {  # class: light, dark
    "paper": ("#ffffff", "#16181c"), "app": ("#fff3d6", "#4a3d16"), "lib": ("#e3f1e4", "#1f3d24"),
    "core": ("#e2ecfa", "#1d3556"), "rxe": ("#f1e6f8", "#402a4d"), "exp": ("#fbe4e0", "#502a24"),
    "text": ("#1c1e21", "#e6e6e6"), "file": ("#5b6068", "#a7adb6"), "tip": ("#8a9099", "#7d838c")}
TIP = ('<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
       'markerHeight="7" orient="auto"><path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>')


def style(more=()):
    """The style of a drawing; more is what COLOURS does not have, for architecture.py."""
    every = {**COLOURS, **dict(more)}

    def fills(which):
        return "\n".join(f"{'text' if name == 'text' else '.' + name} {{ fill: {colours[which]} }}"
                         for name, colours in every.items())
    return f"""
text {{ font: 13px system-ui, sans-serif }}
.head {{ font-size: 16px; font-weight: 600 }}
.name {{ font: 600 13px ui-monospace, monospace }}
.file {{ font: 11px ui-monospace, monospace }}
.what {{ font-size: 12px }}
.arrow {{ stroke: #8a9099; stroke-width: 1.5; fill: none; marker-end: url(#tip) }}
.box {{ stroke: #8a9099 }}
{fills(0)}
@media (prefers-color-scheme: dark) {{
{fills(1)}
}}
"""


def box(x, y, step):
    who, name, file, what = step
    return (f'<rect x="{x}" y="{y}" width="{COLUMN}" height="{BOX}" rx="5" '
            f'class="box {who}"/>'
            f'<text class="name" x="{x + 12}" y="{y + 20}">{escape(name)}()</text>'
            f'<text class="file" x="{x + 12}" y="{y + 36}">{escape(file)}</text>'
            f'<text class="what" x="{x + 12}" y="{y + 53}">{escape(what)}</text>')


def column(x, title, steps, back):
    """One column: its title, its steps joined by arrows, and how it ends."""
    yield f'<text class="head" x="{x}" y="{TOP - 14}">{escape(title)}</text>'
    y = TOP
    for number, step in enumerate(steps):
        if number:
            middle = x + COLUMN // 2
            yield f'<path class="arrow" d="M{middle} {y - GAP} V{y - 2}"/>'
        yield box(x, y, step)
        y += BOX + GAP
    yield f'<text class="what" x="{x}" y="{y + 2}">{escape(back)}</text>'


def drawing():
    rows = max(len(REGISTRATION), len(ACCESS))
    height = TOP + rows * (BOX + GAP) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img">',
        "<!-- SPDX-License-Identifier: GPL-2.0-or-later -->",
        "<!-- Made by Documentation/registration.py; edit that. -->",
        "<title>From ibv_reg_mr_fd() to the packet: a registration passes libibverbs, the "
        "provider, uverbs, ib_core, the exporter and rxe; a packet passes rxe and reaches the "
        "memory that the registration mapped</title>",
        f"<style>{style()}</style>",
        TIP,
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>']
    x = LEFT[0]
    for who, words in WHO:
        parts.append(f'<rect x="{x}" y="16" width="16" height="16" rx="3" '
                     f'class="box {who}"/><text class="what" x="{x + 23}" y="29">'
                     f"{escape(words)}</text>")
        x += 50 + 7 * len(words)
    parts += column(LEFT[0], "Registration: once", REGISTRATION,
                    "lkey and rkey return the same way; the fd may be closed now.")
    parts += column(LEFT[1], "An RDMA write: every packet", ACCESS,
                    "Reads, atomic operations and receives reach it the same way.")
    return "\n".join(parts) + "\n</svg>\n"


def main():
    beside = os.path.join(os.path.dirname(os.path.realpath(__file__)), "registration.svg")
    if sys.argv[1:2] in (["--help"], ["-h"]) or len(sys.argv) > 2:
        print(__doc__)
        return 2 if len(sys.argv) > 2 else 0
    with open(sys.argv[1] if len(sys.argv) > 1 else beside, "w", encoding="utf-8") as file:
        file.write(drawing())
    return 0


if __name__ == "__main__":
    sys.exit(main())
