"""Scaling efficiencies, as defined in the papers whose tables weft recomputes."""

from __future__ import annotations

import math

from weft.model.result import ModelError, require_positive


def fft_work(grid: int, ranks: float) -> float:
    """The work per rank as GESTS counts it for weak scaling (section 4.2): N^3 log2 N / P, without a unit."""
    require_positive(grid=grid, ranks=ranks)
    if grid < 2:
        raise ModelError(f"grid is {grid}, but must be at least 2 points per direction")
    return grid**3 * math.log2(grid) / ranks


def weak(seconds: float, work: float, reference_seconds: float, reference_work: float) -> float:
    """Weak-scaling efficiency: work per rank and second, relative to the reference."""
    require_positive(seconds=seconds, work=work, reference_seconds=reference_seconds, reference_work=reference_work)
    return work / seconds / (reference_work / reference_seconds)


def strong(seconds: float, ranks: float, reference_seconds: float, reference_ranks: float) -> float:
    """Strong-scaling efficiency: seconds x ranks of the reference, over seconds x ranks."""
    require_positive(seconds=seconds, ranks=ranks, reference_seconds=reference_seconds, reference_ranks=reference_ranks)
    return reference_seconds * reference_ranks / (seconds * ranks)


def grid_points_rate(grid: int, seconds: float) -> float:
    """GESTS's figure of merit chi = N^3 / T (section 4.2), in points per second."""
    require_positive(grid=grid, seconds=seconds)
    return grid**3 / seconds


def peer_message(grid: int, ranks: int, members: int, batch: int = 1) -> float:
    """Bytes that one rank sends to another in an all-to-all of `members` ranks, in single precision (GESTS 4.3)."""
    require_positive(grid=grid, ranks=ranks, members=members, batch=batch)
    return 4.0 * batch * grid**3 / (ranks * members)
