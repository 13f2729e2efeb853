"""The longest chain of a replayed run: its duration by parts, found by following waits backwards from the end."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from weft.model.program import COLLECTIVE, COPY, KERNEL, Program

Cause = tuple[str, int]  # "work", "call" or "meeting", and its number
KINDS = {KERNEL: "kernels", COPY: "copies", COLLECTIVE: "collectives on streams"}


@dataclass
class Times:
    """The times of all events in a replay, in seconds (-1: not yet), and their causes.

    began_by and returned_by have the calls that began or returned because of something other than their own thread. A
    piece of work started because of the work before it on its stream, because of its launch (`by_launch`), or because
    of work on another stream (`by_work`).
    """

    handed: memoryview[float]  # launch of each piece of work
    started: memoryview[float]
    done: memoryview[float]
    began: memoryview[float]  # begin of each call, after it had room in its queue
    returned: memoryview[float]
    by_launch: bytearray
    arrived: list[tuple[float, int]]  # the latest arrival at each meeting, and its call, or -1 - its work
    by_work: dict[int, int] = field(default_factory=dict)
    met: dict[int, int] = field(default_factory=dict)  # by collective on a stream: the meeting that ended it
    began_by: dict[int, Cause] = field(default_factory=dict)
    returned_by: dict[int, Cause] = field(default_factory=dict)
    ended: Cause = ("none", 0)  # what ended last


def longest_chain(source: Program, times: Times, end: float) -> dict[str, float]:
    """Seconds of the chain that ends at `end`, by kind of part; they add up to `end`."""
    calls, work = source.calls, source.work
    caller = np.full(len(work), -1, dtype=np.int64)
    caller[calls.launched] = np.repeat(np.arange(len(calls)), np.diff(calls.launch_first))
    before = np.full(len(work), -1, dtype=np.int64)  # on the same stream
    before[work.order[1:]] = work.order[:-1]
    before[work.order[work.first[:-1][np.diff(work.first) > 0]]] = -1
    heads = set(calls.first.tolist())
    parts: dict[str, float] = defaultdict(float)
    (kind, number), now = times.ended, end

    def back(label: str, when: float) -> None:
        nonlocal now
        parts[label] += now - when
        now = when

    while kind != "none":
        if kind == "work":
            if number in times.met:
                when, by = times.arrived[times.met[number]]
                back(KINDS[int(work.kind[number])], when)
                number = -1 - by
            back(KINDS[int(work.kind[number])], times.started[number])
            if number in times.by_work:
                number = times.by_work[number]
                back("waits of streams", times.done[number])
            elif times.by_launch[number]:
                back("launch latency", times.handed[number])
                kind, number = "begin", int(caller[number])
            elif before[number] >= 0:
                number = int(before[number])
                back("between work on streams", times.done[number])
            else:
                back("before the first work", 0.0)
                kind = "none"
        elif kind == "call":  # its return
            kind, by = times.returned_by.get(number, ("begin", number))
            if kind == "work":
                back("returning from waits", times.done[by])
            elif kind == "meeting":
                when, by = times.arrived[by]
                back("messages", when)
                kind = "begin"
            number = by
        else:  # its begin, after the time inside the call
            back("copies" if number in calls.copies else "calls", times.began[number])
            if number in times.began_by:
                kind, number = times.began_by[number]
                back("between threads", times.done[number] if kind == "work" else times.returned[number])
            elif number in heads:
                back("host between calls", 0.0)
                kind = "none"
            else:
                kind, number = "call", number - 1
                back("host between calls", times.returned[number])
    return dict(parts)
