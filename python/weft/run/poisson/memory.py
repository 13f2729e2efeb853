"""A lower bound on the memory of a case of `weft run poisson`."""

from __future__ import annotations

from weft.cases.poisson import PoissonCase
from weft.run import memory


def least_bytes(case: PoissonCase, elements: int) -> int:
    """Bytes of the arrays on all ranks: x, b, r, p and A p, and the index of the points in both directions."""
    unknowns, points = memory.dofs(case, elements), memory.points(case, elements)
    if case.storage == "scattered":
        unknowns = points
    factors = 6 * memory.real_bytes(case) * points if case.geometry == "stored" else 0
    return 5 * memory.real_bytes(case) * unknowns + 4 * (unknowns + points) + factors
