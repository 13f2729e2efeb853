"""Counts the instructions per point of the Poisson operator's work on planes, from its machine code.

Compiles `planes`, or `box_planes`, of cpp/weft/poisson/simd_kernel.hpp for each shape of elements, order and processor,
disassembles it, and multiplies each instruction by the trip counts of its loops: n planes of n rows or columns, of
n / 2 pairs of points. Prefetches, which depend on the block, are left out. It needs g++ and objdump, but none of the
processors.

    python benchmarks/poisson_instructions.py [--source cpp] [--orders 3,7] [--output results.json]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# As in CMakeLists.txt and cmake/architecture.cmake.
OPTIONS = ["-O3", "-DNDEBUG", "-std=c++20", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
OPTIONS += ["-mprefer-vector-width=512", "-DWEFT_FOR_PROCESSOR=1", "-Wno-psabi"]
ARCHITECTURES = ("znver3", "x86-64-v3", "x86-64-v4")
SHAPES = {"box": "", "parallelepiped": "AffineRows", "trilinear": "TrilinearRows", "stored": "StoredRows"}
ARITHMETIC = re.compile(r"v(fn?m(add|sub)|add|sub|mul|div|rcp|sqrt)\w*p[sd]$")


class Instruction(NamedTuple):
    address: int
    name: str
    operands: str


class Loop(NamedTuple):
    first: int
    last: int

    def holds(self, address: int) -> bool:
        return self.first <= address <= self.last


def disassembly(source: Path, shape: str, order: int, real: str, architecture: str) -> list[Instruction]:
    n, vector = order + 1, f"Vec<{real}>"
    begin = f"const SimdElements<{real}>&, std::int64_t,"
    if shape == "box":
        ends = f"Ahead<{real}>&, const {vector}* __restrict__, {vector}* __restrict__"
        function = f"box_planes<{n}, {real}>({begin} {vector}, {vector}, {ends})"
    else:
        ends = f"Ahead<{real}>&, {vector}* __restrict__, {vector}* __restrict__"
        function = f"planes<{n}, {real}, {SHAPES[shape]}<{n}, {real}>>({begin} {ends})"
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / "unit.cpp"
        unit.write_text(
            f'#include "weft/poisson/simd_kernel.hpp"\nnamespace weft::poisson {{\ntemplate void {function};\n}}\n'
        )
        made = unit.with_suffix(".o")
        command = ["g++", *OPTIONS, f"-march={architecture}", f"-I{source}", "-c", str(unit), "-o", str(made)]
        subprocess.run(command, check=True)
        text = subprocess.run(
            ["objdump", "-d", "--no-show-raw-insn", str(made)], check=True, capture_output=True, text=True
        ).stdout
    lines = re.findall(r"^\s*([0-9a-f]+):\s+(\S+)[ \t]*(.*)$", text, re.MULTILINE)
    return [Instruction(int(address, 16), name, operands) for address, name, operands in lines]


def loops_of(code: list[Instruction]) -> list[Loop]:
    """The loops, found by their backward jumps, outer ones first."""
    jumps: dict[int, int] = {}
    for address, name, operands in code:
        target = re.match(r"([0-9a-f]+) <", operands)
        if name.startswith("j") and target and (first := int(target[1], 16)) < address:
            jumps[first] = max(address, jumps.get(first, 0))
    loops = sorted((Loop(*jump) for jump in jumps.items()), key=lambda loop: (loop.first, -loop.last))
    arithmetic = [i.address for i in code if ARITHMETIC.match(i.name)]
    found: list[Loop] = []
    for loop in loops:
        # Code that the compiler moved behind a loop (prefetches) jumps back into it: no loop.
        moved = any(outer.holds(loop.first) and not outer.holds(loop.last) for outer in found)
        if not moved and any(loop.holds(address) for address in arithmetic):
            found.append(loop)
    return found


def counts(source: Path, shape: str, order: int, real: str, architecture: str) -> dict[str, float]:
    """Instructions per point and vector of elements."""
    code = disassembly(source, shape, order, real, architecture)
    loops = loops_of(code)
    n = order + 1
    # The last thing that every block does is the loop over its planes; beyond it are constants and prefetches.
    end = max(loop.last for loop in loops)
    sums = {"instructions": 0.0, "arithmetic": 0.0, "divisions": 0.0, "stack": 0.0, "loads_and_moves": 0.0}
    for address, name, operands in code:
        if address > end or name.startswith("prefetch"):
            continue
        depth = sum(loop.holds(address) for loop in loops)
        times = (1, n, n * n, n * n * (n // 2))[depth] / n**3
        sums["instructions"] += times
        sums["arithmetic"] += times * bool(ARITHMETIC.match(name))
        sums["divisions"] += times * name.startswith("vdiv")
        sums["stack"] += times * bool(re.search(r"\(%r[sb]p", operands))
        sums["loads_and_moves"] += times * bool(re.match(r"v(mov|broadcast)", name))
    return {key: round(value, 1) for key, value in sums.items()}


def least(shape: str, order: int) -> float:
    """Arithmetic instructions per point, with a multiply-add as one: four lines, the sum, and the metric; for boxes two
    lines, and two products, of which one is added to."""
    n = order + 1
    h = n // 2
    line = (2 * h * h if n % 2 == 0 else 2 * h * h + 2 * h) + 4 * h  # by even and odd parts
    if shape == "box":
        return round(2 * (line + n % 2) / n + 2 + 2 / n, 1)
    # Of n points, the middle one has no partner. 35 by row, 132 by plane.
    trilinear = (24.5 * (n - n % 2) + 13 * (n % 2) + 35 + 132 / n) / n
    metric = {"parallelepiped": 12 + 6 / n, "stored": 9.0, "trilinear": trilinear}[shape]
    return round(4 * line / n + 1 + metric, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=ROOT / "cpp", help="folder of weft's headers")
    parser.add_argument("--orders", default="1,2,3,5,7,9,11,15")
    parser.add_argument("--precision", choices=("double", "float"), default="double")
    parser.add_argument("--architectures", default=",".join(ARCHITECTURES))
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    rows = []
    for architecture in given.architectures.split(","):
        for shape in given.shapes.split(","):
            for order in map(int, given.orders.split(",")):
                found = counts(given.source, shape, order, given.precision, architecture)
                head = {"architecture": architecture, "shape": shape, "order": order, "precision": given.precision}
                rows.append({**head, **found, "least_arithmetic": least(shape, order)})
                print(json.dumps(rows[-1]), flush=True)
    if given.output:
        version = subprocess.run(["g++", "--version"], check=True, capture_output=True, text=True).stdout
        what = "instructions per point and vector of elements, in the planes of a block"
        record = {"what": what, "compiler": version.split("\n")[0], "rows": rows}
        given.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
