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
    rows = _calls(trace, threads, kinds, streams)
    carried = transfers.match(trace) if len(streams) else transfers.Transfers()
    if len(rows) < 2 and not carried.found:
        return Meetings()
    matched = messages.match(trace, rows, kinds)
    began = {e: int(trace.start[p]) for e, p in matched.partner.items() if kinds[trace.name[e]] == "irecv"}
    ends: dict[int, int] = {}
    for row in rows.values():
        ends.update(messages.ended_by(trace, row, kinds, began))
    finder = _Finder(trace, kinds, streams, ends, path)
    finder.found.notes += [f"{text}: these waits stay as traced" for text in (*matched.alone, *carried.alone)]
    for call, other in matched.partner.items():
        finder.message(call, other)
    for joined in matched.joined:
        finder.collective(joined)
    for kernel, (others, most) in carried.partners().items():
        last = max(int(trace.start[e]) for e in (kernel, *others))
        finder.meet((kernel, *others), [kernel] if trace.end[kernel] > last else [], float(most))
    finder.find_tails()
    finder.find_needs()
    return finder.found


def _calls(
    trace: Trace, threads: Sequence[NDArray[np.int64]], kinds: Sequence[str], streams: NDArray[np.int64]
) -> dict[int, NDArray[np.int64]]:
    """By process, its MPI calls and the collectives on its streams, in the order of the trace."""
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
    return rows


class _Finder:
    """Collects the meetings of a trace, then finds how long the calls that waited took themselves.

    ``ends``: by event that starts an operation, the wait that completes it.
    """

    def __init__(
        self,
        trace: Trace,
        kinds: Sequence[str],
        streams: NDArray[np.int64],
        ends: dict[int, int],
        path: MessagePath | None,
    ) -> None:
        self.found = Meetings()
        self._trace, self._kinds, self._ends, self._path = trace, kinds, ends, path
        self._on_stream = np.zeros(len(trace), dtype=bool)
        self._on_stream[streams] = True
        self._opens: dict[int, list[int]] = {}
        # By call: (meeting, last arrival, when its message is there).
        self._wanted: dict[int, list[tuple[int, int, int]]] = {}

    def meet(self, comes: Sequence[int], leaves: Sequence[int], size: float, latencies: int = 1) -> None:
        """Adds a meeting that the events ``comes`` open and for which the events ``leaves`` wait."""
        trace, path, found = self._trace, self._path, self.found
        last = max(int(trace.start[e]) for e in comes)
        there = last if path is None else last + int(1e9 * (latencies * path.latency + size / path.bandwidth))
        number = len(found.meetings)
        found.meetings.append(Meeting(tuple(int(trace.process[e]) for e in comes), size, latencies))
        for event in comes:
            self._opens.setdefault(event, []).append(number)
        for event in leaves:
            if event not in comes or len(comes) > 1:
                self._wanted.setdefault(event, []).append((number, last, there))

    def message(self, call: int, other: int) -> None:
        """Adds the message between a call and the call at its other end, if the first receives."""
        trace, kind = self._trace, self._kinds[self._trace.name[call]]
        if kind in ("recv", "irecv"):
            last = call if kind == "recv" else self._ends.get(call, -1)
            if last >= 0:
                self.meet([other], [last], float(max(trace.bytes[call], trace.bytes[other], 0)))

    def collective(self, joined: messages.Joined) -> None:
        """Adds a collective of several processes."""
        trace, kinds, meet = self._trace, self._kinds, self.meet
        events = list(joined.events.values())
        if len(events) < 2:
            return
        roots = {int(trace.peer[e]) for e in events}
        root = next((e for p, e in joined.events.items() if p in roots), events[0])
        size = float(max(0, *(int(trace.bytes[e]) for e in events)))
        if self._on_stream[events].all():
            last = int(trace.start[events].max())
            meet(events, [e for e in events if trace.end[e] > last], size * _share(joined.kind, len(events)))
            return
        over = {e: e if kinds[trace.name[e]] in messages.COLLECTIVES else self._ends.get(e, -1) for e in events}
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

    def find_tails(self) -> None:
        """Finds the calls that waited, their tails, and the latency and bandwidth that the tails say."""
        trace, found = self._trace, self.found
        waits = []  # (bytes, tail per message one after another) of calls that waited
        for call, pairs in self._wanted.items():
            last = max(there for _, _, there in pairs)
            if last > trace.start[call] or self._on_stream[call]:
                found.tails[call] = max(0, int(trace.end[call]) - last) * 1e-9
                met = [found.meetings[m] for m, _, there in pairs if there == last]
                waits += [(m.bytes, found.tails[call] / m.latencies) for m in met]
        if self._path is not None:
            found.latency, found.bandwidth = self._path
            return
        times = [(n, s) for n, s in waits if s > 0]
        found.latency = float(np.quantile([s for _, s in times], 0.05)) if times else 0.0
        sized = [(n, s) for n, s in times if n > 0]
        if sized and max(n for n, _ in sized) >= 4 * min(n for n, _ in sized):
            found.bandwidth = link_bandwidth(sized)

    def find_needs(self) -> None:
        """Finds which meetings each event opens, and how long after each meeting the calls that wait for it end."""
        found = self.found
        for call, pairs in self._wanted.items():
            last = max(there for _, _, there in pairs)
            needs = []
            for number, when, there in pairs:
                lag = (int(self._trace.end[call]) - when) * 1e-9
                if there < last or call not in found.tails:
                    meeting = found.meetings[number]
                    lag = min(lag, meeting.latencies * found.latency + meeting.bytes / found.bandwidth)
                needs.append((number, lag))
            found.needs[call] = tuple(needs)
        found.opens = {e: tuple(m) for e, m in self._opens.items()}


def _share(kind: str, count: int) -> float:
    """The bytes that pass each link of a ring, relative to those that a process contributes (NCCL's bus bandwidth)."""
    if kind == "allreduce":
        return 2 * (count - 1) / count
    if kind == "allgather":
        return count - 1
    return (count - 1) / count if kind in ("reducescatter", "alltoall") else 1
