"""Replay of a communication graph on a network, with max-min fair sharing of links."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.model.network.graph import Graph
from weft.model.network.network import Network
from weft.model.network.topologies import Floats
from weft.model.result import ModelError

Ints = NDArray[np.int64]
SAME = 1e-9  # relative difference of times and rates that rounding explains


@dataclass
class Outcome:
    """The outcome of a replay: its duration, and the traffic."""

    seconds: float = 0.0
    messages: int = 0
    bytes: float = 0.0  # delivered
    link_bytes: Floats = field(default_factory=lambda: np.zeros(0))  # by link
    finish: Floats = field(default_factory=lambda: np.zeros(0))  # time at which each delay and message finished


class _Sharing:
    """Max-min fair rates of flows on links with these capacities.

    A flow is a row of links, filled up with `none`, a link without limit. Work is in proportion to the flows, whatever
    the number of links.
    """

    def __init__(self, capacity: Floats) -> None:
        self.none = len(capacity)
        self._capacity = np.append(capacity, np.inf)
        self._left = np.empty(len(capacity) + 1)
        self._place = np.empty(len(capacity) + 1, dtype=np.int64)
        self._touched = np.zeros(len(capacity) + 1, dtype=bool)

    def rows(self, paths: Sequence[tuple[int, ...]]) -> Ints:
        """The flows on these paths."""
        found = np.full((len(paths), max(map(len, paths), default=0)), self.none)
        for row, path in zip(found, paths, strict=True):
            row[: len(path)] = path
        return found

    def rates(self, rows: Ints, before: Floats | None = None, lowest: float = 0.0) -> Floats:
        """Progressive filling: the rates of all flows rise together until a link is full, whose flows stop then.

        Flows that had a rate below `lowest` keep it: so far, filling goes as `before`.
        """
        found, alive = np.full(len(rows), np.inf), np.arange(len(rows))
        self._left[rows] = self._capacity[rows]
        if before is not None:
            kept = before < lowest * (1 - SAME)
            found[kept] = before[kept]
            links = rows[kept].ravel()
            np.subtract.at(self._left, links, np.repeat(before[kept], rows.shape[1]))
            self._left[self.none] = np.inf
            rows, alive = rows[~kept], alive[~kept]
        while rows.size:
            links = rows.ravel()
            place = self._places(links)
            left = self._left[links]
            share = left / np.bincount(place)[place]
            least = share.min()
            if least == np.inf:
                break
            stopped = (share <= least * (1 + 1e-12)).reshape(rows.shape).any(axis=1)
            found[alive[stopped]] = least
            ending = np.bincount(place[np.repeat(stopped, rows.shape[1])], minlength=len(links))
            self._left[links] = np.maximum(0.0, left - least * ending[place])
            rows, alive = rows[~stopped], alive[~stopped]
        return found

    def first_full(self, rows: Ints, rates: Floats, new: Ints) -> float:
        """The rate at which a link of new flows is full, if these rise together and all others as far as before.

        Up to this rate, filling goes as before. `rows` has the new flows too, with infinite `rates`.
        """
        self._touched[new] = True
        self._touched[self.none] = False
        on = self._touched[rows]
        self._touched[new] = False
        links, rate = rows[on], np.repeat(rates[:, None], rows.shape[1], axis=1)[on]
        place, capacity = self._places(links), self._capacity[links]
        slower = np.zeros(len(links), dtype=bool)
        while len(links):  # the level of each link rises until no more flows are slower
            used, others = np.bincount(place, np.where(slower, rate, 0.0)), np.bincount(place, ~slower)
            level = (capacity - used[place]) / others[place]
            more = rate < level
            if (more == slower).all():
                return float(level.min())
            slower = more
        return math.inf

    def _places(self, links: Ints) -> Ints:
        """A number for each link, the same for the same one, below their count."""
        self._place[links] = np.arange(len(links))
        return self._place[links]


def max_min(paths: Sequence[tuple[int, ...]], capacity: Floats) -> Floats:
    """Max-min fair rates of flows on these paths; infinity for a flow without links."""
    sharing = _Sharing(capacity)
    return sharing.rates(sharing.rows(paths))


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
    sharing = _Sharing(capacity)
    flows, rows = np.zeros(0, dtype=np.int64), sharing.rows([])
    left, rates = np.zeros(0), np.zeros(0)
    users = np.zeros(len(capacity) + 1, dtype=np.int64)  # flows on each link
    while heap or len(flows):
        ends = left / rates
        soonest = now + float(ends.min(initial=math.inf))
        if heap and heap[0][0] <= soonest:
            step, now = heap[0][0] - now, heap[0][0]
            soonest = math.inf
        else:
            step, now = soonest - now, soonest
        # Select flows by their end times, not by the bytes left: a step too short to move the clock must end too.
        over = ends <= ends.min() * (1 + SAME) if soonest < math.inf else np.zeros(len(flows), dtype=bool)
        left = left - rates * step
        over |= left <= 1e-9
        changed, lowest = False, math.inf
        if over.any():
            ended, links, keep, lowest = flows[over], rows[over], ~over, float(rates[over].min())
            flows, rows, left, rates = flows[keep], rows[keep], left[keep], rates[keep]
            size = np.array([graph.bytes[number] for number in ended])
            used = links < sharing.none
            np.add.at(found.link_bytes, links[used], np.repeat(size, used.sum(axis=1)))
            np.subtract.at(users, links, 1)
            changed = bool((users[links[used]] > 0).any())
            for number in ended.tolist():
                finish(number)
        new: list[int] = []
        while heap and heap[0][0] <= now:
            _, _, number, what = heapq.heappop(heap)
            if what:
                new.append(number)
            else:
                finish(number)
        if new:
            links = sharing.rows([network.path(graph.source[n], graph.target[n]) for n in new])
            width = max(rows.shape[1], links.shape[1])
            rows, links = (
                np.pad(of, ((0, 0), (0, width - of.shape[1])), constant_values=sharing.none) for of in (rows, links)
            )
            np.add.at(users, links, 1)
            changed = changed or bool((users[links[links < sharing.none]] > 1).any())
            flows, rows = np.concatenate([flows, new]), np.concatenate([rows, links])
            left = np.concatenate([left, [graph.bytes[n] for n in new]])
            if changed:
                rates = np.concatenate([rates, np.full(len(new), np.inf)])
                lowest = min(lowest, sharing.first_full(rows, rates, links))
            else:  # those that started share no link with another flow
                rates = np.concatenate([rates, sharing.rates(links)])
        if changed:
            rates = sharing.rates(rows, rates, lowest)
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
