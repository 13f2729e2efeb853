"""The functions of a Python file that a case refers to as python:name."""

from __future__ import annotations

import functools
import runpy
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from weft.arrays import Values as Array
from weft.cases.values import PYTHON
from weft.errors import raised
from weft.functions import takes_time

Function = Callable[..., Any]


def read(path: str, values: Iterable[tuple[str, object]]) -> dict[str, Function]:
    """The functions of a file by name.

    Raises ValueError if the file cannot be run, or lacks a function that a value of the case refers to.

    ``values``: the keys of the case whose value may be python:name, with their values.
    """
    try:
        found = runpy.run_path(path)
    except OSError as error:
        raise ValueError(f"case key 'functions.file': {path}: {error.strerror or error}") from None
    except (Exception, SystemExit) as error:
        where = f" at line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise ValueError(f"case key 'functions.file': {path} cannot be run{where}: {raised(error)}") from None
    functions = {name: value for name, value in found.items() if callable(value) and not name.startswith("_")}
    for key, value in values:
        name = value.removeprefix(PYTHON) if isinstance(value, str) and value.startswith(PYTHON) else ""
        if name and name not in functions:
            have = ", ".join(sorted(functions)) or "none"
            raise ValueError(f"case key '{key}': {path} has no function {name!r}; it has: {have}")
        if name:
            try:
                takes_time(functions[name])
            except ValueError as error:
                raise ValueError(f"case key '{key}': {path}: {error}") from None
    return functions


def checked(key: str, function: Function, components: int) -> Function:
    """A user's function with a check of its result: the right number of arrays, of the points' shape, all
    finite."""
    steady = not takes_time(function)

    @functools.wraps(function)  # a function without t is steady
    def call(x: Array, y: Array, z: Array, t: float = 0.0) -> Array | list[Array]:
        try:
            with np.errstate(all="ignore"):  # the result is checked below, and every rank would warn
                given = function(x, y, z) if steady else function(x, y, z, t)
            parts = [given] if components == 1 else list(given)
            arrays = [np.broadcast_to(np.asarray(part, float), np.shape(x)) for part in parts]
        except (Exception, SystemExit) as error:
            raise ValueError(f"case key '{key}': the function failed: {raised(error)}") from None
        if len(arrays) != components:
            raise ValueError(f"case key '{key}': the function returned {len(arrays)} values, {components} are needed")
        if not all(np.isfinite(array).all() for array in arrays):
            raise ValueError(f"case key '{key}': the function returned values that are not finite at t = {t:g}")
        return arrays[0] if components == 1 else arrays

    return call
