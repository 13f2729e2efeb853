"""`weft run WORKLOAD`: a case, from files and options, and the directory it leaves behind. One file a workload."""

from __future__ import annotations

import click

from weft.cli.lazy import LazyGroup

WORKLOADS = {
    "flow": ("weft.cli.run_flow:flow", "Incompressible flow on spectral elements, as Nek5000, Neko."),
    "maxwell": ("weft.cli.run_maxwell:maxwell", "Electromagnetic waves by discontinuous Galerkin, as NekCEM."),
    "poisson": ("weft.cli.run_poisson:poisson", "Screened Poisson on spectral elements, as hipBone, NekBone."),
    "turbulence": (
        "weft.cli.run_turbulence:turbulence",
        "Turbulence in a periodic box by Fourier transforms, as GESTS.",
    ),
}


@click.group(cls=LazyGroup, places=WORKLOADS)
def run() -> None:
    """Run a workload.

    Each leaves a folder with run.json and plots, which 'weft report' shows. 'weft cases WORKLOAD' lists every key of a
    case. Start with mpiexec -n P for P ranks.
    """
