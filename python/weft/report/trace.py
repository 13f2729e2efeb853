"""Tables of a trace: time by category, by term of Eq. 3 and by name, and the bytes moved."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.format import rate, seconds, table, table_of_names
from weft.traces import Category, Trace, attribute, exclusive
from weft.traces.balance import Rank, balance, imbalance, stragglers
from weft.traces.table import describe

TERMS = {
    "t_cpu": "t_CPU",
    "t_gpu": "t_GPU",
    "t_mpi": "t_MPI",
    "t_cg_data": "t_CGdata",
    "t_cg_control": "t_CGcontrol",
    "t_total": "t_total",
}


_MEANING = (
    "TIME is exclusive, the mean over processes; SHARE is that of the span of time.\n"
    "MEDIAN and LONGEST are of single calls, with all that they contain."
)


def figures(trace: Trace, top: int = 15) -> dict[str, Any]:
    """Everything that a summary shows, with units in the names.

    Times are means over the processes; counts and bytes are sums.
    """
    processes = len(trace.processes)
    scale = 1e-9 / processes
    # Sums by name and category. Traces may be large, so this avoids another column of 64 bits.
    pair = trace.name * np.int32(len(Category)) + trace.category
    time, moved = np.zeros((2, len(trace.names) * len(Category)), dtype=np.int64)
    np.add.at(time, pair, exclusive(trace))
    moves = np.flatnonzero(trace.bytes > 0)
    np.add.at(moved, pair[moves], trace.bytes[moves])
    calls = np.bincount(pair, minlength=len(time))
    pairs = np.flatnonzero(calls)
    time, moved, calls = time[pairs], moved[pairs], calls[pairs]
    categories = {}
    for category in Category:
        mine = pairs % len(Category) == category
        if mine.any():
            categories[category.name] = {
                "events": int(calls[mine].sum()),
                "exclusive_seconds": float(time[mine].sum() * scale),
                "bytes": int(moved[mine].sum()),
            }
    on_stream, waits = trace.on_stream(), trace.category == Category.wait
    working = _threads(trace, ~on_stream & ~waits & (trace.category != Category.other))
    waiting = _threads(trace, waits) - working
    shown = np.argsort(-time, kind="stable")[:top]
    lengths = {i: trace.end[mine] - trace.start[mine] for i in shown for mine in [pair == pairs[i]]}
    names = [
        {
            "name": trace.names[pairs[i] // len(Category)],
            "category": Category(int(pairs[i] % len(Category))).name,
            "exclusive_seconds": float(time[i] * scale),
            "calls": int(calls[i]),
            "median_seconds": float(np.median(lengths[i]) * 1e-9),
            "longest_seconds": float(lengths[i].max() * 1e-9),
            "bytes": int(moved[i]),
        }
        for i in shown
    ]
    problems = list(trace.notes)
    late = trace.overlaps()
    if len(late):
        problems.append(
            f"{len(late)} events start on a stream before an earlier one there has ended, "
            f"the first {describe(trace, int(late[0]))}"
        )
    terms = attribute(trace).mean()
    return {
        "path": trace.path,
        "format": trace.format,
        "events": len(trace),
        "processes": processes,
        "host_lines": len(working),
        "waiting_host_lines": len(waiting),
        "streams": len(np.unique(trace.line[on_stream])),
        "span_seconds": trace.span * 1e-9,
        "attribution_seconds": {**asdict(terms), "t_total": terms.t_total},
        "categories": dict(sorted(categories.items(), key=lambda c: -c[1]["exclusive_seconds"])),
        "names": names,
        **({"ranks": [asdict(b) for b in balance(trace)], "rank_noun": trace.process_noun} if processes > 1 else {}),
        "notes": problems,
    }


def _threads(trace: Trace, events: NDArray[np.bool_]) -> set[tuple[int, str]]:
    """The threads of some events by process and label; the lines of one thread differ only after the comma."""
    lines = (trace.lines[i] for i in np.unique(trace.line[events]))
    return {(line.process, line.label.partition(",")[0]) for line in lines}


def summarise(trace: Trace, top: int = 15, width: int = 100) -> str:
    """The summary as text, in lines of `width` characters where names can be shortened enough."""
    f = figures(trace, top)
    length = f["span_seconds"]

    def share(value: float, whole: float = length) -> str:
        return f"{100 * value / whole:.1f} %" if whole > 0 else "-"

    def count(number: int, one: str, many: str | None = None) -> str:
        return f"{number} {one if number == 1 else many or one + 's'}"

    head = (
        f"{f['format']}: {count(f['events'], 'event')} of {count(f['processes'], 'process', 'processes')}, "
        f"{count(f['host_lines'], 'host thread')}, "
        + (f"{count(f['waiting_host_lines'], 'thread')} that only wait, " if f["waiting_host_lines"] else "")
        + f"{count(f['streams'], 'stream')}, in {seconds(length)}"
    )
    whole = f["attribution_seconds"]["t_total"]
    terms = [("TERM OF EQ. 3", "MEAN OVER PROCESSES", "SHARE")]
    terms += [(TERMS[k], seconds(v), share(v, whole)) for k, v in f["attribution_seconds"].items()]
    rows = [("CATEGORY", "EVENTS", "TIME", "SHARE", "BYTES")]
    for name, c in f["categories"].items():
        own, moved = c["exclusive_seconds"], rate(c["bytes"], "B") if c["bytes"] else "-"
        rows.append((name, str(c["events"]), seconds(own), share(own), moved))
    names = [("NAME", "CATEGORY", "TIME", "SHARE", "CALLS", "MEDIAN", "LONGEST", "BYTES/CALL")]
    for n in f["names"]:
        own, moved = n["exclusive_seconds"], rate(n["bytes"] / n["calls"], "B") if n["bytes"] else "-"
        calls = (str(n["calls"]), seconds(n["median_seconds"]), seconds(n["longest_seconds"]))
        names.append((n["name"], n["category"], seconds(own), share(own), *calls, moved))
    parts = [head, table(terms), f"{_MEANING}\n{table(rows)}", table_of_names(names, width)]
    if "ranks" in f:
        ranks, noun = [Rank(**r) for r in f["ranks"]], f["rank_noun"]
        parts += [_ranks(ranks, noun), *(f"note: {n}" for n in (imbalance(ranks, noun), stragglers(ranks, noun)) if n)]
    return "\n\n".join([*parts, *(f"note: {n}" for n in f["notes"])])


def _ranks(ranks: list[Rank], noun: str) -> str:
    """The table that compares ranks, or processes if `noun` says so."""
    head = (noun.upper(), "SPAN", "COMPUTES", "COMMUNICATES", "HIDDEN", "IDLE", "ARRIVES LAST", "OTHERS WAIT", "WAITS")
    rows = [
        (str(r.rank), seconds(r.span_seconds), seconds(r.compute_seconds), seconds(r.communication_seconds),
         "-" if r.overlap_share is None else f"{100 * r.overlap_share:.1f} %",
         "-" if r.idle_share is None else f"{100 * r.idle_share:.1f} %",
         f"{r.last} of {r.collectives}" if r.collectives else "-",
         seconds(r.delays_seconds) if r.collectives else "-", seconds(r.waits_seconds) if r.collectives else "-")
        for r in ranks
    ]  # fmt: skip
    return table([head, *rows])
