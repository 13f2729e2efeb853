"""`weft run maxwell`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from weft.cli.workload import ELEMENTS, Flag, carry_out, complain, save_plots, workload_options

FLAGS: list[Flag] = [
    *ELEMENTS,
    ("--flux", "flux", "upwind|central", "Flux between elements. [default: upwind]"),
    ("--steps", "time.steps", "N", "Time steps. [default: 100]"),
    ("--end", "time.end", "TIME", "Run to this time instead."),
]


@click.command("maxwell")
@workload_options("maxwell", FLAGS)
def maxwell(case: Any, display: Any) -> int:
    """Electromagnetic waves by discontinuous Galerkin, as NekCEM.

    Prints the rate by the paper's Eq. 16, where the time goes by routine, and the error where an exact solution is
    known. Exits with 1 if the fields blow up. Without --case a plane wave in a periodic box. Start with mpiexec -n P
    for P ranks.
    """
    from mpi4py import MPI

    from weft.run.maxwell.loop import run
    from weft.run.maxwell.output import write
    from weft.run.record import open_folder

    def work(comm: MPI.Intracomm, folder: Path) -> dict[str, Any]:
        record, this = run(case, comm, display)
        open_folder(folder, comm)
        if record["figures"]["stable"]:
            for path in write(this, folder):
                display.write(f"written     {path}")
        return record

    record = carry_out(case, display, work)
    save_plots(case, record)
    figures = record["figures"]
    return 0 if figures["stable"] else complain(MPI.COMM_WORLD.rank, figures["unstable"])
