# SPDX-License-Identifier: GPL-2.0-or-later
"""The devices of a guest that the kit knows by a name, and the PCIe ports that they have.

A device with bus=portN gets a port of its own: QEMU hides the link of a device that has none,
and one without a port cannot be unplugged.  The ports are root ports, or, where devices
reach each other's memory without the host, the ports of one switch.  rootportN is a root
port in any case.  gpu-slot and direct-slot are functions of one slot, below a root port: what
lies between them is that port, which has ACS; the ports of QEMU's switch have none.
"""

import json
import re

MODEL_SOCKET = "/tmp/connectx"  # in the userland of one guest
# The ConnectX models, and where QEMU connects to them.
MODELS = {"connectx": MODEL_SOCKET, "connectx-2": f"{MODEL_SOCKET}-2",
          "connectx-apart": MODEL_SOCKET}
# The second function of each, for Data Direct.
DIRECT = {"connectx": ("direct", "direct-apart", "direct-slot"), "connectx-2": ("direct-2",),
          "connectx-apart": ("direct",)}
GPUS = ("gpu", "gpu-apart", "gpu-slot")
VRAM = 16 << 20  # bytes, of the GPU
ON_ONE_SWITCH = ({"gpu"}, {"connectx", "connectx-2"})


def _vfio_user(path, bus, **more):
    return json.dumps({"driver": "vfio-user-pci", "bus": bus,
                       "socket": {"type": "unix", "path": path}, **more})


def _direct(model, bus, **more):
    """The second function of a model.  Its id is "direct", or "direct-2"."""
    return _vfio_user(f"{MODELS[model]}-direct", bus, id=model.replace("connectx", "direct"),
                      **more)


# The memory of qxl's buffers is nearly all of its RAM.
DEVICES = {"virtio-gpu": "virtio-gpu-pci",
           "qxl": "qxl,ram_size_mb=16,vram_size_mb=8,vgamem_mb=8",
           **dict.fromkeys(GPUS, "ivshmem-plain,bus=port98,memdev=vram"),
           "gpu-slot": "ivshmem-plain,bus=rootport95,addr=0.0,multifunction=on,memdev=vram",
           "connectx": _vfio_user(MODEL_SOCKET, "port99"),
           "connectx-2": _vfio_user(MODELS["connectx-2"], "port100"),
           "connectx-apart": _vfio_user(MODEL_SOCKET, "rootport99"),
           "direct": _direct("connectx", "port96"),
           "direct-apart": _direct("connectx", "rootport96"),
           "direct-slot": _direct("connectx", "rootport95", addr="0.1"),
           "direct-2": _direct("connectx-2", "port97")}


def models(devices):
    """The ConnectX models among the devices."""
    return [model for model in MODELS if model in devices]


def direct_socket(model, devices):
    """Where QEMU connects to the second function of a model; None: it has none."""
    return f"{MODELS[model]}-direct" if set(DIRECT[model]) & set(devices) else None


def fault(devices):
    """What is wrong with the words for a guest's devices, or None; QEMU judges the rest."""
    for device in devices:
        if not device:
            return "a device has no name"
        if device.startswith("{"):
            try:
                json.loads(device)
            except ValueError as error:
                return f"{device} is not JSON: {error}"
        owners = [model for model, functions in DIRECT.items() if device in functions]
        if owners and not set(owners) & set(devices):
            return f"{device} is the second function of {owners[0]}, which the guest does not have"
    return None


def has_connectx(devices):
    """Whether a device is a ConnectX model, also one that was started by hand."""
    return any(device in MODELS or "vfio-user-pci" in device for device in devices)


def has_gpu(devices):
    return any(gpu in devices for gpu in GPUS)


def qemu_words(devices, vram):
    """QEMU's options for the devices; VRAM is the file descriptor of the GPU's memory."""
    words = []
    if has_gpu(devices):
        words += ["-object", f"memory-backend-file,id=vram,size={VRAM},share=on,"
                  f"mem-path=/proc/self/fd/{vram}"]
    kind = "pcie-root-port"
    if any(group <= set(devices) for group in ON_ONE_SWITCH):
        kind = "xio3130-downstream,bus=switch"
        words += ["-device", "pcie-root-port,id=root,chassis=200,slot=200",
                  "-device", "x3130-upstream,id=switch,bus=root"]
    devices = [DEVICES.get(device, device) for device in devices]
    ports = re.findall(r"""bus["':= ]+((?:root)?port\d+)""", " ".join(devices))
    for number, port in enumerate(dict.fromkeys(ports)):
        words += ["-device", f"{'pcie-root-port' if port.startswith('root') else kind},"
                  f"id={port},chassis={number + 1},slot={number + 1}"]
    for device in devices:
        words += ["-device", device]
    return words
