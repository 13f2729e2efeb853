"""Expressions compiled for C++ have the values NumPy gives them, and no other text gets past the compiler."""

from __future__ import annotations

import ast
import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft import _weft, program
from weft.cases.expressions import FUNCTIONS, ExpressionError

POINTS = np.concatenate(
    [np.random.default_rng(3).normal(size=(3, 300)) * [[1.0], [3.0], [0.1]], np.eye(3), -np.eye(3)], axis=1
)
TIME = 0.375
PARAMETERS = {"Re": 40.0, "k": -1.5}


class ForNumpy(ast.NodeTransformer):
    """Turns Python's syntax tree of an expression into calls of NumPy, whose value a program has to reproduce."""

    @staticmethod
    def call(name: str, *arguments: ast.expr) -> ast.expr:
        return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self.call("number", node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self.call("number", self.call("logical_not", node.operand)) if isinstance(node.op, ast.Not) else node

    def all_of(self, name: str, parts: list[ast.expr]) -> ast.expr:
        whole = parts[0]
        for part in parts[1:]:
            whole = self.call("number", self.call(name, whole, part))
        return whole

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return self.all_of("logical_and" if isinstance(node.op, ast.And) else "logical_or", node.values)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        pairs = zip(node.ops, sides, sides[1:], strict=False)
        return self.all_of("logical_and", [self.call("number", ast.Compare(a, [op], [b])) for op, a, b in pairs])


def both(text: str) -> tuple[np.ndarray, np.ndarray]:
    x, y, z = POINTS
    names = {name: getattr(np, name) for name in (*FUNCTIONS, "pi", "logical_and", "logical_or", "logical_not")}
    numbers = {name: np.float64(value) for name, value in {"t": TIME, **PARAMETERS}.items()}
    tree = ast.fix_missing_locations(ForNumpy().visit(ast.parse(text.strip(), mode="eval")))
    with np.errstate(all="ignore"):
        value = eval(  # a test's own text
            compile(tree, "expression", "eval"),
            {**names, **numbers, "number": lambda v: np.asarray(v, float)[()], "x": x, "y": y, "z": z},
        )
    return program.evaluate(program.compiled(text, PARAMETERS), POINTS, TIME), np.broadcast_to(value, x.shape)


def trees(leaves: st.SearchStrategy[str], binary: list[str], unary: list[str]) -> st.SearchStrategy[str]:
    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(st.sampled_from(binary), inner, inner).map(lambda p: f"({p[1]} {p[0]} {p[2]})"),
            st.tuples(st.sampled_from(unary), inner).map(lambda p: f"({p[0]}({p[1]}))"),
        )

    return st.recursive(leaves, extend, max_leaves=25)


LEAVES = st.one_of(
    st.sampled_from(["x", "y", "z", "t", "Re", "k", "pi", "True"]),
    st.floats(-100, 100, allow_nan=False).map(lambda v: f"({v!r})"),
    st.integers(0, 9).map(str),
)
ROUNDED = trees(
    LEAVES,
    ["+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "and", "or"],
    ["-", "+", "abs", "sqrt", "not ", "1 < "],
)
SMOOTH = trees(LEAVES, ["+", "-", "* 0.3 *"], ["sin", "cos", "tanh", "0.5 * cos", "exp(-1) * sin"])


@settings(max_examples=200, deadline=None)
@given(text=ROUNDED)
def test_correctly_rounded_operations_give_numpys_bits_and_numpys_nan(text):
    found, expected = both(text)
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=100, deadline=None)
@given(text=SMOOTH)
def test_smooth_compositions_agree_with_numpy(text):
    found, expected = both(text)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_is_numpys(name):
    arguments = {"where": "x > 0, y, z", "abs": "x"}.get(name)
    if arguments is None:
        arguments = "x, y" if name in ("minimum", "maximum", "hypot", "arctan2") else "x"
    for text in (f"{name}({arguments})", f"{name}({arguments.replace('x', '0/(x - x) + x')})"):
        found, expected = both(text)
        np.testing.assert_allclose(found, expected, rtol=4e-15, atol=1e-300)


@pytest.mark.parametrize("text", ["x**y", "x**2", "x**-3", "2**x", "x**0.5", "(x - x)**0"])
def test_powers_are_numpys(text):
    np.testing.assert_allclose(*both(text), rtol=4e-15)


@pytest.mark.parametrize(
    ("text", "length"),
    [("Re / 2 - sqrt(Re**2 / 4 + 4 * pi**2)", 1), ("exp(k * Re) * x", 3), ("where(Re > 1, 2, 3)", 1), ("x**2", 2)],
)
def test_what_depends_on_no_variable_is_computed_once(text, length):
    code = program.compiled(text, PARAMETERS)
    assert len(code.operations) == length
    np.testing.assert_allclose(*both(text), rtol=1e-14)


def test_the_stack_grows_as_the_logarithm_of_an_expressions_length():
    nested = "x"
    for k in range(150):
        nested = f"{k % 3}-({nested})" if k < 60 else f"y*x-{nested}"
    assert program.compiled(nested).depth <= 3
    np.testing.assert_allclose(*both(nested), rtol=1e-12)
    pieces = "0"
    for k in range(40):
        pieces = f"where(x < {k - 20} / 10, {k}, {pieces})"
    assert program.compiled(pieces).depth <= 5
    np.testing.assert_array_equal(*both(pieces))


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet="xyztRek0123456789.+-*/%()<>=!,: andorsincos_[]'\"\n\\éλ{}@~^&|", max_size=40))
def test_no_text_gets_past_the_compiler_but_expressions(text):
    with contextlib.suppress(ExpressionError):  # anything else fails
        code = program.compiled(text, PARAMETERS)
        assert program.evaluate(code, POINTS, TIME).shape == POINTS.shape[1:]


@settings(max_examples=100, deadline=None)
@given(count=st.integers(1, 1990), what=st.sampled_from(["-", "(", "not ", "sin(", "x+(", "x<", "x**", "where(x,x,"]))
def test_deep_nesting_is_an_error_and_no_crash(count, what):
    text = (what * count)[:1900] + "x"
    text += ")" * text.count("(")
    with contextlib.suppress(ExpressionError):  # anything else fails
        program.compiled(text[:2000])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sin(w)", "'w' is not known"),
        ("rey * x", "'rey' is not known; nearest: 're"),
        ("sinn(x)", "the function 'sinn' is not known; nearest: 'sin'"),
        ("tan(x", "cannot be parsed"),
        ("x = 3", "cannot be parsed"),
        ("", "cannot be parsed"),
        ("minimum(x)", "takes 2 value(s), found 1"),
        ("'x'", "is not a number"),
        ("x // y", "operator"),
        ("[x for y in z]", ""),
        ("x.real", ""),
        ("__import__('os')", "is not known"),
        ("sin", "is not known"),
    ],
)
def test_errors_say_what_is_wrong_what_is_allowed_and_the_nearest_name(text, reason):
    with pytest.raises(ExpressionError) as caught:
        program.compiled(text, {"reynolds": 1.0})
    assert reason in str(caught.value)
    assert "allowed: numbers, x, y, z, t, reynolds, pi, + - * / ** %, comparisons" in str(caught.value)


@settings(max_examples=200, deadline=None)
@given(
    operations=st.lists(st.integers(-2, 45), max_size=12),
    constants=st.lists(st.floats(allow_nan=True), max_size=4),
)
def test_only_sound_programs_can_be_made_whatever_the_codes(operations, constants):
    with contextlib.suppress(ValueError):  # anything else fails
        code = _weft.program.Code(operations, constants)
        assert program.evaluate(code, POINTS, TIME).shape == POINTS.shape[1:]


@pytest.mark.parametrize(
    ("operations", "constants", "reason"),
    [
        ([], [], "leaves 0 values"),
        (["x", "y"], [], "leaves 2 values"),
        (["x", "add"], [], "add takes 2 values, but there are 1"),
        (["x", "swap"], [], "swap takes 2"),
        (["constant"], [], "uses 1 constants, but has 0"),
        (["x"], [1.0], "uses 0 constants, but has 1"),
        (["x"] * 30 + ["add"] * 29, [], "keeps 30 values at a time; at most 24: split"),
    ],
)
def test_an_unsound_program_is_refused_in_words(operations, constants, reason):
    with pytest.raises(ValueError, match=reason):
        _weft.program.Code([_weft.program.operations[name] for name in operations], constants)


def test_values_come_in_the_precision_of_the_points_and_time_keeps_its_digits():
    code = program.compiled("sin(1000 * t) + 0 * x")
    time = 1234.567890123
    single = program.evaluate(code, POINTS, time, precision="single")
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, np.sin(1000 * time), rtol=1e-6)
    assert code.depends_on_time
    assert not program.compiled("x").depends_on_time
