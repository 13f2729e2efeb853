"""Expressions of a case, in x, y, z (and what else is allowed): arithmetic, comparisons, a few functions, nothing more.

simpleeval walks the expression's syntax tree; no Python is evaluated.
"""

from __future__ import annotations

import ast
import difflib
import functools
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
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


def _truth(function: Any) -> Callable[..., Any]:
    """A comparison or logic whose values are the numbers 0 and 1: NumPy's booleans add up by `or`."""
    return lambda *arguments: np.asarray(function(*arguments), float)


_ONE = (np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh, np.exp, np.log, np.sqrt)
FUNCTIONS: dict[str, Any] = {
    **{f.__name__: _of(f, 1) for f in _ONE},
    "abs": _of(np.abs, 1),
    **{f.__name__: _of(f, 2) for f in (np.minimum, np.maximum, np.hypot, np.arctan2)},
    "where": _of(np.where, 3),
}
CONSTANTS = {"pi": np.pi, "True": 1.0, "False": 0.0}
# Of a syntax tree: the operation's name and what it computes.
ALGEBRA: dict[type, tuple[str, Callable[..., Any]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("subtract", operator.sub),
    ast.Mult: ("multiply", operator.mul),
    ast.Div: ("divide", np.true_divide),
    ast.Mod: ("mod", np.mod),
    ast.Pow: ("power", np.power),
    ast.USub: ("negate", operator.neg),
    ast.UAdd: ("plus", operator.pos),
    ast.Not: ("logical_not", _truth(np.logical_not)),
    ast.And: ("logical_and", _truth(np.logical_and)),
    ast.Or: ("logical_or", _truth(np.logical_or)),
    ast.Lt: ("less", _truth(np.less)),
    ast.LtE: ("less_equal", _truth(np.less_equal)),
    ast.Gt: ("greater", _truth(np.greater)),
    ast.GtE: ("greater_equal", _truth(np.greater_equal)),
    ast.Eq: ("equal", _truth(np.equal)),
    ast.NotEq: ("not_equal", _truth(np.not_equal)),
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
            if result.dtype.kind != "f":
                raise ExpressionError("its value is no number")
            return np.broadcast_to(result, shape)
        except Exception as error:  # a parser, a walker and NumPy raise what they like on any text
            raise ExpressionError(f"{self._reason(error)}; {self.allowed()}") from None

    @property
    def tree(self) -> ast.expr:
        """The syntax tree; of an expression that could be read it holds what is allowed, nothing else."""
        return _parsed(self.text)

    def allowed(self) -> str:
        """What an expression may hold, in words."""
        return (
            f"allowed: numbers, {', '.join([*self.variables, 'pi'])}, + - * / ** %, comparisons, and, or, not, "
            f"{', '.join(FUNCTIONS)}"
        )

    def _reason(self, error: Exception) -> str:
        if isinstance(error, SyntaxError):
            return "it cannot be parsed"
        if isinstance(error, simpleeval.NameNotDefined):
            return f"'{error.name}' is not known{_near(error.name, [*self.variables, 'pi'])}"
        if isinstance(error, simpleeval.FunctionNotDefined):
            return f"the function '{error.func_name}' is not known{_near(error.func_name, FUNCTIONS)}"
        if isinstance(error, simpleeval.OperatorNotDefined | KeyError):
            return "it has an operator that is not known"
        return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")


def _near(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), 1, 0.5)
    return f"; nearest: '{close[0]}'" if close else ""


def _parsed(text: str) -> ast.expr:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own remarks on how a text is written
        return ast.parse(text.strip(), mode="eval").body  # one expression, no statements


def _evaluate(text: str, names: Mapping[str, Any]) -> Any:
    operators = {kind: function for kind, (_, function) in ALGEBRA.items()}
    walker = simpleeval.SimpleEval(operators=operators, functions=FUNCTIONS)

    def numeric(node: ast.Constant) -> Any:
        if not isinstance(node.value, int | float):
            raise ExpressionError(f"{node.value!r} is no number")
        return float(node.value)  # whole numbers of Python have no bound: 9**9**9 would run for ever

    def name(node: ast.Name) -> Any:
        if node.id not in names:
            raise simpleeval.NameNotDefined(node.id, text)
        return names[node.id]

    def both(node: ast.BoolOp) -> Any:
        return functools.reduce(operators[type(node.op)], [walker._eval(v) for v in node.values])

    def compare(node: ast.Compare) -> Any:
        sides = [walker._eval(v) for v in (node.left, *node.comparators)]
        found: list[Any] = [operators[type(op)](a, b) for op, a, b in zip(node.ops, sides, sides[1:], strict=False)]
        return functools.reduce(operators[ast.And], found)

    # Of all that simpleeval can walk, what acts on arrays element by element.
    kept = (ast.Expr, ast.UnaryOp, ast.BinOp, ast.Call)
    walker.nodes = {
        **{kind: walk for kind, walk in walker.nodes.items() if kind in kept},
        ast.Constant: numeric,
        ast.Name: name,
        ast.BoolOp: both,
        ast.Compare: compare,
    }
    return walker.eval(text, previously_parsed=_parsed(text))
