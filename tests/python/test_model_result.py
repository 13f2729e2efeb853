"""The results of all methods, and their uncertainty."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.result import (
    ModelError,
    Result,
    Table,
    bootstrap,
    exact,
    half_unit,
    over_runs,
    rounded_result,
    rounding,
    with_unit,
)


@pytest.mark.parametrize(
    ("printed", "half"), [("5.79", 0.005), ("53", 0.5), ("1.6e9", 5e7), ("-0.10", 0.005), ("2E-3", 5e-4)]
)
def test_the_last_digit_says_how_sure_a_number_is(printed: str, half: float) -> None:
    assert half_unit(printed) == pytest.approx(half)


@given(st.text(max_size=8))
def test_what_is_no_number_is_refused_and_nothing_else_happens(text: str) -> None:
    try:
        is_number = math.isfinite(float(text.strip()))
    except ValueError:
        is_number = False
    if is_number:
        assert half_unit(text) > 0
    else:
        with pytest.raises(ModelError, match="not a number"):
            half_unit(text)


@given(st.floats(0.1, 100), st.floats(0.1, 100))
def test_the_range_of_printed_inputs_holds_every_value_that_rounds_to_them(a: float, b: float) -> None:
    inputs = {"a": f"{a:.1f}", "b": f"{b:.1f}"}
    if "0.0" in inputs.values():
        return
    low, high = rounding(inputs, lambda a, b: a * b)
    assert low * (1 - 1e-12) <= a * b <= high * (1 + 1e-12)


def test_corners_that_cannot_be_are_no_part_of_a_range_but_the_inputs_as_printed_are_judged() -> None:
    def rest(total: float, part: float) -> float:
        if part > total:
            raise ModelError(f"{part:g} of {total:g}")
        return total - part

    assert rounding({"total": "1", "part": "1"}, rest) == (0.0, 1.0)
    with pytest.raises(ModelError, match="2 of 1"):
        rounding({"total": "1", "part": "2"}, rest)


def test_numbers_are_exact_and_texts_are_not() -> None:
    result = rounded_result("m", "q", "s", {"a": "2.0", "n": 3}, lambda a, n: a * n, "Eq. 1")
    assert (result.low, result.high) == (pytest.approx(5.85), pytest.approx(6.15))
    assert rounded_result("m", "q", "s", {"n": 3}, lambda n: n, "Eq. 1").range_is == ""


def test_a_bootstrap_is_repeatable_holds_the_mean_and_needs_two_runs() -> None:
    samples = [1.0, 2.0, 3.0, 4.0]

    def mean(some: list[float]) -> float:
        return sum(some) / len(some)

    low, high = bootstrap(samples, mean)
    assert (low, high) == bootstrap(samples, mean)
    assert 1 <= low < 2.5 < high <= 4
    with pytest.raises(ModelError, match="at least 2 runs"):
        bootstrap([1.0], mean)
    assert over_runs("m", "q", "s", [1.0], mean, {}, "Eq. 1").range_is == ""


def test_resamples_that_a_fit_refuses_do_not_count_but_too_many_are_an_error() -> None:
    def never(some: list[float]) -> float:
        raise ModelError("under-determined")

    with pytest.raises(ModelError, match="samples are too few"):
        bootstrap([1.0, 2.0], never)


def test_a_result_names_its_equation_and_lies_in_its_range() -> None:
    with pytest.raises(ValueError, match="has no equation"):
        exact("m", "q", 1, "s", {}, "")
    with pytest.raises(ValueError, match="outside"):
        Result("m", "q", 1, "s", 2, 3, {}, "Eq. 1")
    with pytest.raises(ValueError, match="outside"):
        exact("m", "q", math.nan, "s", {}, "Eq. 1")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(7.4e-7, "s", "0.74 µs"), (1.913, "x", "1.913x"), (2e9, "B/s", "2 GB/s"), (0, "s", "0 s"), (97.1, "%", "97.1 %")],
)
def test_values_are_read_with_their_unit(value: float, unit: str, text: str) -> None:
    assert with_unit(value, unit) == text


@given(st.floats(1e-12, 1e12))
def test_seconds_keep_four_digits_whatever_their_prefix(value: float) -> None:
    number, unit = with_unit(value, "s").split()
    factor = {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
    assert float(number.replace(",", "")) * factor == pytest.approx(value, rel=1e-3)


def test_a_table_says_its_inputs_once_escapes_html_and_has_no_nan_in_json() -> None:
    same = {"t (s)": 3.0, "lambda": 10.0}
    table = Table(
        "<t>",
        [exact("m", "a", 1, "x", same, "Eq. 1"), exact("m", "b", math.inf, "B", {**same, "lambda": 0.1}, "Eq. 2")],
    )
    assert "inputs: t (s) = 3" in table.console()
    assert "lambda" not in table.console()
    assert "<t>" not in table.html()
    assert json.loads(json.dumps(table.json(), allow_nan=False))["results"][1]["value"] is None
