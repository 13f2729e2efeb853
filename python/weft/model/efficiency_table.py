"""How fast a workload's kernels are by order and by how much of their data the caches hold, from runs of several sizes.

The time per byte is a + b m, where m is the share of the data that comes from memory (`caches`). An order whose runs
span less than half of the range of m has its own a, as its vectors may be full or not, and takes b, what memory adds,
from the others: the errors of its runs would weigh more than twice in a b of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import nnls

from weft.model.caches import missing_share
from weft.model.machine import Machine
from weft.model.recorded_run import Run

LEAST = 0.1  # spread of missing shares from which on caches and memory can be told apart
WIDE = 0.5  # and from which on an order needs no help of others


# What an iteration or step does not touch, as a share of the named parts of `memory_bytes`: maps of points that only
# set-up and output follow, the right-hand side, which CG has in its residual, and room for earlier pressures, whose
# number grows from a half to all again and again.
IDLE = {"points to unknowns, on the host": 1.0, "x and b": 0.5, "projection onto earlier pressures": 0.25}


def working_set(run: Run) -> float:
    """Bytes per point that every iteration or step of the run touches; 0 if the record does not say."""
    figures = run.evidence.content["figures"]
    parts = figures.get("memory_bytes")
    if not parts:
        return float(figures.get("memory_bytes_per_point", 0))
    return sum(size * (1 - IDLE.get(part, 0.0)) for part, size in parts.items()) / float(figures["points"])


def efficiency(machine: Machine, runs: Sequence[Run], inverse: Sequence[float]) -> dict[str, Any] | None:
    """The table of efficiencies from runs on one rank and one over the efficiency of each.

    None if the runs have one order, and sizes that the cache, as far as it is known, holds alike.
    """
    orders = sorted({int(run.options["order"]) for run in runs})
    per_point = {n: float(np.median([working_set(r) for r in runs if r.options["order"] == n])) for n in orders}
    cache = machine.cache_of(1) if min(per_point.values()) > 0 else 0.0
    of: dict[int, list[tuple[float, float]]] = {}  # by order: missing share and one over the efficiency
    for run, value in zip(runs, inverse, strict=True):
        order = int(run.options["order"])
        missing = missing_share(run.workload, per_point[order] * run.points, cache)
        of.setdefault(order, []).append((missing, value))
    spread = {order: float(np.ptp([m for m, _ in pairs])) for order, pairs in of.items()}
    least = WIDE if max(spread.values()) >= WIDE else LEAST
    fits = {order: _fit(pairs) for order, pairs in sorted(of.items()) if spread[order] >= least}
    if len(of) == 1 and not fits:
        return None
    more = float(np.mean([b for _, b in fits.values()])) if fits else 0.0
    for order in sorted(set(of) - set(fits)):
        fits[order] = (float(np.median([max(y - more * m, 0.0) for m, y in of[order]])), more)
    if any(a <= 0 for a, _ in fits.values()):
        return None
    return {
        "orders": orders,
        "in_cache": [1 / fits[order][0] for order in orders],
        "from_memory": [1 / sum(fits[order]) for order in orders],
        "bytes_per_point": [per_point[order] or 1.0 for order in orders],
    }


def _fit(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """a and b of y = a + b m, not below zero, by least squares of relative errors."""
    missing, values = np.array(pairs).T
    (a, b), _ = nnls(np.stack([np.ones(len(pairs)), missing], axis=1) / values[:, None], np.ones(len(pairs)))
    return float(a), float(b)
