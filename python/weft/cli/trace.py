"""`weft trace`: summaries, differences and tables of trace files."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import click

from weft.cli.window import takes_window

if TYPE_CHECKING:
    from weft.traces import Window


@click.group()
def trace() -> None:
    """Inspect trace files."""


@trace.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option("--top", default=15, show_default=True, metavar="N", help="Number of event names to list.")
@click.option("--format", "format_", metavar="NAME", help="Format of the file. [default: detected from its content]")
@click.option("--stats", is_flag=True, help="Print statistics per kernel, copy direction and call, as nsys stats does.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON instead of tables.")
@takes_window
def summary(files: tuple[str, ...], top: int, format_: str | None, stats: bool, as_json: bool, window: Window) -> None:
    """Show where the time of a run went.

    Prints the terms of Eq. 3 of the GPU integration report, the exclusive time per category and per event name, and the
    bytes moved. FILE is a trace written by weft or another tool, or a folder with one. Several files, or a folder with
    several, are those of the ranks of one run: their clocks are aligned, and a table compares the ranks.
    docs/traces.md lists the formats.

    With --stats, prints instead the contents of the reports cuda_gpu_kern_sum, cuda_gpu_mem_time_sum,
    cuda_gpu_mem_size_sum and cuda_api_sum of nsys stats, for a trace of any format.
    """
    from weft.report import trace_statistics
    from weft.report.trace import figures, summarise
    from weft.traces import load

    loaded = load(files, format_, window)
    width = shutil.get_terminal_size((100, 24)).columns
    if as_json:
        import json

        click.echo(json.dumps(trace_statistics.statistics(loaded) if stats else figures(loaded, top), indent=2))
    elif stats:
        click.echo(trace_statistics.show(trace_statistics.statistics(loaded), top, width))
        for note in loaded.notes:
            click.echo(f"note: {note}")
    else:
        click.echo(summarise(loaded, top, width))


@trace.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option("--output", "-o", required=True, metavar="CSV", help="File to write; - for standard output.")
@takes_window
def export(files: tuple[str, ...], output: str, window: Window) -> None:
    """Write the events of a trace as a CSV table.

    One row per event, in the order of start times: process, line (thread or stream), kind of the line, start and end in
    ns since the first event, category, name, bytes, peer, correlation and group; -1 where a number is unknown. FILE is
    as for `weft trace summary`.
    """
    from weft.report.trace_table import write
    from weft.traces import load

    loaded = load(files, window=window)
    with click.open_file(output, "w", encoding="utf-8", atomic=output != "-") as file:
        write(loaded, file)
    if output != "-":
        click.echo(f"{output}: {len(loaded):,} events")
        for note in loaded.notes:
            click.echo(f"note: {note}")


@trace.command()
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@click.option(
    "--steps",
    metavar="NAME",
    help="Range that both traces repeat, as for --range; figures are then means per step. "
    "[default: the repeated range that covers most of the time]",
)
@click.option("--top", default=15, show_default=True, metavar="N", help="Number of ranges and of names to list.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON instead of tables.")
@takes_window
def diff(a: str, b: str, steps: str | None, top: int, as_json: bool, window: Window) -> None:
    """Show what got slower from trace A to trace B, and why.

    Compares the terms of Eq. 3, categories, named ranges, and names by their exclusive time and number of calls. Where
    both traces repeat a step, the spread over the steps gives the probability that a change is due to chance.
    """
    from weft.report.trace_diff import figures, show
    from weft.traces import load

    found = figures(load(a, window=window), load(b, window=window), steps, top)
    if as_json:
        import json

        click.echo(json.dumps(found, indent=2))
    else:
        click.echo(show(found))
