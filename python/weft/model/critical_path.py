"""The critical path of one traced run: the chain of host and device work that nothing else could have hidden.

The rules, those of Holistic Trace Analysis in essence (its documentation, "Lightweight Critical Path Analysis"):

- A thread does one thing after another, nested calls included; its time counts from event to event, the time between
  events that enclose nothing not.
- A call that waits for a device takes no time of its own: it ends when what it waits for has ended. What that is the
  file tells (`Trace.requires`); else all that its process launched before it and that ended within it.
- Work that was launched onto an idle stream starts after its launch, the time from the start of the call counting
  (launch delay). Work launched onto a busy stream starts after the work before it, the gap counting.
- Work that a stream was made to wait for comes before what waits, at no cost.

The path is the longest chain of such times: a lower bound of the run's time whatever runs beside it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.model.result import ModelError
from weft.traces import Category, Trace
from weft.traces.launches import Launches

SKEW = 2000  # ns by which clocks of host and device, rounded to microseconds, may disagree


@dataclass(frozen=True)
class CriticalPath:
    """`events`: bool (n), whether a path's node is the start or end of the event. `own`: int64 (n), the nanoseconds of
    the path that pass in an event, those of nested events apart; `between`: those that pass between events, by kind."""

    events: NDArray[np.bool_]
    own: NDArray[np.int64]
    between: dict[str, int]

    @property
    def length(self) -> int:
        """Nanoseconds of the whole path."""
        return int(self.own.sum()) + sum(self.between.values())


def critical_path(trace: Trace) -> CriticalPath:
    """The critical path through host threads and streams of all processes of the trace; messages between processes
    are no edges of it. Raises ModelError where events depend on each other in a circle or work starts before its
    launch: then clocks of host and device do not agree."""
    trace.validate()
    graph = _Graph(trace)
    graph.threads()
    graph.streams()
    graph.waits()
    return graph.longest()


class _Graph:
    """Nodes 2 i and 2 i + 1 are the start and end of event i."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.launches = Launches(trace)
        self.start, self.end = trace.start.tolist(), trace.end.tolist()
        self.stream = trace.on_stream()
        self.skipped = trace.category == Category.other
        self.before: dict[int, list[tuple[int, int, str]]] = defaultdict(list)  # node -> (earlier node, ns, kind)
        self.sources = self._sources()

    def _time(self, node: int) -> int:
        return self.end[node // 2] if node % 2 else self.start[node // 2]

    def _edge(self, earlier: int, later: int, kind: str, free: bool = False) -> None:
        length = self._time(later) - self._time(earlier)
        if length < -SKEW and not free:
            name = self.trace.names[self.trace.name[later // 2]]
            raise ModelError(
                f"{self.trace.path}: '{name}' happens {-length} ns before what it depends on: "
                "the clocks of host and device do not agree"
            )
        self.before[later].append((earlier, 0 if free else max(length, 0), kind))

    def _sources(self) -> dict[int, list[int]]:
        """For each waiting call what it waits for, for each piece of work the work on other streams it waits for."""
        told: dict[int, list[int]] = defaultdict(list)
        if self.trace.requires is not None:
            for event, needed in self.trace.requires.tolist():
                told[event].append(needed)
            return told
        work = np.flatnonzero(self.launches.call >= 0)
        launched = self.trace.start[self.launches.call[work]]
        for call in np.flatnonzero(~self.stream & (self.trace.category == Category.sync)).tolist():
            inside = (self.trace.end[work] > self.start[call]) & (self.trace.end[work] <= self.end[call] + SKEW)
            mine = work[inside & (launched < self.start[call]) & (self.trace.process[work] == self.trace.process[call])]
            told[call] = mine.tolist()
        return told

    def threads(self) -> None:
        """Starts and ends of a thread's events in their order."""
        waits = {e for e in self.sources if not self.stream[e]}
        records = ~self.stream & (self.trace.category == Category.sync)
        host = np.flatnonzero(~self.stream & ~self.skipped)
        order = host[np.lexsort((-self.trace.end[host], self.trace.start[host], self.trace.line[host]))]
        last: dict[int, int] = {}  # line -> node
        stacks: dict[int, list[int]] = defaultdict(list)

        def close(line: int, until: int | None) -> None:
            stack = stacks[line]
            while stack and (until is None or self.end[stack[-1]] <= until):
                event = stack.pop()
                self._edge(last[line], 2 * event + 1, "", free=event in waits)
                last[line] = 2 * event + 1

        for event in order.tolist():
            line = int(self.trace.line[event])
            close(line, self.start[event])
            stack = stacks[line]
            if stack and records[event] and self.trace.correlation[event] == self.trace.correlation[stack[-1]] >= 0:
                self.skipped[event] = True  # the profiler's record of the wait that the call around it is
                continue
            if line in last:
                self._edge(last[line], 2 * event, "" if stack else "between calls", free=not stack)
            last[line] = 2 * event
            stack.append(event)
        for line in list(stacks):
            close(line, None)

    def streams(self) -> None:
        """Each piece of work after its launch or after the work before it."""
        work = np.flatnonzero(self.stream)
        order = work[np.lexsort((self.trace.end[work], self.trace.start[work], self.trace.line[work]))].tolist()
        previous, line = -1, -1
        for event in order:
            if self.trace.line[event] != line:
                previous, line = -1, int(self.trace.line[event])
            self.before[2 * event + 1].append((2 * event, self.end[event] - self.start[event], ""))
            call = int(self.launches.call[event])
            idle_by = max([self.end[previous]] if previous >= 0 else [-1])
            waited = max([self.end[s] for s in self.sources.get(event, [])], default=-1)
            if call >= 0 and max(idle_by, waited) < self.start[call]:
                self._edge(2 * call, 2 * event, "launch delay")
            elif previous >= 0 and waited <= idle_by:
                self._edge(2 * previous + 1, 2 * event, "between kernels")
            previous = event

    def waits(self) -> None:
        """What waits comes after what it waits for."""
        for event, sources in self.sources.items():
            for source in sources:
                self._edge(2 * source + 1, 2 * event + (0 if self.stream[event] else 1), "wait", free=True)

    def longest(self) -> CriticalPath:
        after: dict[int, list[int]] = defaultdict(list)
        missing = {}
        nodes = {n for e in np.flatnonzero(~self.skipped).tolist() for n in (2 * e, 2 * e + 1)}
        for node in nodes:
            missing[node] = len(self.before.get(node, ()))
            for earlier, _, _ in self.before.get(node, ()):
                after[earlier].append(node)
        ready = sorted(n for n in nodes if missing[n] == 0)
        length = dict.fromkeys(nodes, 0)
        origin: dict[int, tuple[int, int, str]] = {}
        done = 0
        while ready:
            node = ready.pop()
            done += 1
            for edge in self.before.get(node, ()):
                if node not in origin or length[edge[0]] + edge[1] > length[node]:
                    origin[node], length[node] = edge, length[edge[0]] + edge[1]
            for later in after[node]:
                missing[later] -= 1
                if missing[later] == 0:
                    ready.append(later)
        if done < len(nodes):
            name = self.trace.names[self.trace.name[next(n for n in nodes if missing[n]) // 2]]
            raise ModelError(f"{self.trace.path}: events depend on each other in a circle, '{name}' among them")
        return self._path(max(nodes, key=lambda n: (length[n], self._time(n))), origin)

    def _path(self, node: int, origin: dict[int, tuple[int, int, str]]) -> CriticalPath:
        events = np.zeros(len(self.trace), dtype=bool)
        own = np.zeros(len(self.trace), dtype=np.int64)
        between: dict[str, int] = defaultdict(int)
        events[node // 2] = True
        while node in origin:
            earlier, length, kind = origin[node]
            if kind:
                between[kind] += length
            else:  # of two nodes of nested events, the time is that of the one that is open between them
                own[self._open_between(earlier, node)] += length
            node = earlier
            events[node // 2] = True
        return CriticalPath(events, own, dict(between))

    def _open_between(self, earlier: int, later: int) -> int:
        if earlier % 2 == 0:
            return earlier // 2
        if later % 2 == 1:
            return later // 2
        line = self.trace.line[later // 2]  # from the end of one to the start of the next: the parent's time
        candidates = np.flatnonzero(
            (self.trace.line == line)
            & ~self.skipped
            & (self.trace.start <= self._time(earlier))
            & (self.trace.end >= self._time(later))
        )
        inner = [c for c in candidates.tolist() if c not in (earlier // 2, later // 2)]
        return max(inner, key=lambda c: (self.start[c], -self.end[c])) if inner else later // 2
