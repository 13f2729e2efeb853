"""`weft run turbulence`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from weft.cli.interrupt import stops_by_itself, word
from weft.cli.workload import Flag, carry_out, complain, workload_options

FLAGS: list[Flag] = [
    ("--grid", "grid", "N", "Points along a side, 2^a 3^b 5^c. [default: 64]"),
    ("--steps", "time.steps", "N", "Steps to take. [default: 100]"),
    ("--process-grid", "process_grid", "PRxPC", "Ranks in rows and columns; 1xP: slabs. [default: auto, the fastest]"),
    ("--restart", "initial.checkpoint", "DIR", "Go on from this checkpoint, or from the newest in this folder."),
]


@click.command("turbulence")
@workload_options("turbulence", FLAGS)
def turbulence(case: Any, display: Any) -> int:
    """Turbulence in a periodic box by the Fourier pseudo-spectral method, on slabs or pencils (GESTS).

    Writes statistics as it goes, and a checkpoint on Ctrl-C and SIGTERM. Start with mpiexec -n P for P ranks.
    """
    from mpi4py import MPI

    from weft.bench.turbulence import Interrupted, run

    interrupted: list[Interrupted] = []

    def work(comm: MPI.Intracomm, folder: Path) -> dict[str, Any]:
        try:
            record = run(case, comm, display, folder, asked)
        except Interrupted as stop:
            interrupted.append(stop)
            record = stop.record
        if comm.rank == 0:
            draw(record, folder)
        return record

    with stops_by_itself() as asked:
        carry_out(case, display, work)
    if not interrupted:
        return 0
    stop = interrupted[0]
    where = f"; go on with --restart {stop.checkpoint}" if stop.checkpoint else ""
    complain(MPI.COMM_WORLD.rank, word(stop.number) + where)
    return 128 + stop.number


def draw(record: dict[str, Any], folder: Path) -> None:
    """The plots of a run, as files."""
    from weft.report.plots import save
    from weft.report.turbulence import figures_of

    for _, name, figure in figures_of(record):
        save(figure, folder / f"{name}.png")
