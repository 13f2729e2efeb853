"""The functions of a case's Python file, to which values refer as python:name."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterable
from typing import Any

from weft.cases.shared import PYTHON


def read_functions(path: str, uses: Iterable[tuple[str, object]]) -> dict[str, Callable[..., Any]]:
    """Runs the file and returns its functions by name.

    ``uses``: the values of the case by key. ValueError if the file cannot be run, or lacks a function that one of them
    refers to.
    """
    try:
        found = runpy.run_path(path)
    except OSError as error:
        raise ValueError(f"case key 'functions.file': {path}: {error.strerror or error}") from None
    except (Exception, SystemExit) as error:
        where = f" at line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise ValueError(
            f"case key 'functions.file': {path} cannot be run{where}: {type(error).__name__}: {error}"
        ) from None
    functions = {name: value for name, value in found.items() if callable(value) and not name.startswith("_")}
    for key, value in uses:
        name = value.removeprefix(PYTHON) if isinstance(value, str) and value.startswith(PYTHON) else ""
        if name and name not in functions:
            have = ", ".join(sorted(functions)) or "none"
            raise ValueError(f"case key '{key}': {path} has no function {name!r}; it has: {have}")
    return functions
