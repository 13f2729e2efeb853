"""`weft run turbulence`."""

from __future__ import annotations

from typing import Any

import click

from weft.cli.workload import Flag, workload_options

FLAGS: list[Flag] = [
    ("--grid", "grid", "N", "Points along a side, 2^a 3^b 5^c. [default: 64]"),
    ("--steps", "time.steps", "N", "Steps to take. [default: 100]"),
    ("--process-grid", "process_grid", "PRxPC", "Ranks in rows and columns; 1xP: slabs. [default: auto (fastest)]"),
    ("--restart", "initial.checkpoint", "DIR", "Go on from this checkpoint, or from the newest in this folder."),
]


@click.command("turbulence")
@workload_options("turbulence", FLAGS)
def turbulence(case: Any, display: Any) -> int:
    """Turbulence in a periodic box by Fourier transforms, as GESTS.

    The pseudo-spectral method on slabs or pencils. Writes statistics as it goes, and a checkpoint on Ctrl-C and
    SIGTERM. Without --case the Taylor-Green vortex. Start with mpiexec -n P for P ranks.
    """
    from weft.run.carry_out import carry_out

    return carry_out(case, display)
