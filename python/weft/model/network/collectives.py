"""The messages of collective operations, by algorithm."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

from weft.model.network.graph import Graph

# Bytes up to which MPI sends a message at once, as below the limits of MPICH, Open MPI and UCX for eager messages.
SHORT = 4096
Ends = dict[int, tuple[int, ...]]  # by rank: the entries that must finish before it continues


def exchange(graph: Graph, pairs: Sequence[tuple[int, int, float]], ends: Ends) -> Ends:
    """Adds concurrent messages, and returns the entries after which their ranks continue.

    A long message waits for the last entries of both its ranks, and both continue after it. A short one leaves when its
    sender is ready, which goes on at once, whatever the receiver does meanwhile.
    """
    long: dict[int, list[int]] = defaultdict(list)
    short: dict[int, list[int]] = defaultdict(list)  # by receiver
    for a, b, size in pairs:
        if size <= SHORT:
            short[b].append(graph.message(a, b, size, ends.get(a, ())))
            continue
        number = graph.message(a, b, size, (*ends.get(a, ()), *(ends.get(b, ()) if a != b else ())))
        long[a].append(number)
        if b != a:
            long[b].append(number)
    made = {}
    for rank in {**long, **short}:
        last = (*(long.get(rank) or ends.get(rank, ())), *short.get(rank, ()))
        # One entry stands for many, or short messages would depend on all before them.
        made[rank] = last if len(last) <= 2 or rank in long else (graph.delay(0.0, last),)
    return {**ends, **made}


def bcast(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """Binomial tree from `ranks[root]`."""
    n, step = len(ranks), 1
    while step < n:
        pairs = [(ranks[(k + root) % n], ranks[(k + step + root) % n], size) for k in range(min(step, n - step))]
        ends = exchange(graph, pairs, ends)
        step *= 2
    return ends


def reduce(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """Binomial tree to `ranks[root]`: the messages of a broadcast reversed, in the opposite order."""
    n = len(ranks)
    step = 1 << max(0, math.ceil(math.log2(n)) - 1) if n > 1 else 0
    while step:
        pairs = [(ranks[(k + step + root) % n], ranks[(k + root) % n], size) for k in range(min(step, n - step))]
        ends = exchange(graph, [p for p in pairs if p[0] != p[1]], ends)
        step //= 2
    return ends


def gather(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """Binomial tree in which each message carries everything that its sender has gathered so far."""
    n = len(ranks)
    held = [1] * n
    step = 1
    while step < n:
        pairs = []
        for k in range(step, n, 2 * step):
            pairs.append((ranks[(k + root) % n], ranks[(k - step + root) % n], size * held[k]))
            held[k - step] += held[k]
        ends = exchange(graph, pairs, ends)
        step *= 2
    return ends


def allreduce(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """Recursive doubling. Ranks beyond a power of two send their data first and receive the result last."""
    del root
    n = len(ranks)
    whole = 1 << int(math.log2(n))
    extra = n - whole
    if extra:
        ends = exchange(graph, [(ranks[whole + k], ranks[k], size) for k in range(extra)], ends)
    step = 1
    while step < whole:
        ends = exchange(graph, [(ranks[k], ranks[k ^ step], size) for k in range(whole)], ends)
        step *= 2
    if extra:
        ends = exchange(graph, [(ranks[k], ranks[whole + k], size) for k in range(extra)], ends)
    return ends


def allgather(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """Ring of P - 1 steps in which each rank forwards what it received last."""
    del root
    n = len(ranks)
    for _ in range(n - 1):
        ends = exchange(graph, [(ranks[k], ranks[(k + 1) % n], size) for k in range(n)], ends)
    return ends


def reduce_scatter(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """Ring of P - 1 steps in which each rank passes on a P-th of its `size` bytes, reduced so far."""
    return allgather(graph, ranks, size / len(ranks), ends, root)


def ring_allreduce(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """A reduce-scatter and an all-gather on a ring: 2 (P - 1) steps of size / P bytes, as NCCL's RING."""
    ends = reduce_scatter(graph, ranks, size, ends, root)
    return allgather(graph, ranks, size / len(ranks), ends, root)


def tree_allreduce(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """A reduction up a binomial tree and a broadcast down, for NCCL's TREE."""
    return bcast(graph, ranks, size, reduce(graph, ranks, size, ends, root), root)


def alltoall(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """Pairwise exchange: in step k, each rank sends `size` bytes to the k-th next rank."""
    del root
    n = len(ranks)
    for step in range(1, n):
        ends = exchange(graph, [(ranks[k], ranks[(k + step) % n], size) for k in range(n)], ends)
    return ends


def barrier(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """Dissemination barrier: log2 P rounds of empty messages."""
    del root, size
    n, step = len(ranks), 1
    while step < n:
        ends = exchange(graph, [(ranks[k], ranks[(k + step) % n], 0.0) for k in range(n)], ends)
        step *= 2
    return ends


Collective = Callable[[Graph, Sequence[int], float, Ends, int], Ends]
COLLECTIVES: dict[str, Collective] = {
    "allreduce": allreduce, "allgather": allgather, "alltoall": alltoall, "barrier": barrier, "bcast": bcast,
    "gather": gather, "reduce": reduce, "reducescatter": reduce_scatter, "scan": allreduce,
    "allreduce-ring": ring_allreduce, "allreduce-tree": tree_allreduce,
}  # fmt: skip
