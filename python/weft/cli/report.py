"""`weft report`: a run's record as text and as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("record", type=click.Path(path_type=Path), metavar="RUN.json")
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="FILE.html", help="The page. [default: beside the record]"
)
def report(record: Path, output: Path | None) -> None:
    """Show a run's record, as text and as a page.

    Prints the tables of RUN.json (or of the folder it is in), and writes them with plots to one self-contained page.
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
            f"{path}: a record of another version of weft (written by {by}) that this one cannot show "
            f"({type(error).__name__}: {error}): run again, or use that version"
        ) from None
    click.echo(shown)
    page = output or path.with_suffix(".html")
    write_text(page, text)
    click.echo(f"written {page}")
