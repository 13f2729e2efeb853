"""The memory that a case of `weft run flow` needs at least."""

from __future__ import annotations

from weft.cases.flow import FlowCase
from weft.run import memory


def least_bytes(case: FlowCase, elements: int) -> int:
    """Bytes of the arrays on all ranks.

    Velocity, pressure, scalars and the explicit terms of all levels of BDFk/EXTk; the pressures that the first guess is
    projected on; mass matrices, the work of a step and of the solves; the index of the points in two directions.
    """
    fields = 3 + len(case.scalars)
    vectors = 1 + 2 * case.time.order * fields + case.solver.projection + 12
    unknowns = memory.dofs(case, elements)
    return memory.real_bytes(case) * vectors * unknowns + 4 * (unknowns + memory.points(case, elements))
