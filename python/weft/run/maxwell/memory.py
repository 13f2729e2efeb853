"""A lower bound on the memory of a case of `weft run maxwell`."""

from __future__ import annotations

from weft.cases.maxwell import MaxwellCase
from weft.run import memory


def least_bytes(case: MaxwellCase, elements: int) -> int:
    """Bytes of the arrays on all ranks: six fields and their residuals, and their traces on the six faces."""
    traces = 6 * 6 * elements * (case.order + 1) ** 2
    return memory.real_bytes(case) * (12 * memory.points(case, elements) + traces)
