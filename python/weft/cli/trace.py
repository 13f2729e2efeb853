"""`weft trace`: what a trace file says."""

from __future__ import annotations

import click


@click.group()
def trace() -> None:
    """Look into trace files."""


@trace.command()
@click.argument("file", type=click.Path())
@click.option("--top", default=15, show_default=True, metavar="N", help="How many names to list.")
def summary(file: str, top: int) -> None:
    """Exclusive time by category and by name, and bytes moved, of a trace that weft wrote."""
    from weft.report.trace import read, summarise

    click.echo(summarise(read(file), top))
