"""The event table of a trace as CSV."""

from __future__ import annotations

import csv
from typing import IO

from weft.traces import Category, Trace

HEADER = (
    "process", "line", "kind", "start_ns", "end_ns", "category", "name", "bytes", "peer", "correlation", "group",
)  # fmt: skip
_CHUNK = 1 << 16


def write(trace: Trace, file: IO[str]) -> None:
    """Writes one row per event, in the order of start times."""
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(HEADER)
    categories = [c.name for c in Category]
    labels, kinds = [x.label for x in trace.lines], [x.kind for x in trace.lines]
    for first in range(0, len(trace), _CHUNK):
        part = slice(first, first + _CHUNK)
        line = trace.line[part].tolist()
        numbers = (c[part].tolist() for c in (trace.bytes, trace.peer, trace.correlation, trace.group))
        rows.writerows(
            zip(
                trace.process[part].tolist(), (labels[i] for i in line), (kinds[i] for i in line),
                trace.start[part].tolist(), trace.end[part].tolist(), (categories[i] for i in trace.category[part]),
                (trace.names[i] for i in trace.name[part]), *numbers, strict=True,
            )
        )  # fmt: skip
