"""The critical path of a traced run: the longest chain of dependent host and device work.

The rules follow Holistic Trace Analysis (its documentation, "Lightweight Critical Path Analysis"):

- The events of a thread follow one another, nested calls included. The time inside events counts; the time between
  outermost events does not, nor does time in which the thread only waits (`Category.wait`).
- A call that waits for a device takes no time of its own: it ends when the work it waits for has ended. The file says
  what that work is (`Trace.requires`); otherwise it is all work that the process launched before the call and that
  ended during the call.
- Work launched onto an idle stream starts after its launch, and the time since the start of the call counts as launch
  delay. Work launched onto a busy stream starts after the previous work, and the gap between them counts.
- Work that a stream was made to wait for precedes the waiting work, at no cost.

The length of the path is a lower bound on the run time, however much other work runs concurrently.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.model.program import view
from weft.model.result import ModelError
from weft.traces import Category, Trace
from weft.traces.launches import Launches

SKEW = 2000  # ns; clocks of host and device, rounded to microseconds, may disagree by this much
KINDS = ("", "between calls", "launch delay", "between kernels", "wait")  # kinds of edges; '': inside an event
INSIDE, CALLS, LAUNCH, KERNELS, WAIT = range(len(KINDS))


@dataclass(frozen=True)
class CriticalPath:
    """The critical path through n events.

    events   bool (n): whether the start or the end of the event is on the path
    own      int64 (n): nanoseconds of the path inside the event, without those inside nested events
    between  nanoseconds of the path between events, by kind
    """

    events: NDArray[np.bool_]
    own: NDArray[np.int64]
    between: dict[str, int]

    @property
    def length(self) -> int:
        """The length of the path in nanoseconds."""
        return int(self.own.sum()) + sum(self.between.values())


def critical_path(trace: Trace) -> CriticalPath:
    """The critical path through the host threads and streams of all processes of a trace.

    Messages between processes are not taken into account. Raises ModelError if events depend on each other in a cycle,
    or if work starts before its launch because the clocks of host and device disagree.
    """
    trace.validate()
    if (trace.category == Category.other).all():
        raise ModelError(f"{trace.path}: the trace has only annotations, which are on no critical path")
    graph = _Graph(trace)
    graph.threads()
    graph.streams()
    graph.waits()
    return graph.longest()


class _Graph:
    """Nodes 2 i and 2 i + 1 are the start and end of event i.

    Edges are kept in columns, because a million events have three million edges.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.launches = Launches(trace)
        self.stream = trace.on_stream()
        self.skipped = trace.category == Category.other
        self.needs = self._needs()
        self.outer = np.full(len(trace), -1, dtype=np.int64)  # event of a thread: the innermost one open at its start
        self.edges: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int8], NDArray[np.bool_]]] = []

    def _time(self, node: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(node % 2, self.trace.end[node // 2], self.trace.start[node // 2])

    def _add(self, earlier: ArrayLike, later: ArrayLike, kind: ArrayLike, free: ArrayLike) -> None:
        """Adds edges with their kinds; free ones take no time."""
        earlier, later = np.asarray(earlier, dtype=np.int64), np.asarray(later, dtype=np.int64)
        kind, free = np.asarray(kind, dtype=np.int8), np.asarray(free, dtype=bool)
        self.edges.append((earlier, later, np.broadcast_to(kind, earlier.shape), np.broadcast_to(free, earlier.shape)))

    def _needs(self) -> NDArray[np.int64]:
        """Pairs of a waiting event and the work it waits for: calls wait for any stream, work waits for other streams.

        Calls that wait for nothing are paired with -1.
        """
        if self.trace.requires is not None:
            return np.asarray(self.trace.requires, dtype=np.int64).reshape(-1, 2)
        work = np.flatnonzero(self.stream)
        call_of = self.launches.call[work]
        launched = np.where(call_of >= 0, self.trace.start[call_of], -1)  # without a call: before the trace began
        order = np.argsort(self.trace.end[work], kind="stable")
        work, launched = work[order], launched[order]
        calls = np.flatnonzero(~self.stream & (self.trace.category == Category.sync))
        first = np.searchsorted(self.trace.end[work], self.trace.start[calls], side="right").tolist()
        last = np.searchsorted(self.trace.end[work], self.trace.end[calls] + SKEW, side="right").tolist()
        found = [np.stack((calls, np.full_like(calls, -1)), axis=1)]
        for call, a, b in zip(calls.tolist(), first, last, strict=True):  # the work between ended during the call
            here = (launched[a:b] < self.trace.start[call]) & (
                self.trace.process[work[a:b]] == self.trace.process[call]
            )
            mine = np.sort(work[a:b][here])
            found.append(np.stack((np.full_like(mine, call), mine), axis=1))
        return np.concatenate(found)

    def threads(self) -> None:
        """Edges between the starts and ends of a thread's events, in order."""
        waits = self.trace.category == Category.wait
        waits[self.needs[:, 0]] = True
        waits &= ~self.stream
        records = ~self.stream & (self.trace.category == Category.sync)
        host = np.flatnonzero(~self.stream & ~self.skipped)
        # A record may have the times of its call, which contains it.
        inner = records[host] & ~waits[host]
        order = host[np.lexsort((inner, -self.trace.end[host], self.trace.start[host], self.trace.line[host]))]
        earlier, later, kind, free = array("q"), array("q"), array("b"), array("b")
        start, end, lines, outer = (view(a) for a in (self.trace.start, self.trace.end, self.trace.line, self.outer))
        is_wait, is_record, correlation = view(waits), view(records), view(self.trace.correlation)
        last: dict[int, int] = {}  # line -> node
        stacks: dict[int, list[int]] = defaultdict(list)

        def edge(to: int, line: int, of: int, without: bool) -> None:
            earlier.append(last[line])
            later.append(to)
            kind.append(of)
            free.append(without)

        def close(line: int, stack: list[int], until: int | None) -> None:
            while stack and (until is None or end[stack[-1]] <= until):
                event = stack.pop()
                edge(2 * event + 1, line, INSIDE, is_wait[event])
                last[line] = 2 * event + 1

        for event in view(order):
            line = lines[event]
            stack = stacks[line]
            close(line, stack, start[event])
            if stack and is_record[event] and correlation[event] == correlation[stack[-1]] >= 0:
                self.skipped[event] = True  # the profiler's record of the wait inside the enclosing call
                continue
            if line in last:
                edge(2 * event, line, INSIDE if stack else CALLS, not stack)
            last[line] = 2 * event
            if stack:
                outer[event] = stack[-1]
            stack.append(event)
        for line, stack in stacks.items():
            close(line, stack, None)
        self._add(earlier, later, kind, free)

    def streams(self) -> None:
        """Edges to each piece of work from its launch or from the work before it."""
        start, end = self.trace.start, self.trace.end
        work = np.flatnonzero(self.stream)
        work = work[np.lexsort((end[work], start[work], self.trace.line[work]))]
        self._add(2 * work, 2 * work + 1, INSIDE, False)
        previous = np.where(np.diff(self.trace.line[work], prepend=-1) == 0, np.roll(work, 1), -1)
        idle_by = np.where(previous >= 0, end[previous], -1)
        waited = np.full(len(self.trace), -1, dtype=np.int64)
        needs = self.needs[self.needs[:, 1] >= 0]
        np.maximum.at(waited, needs[:, 0], end[needs[:, 1]])
        waited, call = waited[work], self.launches.call[work]
        launched = (call >= 0) & (np.maximum(idle_by, waited) < start[call])
        self._add(2 * call[launched], 2 * work[launched], LAUNCH, False)
        follows = ~launched & (previous >= 0) & (waited <= idle_by)
        self._add(2 * previous[follows] + 1, 2 * work[follows], KERNELS, False)

    def waits(self) -> None:
        """Edges to each waiting event from the work it waits for."""
        event, source = self.needs[self.needs[:, 1] >= 0].T
        self._add(2 * source + 1, 2 * event + ~self.stream[event], WAIT, True)

    def _columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int8]]:
        """The edges between events that are not skipped, in columns: earlier node, later node, time (ns) and kind."""
        earlier, later, kind, free = (np.concatenate(column) for column in zip(*self.edges, strict=True))
        self.edges.clear()
        kept = ~(self.skipped[earlier // 2] | self.skipped[later // 2])
        earlier, later, kind, free = earlier[kept], later[kept], kind[kept], free[kept]
        length = self._time(later) - self._time(earlier)
        # On one thread, the profiler itself may close an event too early.
        wrong = np.flatnonzero((length < -SKEW) & (kind != INSIDE) & ~free)
        if len(wrong):
            name = self.trace.names[self.trace.name[later[wrong[0]] // 2]]
            raise ModelError(
                f"{self.trace.path}: '{name}' happens {-length[wrong[0]]} ns before the event it depends on: "
                "the clocks of host and device disagree"
            )
        length[free] = 0
        return earlier, later, np.maximum(length, 0, out=length), kind

    def longest(self) -> CriticalPath:
        earlier, later, seconds, kind = self._columns()
        count = 2 * len(self.trace)
        edges = np.argsort(earlier, kind="stable")  # by the node that they leave
        first = view(np.searchsorted(earlier[edges], np.arange(count + 1)))
        arrivals = np.bincount(later, minlength=count)
        exists = np.repeat(~self.skipped, 2)
        ready = array("q", np.flatnonzero(exists & (arrivals == 0)).tolist())
        length, origin = np.zeros(count, dtype=np.int64), np.full(count, len(edges), dtype=np.int64)
        far, by, missing = view(length), view(origin), view(arrivals)
        leaving, to, takes = view(edges), view(later), view(seconds)
        done = 0
        while ready:
            node = ready.pop()
            done += 1
            here = far[node]
            for edge in leaving[first[node] : first[node + 1]]:
                end, then = to[edge], here + takes[edge]
                if then > far[end] or (then == far[end] and edge < by[end]):  # the first of equal edges is used
                    far[end], by[end] = then, edge
                missing[end] -= 1
                if missing[end] == 0:
                    ready.append(end)
        if done < exists.sum():
            name = self.trace.names[self.trace.name[np.flatnonzero(arrivals)[0] // 2]]
            raise ModelError(f"{self.trace.path}: events depend on each other in a cycle that includes '{name}'")
        ends = np.flatnonzero(exists & (length == length.max()))
        return self._path(int(ends[np.argmax(self._time(ends))]), origin, earlier, seconds, kind)

    def _path(
        self,
        node: int,
        origin: NDArray[np.int64],
        earlier: NDArray[np.int64],
        seconds: NDArray[np.int64],
        kind: NDArray[np.int8],
    ) -> CriticalPath:
        """The path to a node along the edges `origin` through which the nodes are reached last."""
        events = np.zeros(len(self.trace), dtype=bool)
        own = np.zeros(len(self.trace), dtype=np.int64)
        between: dict[str, int] = defaultdict(int)
        events[node // 2] = True
        while (edge := int(origin[node])) < len(earlier):
            before = int(earlier[edge])
            if kind[edge]:
                between[KINDS[kind[edge]]] += int(seconds[edge])
            else:  # between two nodes of nested events, the time belongs to the event that is open there
                own[self._open_between(before, node)] += seconds[edge]
            node = before
            events[node // 2] = True
        return CriticalPath(events, own, dict(between))

    def _open_between(self, earlier: int, later: int) -> int:
        if earlier % 2 == 0:
            return earlier // 2
        if later % 2 == 1:
            return later // 2
        return int(self.outer[later // 2])  # from the end of one to the start of the next: the time of the outer one
