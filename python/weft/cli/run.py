"""`weft run WORKLOAD`: a case, from files and options, and the directory it leaves behind. One file a workload."""

from __future__ import annotations

import click

from weft.cli.run_flow import flow
from weft.cli.run_maxwell import maxwell
from weft.cli.run_poisson import poisson
from weft.cli.run_turbulence import turbulence


@click.group()
def run() -> None:
    """Run a workload.

    Each leaves a folder with run.json and plots, which 'weft report' shows. 'weft cases WORKLOAD' lists every key of a
    case. Start with mpiexec -n P for P ranks.
    """


run.add_command(poisson)
run.add_command(maxwell)
run.add_command(turbulence)
run.add_command(flow)
