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
@click.option("--stencil", metavar="NxNxN", help="Instead of a file: the Laplacian of so many points.")
@click.option("--wide", is_flag=True, help="27 (9) points instead of 7 (5).")
@click.option("--machine", default="summit", show_default=True, metavar="NAME|FILE", help="As `weft model machines`.")
@click.option("--gpus", default="1,2,4,6,12,18", show_default=True, metavar="LIST", help="GPUs, as 1,2,6.")
@click.option("--gpus-per-node", type=Integer(min=1), help="Instead of the machine's.")
@click.option("--latency", type=FACTOR, metavar="US", help="Of messages between nodes, instead of the machine's curve.")
@click.option("--bandwidth", type=FACTOR, metavar="GB/s", help="Of messages between nodes; with --latency.")
@click.option(
    "--curve",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Measured, between nodes: [[bytes, seconds], ...].",
)
@click.option("--widest", type=Integer(min=1), default=128, show_default=True, help="Columns of a supernode.")
@click.option("--right-sides", type=Integer(min=1), default=1, show_default=True, help="Right-hand sides.")
@JSON
def dag(
    matrix: Path | None, stencil: str | None, wide: bool, machine: str, gpus: str, gpus_per_node: int | None,
    latency: float | None, bandwidth: float | None, curve: Path | None, widest: int, right_sides: int,
    json_file: Path | None,
) -> None:  # fmt: skip
    """Critical path of a sparse triangular solve over several GPUs.

    Factors a matrix (Matrix Market) with SuperLU, finds supernodes and levels, deals blocks out over a process grid;
    time from bytes, bandwidth a block (section 8.4 of the report) and the machine's message curve (section 4.1).
    """
    from dataclasses import replace

    from weft.model import dag as method
    from weft.model import machine as machines

    if (matrix is None) == (stencil is None):
        raise click.UsageError("give a matrix or --stencil, one of them")
    if (latency is None) != (bandwidth is None):
        raise click.UsageError("--latency and --bandwidth go together")
    if curve is not None and latency is not None:
        raise click.UsageError("give --curve, or --latency and --bandwidth")
    if matrix is not None:
        found, name = method.read(matrix), matrix.name
    else:
        assert stencil is not None
        try:
            points = [int(p) for p in stencil.split("x")]
        except ValueError:
            raise click.BadParameter(f"found '{stencil}', allowed: as 20x20x20", param_hint="--stencil") from None
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
    """(bytes, seconds) of a file that holds a list of such pairs."""
    try:
        return [(float(size), float(seconds)) for size, seconds in json.loads(file.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        raise ModelError(f"{file}: not a message curve, [[bytes, seconds], ...] in JSON ({error})") from None
