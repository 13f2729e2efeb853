"""`weft run poisson`."""

from __future__ import annotations

from typing import Any

import click

from weft.cli.workload import ELEMENTS, Flag, workload_options

FLAGS: list[Flag] = [
    *ELEMENTS,
    ("--preconditioner", "solver.preconditioner", "none|jacobi|chebyshev|multigrid", "Preconditioner. [default: none]"),
    (
        "--tolerance",
        "solver.tolerance",
        "TOL",
        "Solve to |r| <= TOL |b|, not 100 iterations; fails if not reached.",
    ),
]


@click.command("poisson")
@workload_options("poisson", FLAGS)
def poisson(case: Any, display: Any) -> int:
    """Screened Poisson on spectral elements, as hipBone, NekBone.

    Runs 100 iterations of conjugate gradients and reports NekBone's figure of merit; with --tolerance it solves, and
    exits with 1 if it does not converge. Start with mpiexec -n P for P ranks.
    """
    from weft.run.carry_out import carry_out

    return carry_out(case, display)
