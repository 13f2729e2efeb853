"""Expressions of a case, in x, y, z (and what else is allowed): arithmetic, comparisons, a few functions, nothing more.

simpleeval walks the expression's syntax tree; no Python is evaluated.
"""

from __future__ import annotations

import ast
import functools
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import simpleeval


def _of(function: Any, count: int) -> Callable[..., Any]:
    """A function that takes so many arrays and nothing else: NumPy's own take places to write to, too."""

    def call(*arguments: Any) -> Any:
        if len(arguments) != count:
            raise ExpressionError(f"{function.__name__} takes {count} value(s), found {len(arguments)}")
        return function(*arguments)

    return call


_ONE = (np.sin, np.cos, np.tan, np.exp, np.log, np.sqrt, np.abs)
FUNCTIONS: dict[str, Any] = {
    **{name: _of(f, 1) for name, f in zip(("sin", "cos", "tan", "exp", "log", "sqrt", "abs"), _ONE, strict=True)},
    **{f.__name__: _of(f, 2) for f in (np.minimum, np.maximum, np.hypot, np.arctan2)},
    "where": _of(np.where, 3),
}
CONSTANTS = {"pi": np.pi, "True": True, "False": False}
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: np.true_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: np.logical_not,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
LONGEST = 2000  # characters: a syntax tree of that size is walked without trouble


class ExpressionError(ValueError):
    """An expression that cannot be read; the text says what is allowed."""


class Expression:
    """A function of arrays, from text. ExpressionError where the text is none, before anything is evaluated."""

    def __init__(self, text: str, variables: Sequence[str] = ("x", "y", "z")) -> None:
        self.text = text
        self.variables = tuple(variables)
        if len(text) > LONGEST:
            raise ExpressionError(f"an expression of {len(text)} characters; at most {LONGEST} are read")
        self(**{name: np.full(1, 0.5) for name in variables})

    def __call__(self, **values: Any) -> npt.NDArray[Any]:
        """The values at these values of the variables, in their common shape."""
        numbers = {name: np.asarray(value, float) for name, value in values.items()}
        shape = np.broadcast_shapes(*(v.shape for v in numbers.values()))
        try:
            with np.errstate(all="ignore"):
                result = np.asarray(_evaluate(self.text, {**CONSTANTS, **numbers}))
            if result.dtype.kind not in "bif":
                raise ExpressionError("its value is no number")
            return np.broadcast_to(result, shape)
        except Exception as error:  # a parser, a walker and NumPy raise what they like on any text
            raise ExpressionError(f"{_reason(error)}; {self.allowed()}") from None

    def allowed(self) -> str:
        """What an expression may hold, in words."""
        return (
            f"allowed: numbers, {', '.join([*self.variables, 'pi'])}, + - * / ** %, comparisons, and, or, not, "
            f"{', '.join(FUNCTIONS)}"
        )


def _evaluate(text: str, names: Mapping[str, Any]) -> Any:
    walker = simpleeval.SimpleEval(operators=_OPERATORS, functions=FUNCTIONS, names=dict(names))

    def numeric(node: ast.Constant) -> Any:
        if not isinstance(node.value, int | float):
            raise ExpressionError(f"{node.value!r} is no number")
        return float(node.value)  # whole numbers of Python have no bound: 9**9**9 would run for ever

    def both(node: ast.BoolOp) -> Any:
        join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        return functools.reduce(join, [walker._eval(v) for v in node.values])

    def compare(node: ast.Compare) -> Any:
        sides = [walker._eval(v) for v in (node.left, *node.comparators)]
        found: list[Any] = [_OPERATORS[type(op)](a, b) for op, a, b in zip(node.ops, sides, sides[1:], strict=False)]
        return functools.reduce(np.logical_and, found)

    # Of all that simpleeval can walk, what acts on arrays element by element.
    kept = (ast.Expr, ast.UnaryOp, ast.BinOp, ast.Call, ast.Name)
    walker.nodes = {
        **{kind: walk for kind, walk in walker.nodes.items() if kind in kept},
        ast.Constant: numeric,
        ast.BoolOp: both,
        ast.Compare: compare,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own remarks on how a text is written
        tree = ast.parse(text.strip(), mode="eval").body  # one expression, no statements
    return walker.eval(text, previously_parsed=tree)


def _reason(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return "it cannot be parsed"
    if isinstance(error, simpleeval.NameNotDefined):
        return f"'{error.name}' is not known"
    if isinstance(error, simpleeval.FunctionNotDefined):
        return f"the function '{error.func_name}' is not known"
    if isinstance(error, KeyError):
        return "it has an operator that is not known"
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
