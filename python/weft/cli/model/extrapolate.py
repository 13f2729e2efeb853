"""`weft model extrapolate`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from weft.cli.bench import integers
from weft.cli.model.shared import FACTOR, JSON, output
from weft.model.result import Table

MOST_RANKS = 10**12  # of a machine that somebody may think of


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN|TRACE|FILE.csv...")
@click.option("--ranks", required=True, metavar="LIST", help="Numbers of ranks to extrapolate to, e.g. 512,4096.")
@click.option(
    "--scaling", type=click.Choice(["strong", "weak"]),
    help="Whether the runs solve the same problem, or one that grows with the ranks. Needed if the runs do not tell.",
)  # fmt: skip
@click.option("--points", type=FACTOR, help="Total number of points. [default: that of the runs, in total or per rank]")
@JSON
def extrapolate(
    runs: tuple[Path, ...],
    ranks: str,
    scaling: Literal["strong", "weak"] | None,
    points: float | None,
    json_file: Path | None,
) -> None:
    """Extrapolate the time of any program to more ranks, from runs on several numbers of ranks or of several sizes.

    Takes run records of weft, traces, and tables: CSV files with the columns ranks, points (if known) and one per term,
    in seconds. The time of each term follows the scaling law that predicts held-out runs best. For traces the time in
    MPI may follow the number and bytes of their messages. At least 3 distinct runs are needed.
    """
    from weft.model import extrapolate as method

    found = method.read(runs)
    made = method.program(method.with_sizes(found, scaling))
    results = []
    for count in integers(ranks, "ranks", 1, MOST_RANKS):
        results += method.results(made, count, points or made.points_at(count))
    output(Table("Extrapolation", results, list(made.notes)), json_file)
