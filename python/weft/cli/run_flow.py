"""`weft run flow`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli.workload import DURATION, ELEMENTS, Flag, WorkloadCommand, workload_options

if TYPE_CHECKING:
    from weft.cases.shared import SharedCase
    from weft.run.record import Display

FLAGS: list[Flag] = [
    *ELEMENTS,
    *DURATION,
    ("--dt", "time.dt", "TIME", "Time step; 0: chosen from the Courant number, time.courant. [default: 0]"),
    ("--restart", "initial.checkpoint", "DIR", "Continue from this checkpoint, or from the newest in this folder."),
]


@click.command("flow", cls=WorkloadCommand)
@workload_options("flow", FLAGS, "taylor-green", ("mesh.file", "boundaries.", "initial.velocity", "initial.nek"))
def flow(case: SharedCase, display: Display) -> int:
    """Incompressible flow on spectral elements, like Nek5000 and Neko.

    Prints the time per step, the iterations of the solves, the time spent in each phase, and the error if the exact
    solution is known. Writes statistics during the run, and a checkpoint on Ctrl-C, SIGTERM or SIGUSR1. Exits with 1 if
    the flow blows up or a solve stalls. Without --case, runs the Taylor-Green vortex, unless a mesh, boundaries or
    initial fields are given. Use mpiexec -n P to run on P ranks.
    """
    from weft.run.carry_out import carry_out

    return carry_out(case, display)
