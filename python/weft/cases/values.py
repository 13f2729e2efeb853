"""Values of a case that may vary in space: numbers, expressions, or functions of a Python file."""

from __future__ import annotations

import math

from weft.cases.expressions import Expression, ExpressionError
from weft.cases.schema import Section, option

Value = float | str  # a number, an expression, "exact" or "python:name"
EXACT = "exact"  # the exact solution of the case
PYTHON = "python:"  # python:name is a function in functions.file


class FunctionsSection(Section):
    """The Python file with the functions that the case refers to as python:name."""

    file: str = option(
        "",
        "Python file with functions of NumPy arrays (x, y, z, t), or (x, y, z), that return one array, or three for a "
        "vector",
    )


def function_name(value: object) -> str:
    """The name of the Python function that a value refers to; empty: none."""
    return value.removeprefix(PYTHON) if isinstance(value, str) and value.startswith(PYTHON) else ""


def constant(key: str, value: Value, known: dict[str, float]) -> float:
    if not isinstance(value, str):
        return value
    try:
        found = Expression(value, (), known).number
    except ExpressionError as error:
        raise ValueError(f"case key '{key}': found {value!r}: {error}") from None
    if not math.isfinite(found):
        raise ValueError(f"case key '{key}': found {value!r}, which is {found}; allowed: a finite value")
    return found
