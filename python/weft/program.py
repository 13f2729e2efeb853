"""Expressions of a case as programs, which C++ evaluates at points of any device.

``compiled("sin(k * x) * exp(-t)", {"k": 2.0})`` returns a Code. `weft.cases.expressions` defines what an expression may
contain and translates it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from weft import _weft
from weft import device as _device
from weft.arrays import Values
from weft.cases.expressions import Expression, ExpressionError

__all__ = ["VARIABLES", "compiled", "evaluate", "values"]

VARIABLES = ("x", "y", "z", "t")

_CODES: dict[str, int] = _weft.program.operations


def compiled(expression: str | float, parameters: Mapping[str, float] | None = None) -> _weft.program.Code:
    """The program of an expression in x, y, z, t and the parameters, or of a number.

    Raises ExpressionError, whose text says what is allowed, if the expression is invalid.
    """
    if not isinstance(expression, str):
        return _weft.program.Code([_CODES["constant"]], [float(expression)])
    program = Expression(expression, VARIABLES, parameters).program
    try:
        return _weft.program.Code([_CODES[name] for name in program.operations], list(program.constants))
    except ValueError as error:  # the program needs too deep a stack
        raise ExpressionError(f"it nests too deeply: {error}") from None


def evaluate(
    code: _weft.program.Code,
    points: npt.ArrayLike,
    time: float = 0.0,
    *,
    device: str = "host",
    precision: str = "double",
) -> Values:
    """The values [n] of a program at points [3][n] and a time, computed on a device."""
    where = _device.open(device)
    if precision == "double":
        return _weft.program.evaluate(code, np.ascontiguousarray(points, np.float64), float(time), where)
    return _weft.program.evaluate(code, np.ascontiguousarray(points, np.float32), float(time), where)


def values(code: _weft.program.Code, x: npt.ArrayLike, y: npt.ArrayLike, z: npt.ArrayLike, time: float = 0.0) -> Values:
    """The values of a program on the host, in the common shape of the coordinates."""
    places = np.broadcast_arrays(x, y, z)
    return evaluate(code, np.stack([place.ravel() for place in places]), time).reshape(places[0].shape)
