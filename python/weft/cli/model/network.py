"""`weft model network`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.model.shared import FACTOR, JSON, output
from weft.cli.options import Integer, Number
from weft.cli.window import takes_window
from weft.model.result import Table

if TYPE_CHECKING:
    from weft.traces import Window

PATTERNS = ("ping-pong", "ring", "gather-scatter", "transpose")


@click.command()
@click.argument("trace", nargs=-1, metavar="[TRACE]...", type=click.Path(path_type=Path))
@click.option(
    "--pattern",
    metavar="NAME",
    help="Communication pattern instead of a trace: ping-pong, ring, gather-scatter, transpose, or a collective.",
)
@click.option("--ranks", type=Integer(min=1), default=16, show_default=True, help="Ranks of the pattern.")
@click.option("--bytes", "size", type=FACTOR, default=1e6, show_default=True, help="Bytes per message of the pattern.")
@click.option(
    "--grid", type=Integer(min=2), default=256, show_default=True, help="Grid points per direction (transpose)."
)
@click.option("--rows", type=Integer(min=1), default=1, show_default=True, help="Rows of the process grid (transpose).")
@click.option("--order", type=Integer(1, 32), default=7, show_default=True, help="Polynomial order (gather-scatter).")
@click.option(
    "--elements",
    type=Integer(min=1),
    default=8,
    show_default=True,
    help="Elements per direction and rank (gather-scatter).",
)
@click.option(
    "--machine",
    metavar="NAME|FILE",
    help="Machine listed by `weft model machines`, or a description of your own; replaces the options below.",
)
@click.option(
    "--topology",
    "kind",
    default="full",
    show_default=True,
    metavar="NAME",
    help="Network topology: full, torus, fat-tree or dragonfly.",
)
@click.option(
    "--sizes",
    metavar="NxN..",
    help="Sizes of the topology. full: nodes; torus: routers per direction; fat-tree: nodes per leaf x leaves x taper; "
    "dragonfly: groups x nodes per group x links between two groups. [default: just large enough]",
)
@click.option("--bandwidth", type=FACTOR, default=25.0, show_default=True, metavar="GB/s", help="Bandwidth per link.")
@click.option(
    "--latency", type=Number(min=0), default=2.0, show_default=True, metavar="US", help="Latency per message."
)
@click.option("--hop", type=Number(min=0), default=0.0, show_default=True, metavar="US", help="Extra latency per link.")
@click.option(
    "--overhead",
    type=Number(min=0),
    metavar="NS",
    help="Processor time per byte that a process of the trace receives (TCP). [default: as on the machine, or none]",
)
@click.option("--ranks-per-node", type=Integer(min=1), default=1, show_default=True, help="Ranks per node.")
@click.option("--no-compute", is_flag=True, help="Ignore the computation between the MPI calls of the trace.")
@takes_window
@JSON
def network(
    trace: tuple[Path, ...], pattern: str | None, ranks: int, size: float, grid: int, rows: int, order: int,
    elements: int, machine: str | None, kind: str, sizes: str | None, bandwidth: float, latency: float, hop: float,
    overhead: float | None, ranks_per_node: int, no_compute: bool, window: Window, json_file: Path | None,
) -> None:  # fmt: skip
    """Simulate the network traffic of a trace's MPI calls, or of a communication pattern.

    TRACE is one trace, or the traces of the ranks of one run. Routes are static, and messages that share a link share
    its bandwidth max-min fairly.
    """
    from weft import traces
    from weft.model import machine as machines
    from weft.model import network as method
    from weft.model.unsized import unsized

    if (not trace) == (pattern is None):
        raise click.UsageError("give either a trace or --pattern")
    if overhead is not None and not trace:
        raise click.UsageError("--overhead applies to the processes of a trace, not to a pattern: give a trace")
    if window and not trace:
        raise click.UsageError("a pattern has no events to cut: give a trace")
    notes: list[str] = []
    if trace:
        loaded = traces.load(trace, window=window)
        notes += loaded.notes
        described = machines.load(machine) if machine is not None else None
        own = described.links.network.busy(1.0) if described is not None else 0.0
        own = own if overhead is None else overhead * 1e-9
        name, graph = Path(loaded.path).name, method.of_trace(loaded, not no_compute, own)
        if graph.ranks == 1:
            notes.append("the trace has one rank only and so no messages; give the traces of all ranks")
        else:
            notes += unsized(loaded)
    elif pattern == "ping-pong":
        name, graph = f"{pattern}, {ranks} ranks", method.ping_pong(ranks, size)
    elif pattern == "ring":
        name, graph = f"{pattern}, {ranks} ranks", method.ring(ranks, size)
    elif pattern == "gather-scatter":
        name, graph = f"{pattern}, {ranks} ranks", method.gather_scatter(ranks, (elements,) * 3, order)
    elif pattern == "transpose":
        name, graph = f"{pattern} of {grid}^3 points, {ranks} ranks", method.transpose(ranks, grid, rows)
    elif pattern in method.COLLECTIVES:
        name, graph = f"{pattern}, {ranks} ranks", method.collective(pattern, ranks, size)
    else:
        allowed = ", ".join((*PATTERNS, *method.COLLECTIVES))
        raise click.BadParameter(f"unknown pattern '{pattern}'; known: {allowed}", param_hint="--pattern")
    if machine is not None:
        on = method.Network.of(machines.load(machine))
    else:
        try:
            given = tuple(int(s) for s in sizes.split("x")) if sizes else None
        except ValueError:
            raise click.BadParameter(f"'{sizes}' is not a list of sizes such as 4x4x4", param_hint="--sizes") from None
        chosen = given or method.default_sizes(kind, -(-graph.ranks // ranks_per_node))
        made = method.topology(kind, chosen)
        on = method.Network(made, bandwidth * 1e9, latency * 1e-6, hop * 1e-6, ranks_per_node)
    output(Table(f"Network replay, {on.topology.kind} topology", method.results(graph, on, name), notes), json_file)
