"""The ledgers, what the papers print, and the rules by which a recomputed value is judged.

A ledger (JSON) lists an id, the inputs, the published output, and the verdict of whoever checked it by hand. Modules of
`weft.model.checks` register with `check` what recomputes an entry.

Verdicts: REPRODUCES, the computed value rounds to the published one; WITHIN-INPUT-ROUNDING, it does for inputs within
half a unit of their last printed digit; MISMATCH, it does not; INTERNALLY-INCONSISTENT, statements of one paper exclude
each other; PARTIAL, the paper itemises less than it sums; METHOD-CHECK, INFERRED, CONSISTENCY-ONLY, NOT-REPRODUCIBLE,
there is no published value to judge by, and the ledger's own computation is the reference.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.model.result import ModelError, Result, half_unit, number

REPRODUCES = "REPRODUCES"
WITHIN = "WITHIN-INPUT-ROUNDING"
MISMATCH = "MISMATCH"
INCONSISTENT = "INTERNALLY-INCONSISTENT"
PARTIAL = "PARTIAL"
OWN = ("METHOD-CHECK", "INFERRED", "CONSISTENCY-ONLY", "NOT-REPRODUCIBLE")
VERDICTS = (REPRODUCES, WITHIN, MISMATCH, INCONSISTENT, PARTIAL, *OWN)
DIFFERS = "DIFFERS"  # from the ledger's own computation
SHIPPED = Path(__file__).with_name("ledgers")  # what the sources of weft's methods published
KEYS = ("id", "method", "inputs", "claimed_output", "computed_output", "verdict")

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Entry:
    """One line of a ledger, and the ledger it stands in."""

    ledger: str
    key: str
    method: str
    inputs: Any
    claimed: str
    computed: str
    verdict: str
    note: str
    others: dict[str, Entry] = field(repr=False, compare=False)

    def text(self, name: str) -> str:
        """An input as printed, of which the last digit is uncertain. Raises ModelError where it is absent."""
        if not isinstance(self.inputs, dict) or name not in self.inputs:
            raise ModelError(f"{self.ledger} {self.key}: no input '{name}'")
        return str(self.inputs[name])

    def value(self, name: str) -> float:
        """An input that is exact: counted, or chosen by the modeller."""
        return float(self.text(name))

    def other(self, key: str) -> Entry:
        """Another entry of the same ledger. Raises ModelError where it is absent."""
        if key not in self.others:
            raise ModelError(f"{self.ledger}: no entry {key}, which {self.key} needs")
        return self.others[key]


@dataclass(frozen=True)
class Claim:
    """What was published: between `low` and `high` once its rounding is undone."""

    text: str
    low: float
    high: float

    @property
    def middle(self) -> float:
        """The published number."""
        return 0.5 * (self.low + self.high)


@dataclass(frozen=True)
class Outcome:
    """What a check found: its verdict, what it computed in words, and the largest relative error against the claim."""

    verdict: str
    computed: str
    error: float | None = None


@dataclass(frozen=True)
class Check:
    """Entries of a ledger (exact ids, or patterns as AMR-INT-*), weft's method and equation, and what computes them."""

    ledger: str
    patterns: tuple[str, ...]
    method: str
    equation: str
    compute: Callable[[Entry], Outcome | Result | Sequence[Result]]


CHECKS: list[Check] = []
UNCOVERED: dict[tuple[str, str], str] = {}


def check(ledger: str, *patterns: str, method: str, equation: str) -> Callable[[Any], Any]:
    """Registers a function of an Entry: it returns an Outcome, or Results to compare with the published numbers."""

    def register(function: Any) -> Any:
        CHECKS.append(Check(ledger, patterns, method, equation, function))
        return function

    return register


def uncovered(ledger: str, *patterns: str, why: str) -> None:
    """Says why no method computes these entries."""
    for pattern in patterns:
        UNCOVERED[ledger, pattern] = why


# --- judging -------------------------------------------------------------------------------------------------------


def numbers(text: str) -> list[str]:
    """The numbers in a text, as printed, without separators of thousands."""
    return [n.replace(",", "") for n in NUMBER.findall(text)]


def claim_of(printed: str) -> Claim:
    """A printed number as an interval. Zeros that end a whole number are not significant: 60 is 55 to 65."""
    half = half_unit(printed)
    digits = printed.lstrip("+-")
    if digits.isdigit() and int(digits):
        half *= 10 ** (len(digits) - len(digits.rstrip("0")))
    return Claim(printed, float(printed) - half, float(printed) + half)


def claims(text: str) -> list[Claim]:
    """What a published text says, in order: numbers, '3 to 6', '<1', '>98'; '2% taken' widens all by so much."""
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
    """REPRODUCES, WITHIN-INPUT-ROUNDING or MISMATCH."""
    slack = 1e-9 * max(abs(result.value), 1e-300)
    if claim.low - slack <= result.value <= claim.high + slack:
        return REPRODUCES
    if result.low <= claim.high + slack and result.high >= claim.low - slack:
        return WITHIN
    return MISMATCH


def compare(published: Sequence[Claim], results: Sequence[Result]) -> Outcome:
    """The worst verdict of results against claims in their order."""
    if not results or len(published) < len(results):
        raise ModelError(f"{len(results)} computed value(s) for {len(published)} published")
    pairs = list(zip(published, results, strict=False))
    verdicts = [judge(c, r) for c, r in pairs]
    worst = max(verdicts, key=[REPRODUCES, WITHIN, MISMATCH].index)
    errors = [abs(r.value / c.middle - 1) for c, r in pairs if math.isfinite(c.middle) and c.middle]
    return Outcome(worst, ", ".join(r.text for r in results), max(errors, default=None))


def near(published: Sequence[Claim], results: Sequence[Result], tolerance: float) -> Outcome:
    """As `compare`, where the publication compares a model with a measurement and `tolerance` counts as agreement."""
    widened = [Claim(c.text, c.middle * (1 - tolerance), c.middle * (1 + tolerance)) for c in published]
    return compare(widened, results)


def holds(statement: bool, computed: str) -> Outcome:
    """A statement in words: REPRODUCES where it is true, else MISMATCH."""
    return Outcome(REPRODUCES if statement else MISMATCH, computed)


def consistent(*groups: Sequence[Claim]) -> Outcome:
    """Statements of one paper about one quantity, a group a quantity: inconsistent where no value satisfies a group."""
    good = all(max(c.low for c in group) <= min(c.high for c in group) for group in groups)
    told = "; ".join(" against ".join(c.text for c in group) for group in groups)
    return Outcome(REPRODUCES if good else INCONSISTENT, told)


def own(kind: str, entry: Entry, values: Sequence[float], *, picked: slice = slice(None)) -> Outcome:
    """Nothing published to judge by: `kind` where `values` round to the ledger's own numbers (`picked` of them)."""
    if kind not in (*OWN, PARTIAL):
        raise ModelError(f"{kind}: not a verdict for what was not published; use {', '.join(OWN)}")
    expected = [Claim(n, float(n) - half_unit(n), float(n) + half_unit(n)) for n in numbers(entry.computed)[picked]]
    if len(values) != len(expected):
        raise ModelError(f"{entry.key}: {len(values)} value(s) for the ledger's {len(expected)}")
    pairs = list(zip(values, expected, strict=True))
    same = all(c.low - 1e-9 * abs(v) <= v <= c.high + 1e-9 * abs(v) for v, c in pairs)
    return Outcome(kind if same else DIFFERS, ", ".join(number(v) for v in values))


# --- reading ---------------------------------------------------------------------------------------------------------


def read_ledger(path: str | Path) -> list[Entry]:
    """The entries of a ledger. Raises ModelError naming what is wrong with the file."""
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: not a ledger: {error}") from None
    if not isinstance(content, list) or not content:
        raise ModelError(f"{path}: not a ledger: a list of entries is needed")
    others: dict[str, Entry] = {}
    for index, row in enumerate(content):
        missing = [k for k in KEYS if not isinstance(row, dict) or k not in row]
        if missing:
            raise ModelError(f"{path}: entry {index + 1}: {', '.join(missing)} missing")
        if row["verdict"] not in VERDICTS:
            raise ModelError(f"{path}: {row['id']}: unknown verdict '{row['verdict']}'; known: {', '.join(VERDICTS)}")
        if row["id"] in others:
            raise ModelError(f"{path}: {row['id']} stands there twice")
        entry = Entry(
            path.stem, row["id"], row["method"], row["inputs"], str(row["claimed_output"]),
            str(row["computed_output"]), row["verdict"], str(row.get("note", "")), others,
        )  # fmt: skip
        others[entry.key] = entry
    return list(others.values())


def ledgers(folder: str | Path = SHIPPED) -> list[Entry]:
    """All entries of a folder's ledgers, or of one file; by default of those that weft ships."""
    folder = Path(folder)
    files = [folder] if folder.is_file() else sorted(folder.glob("*.json"))
    if not files:
        raise ModelError(f"{folder}: no ledger (*.json) there; name the folder with --ledger")
    return [entry for file in files for entry in read_ledger(file)]
