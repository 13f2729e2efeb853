"""`weft bench`: measurements of single parts, and sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypedDict, Unpack

import click

from weft.cli.communication import alltoall, exchange, pingpong
from weft.cli.options import OUTPUT, Integer, integers, options_of
from weft.cli.scaling import Runs, scaling
from weft.cli.transforms import fft


@click.group()
def bench() -> None:
    """Measure single parts, and sweep workloads."""


for command in (pingpong, exchange, alltoall, fft, scaling):
    bench.add_command(command)


class OperatorOptions(TypedDict):
    """Options that are passed unchanged to `weft.bench.operator.sweep`."""

    dofs: Annotated[
        int | None,
        click.option(
            "--dofs",
            type=Integer(min=8),
            metavar="N",
            help="Approximate number of degrees of freedom. [default: 2 million; on a GPU 40 million, as in the paper]",
        ),
    ]
    device: Annotated[
        str,
        click.option(
            "--device", default="auto", show_default=True, metavar="auto|host|cuda|hip", help="Where the kernels run."
        ),
    ]
    precision: Annotated[
        str,
        click.option(
            "--precision",
            default="double",
            show_default=True,
            type=click.Choice(["double", "single"]),
            help="Floating-point type.",
        ),
    ]
    kernels: Annotated[
        str,
        click.option(
            "--kernels",
            default="auto",
            show_default=True,
            type=click.Choice(["auto", "portable", "simd"]),
            help="The portable kernels, or the host's SIMD kernels.",
        ),
    ]
    repeats: Annotated[
        int,
        click.option(
            "--repeats", default=50, show_default=True, type=Integer(min=1), help="Number of timed applications."
        ),
    ]
    iterations: Annotated[
        int,
        click.option(
            "--cg",
            "iterations",
            default=0,
            show_default=True,
            type=Integer(min=0),
            metavar="ITERATIONS",
            help="Also time this many iterations of conjugate gradients.",
        ),
    ]


@bench.command()
@click.option("--orders", default="1-15", show_default=True, metavar="LIST", help="Polynomial orders, such as 1-4,7.")
@click.option(
    "--geometry", default="stored,trilinear,box", show_default=True, metavar="LIST", help="Geometries to compare."
)
@click.option(
    "--threads", default="auto", show_default=True, metavar="LIST",
    help="Shapes of the portable kernels' thread blocks to compare: points, columns, matrices, or auto.",
)  # fmt: skip
@options_of(OperatorOptions)
@OUTPUT
def operator(orders: str, geometry: str, threads: str, output: Path, **options: Unpack[OperatorOptions]) -> None:
    """Time the Poisson operator alone at each order.

    Compares it with the calibrated roofline (hipBone, Fig. 3). On a GPU it also prints registers, occupancy and
    elements per multiprocessor (Table 1 of the paper). Writes operator.json and operator.png.
    """
    from mpi4py import MPI

    from weft import mpi
    from weft.bench.operator import sweep

    mpi.install_excepthook()
    geometries = names(geometry, "--geometry", ("stored", "trilinear", "box"))
    shapes = names(threads, "--threads", ("auto", "points", "columns", "matrices"))
    sweep(MPI.COMM_WORLD, integers(orders, "orders", 1, 15), geometries, shapes, output, **options)


def names(text: str, option: str, allowed: Sequence[str]) -> list[str]:
    """The names in a comma-separated list."""
    found = [name.strip() for name in text.split(",")]
    for name in found:
        if name not in allowed:
            raise click.BadParameter(f"found '{name}', allowed: {', '.join(allowed)}", param_hint=option)
    return found


@bench.command()
@click.option("--processes", default="1,2", show_default=True, metavar="LIST", help="Numbers of ranks, n_MPI.")
@click.option("--threads", default="1,2", show_default=True, metavar="LIST", help="OpenMP threads per rank, n_OMP.")
@click.option(
    "--repeats", default=3, show_default=True, type=Integer(min=1), help="Number of runs of each combination."
)
@click.option("--oversubscribe", is_flag=True, help="Include combinations with more threads than cores.")
@options_of(Runs)
@OUTPUT
def ratio(
    processes: str, threads: str, repeats: int, oversubscribe: bool, output: Path, **options: Unpack[Runs]
) -> None:
    """Vary ranks and threads of one problem, for 'weft model ratio'.

    The Poisson case is the same for every combination (strong scaling), on all available GPUs. The command
    starts mpiexec itself: do not start it with mpiexec. Writes ratio.json after every run, and prints the fit of
    Eqs. 5 and 6 of the GPU integration report if the runs determine it.
    """
    from weft.bench.ratio import sweep

    counts, each = integers(processes, "processes", 1), integers(threads, "threads", 1)
    sweep(counts, each, output, repeats=repeats, oversubscribe=oversubscribe, **options)
