"""`weft report`: a run's record as text and as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("record", type=click.Path(path_type=Path), metavar="RUN.json")
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="FILE.html", help="HTML page. [default: next to the record]"
)
def report(record: Path, output: Path | None) -> None:
    """Show a run's record, as text and as a page.

    Prints the tables of RUN.json (a file, or the folder that holds run.json), and writes them with plots to one
    self-contained HTML page.
    """
    from weft.files import write_text
    from weft.record import read
    from weft.report import console, html

    path = record / "run.json" if record.is_dir() else record
    content = read(path)
    try:
        shown, text = f"{console.header(content)}\n{console.result(content)}", html.page(content)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        by = content["versions"].get("weft", "?")
        raise ValueError(
            f"{path}: this record was written by weft {by} and cannot be shown by this version "
            f"({type(error).__name__}: {error}): run the case again, or use weft {by}"
        ) from None
    click.echo(shown)
    page = output or path.with_suffix(".html")
    write_text(page, text)
    click.echo(f"wrote {page}")
