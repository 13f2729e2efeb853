"""Validation of the methods: every entry of the ledgers that a method covers is recomputed and judged.

A check recomputes an entry with the functions of a method and judges the outcome by the ledger's rules
(`weft.model.ledger`); `validate` compares its verdict with the ledger's. A module of checks is registered by one import
line in `weft.model.checks`.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from weft.model import checks  # noqa: F401  (registers them)
from weft.model.ledger import CHECKS, UNCOVERED, Check, Entry, Outcome, claims, compare
from weft.model.result import ModelError, Result


@dataclass(frozen=True)
class Row:
    """A line of the report. `verdict` is None if no method covers the entry; `computed` then says why."""

    entry: Entry
    method: str
    equation: str
    computed: str
    error: float | None
    verdict: str | None

    @property
    def agrees(self) -> bool | None:
        """Whether the verdict agrees with the ledger; None if there is no verdict."""
        return None if self.verdict is None else self.verdict == self.entry.verdict

    def json(self) -> dict[str, object]:
        """The content of the JSON file."""
        return {
            "ledger": self.entry.ledger, "id": self.entry.key, "method": self.method, "equation": self.equation,
            "published": self.entry.claimed, "computed": self.computed, "relative_error": self.error,
            "verdict": self.verdict, "ledger_verdict": self.entry.verdict, "agrees": self.agrees,
        }  # fmt: skip


def find(entry: Entry) -> Check | None:
    """The check that covers an entry, if any. Raises ModelError if two checks claim it."""
    found = [
        c for c in CHECKS if c.ledger == entry.ledger and any(fnmatch.fnmatchcase(entry.key, p) for p in c.patterns)
    ]
    if len(found) > 1:
        raise ModelError(
            f"{entry.ledger} {entry.key}: claimed by checks of both '{found[0].method}' and '{found[1].method}'"
        )
    return found[0] if found else None


def why_uncovered(entry: Entry) -> str:
    """The reason why no method computes an entry."""
    for (ledger, pattern), why in UNCOVERED.items():
        if ledger == entry.ledger and fnmatch.fnmatchcase(entry.key, pattern):
            return why
    return entry.note or "no method of weft computes this"


def run(entry: Entry) -> Row:
    """Recomputes one entry."""
    found = find(entry)
    if found is None:
        return Row(entry, "", "", why_uncovered(entry), None, None)
    try:
        outcome = found.compute(entry)
        if isinstance(outcome, Result):
            outcome = [outcome]
        if not isinstance(outcome, Outcome):
            outcome = compare(claims(entry.claimed), outcome)
    except (ValueError, KeyError, TypeError) as error:  # the entry lacks inputs that its check needs
        outcome = Outcome(f"ERROR: {error}", "-")
    return Row(entry, found.method, found.equation, outcome.computed, outcome.error, outcome.verdict)


def validate(entries: Sequence[Entry], method: str | None = None) -> list[Row]:
    """Recomputes entries; with `method`, only those that this method of weft covers."""
    known = sorted({c.method for c in CHECKS})
    if method is not None and method not in known:
        raise ModelError(f"no check uses the method '{method}'; known methods: {', '.join(known)}")
    rows = [run(entry) for entry in entries]
    return [r for r in rows if method in (None, r.method)]


def summary(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Counts per ledger: all entries, covered entries, agreeing verdicts, and covered entries by verdict."""
    lines: list[tuple[str, ...]] = [("LEDGER", "ENTRIES", "COVERED", "VERDICT AGREES", "BY VERDICT")]
    for ledger in sorted({r.entry.ledger for r in rows}):
        mine = [r for r in rows if r.entry.ledger == ledger]
        covered = [r for r in mine if r.verdict is not None]
        counts = Counter(str(r.verdict) for r in covered)
        by_verdict = ", ".join(f"{n} {v}" for v, n in sorted(counts.items(), key=lambda i: -i[1]))
        agree = sum(bool(r.agrees) for r in covered)
        lines.append((ledger, str(len(mine)), str(len(covered)), str(agree), by_verdict))
    return lines
