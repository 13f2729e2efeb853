"""`weft run flow`."""

from __future__ import annotations

from typing import Any

import click

from weft.cli.workload import ELEMENTS, Flag, workload_options

FLAGS: list[Flag] = [
    *ELEMENTS,
    ("--steps", "time.steps", "N", "Time steps. [default: 100]"),
    ("--end", "time.end", "TIME", "Run to this time instead."),
    ("--dt", "time.dt", "TIME", "Length of a step; 0: from the Courant number time.courant. [default: 0]"),
    ("--restart", "initial.checkpoint", "DIR", "Go on from this checkpoint, or from the newest in this folder."),
]


@click.command("flow")
@workload_options("flow", FLAGS, "taylor-green", ("mesh.file", "boundaries.", "initial.velocity", "initial.nek"))
def flow(case: Any, display: Any) -> int:
    """Incompressible flow on spectral elements, as Nek5000, Neko.

    Writes statistics as it goes, and a checkpoint on Ctrl-C and SIGTERM. Prints the time of a step, the solves'
    iterations, where the time goes by phase, and the error where an exact solution is known. Exits with 1 if the flow
    blows up or a solve stalls. Without --case the Taylor-Green vortex, unless a
    mesh, boundaries or initial fields are given. Start with mpiexec -n P for P ranks.
    """
    from weft.run.carry_out import carry_out

    return carry_out(case, display)
