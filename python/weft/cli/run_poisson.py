"""`weft run poisson`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli.workload import ELEMENTS, Flag, WorkloadCommand, workload_options

if TYPE_CHECKING:
    from weft.cases.shared import SharedCase
    from weft.run.record import Display

FLAGS: list[Flag] = [
    *ELEMENTS,
    ("--preconditioner", "solver.preconditioner", "none|jacobi|chebyshev|multigrid", "Preconditioner. [default: none]"),
    (
        "--tolerance",
        "solver.tolerance",
        "TOL",
        "Iterate until |r| <= TOL |b| instead of 100 times; fails if not reached.",
    ),
]


@click.command("poisson", cls=WorkloadCommand)
@workload_options("poisson", FLAGS)
def poisson(case: SharedCase, display: Display) -> int:
    """Screened Poisson on spectral elements, like hipBone and Nekbone.

    Runs 100 iterations of conjugate gradients and reports Nekbone's figure of merit. With --tolerance, solves to that
    tolerance and exits with 1 if the solver does not converge. Use mpiexec -n P to run on P ranks.
    """
    from weft.run.carry_out import carry_out

    return carry_out(case, display)
