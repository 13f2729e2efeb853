"""An upper bound on the speed of the Poisson operator's SIMD kernels, from their instructions.

benchmarks/instruction_mix.py has counted the instructions of every kernel, per point and vector of elements, in double
precision, and has written instructions.jsonl next to this file. A core can start only so many of each class per cycle.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weft.model.processors import Core

RECORD = Path(__file__).with_name("instructions.jsonl")
Mix = dict[str, float]  # instructions per point and vector of elements, by class


@dataclass(frozen=True)
class Kernel:
    """A kernel that was counted."""

    vectors: str  # avx512 or avx2
    order: int
    shape: str  # shape of its elements: box, parallelepiped (any other), trilinear or stored
    work: str  # operator, or merged: an iteration of merged CG
    access: str  # access to surface points, as `weft.Poisson.choices` names it


@functools.cache
def recorded() -> dict[Kernel, Mix]:
    """All counts."""
    found = {}
    for line in RECORD.read_text().splitlines():
        row = json.loads(line)
        kernel = Kernel(*(row.pop(key) for key in Kernel.__dataclass_fields__))
        del row["precision"]
        found[kernel] = row
    return found


def combined(mixes: Mapping[Kernel, Mix], kernel: Kernel) -> Mix | None:
    """The mix of a kernel of a counted order.

    The shape affects only arithmetic, and access and work affect everything else, so the differences add up.
    """

    def of(shape: str, work: str, access: str) -> Mix | None:
        return mixes.get(Kernel(kernel.vectors, kernel.order, shape, work, access))

    base = of("parallelepiped", "operator", "gather")
    parts = [
        of(kernel.shape, "operator", "gather"),
        of("parallelepiped", kernel.work, "gather"),
        of("parallelepiped", "operator", kernel.access),
    ]
    if base is None or None in parts:
        return None
    found: Mix = {}
    for key in sorted({key for part in parts if part for key in part}):
        total = sum(part.get(key, 0.0) for part in parts if part)
        found[key] = max(0.0, total - 2 * base.get(key, 0.0))
    return found


def mix(kernel: Kernel, mixes: Mapping[Kernel, Mix] | None = None) -> Mix | None:
    """The mix of a kernel, between orders that were counted by interpolation; None beyond them."""
    mixes = recorded() if mixes is None else mixes
    orders = sorted({k.order for k in mixes if (k.vectors, k.shape) == (kernel.vectors, kernel.shape)})
    below = max((n for n in orders if n <= kernel.order), default=None)
    above = min((n for n in orders if n >= kernel.order), default=None)
    if below is None or above is None:
        return None

    def at(order: int) -> Mix | None:
        return combined(mixes, Kernel(kernel.vectors, order, kernel.shape, kernel.work, kernel.access))

    low, high = at(below), at(above)
    if low is None or high is None:
        return None
    share = 0.0 if above == below else (kernel.order - below) / (above - below)
    return {key: (1 - share) * low.get(key, 0.0) + share * high.get(key, 0.0) for key in sorted({*low, *high})}


def cycles(core: Core, mix: Mapping[str, float]) -> dict[str, float]:
    """Lower bounds on the cycles that a core needs for a mix, by limiting resource; the largest one holds."""
    gathers, scatters = mix.get("gather", 0.0), mix.get("scatter", 0.0)
    products, additions = mix.get("multiply", 0.0), mix.get("add", 0.0)
    shuffles, divisions = mix.get("shuffle", 0.0), mix.get("divide", 0.0)
    slots = mix["slots"] - gathers - scatters + gathers * core.gather_slots + scatters * core.scatter_slots
    return {
        "instructions entering": slots / core.slots,
        "multiply-adds": products / core.products,
        "additions": additions / core.additions,
        "vector operations": (products + additions + shuffles + divisions + mix.get("vector", 0.0)) / core.operations,
        "shuffles": shuffles / core.shuffles,
        "divisions": divisions * core.division,
        "loads": mix.get("load", 0.0) / core.loads + gathers * core.gather,
        "stores": mix.get("store", 0.0) / core.stores + scatters * core.scatter,
    }
