"""`weft cases`: what a case file can say."""

from __future__ import annotations

import click

from weft.cases import WORKLOADS
from weft.cases.schema import named_cases, options, to_toml
from weft.report.format import table


@click.command()
@click.argument("workload", type=click.Choice(sorted(WORKLOADS)))
@click.option("--toml", is_flag=True, help="A complete case file with every default, to edit.")
def cases(workload: str, toml: bool) -> None:
    """List the options of a workload's case.

    Each with its default, unit, what is allowed and a line of help; and the cases that come with weft.
    """
    model = WORKLOADS[workload]
    if toml:
        click.echo(to_toml(model), nl=False)
        return
    rows = [("KEY", "DEFAULT", "UNIT", "ALLOWED", "HELP")]
    rows += [(o.key, str(o.default), o.unit or "-", o.allowed, o.help) for o in options(model)]
    click.echo(table(rows))
    click.echo("\nCases that come with weft (--case NAME):")
    about = [(f"  {name}", text.partition("\n")[0].lstrip("# ")) for name, text in named_cases(workload).items()]
    click.echo(table(about))
