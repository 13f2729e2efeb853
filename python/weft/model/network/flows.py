"""Replay of a communication graph on a network, with max-min fair sharing of links."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.model.network.graph import Graph
from weft.model.network.network import Network
from weft.model.network.topologies import Floats
from weft.model.result import ModelError


@dataclass
class Outcome:
    """The outcome of a replay: its duration, and the traffic."""

    seconds: float = 0.0
    messages: int = 0
    bytes: float = 0.0  # delivered
    link_bytes: Floats = field(default_factory=lambda: np.zeros(0))  # by link
    finish: Floats = field(default_factory=lambda: np.zeros(0))  # time at which each delay and message finished


def max_min(paths: Sequence[tuple[int, ...]], capacity: Floats) -> Floats:
    """Max-min fair rates of flows by progressive filling: all rates rise together until a link is saturated."""
    rates = np.full(len(paths), np.inf)
    flow = np.repeat(np.arange(len(paths)), [len(p) for p in paths])
    if not len(flow):
        return rates
    used, link = np.unique(np.fromiter(itertools.chain.from_iterable(paths), np.int64, len(flow)), return_inverse=True)
    left = capacity[used].astype(np.float64)
    alive = np.ones(len(flow), dtype=bool)
    while alive.any():
        count = np.bincount(link[alive], minlength=len(used))
        share = np.where(count > 0, left / np.maximum(count, 1), np.inf)
        lowest = share.min()
        tight = share <= lowest * (1 + 1e-12)
        stopped = np.unique(flow[alive & tight[link]])
        rates[stopped] = lowest
        ending = alive & np.isin(flow, stopped)
        left = np.maximum(0.0, left - lowest * np.bincount(link[ending], minlength=len(used)))
        alive &= ~ending
    return rates


def replay(graph: Graph, network: Network) -> Outcome:
    """Replays a graph on a network. Raises ModelError if the graph has too many ranks or a cycle."""
    if graph.ranks > network.ranks:
        kind, sizes = network.topology.kind, "x".join(map(str, network.topology.sizes))
        raise ModelError(
            f"{graph.ranks} ranks do not fit on topology {kind} {sizes}, which has room for {network.ranks}"
        )
    count = len(graph.seconds)
    waiting = [len(a) for a in graph.after]
    then: list[list[int]] = [[] for _ in range(count)]
    for number, before in enumerate(graph.after):
        for b in before:
            then[b].append(number)
    capacity = network.capacities()
    found = Outcome(finish=np.full(count, np.nan), link_bytes=np.zeros(len(capacity)))
    # Heap of (time, order, number, event): 0, a delay or an empty message is done; 1, a message begins to flow.
    heap: list[tuple[float, int, int, int]] = []
    order = itertools.count()
    now, done = 0.0, 0

    def begin(number: int) -> None:
        a, b = graph.source[number], graph.target[number]
        if a < 0:
            heapq.heappush(heap, (now + graph.seconds[number], next(order), number, 0))
        else:
            what = 1 if graph.bytes[number] > 0 and a != b else 0
            heapq.heappush(heap, (now + network.wait(a, b), next(order), number, what))

    def finish(number: int) -> None:
        nonlocal done
        done += 1
        found.finish[number] = now
        if graph.source[number] >= 0:
            found.messages += 1
            found.bytes += graph.bytes[number]
        for other in then[number]:
            waiting[other] -= 1
            if waiting[other] == 0:
                begin(other)

    for number in range(count):
        if waiting[number] == 0:
            begin(number)
    flows: list[int] = []
    paths: list[tuple[int, ...]] = []
    left, rates = np.zeros(0), np.zeros(0)
    users = [0] * len(capacity)  # flows on each link
    while heap or flows:
        ends = left / rates if flows else np.zeros(0)
        soonest = now + float(ends.min()) if flows else math.inf
        if heap and heap[0][0] <= soonest:
            step, now = heap[0][0] - now, heap[0][0]
            soonest = math.inf
        else:
            step, now = soonest - now, soonest
        if flows:
            # Select flows by their end times, not by the bytes left: a step too short to move the clock must end too.
            over = ends <= ends.min() * (1 + 1e-9) if soonest < math.inf else np.zeros(len(flows), dtype=bool)
            left = left - rates * step
            over |= left <= 1e-9
        changed = False
        if flows and over.any():
            ended = [f for f, o in zip(flows, over, strict=True) if o]
            keep = ~over
            flows = [f for f, k in zip(flows, keep, strict=True) if k]
            paths = [p for p, k in zip(paths, keep, strict=True) if k]
            left, rates = left[keep], rates[keep]
            for number in ended:
                for link in network.path(graph.source[number], graph.target[number]):
                    found.link_bytes[link] += graph.bytes[number]
                    users[link] -= 1
                    changed = changed or users[link] > 0
                finish(number)
        new: list[int] = []
        while heap and heap[0][0] <= now:
            _, _, number, what = heapq.heappop(heap)
            if what:
                new.append(number)
            else:
                finish(number)
        if new:
            flows += new
            alone = []
            for number in new:
                path = network.path(graph.source[number], graph.target[number])
                paths.append(path)
                alone.append(min(capacity[link] for link in path))
                for link in path:
                    changed = changed or users[link] > 0
                    users[link] += 1
            left = np.concatenate([left, [graph.bytes[n] for n in new]])
            rates = np.concatenate([rates, alone])
        if changed:  # otherwise the flows that started or ended shared no link with another flow
            rates = max_min(paths, capacity)
    if done < count:
        raise ModelError(f"the communication graph has a cycle: {count - done} of its {count} entries never start")
    found.seconds = float(np.nanmax(found.finish)) if count else 0.0
    return found


def bound(graph: Graph, network: Network) -> float:
    """The time (s) that the busiest link needs for its bytes, a lower bound on the replayed time."""
    capacity = network.capacities()
    load = np.zeros(len(capacity))
    for a, b, size in zip(graph.source, graph.target, graph.bytes, strict=True):
        if a >= 0:
            for link in network.path(a, b):
                load[link] += size
    return float((load / capacity).max(initial=0.0))
