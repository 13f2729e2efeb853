"""How fast a workload's kernels are by order and by how much of their data the caches hold, from runs of several sizes.

The time per byte is a + b m, where m is the share of the working set that the last-level cache does not hold: a depends
on the order, whose vectors may be full or not, and b, what memory adds, does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import nnls

from weft.model.machine import Machine, missing_share

if TYPE_CHECKING:
    from weft.model.calibrate import Run

LEAST = 0.1  # spread of missing shares from which on caches and memory can be told apart


def working_set(run: Run) -> float:
    """Bytes that a point of the run keeps in memory; 0 if the record does not say."""
    figures = run.evidence.content["figures"]
    total = figures.get("memory")
    known = float(total) / float(figures["points"]) if total is not None else figures.get("memory_bytes_per_point", 0)
    return float(known)


def efficiency(machine: Machine, runs: Sequence[Run], inverse: Sequence[float]) -> dict[str, Any] | None:
    """The table of efficiencies from runs on one rank and one over the efficiency of each.

    None if the runs have one order, and sizes that the cache, as far as it is known, holds alike.
    """
    orders = sorted({int(run.options["order"]) for run in runs})
    per_point = float(np.median([working_set(run) for run in runs]))
    cache = machine.cache_of(1) if per_point > 0 else 0.0
    points = [int(run.options["elements_per_rank"]) * (int(run.options["order"]) + 1) ** 3 for run in runs]
    missing = np.array([missing_share(per_point * n, cache) if cache else 1.0 for n in points])
    apart = float(np.ptp(missing)) >= LEAST
    if len(orders) == 1 and not apart:
        return None
    columns = [np.array([float(run.options["order"] == order) for run in runs]) for order in orders]
    columns += [missing] if apart else []
    found, _ = nnls(np.stack(columns, axis=1) / np.array(inverse)[:, None], np.ones(len(runs)))
    more = float(found[-1]) if apart else 0.0
    if (found[: len(orders)] <= 0).any():
        return None
    return {
        "orders": orders,
        "in_cache": [1 / float(a) for a in found[: len(orders)]],
        "from_memory": [1 / (float(a) + more) for a in found[: len(orders)]],
        "bytes_per_point": per_point or 1.0,
    }
