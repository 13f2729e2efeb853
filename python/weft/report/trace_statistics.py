"""Statistics per kernel, per direction of copies and per call, as in the reports of `nsys stats`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.format import rate, seconds, table_of_names
from weft.traces import Category, Trace, apis

_CALL = re.compile(r"(cuda|cu|hip)[A-Z]\w*|(hsa|__hip)\w+")
_CALLING = (Category.launch, Category.sync, Category.copy, Category.wait)  # a call that only polls is a wait


@dataclass(frozen=True)
class Report:
    """One of the reports: the subject of its rows, the corresponding report of `nsys stats`, and its unit, s or B."""

    title: str
    nsys: str
    unit: str


REPORTS = {
    "kernels": Report("KERNEL", "cuda_gpu_kern_sum", "s"),
    "copies": Report("COPY", "cuda_gpu_mem_time_sum", "s"),
    "copied": Report("COPY", "cuda_gpu_mem_size_sum", "B"),
    "calls": Report("CALL", "cuda_api_sum", "s"),
}


def statistics(trace: Trace) -> dict[str, list[dict[str, Any]]]:
    """The rows of each of the REPORTS over all processes, in seconds or bytes, the largest total first.

    Durations are those of single events, with all that they contain; standard deviations are those of samples (n - 1).
    """
    stream = trace.on_stream()
    operation = [apis.copied(name) for name in trace.names]
    moves = np.array([bool(o) for o in operation])[trace.name] | (trace.category == Category.copy)
    labels = np.array([o or n for o, n in zip(operation, trace.names, strict=True)], dtype=object)
    called = np.array([bool(_CALL.fullmatch(name)) for name in trace.names])[trace.name]
    calls = ~stream & trace.of(*_CALLING)
    if np.any(calls & called):  # otherwise the names are not those of a runtime
        calls &= called  # without the profiler's own records of waits
    names = np.array(trace.names, dtype=object)
    length = trace.end - trace.start
    copies = stream & moves & (trace.category != Category.other)
    sized = np.flatnonzero(copies & (trace.bytes >= 0))
    return {
        "kernels": _rows(trace, np.flatnonzero(stream & ~moves & trace.of(Category.gpu, Category.mpi)), names, length),
        "copies": _rows(trace, np.flatnonzero(copies), labels, length),
        "copied": _rows(trace, sized, labels, trace.bytes, 1.0),
        "calls": _rows(trace, np.flatnonzero(calls), names, length),
    }


def _rows(
    trace: Trace, events: NDArray[np.int64], labels: NDArray[Any], of: NDArray[np.int64], unit: float = 1e-9
) -> list[dict[str, Any]]:
    """Statistics of a column over the events that have the same label."""
    if len(events) == 0:
        return []
    known, group = np.unique(labels.astype(str), return_inverse=True)
    group = group[trace.name[events]]
    value = of[events]
    order = np.lexsort((value, group))
    group, value = group[order], value[order]
    begin = np.flatnonzero(np.diff(group, prepend=-1))
    count = np.diff(begin, append=len(group))
    total = np.add.reduceat(value, begin)
    mean = total / count
    square = np.add.reduceat((value - np.repeat(mean, count)) ** 2, begin)
    middle = begin + (count - 1) // 2
    median = (value[middle] + value[begin + count // 2]) / 2
    columns = {
        "total": total, "mean": mean, "median": median, "min": value[begin], "max": value[begin + count - 1],
        "stddev": np.sqrt(square / np.maximum(count - 1, 1)),
    }  # fmt: skip
    everything = max(int(total.sum()), 1)
    return [
        {"name": str(known[group[begin[k]]]), "share": float(total[k] / everything), "count": int(count[k])}
        | {name: float(column[k] * unit) for name, column in columns.items()}
        for k in np.argsort(-total, kind="stable").tolist()
    ]


def show(found: dict[str, list[dict[str, Any]]], top: int, width: int) -> str:
    """The reports as text, each with at most `top` rows, in lines of `width` characters if names can be shortened."""
    parts = []
    for key, report in REPORTS.items():
        rows = found[key]
        if not rows:
            parts.append(f"{report.nsys}: no such events")
            continue
        head = (report.title, "SHARE", "TOTAL", "COUNT", "MEAN", "MEDIAN", "MIN", "MAX", "STDDEV")
        lines = [head]
        for row in rows[:top]:
            values = [row[c] for c in ("total", "mean", "median", "min", "max", "stddev")]
            total, *others = (seconds(v) if report.unit == "s" else rate(v, "B") for v in values)
            lines.append((row["name"], f"{100 * row['share']:.1f} %", total, str(row["count"]), *others))
        more = f", {top} of {len(rows)} rows" if len(rows) > top else ""
        parts.append(f"{report.nsys}{more}\n{table_of_names(lines, width)}")
    return "\n\n".join(parts)
