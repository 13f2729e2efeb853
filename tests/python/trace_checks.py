"""The checks of traces by tests and `benchmarks/public_traces.py`: the content of the table, and bounds of replays."""

from collections.abc import Hashable
from dataclasses import replace
from graphlib import TopologicalSorter
from itertools import pairwise

import numpy as np
from trace_counts import Counts

from weft.model.program import Program
from weft.model.replaying import Scenario
from weft.traces import Category, Trace, attribute
from weft.traces.launches import Launches


def counted(trace: Trace) -> Counts:
    """The same counts from weft's table."""
    stream = trace.on_stream()
    on_device = {c: int((stream & (trace.category == c)).sum()) for c in Category}
    polls = (trace.category == Category.wait) & np.array(["Query" in n for n in trace.names])[trace.name]
    calls = ~stream & (trace.of(Category.launch, Category.sync, Category.copy) | polls)
    work = trace.select(stream)
    work = replace(work, category=np.full_like(work.category, Category.gpu))
    busy = float(attribute(work).nanoseconds[:, 1].sum()) if len(work) else 0.0
    return Counts(
        events=len(trace),
        kernels=on_device[Category.gpu],
        collectives=on_device[Category.mpi],
        copies=on_device[Category.copy],
        calls=int(calls.sum()),
        launched=int((Launches(trace).call >= 0).sum()),
        busy=busy,
        bytes=int(np.maximum(trace.bytes[stream] if stream.any() else trace.bytes, 0).sum()),
        messages=int((~stream & (trace.category == Category.mpi)).sum()),
    )


Graph = dict[Hashable, dict[Hashable, float]]  # node -> earlier node -> least time in between


def longest_path(graph: Graph) -> float:
    """The longest path through a graph."""
    length: dict[Hashable, float] = {}
    for node in TopologicalSorter(graph).static_order():
        length[node] = max((length[e] + t for e, t in graph.get(node, {}).items()), default=0.0)
    return max(length.values())


def dependencies(source: Program, scenario: Scenario) -> Graph:
    """The dependencies of a program as a graph whose longest path is its duration without contention."""
    calls, work = source.calls, source.work
    found: Graph = {}

    def edge(earlier: Hashable, later: Hashable, least: float) -> None:
        before = found.setdefault(later, {})
        before[earlier] = max(before.get(earlier, -np.inf), float(least))

    for first, end in pairwise(calls.first):
        previous: Hashable = "start"
        for c in range(first, end):
            edge(previous, ("begin", c), calls.gap[c] / scenario.cpu_speed)
            edge(("begin", c), ("call", c), calls.seconds[c])
            for k in range(calls.launch_first[c], calls.launch_first[c + 1]):
                edge(("begin", c), ("launch", calls.launched[k]), calls.offset[k])
            for k in calls.waited[calls.wait_first[c] : calls.wait_first[c + 1]]:
                edge(("done", k), ("call", c), calls.tail[c])
            if c in calls.hand_overs:
                edge(("call", calls.hand_overs[c].call), ("begin", c), calls.hand_overs[c].lag / scenario.cpu_speed)
            for number in calls.opens.get(c, ()):
                edge(("begin", c), ("met", number), 0.0)
            for number, lag in calls.needs.get(c, ()):
                edge(("met", number), ("call", c), lag)
            place = calls.entry[c] - calls.depth[c]
            if calls.entry[c] >= 0 and place >= 0:
                edge(("done", work.last[work.queue_first[calls.queue[c]] + place]), ("begin", c), 0.0)
            previous = ("call", c)
    for k in range(len(work)):
        seconds = work.seconds[k] / (scenario.gpu_speed if work.kind[k] == 0 else 1.0)
        edge(("start", k), ("done", k), seconds)
        later = 0.0 if scenario.latency is None or not work.launched[k] else scenario.latency - source.latency
        edge(("launch", k), ("start", k), max(0.0, work.after_launch[k] + later))
        for number in work.opens.get(k, ()):
            edge(("start", k), ("met", number), 0.0)
        if k in work.needs:
            edge(("met", work.needs[k][0]), ("done", k), work.needs[k][1])
        for other, lag in work.waits.get(k, ()):
            edge(("done", other), ("start", k), lag)
    for first, end in pairwise(work.first):
        for a, b in pairwise(work.order[first:end]):
            edge(("done", a), ("start", b), work.after_work[b])
        if end > first:
            edge("start", ("start", work.order[first]), work.after_work[work.order[first]])
    return found
