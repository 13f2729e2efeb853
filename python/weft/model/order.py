"""Which kernels depend on which: the order that several perturbed runs of one program have in common.

A run puts its kernels into a partial order: a is before b where a ends before b starts. A dependency holds in every
run, so the dependencies are in the intersection of the runs' orders; what else is left there is an accident of timing
that no run has broken. One long delay of kernel a breaks every accident "a before b", since b does not wait for it;
random jitter breaks few (GPU integration report, section 4.5: FENATE's poger and NVDAG).

The transitive reduction of that order, its cover relation, is the graph of dependencies between kernels of all streams:
kernels of one stream follow each other, those of several streams wait for events, for the host, or for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from weft.model.result import ModelError
from weft.traces import Category, Trace

MOST_KERNELS = 20_000  # whose order takes 400 MB


@dataclass(frozen=True)
class Kernel:
    """A kernel or copy on a stream: the `number`-th of its name there, from 0."""

    process: int
    stream: str
    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.name}#{self.number} on {self.stream} of process {self.process}"


@dataclass(frozen=True)
class Order:
    """The order of n kernels that all of R runs have in common; none is before one of a lower number.

    before   bool (n, n): row before column in every run; transitive
    edges    int64 (m, 2): its transitive reduction, pairs (before, after)
    tested   bool (m): a run shows the second of an edge waiting: it started later than it did in another run, where the
             first ended sooner. Edges within a stream need no test. What is not tested may be an accident.
    start, end   int64 (R, n): ns from the first event of each run
    """

    kernels: tuple[Kernel, ...]
    before: NDArray[np.bool_]
    edges: NDArray[np.int64]
    tested: NDArray[np.bool_]
    start: NDArray[np.int64]
    end: NDArray[np.int64]

    @property
    def durations(self) -> NDArray[np.float64]:
        """Each kernel's median duration over the runs, ns."""
        return np.median(self.end - self.start, axis=0)

    def across(self) -> NDArray[np.bool_]:
        """Mask of the edges between kernels of different streams or processes."""
        line = self.lines()
        return line[self.edges[:, 0]] != line[self.edges[:, 1]]

    def lines(self) -> NDArray[np.int64]:
        """The number of each kernel's stream."""
        numbers: dict[tuple[int, str], int] = {}
        return np.array([numbers.setdefault((k.process, k.stream), len(numbers)) for k in self.kernels], dtype=np.int64)

    def levels(self) -> NDArray[np.int64]:
        """The length of the longest chain before each kernel: kernels of one level can run side by side. The count of
        each level is the concurrency profile of the graph."""
        level = np.zeros(len(self.kernels), dtype=np.int64)
        for first, second in self.edges:  # edges ascend in their first, which precedes its second
            level[second] = max(level[second], level[first] + 1)
        return level

    def width(self) -> int:
        """The most kernels of which none waits for another: by Dilworth's theorem the fewest chains (streams) that
        hold all kernels in order.

        That is n less a maximum matching of the order's two-sided graph (Fulkerson 1956). A matched pair is a path of
        the transitive reduction, so the matching is a maximum flow through the reduction's few edges: out of a
        kernel's first copy, through second copies and back, into the sink from a second copy, each copy used once.
        """
        n = len(self.kernels)
        first, second, source, sink = np.arange(n), np.arange(n) + n, 2 * n, 2 * n + 1
        begin = np.concatenate([np.full(n, source), second, self.edges[:, 0], second])
        end = np.concatenate([first, np.full(n, sink), self.edges[:, 1] + n, first])
        capacity = np.repeat([1, n], [2 * n, len(self.edges) + n]).astype(np.int32)
        graph = csr_array((capacity, (begin, end)), shape=(2 * n + 2, 2 * n + 2))
        return n - int(maximum_flow(graph, source, sink).flow_value)

    def critical_path(self) -> tuple[list[int], float]:
        """The chain of kernels with the longest sum of durations, and that sum in ns: no number of streams and devices
        runs the graph faster."""
        duration = self.durations
        finish, origin = duration.copy(), np.full(len(duration), -1)
        for first, second in self.edges:
            if finish[first] + duration[second] > finish[second]:
                finish[second], origin[second] = finish[first] + duration[second], first
        path = [int(np.argmax(finish))]
        while origin[path[-1]] >= 0:
            path.append(int(origin[path[-1]]))
        return path[::-1], float(finish.max())

    def running(self) -> NDArray[np.float64]:
        """Share of the time during which 0, 1, 2 ... kernels ran at once, mean over the runs."""
        shares = []
        for start, end in zip(self.start, self.end, strict=True):
            times, at = np.unique(np.concatenate([start, end]), return_inverse=True)
            change = np.zeros(len(times), dtype=np.int64)
            np.add.at(change, at[: len(start)], 1)
            np.add.at(change, at[len(start) :], -1)
            spent = np.bincount(np.cumsum(change)[:-1], weights=np.diff(times).astype(float))
            shares.append(spent / max(spent.sum(), 1.0))
        most = max(map(len, shares))
        return np.mean([np.pad(s, (0, most - len(s))) for s in shares], axis=0)

    def delays(self) -> list[Kernel]:
        """The kernels whose delay would test the edges that are not tested, those with most of them first."""
        open_ = self.edges[~self.tested, 0]
        kernels, counts = np.unique(open_, return_counts=True)
        return [self.kernels[k] for k in kernels[np.argsort(-counts, kind="stable")]]


def order(runs: Sequence[Trace], pattern: str | None = None, resolution: int = 1000) -> Order:
    """The order that the kernels and copies on streams of all `runs` have in common.

    `resolution`, in ns: how far the clocks of two streams may be apart (CUDA's events resolve half a microsecond). Work
    that overlaps by no more counts as one after the other.

    A kernel is the same in two runs where process, stream, name and its number among those of its name on that stream
    agree. `pattern` is a regular expression that picks kernels by name. Raises ModelError where a run has no work on
    streams, where runs differ in their kernels, and where kernels of one stream overlap.
    """
    if not runs:
        raise ModelError("order needs the trace of at least one run")
    found = [_work(trace, pattern) for trace in runs]
    kernels, start, end = found[0]
    if len(kernels) > MOST_KERNELS:
        raise ModelError(f"{runs[0].path}: {len(kernels)} kernels, more than {MOST_KERNELS}: pick some by name")
    starts, ends = [start], [end]
    place = {k: i for i, k in enumerate(kernels)}
    for trace, (others, start, end) in zip(runs[1:], found[1:], strict=True):
        _check_same(runs[0], place, trace, others)
        to = np.array([place[k] for k in others], dtype=np.int64)
        for columns, values in ((starts, start), (ends, end)):
            columns.append(np.empty_like(values))
            columns[-1][to] = values
    all_starts, all_ends = np.stack(starts), np.stack(ends)
    surely = np.maximum(all_starts, all_ends - resolution)
    before = common_order(all_starts, surely)
    edges = reduction(before)
    result = Order(kernels, before, edges, np.ones(len(edges), dtype=bool), all_starts, all_ends)
    tested = ~result.across() | (surely.max(axis=0)[edges[:, 0]] > all_starts.min(axis=0)[edges[:, 1]])
    return Order(kernels, before, edges, tested, all_starts, all_ends)


def common_order(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool (n, n): whether the row's event ends before the column's starts, in every run; start and end are (R, n)."""
    before = np.ones((start.shape[1],) * 2, dtype=bool)
    for s, e in zip(start, end, strict=True):
        before &= e[:, None] <= s
        before &= s[:, None] < e  # else two events without length at one instant would each be before the other
    return before


def reduction(before: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The edges (m, 2) of the transitive reduction of a strict partial order whose numbering is one of its linear
    extensions.

    The lowest of what follows i follows it directly; what follows that one does not. So each edge costs one operation
    on a row, O(m n) in all instead of the O(n^3) of a matrix product.
    """
    edges = []
    for i, row in enumerate(before):
        left = row.copy()
        j = int(left.argmax())
        while left[j]:
            edges.append((i, j))
            left[j] = False
            np.greater(left, before[j], out=left)  # left and not before[j]
            j = int(left.argmax())
    return np.array(edges, dtype=np.int64).reshape(-1, 2)


def _work(trace: Trace, pattern: str | None) -> tuple[tuple[Kernel, ...], NDArray[np.int64], NDArray[np.int64]]:
    trace.validate()
    mask = trace.on_stream() & trace.of(Category.gpu, Category.copy, Category.mpi)
    if not mask.any():
        held = ", ".join(sorted({Category(int(c)).name for c in np.unique(trace.category)}))
        raise ModelError(f"{trace.path}: no work on streams to order, only {held} events of the host")
    if pattern is not None:
        try:
            fits = np.array([re.search(pattern, n) is not None for n in trace.names], dtype=bool)
        except re.error as error:
            raise ModelError(f"'{pattern}' is no regular expression: {error}") from None
        mask &= fits[trace.name]
        if not mask.any():
            raise ModelError(f"{trace.path}: no kernel's name matches '{pattern}'")
    index = np.flatnonzero(mask)
    index = index[np.lexsort((trace.end[index], trace.start[index]))]
    counts: dict[tuple[int, int], int] = {}
    kernels = []
    for line, name in zip(trace.line[index].tolist(), trace.name[index].tolist(), strict=True):
        number = counts.get((line, name), 0)
        counts[line, name] = number + 1
        place = trace.lines[line]
        kernels.append(Kernel(place.process, place.label, trace.names[name], number))
    return tuple(kernels), trace.start[index], trace.end[index]


def _check_same(first: Trace, place: dict[Kernel, int], trace: Trace, kernels: tuple[Kernel, ...]) -> None:
    for here, there, lacking in ((set(place), set(kernels), trace), (set(kernels), set(place), first)):
        missing = sorted(here - there, key=str)
        if missing:
            raise ModelError(
                f"{lacking.path} lacks {len(missing)} of the kernels of the other run, the first {missing[0]}: "
                "only runs that launch the same kernels on the same streams can be compared"
            )
