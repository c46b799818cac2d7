#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the tables of Documentation/connectx.md: the commands, capabilities, registers and
limits of the ConnectX model, read from its source.

usage: Documentation/connectx.py [MLX5_IFC_H]

The kernel's mlx5_ifc.h has the opcode of each command, and says how many there are; by
default it is that of the joined kernel tree.  In connectx.md a table lies between the
lines "<!-- NAME: made by
Documentation/connectx.py -->" and "<!-- end -->"; the rest of the file is left alone.
tests/host/test_model_tables.py checks that the tables are what this program makes."""

import glob
import itertools
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../kit"))
from mrfd import bases  # noqa: E402

PAGE = os.path.join(HERE, "connectx.md")
MODEL = os.path.join(HERE, "../devices/connectx")
HEADER = "include/linux/mlx5/mlx5_ifc.h"

# The subjects of commands, by the first digit of the opcode.
SUBJECTS = {0x1: "device", 0x2: "mkeys, device memory", 0x3: "EQs", 0x4: "CQs", 0x5: "QPs",
            0x7: "SRQs, DC, ports, counters", 0x8: "PDs, UARs, registers, multicast",
            0x9: "RMPs", 0xa: "DEVX objects"}
# What a limit is, how its constant is called, and how the constant is to be read.
LIMITS = (("queue pairs", "HCA_LOG_QPS", "power"), ("completion queues", "HCA_LOG_CQS", "power"),
          ("event queues", "HCA_LOG_EQS", "power"),
          ("shared receive queues", "HCA_LOG_SRQS", "power"),
          ("memory keys", "HCA_LOG_MKEYS", "power"), ("protection domains", "HCA_LOG_PDS", "power"),
          ("XRC domains", "HCA_LOG_XRCDS", "power"),
          ("entries of a work queue", "HCA_LOG_MAX_WQ", "power"),
          ("entries of a CQ", "HCA_LOG_MAX_CQ", "power"),
          ("entries of an EQ", "HCA_LOG_MAX_EQ", "power"),
          ("bytes of a send WQE", "SEND_WQE_BYTES", "number"),
          ("multicast groups", "HCA_LOG_MCGS", "power"),
          ("initiators of a DC target at a time", "DCT_HALVES", "number"),
          ("QPs in a multicast group", "HCA_MCG_QPS", "number"),
          ("device memory", "HCA_MEMIC_SIZE", "bytes"),
          ("interrupt vectors", "PCI_VECTORS", "number"),
          ("memory of the model for what a guest makes", "HCA_MEMORY", "bytes"),
          ("regions of memory that QEMU maps", "DMA_REGIONS", "number"),
          ("ports of a fabric", "SWITCH_PORTS", "number"),
          ("packets under way in a model", "LINK_PACKETS", "number"),
          ("of them waiting for pages", "LINK_STALLED", "number"))


def sources():
    """{name: path} of the files of all floors."""
    paths = (path for path in glob.glob(os.path.join(MODEL, "*/*.[ch]"))
             if os.path.basename(os.path.dirname(path)) != "fuzz")
    return {os.path.basename(path): path for path in sorted(paths, key=os.path.basename)}


def read(name):
    with open(sources()[name], encoding="utf-8") as file:
        return file.read()


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


def constants(header):
    """{name: expression} of all #defines and enumerators that have a value, of the model and
    of mlx5_ifc.h."""
    with open(header, encoding="utf-8") as file:
        found = dict(re.findall(r"^\t(MLX5_\w+)\s*= (0x\w+|\d+),?$", file.read(), re.MULTILINE))
    for name in sources():
        text = without_comments(read(name))
        found.update(re.findall(r"^#[ \t]*define[ \t]+([A-Z]\w*)[ \t]+(.*\S)", text, re.MULTILINE))
        for body in re.findall(r"\benum\b[^;{]*\{(.*?)\}", text, re.DOTALL):
            found.update(re.findall(r"\b([A-Z]\w*) = ([^,}]+?)\s*(?=,|$)", body))
    return found


def value(expression, known, depth=0):
    """The number that an expression of C is, or the expression itself."""
    def number(match):
        return str(value(known[match[0]], known, depth + 1)) if match[0] in known else match[0]
    if depth > 5:
        return expression
    text = re.sub(r"\b[A-Z]\w*\b", number, expression)
    text = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    text = " ".join(re.sub(r"\bBIT\(", "1 << (", text).split())
    if not re.fullmatch(r"[ 0-9a-fA-Fx()<>|+*/-]+", text):
        return expression
    return eval(text.replace("/", "//"), {"__builtins__": {}})  # pylint: disable=eval-used


# --- Commands ---


def modelled():
    """{name of a command: the file that has it}, of the tables that cmdif.c looks into."""
    used = re.search(r"\bcmd_tables\[\] = \{(.*?)\};", read("cmdif.c"), re.DOTALL)[1]
    found = {}
    for name in sources():
        for table, body in re.findall(r"^const struct cmd_op (\w+)\[\] = \{\n(.*?)^\};", read(name),
                                      re.MULTILINE | re.DOTALL):
            if re.search(rf"\b{table}\b", used):
                body = without_comments(body)
                for command in re.findall(r"\b\w*OP\((\w+)|\bMLX5_CMD_OP_(\w+)", body):
                    found["".join(command)] = name
    return found


def opcodes(header):
    """{name of a command: opcode} of mlx5_ifc.h."""
    with open(header, encoding="utf-8") as file:
        text = re.search(r"MLX5_CMD_OP_QUERY_HCA_CAP .*?MLX5_CMD_OP_MAX", file.read(), re.DOTALL)[0]
    return {name: int(number, 16)
            for name, number in re.findall(r"MLX5_CMD_OP_(\w+)\s*= (0x\w+),", text)}


def commands(header):
    known, have = opcodes(header), modelled()
    version = ".".join(bases.base("linux")["upstream"].split(".")[:2])
    yield f"{len(have)} of the {len(known)} commands of Linux {version}'s mlx5_ifc.h are modelled."
    yield ""
    yield "| opcodes | about | commands |"
    yield "| --- | --- | --- |"
    ordered = sorted((known[name], name) for name in have)
    for digit, row in itertools.groupby(ordered, lambda command: command[0] >> 8):
        shown = ", ".join(f"{name} {opcode:03x}" for opcode, name in row)
        yield f"| {digit:x}00 | {SUBJECTS[digit]} | {shown} |"


# --- Capabilities ---


def fields(pairs, known):
    return ", ".join(f"`{name}` {value(expression, known)}" for name, expression in pairs)


def general(text, known):
    """A row for each part of the table of general capabilities.  A comment after an empty
    line heads a part."""
    body = re.search(r"struct field general\[\] = \{\n(.*?)^\};", text, re.DOTALL | re.MULTILINE)[1]
    for part in re.split(r"\n\n", body):
        head = re.match(r"\s*/\*\s*([^.:*]+)", part)[1].strip()
        pairs = re.findall(r"GENERAL\((\w+), ([^)]*(?:\([^)]*\))?[^)]*)\)", without_comments(part))
        yield f"| {head[0].lower()}{head[1:]} | {fields(pairs, known)} |"


def body_of(text, function):
    return without_comments(re.search(rf"\b{function}\([^)]*\)\n\{{(.*?)^\}}$", text,
                                      re.DOTALL | re.MULTILINE)[1])


def set_in(body, known):
    return fields(re.findall(r"IFC_SET(?:64)?\(\w+, \w+, (\w+),\s*((?:[^()]|\([^)]*\))+)\);", body),
                  known)


def odp(text):
    every, _, rest = body_of(text, "fill_odp").partition("#undef ALL_OF")
    bits = r"IFC_SET\(odp_per_transport_service_cap, \w+, (\w+), 1\)"
    transports = re.findall(r"ALL_OF\((\w+)_odp_caps\);", every)
    return ("by the memory scheme, with prefetch (`--no-paging`: none, as a card that cannot "
            f"page-fault); {', '.join(transports)}: "
            f"{', '.join(re.findall(bits, every))}; ud: {', '.join(re.findall(bits, rest))}")


def capabilities(header):
    text, known = read("caps.c"), constants(header)
    yield "| general | value |"
    yield "| --- | --- |"
    yield from general(text, known)
    yield ""
    yield "| of another type | |"
    yield "| --- | --- |"
    yield f"| on-demand paging | {odp(text)} |"
    yield f"| atomic | {set_in(body_of(text, 'fill_atomic'), known)} |"
    yield f"| device memory | {set_in(body_of(text, 'fill_device_memory'), known)} |"


# --- The rest ---


def registers(header):
    text, known = read("port.c"), constants(header)
    body = re.search(r"\} regs\[\] = \{(.*?)\};", text, re.DOTALL)[1]
    yield "| register | ACCESS_REG |"
    yield "| --- | --- |"
    for name, writable in re.findall(r"\{ REG_(\w+), .*?, (true|false),", body):
        what = "read, write" if writable == "true" else "read"
        yield f"| {name} {value(f'REG_{name}', known):#x} | {what} |"


def work_requests(_):
    services = re.findall(r"case MLX5_QPC_ST_(\w+):", read("qp_cmd.c"))
    yield f"Services: {', '.join(services)}."
    yield ""
    yield "| QPs | opcodes of work requests |"
    yield "| --- | --- |"
    for name, who in ("requester.c", "connected, UMR"), ("datagram.c", "datagrams"):
        names = re.findall(r"MLX5_OPCODE_(\w+)", read(name))
        yield f"| {who} | {', '.join(sorted(set(names)))} |"


def limits(header):
    known = constants(header)
    yield "| of | at most |"
    yield "| --- | --- |"
    for what, name, kind in LIMITS:
        number = value(name, known)
        if kind == "power":
            shown = f"2^{number}"
        elif kind == "bytes":
            shown = f"{number >> 20} MiB" if number >> 20 else f"{number >> 10} KiB"
        else:
            shown = str(number)
        yield f"| {what} | {shown} |"


TABLES = {"commands": commands, "capabilities": capabilities, "registers": registers,
          "work requests": work_requests, "limits": limits}


def page(header):
    """The page with its tables made anew."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    for name, make in TABLES.items():
        begin = f"<!-- {name}: made by Documentation/connectx.py -->\n"
        before, found, rest = text.partition(begin)
        if not found:
            sys.exit(f"{PAGE}: it has no line {begin.strip()!r}")
        after = rest[rest.index("<!-- end -->"):]
        text = before + begin + "\n".join(make(header)) + "\n" + after
    return text


def main():
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__, file=sys.stdout if len(sys.argv) == 2 else sys.stderr)
        sys.exit(0 if len(sys.argv) == 2 else 2)
    header = sys.argv[1] if len(sys.argv) == 2 else os.path.join(subprocess.run(
        [os.path.join(HERE, "../scripts/join"), "linux"], stdout=subprocess.PIPE, text=True,
        check=True).stdout.strip(), HEADER)
    text = page(header)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
