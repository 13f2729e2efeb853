"""`weft report`: the record of a run as text and as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("record", type=click.Path(path_type=Path), metavar="RUN.json")
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="FILE.html", help="HTML page. [default: next to the record]"
)
@click.option(
    "--view", metavar="FIELD", help="Also draw an isosurface of q or of a field that the run wrote: view.png (PyVista)."
)
@click.option(
    "--level",
    type=float,
    metavar="X",
    help="Value of the isosurface of --view. [default: the value that 5 % of the points exceed]",
)
def report(record: Path, output: Path | None, view: str | None, level: float | None) -> None:
    """Show the record of a run, as text and as an HTML page.

    Prints the tables of RUN.json (a file, or the folder that holds run.json), and writes them with plots to one
    self-contained HTML page.
    """
    if level is not None and view is None:
        raise click.UsageError("--level needs --view FIELD")
    from weft.errors import tell
    from weft.files import write_text
    from weft.record import read
    from weft.report import console, html

    path = record / "run.json" if record.is_dir() else record
    content = read(path)
    if missing := content.get("statistics", {}).get("missing_file"):
        tell(f"weft: warning: {path.with_name(missing)} is missing, so the page has no pictures of planes")
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
    if view is not None:
        from weft.report.view import draw

        picture = page.with_name("view.png")
        reached = draw(path.parent, view, level, picture)
        click.echo(f"wrote {picture}: {view} = {reached:.4g}")
