"""`weft model validate`."""

from __future__ import annotations

from pathlib import Path

import click

from weft.files import write_json
from weft.format import table


@click.command()
@click.option(
    "--ledger", type=click.Path(path_type=Path), metavar="FOLDER|FILE",
    help="Ledger file, or folder of ledgers. [default: the ledgers that weft ships]",
)  # fmt: skip
@click.option("--method", metavar="NAME", help="Only entries that this method covers.")
@click.option("--failing", is_flag=True, help="Only entries whose verdict differs from that of the ledger.")
@click.option("--uncovered", is_flag=True, help="Only entries that no method covers, each with the reason.")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Also write all entries to FILE."
)
def validate(ledger: Path | None, method: str | None, failing: bool, uncovered: bool, json_file: Path | None) -> int:
    """Recompute published figures: every entry of the ledgers that a method covers.

    Prints the published and the computed value, the relative error and the verdict. An entry that the ledger marks as a
    mismatch has to reproduce that mismatch. Exits with status 1 if any verdict differs from that of the ledger.
    """
    from weft.model import validate as method_checks
    from weft.model.ledger import SHIPPED, ledgers

    rows = method_checks.validate(ledgers(ledger or SHIPPED), method)
    wrong = [r for r in rows if r.agrees is False]
    shown = wrong if failing else [r for r in rows if (r.verdict is None) == uncovered]
    if shown:
        head = ("ENTRY", "METHOD", "PUBLISHED", "COMPUTED", "ERROR", "VERDICT", "EQUATION")
        lines = [head, *((r.entry.key, *columns(r)) for r in shown)]
        click.echo(table(lines) + "\n")
    if not failing and not uncovered and method is None:
        missing = [r for r in rows if r.verdict is None]
        click.echo(f"Not covered by any method: {len(missing)}")
        click.echo(table([("  " + r.entry.key, r.computed) for r in missing]) + "\n" if missing else "")
    click.echo(table(method_checks.summary(rows)))
    if not failing and not uncovered and method is None:
        from weft.model import comparison, comparison_tables

        click.echo("\nPublished scaling tables and projections:")
        click.echo(comparison_tables.console(comparison.published_rows()))
    if json_file is not None:
        write_json(json_file, [r.json() for r in rows])
        click.echo(f"wrote {json_file}")
    for row in wrong:
        click.echo(f"weft: {row.entry.key}: verdict {row.verdict}, but the ledger has {row.entry.verdict}", err=True)
    return 1 if wrong else 0


def columns(row: object) -> tuple[str, ...]:
    """The columns of a row after its id."""
    from weft.model.validate import Row

    assert isinstance(row, Row)
    if row.verdict is None:
        return ("-", short(row.entry.claimed), "-", "-", "not covered", row.computed)
    error = "-" if row.error is None else f"{100 * row.error:.2g} %"
    verdict = row.verdict if row.agrees else f"{row.verdict} (ledger: {row.entry.verdict})"
    return (row.method, short(row.entry.claimed), short(row.computed, 70), error, verdict, row.equation)


def short(text: str, width: int = 40) -> str:
    """The text, cut off after `width` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"
