"""Counts the instructions of the Poisson operator's SIMD kernels and of merged CG, by class, as a core executes them.

Steps through one application or iteration on a small box, one instruction at a time (single_step.c), disassembles the
executed code, and writes instructions per point and vector of elements for `weft.model.instructions`. It counts for the
vector length for which weft was compiled (WEFT_ARCH): run it on a build for each, on a processor that has them. It
needs gcc and objdump, and takes about 20 microseconds per instruction in a virtual machine. `--output` replaces the
lines of the same vectors and order.

    python benchmarks/instruction_mix.py [--orders 7] --output python/weft/model/instructions.jsonl
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

# The counting library supports one thread, and this program chooses the access: see with_access().
os.environ["OMP_NUM_THREADS"] = "1"

import weft
from weft.model import instructions, processors

HERE = Path(__file__).resolve().parent
ELEMENTS = (2, 2, 4)  # of the box: two blocks of eight lanes
SHAPES = ("box", "parallelepiped", "trilinear", "stored")
ACCESS = ("gather", "loads", "gather and runs", "loads and runs")
# Classes of the record, in the order in which they are tried.
CLASSES = [
    ("gather", r"vp?gather\w+"),
    ("scatter", r"vp?scatter\w+"),
    ("divide", r"v(div|sqrt)p[sd]"),
    ("multiply", r"v(fn?m(add|sub)\w*|mul)[ps][sd]"),
    ("add", r"v(add|sub|max|min)[ps][sd]"),
    ("shuffle", r"v(perm|p?shuf|p?unpck|insert|extract|p?align|pinsr|pextr|p?broadcast|movddup|mov(hl|lh|h|l)p)\w*"),
    ("vector", r"[vk]\w+"),
]
READS = re.compile(r"v?u?comi|cmp|test|bt|prefetch|push|jmp|call|(i?mul|i?div|neg)[bwlq]?$")
MOVE = re.compile(r"v(mov(a|u|dq[au])\w*|movs[sd]|mov[qd]|p?broadcast\w+|movddup)")
FUSES = re.compile(r"(cmp|test|add|sub|and|inc|dec)[bwlq]?$")


def library(folder: Path) -> ctypes.CDLL:
    """single_step.c, compiled."""
    made = folder / "single_step.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", str(made), str(HERE / "single_step.c")], check=True)
    loaded = ctypes.CDLL(str(made))
    loaded.take_counts.restype = ctypes.c_int64
    loaded.take_counts.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    return loaded


def kernels_mapped() -> list[tuple[int, int]]:
    """The mapped address ranges of weft's kernels: its module, and kernels that were compiled on first use."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, flags, _, _, _, *file = line.split(maxsplit=5)
        if "x" in flags and file and ("/_weft." in file[0] or file[0].startswith("/memfd:")):
            first, last = (int(end, 16) for end in place.split("-"))
            found.append((first, last))
    return found


def disassembly(first: int, last: int) -> Iterator[tuple[int, str, str]]:
    """Address, name and operands of the instructions in this process's memory from one address to another."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(ctypes.string_at(first, last + 16 - first))
        file.flush()
        command = ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn"]
        command += [f"--adjust-vma={first:#x}", file.name]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    prefixes = r"(?:rep\w* |data16 |cs |ds |bnd |notrack )*"
    for address, name, operands in re.findall(rf"^\s*([0-9a-f]+):\s+{prefixes}(\S+)[ \t]*(.*)$", text, re.M):
        yield int(address, 16), name, operands


def counts_of(executed: dict[int, int]) -> Counter[str]:
    """Instructions of weft's kernels by class, from how often each address was executed."""
    mapped = kernels_mapped()
    inside = sorted(a for a in executed if any(first <= a < last for first, last in mapped))
    sums: Counter[str] = Counter()
    for first, last in stretches(inside):
        before = ""
        for address, name, operands in disassembly(first, last):
            if times := executed.get(address, 0):
                for key in classes(name, operands, before):
                    sums[key] += times
            before = name
    return sums


def stretches(addresses: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of addresses that are near each other; each first one begins an instruction."""
    begin = 0
    for i in range(1, len(addresses) + 1):
        if i == len(addresses) or addresses[i] - addresses[i - 1] > 256:
            yield addresses[begin], addresses[i - 1]
            begin = i


def classes(name: str, operands: str, before: str) -> list[str]:
    """The classes of an instruction in AT&T syntax. `slots`: front-end slots; a compare and its jump take one."""
    fused = name.startswith("j") and FUSES.fullmatch(before)
    found = ["instructions"] if fused else ["instructions", "slots"]
    kind = next((key for key, pattern in CLASSES if re.fullmatch(pattern, name)), "")
    if kind in ("gather", "scatter"):
        return [*found, kind]
    memory = "(" in operands and not name.startswith(("lea", "nop"))
    # A comma inside parentheses separates parts of an address. An EVEX mask may follow the last operand.
    writes = memory and "(" in re.split(r",(?![^(]*\))", operands)[-1] and not READS.match(name)
    if memory:
        found.append("store" if writes else "load")
    if name.startswith(("push", "call")):
        found.append("store")
    elif name.startswith(("pop", "ret")):
        found.append("load")
    moves = MOVE.fullmatch(name) or (writes and name.startswith("vmov"))
    if kind and not (memory and moves):
        found.append(kind)
    return found


def measured(counter: ctypes.CDLL, work: Callable[[], object]) -> dict[int, int]:
    """The number of times that each address was executed while `work` ran."""
    counter.take_counts(np.empty(1 << 20, np.uint64).ctypes.data, np.empty(1 << 20, np.uint64).ctypes.data, 1 << 20)
    work()
    counter.end_counting()
    count = counter.take_counts(None, None, 0)
    addresses, times = np.empty(count, np.uint64), np.empty(count, np.uint64)
    counter.take_counts(addresses.ctypes.data, times.ctypes.data, count)
    return dict(zip(addresses.tolist(), times.tolist(), strict=True))


def operator(order: int, precision: str, shape: str, access: str) -> weft.Poisson:
    """The operator on the box, with elements of one shape and one way to reach surface points."""
    box = weft.Mesh.box(ELEMENTS, deformation="kershaw" if shape == "trilinear" else "none")
    if shape == "parallelepiped":
        box = box.mapped(lambda x, y, z: (x + 0.3 * y, y, z + 0.2 * x), geometry_order=1)
    geometry = "stored" if shape == "stored" else "trilinear"

    def made() -> weft.Poisson:
        return weft.Poisson(
            box, order, precision=precision, device="host", kernels="simd", geometry=geometry, exchange_cache=True
        )

    found = with_access(made, access)
    counts = {"box": found.boxes, **found.elements_by_shape}
    counts["parallelepiped"] -= found.boxes
    if [name for name, count in counts.items() if count] != [shape]:
        raise RuntimeError(f"the elements are not {shape}: {counts}")
    return found


def with_access(made: Callable[[], weft.Poisson], access: str) -> weft.Poisson:
    """An operator with the given access to surface points: rewrites the cached choice that its set-up reads."""
    made()
    for file in Path(os.environ["WEFT_CACHE"]).glob("*.tuning"):
        rewrite(file, access)
    found = made()
    if not found.choices["access"].startswith(f"{access}: "):
        raise RuntimeError(f"requested {access}, found {found.choices['access']}")
    return found


def rewrite(file: Path, access: str) -> None:
    """Replaces the choice in an entry of weft's cache (cpp/weft/device/disk_cache.cpp)."""
    data = file.read_bytes()
    head = data.index(b"\n") + 1
    key_bytes, value_bytes, _ = np.frombuffer(data[head : head + 24], np.uint64).tolist()
    key = data[head + 24 : head + 24 + key_bytes]
    if not key.startswith(b"access"):
        return
    value = access.encode() + b"\n" + data[len(data) - value_bytes :].partition(b"\n")[2]
    checksum = 0xCBF29CE484222325
    for byte in value:
        checksum = (checksum ^ byte) * 0x100000001B3 % 2**64
    header = np.array([len(key), len(value), checksum], np.uint64).tobytes()
    file.write_bytes(data[:head] + header + key + value)


def count(counter: ctypes.CDLL, op: weft.Poisson, work: str) -> dict[str, float]:
    """Instructions per point and vector of elements of one application, or of one iteration (mean of two)."""

    def application() -> None:
        counter.begin_counting()
        op.time_kernel(0)

    def iterations() -> None:
        def between(iteration: int, residual: float) -> None:
            del residual
            if iteration == 2:
                counter.begin_counting()
            elif iteration == 4:
                counter.end_counting()

        op.cg(op.random_rhs(1), iterations=5, algorithm="merged", progress=between)

    sums = counts_of(measured(counter, application if work == "operator" else iterations))
    lanes = lanes_of(op)
    vectors = -(-op.elements // lanes) * (op.order + 1) ** 3 * (1 if work == "operator" else 2)
    return {key: round(value / vectors, 2) for key, value in sorted(sums.items())}


def lanes_of(op: weft.Poisson) -> int:
    """Elements per vector."""
    width = {"avx512": 64, "avx2": 32}[op.device.architecture]
    return width // (4 if op.precision == "single" else 8)


def rows(orders: list[int], precision: str, quick: bool) -> Iterator[dict[str, object]]:
    """The operator with every shape and every access, and an iteration of merged CG. `quick`: the shapes alone."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WEFT_CACHE"] = folder
        counter = library(Path(folder))
        for order in orders:
            cases = [(shape, "operator", ACCESS[0]) for shape in SHAPES]
            if not quick:
                cases += [("parallelepiped", "operator", access) for access in ACCESS[1:]]
                cases += [("parallelepiped", "merged", ACCESS[0])]
            for shape, work, access in cases:
                op = operator(order, precision, shape, access)
                head = {
                    "vectors": op.device.architecture,
                    "precision": precision,
                    "order": order,
                    "shape": shape,
                    "work": work,
                    "access": access,
                }
                yield {**head, **count(counter, op, work)}


def table() -> str:
    """Cycles per point and vector of elements at N = 7 on every core, from the record."""
    lines = [
        "| core | vectors | box | parallelepiped | trilinear | stored | iteration, parallelepiped |",
        "|---|---|---|---|---|---|---|",
    ]
    cases = [(shape, "operator") for shape in SHAPES] + [("parallelepiped", "merged")]
    for core in (c for c in processors.CORES if c.title != "generic"):
        cells = []
        for shape, work in cases:
            mix = instructions.mix(instructions.Kernel(core.vectors, 7, shape, work, "gather"))
            if mix is None:
                cells.append("–")
                continue
            needed = instructions.cycles(core, mix)
            most = max(needed, key=lambda name: needed[name])
            cells.append(f"{needed[most]:.0f}, {most}")
        lines.append(f"| {core.title} | {core.vectors} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", default="1,2,3,4,5,6,7,9,11,15")
    parser.add_argument("--precision", choices=("double", "single"), default="double")
    parser.add_argument("--quick", action="store_true", help="only the operator with one access, on each shape")
    parser.add_argument("--output", type=Path, help="the record")
    parser.add_argument("--table", action="store_true", help="only print the cycles at N = 7 from the record")
    given = parser.parse_args()
    if given.table:
        print(table())
        return
    orders = [int(order) for order in given.orders.split(",")]
    found = []
    for row in rows(orders, given.precision, given.quick):
        found.append(row)
        print(json.dumps(row), flush=True)
    if given.output:
        kept = given.output.read_text().splitlines() if given.output.exists() else []
        key = ("vectors", "precision", "order")
        new = {tuple(row[k] for k in key) for row in found}
        lines = [line for line in kept if tuple(json.loads(line).get(k) for k in key) not in new]
        given.output.write_text("\n".join([*lines, *map(json.dumps, found)]) + "\n")


if __name__ == "__main__":
    sys.exit(main())
