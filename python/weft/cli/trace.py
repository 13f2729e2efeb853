"""`weft trace`: what a trace file says."""

from __future__ import annotations

import click


@click.group()
def trace() -> None:
    """Look into trace files."""


@trace.command()
@click.argument("file", type=click.Path())
@click.option("--top", default=15, show_default=True, metavar="N", help="How many names to list.")
@click.option("--format", "format_", metavar="NAME", help="The file's format; found by looking into it unless named.")
@click.option("--json", "as_json", is_flag=True, help="Print figures as JSON instead of tables.")
def summary(file: str, top: int, format_: str | None, as_json: bool) -> None:
    """Where the time of a run went.

    Prints the terms of Eq. 3 of the GPU integration report, exclusive time by category and by name, bytes moved.
    FILE is a trace that weft or another tool wrote; see docs/traces.md for the formats.
    """
    from weft.report.trace import figures, summarise
    from weft.traces import load

    loaded = load(file, format_)
    if as_json:
        import json

        click.echo(json.dumps(figures(loaded, top), indent=2))
    else:
        click.echo(summarise(loaded, top))
