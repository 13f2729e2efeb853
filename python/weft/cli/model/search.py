"""`weft model search`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.model.project import WORKLOADS
from weft.cli.options import Integer
from weft.files import write_json

if TYPE_CHECKING:
    from weft.model.search import Configuration, Found


@click.command()
@click.argument("workload", type=click.Choice(WORKLOADS))
@click.option(
    "--machines", default="frontier,summit", show_default=True, metavar="LIST",
    help="Machines listed by `weft model machines`, or .toml files of your own, separated by commas.",
)  # fmt: skip
@click.option("--grid", type=Integer(min=2), help="Grid points per direction (turbulence).")
@click.option("--elements", type=Integer(min=1), help="Elements of the whole mesh (all but turbulence).")
@click.option("--order", type=Integer(1, 32), help="Polynomial order (all but turbulence). [default: 7]")
@click.option(
    "--precision", type=click.Choice(["double", "single"]),
    help="Floating-point type. [default: double; single for turbulence]",
)  # fmt: skip
@click.option(
    "--at-most", type=(Integer(min=1), click.Choice(["nodes", "ranks"])), metavar="N nodes|ranks",
    help="Largest job on each machine. [default: the whole machine]",
)  # fmt: skip
@click.option("--best", default=10, show_default=True, type=Integer(min=1), help="Number of rows to print.")
@click.option(
    "--plot", default="search.png", show_default=True, type=click.Path(path_type=Path), metavar="FILE",
    help="Plot to write: time against nodes, node-hours against time.",
)  # fmt: skip
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="FILE",
    help="Also write all configurations to FILE.",
)  # fmt: skip
def search(
    workload: str,
    machines: str,
    grid: int | None,
    elements: int | None,
    order: int | None,
    precision: str | None,
    at_most: tuple[int, str] | None,
    best: int,
    plot: Path,
    json_file: Path | None,
) -> None:
    """Find the fastest and the cheapest ways to run a problem, over machines, nodes and everything a user can choose.

    For turbulence, tries all process grids that give every rank bricks of the same size, and batches of 1 to 4 fields;
    for the other workloads, numbers of ranks in steps of at most 3/2, both paths and both schedules of the exchange.
    Configurations that do not fit into the memory of the devices are left out and counted. Prints the fastest
    configuration for each machine and number of nodes, the node-hours of 1000 steps or iterations, and the resource
    that shortens the time most if it is twice as fast. No other configuration beats a row marked * in both time and
    node-hours.
    """
    from weft.model import machine as described
    from weft.model import search as method
    from weft.report.search_plots import time_and_cost

    size = {"grid": grid} if workload == "turbulence" else {"elements": elements, "order": order or 7}
    given = {"grid": grid, "elements": elements, "order": order}
    foreign = [name for name, value in given.items() if value is not None and name not in size]
    if foreign:
        takes = " and ".join(f"--{name}" for name in size)
        raise click.UsageError(f"--{foreign[0]} does not apply to {workload}, which takes {takes}")
    missing = [name for name, value in size.items() if value is None]
    if missing:
        raise click.UsageError(f"{workload} needs --{missing[0]}")
    number, unit = at_most or (None, "nodes")
    found = method.search(
        workload, [described.load(name.strip()) for name in machines.split(",")],
        most_nodes=number if unit == "nodes" else None, most_ranks=number if unit == "ranks" else None,
        precision=precision, **{name: value for name, value in size.items() if value is not None},
    )  # fmt: skip
    click.echo(_table(found, best))
    click.echo(
        f"{found.tried:,} configurations: {len(found.fitting):,} fit into the memory of the devices, "
        f"{found.too_large:,} do not and were left out"
    )
    title = f"{workload}, " + ", ".join(f"{name} {value:,}" for name, value in size.items() if value is not None)
    time_and_cost(found, title, plot)
    click.echo(f"wrote {plot}")
    if json_file is not None:
        write_json(json_file, [_json(c) for c in found.fitting])
        click.echo(f"wrote {json_file}")


def _table(found: Found, best: int) -> str:
    from weft.format import table
    from weft.model import search as method
    from weft.model.result import number, with_unit

    shown = found.fastest(best)
    front = {id(c) for c in found.front()}
    of = shown[0].projection.unit
    rows = [
        ("", "MACHINE", "NODES", "RANKS", "CONFIGURATION", f"TIME PER {of.upper()}", "RANGE",
         f"NODE-HOURS PER {method.STEPS:,} {of.upper()}S", "LIMITED BY (GAIN IF TWICE AS FAST)"),
    ]  # fmt: skip
    for c, (resource, gain) in zip(shown, method.limits(shown), strict=True):
        low, high = method.with_range(c)
        rows.append(
            ("*" if id(c) in front else "", c.machine.title, f"{c.nodes:,}", f"{c.ranks:,}", c.text,
             with_unit(c.seconds, "s"), f"{with_unit(low, 's')} to {with_unit(high, 's')}", number(c.node_hours),
             f"{resource} ({100 * gain:.0f} %)")
        )  # fmt: skip
    return table(rows)


def _json(c: Configuration) -> dict[str, object]:
    return {
        "machine": c.machine.title, "nodes": c.nodes, "ranks": c.ranks, **c.options,
        "precision": c.projection.precision, "seconds": c.seconds, "phases": c.projection.phases,
        "node_hours_per_1000": c.node_hours,
    }  # fmt: skip
