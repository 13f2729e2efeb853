"""`weft run WORKLOAD`: runs a case given by files and options. The command of each workload is in its own file."""

from __future__ import annotations

import click

from weft.cli.lazy import LazyGroup

WORKLOADS = {
    "flow": ("weft.cli.run_flow:flow", "Incompressible flow on spectral elements, like Nek5000 and Neko."),
    "maxwell": ("weft.cli.run_maxwell:maxwell", "Electromagnetic waves by discontinuous Galerkin, like NekCEM."),
    "poisson": ("weft.cli.run_poisson:poisson", "Screened Poisson on spectral elements, like hipBone and Nekbone."),
    "turbulence": (
        "weft.cli.run_turbulence:turbulence",
        "Turbulence in a periodic box by Fourier transforms, like GESTS.",
    ),
}


@click.group(cls=LazyGroup, places=WORKLOADS)
def run() -> None:
    """Run a workload.

    Each run writes a folder with run.json and plots, which 'weft report' shows. 'weft cases WORKLOAD' lists every key
    of a case. Use mpiexec -n P to run on P ranks.
    """
