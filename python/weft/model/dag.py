"""Critical path of a task graph on several GPUs, applied to the sparse triangular solve.

Section numbers refer to "Hardware Evaluation Analytical Modeling and Node Simulation: Benefits of Tighter GPU
Integration" (ECP-HIHE01-35, 2021), "the report": 4.1, 5.4, 7.4 and 8.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal

import numpy as np
import scipy.io
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import splu

from weft.model.machine import Machine
from weft.model.result import ModelError, Result, exact, require_positive

METHOD = "dag"
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
INSIDE, NODE, NETWORK = 0, 1, 2  # the ends of an edge are on the same GPU, the same node, or different nodes

# Section 8.4, V100: peak over 80 SMs with two thread blocks each, and over 640 thread blocks.
MULTIPROCESSORS = 80
BLOCKS_PER_MULTIPROCESSOR = 8  # 64 warps in blocks of 8
BUSY_BLOCKS_PER_MULTIPROCESSOR = 2  # one waits while the other works


# --- graphs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Graph:
    """Tasks 0 to n - 1 with the bytes that each moves, and edges with the size of a message.

    An edge is a message only if its two tasks have different owners.
    """

    task_bytes: Floats  # (n,)
    tail: Ints  # (m,), from
    head: Ints  # (m,), to
    edge_bytes: Floats  # (m,)

    def __post_init__(self) -> None:
        n, m = len(self.task_bytes), len(self.tail)
        if n == 0:
            raise ModelError("the graph has no tasks")
        if len(self.head) != m or len(self.edge_bytes) != m:
            raise ModelError(
                f"the graph has {m} tails, {len(self.head)} heads and {len(self.edge_bytes)} message sizes, but needs "
                "one of each per edge"
            )
        if m and (min(self.tail.min(), self.head.min()) < 0 or max(self.tail.max(), self.head.max()) >= n):
            raise ModelError(f"an edge refers to a task that does not exist: tasks are numbered 0 to {n - 1}")
        for name, values in (("the bytes of a task", self.task_bytes), ("the bytes of a message", self.edge_bytes)):
            if len(values) and not (np.isfinite(values).all() and values.min() >= 0):
                raise ModelError(f"{name} must be finite and at least zero")

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return len(self.task_bytes)


def graph(task_bytes: ArrayLike, edges: Sequence[tuple[int, int]], edge_bytes: ArrayLike = 0.0) -> Graph:
    """A graph from lists. Edges are pairs (from, to); `edge_bytes` is one message size, or one per edge."""
    tail, head = (np.array([e[k] for e in edges], dtype=np.int64) for k in (0, 1))
    sizes = np.broadcast_to(np.asarray(edge_bytes, dtype=np.float64), len(edges)).copy()
    return Graph(np.asarray(task_bytes, dtype=np.float64), tail, head, sizes)


def levels(of: Graph) -> Ints:
    """The level of each task: the number of edges on the longest path to it. Raises ModelError for a cyclic graph."""
    n = of.tasks
    order = np.argsort(of.tail, kind="stable")
    heads, first = of.head[order], np.searchsorted(of.tail[order], np.arange(n + 1))
    waiting = np.bincount(of.head, minlength=n)
    level = np.zeros(n, dtype=np.int64)
    front, depth, seen = np.flatnonzero(waiting == 0), 0, 0
    while len(front):
        level[front] = depth
        seen += len(front)
        counts = first[front + 1] - first[front]
        starts = np.repeat(first[front] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        reached = heads[starts + np.arange(counts.sum())]
        np.subtract.at(waiting, reached, 1)
        reached = np.unique(reached)
        front = reached[waiting[reached] == 0]
        depth += 1
    if seen < n:
        raise ModelError(f"the task graph has a cycle: {n - seen} of {n} tasks depend on themselves")
    return level


# --- machines ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gpu:
    """A GPU (section 8.4): its peak bandwidth, and a thread block's bandwidth, from peak / 640 to peak / 160."""

    peak: float  # byte/s
    low: float
    high: float

    @classmethod
    def of(cls, peak: float, multiprocessors: int = MULTIPROCESSORS) -> Gpu:
        """A GPU with this memory bandwidth and number of multiprocessors."""
        require_positive(peak=peak, multiprocessors=multiprocessors)
        low = peak / (multiprocessors * BLOCKS_PER_MULTIPROCESSOR)
        return cls(peak, low, peak / (multiprocessors * BUSY_BLOCKS_PER_MULTIPROCESSOR))

    def integrated(self, count: float) -> Gpu:
        """`count` GPUs integrated into one, whose peak and upper bound of a block's rate are `count` times as high."""
        return Gpu(self.peak * count, self.low, self.high * count)

    def rate(self, active: Floats) -> Floats:
        """The rate of a block while `active` blocks run on the GPU."""
        return np.clip(self.peak / np.maximum(active, 1), self.low, self.high)


@dataclass(frozen=True)
class Curve:
    """Time of a message against its size: linear between the points, and at the rate of the last points beyond them."""

    bytes: Floats
    seconds: Floats
    rounded: bool = True  # round sizes up to the next power of two, a pessimistic choice of section 4.1

    def __post_init__(self) -> None:
        if not len(self.bytes) or len(self.bytes) != len(self.seconds):
            raise ModelError("a message curve needs one time per size, and at least one of them")
        if (np.diff(self.bytes) <= 0).any() or self.bytes[0] <= 0 or not (self.seconds > 0).all():
            raise ModelError("the sizes of a message curve must ascend, and its sizes and times must be above zero")

    def __call__(self, size: Floats) -> Floats:
        """Times (s) of messages of these sizes."""
        taken = np.exp2(np.ceil(np.log2(np.maximum(size, 1.0)))) if self.rounded else size
        found = np.interp(taken, self.bytes, self.seconds)
        if len(self.bytes) > 1:
            rate = (self.seconds[-1] - self.seconds[-2]) / (self.bytes[-1] - self.bytes[-2])
            beyond = self.seconds[-1] + np.maximum(rate, 0.0) * (taken - self.bytes[-1])
        else:
            beyond = self.seconds[-1] * taken / self.bytes[-1]
        return np.where(taken > self.bytes[-1], beyond, found)

    def faster(self, factor: float) -> Curve:
        """The curve with all messages `factor` times faster."""
        require_positive(factor=factor)
        return replace(self, seconds=self.seconds / factor)

    @classmethod
    def line(cls, latency: float, rate: float) -> Curve:
        """The curve latency + bytes / rate."""
        require_positive(latency=latency, rate=rate)
        sizes = np.exp2(np.arange(3, 31))
        return cls(sizes, latency + sizes / rate)

    @classmethod
    def measured(cls, points: Sequence[tuple[float, float]]) -> Curve:
        """The curve through measured points (bytes, seconds)."""
        data = np.array(sorted(points), dtype=np.float64).reshape(-1, 2)
        return cls(data[:, 0], data[:, 1])


@dataclass(frozen=True)
class Cluster:
    """GPUs, their number per node, and the message curves inside a node and between nodes."""

    gpu: Gpu
    gpus_per_node: int
    node: Curve
    network: Curve

    @classmethod
    def of(cls, machine: Machine) -> Cluster:
        """The cluster of a described machine. Without message curves, the latency and rate of its links are used."""

        def curve(level: Literal["node", "network"]) -> Curve:
            if level in machine.messages:
                own = machine.messages[level]
                return Curve(np.array(own.bytes), np.array(own.seconds))
            link = machine.link(level)
            return Curve.line(max(link.latency_seconds.value, 1e-9), link.bytes_per_second.value)

        gpu = Gpu.of(machine.device.stream_bytes_per_second.value)
        return cls(gpu, machine.ranks_per_node, curve("node"), curve("network"))


# --- critical path -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CriticalPath:
    """The longest path through a graph on a cluster, and the parts of its time, in seconds."""

    seconds: float
    compute: float
    node_messages: float
    network_messages: float
    messages: int  # messages on the path
    tasks: Ints  # tasks on the path, in order
    all_messages: int  # messages in the graph


def critical_path(of: Graph, owner: ArrayLike, cluster: Cluster, level: Ints | None = None) -> CriticalPath:
    """The critical path of a graph whose tasks are owned by the GPUs `owner` (section 4.1).

    A task starts when all its predecessors are done and their messages have arrived. It takes its bytes over the rate
    of a block, which decreases with the number of tasks of its level on its GPU.
    """
    where = np.asarray(owner, dtype=np.int64)
    if where.shape != (of.tasks,):
        raise ModelError(f"the graph has {of.tasks} tasks, but {where.size} owners are given; give one per task")
    level = levels(of) if level is None else level
    gpus = int(where.max()) + 1
    place = level * gpus + where
    active = np.bincount(place)[place]
    cost = of.task_bytes / cluster.gpu.rate(active.astype(np.float64))
    kind = np.where(where[of.tail] == where[of.head], INSIDE, NETWORK)
    kind[(kind == NETWORK) & (where[of.tail] // cluster.gpus_per_node == where[of.head] // cluster.gpus_per_node)] = (
        NODE
    )
    message = np.zeros(len(of.tail))
    for which, curve in ((NODE, cluster.node), (NETWORK, cluster.network)):
        message[kind == which] = curve(of.edge_bytes[kind == which])
    finish, last = _longest(of, cost, message, level)
    end = int(np.argmax(finish))
    path, compute, on, count = [end], float(cost[end]), {NODE: 0.0, NETWORK: 0.0}, 0
    while last[end] >= 0:
        edge = int(last[end])
        if kind[edge] != INSIDE:
            on[int(kind[edge])] += float(message[edge])
            count += 1
        end = int(of.tail[edge])
        path.append(end)
        compute += float(cost[end])
    return CriticalPath(
        float(finish.max()), compute, on[NODE], on[NETWORK], count, np.array(path[::-1], dtype=np.int64),
        int((kind != INSIDE).sum()),
    )  # fmt: skip


def _longest(of: Graph, cost: Floats, message: Floats, level: Ints) -> tuple[Floats, Ints]:
    """The time at which each task is done, and the edge that it waited for longest (-1: none), level by level."""
    ready, last = np.zeros(of.tasks), np.full(of.tasks, -1, dtype=np.int64)
    finish = np.zeros(of.tasks)
    edges = np.argsort(level[of.head], kind="stable")
    first = np.searchsorted(level[of.head][edges], np.arange(int(level.max()) + 2))
    tasks = np.argsort(level, kind="stable")
    begin = np.searchsorted(level[tasks], np.arange(int(level.max()) + 2))
    for k in range(int(level.max()) + 1):
        mine = edges[first[k] : first[k + 1]]
        if len(mine):
            heads, arrival = of.head[mine], finish[of.tail[mine]] + message[mine]
            order = np.lexsort((arrival, heads))
            final = order[np.flatnonzero(np.diff(heads[order], append=-1))]
            ready[heads[final]] = arrival[final]
            last[heads[final]] = mine[final]
        here = tasks[begin[k] : begin[k + 1]]
        finish[here] = ready[here] + cost[here]
    return finish, last


# --- the triangular solve ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Supernodes:
    """A lower triangular factor in blocks. Supernode k has the columns first[k] to first[k + 1] - 1."""

    first: Ints  # (count + 1,)
    row: Ints  # block row of each block below the diagonal
    column: Ints  # block column of each block
    rows: Ints  # nonzero rows in each block
    nonzeros: int

    @property
    def count(self) -> int:
        """The number of supernodes."""
        return len(self.first) - 1

    @property
    def width(self) -> Ints:
        """The number of columns of each supernode."""
        return np.diff(self.first)


def factor(matrix: sp.spmatrix | sp.sparray) -> sp.csc_matrix:
    """The factor L of a sparse matrix by SuperLU, with columns ordered by minimum degree on A + A^T.

    SciPy does not offer METIS orderings.
    """
    square = sp.csc_matrix(matrix)
    if square.shape[0] != square.shape[1] or square.shape[0] == 0:
        raise ModelError(f"the matrix is {square.shape[0]} x {square.shape[1]}, but must be square")
    if not np.isfinite(square.data).all():
        raise ModelError("the matrix has values that are not finite")
    try:
        found = splu(square, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError as error:
        raise ModelError(f"SuperLU cannot factor the matrix: {error}") from None
    return sp.csc_matrix(found.L)


def supernodes(lower: sp.spmatrix | sp.sparray, widest: int = 128, relax: float = 0.0) -> Supernodes:
    """The supernodes of L: at most `widest` adjacent columns that have the same structure below the diagonal.

    Structures count as the same if they differ by no more than the share `relax` of their rows.
    """
    csc = sp.csc_matrix(lower)
    csc.sort_indices()
    n = csc.shape[0]
    start, index = csc.indptr.astype(np.int64), csc.indices.astype(np.int64)
    counts = np.diff(start)
    if (counts < 1).any() or (index[start[:-1]] != np.arange(n)).any():
        raise ModelError("the matrix is not lower triangular with a full diagonal")
    first = [0]
    for j in range(1, n):
        joins = j - first[-1] < widest and counts[j - 1] > 1 and index[start[j - 1] + 1] == j
        # The structure of column j - 1 below row j is a subset of that of column j: equal sizes mean equal structures.
        if joins and counts[j] - (counts[j - 1] - 1) <= relax * counts[j]:
            continue
        first.append(j)
    bounds = np.array([*first, n], dtype=np.int64)
    owner = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    column = owner[np.repeat(np.arange(n), counts)]
    below = owner[index] != column
    pairs = np.unique(np.column_stack([column[below], index[below]]), axis=0)  # one per row of a block
    blocks, rows = np.unique(np.column_stack([pairs[:, 0], owner[pairs[:, 1]]]), axis=0, return_counts=True)
    return Supernodes(bounds, blocks[:, 1], blocks[:, 0], rows.astype(np.int64), int(csc.nnz))


def process_grid(gpus: int) -> tuple[int, int]:
    """Rows and columns of a process grid that is as square as possible, with no more columns than rows."""
    if gpus < 1:
        raise ModelError(f"the number of GPUs is {gpus}, but must be at least 1")
    columns = max(c for c in range(1, math.isqrt(gpus) + 1) if gpus % c == 0)
    return gpus // columns, columns


def solve_graph(blocks: Supernodes, gpus: int, right_sides: int = 1) -> tuple[Graph, Ints]:
    """The tasks of L x = b, with blocks distributed block-cyclically over a process grid, and their owners (Fig. 3).

    Supernode K has three kinds of task: its diagonal solve; on every GPU with blocks of its column, their products,
    which need x(K) (a broadcast along the column); and on every GPU with blocks of its row, the sum of their products,
    which the owner of the diagonal needs (a reduction along the row). The bytes of a task are those of the blocks it
    reads, 8 per value.
    """
    require_positive(right_sides=right_sides)
    rows, columns = process_grid(gpus)
    n, width = blocks.count, blocks.width.astype(np.float64)
    owner = (blocks.row % rows) * columns + blocks.column % columns
    diagonal = (np.arange(n) % rows) * columns + np.arange(n) % columns
    size = 8 * blocks.rows * width[blocks.column]

    def group(key: Ints) -> tuple[Ints, Ints, Ints]:
        """The distinct (supernode, GPU) pairs: their supernodes, their GPUs, and the pair of each block."""
        both = key * gpus + owner
        distinct, of_block = np.unique(both, return_inverse=True)
        return distinct // gpus, distinct % gpus, of_block.astype(np.int64)

    product_of, product_gpu, product = group(blocks.column)
    sum_of, sum_gpu, total = group(blocks.row)
    products, sums = n + np.arange(len(product_of)), n + len(product_of) + np.arange(len(sum_of))
    task_bytes = np.concatenate([
        8 * width * (width + 1) / 2 + 8 * width * right_sides,
        np.bincount(product, weights=size, minlength=len(product_of)),
        np.bincount(total, weights=8.0 * blocks.rows * right_sides, minlength=len(sum_of)),
    ])  # fmt: skip
    message = 8 * width * right_sides
    tail = np.concatenate([product_of, products[product], sums])
    head = np.concatenate([products, sums[total], sum_of])
    edge_bytes = np.concatenate([message[product_of], np.zeros(len(product)), message[sum_of]])
    tasks = Graph(task_bytes, tail.astype(np.int64), head.astype(np.int64), edge_bytes)
    return tasks, np.concatenate([diagonal, product_gpu, sum_gpu]).astype(np.int64)


@dataclass(frozen=True)
class Solve:
    """A triangular solve on a number of GPUs, which fill a number of nodes."""

    gpus: int
    nodes: int
    path: CriticalPath
    levels: int


def triangular(blocks: Supernodes, gpus: int, cluster: Cluster, right_sides: int = 1) -> Solve:
    """The time of L x = b on `gpus` GPUs."""
    tasks, owner = solve_graph(blocks, gpus, right_sides)
    level = levels(tasks)
    nodes = -(-gpus // cluster.gpus_per_node)
    return Solve(gpus, nodes, critical_path(tasks, owner, cluster, level), int(level.max()) + 1)


def supernode_levels(blocks: Supernodes) -> int:
    """The number of levels of the graph of supernodes, as section 5.4 counts them."""
    edges = Graph(np.zeros(blocks.count), blocks.column, blocks.row, np.zeros(len(blocks.row)))
    return int(levels(edges).max()) + 1


# --- the report's questions ----------------------------------------------------------------------------------------


SIZES = "messages at exact sizes"  # shows the effect of the sizes that section 4.1 rounds up


def exact_sizes(cluster: Cluster) -> Cluster:
    """The cluster without rounding up message sizes."""
    return replace(cluster, node=replace(cluster.node, rounded=False), network=replace(cluster.network, rounded=False))


def scaling(blocks: Supernodes, counts: Sequence[int], cluster: Cluster, right_sides: int = 1) -> list[Result]:
    """Time and speed-up over one GPU against the number of GPUs (Fig. 18b)."""
    alone = triangular(blocks, 1, cluster, right_sides).path.seconds
    inputs: dict[str, float] = {
        "supernodes": blocks.count, "nonzeros of L": blocks.nonzeros, "levels": supernode_levels(blocks),
        "GPUs per node": cluster.gpus_per_node, "right-hand sides": right_sides,
    }  # fmt: skip
    results = []
    for count in counts:
        found = triangular(blocks, count, cluster, right_sides)
        least = triangular(blocks, count, exact_sizes(cluster), right_sides).path.seconds
        path, text = found.path, f"{count} GPUs on {found.nodes} node{'s' * (found.nodes > 1)}"
        parts = {
            **inputs, "compute (s)": path.compute, "messages inside nodes (s)": path.node_messages,
            "messages between nodes (s)": path.network_messages, "messages on the path": path.messages,
        }  # fmt: skip
        value, low = path.seconds, min(least, path.seconds)
        range_is = SIZES if low < value else ""
        section = "report section"
        results.append(Result(METHOD, f"time, {text}", value, "s", low, value, parts, f"{section} 4.1", range_is))
        ratio = (alone / value, "x", alone / value, alone / low, parts, f"{section} 5.4", range_is)
        results.append(Result(METHOD, f"speed-up, {text}", *ratio))
    return results


def questions(blocks: Supernodes, gpus: int, cluster: Cluster, right_sides: int = 1) -> list[Result]:
    """The answers to the report's three questions for `gpus` GPUs (sections 5.4, 7.4 and 8.4)."""

    def seconds(on: Cluster, count: int = gpus) -> float:
        return triangular(blocks, count, on, right_sides).path.seconds

    base = seconds(cluster)
    integrated = replace(cluster, network=cluster.network.faster(PUT_SPEEDUP))
    apart = replace(cluster, node=cluster.node.faster(1 / DISAGGREGATED))
    per_node = cluster.gpus_per_node
    nodes = -(-gpus // per_node)
    inputs = {"supernodes": blocks.count, "GPUs": gpus, "GPUs per node": per_node}

    def result(quantity: str, value: float, section: str) -> Result:
        return exact(METHOD, quantity, value, "x", inputs, f"report section {section}")

    found = [
        result(f"CPU-GPU integration: messages between nodes x{PUT_SPEEDUP:g}", base / seconds(integrated), "5.4"),
        result(f"disaggregation: messages inside nodes /{DISAGGREGATED:g}", seconds(apart) / base, "7.4"),
    ]
    if nodes > 1:
        # One super GPU per node: messages inside the node become memory accesses at the node's combined rates.
        merged = replace(cluster, gpu=cluster.gpu.integrated(per_node))
        found.append(
            result(f"GPU-GPU integration: {nodes} nodes of one super GPU each", base / seconds(merged, nodes), "8.4")
        )
        one = replace(cluster, gpus_per_node=gpus)
        found.append(result(f"GPU-GPU integration: all {gpus} GPUs on one node", base / seconds(one), "8.4"))
    return found


PUT_HOST, PUT_DEVICE = 2.0, 6.5  # us, section 5.4: a put issued by the CPU and by the GPU
PUT_SPEEDUP = PUT_DEVICE / (PUT_HOST + 0.5)  # with synchronisation 10x cheaper: 4.5 us / 10, rounded as in the text
DISAGGREGATED = 4.0  # section 7.4


def put_speedup(host: float, device: float, factor: float) -> float:
    """The speed-up of a put from a GPU if its synchronisation with the CPU gets `factor` times faster (section 5.4)."""
    require_positive(host=host, device=device, factor=factor)
    if device < host:
        raise ModelError(f"a put from the GPU takes {device}, less than a put from the CPU ({host})")
    return device / (host + (device - host) / factor)


# --- matrices ------------------------------------------------------------------------------------------------------


def read(path: str | Path) -> sp.csc_matrix:
    """A square, real matrix from a Matrix Market file, plain or gzipped. Raises ModelError for anything else.

    The values of a pattern matrix are chosen to make it diagonally dominant.
    """
    try:
        found = scipy.io.mmread(str(path))
    except (ValueError, OverflowError, IndexError, TypeError, EOFError, MemoryError) as error:
        raise ModelError(
            f"{path}: not a readable Matrix Market file ({str(error).strip() or 'the file ends early'})"
        ) from None
    matrix = sp.csc_matrix(found)
    if np.iscomplexobj(matrix):
        raise ModelError(f"{path}: the matrix is complex, but must be real")
    if matrix.shape[0] != matrix.shape[1]:
        raise ModelError(f"{path}: the matrix is {matrix.shape[0]} x {matrix.shape[1]}, but must be square")
    if "pattern" in _banner(path):
        matrix = sp.csc_matrix(matrix + sp.eye(matrix.shape[0]) * (1.0 + abs(matrix).sum(axis=1).max()))
    return matrix.astype(np.float64)


def _banner(path: str | Path) -> str:
    import gzip

    opener: Callable[..., IO[str]] = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt", errors="replace") as file:
        return str(file.readline()).lower()


def stencil(points: Sequence[int], wide: bool = False) -> sp.csc_matrix:
    """The Laplacian on a grid of points, made diagonally dominant: 5 or 7 points, or with `wide` 9 or 27 points."""
    if not 1 <= len(points) <= 3 or min(points) < 1 or math.prod(points) > 10_000_000:
        raise ModelError(
            f"the stencil's grid is {list(points)} points, but must have one to three directions and at most 10 "
            "million points"
        )
    n = math.prod(points)
    if wide:
        near = sp.csc_matrix(np.ones((1, 1)))
        for m in points:
            near = sp.kron(near, sp.diags([1.0, 1.0, 1.0], [-1, 0, 1], shape=(m, m)), format="csc")
        return sp.csc_matrix(sp.eye(n) * 3 ** len(points) - near + sp.eye(n) * 0.01)
    total = sp.csc_matrix((n, n))
    for k, m in enumerate(points):
        line = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(m, m))
        before, after = math.prod(points[:k]), math.prod(points[k + 1 :])
        total = total + sp.kron(sp.kron(sp.eye(before), line), sp.eye(after))
    return sp.csc_matrix(total + sp.eye(n) * 0.01)
