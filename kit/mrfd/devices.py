# SPDX-License-Identifier: GPL-2.0-or-later
"""The RDMA devices that the tests run on: the one description of each.

A guest program names its devices at its head (see heads.py).  It learns about its device
from the environment (see env()) and skips a case that the device cannot run.  To add a
device is to add a Device here.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Device:
    name: str       # in the names of cases: rxe/access/data
    word: str       # at the head of a test that runs on it (see heads.py)
    verbs: str      # its verbs name in the guest
    title: str      # for people
    can: str        # words for what another device may lack, see tests/lib/device.h
    setup: str      # the shell command that adds it in a guest, once eth0 is up
    netdev: str     # its network device: eth0, or one that setup gives an address
    address: str    # by which rdma_cm finds it in the first guest; the next one has the next
    qemu: tuple = ()    # the arguments of QEMU's -device that it needs
    model: tuple = ()   # options of its ConnectX model
    append: str = ""    # kernel parameters that it needs
    needs: tuple = ()   # what scripts/ builds for it
    vendor: str = ""    # of which rdma-core's suite has modules: test_VENDOR_...
    settings: tuple = ()    # variables for our own programs, (name, value)
    allow: tuple = ()       # what a kernel may complain about with it, as Guest takes it

    def env(self):
        """The variables that describe it to the programs in the guest."""
        return {"MRFD_DEVICE": self.name, "MRFD_VERBS_DEVICE": self.verbs,
                "MRFD_NETDEV": self.netdev, "MRFD_ADDRESS": self.address,
                "MRFD_DEVICE_CAN": self.can}


# Where pages of a udmabuf lie beside each other by chance, 7.3's udmabuf makes one segment of
# them, and its device says nothing of how long a segment may be.
UDMABUF = ("DMA-API: misc udmabuf: mapping sg segment longer",
           r"kernel/dma/debug\.c:\d+ at debug_dma_map_sg\+")

RXE = Device("rxe", "rxe", "rxe0", "Soft-RoCE over a veth pair",
             "reg_mr_fd rereg_mr_fd keeps-keys memfd io-memory vmap gives-back native "
             "on-demand reads-read-only atomics atomic-write flush window-type-1 window-type-2 "
             "window-dma-buf window-holds window-checks access-events new-keys sqd rdma-cm "
             "add-delete read-middles rxe-queues dm dm-bytes dm-export",
             setup="rdma link add rxe0 type rxe netdev eth0", netdev="eth0",
             address="10.0.0.1", allow=UDMABUF)

# By default libmlx5 takes up to 32 bytes of a received message from the completion and
# copies them to the address in the work request.  That is no address of the process where
# memory has an iova of its own, as ours of dma-bufs has.
#
# Two MRs may have a page in common.  The DMA-API checker takes that for a mistake unless both
# mappings say that they need coherent memory.  A umem of pinned pages does, the exporter of
# a dma-buf and on-demand paging do not.  The report has three heads, of which
# add_dma_entry() makes no other.  A page that more than eight MRs have in common is another
# report, because the checker counts no further.
#
# Another kernel than the kit's may have the driver built in; then the device is there at once.
CONNECTX = Device("connectx", "connectx", "mlx5_0", "a model of a ConnectX-4, InfiniBand",
                  "reg_mr_fd rereg_mr_fd memfd native old-op on-demand switches-on-demand "
                  "counts-faults atomics window-type-1 window-type-2 window-dma-buf new-keys "
                  "rdma-cm mlx5-queues follows-moves pci p2p dm dm-export",
                  setup="{ [ -e /sys/class/infiniband/mlx5_0 ] || modprobe mlx5_ib; } && "
                        "/mrfd/kit/guest/ipoib ib0", netdev="ib0", address="10.1.0.1",
                  qemu=("connectx",), needs=("connectx",),
                  vendor="mlx5",
                  settings=(("MLX5_SCATTER_TO_CQE", "0"),),
                  allow=(*UDMABUF, "DMA-API: mlx5_core .*: cacheline tracking EEXIST",
                         r"kernel/dma/debug\.c:\d+ at add_dma_entry\+", "DMA-API: Mapped at:$",
                         "DMA-API: exceeded 7 overlapping mappings of cacheline"))

# It runs only what differs: how an MR takes a dma-buf.
CONNECTX_PINNED = replace(
    CONNECTX, name="connectx-pinned", word="pinned", title="the same model, without page faults",
    can="reg_mr_fd rereg_mr_fd memfd native atomics window-type-1 window-type-2 new-keys "
        "window-dma-buf rdma-cm mlx5-queues gives-back pci p2p dm dm-export",
    model=("--no-paging",))

# Two of them behind one PCIe switch, each with a port of its own that is connected to
# itself.  The second one is for what passes from one to the other.
CONNECTX_TWO = replace(
    CONNECTX, name="connectx-two", word="two", title="two of the same model, on one PCIe switch",
    qemu=("connectx", "connectx-2"),
    settings=(*CONNECTX.settings, ("MRFD_OTHER_DEVICE", "mlx5_1")))

# A card with a second function, by which all MRs of dma-bufs go.  Data Direct pins the buffer,
# and the mkeys of such an MR cannot change.
CONNECTX_DIRECT = replace(
    CONNECTX, name="connectx-direct", word="direct",
    title="the same model, dma-bufs by Data Direct", qemu=("connectx", "direct"),
    can="reg_mr_fd native atomics new-keys rdma-cm mlx5-queues pci p2p dm dm-export direct")

DEVICES = [RXE, CONNECTX, CONNECTX_PINNED, CONNECTX_TWO, CONNECTX_DIRECT]
