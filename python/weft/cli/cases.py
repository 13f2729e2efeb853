"""`weft cases`: the keys that a case file can set."""

from __future__ import annotations

import shutil
import sys
import textwrap

import click

from weft.cases import WORKLOADS, case_model
from weft.cases.schema import named_cases, options, to_toml, toml_value
from weft.format import table


@click.command()
@click.argument("workload", type=click.Choice(sorted(WORKLOADS)))
@click.option("--toml", is_flag=True, help="Print a complete case file with all defaults, ready to edit.")
def cases(workload: str, toml: bool) -> None:
    """List the options of a workload's case.

    Shows the default, unit, allowed values and meaning of each, and the cases that come with weft.
    """
    model = case_model(workload)
    if toml:
        click.echo(to_toml(model), nl=False)
        return
    rows = [("KEY", "DEFAULT", "UNIT", "ALLOWED", "HELP")]
    rows += [(o.key, default(o.default), o.unit or "-", o.allowed, o.help) for o in options(model)]
    lines = table(rows)
    width = shutil.get_terminal_size().columns
    if sys.stdout.isatty() and max(map(len, lines.splitlines())) > width:
        lines = "\n".join(narrow(row, width) for row in rows[1:])
    click.echo(lines)
    click.echo("\nCases that come with weft (--case NAME):")
    about = [(f"  {name}", text.partition("\n")[0].lstrip("# ")) for name, text in named_cases(workload).items()]
    click.echo(table(about))


def default(value: object) -> str:
    """A default value as it is written in a case file; "-" if the key has none."""
    return "-" if value is None else toml_value(value)


def narrow(row: tuple[str, ...], width: int) -> str:
    """The text of one option, for terminals that are too narrow for the table."""
    key, value, unit, allowed, text = row
    head = key if value == "-" else f"{key} = {value}"
    about = f"{text} ({allowed})"
    return (
        head + ("" if unit == "-" else f"  [{unit}]") + "\n" + textwrap.indent(textwrap.fill(about, width - 4), "    ")
    )
