"""`weft bench fft`: distributed Fourier transforms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from weft.cli.communication import ROUNDS, call, effort, words
from weft.cli.options import OUTPUT, Integer, Number, integers


@click.command()
@click.option("--sizes", default="64,128,256", show_default=True, metavar="LIST", help="Sizes N of N^3 grids.")
@click.option(
    "--precisions", default="double,single", show_default=True, metavar="LIST", help="Precisions among double, single."
)
@click.option(
    "--process-grids",
    "grids",
    default="",
    metavar="LIST",
    help="Process grids Pr x Pc, such as 1x4,2x2. [default: all]",
)
@click.option("--variables", default=1, show_default=True, type=Integer(min=1), help="Number of fields per transform.")
@click.option("--batch", default=1, show_default=True, type=Integer(min=1), help="Fields per message, Q.")
@click.option(
    "--exchange", default="auto", show_default=True, metavar="SCHEDULE[:PATH]", help="Exchange of rows and columns."
)
@click.option(
    "--device", default="auto", show_default=True, metavar="auto|host|cuda|hip", help="Where the transforms run."
)
@ROUNDS
@click.option(
    "--seconds", default=0.05, show_default=True, type=Number(min=0, min_open=True), metavar="S",
    help="Approximate duration of a round of one case.",
)  # fmt: skip
@OUTPUT
def fft(sizes: str, precisions: str, grids: str, output: Path, rounds: int, seconds: float, **options: Any) -> None:
    """Time the distributed 3-D real transform, forward and backward.

    Prints GFLOP/s (2.5 M log2 M for M points) and the share of the bandwidth bound by size, precision and process grid;
    then times transforms of lines that are not contiguous: strided, by copies, and in panels (GESTS, Table 1). Writes
    fft.json and fft.png. Start it with mpiexec for more than one rank.
    """
    asked: dict[str, Any] = {
        "sizes": integers(sizes, "sizes", 2),
        "precisions": words(precisions),
        "grids": words(grids),
    }
    for precision in asked["precisions"]:
        if precision not in ("double", "single"):
            raise click.BadParameter(f"found '{precision}', allowed: double, single", param_hint="--precisions")
    if not asked["precisions"]:
        raise click.BadParameter("found nothing, allowed: double, single", param_hint="--precisions")

    def measure() -> None:
        from mpi4py import MPI

        from weft.bench.fft import run

        run(MPI.COMM_WORLD, output, effort=effort(rounds, seconds), **asked, **options)

    call(measure)
