"""`weft run maxwell`."""

from __future__ import annotations

from typing import Any

import click

from weft.cli.workload import ELEMENTS, Flag, workload_options

FLAGS: list[Flag] = [
    *ELEMENTS,
    ("--flux", "flux", "upwind|central", "Flux between elements. [default: upwind]"),
    ("--steps", "time.steps", "N", "Time steps. [default: 100]"),
    ("--end", "time.end", "TIME", "Run to this time instead."),
    ("--restart", "initial.checkpoint", "DIR", "Go on from this checkpoint, or from the newest in this folder."),
]


@click.command("maxwell")
@workload_options("maxwell", FLAGS)
def maxwell(case: Any, display: Any) -> int:
    """Electromagnetic waves by discontinuous Galerkin, as NekCEM.

    Leaves a checkpoint on Ctrl-C and SIGTERM. Prints the rate by the paper's Eq. 16, where the time goes by routine,
    and the error where an exact solution is known. Exits with 1 if the fields blow up. Without --case a plane wave in a
    periodic box. Start with mpiexec -n P for P ranks.
    """
    from weft.run.carry_out import carry_out

    return carry_out(case, display)
