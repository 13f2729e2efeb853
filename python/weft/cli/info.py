"""`weft info`: what weft found on this machine."""

from __future__ import annotations

import click


@click.command()
@click.option("--no-measure", is_flag=True, help="Skip the bandwidth and peak measurements.")
def info(no_measure: bool) -> None:
    """Show what weft finds on this machine.

    Lists the backends (with the reason if one is missing), whether MPI is GPU-aware, the number of threads, measured
    bandwidth and FMA peak, and versions.
    """
    from mpi4py import MPI

    from weft import mpi
    from weft.format import table
    from weft.run.machine import describe

    mpi.install_excepthook()
    rows = describe(MPI.COMM_WORLD, measure=not no_measure)
    if MPI.COMM_WORLD.rank == 0:
        click.echo(table(rows))
