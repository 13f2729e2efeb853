"""`weft model dag`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from weft.cli.bench import integers
from weft.cli.model.shared import FACTOR, JSON, output
from weft.cli.options import Integer
from weft.model.result import ModelError, Table


@click.command()
@click.argument("matrix", type=click.Path(path_type=Path), required=False)
@click.option("--stencil", metavar="NxNxN", help="Laplacian on a grid of this many points, instead of a matrix file.")
@click.option("--wide", is_flag=True, help="27-point stencil instead of 7 points (in 2-D, 9 instead of 5).")
@click.option(
    "--machine",
    default="summit",
    show_default=True,
    metavar="NAME|FILE",
    help="Machine listed by `weft model machines`, or a description of your own.",
)
@click.option("--gpus", default="1,2,4,6,12,18", show_default=True, metavar="LIST", help="Numbers of GPUs, e.g. 1,2,6.")
@click.option("--gpus-per-node", type=Integer(min=1), help="GPUs per node. [default: as on the machine]")
@click.option(
    "--latency",
    type=FACTOR,
    metavar="US",
    help="Latency of messages between nodes; with --bandwidth replaces the machine's message curve.",
)
@click.option("--bandwidth", type=FACTOR, metavar="GB/s", help="Bandwidth of messages between nodes; needs --latency.")
@click.option(
    "--curve",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="JSON file with a measured curve of messages between nodes: [[bytes, seconds], ...].",
)
@click.option(
    "--widest", type=Integer(min=1), default=128, show_default=True, help="Maximum number of columns per supernode."
)
@click.option("--right-sides", type=Integer(min=1), default=1, show_default=True, help="Number of right-hand sides.")
@JSON
def dag(
    matrix: Path | None, stencil: str | None, wide: bool, machine: str, gpus: str, gpus_per_node: int | None,
    latency: float | None, bandwidth: float | None, curve: Path | None, widest: int, right_sides: int,
    json_file: Path | None,
) -> None:  # fmt: skip
    """Critical path of a sparse triangular solve on several GPUs.

    Factors MATRIX (a Matrix Market file) with SuperLU, finds its supernodes and levels, and distributes the blocks over
    a process grid. The time of a task follows from its bytes and the bandwidth of a thread block (section 8.4), the
    time of a message from the machine's message curve (section 4.1).
    """
    from dataclasses import replace

    from weft.model import dag as method
    from weft.model import machine as machines

    if (matrix is None) == (stencil is None):
        raise click.UsageError("give either a matrix file or --stencil")
    if (latency is None) != (bandwidth is None):
        raise click.UsageError("--latency and --bandwidth must be given together")
    if curve is not None and latency is not None:
        raise click.UsageError("give either --curve or --latency and --bandwidth, not both")
    if matrix is not None:
        found, name = method.read(matrix), matrix.name
    else:
        assert stencil is not None
        try:
            points = [int(p) for p in stencil.split("x")]
        except ValueError:
            hint = f"'{stencil}' is not a grid of points such as 20x20x20"
            raise click.BadParameter(hint, param_hint="--stencil") from None
        found, name = method.stencil(points, wide), f"stencil {stencil}"
    cluster = method.Cluster.of(machines.load(machine))
    if gpus_per_node is not None:
        cluster = replace(cluster, gpus_per_node=gpus_per_node)
    if curve is not None:
        cluster = replace(cluster, network=method.Curve.measured(points_of(curve)))
    elif latency is not None and bandwidth is not None:
        cluster = replace(cluster, network=method.Curve.line(latency * 1e-6, bandwidth * 1e9))
    blocks = method.supernodes(method.factor(found), widest)
    counts = integers(gpus, "gpus", 1)
    results = method.scaling(blocks, counts, cluster, right_sides)
    results += method.questions(blocks, max(counts), cluster, right_sides)
    output(Table(f"triangular solve, {name}, on {machine}", results), json_file)


def points_of(file: Path) -> list[tuple[float, float]]:
    """The (bytes, seconds) pairs that a JSON file lists."""
    try:
        return [(float(size), float(seconds)) for size, seconds in json.loads(file.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        raise ModelError(
            f"{file}: not a message curve; expected JSON of the form [[bytes, seconds], ...] ({error})"
        ) from None
