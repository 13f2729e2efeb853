"""`weft model order`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from weft.cli.model.shared import JSON, RUNS, output
from weft.cli.window import takes_window
from weft.files import write_text
from weft.format import middle
from weft.model.result import Table, exact

if TYPE_CHECKING:
    from weft.model.order import Kernel, Order
    from weft.traces import Window

_SHOWN = 5


@click.command()
@RUNS
@click.option("--kernels", "pattern", metavar="REGEX", help="Only kernels whose names match.")
@click.option(
    "--graph", type=click.Path(path_type=Path), metavar="FILE", help="Also write the graph, to a .json or .dot file."
)
@takes_window
@JSON
def order(
    runs: tuple[Path, ...], pattern: str | None, graph: Path | None, json_file: Path | None, window: Window
) -> None:
    """Dependencies between kernels, inferred from several perturbed runs (section 4.5).

    RUN is a trace or the directory of a run. All runs must launch the same kernels, each with a different kernel
    delayed: in a `weft run` with --trace, WEFT_TRACE_DELAY='NAME#K@S=MS' delays the K-th kernel NAME of stream S by MS
    milliseconds.
    """
    from weft.model import order as method
    from weft.traces import load

    if not runs:
        raise click.UsageError("no input: name the traces of several runs")
    traces = [load(r, window=window) for r in runs]
    found = method.order(traces, pattern)
    n, levels = len(found.kernels), found.levels()
    path, longest = found.critical_path()
    across = int(found.across().sum())
    inputs = {"runs": len(runs), "kernels": n}
    total = float(found.durations.sum())
    figures: list[tuple[str, float, str, str]] = [
        ("streams", int(found.lines().max()) + 1, "", "count"),
        ("dependencies", len(found.edges), "", "transitive reduction of the runs' common order"),
        ("dependencies between streams", across, "", "as above"),
        ("untested dependencies", int((~found.tested).sum()), "", "no run shows the later kernel waiting"),
        ("width", found.width(), "", "Dilworth: n - maximum matching"),
        ("levels", int(levels.max()) + 1, "", "longest chain"),
        ("kernels per level", n / (int(levels.max()) + 1), "", "n / levels"),
        ("concurrent kernels", float(found.running() @ np.arange(len(found.running()))), "", "mean over time"),
        ("time in kernels", total * 1e-9, "s", "sum of median durations"),
        ("critical path", longest * 1e-9, "s", "longest chain of median durations"),
        ("kernels on the critical path", len(path), "", "count"),
        ("possible speed-up", total / longest if longest else 1.0, "", "time in kernels / critical path"),
    ]
    notes = list(dict.fromkeys(n for t in traces for n in t.notes))
    if len(runs) == 1:
        notes.append("a single run cannot tell a dependency from an accident of timing: add runs with delayed kernels")
    untested = found.delays()
    if untested:
        notes.append(f"to test more dependencies, delay {', '.join(map(_short, untested[:_SHOWN]))}")
    results = [exact("order", quantity, value, unit, inputs, rule) for quantity, value, unit, rule in figures]
    output(Table("Order of kernels", results, notes), json_file)
    if graph is not None:
        write_text(graph, _dot(found) if graph.suffix == ".dot" else _json(found, levels, path))
        click.echo(f"wrote {graph}")


def _short(kernel: Kernel) -> str:
    return str(replace(kernel, name=middle(kernel.name)))


def _json(found: Order, levels: np.ndarray, path: list[int]) -> str:
    on_path = set(path)
    nodes = [
        {"process": k.process, "stream": k.stream, "name": k.name, "number": k.number, "level": int(level),
         "median_seconds": float(d) * 1e-9, "critical": i in on_path}
        for i, (k, level, d) in enumerate(zip(found.kernels, levels, found.durations, strict=True))
    ]  # fmt: skip
    edges = [{"before": int(a), "after": int(b), "tested": bool(t)}
             for (a, b), t in zip(found.edges, found.tested, strict=True)]  # fmt: skip
    return json.dumps({"kernels": nodes, "edges": edges}, indent=1) + "\n"


def _dot(found: Order) -> str:
    lines = ["digraph order {"]
    for i, k in enumerate(found.kernels):
        label = f"{k.name}#{k.number}\\n{k.stream}".replace('"', "'")
        lines.append(f'  k{i} [label="{label}"];')
    for (a, b), tested in zip(found.edges, found.tested, strict=True):
        lines.append(f"  k{a} -> k{b}{'' if tested else ' [style=dashed]'};")
    return "\n".join([*lines, "}"]) + "\n"
