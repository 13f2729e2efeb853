"""Dependencies between kernels, inferred from the order that several perturbed runs of a program have in common.

Each run puts its kernels into a partial order, in which a precedes b if a ends before b starts. Dependencies hold in
every run, so they are contained in the intersection of the orders. The other pairs in the intersection are accidents of
timing that no run has disproved. A long delay of kernel a disproves every accident "a before b", because b does not
wait for a; random jitter disproves few (GPU integration report, section 4.5: FENATE's poger and NVDAG).

The transitive reduction of the common order is the graph of dependencies between kernels of all streams. Kernels of the
same stream follow each other; kernels of different streams wait for events, for the host, or for nothing.
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

MOST_KERNELS = 20_000  # the order of this many kernels takes 400 MB of memory


@dataclass(frozen=True)
class Kernel:
    """A kernel or copy on a stream. `number` counts those of the same name on the stream, from 0."""

    process: int
    stream: str
    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.name}#{self.number} on {self.stream} of process {self.process}"


@dataclass(frozen=True)
class Order:
    """The order of n kernels that all R runs have in common. No kernel precedes one with a lower number.

    before   bool (n, n): the row's kernel precedes the column's in every run; transitive
    edges    int64 (m, 2): its transitive reduction, as pairs (before, after)
    tested   bool (m): some run shows the second kernel of the edge waiting, because it started later than in another
             run in which the first kernel ended sooner. Edges within a stream need no test. An untested edge may be
             an accident of timing.
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
        """The median duration of each kernel over the runs, in ns."""
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
        """The length of the longest chain before each kernel.

        Kernels of the same level can run concurrently; their number is the concurrency profile of the graph.
        """
        level = np.zeros(len(self.kernels), dtype=np.int64)
        for first, second in self.edges:  # edges ascend in their first, which precedes its second
            level[second] = max(level[second], level[first] + 1)
        return level

    def width(self) -> int:
        """The largest number of kernels of which none waits for another.

        By Dilworth's theorem, this is the smallest number of chains (streams) that hold all kernels in order. It equals
        n minus a maximum matching of the bipartite graph of the order (Fulkerson 1956). A matched pair corresponds to a
        path in the transitive reduction, so that the matching is a maximum flow through its few edges: from the first
        copy of a kernel, through second copies and back, and from a second copy into the sink, using each copy once.
        """
        n = len(self.kernels)
        first, second, source, sink = np.arange(n), np.arange(n) + n, 2 * n, 2 * n + 1
        begin = np.concatenate([np.full(n, source), second, self.edges[:, 0], second])
        end = np.concatenate([first, np.full(n, sink), self.edges[:, 1] + n, first])
        capacity = np.repeat([1, n], [2 * n, len(self.edges) + n]).astype(np.int32)
        graph = csr_array((capacity, (begin, end)), shape=(2 * n + 2, 2 * n + 2))
        return n - int(maximum_flow(graph, source, sink).flow_value)

    def critical_path(self) -> tuple[list[int], float]:
        """The chain of kernels with the longest total duration, and that duration in ns.

        No number of streams and devices executes the graph faster.
        """
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
        """The share of the time during which 0, 1, 2, ... kernels ran concurrently, as a mean over the runs."""
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
        """The kernels whose delay would test untested edges, those with the most such edges first."""
        open_ = self.edges[~self.tested, 0]
        kernels, counts = np.unique(open_, return_counts=True)
        return [self.kernels[k] for k in kernels[np.argsort(-counts, kind="stable")]]


def order(runs: Sequence[Trace], pattern: str | None = None, resolution: int = 1000) -> Order:
    """The order that all `runs` have in common in their kernels and copies on streams.

    `resolution` (ns) is the difference allowed between the clocks of two streams; CUDA events resolve half a
    microsecond. Work that overlaps by no more than this counts as sequential.

    A kernel is the same in two runs if its process, stream, name and number agree. `pattern` is a regular expression
    that selects kernels by name. Raises ModelError if a run has no work on streams or if the runs differ in their
    kernels, and ValueError if kernels of the same stream overlap.
    """
    if not runs:
        raise ModelError("no trace is given; give the trace of at least one run")
    found = [_work(trace, pattern) for trace in runs]
    kernels, start, end = found[0]
    if len(kernels) > MOST_KERNELS:
        raise ModelError(
            f"{runs[0].path}: the trace has {len(kernels)} kernels, but at most {MOST_KERNELS} can be ordered: select "
            "some by name (--kernels)"
        )
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
    """Whether the event of the row ends before that of the column starts in every run: bool (n, n).

    `start` and `end` have the shape (R, n).
    """
    before = np.ones((start.shape[1],) * 2, dtype=bool)
    for s, e in zip(start, end, strict=True):
        before &= e[:, None] <= s
        before &= s[:, None] < e  # or two events of zero length at the same time would each precede the other
    return before


def reduction(before: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The edges (m, 2) of the transitive reduction of a strict partial order that is numbered in a linear extension.

    The lowest-numbered successor of i follows it directly, and the successors of that one do not. Each edge therefore
    costs one operation on a row: O(m n) in total, instead of O(n^3) for a matrix product.
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
        raise ModelError(f"{trace.path}: the trace has no kernels or copies on streams, only {held} events of the host")
    if pattern is not None:
        try:
            fits = np.array([re.search(pattern, n) is not None for n in trace.names], dtype=bool)
        except re.error as error:
            raise ModelError(f"'{pattern}' is not a valid regular expression: {error}") from None
        mask &= fits[trace.name]
        if not mask.any():
            raise ModelError(f"{trace.path}: no kernel has a name that matches '{pattern}'")
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
                f"{lacking.path}: {len(missing)} kernels of the other run are missing, the first is {missing[0]}; all "
                "runs must launch the same kernels on the same streams"
            )
