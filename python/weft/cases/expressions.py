"""Expressions of a case in x, y, z and other variables: arithmetic, comparisons and a few functions.

An expression is compiled to a program in postfix order, which ``weft.program`` evaluates at points; no Python code is
executed. Parameters become constants, and subexpressions without variables are computed here.
"""

from __future__ import annotations

import ast
import difflib
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


def _truth(function: np.ufunc) -> Callable[..., Any]:
    """A comparison or logical operation that returns the number 0 or 1: adding NumPy booleans would give their 'or'."""
    return lambda *arguments: np.float64(function(*arguments))


# For every function: its number of arguments, and what it computes.
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    **{f.__name__: (1, f) for f in (np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh, np.exp, np.log, np.sqrt)},
    "abs": (1, np.abs),
    **{f.__name__: (2, f) for f in (np.minimum, np.maximum, np.hypot, np.arctan2)},
    "where": (3, np.where),
}
CONSTANTS = {"pi": np.pi, "True": 1.0, "False": 0.0}
# For every operator of a syntax tree: its name, and what it computes.
ALGEBRA: dict[type, tuple[str, Callable[..., Any]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("subtract", operator.sub),
    ast.Mult: ("multiply", operator.mul),
    ast.Div: ("divide", np.true_divide),
    ast.Mod: ("mod", np.mod),
    ast.Pow: ("power", np.power),
    ast.USub: ("negate", operator.neg),
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
LONGEST = 2000  # characters; the recursion over a syntax tree of that size is not too deep

_COMMUTE = frozenset(
    ("add", "multiply", "minimum", "maximum", "hypot", "equal", "not_equal", "logical_and", "logical_or")
)


class ExpressionError(ValueError):
    """An invalid expression; the message says what is allowed."""


@dataclass(frozen=True)
class Program:
    """Operations in postfix order that leave one value: names of variables or operations, or "constant"."""

    operations: tuple[str, ...]
    constants: tuple[float, ...]  # values pushed by the operations "constant", in order
    depth: int  # of the stack that the program needs

    @property
    def is_constant(self) -> bool:
        """Whether the program is a single number."""
        return self.operations == ("constant",)


class Expression:
    """An expression in ``variables`` and ``parameters``, as a program.

    Raises ExpressionError if the text is invalid.
    """

    def __init__(
        self, text: str, variables: Sequence[str] = ("x", "y", "z"), parameters: Mapping[str, float] | None = None
    ) -> None:
        self._variables = tuple(variables)
        self._numbers = CONSTANTS | dict(parameters or {})
        self._known = (*variables, *(parameters or {}))
        if len(text) > LONGEST:
            raise ExpressionError(f"the expression has {len(text)} characters; at most {LONGEST} are allowed")
        try:
            self.program = self._lower(_parsed(text))
        except SyntaxError:
            raise self._error("it cannot be parsed") from None
        except (RecursionError, MemoryError):
            raise self._error("it is nested too deeply; split it with named parameters") from None
        except (ValueError, OverflowError) as error:  # Python's parser may raise these on odd input
            if isinstance(error, ExpressionError):
                raise
            raise self._error((str(error) or type(error).__name__).splitlines()[0].rstrip(".")) from None

    @property
    def number(self) -> float:
        """The value of an expression that depends on no variable; raises ValueError for any other."""
        if not self.program.is_constant:
            raise ValueError("the expression depends on a variable")
        return self.program.constants[0]

    def _error(self, reason: str) -> ExpressionError:
        """An error that states the reason and what is allowed."""
        return ExpressionError(
            f"{reason}; allowed: numbers, {', '.join([*self._known, 'pi'])}, + - * / ** %, comparisons, and, or, not, "
            f"{', '.join(FUNCTIONS)}"
        )

    def _lower(self, node: ast.AST) -> Program:
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return _number(number)
            case ast.Constant():
                raise self._error(f"{node.value!r} is not a number")
            case ast.Name(id=name):
                if name in self._variables:
                    return Program((name,), (), 1)
                if name in self._numbers:
                    return _number(self._numbers[name])
                raise self._error(f"'{name}' is not known{_near(name, [*self._known, 'pi'])}")
            case ast.UnaryOp(op=ast.UAdd()):
                return self._lower(node.operand)
            case ast.UnaryOp():
                return self._operator(node.op, self._lower(node.operand))
            case ast.BinOp():
                return self._operator(node.op, self._lower(node.left), self._lower(node.right))
            case ast.BoolOp():
                return self._joined(node.op, [self._lower(value) for value in node.values])
            case ast.Compare():
                sides = [self._lower(value) for value in (node.left, *node.comparators)]
                pairs = zip(node.ops, sides, sides[1:], strict=False)
                return self._joined(ast.And(), [self._operator(kind, left, right) for kind, left, right in pairs])
            case ast.Call(func=ast.Name(id=name), keywords=[]):
                if name not in FUNCTIONS:
                    raise self._error(f"the function '{name}' is not known{_near(name, FUNCTIONS)}")
                count, function = FUNCTIONS[name]
                if len(node.args) != count:
                    raise self._error(f"{name} takes {count} value(s), found {len(node.args)}")
                return _apply(name, function, [self._lower(value) for value in node.args])
        raise self._error(f"{ast.unparse(node)!r} is neither arithmetic nor a comparison")

    def _operator(self, kind: ast.AST, *arguments: Program) -> Program:
        if type(kind) not in ALGEBRA:
            raise self._error("it has an unsupported operator")
        name, function = ALGEBRA[type(kind)]
        return _apply(name, function, list(arguments))

    def _joined(self, kind: ast.AST, programs: list[Program]) -> Program:
        result = programs[0]
        for program in programs[1:]:
            result = self._operator(kind, result, program)
        return result


def _near(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), 1, 0.5)
    return f"; nearest: '{close[0]}'" if close else ""


def _parsed(text: str) -> ast.expr:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's warnings about the text's style
        return ast.parse(text.strip(), mode="eval").body  # one expression, no statements


def _number(value: float) -> Program:
    # As a float: Python's integers are unbounded, and 9**9**9 would run forever.
    return Program(("constant",), (float(value),), 1)


def _in_turn(programs: list[Program], *operations: str) -> Program:
    return Program(
        (*(name for program in programs for name in program.operations), *operations),
        tuple(value for program in programs for value in program.constants),
        max(program.depth + below for below, program in enumerate(programs)),
    )


def _apply(name: str, function: Callable[..., Any], arguments: list[Program]) -> Program:
    if all(program.is_constant for program in arguments):
        with np.errstate(all="ignore"):
            return _number(function(*(np.float64(program.constants[0]) for program in arguments)))
    if name == "where":
        return _in_turn(arguments[::-1], name)
    if name == "power" and arguments[1].is_constant and arguments[1].constants[0] == 2.0:
        return _in_turn(arguments[:1], "square")
    if len(arguments) == 2 and arguments[1].depth > arguments[0].depth:
        # The operand that needs the deeper stack goes first: depth then grows as the logarithm of the length.
        return _in_turn(arguments[::-1], *(() if name in _COMMUTE else ("swap",)), name)
    return _in_turn(arguments, name)
