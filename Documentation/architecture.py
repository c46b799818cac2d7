#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw Documentation/architecture.svg: the rooms of the repository, and how a
registration and a packet go through them, on Soft-RoCE and on mlx5 with the ConnectX
model.

usage: Documentation/architecture.py [FILE]      (default: architecture.svg beside it)

The drawing shows the table below.  A tag says where this repository has the file: "new"
is a file of ours, "patched" an upstream file that patches/ edits, and no tag an upstream
file as it is.  tests/host/test_door.py checks that each function is in its file and that
the drawing is what this program makes.  The style is that of registration.py."""

import glob
import os
import sys
from html import escape

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(HERE)
sys.path.insert(0, HERE)

from registration import TIP, style  # noqa: E402

# The rooms, in the order of the legend: (key, words, the tree that the files are in, what
# precedes their names there).
ROOMS = (("app", "demo/, tests/", "", "demo/"),
         ("lib", "rdma-core/", "rdma-core", ""),
         ("core", "kernel/: uverbs, ib core, umem", "linux", "drivers/infiniband/core/"),
         ("rxe", "kernel/: the drivers", "linux", "drivers/infiniband/"),
         ("exp", "kernel/: dma-buf", "linux", "drivers/dma-buf/"),
         ("model", "devices/connectx/", "", "devices/connectx/"))
OURS = {"linux": "kernel", "rdma-core": "rdma-core"}
MODEL = {"model": ("#dff2f1", "#173f40")}

# The columns: a packet on rxe, the registration on rxe and on mlx5, a packet on mlx5.
TITLES = ((0, 1, "A packet: Soft-RoCE"), (1, 2, "ibv_reg_mr_fd(): Soft-RoCE, mlx5"),
          (3, 1, "A packet: mlx5, the model"))
# (row, first column, columns, room, function, file, what it does)
STEPS = (
    (0, 0, 1, "app", "post_write", "painter.c", "posts RDMA writes to (iova, rkey)"),
    (1, 0, 1, "lib", "rxe_post_send", "providers/rxe/rxe.c",
     "puts it into a queue, calls the kernel"),
    (2, 0, 1, "rxe", "rxe_requester", "sw/rxe/rxe_req.c", "cuts it into packets: UDP on Ethernet"),
    (3, 0, 1, "rxe", "rxe_rcv", "sw/rxe/rxe_recv.c", "at the peer: finds the QP"),
    (4, 0, 1, "rxe", "check_rkey", "sw/rxe/rxe_resp.c", "looks the MR up: PD, rights, range"),
    (5, 0, 1, "rxe", "rxe_mr_copy", "sw/rxe/rxe_mr.c", "copies to pages, or to a mapping"),
    (6, 0, 1, "rxe", "rxe_vmap_copy", "sw/rxe/rxe_mr_fd.c", "a dma-buf: system or I/O memory"),

    (0, 1, 2, "app", "register_pixels", "register.c",
     "has the fd of a dma-buf or a memfd, asks for a memory region"),
    (1, 1, 2, "lib", "ibv_reg_mr_fd", "libibverbs/verbs.c",
     "addr is the iova; calls the provider"),
    (2, 1, 1, "lib", "rxe_reg_mr_fd", "providers/rxe/rxe.c", "allocates the MR of the library"),
    (2, 2, 1, "lib", "mlx5_reg_mr_fd", "providers/mlx5/verbs.c", "allocates the MR of the library"),
    (3, 1, 2, "lib", "ibv_cmd_reg_mr_fd", "libibverbs/cmd_mr_fd.c",
     "fills the attributes, calls ioctl() on /dev/infiniband/uverbsN"),
    (4, 1, 2, "core", "uverbs_reg_mr_fd", "uverbs_std_types_mr_fd.c",
     "uverbs: asks whether the device can, checks access, calls the driver"),
    (5, 1, 2, "core", "ib_mr_buffer_get", "umem_fd.c",
     "ib core: looks the fd up, checks type, mode and range"),
    (6, 1, 1, "rxe", "rxe_reg_user_mr_fd", "sw/rxe/rxe_mr_fd.c",
     "chooses the umem; makes the keys"),
    (6, 2, 1, "rxe", "mlx5_ib_reg_user_mr_fd", "hw/mlx5/mr_fd.c",
     "chooses the umem; makes the mkey"),
    (7, 1, 1, "core", "ib_umem_vmap_get", "umem_vmap.c", "the umem of a CPU; pins if it must"),
    (7, 2, 1, "core", "ib_umem_dmabuf_get_buffer", "umem_dmabuf.c",
     "the umem of a device with DMA"),
    (8, 1, 1, "exp", "dma_buf_vmap", "dma-buf.c", "the exporter maps it for the CPU"),
    (8, 2, 1, "exp", "dma_buf_map_attachment", "dma-buf.c", "the exporter maps it for DMA"),
    (9, 2, 1, "rxe", "mlx5r_umr_update_mr_pas", "hw/mlx5/umr.c", "posts a UMR: the list of pages"),
    (10, 2, 1, "model", "umr_run", "hca/umr.c", "puts the list into the mkey"),

    (0, 3, 1, "app", "post_frame", "film.c", "posts an RDMA write to (iova, rkey)"),
    (1, 3, 1, "lib", "mlx5_post_send", "providers/mlx5/qp.c",
     "writes a WQE and a doorbell: no kernel"),
    (2, 3, 1, "model", "hca_bar_write", "device/bar.c", "gets that store, by vfio-user"),
    (3, 3, 1, "model", "requester_run", "engine/requester.c", "fetches WQEs, makes packets"),
    (4, 3, 1, "model", "link_send", "fabric/link.c", "sends InfiniBand packets"),
    (5, 3, 1, "model", "switch_send", "fabric/switch.c", "connectx-fabric: forwards by LID"),
    (6, 3, 1, "model", "responder_receive", "engine/responder.c", "at the peer: executes in PSN order"),
    (7, 3, 1, "model", "mkey_write", "hca/mkey.c", "walks the mkey: PD, rights, range"),
    (8, 3, 1, "model", "dma_run", "host/dma.c", "the guest's memory, or a GPU's BAR"),
)
# The end of a column: (row, column, lines).
ENDS = ((7, 0, ("An acknowledgment goes back, the", "requester writes a completion.")),
        (9, 1, ("A memfd goes to core/umem_memfd.c", "in both columns: it has pages.")),
        (9, 3, ("An acknowledgment goes back, the", "requester writes a CQE (completion.c).")))

COLUMN, BOX, GAP, SIDE, TOP_EDGE = 256, 56, 16, 14, 112
STEP = COLUMN + 12
WIDTH = 2 * SIDE + 4 * STEP - 12


def path_of(room, file):
    """(tree, path in it) of a file of the table; the tree "" is this repository."""
    for key, _, tree, before in ROOMS:
        if key == room:
            return tree, before + file
    raise KeyError(room)


def edited():
    """The (tree, path) of all upstream files that patches/ edits."""
    found = set()
    for tree in OURS:
        for patch in glob.glob(f"{TOP}/patches/{tree}/**/*.patch", recursive=True):
            with open(patch, encoding="utf-8") as file:
                found.update((tree, line[6:].strip()) for line in file if line.startswith("+++ b/"))
    return found


def tag(tree, path, patched):
    if not tree or os.path.exists(os.path.join(TOP, OURS[tree], path)):
        return "new"
    return "patched" if (tree, path) in patched else ""


def left(column):
    return SIDE + column * STEP


def top(row):
    return TOP_EDGE + row * (BOX + GAP)


def box(step, patched):
    row, column, columns, room, function, file, what = step
    x, y, width = left(column), top(row), columns * STEP - 12
    mark = tag(*path_of(room, file), patched)
    yield f'<rect x="{x}" y="{y}" width="{width}" height="{BOX}" rx="5" class="box {room}"/>'
    yield f'<text class="name" x="{x + 10}" y="{y + 18}">{escape(function)}()</text>'
    yield f'<text class="file" x="{x + 10}" y="{y + 33}">{escape(file)}</text>'
    yield f'<text class="what" x="{x + 10}" y="{y + 48}">{escape(what)}</text>'
    if mark:
        yield (f'<text class="file" text-anchor="end" x="{x + width - 8}" y="{y + 33}">'
               f"{mark}</text>")


def arrows():
    """From each step to those of the next row that it shares a column with."""
    for row, column, columns, *_ in STEPS:
        for below, first, count, *_ in STEPS:
            if below != row + 1:
                continue
            for shared in set(range(column, column + columns)) & set(range(first, first + count)):
                # One arrow between two boxes of two columns, in their middle.
                if columns == count == 2:
                    if shared != column:
                        continue
                    x = left(column) + STEP - 6
                else:
                    x = left(shared) + COLUMN // 2
                yield f'<path class="arrow" d="M{x} {top(below) - GAP} V{top(below) - 2}"/>'


def drawing():
    patched = edited()
    height = top(max(step[0] for step in STEPS) + 1) + 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img">',
        "<!-- SPDX-License-Identifier: GPL-2.0-or-later -->",
        "<!-- Made by Documentation/architecture.py; edit that. -->",
        "<title>How ibv_reg_mr_fd() and an RDMA write go through the rooms of the repository: "
        "application, rdma-core, uverbs, ib core, driver, umem, dma-buf, ConnectX model</title>",
        f"<style>{style(MODEL.items())}</style>", TIP,
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>']
    x = SIDE
    for key, words, *_ in ROOMS:
        parts.append(f'<rect x="{x}" y="14" width="16" height="16" rx="3" class="box {key}"/>'
                     f'<text class="what" x="{x + 22}" y="27">{escape(words)}</text>')
        x += 54 + 6.5 * len(words)
    parts.append(f'<text class="what" x="{SIDE}" y="52">new: a file of this repository. patched: '
                 "an upstream file that patches/ edits. No word: an upstream file as it is.</text>")
    for column, columns, words in TITLES:
        parts.append(f'<text class="head" x="{left(column)}" y="{TOP_EDGE - 16}">'
                     f"{escape(words)}</text>")
    parts += arrows()
    for step in STEPS:
        parts += box(step, patched)
    for row, column, lines in ENDS:
        parts += [f'<text class="what" x="{left(column)}" y="{top(row) + 10 + 16 * number}">'
                  f"{escape(line)}</text>" for number, line in enumerate(lines)]
    return "\n".join(parts) + "\n</svg>\n"


def main():
    if sys.argv[1:2] in (["--help"], ["-h"]) or len(sys.argv) > 2:
        print(__doc__)
        return 2 if len(sys.argv) > 2 else 0
    where = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "architecture.svg")
    with open(where, "w", encoding="utf-8") as file:
        file.write(drawing())
    return 0


if __name__ == "__main__":
    sys.exit(main())
