"""The differences between two traces: terms of Eq. 3, categories, ranges and names, and whether they exceed the noise.

If both traces repeat a step, every figure is a mean per step, and its change comes with the probability that two equal
programs would differ as much (Welch's t-test over the steps, corrected for the number of rows by Benjamini and
Hochberg). Otherwise the figures are those of the whole traces, and their noise is not known.
"""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.format import middle, seconds, table
from weft.report.trace import TERMS
from weft.traces import Category, Trace, attribute, exclusive
from weft.traces.window import named_ranges, parts, spans

Key = tuple[str, str]  # name and category
_OPERATOR = re.compile(r"(, (?:seq|op_id) = )\d+")  # in NVTX ranges that torch.autograd.profiler.emit_nvtx writes
_SIGNIFICANT = 0.05
_COVERED = 0.5  # share of the time that a range must cover to be taken as the step without being named


@dataclass(frozen=True)
class Measured:
    """The figures of one trace, in seconds per step and process.

    They are arrays over the steps, or have length 1 for a whole trace.
    """

    terms: dict[str, NDArray[np.floating]]
    categories: dict[str, NDArray[np.floating]]
    names: dict[Key, NDArray[np.floating]]  # exclusive times
    calls: dict[Key, float]  # per step and process
    ranges: dict[str, NDArray[np.floating]]  # durations of the occurrences of each range


@dataclass(frozen=True)
class Change:
    """One row: seconds in A and B, calls per step and process, the probability of chance, and what changed."""

    name: str
    category: str
    a_seconds: float
    b_seconds: float
    a_calls: float | None = None
    b_calls: float | None = None
    p: float | None = None
    because: str = ""

    @property
    def seconds(self) -> float:
        return self.b_seconds - self.a_seconds


def steps_of(a: Trace, b: Trace) -> str | None:
    """The range that both traces repeat and that covers most of their time; None if there is none."""
    found = [_repeated(t) for t in (a, b)]
    both = {text: min(share, found[1][text]) for text, share in found[0].items() if text in found[1]}
    return max(both, key=lambda text: (round(both[text], 2), -len(text)), default=None)


def _repeated(trace: Trace) -> dict[str, float]:
    """The share of the time of each annotation that repeats, by name, with numbers at its end as '*'."""
    index = np.flatnonzero(named_ranges(trace))
    families = _families([trace.names[i] for i in np.unique(trace.name[index])])
    mine = _family(trace, index, families)
    length = np.bincount(mine, (trace.end - trace.start)[index], len(families))
    count = np.bincount(mine, minlength=len(families))
    # The processes that have a range: its first event in each of them.
    place = mine * len(trace.processes) + np.searchsorted(trace.processes, trace.process[index])
    processes = np.maximum(np.bincount(np.unique(place) // len(trace.processes), minlength=len(families)), 1)
    share = length / (max(1, trace.span) * processes)
    return {
        text: float(share[k])
        for k, text in enumerate(families)
        if not any(c in text.removesuffix("*") for c in "*?[")  # its name would be read as a different pattern
        and not _OPERATOR.search(text.replace("*", "0"))
        and count[k] >= 2 * processes[k]
        and _COVERED <= share[k] <= 1.0
    }


def _family(trace: Trace, index: NDArray[np.int64], families: dict[str, set[str]]) -> NDArray[np.int64]:
    """The number of the family of each of these events' names; -1 without one."""
    number = {name: k for k, family in enumerate(families.values()) for name in family}
    return np.array([number.get(name, -1) for name in trace.names], dtype=np.int64)[trace.name[index]]


def _families(names: Iterable[str]) -> dict[str, set[str]]:
    """The names of each family, by the name of the family.

    Names that differ only in a number at their end, or in the numbers of an operator of PyTorch, form a family named by
    the common text with '*' for the numbers. Any other name is its own family.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for name in names:
        found[re.sub(r"\d+$", "*", _OPERATOR.sub(r"\1*", name))].add(name)
    return {text if len(family) > 1 else min(family): family for text, family in found.items()}


def measure(trace: Trace, steps: str | None) -> Measured:
    """The figures of a trace per step, or of the whole trace without steps."""
    whole = np.tile(np.array([0, np.iinfo(np.int64).max]), (len(trace.processes), 1))
    edges = spans(trace, steps) if steps is not None else [whole]
    processes = len(trace.processes)
    named = named_ranges(trace)
    pair = trace.name.astype(np.int64) * len(Category) + trace.category
    pairs = np.unique(pair[~named])  # annotations are compared as ranges
    times, terms = np.zeros((len(edges), len(pairs))), []
    for k, part in enumerate(parts(trace, edges)):
        kept = ~named_ranges(part)
        mine = np.searchsorted(pairs, part.name[kept].astype(np.int64) * len(Category) + part.category[kept])
        times[k] = np.bincount(mine, exclusive(part)[kept], len(pairs))
        mean = attribute(part).mean()
        terms.append((*astuple(mean), mean.t_total))
    begins = np.searchsorted(pairs, pair[~named & _begun(trace, np.array(edges))])
    calls = np.bincount(begins, minlength=len(pairs)) / (processes * len(edges))
    times *= 1e-9 / processes
    keys = [(trace.names[i // len(Category)], Category(i % len(Category)).name) for i in pairs.tolist()]
    of_terms = dict(zip(TERMS, np.array(terms).T, strict=True))
    categories = {c.name: times[:, [k for k, key in enumerate(keys) if key[1] == c.name]].sum(axis=1) for c in Category}
    index = np.flatnonzero(named)
    families = _families([trace.names[i] for i in np.unique(trace.name[index])])
    family = _family(trace, index, families)
    order = np.argsort(family, kind="stable")
    cuts = np.searchsorted(family[order], np.arange(1, len(families)))
    lengths = np.split((trace.end - trace.start)[index[order]] * 1e-9, cuts)
    ranges = dict(zip(families, lengths, strict=False))
    return Measured(
        of_terms,
        {name: value for name, value in categories.items() if value.any()},
        {key: times[:, k] for k, key in enumerate(keys)},
        {key: float(calls[k]) for k, key in enumerate(keys)},
        ranges,
    )


def _begun(trace: Trace, edges: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of the events that begin inside one of some spans of time, of shape (spans, processes, 2)."""
    found = np.zeros(len(trace), dtype=bool)
    for process, (low, high) in zip(trace.processes, edges.transpose(1, 2, 0), strict=True):
        here = np.flatnonzero(trace.process == process)
        last = np.searchsorted(low, trace.start[here], side="right") - 1
        found[here] = (last >= 0) & (trace.start[here] < high[last])
    return found


def probabilities(pairs: list[tuple[NDArray[np.floating], NDArray[np.floating]]]) -> list[float | None]:
    """For each pair of samples, the probability that equal programs differ as much; None for fewer than two values."""
    from scipy.stats import false_discovery_control, ttest_ind

    found: dict[int, float] = {}
    for k, (a, b) in enumerate(pairs):
        if min(len(a), len(b)) < 2:
            continue
        if np.ptp(a) == 0 and np.ptp(b) == 0:  # no noise at all: any difference is one
            found[k] = 1.0 if a[0] == b[0] else 0.0
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # no warning for values that nearly agree
                found[k] = float(ttest_ind(a, b, equal_var=False).pvalue)
    corrected = dict(zip(found, false_discovery_control(list(found.values())), strict=True)) if found else {}
    return [float(corrected[k]) if k in corrected else None for k in range(len(pairs))]


def because(a: float, b: float, a_calls: float, b_calls: float) -> str:
    """What changed the time of a name the most: the number of its calls, or the time of each."""
    if a_calls == b_calls == 0:
        return ""
    if a_calls == 0 or b_calls == 0:
        return "only in B" if a_calls == 0 else "only in A"
    by_number = (b_calls - a_calls) * a / a_calls
    by_length = b - a - by_number
    if by_number == by_length == 0:
        return ""
    if abs(by_number) >= abs(by_length):
        return f"{abs(b_calls / a_calls - 1):.1%} {'more' if by_number > 0 else 'fewer'} calls"
    each = (b / b_calls) / (a / a_calls) if a > 0 else float("inf")
    return f"{each:.3g} times as long each"


def compare(a: Trace, b: Trace, steps: str | None = None) -> dict[str, list[Change]]:
    """The rows of all tables, by table: `terms`, `categories`, `ranges` and `names`, the largest changes first."""
    of_a, of_b = measure(a, steps), measure(b, steps)
    zeros = [np.zeros_like(m.terms["t_total"]) for m in (of_a, of_b)]

    def rows(mine: dict[str, NDArray[np.floating]], other: dict[str, NDArray[np.floating]]) -> list[Change]:
        names = list(dict.fromkeys([*mine, *other]))
        samples = [(mine.get(n, zeros[0]), other.get(n, zeros[1])) for n in names]
        chances = probabilities(samples)
        return [Change(n, "", float(x.mean()), float(y.mean()), p=p)
                for n, (x, y), p in zip(names, samples, chances, strict=True)]  # fmt: skip

    ranges = []
    both = [n for n in of_a.ranges if n in of_b.ranges]
    samples = [(of_a.ranges[n], of_b.ranges[n]) for n in both]
    for name, (x, y), p in zip(both, samples, probabilities(samples), strict=True):
        ranges.append(Change(name, "range", float(x.mean()), float(y.mean()), len(x), len(y), p))
    keys = list(dict.fromkeys([*of_a.names, *of_b.names]))
    samples = [(of_a.names.get(k, zeros[0]), of_b.names.get(k, zeros[1])) for k in keys]
    names = []
    for key, (x, y), p in zip(keys, samples, probabilities(samples), strict=True):
        first, second = float(x.mean()), float(y.mean())
        calls = of_a.calls.get(key, 0.0), of_b.calls.get(key, 0.0)
        if first or second:
            names.append(Change(*key, first, second, *calls, p, because(first, second, *calls)))

    def largest(found: list[Change]) -> list[Change]:
        return sorted(found, key=lambda c: -abs(c.seconds))

    return {"terms": rows(of_a.terms, of_b.terms), "categories": largest(rows(of_a.categories, of_b.categories)),
            "ranges": largest(ranges), "names": largest(names)}  # fmt: skip


def figures(a: Trace, b: Trace, steps: str | None = None, top: int = 15) -> dict[str, Any]:
    """Everything a comparison shows, with units in the names."""
    steps = steps if steps is not None else steps_of(a, b)
    found = compare(a, b, steps)
    notes = [f"{which}: {note}" for which, trace in (("A", a), ("B", b)) for note in trace.notes]
    if len(a.processes) != len(b.processes):
        notes.append(f"A has {len(a.processes)} processes and B has {len(b.processes)}; figures are means over them")
    if a.format != b.format:
        notes.append(f"A is {a.format} and B is {b.format}: profilers name and record different things")
    if steps is None:
        notes.append("no range repeats in both traces, so the noise is not known: name a repeated range with --steps")
    return {
        "a": {"path": a.path, "format": a.format, "events": len(a), "span_seconds": a.span * 1e-9},
        "b": {"path": b.path, "format": b.format, "events": len(b), "span_seconds": b.span * 1e-9},
        "steps": steps,
        "a_steps": len(spans(a, steps)) if steps is not None else None,
        "b_steps": len(spans(b, steps)) if steps is not None else None,
        **{
            name: [
                asdict(c) | {"change_seconds": c.seconds} for c in rows[: top if name in ("ranges", "names") else None]
            ]
            for name, rows in found.items()
        },
        "notes": notes,
    }


def show(found: dict[str, Any]) -> str:
    """The figures as text."""
    head = [f"{k.upper()}: {found[k]['path']} ({found[k]['format']}, {found[k]['events']:,} events in "
            f"{seconds(found[k]['span_seconds'])})" for k in ("a", "b")]  # fmt: skip
    if found["steps"] is not None:
        head.append(f"steps: '{found['steps']}', {found['a_steps']} in A and {found['b_steps']} in B")
    head.append(f"Times are means over {'steps and ' * (found['steps'] is not None)}processes.")
    chance = any(row["p"] is not None for rows in ("terms", "ranges", "names") for row in found[rows])
    head.append(f"Changes with a probability of chance below {_SIGNIFICANT:g} are marked *." if chance else "")

    def columns(row: dict[str, Any]) -> list[str]:
        first, second = row["a_seconds"], row["b_seconds"]
        sign = "+" if second >= first else "-"
        relative = f"{100 * (second / first - 1):+.1f} %" if first > 0 else "-"
        mark = "" if row["p"] is None else f"{row['p']:.2g}{' *' * (row['p'] < _SIGNIFICANT)}"
        return [seconds(first), seconds(second), f"{sign}{seconds(abs(second - first))}", relative, mark]

    titles = ("A", "B", "CHANGE", "", "CHANCE")
    tables: list[list[tuple[str, ...]]] = [[("TERM OF EQ. 3", *titles)], [("CATEGORY, EXCLUSIVE", *titles)]]
    tables[0] += [(TERMS[r["name"]], *columns(r)) for r in found["terms"]]
    tables[1] += [(r["name"], *columns(r)) for r in found["categories"]]
    if found["ranges"]:
        tables.append([("RANGE, MEAN LENGTH", *titles, "OCCURRENCES")])
        tables[-1] += [
            (middle(r["name"]), *columns(r), f"{r['a_calls']:g} → {r['b_calls']:g}") for r in found["ranges"]
        ]
    tables.append([("NAME, EXCLUSIVE", "CATEGORY", *titles, "CALLS", "BECAUSE")])
    for r in found["names"]:
        calls = f"{r['a_calls']:.4g} → {r['b_calls']:.4g}"
        tables[-1].append((middle(r["name"]), r["category"], *columns(r), calls, r["because"]))
    return "\n\n".join(["\n".join(h for h in head if h), *map(table, tables), *(f"note: {n}" for n in found["notes"])])
