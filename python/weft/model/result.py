"""The results that every method returns: a value with its unit, inputs, range and equation."""

from __future__ import annotations

import contextlib
import html
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TypeVar

import numpy as np

from weft.format import table

Sample = TypeVar("Sample")
Outcome = TypeVar("Outcome")
Inputs = Mapping[str, object]  # by name; inputs are only shown and written to files
MOST_CORNERS = 12  # maximum number of rounded inputs, whose box has 2^12 = 4096 corners


class ModelError(ValueError):
    """Raised for inputs that a method cannot use; the message says what is wrong and what to give instead."""


@dataclass(frozen=True)
class Result:
    """One modelled quantity: `value` within `low` to `high`, in `unit`, from `inputs`, by `equation`.

    `range_is` names the origin of the range, such as "input rounding" or "95 % bootstrap over 5 runs". A method that
    does not know the errors of its inputs sets low = high = value and leaves `range_is` empty.
    """

    method: str
    quantity: str
    value: float
    unit: str
    low: float
    high: float
    inputs: Inputs
    equation: str
    range_is: str = ""

    def __post_init__(self) -> None:
        if not self.equation:
            raise ValueError(f"{self.method}: {self.quantity}: the result has no equation")
        if not self.low <= self.value <= self.high:
            raise ValueError(
                f"{self.method}: {self.quantity}: the value {self.value} is outside its range {self.low} to {self.high}"
            )

    @property
    def text(self) -> str:
        """The value with its unit, and with its range if one is known."""
        shown = with_unit(self.value, self.unit)
        if not self.range_is:
            return shown
        factor, _ = scale(self.value, self.unit)
        return f"{shown} ({number(self.low / factor)} to {number(self.high / factor)}, {self.range_is})"


@dataclass(frozen=True)
class Table:
    """Results under a title, with notes on their limits."""

    title: str
    results: list[Result]
    notes: list[str] = field(default_factory=list)

    def console(self) -> str:
        """The table as aligned lines for a terminal."""
        rows = [("QUANTITY", "VALUE", "EQUATION")]
        rows += [(r.quantity, r.text, r.equation) for r in self.results]
        inputs = self._inputs()
        lines = [self.title, table(rows)]
        if inputs:
            lines.append("inputs: " + ", ".join(f"{k} = {show(v)}" for k, v in inputs.items()))
        return "\n".join([*lines, *(f"note: {n}" for n in self.notes)])

    def json(self) -> dict[str, object]:
        """The content of a JSON file. NaN and infinity, which JSON does not have, become null."""
        results = [{k: finite_or_none(v) for k, v in asdict(r).items()} for r in self.results]
        return {"title": self.title, "results": results, "notes": self.notes}

    def html(self) -> str:
        """The table as a section of an HTML page: heading, table and notes."""
        rows = [("quantity", "value", "equation"), *((r.quantity, r.text, r.equation) for r in self.results)]
        parts = [f"<h2>{html.escape(self.title)}</h2>", html_table(rows, header=True)]
        inputs = self._inputs()
        if inputs:
            text = ", ".join(f"{k} = {show(v)}" for k, v in inputs.items())
            parts.append("<p>Inputs: " + html.escape(text) + ".</p>")
        return "\n".join([*parts, *(f"<p>{html.escape(n)}</p>" for n in self.notes)])

    def _inputs(self) -> dict[str, object]:
        """The inputs that all results share. The name of a quantity gives those that differ between results."""
        merged: dict[str, object] = {}
        differ = set()
        for result in self.results:
            for name, value in result.inputs.items():
                if merged.setdefault(name, value) != value:
                    differ.add(name)
        return {name: value for name, value in merged.items() if name not in differ}


def html_table(rows: Sequence[Sequence[str]], header: bool = False) -> str:
    """Rows as an HTML table with escaped cells; with `header`, the first row is the header."""
    lines = []
    for index, row in enumerate(rows):
        tag = "th" if header and index == 0 else "td"
        lines.append("<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>")
    return "<table>" + "\n".join(lines) + "</table>"


def exact(method: str, quantity: str, value: float, unit: str, inputs: Inputs, equation: str) -> Result:
    """A result without a range, from inputs whose errors are not known."""
    return Result(method, quantity, value, unit, value, value, dict(inputs), equation)


def number(value: float) -> str:
    """The number with four significant digits, and with an exponent only if it is very large or small."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"


def scale(value: float, unit: str) -> tuple[float, str]:
    """The factor and the unit in which to show `value`: 7.4e-7 s in ns, 1.3e10 B/s in GB/s."""
    if unit == "s":
        for factor, name in ((1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
            if 0 < abs(value) < 0.1 * 1e3 * factor and abs(value) >= 0.1 * factor:
                return factor, name
    if unit in ("B/s", "FLOP/s"):
        for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= factor:
                return factor, prefix + unit
    return 1.0, unit


def with_unit(value: float, unit: str) -> str:
    """The value with its unit, such as 1.913x, 97.1 %, 3.21 s or 740.7 ns."""
    factor, unit = scale(value, unit)
    return number(value / factor) + (unit if unit == "x" else f" {unit}" if unit else "")


def show(value: object) -> str:
    """An input as text."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show(v) for v in value) + "]"
    return str(value)


def finite_or_none(value: object) -> object:
    """The value with NaN and infinity, also inside lists and dictionaries, replaced by None for JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): finite_or_none(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [finite_or_none(v) for v in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return value.item() if isinstance(value, np.generic) else value


def require_finite(**values: float) -> None:
    """Raises ModelError naming the first value that is NaN or infinite."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise ModelError(f"{name} is {value}, but must be a finite number")


def require_not_negative(remedy: str, **values: float) -> None:
    """Raises ModelError naming the first value that is negative or not finite; `remedy` says what to give instead."""
    require_finite(**values)
    for name, value in values.items():
        if value < 0:
            raise ModelError(f"{name} is negative ({value:g}): {remedy}")


def require_positive(**values: float) -> None:
    """Raises ModelError naming the first value that is not a finite number above zero."""
    require_finite(**values)
    for name, value in values.items():
        if value <= 0:
            raise ModelError(f"{name} is {value:g}, but must be above zero")


def half_unit(printed: str) -> float:
    """Half a unit of the last printed digit of a number: '5.79' -> 0.005, '53' -> 0.5, '1.6e9' -> 5e7."""
    text = printed.strip().lower().lstrip("+-")
    mantissa, _, exponent = text.partition("e")
    try:
        number = float(text)
        power = int(exponent) if exponent and math.isfinite(number) else 0
    except ValueError:
        number, power = math.nan, 0
    if not math.isfinite(number):
        raise ModelError(f"'{printed}' is not a number")
    return 0.5 * 10.0 ** (power - len(mantissa.partition(".")[2]))


def rounding(inputs: Mapping[str, str | float], function: Callable[..., float]) -> tuple[float, float]:
    """The range of `function(**inputs)` that the rounding of its inputs leaves.

    An input given as text was printed and may lie anywhere within half a unit of its last digit; an input given as a
    number is exact. The function is evaluated at every corner of this box, which gives the exact range if it is
    monotone in each input, as all functions of the report are over such short intervals. Corners for which it raises
    ModelError (for example, parts that exceed their whole) are ignored. An error for the printed inputs themselves is
    passed on.
    """
    halves = [half_unit(v) if isinstance(v, str) else 0.0 for v in inputs.values()]
    if np.count_nonzero(halves) > MOST_CORNERS:
        raise ModelError(
            f"{np.count_nonzero(halves)} inputs are rounded, but the range of at most {MOST_CORNERS} can be computed: "
            "give the others as exact numbers"
        )
    ends = [(float(v) - h, float(v) + h) if h else (float(v),) for v, h in zip(inputs.values(), halves, strict=True)]
    values = [function(**{k: float(v) for k, v in inputs.items()})]
    for corner in itertools.product(*ends):
        with contextlib.suppress(ModelError):
            values.append(function(**dict(zip(inputs, corner, strict=True))))
    return min(values), max(values)


def rounded_result(
    method: str,
    quantity: str,
    unit: str,
    inputs: Mapping[str, str | float],
    function: Callable[..., float],
    equation: str,
) -> Result:
    """The result of a function of printed numbers, with the range that their rounding leaves."""
    low, high = rounding(inputs, function)
    value = function(**{k: float(v) for k, v in inputs.items()})
    range_is = "input rounding" if any(isinstance(v, str) for v in inputs.values()) else ""
    return Result(method, quantity, value, unit, low, high, dict(inputs), equation, range_is)


def resample(
    samples: Sequence[Sample], function: Callable[[list[Sample]], Outcome], *, resamples: int = 2000, seed: int = 0
) -> list[Outcome]:
    """The values of `function` on bootstrap resamples (Efron 1979); the seed makes them reproducible.

    The samples must be independent runs of the same thing. Resamples on which the function raises ModelError, because
    they under-determine a fit, are skipped. Raises ModelError for fewer than two samples, and if more than half of the
    resamples are skipped.
    """
    if len(samples) < 2:
        raise ModelError(f"an uncertainty over runs needs at least 2 runs, but there is only {len(samples)}")
    generator = np.random.default_rng(seed)
    values = []
    for _ in range(resamples):
        chosen = generator.integers(len(samples), size=len(samples))
        try:
            values.append(function([samples[i] for i in chosen]))
        except ModelError:
            continue
    if len(values) < resamples / 2:
        raise ModelError(
            f"{len(samples)} samples are too few for an uncertainty: most resamples leave the fit under-determined"
        )
    return values


def percentiles(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The interval that holds the middle share `confidence` of the values."""
    tail = 50 * (1 - confidence)
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def bootstrap(samples: Sequence[Sample], function: Callable[[list[Sample]], float]) -> tuple[float, float]:
    """The 95 % percentile range of `function(samples)` over resamples."""
    return percentiles(resample(samples, function))


def over_runs(
    method: str,
    quantity: str,
    unit: str,
    samples: Sequence[Sample],
    function: Callable[[list[Sample]], float],
    inputs: Inputs,
    equation: str,
) -> Result:
    """The result of a function of several runs with its bootstrap range, or of one run without a range."""
    value = function(list(samples))
    if len(samples) < 2:
        return exact(method, quantity, value, unit, inputs, equation)
    low, high = bootstrap(samples, function)
    what = f"95 % bootstrap over {len(samples)} runs"
    return Result(method, quantity, value, unit, min(low, value), max(high, value), dict(inputs), equation, what)
