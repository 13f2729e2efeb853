"""Meetings: the messages and collectives of a trace in which processes wait for each other.

`weft.traces.messages` matches them, and the replay moves the waits (docs/model-replay.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.model.rate import link_bandwidth
from weft.traces import messages, transfers
from weft.traces.table import Category, Trace


class Meeting(NamedTuple):
    """A message or a collective. It takes place when `processes` have all begun the calls that open it."""

    processes: tuple[int, ...]  # the processes that others wait for
    bytes: float = 0.0  # from one process to another
    latencies: int = 1  # messages one after another: of a collective of a host, the depth of a binary tree


@dataclass
class Meetings:
    """All meetings of a trace, and the events that take part in them."""

    meetings: list[Meeting] = field(default_factory=list)
    opens: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by event: the meetings it opens
    # By event: the meetings it waits for, and how long (s) after each it ended.
    needs: dict[int, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    # By event that waited: the time (s) that it spent itself, from the last arrival to its end; with a known path, from
    # the time at which the last message was there.
    tails: dict[int, float] = field(default_factory=dict)
    latency: float = 0.0  # latency of the path, else the 5 % quantile of the tails
    bandwidth: float = np.inf  # rate of the path, else the rate at which the tails grow; infinite if they do not grow
    notes: list[str] = field(default_factory=list)

    def of(self, event: int) -> tuple[tuple[int, ...], tuple[tuple[int, float], ...], float | None]:
        """The meetings that an event opens, those it needs, and its tail if it waited."""
        return self.opens.get(event, ()), self.needs.get(event, ()), self.tails.get(event)


class MessagePath(NamedTuple):
    """The path of messages between processes: latency (s) and rate (byte/s), as a ping-pong measures them."""

    latency: float
    bandwidth: float


def find_meetings(
    trace: Trace,
    threads: Sequence[NDArray[np.int64]],
    kinds: Sequence[str],
    streams: NDArray[np.int64],
    path: MessagePath | None = None,
) -> Meetings:
    """Finds which MPI calls wait for which processes.

    A receive, or the wait that completes it, does not end before its send has begun. Sends complete on their own, like
    messages that MPI buffers. No process returns from an all-reduce, all-gather, all-to-all or barrier before all have
    entered it. The root of a gather or reduce waits for all processes, all processes wait for the root of a broadcast,
    and in a scan each process waits for those of lower rank. If a call waited in the trace, it ends as long after the
    last arrival as it did there; otherwise, within the shortest such time.

    A trace alone does not say when a message arrives, so a call counts as having waited if the message was sent during
    it. With a known path, calls whose message was sent before and was still on its way count, too.

    Collectives in the work on `streams` that several processes have in common meet in the same way. Their kernels run
    until all data have arrived, so each waits for the last one to start, unless it ended earlier in the trace. A kernel
    that sends or receives messages waits in the same way for the kernels with which it exchanges them.
    """
    found = Meetings()
    rows: dict[int, NDArray[np.int64]] = {}
    for thread in threads:
        index = thread[trace.category[thread] == Category.mpi]
        if len(index):
            process = int(trace.process[index[0]])
            rows[process] = np.sort(np.concatenate([rows.get(process, index[:0]), index]))
    for process in np.unique(trace.process[streams]).tolist():
        mine = streams[trace.process[streams] == process]
        mine = mine[[kinds[k] in messages.COLLECTIVES for k in trace.name[mine].tolist()]]
        if len(mine):
            rows[process] = np.sort(np.concatenate([rows.get(process, mine[:0]), mine]))
    carried = transfers.match(trace) if len(streams) else transfers.Transfers()
    if len(rows) < 2 and not carried.found:
        return found
    on_stream = np.zeros(len(trace), dtype=bool)
    on_stream[streams] = True
    matched = messages.match(trace, rows, kinds)
    found.notes += [f"{text}: these waits stay as traced" for text in (*matched.alone, *carried.alone)]
    start, end = trace.start, trace.end
    began = {e: int(start[p]) for e, p in matched.partner.items() if kinds[trace.name[e]] == "irecv"}
    ends: dict[int, int] = {}  # by event that starts an operation: the wait that completes it
    for row in rows.values():
        ends.update(messages.ended_by(trace, row, kinds, began))

    wanted: dict[int, list[tuple[int, int, int]]] = {}  # by call: (meeting, last arrival, when its message is there)
    opens: dict[int, list[int]] = {}

    def meet(comes: Sequence[int], leaves: Sequence[int], size: float, latencies: int = 1) -> None:
        last = max(int(start[e]) for e in comes)
        there = last if path is None else last + int(1e9 * (latencies * path.latency + size / path.bandwidth))
        number = len(found.meetings)
        found.meetings.append(Meeting(tuple(int(trace.process[e]) for e in comes), size, latencies))
        for event in comes:
            opens.setdefault(event, []).append(number)
        for event in leaves:
            if event not in comes or len(comes) > 1:
                wanted.setdefault(event, []).append((number, last, there))

    for call, other in matched.partner.items():
        kind = kinds[trace.name[call]]
        if kind in ("recv", "irecv"):
            last = call if kind == "recv" else ends.get(call, -1)
            if last >= 0:
                meet([other], [last], float(max(trace.bytes[call], trace.bytes[other], 0)))
    for joined in matched.joined:
        events = list(joined.events.values())
        roots = {int(trace.peer[e]) for e in events}
        root = next((e for p, e in joined.events.items() if p in roots), events[0])
        size = float(max(0, *(int(trace.bytes[e]) for e in events)))
        if len(events) < 2:
            continue
        if on_stream[events].all():
            last = int(start[events].max())
            meet(events, [e for e in events if end[e] > last], size * _share(joined.kind, len(events)))
            continue
        over = {e: e if kinds[trace.name[e]] in messages.COLLECTIVES else ends.get(e, -1) for e in events}
        # The messages of an all-to-all are on their way at the same time; other collectives are trees.
        depth = 1 if joined.kind == "alltoall" else math.ceil(math.log2(len(events)))
        if joined.kind == "bcast":
            meet([root], [o for e, o in over.items() if e != root and o >= 0], size, depth)
        elif joined.kind in ("gather", "reduce"):
            meet(events, [over[root]] if over[root] >= 0 else [], size, depth)
        elif joined.kind == "scan":
            for k, event in enumerate(events[1:], 1):
                if over[event] >= 0:
                    meet(events[:k], [over[event]], size)
        elif len(events) == 2:  # the last process does not wait for its own message
            for event, other in (events, events[::-1]):
                if over[event] >= 0:
                    meet([other], [over[event]], size)
        else:
            meet(events, [o for o in over.values() if o >= 0], size, depth)

    for kernel, (others, most) in carried.partners().items():
        last = max(int(start[e]) for e in (kernel, *others))
        meet((kernel, *others), [kernel] if end[kernel] > last else [], float(most))

    waits = []  # (bytes, tail per message one after another) of calls that waited
    for call, pairs in wanted.items():
        last = max(there for _, _, there in pairs)
        if last > start[call] or on_stream[call]:
            found.tails[call] = max(0, int(end[call]) - last) * 1e-9
            met = [found.meetings[m] for m, _, there in pairs if there == last]
            waits += [(m.bytes, found.tails[call] / m.latencies) for m in met]
    if path is not None:
        found.latency, found.bandwidth = path
    else:
        times = [(n, s) for n, s in waits if s > 0]
        found.latency = float(np.quantile([s for _, s in times], 0.05)) if times else 0.0
        sized = [(n, s) for n, s in times if n > 0]
        if sized and max(n for n, _ in sized) >= 4 * min(n for n, _ in sized):
            found.bandwidth = link_bandwidth(sized)
    for call, pairs in wanted.items():
        last = max(there for _, _, there in pairs)
        needs = []
        for number, when, there in pairs:
            lag = (int(end[call]) - when) * 1e-9
            if there < last or call not in found.tails:
                meeting = found.meetings[number]
                lag = min(lag, meeting.latencies * found.latency + meeting.bytes / found.bandwidth)
            needs.append((number, lag))
        found.needs[call] = tuple(needs)
    found.opens = {e: tuple(m) for e, m in opens.items()}
    return found


def _share(kind: str, count: int) -> float:
    """The bytes that pass each link of a ring, relative to those that a process contributes (NCCL's bus bandwidth)."""
    if kind == "allreduce":
        return 2 * (count - 1) / count
    if kind == "allgather":
        return count - 1
    return (count - 1) / count if kind in ("reducescatter", "alltoall") else 1
