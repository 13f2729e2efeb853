"""Ledgers of published figures, and the rules by which recomputed values are judged.

Each entry of a ledger (JSON) has an id, the inputs, the published output, and the verdict of the person who checked it
by hand. Modules of `weft.model.checks` register the functions that recompute entries with `check`.

Verdicts:

- REPRODUCES: the computed value rounds to the published one.
- WITHIN-INPUT-ROUNDING: it does so for inputs within half a unit of their last printed digit.
- MISMATCH: it does not.
- INTERNALLY-INCONSISTENT: statements of the same paper contradict each other.
- PARTIAL: the paper itemises less than its sum.
- METHOD-CHECK, INFERRED, CONSISTENCY-ONLY, NOT-REPRODUCIBLE: no value is published; the reference is the ledger's own
  computation.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from weft.model.result import ModelError, Result, half_unit, number

REPRODUCES = "REPRODUCES"
WITHIN = "WITHIN-INPUT-ROUNDING"
MISMATCH = "MISMATCH"
INCONSISTENT = "INTERNALLY-INCONSISTENT"
PARTIAL = "PARTIAL"
OWN = ("METHOD-CHECK", "INFERRED", "CONSISTENCY-ONLY", "NOT-REPRODUCIBLE")
VERDICTS = (REPRODUCES, WITHIN, MISMATCH, INCONSISTENT, PARTIAL, *OWN)
DIFFERS = "DIFFERS"  # the outcome is not that of the ledger's own computation
SHIPPED = Path(__file__).with_name("ledgers")  # folder of figures published by the sources of weft's methods
KEYS = ("id", "method", "inputs", "claimed_output", "computed_output", "verdict")

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Entry:
    """One entry of a ledger. `others` are all entries of the same ledger by id."""

    ledger: str
    key: str
    method: str
    inputs: object  # as in the file: numbers and texts by name, or a list of numbers
    claimed: str
    computed: str
    verdict: str
    note: str
    others: dict[str, Entry] = field(repr=False, compare=False)

    @property
    def named(self) -> dict[str, object]:
        """The inputs by name; empty if the entry lists numbers."""
        return {str(k): v for k, v in self.inputs.items()} if isinstance(self.inputs, dict) else {}

    def _input(self, name: str) -> object:
        if name not in self.named:
            raise ModelError(f"{self.ledger} {self.key}: input '{name}' is missing")
        return self.named[name]

    def text(self, name: str) -> str:
        """An input as printed, so that its last digit is uncertain. Raises ModelError if it is missing."""
        return str(self._input(name))

    def value(self, name: str) -> float:
        """An input that is exact because it was counted, or chosen by the modeller."""
        return float(self.text(name))

    def column(self) -> list[float]:
        """The inputs of an entry that lists numbers. Raises ModelError for other entries."""
        return self._numbers(self.inputs, "the inputs")

    def values(self, name: str) -> list[float]:
        """An input that is a list of numbers. Raises ModelError if it is missing or something else."""
        return self._numbers(self._input(name), f"input '{name}'")

    def rows(self, name: str | None = None) -> dict[str, list[float]]:
        """An input, or without `name` all inputs, as lists of numbers by name. Raises ModelError otherwise."""
        rows = self.named if name is None else self._input(name)
        if not isinstance(rows, dict):
            raise ModelError(f"{self.ledger} {self.key}: input '{name}' must have lists of numbers by name")
        return {str(key): self._numbers(row, f"input '{key}'") for key, row in rows.items()}

    def pairs(self, name: str) -> list[tuple[int, int]]:
        """An input that is a list of pairs of whole numbers. Raises ModelError if it is missing or something else."""
        try:
            return [(int(a), int(b)) for a, b in self._input(name)]  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            raise ModelError(f"{self.ledger} {self.key}: input '{name}' must be a list of pairs") from None

    def _numbers(self, values: object, what: str) -> list[float]:
        if not isinstance(values, list) or not all(isinstance(v, int | float) for v in values):
            raise ModelError(f"{self.ledger} {self.key}: {what} must be a list of numbers")
        return values

    def other(self, key: str) -> Entry:
        """Another entry of the same ledger. Raises ModelError if it is missing."""
        if key not in self.others:
            raise ModelError(f"{self.ledger}: entry {key} is missing, which {self.key} refers to")
        return self.others[key]


@dataclass(frozen=True)
class Claim:
    """A published value: a number between `low` and `high` before it was rounded."""

    text: str
    low: float
    high: float

    @property
    def middle(self) -> float:
        """The published number."""
        return 0.5 * (self.low + self.high)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a check: its verdict, the computed values as text, and the largest relative error."""

    verdict: str
    computed: str
    error: float | None = None


@dataclass(frozen=True)
class Check:
    """A function that recomputes entries of a ledger, with the method and the equation it uses.

    `patterns` are ids of entries, or patterns such as AMR-INT-*.
    """

    ledger: str
    patterns: tuple[str, ...]
    method: str
    equation: str
    compute: Compute


Compute = Callable[[Entry], Outcome | Result | Sequence[Result]]
Function = TypeVar("Function", bound=Compute)
CHECKS: list[Check] = []
UNCOVERED: dict[tuple[str, str], str] = {}


def check(ledger: str, *patterns: str, method: str, equation: str) -> Callable[[Function], Function]:
    """Registers a function of an Entry that returns an Outcome, or Results to compare with the published numbers."""

    def register(function: Function) -> Function:
        CHECKS.append(Check(ledger, patterns, method, equation, function))
        return function

    return register


def uncovered(ledger: str, *patterns: str, why: str) -> None:
    """Records why no method computes these entries."""
    for pattern in patterns:
        UNCOVERED[ledger, pattern] = why


# --- judging -------------------------------------------------------------------------------------------------------


def numbers(text: str) -> list[str]:
    """The numbers in a text, as printed but without thousands separators."""
    return [n.replace(",", "") for n in NUMBER.findall(text)]


def claim_of(printed: str) -> Claim:
    """A printed number as an interval. Trailing zeros of whole numbers are not significant: 60 means 55 to 65."""
    half = half_unit(printed)
    digits = printed.lstrip("+-")
    if digits.isdigit() and int(digits):
        half *= 10 ** (len(digits) - len(digits.rstrip("0")))
    return Claim(printed, float(printed) - half, float(printed) + half)


def claims(text: str) -> list[Claim]:
    """The claims of a published text, in order.

    Understands numbers, spans ('3 to 6') and bounds ('<1', '>98'). The words '2% taken' widen every number by 2 %.
    """
    span = re.match(r"\D*(\d[\d.]*) to (\d[\d.]*)", text)
    if span:
        return [Claim(span[0].strip(), claim_of(span[1]).low, claim_of(span[2]).high)]
    bound = re.search(r"([<>])=?\s*(\d[\d.]*)", text)
    if bound:
        limit = float(bound[2])
        ends = (-math.inf, limit) if bound[1] == "<" else (limit, math.inf)
        return [Claim(bound[0], *ends)]
    found = [claim_of(n) for n in numbers(text)]
    taken = re.search(r"([\d.]+)% taken", text)
    if taken:
        share = float(taken[1]) / 100
        found = [Claim(c.text, c.middle * (1 - share), c.middle * (1 + share)) for c in found]
    return found


def judge(claim: Claim, result: Result) -> str:
    """The verdict on one result: REPRODUCES, WITHIN-INPUT-ROUNDING or MISMATCH."""
    slack = 1e-9 * max(abs(result.value), 1e-300)
    if claim.low - slack <= result.value <= claim.high + slack:
        return REPRODUCES
    if result.low <= claim.high + slack and result.high >= claim.low - slack:
        return WITHIN
    return MISMATCH


def compare(published: Sequence[Claim], results: Sequence[Result]) -> Outcome:
    """The worst verdict over pairs of results and claims, which must be in the same order."""
    if not results or len(published) < len(results):
        raise ModelError(f"the check computes {len(results)} values for {len(published)} published")
    pairs = list(zip(published, results, strict=False))
    verdicts = [judge(c, r) for c, r in pairs]
    worst = max(verdicts, key=[REPRODUCES, WITHIN, MISMATCH].index)
    errors = [abs(r.value / c.middle - 1) for c, r in pairs if math.isfinite(c.middle) and c.middle]
    return Outcome(worst, ", ".join(r.text for r in results), max(errors, default=None))


def near(published: Sequence[Claim], results: Sequence[Result], tolerance: float) -> Outcome:
    """Like `compare`, for claims that compare a model with a measurement: a relative error of `tolerance` agrees."""
    widened = [Claim(c.text, c.middle * (1 - tolerance), c.middle * (1 + tolerance)) for c in published]
    return compare(widened, results)


def holds(statement: bool, computed: str) -> Outcome:
    """The verdict on a statement in words: REPRODUCES if it is true, else MISMATCH."""
    return Outcome(REPRODUCES if statement else MISMATCH, computed)


def consistent(*groups: Sequence[Claim]) -> Outcome:
    """The verdict on statements of one paper, one group per quantity: inconsistent if no value satisfies a group."""
    good = all(max(c.low for c in group) <= min(c.high for c in group) for group in groups)
    text = "; ".join(" against ".join(c.text for c in group) for group in groups)
    return Outcome(REPRODUCES if good else INCONSISTENT, text)


def own(kind: str, entry: Entry, values: Sequence[float], *, picked: slice = slice(None)) -> Outcome:
    """The verdict where no value is published: `kind` if `values` round to the ledger's own numbers, else DIFFERS.

    `picked` selects which of the ledger's numbers are compared.
    """
    if kind not in (*OWN, PARTIAL):
        raise ModelError(f"{kind} is not a verdict for unpublished values; use {', '.join(OWN)}")
    expected = [Claim(n, float(n) - half_unit(n), float(n) + half_unit(n)) for n in numbers(entry.computed)[picked]]
    if len(values) != len(expected):
        raise ModelError(f"{entry.key}: {len(values)} values were computed, but the ledger has {len(expected)}")
    pairs = list(zip(values, expected, strict=True))
    same = all(c.low - 1e-9 * abs(v) <= v <= c.high + 1e-9 * abs(v) for v, c in pairs)
    return Outcome(kind if same else DIFFERS, ", ".join(number(v) for v in values))


# --- reading ---------------------------------------------------------------------------------------------------------


def read_ledger(path: str | Path) -> list[Entry]:
    """The entries of a ledger. Raises ModelError if the file is not a valid ledger."""
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: not a ledger: the JSON is invalid ({error})") from None
    if not isinstance(content, list) or not content:
        raise ModelError(f"{path}: not a ledger; a ledger is a JSON list of entries")
    others: dict[str, Entry] = {}
    for index, row in enumerate(content):
        missing = [k for k in KEYS if not isinstance(row, dict) or k not in row]
        if missing:
            raise ModelError(f"{path}: entry {index + 1} has no {', '.join(missing)}")
        if row["verdict"] not in VERDICTS:
            raise ModelError(f"{path}: {row['id']}: unknown verdict '{row['verdict']}'; known: {', '.join(VERDICTS)}")
        if row["id"] in others:
            raise ModelError(f"{path}: the id {row['id']} is used twice")
        entry = Entry(
            path.stem, row["id"], row["method"], row["inputs"], str(row["claimed_output"]),
            str(row["computed_output"]), row["verdict"], str(row.get("note", "")), others,
        )  # fmt: skip
        others[entry.key] = entry
    return list(others.values())


def ledgers(folder: str | Path = SHIPPED) -> list[Entry]:
    """The entries of one ledger, or of all ledgers in a folder; by default, of those that weft ships."""
    folder = Path(folder)
    files = [folder] if folder.is_file() else sorted(folder.glob("*.json"))
    if not files:
        raise ModelError(f"{folder}: the folder has no ledger (*.json); name another with --ledger")
    return [entry for file in files for entry in read_ledger(file)]
