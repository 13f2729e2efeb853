"""`weft model critical-path`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from weft.cli.model.shared import JSON, output
from weft.cli.window import takes_window
from weft.model.result import Table, exact

if TYPE_CHECKING:
    from weft.traces import Window

_SHOWN = 8


@click.command("critical-path")
@click.argument("run", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@takes_window
@JSON
def critical_path(run: tuple[Path, ...], json_file: Path | None, window: Window) -> None:
    """Chain of host and device work that determines how long a traced run takes.

    RUN is a trace in any format that weft reads, or a folder with one, such as the directory of a run. Several files
    are those of the ranks of one run.
    """
    from weft.model import critical_path as method
    from weft.traces import Category, load

    trace = load(run, window=window)
    found = method.critical_path(trace)
    rule = "longest chain of start and end times"
    inputs = {"events": len(trace), "events on the path": int(found.events.sum())}
    figures = [("critical path", found.length), ("traced run", trace.span)]
    for category in Category:
        mine = int(found.own[trace.category == category].sum())
        figures += [(f"on the path: {category.name}", mine)] if mine else []
    figures += [(f"on the path: {kind}", length) for kind, length in found.between.items() if length]
    times = np.zeros(len(trace.names), dtype=np.int64)
    np.add.at(times, trace.name, found.own)
    longest = np.argsort(-times, kind="stable")[:_SHOWN]
    figures += [(f"longest: {trace.names[i][:60]}", int(times[i])) for i in longest if times[i]]
    results = [exact("critical-path", name, ns * 1e-9, "s", inputs, rule) for name, ns in figures]
    output(Table("Critical path", results, list(trace.notes)), json_file)
