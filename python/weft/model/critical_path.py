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

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.model.result import ModelError
from weft.traces import Category, Trace
from weft.traces.launches import Launches

SKEW = 2000  # ns; clocks of host and device, rounded to microseconds, may disagree by this much


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
    """Nodes 2 i and 2 i + 1 are the start and end of event i."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.launches = Launches(trace)
        self.start, self.end = trace.start.tolist(), trace.end.tolist()
        self.stream = trace.on_stream()
        self.skipped = trace.category == Category.other
        self.before: dict[int, list[tuple[int, int, str]]] = defaultdict(list)  # node -> (earlier node, ns, kind)
        self.sources = self._sources()
        self.outer: dict[int, int] = {}  # event of a thread -> the innermost one that is open when it starts

    def _time(self, node: int) -> int:
        return self.end[node // 2] if node % 2 else self.start[node // 2]

    def _edge(self, earlier: int, later: int, kind: str, free: bool = False) -> None:
        length = self._time(later) - self._time(earlier)
        if length < -SKEW and kind and not free:  # on one thread, the profiler itself may close an event too early
            name = self.trace.names[self.trace.name[later // 2]]
            raise ModelError(
                f"{self.trace.path}: '{name}' happens {-length} ns before the event it depends on: "
                "the clocks of host and device disagree"
            )
        self.before[later].append((earlier, 0 if free else max(length, 0), kind))

    def _sources(self) -> dict[int, list[int]]:
        """The work that each event waits for: calls for work on any stream, work on a stream for work on others."""
        sources: dict[int, list[int]] = defaultdict(list)
        if self.trace.requires is not None:
            for event, needed in self.trace.requires.tolist():
                sources[event].append(needed)
            return sources
        work = np.flatnonzero(self.stream)
        call_of = self.launches.call[work]
        launched = np.where(call_of >= 0, self.trace.start[call_of], -1)  # without a call: before the trace began
        order = np.argsort(self.trace.end[work], kind="stable")
        work, launched = work[order], launched[order]
        calls = np.flatnonzero(~self.stream & (self.trace.category == Category.sync))
        first = np.searchsorted(self.trace.end[work], self.trace.start[calls], side="right").tolist()
        last = np.searchsorted(self.trace.end[work], self.trace.end[calls] + SKEW, side="right").tolist()
        for call, a, b in zip(calls.tolist(), first, last, strict=True):  # the work between ended during the call
            here = (launched[a:b] < self.start[call]) & (self.trace.process[work[a:b]] == self.trace.process[call])
            sources[call] = np.sort(work[a:b][here]).tolist()
        return sources

    def threads(self) -> None:
        """Edges between the starts and ends of a thread's events, in order."""
        waits = {e for e in self.sources if not self.stream[e]}
        waits |= set(np.flatnonzero(self.trace.category == Category.wait).tolist())
        records = ~self.stream & (self.trace.category == Category.sync)
        host = np.flatnonzero(~self.stream & ~self.skipped)
        # A record may have the times of its call, which contains it.
        inner = np.array([records[e] and e not in waits for e in host.tolist()], dtype=bool)
        order = host[np.lexsort((inner, -self.trace.end[host], self.trace.start[host], self.trace.line[host]))]
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
                self.skipped[event] = True  # the profiler's record of the wait inside the enclosing call
                continue
            if line in last:
                self._edge(last[line], 2 * event, "" if stack else "between calls", free=not stack)
            last[line] = 2 * event
            if stack:
                self.outer[event] = stack[-1]
            stack.append(event)
        for line in list(stacks):
            close(line, None)

    def streams(self) -> None:
        """Edges to each piece of work from its launch or from the work before it."""
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
        """Edges to each waiting event from the work it waits for."""
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
            raise ModelError(f"{self.trace.path}: events depend on each other in a cycle that includes '{name}'")
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
            else:  # between two nodes of nested events, the time belongs to the event that is open there
                own[self._open_between(earlier, node)] += length
            node = earlier
            events[node // 2] = True
        return CriticalPath(events, own, dict(between))

    def _open_between(self, earlier: int, later: int) -> int:
        if earlier % 2 == 0:
            return earlier // 2
        if later % 2 == 1:
            return later // 2
        return self.outer[later // 2]  # from the end of one event to the start of the next: the time of the outer one
