"""The calls that launched device work, and the work launched on a stream before or after a given time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.traces.table import Trace


class Launches:
    """The launch order of the work on every stream, by the start of the call with the same process and correlation.

    call     int64 (n): for an event on a stream, the index of the call that launched it; otherwise -1
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        stream = trace.on_stream()
        self.call = np.full(len(trace), -1, dtype=np.int64)
        work = np.flatnonzero(stream & (trace.correlation >= 0))
        calls = np.flatnonzero(
            ~stream & (trace.correlation >= 0) & (trace.peer < 0)
        )  # excludes the messages of a kernel
        if len(work) and len(calls):
            # One number per pair of process and correlation, so that a single search finds the matching pairs.
            events = np.concatenate([calls, work])
            numbers, key = np.unique(trace.correlation[events], return_inverse=True)
            key += np.unique(trace.process[events], return_inverse=True)[1] * len(numbers)
            have, first = np.unique(key[: len(calls)], return_index=True)  # the outermost of nested calls
            wanted = key[len(calls) :]
            place = np.minimum(np.searchsorted(have, wanted), len(have) - 1)
            found = have[place] == wanted
            self.call[work[found]] = calls[first[place[found]]]
        self._lines: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        work = work[self.call[work] >= 0]
        order = work[np.lexsort((trace.start[work], trace.start[self.call[work]], trace.line[work]))]
        lines, begins = np.unique(trace.line[order], return_index=True)
        for line, mine in zip(lines.tolist(), np.split(order, begins[1:]), strict=bool(len(lines))):
            self._lines[line] = mine, trace.start[self.call[mine]]

    def last_before(self, line: int, time: int) -> int:
        """The last event launched on a line before `time`; -1 if there is none."""
        if line not in self._lines:
            return -1
        events, times = self._lines[line]
        place = int(np.searchsorted(times, time)) - 1
        return int(events[place]) if place >= 0 else -1

    def first_after(self, line: int, time: int) -> int:
        """The first event launched on a line at or after `time`; -1 if there is none."""
        if line not in self._lines:
            return -1
        events, times = self._lines[line]
        place = int(np.searchsorted(times, time))
        return int(events[place]) if place < len(events) else -1
