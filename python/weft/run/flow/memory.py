"""A lower bound on the memory of a case of `weft run flow`."""

from __future__ import annotations

from weft.cases.flow import FlowCase
from weft.run import memory


def least_bytes(case: FlowCase, elements: int) -> int:
    """Bytes of the arrays on all ranks.

    They are velocity, pressure, scalars and the explicit terms of all levels of BDFk/EXTk; the pressures on which the
    initial guess is projected; mass matrices; work arrays of a step and of the solves; the index of the points in both
    directions.
    """
    fields = 3 + len(case.scalars)
    vectors = 1 + 2 * case.time.order * fields + case.solver.projection + 12
    unknowns = memory.dofs(case, elements)
    return memory.real_bytes(case) * vectors * unknowns + 4 * (unknowns + memory.points(case, elements))
