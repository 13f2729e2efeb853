"""Overlapping events on a stream, which should not exist: a stream does one thing at a time.

Profilers write a few, because clocks are rounded or read late, and because kernels may be launched before their
predecessors end (programmatic dependent launch). A few are clipped; many mean that a line mixes streams.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.traces.table import COLUMNS, Trace, in_time, per_line

MOST_EVENTS = 0.1  # share of the events on streams that may be clipped
MOST_TIME = 0.01  # share of their time that may be lost


def clip(trace: Trace) -> Trace:
    """The trace without overlaps on streams, with a note; the trace itself if it has none, or more than a few.

    An event that starts before earlier ones on its stream have ended starts at their end instead, so that the time in
    which the stream is busy stays the same.
    """
    late = trace.overlaps()
    if not len(late):
        return trace
    on_stream = np.flatnonzero(trace.on_stream())
    start, end = trace.start.copy(), trace.end.copy()
    for events in per_line(trace, on_stream[np.isin(trace.line[on_stream], trace.line[late])]):
        reach = np.maximum.accumulate(end[events])
        start[events[1:]] = np.maximum(start[events[1:]], reach[:-1])
        end[events] = np.maximum(end[events], start[events])
    lost = int(((trace.end - trace.start) - (end - start)).sum())
    busy = int((trace.end - trace.start)[on_stream].sum())
    if len(late) > max(1, MOST_EVENTS * len(on_stream)) or lost > MOST_TIME * busy:
        return trace
    order = in_time(start, end, trace.on_stream())
    columns = {c: getattr(trace, c)[order] for c in COLUMNS} | {"start": start[order], "end": end[order]}
    requires = trace.requires
    if requires is not None:
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        requires = place[requires]
    note = (
        f"{len(late)} of {len(on_stream)} events on streams start before an earlier one on the same stream has ended "
        f"and are clipped, by {lost * 1e-3:.3g} us in all ({100 * lost / max(busy, 1):.2g} % of the streams' busy time)"
    )
    return replace(trace, requires=requires, notes=(*trace.notes, note), **columns)
