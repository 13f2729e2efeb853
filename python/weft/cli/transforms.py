"""`weft bench fft`: distributed Fourier transforms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypedDict, Unpack

import click

from weft.cli.communication import ROUNDS, call, effort, words
from weft.cli.options import OUTPUT, Integer, Number, integers, options_of


class Transforms(TypedDict):
    """Options that are passed unchanged to `weft.bench.fft.run`."""

    variables: Annotated[
        int,
        click.option(
            "--variables", default=1, show_default=True, type=Integer(min=1), help="Number of fields per transform."
        ),
    ]
    batch: Annotated[
        int, click.option("--batch", default=1, show_default=True, type=Integer(min=1), help="Fields per message, Q.")
    ]
    exchange: Annotated[
        str,
        click.option(
            "--exchange",
            default="auto",
            show_default=True,
            metavar="SCHEDULE[:PATH]",
            help="Exchange of rows and columns.",
        ),
    ]
    device: Annotated[
        str,
        click.option(
            "--device",
            default="auto",
            show_default=True,
            metavar="auto|host|cuda|hip",
            help="Where the transforms run.",
        ),
    ]


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
@options_of(Transforms)
@ROUNDS
@click.option(
    "--seconds", default=0.05, show_default=True, type=Number(min=0, min_open=True), metavar="S",
    help="Approximate duration of each case per round.",
)  # fmt: skip
@OUTPUT
def fft(
    sizes: str, precisions: str, grids: str, output: Path, rounds: int, seconds: float, **options: Unpack[Transforms]
) -> None:
    """Time the distributed 3-D real transform, forward and backward.

    Prints GFLOP/s (2.5 M log2 M for M points) and the share of the bandwidth bound by size, precision and process grid;
    then times transforms of lines that are not contiguous: strided, by copies, and in panels (GESTS, Table 1). Writes
    fft.json and fft.png. Start it with mpiexec for more than one rank.
    """
    points, of = integers(sizes, "sizes", 2), words(precisions)
    for precision in of:
        if precision not in ("double", "single"):
            raise click.BadParameter(f"found '{precision}', allowed: double, single", param_hint="--precisions")
    if not of:
        raise click.BadParameter("found nothing, allowed: double, single", param_hint="--precisions")

    def measure() -> None:
        from mpi4py import MPI

        from weft.bench.fft import run

        timed = effort(rounds, seconds)
        run(MPI.COMM_WORLD, output, sizes=points, precisions=of, grids=words(grids), effort=timed, **options)

    call(measure)
