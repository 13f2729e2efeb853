"""Options, option types and output that the commands of `weft model` share."""

from __future__ import annotations

from pathlib import Path

import click

from weft.files import write_json
from weft.model.result import Table

JSON = click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Also write the results to FILE."
)
RUNS = click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN]...")


def output(table: Table, json_file: Path | None) -> None:
    """Prints a table of results, and writes it to `json_file` if one is given."""
    click.echo(table.console())
    if json_file is not None:
        write_json(json_file, table.json())
        click.echo(f"wrote {json_file}")


class Factor(click.ParamType[float]):
    """A number above zero."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(str(value))
        except ValueError:
            number = float("nan")
        if not 0 < number < float("inf"):
            self.fail(f"'{value}' is not a number above zero", param, ctx)
        return number


class Share(click.ParamType[float]):
    """A share between 0 and 1, typed as '53%' or '0.53'."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        try:
            number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            number = float("nan")
        if not 0 <= number <= 1:
            self.fail(f"'{value}' is not a share between 0 and 1, such as 53% or 0.53", param, ctx)
        return number


class Printed(click.ParamType[str]):
    """A number kept as typed, because its last digit says how precisely it is known."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip()
        try:
            good = 0 <= float(text) < float("inf")
        except ValueError:
            good = False
        if not good:
            self.fail(f"'{value}' is not a number of at least zero", param, ctx)
        return text


FACTOR = Factor()
PRINTED = Printed()
SHARE = Share()
