"""Options that several commands have, and how their text is read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import click


def integers(text: str, what: str, lowest: int, highest: int | None = None) -> list[int]:
    """'1-3,7' -> [1, 2, 3, 7]."""
    values: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            values += range(int(first), int(last) + 1) if dash else [int(first)]
    except ValueError:
        values = []
    if not values or min(values) < lowest or (highest is not None and max(values) > highest):
        limit = f"between {lowest} and {highest}" if highest is not None else f"of at least {lowest}"
        raise click.BadParameter(f"found '{text}', allowed: integers {limit}, as 1-4,8", param_hint=f"--{what}")
    return sorted(set(values))


def writable(context: click.Context, parameter: click.Parameter, folder: Path) -> Path:
    """Makes the folder, so that one that cannot be written ends a command before it measures. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    return folder


OUTPUT = click.option(
    "--output", type=click.Path(path_type=Path), default=Path("weft-output"), show_default=True, metavar="DIR",
    help="Where results and plots go.", callback=writable,
)  # fmt: skip
