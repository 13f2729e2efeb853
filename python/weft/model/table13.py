"""The report's Table 13 for anybody's applications: one row each, by the methods of this folder."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def median(column: Sequence[float]) -> float:
    """The median of a column's values."""
    return float(statistics.median(column))


def count_at_least(column: Sequence[float], limit: float, *, strictly: bool = False) -> int:
    """How many values of a column reach `limit`, or with `strictly` exceed it."""
    return sum(x > limit or (x == limit and not strictly) for x in column)
