"""`weft run maxwell`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from weft.cli.workload import ELEMENTS, Flag, carry_out, complain, workload_options

FLAGS: list[Flag] = [
    *ELEMENTS,
    ("--flux", "flux", "upwind|central", "Flux between elements. [default: upwind]"),
    ("--steps", "time.steps", "N", "Time steps. [default: 100]"),
    ("--end", "time.end", "TIME", "Run to this time instead."),
]


@click.command("maxwell")
@workload_options("maxwell", FLAGS)
def maxwell(case: Any, display: Any) -> int:
    """Electromagnetic waves in time: discontinuous Galerkin on spectral elements, as NekCEM.

    Prints the rate by the paper's Eq. 16, where the time goes by routine, and the error where an exact solution is
    known. Exits with 1 if the fields blow up. Start with mpiexec -n P for P ranks.
    """
    from mpi4py import MPI

    from weft.bench.maxwell import run
    from weft.bench.maxwell_output import write

    def work(comm: MPI.Intracomm, folder: Path) -> dict[str, Any]:
        record, this = run(case, comm, display)
        for path in write(this, folder):
            display.write(f"written     {path}")
        return record

    record = carry_out(case, display, work)
    figures, statistics = record["figures"], record["statistics"]
    if figures["stable"]:
        return 0
    reason = (
        f"the time step {figures['time_step']:.4g} is above the limit {figures['time_step_limit']:.4g}: lower time.dt"
        if figures["courant"] > 1
        else "lower time.courant, or look at the mesh and the materials"
    )
    energy = statistics["electric_energy"][-1] + statistics["magnetic_energy"][-1]
    return complain(
        MPI.COMM_WORLD.rank,
        f"blown up: after step {figures['steps_done']} of {figures['steps']} the fields' energy is {energy:.3e}, above "
        f"{figures['energy_bound'] or 0.0:.3e}, which the scheme keeps ({reason})",
    )
