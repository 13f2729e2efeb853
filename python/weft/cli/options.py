"""Option types and options shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import TypeVar, get_type_hints

import click

from weft.files import writable

Command = TypeVar("Command", bound=Callable[..., None])


def options_of(table: type) -> Callable[[Command], Command]:
    """Decorates a command with the options of a TypedDict, whose fields are `Annotated[type, click.option(...)]`.

    The command receives them as `**options: Unpack[table]`.
    """
    options = [hint.__metadata__[0] for hint in get_type_hints(table, include_extras=True).values()]

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


class Integer(click.IntRange):
    """An integer within bounds, shown as N in the help."""

    name = "integer"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "N"


class Number(click.FloatRange):
    """A finite number within bounds, shown as X in the help."""

    name = "number"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "X"

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


MOST_INTEGERS = 10_000  # maximum length of a list


def integers(text: str, what: str, lowest: int, highest: int | None = None) -> list[int]:
    """'1-3,7' -> [1, 2, 3, 7]."""
    spans: list[range] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            spans.append(range(int(first), int(last if dash else first) + 1))
    except ValueError:
        spans = []
    spans = [span for span in spans if span]
    values = {v for span in spans for v in span} if sum(s.stop - s.start for s in spans) <= MOST_INTEGERS else set()
    if not values or min(values) < lowest or (highest is not None and max(values) > highest):
        limit = f"between {lowest} and {highest}" if highest is not None else f"of at least {lowest}"
        raise click.BadParameter(f"found '{text}', allowed: integers {limit}, such as 1-4,8", param_hint=f"--{what}")
    return sorted(values)


OUTPUT = click.option(
    "--output", type=click.Path(path_type=Path), default=Path("weft-output"), show_default=True, metavar="DIR",
    help="Folder for the results.", callback=lambda context, parameter, folder: writable(folder),
)  # fmt: skip
