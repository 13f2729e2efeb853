"""`weft run turbulence`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli.workload import DURATION, Flag, WorkloadCommand, workload_options

if TYPE_CHECKING:
    from weft.cases.shared import SharedCase
    from weft.run.record import Display

FLAGS: list[Flag] = [
    ("--grid", "grid", "N", "Grid points per side, of the form 2^a 3^b 5^c 7^d. [default: 64]"),
    *DURATION,
    ("--process-grid", "process_grid", "PRxPC", "Grid of ranks, rows x columns; 1xP: slabs. [default: auto (fastest)]"),
    ("--restart", "initial.checkpoint", "DIR", "Continue from this checkpoint, or from the newest in this folder."),
]


@click.command("turbulence", cls=WorkloadCommand)
@workload_options("turbulence", FLAGS)
def turbulence(case: SharedCase, display: Display) -> int:
    """Turbulence in a periodic box by Fourier transforms, like GESTS.

    Uses the pseudo-spectral method on slabs or pencils. Writes statistics during the run, and a checkpoint on
    Ctrl-C, SIGTERM or SIGUSR1. Without --case, runs the Taylor-Green vortex. Use mpiexec -n P to run on P ranks.
    """
    from weft.run.carry_out import carry_out

    return carry_out(case, display)
