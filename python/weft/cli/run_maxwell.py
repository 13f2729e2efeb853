"""`weft run maxwell`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli.workload import DURATION, ELEMENTS, Flag, WorkloadCommand, workload_options

if TYPE_CHECKING:
    from weft.cases.shared import SharedCase
    from weft.run.record import Display

FLAGS: list[Flag] = [
    *ELEMENTS,
    ("--flux", "flux", "upwind|central", "Flux between elements. [default: upwind]"),
    *DURATION,
    ("--restart", "initial.checkpoint", "DIR", "Continue from this checkpoint, or from the newest in this folder."),
]


@click.command("maxwell", cls=WorkloadCommand)
@workload_options("maxwell", FLAGS)
def maxwell(case: SharedCase, display: Display) -> int:
    """Electromagnetic waves by discontinuous Galerkin, like NekCEM.

    Prints the rate (Eq. 16 of the NekCEM paper), the time spent in each routine, and the error if the exact solution
    is known. Writes a checkpoint on Ctrl-C, SIGTERM or SIGUSR1. Exits with 1 if the fields blow up. Without --case,
    runs a plane wave in a periodic box. Use mpiexec -n P to run on P ranks.
    """
    from weft.run.carry_out import carry_out

    return carry_out(case, display)
