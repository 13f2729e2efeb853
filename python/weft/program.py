"""Expressions of a case as programs in postfix order, which C++ evaluates at points of any device.

``compiled("sin(k * x) * exp(-t)", {"k": 2.0})`` gives a Code; parameters become constants, and what depends on no
variable is computed here. What an expression may hold is weft.cases.expressions' business.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft import _weft
from weft import device as _device
from weft.cases.expressions import ALGEBRA, CONSTANTS, FUNCTIONS, Expression, ExpressionError

__all__ = ["VARIABLES", "compiled", "evaluate"]

VARIABLES = ("x", "y", "z", "t")

_CODES: dict[str, int] = _weft.program.operations
_COMMUTE = frozenset(
    ("add", "multiply", "minimum", "maximum", "hypot", "equal", "not_equal", "logical_and", "logical_or")
)


@dataclass(frozen=True)
class _Piece:
    """A part of a program that leaves one value more."""

    operations: tuple[str, ...]
    constants: tuple[float, ...]
    depth: int  # of the stack that it needs

    @property
    def is_constant(self) -> bool:
        return self.operations == ("constant",)


def _number(value: Any) -> _Piece:
    return _Piece(("constant",), (float(value),), 1)


def _in_turn(pieces: list[_Piece], *operations: str) -> _Piece:
    return _Piece(
        (*(name for piece in pieces for name in piece.operations), *operations),
        tuple(value for piece in pieces for value in piece.constants),
        max(piece.depth + below for below, piece in enumerate(pieces)),
    )


def _apply(name: str, function: Callable[..., Any], arguments: list[_Piece]) -> _Piece:
    if all(piece.is_constant for piece in arguments):
        with np.errstate(all="ignore"):
            return _number(function(*(np.float64(piece.constants[0]) for piece in arguments)))
    if name == "where":
        return _in_turn(arguments[::-1], name)
    if name == "power" and arguments[1].is_constant and arguments[1].constants[0] == 2.0:
        return _in_turn(arguments[:1], "square")
    if len(arguments) == 2 and arguments[1].depth > arguments[0].depth:
        # The operand that needs more of the stack first: the depth grows as the logarithm of the expression's length.
        return _in_turn(arguments[::-1], *(() if name in _COMMUTE else ("swap",)), name)
    return _in_turn(arguments, name)


def _lower(node: ast.AST, parameters: Mapping[str, float]) -> _Piece:
    def lower(other: ast.AST) -> _Piece:
        return _lower(other, parameters)

    def operator(kind: ast.AST, *arguments: _Piece) -> _Piece:
        name, function = ALGEBRA[type(kind)]
        return _apply(name, function, list(arguments))

    def joined(kind: ast.AST, pieces: list[_Piece]) -> _Piece:
        result = pieces[0]
        for piece in pieces[1:]:
            result = operator(kind, result, piece)
        return result

    match node:
        case ast.Constant():
            return _number(node.value)
        case ast.Name():
            if node.id in parameters:
                return _number(parameters[node.id])
            return _number(CONSTANTS[node.id]) if node.id in CONSTANTS else _Piece((node.id,), (), 1)
        case ast.UnaryOp(op=ast.UAdd()):
            return lower(node.operand)
        case ast.UnaryOp():
            return operator(node.op, lower(node.operand))
        case ast.BinOp():
            return operator(node.op, lower(node.left), lower(node.right))
        case ast.BoolOp():
            return joined(node.op, [lower(value) for value in node.values])
        case ast.Compare():
            sides = [lower(value) for value in (node.left, *node.comparators)]
            pairs = zip(node.ops, sides, sides[1:], strict=False)
            return joined(ast.And(), [operator(kind, left, right) for kind, left, right in pairs])
        case ast.Call(func=ast.Name(id=name)):
            return _apply(name, FUNCTIONS[name], [lower(value) for value in node.args])
    raise ExpressionError(f"{type(node).__name__} cannot be computed")


def compiled(expression: str | float, parameters: Mapping[str, float] | None = None) -> Any:
    """The program (a _weft.program.Code) of an expression in x, y, z, t and the parameters, or of a number.

    ExpressionError, whose text says what is allowed, where it is none.
    """
    values = dict(parameters or {})
    if not isinstance(expression, str):
        return _weft.program.Code([_CODES["constant"]], [float(expression)])
    checked = Expression(expression, (*VARIABLES, *values))
    try:
        piece = _lower(checked.tree, values)
        return _weft.program.Code([_CODES[name] for name in piece.operations], list(piece.constants))
    except RecursionError:
        raise ExpressionError("it nests too deeply; split it with named parameters") from None
    except ValueError as error:  # of a stack that is too deep
        raise ExpressionError(f"it nests too deeply: {error}") from None


def evaluate(
    code: Any, points: npt.ArrayLike, time: float = 0.0, *, device: str = "host", precision: str = "double"
) -> npt.NDArray[Any]:
    """The values [n] of a program at points [3][n] and a time, computed on a device."""
    places = np.ascontiguousarray(points, np.float64 if precision == "double" else np.float32)
    return np.asarray(_weft.program.evaluate(code, places, float(time), _device.open(device)))
