"""Graphs of communication patterns: a collective, ping-pong, a ring, a halo exchange, the transposes of an FFT."""

from __future__ import annotations

import itertools
import math

import numpy as np

from weft.model.network.collectives import COLLECTIVES, Ends, alltoall, exchange
from weft.model.network.graph import MOST_MESSAGES, Graph
from weft.model.project.boxes import near_cube
from weft.model.result import ModelError


def collective(name: str, ranks: int, size: float) -> Graph:
    """One collective over all ranks. The function of the collective says what `size` means."""
    if name not in COLLECTIVES:
        raise ModelError(f"unknown collective '{name}'; known: {', '.join(COLLECTIVES)}")
    graph = Graph(_ranks(ranks))
    COLLECTIVES[name](graph, range(ranks), size, {}, 0)
    return graph


def ping_pong(ranks: int, size: float, rounds: int = 1, a: int = 0, b: int | None = None) -> Graph:
    """A message from rank a to rank b (default: the last rank) and back, `rounds` times."""
    graph = Graph(_ranks(ranks))
    other = ranks - 1 if b is None else b
    last: tuple[int, ...] = ()
    for _ in range(rounds):
        there = graph.message(a, other, size, last)
        last = (graph.message(other, a, size, (there,)),)
    return graph


def ring(ranks: int, size: float, rounds: int = 1) -> Graph:
    """A message from every rank to the next, all concurrently, `rounds` times."""
    graph, ends = Graph(_ranks(ranks)), Ends()
    for _ in range(rounds if ranks > 1 else 0):
        ends = exchange(graph, [(k, (k + 1) % ranks, size) for k in range(ranks)], ends)
    return graph


def gather_scatter(ranks: int, points: tuple[int, int, int], order: int, fields: int = 1) -> Graph:
    """One halo exchange of a spectral-element mesh with all 26 neighbours.

    The ranks form a nearly cubic grid, and each has a box of `points` elements.
    """
    graph, grid = Graph(_ranks(ranks)), near_cube(ranks)
    side = [p * order + 1 for p in points]
    pairs = []
    for place in itertools.product(*map(range, grid)):
        here = int(np.ravel_multi_index(place, grid))
        for way in itertools.product((-1, 0, 1), repeat=3):
            there = tuple(p + w for p, w in zip(place, way, strict=True))
            if any(way) and all(0 <= t < g for t, g in zip(there, grid, strict=True)):
                shared = math.prod(s for s, w in zip(side, way, strict=True) if w == 0)
                pairs.append((here, int(np.ravel_multi_index(there, grid)), 8.0 * fields * shared))
    exchange(graph, pairs, {})
    return graph


def transpose(ranks: int, grid: int, rows: int = 1, word: int = 4) -> Graph:
    """The transposes of one field of a 3-D FFT: among `rows` ranks, then among ranks / rows; 1 row means slabs."""
    if rows < 1 or ranks % rows:
        raise ModelError(f"{ranks} ranks cannot be divided into {rows} rows; the number of rows must divide the ranks")
    graph, ends, columns = Graph(_ranks(ranks)), Ends(), ranks // rows
    volume = word * grid**3 / ranks
    for first in range(0, ranks, rows):
        ends = alltoall(graph, range(first, first + rows), volume / rows, ends)
    for first in range(rows):
        ends = alltoall(graph, range(first, ranks, rows), volume / columns, ends)
    return graph


def _ranks(count: int) -> int:
    if count < 1:
        raise ModelError(f"the number of ranks is {count}, but must be at least 1")
    if count > MOST_MESSAGES:
        raise ModelError(
            f"{count:,} ranks are more than the {MOST_MESSAGES:,} messages that can be replayed: use fewer"
        )
    return count
