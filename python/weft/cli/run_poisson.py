"""`weft run poisson`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from weft.cli.workload import ELEMENTS, Flag, carry_out, complain, workload_options

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
    from mpi4py import MPI

    from weft.mesh_io.fields import write_fields
    from weft.run.poisson.loop import run
    from weft.run.record import open_folder

    def work(comm: MPI.Intracomm, folder: Path) -> dict[str, Any]:
        record, operator, result = run(case, comm, display)
        open_folder(folder, comm)
        if case.output.fields:
            write_fields(folder / "solution", operator.mesh, case.order, {"u": operator.at_points(result.x)})
        return record

    record = carry_out(case, display, work)
    if record["figures"]["converged"] is not False:
        return 0
    residuals = record["residuals"]
    return complain(
        MPI.COMM_WORLD.rank,
        f"not converged: |r| / |b| = {residuals[-1] / residuals[0]:.3e} after "
        f"{record['figures']['iterations']} iterations, asked for {case.solver.tolerance:g} "
        "(raise solver.max_iterations, or use --preconditioner multigrid)",
    )
