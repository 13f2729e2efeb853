"""Registers, shared memory and spills of weft's kernels on AMD GPUs, from the metadata of their code objects.

benchmarks/hip_resources.py recorded them for gfx90a and gfx942, without a GPU, in hip_resources.jsonl. There is no
emulator of AMD's machine code, so no rates are predicted.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from weft.model import formulas
from weft.model.kernels import read_record

# Compute units of both: four SIMD units with 512 registers per lane each, which vector and accumulation registers
# share, 8 waves per SIMD unit, 64 KiB of LDS ("AMD Instinct MI200" and "MI300" instruction set architecture guides).
GPUS = {
    "mi250x": ("gfx90a", "AMD Instinct MI250X", formulas.MI250X),
    "mi300x": ("gfx942", "AMD Instinct MI300X", formulas.MI250X),
}


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel per lane (registers), per wave (scalar registers) and per block (LDS)."""

    architecture: str
    kernel: str  # file.name
    real: str  # double or float
    order: int  # 0 if the kernel has none
    tile: int  # elements per block
    vgprs: int  # with accumulation registers
    agprs: int
    sgprs: int
    lds_bytes: int
    scratch_bytes: int  # per lane
    vector_spills: int  # registers
    scalar_spills: int
    threads: int  # per block

    def occupancy(self, gpu: str) -> formulas.Occupancy:
        """The occupancy of a compute unit."""
        return formulas.occupancy(GPUS[gpu][2], self.threads, self.vgprs, self.lds_bytes)


@functools.cache
def recorded() -> tuple[dict[str, Any], list[Resources]]:
    """A description of how the resources were recorded, and the resources."""
    head, lines = read_record("hip_resources.jsonl")
    return head, [Resources(**line) for line in lines]


def select(gpu: str, kernel: str, precision: str, orders: Sequence[int]) -> list[Resources]:
    """The kernels for a GPU whose name contains `kernel`, of one precision, and of some orders."""
    real = {"double": "double", "single": "float"}[precision]
    return [
        r
        for r in recorded()[1]
        if r.architecture == GPUS[gpu][0] and kernel in r.kernel and r.real == real and (r.order or orders[0]) in orders
    ]


def rows(gpu: str, found: Sequence[Resources]) -> list[tuple[str, ...]]:
    """The table: resources and waves per SIMD unit."""
    lines: list[tuple[str, ...]] = [
        ("KERNEL", "N", "REAL", "THREADS", "VGPRS", "OF THEM AGPRS", "SGPRS", "LDS B", "SCRATCH B", "VECTOR SPILLS",
         "SCALAR SPILLS", "WAVES/SIMD", "LIMITED BY")
    ]  # fmt: skip
    for r in found:
        o = r.occupancy(gpu)
        numbers = (r.threads, r.vgprs, r.agprs, r.sgprs, r.lds_bytes, r.scratch_bytes, r.vector_spills, r.scalar_spills)
        waves = f"{o.warps / formulas.MI250X.simds:.3g}"
        lines.append((r.kernel, str(r.order or "-"), r.real, *map(str, numbers), waves, o.limited_by))
    return lines


def as_json(gpu: str, found: Sequence[Resources]) -> dict[str, Any]:
    """The table for a JSON file."""
    architecture, title, _ = GPUS[gpu]
    kernels = [asdict(r) | {"waves_per_simd": r.occupancy(gpu).warps / formulas.MI250X.simds} for r in found]
    return {"gpu": title, "architecture": architecture, "recorded": recorded()[0], "kernels": kernels}
