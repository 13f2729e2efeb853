"""Replay of communication graphs on network topologies with static routes and max-min fair sharing of links.

A graph consists of delays (computation) and messages, with dependencies between them. A message first waits for its
latency and then flows at the rate that progressive filling assigns to it among all current flows (Bertsekas and
Gallager, Data Networks, section 6.5.2). The replay of MPI traces follows FENATE (ECP-HIHE01-35, section 4.5.1).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.model.machine import SIZES, Machine
from weft.model.project import near_cube
from weft.model.result import ModelError, Result, exact, require_positive
from weft.traces import messages, transfers
from weft.traces.table import Category, Trace

METHOD = "network"
MOST_MESSAGES = 300_000
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


# --- topologies ----------------------------------------------------------------------------------------------------


@dataclass
class Topology:
    """Nodes and directed links. `route` gives the links on the way from one node to another, in order."""

    kind: str
    sizes: tuple[int, ...]
    nodes: int
    route: Callable[[int, int], tuple[int, ...]]
    capacity: Floats  # of each link, relative to a single link


def full(nodes: int) -> Topology:
    """A separate link from every node to every other node."""
    return Topology("full", (nodes,), nodes, lambda a, b: (a * nodes + b,), np.ones(nodes * nodes))


def torus(*sizes: int, per_router: int | None = None, widths: Sequence[int] = (), between: float = 1.0) -> Topology:
    """A periodic grid of routers with dimension-ordered routes, the shorter way around (upwards if both are as short).

    By default routers are nodes. With `per_router`, that many consecutive nodes share a router, each with a link to it.
    `widths` are the links side by side per direction, and `between` is the rate of one relative to a node's.
    """
    routers, each = math.prod(sizes), per_router or 1
    nodes = routers * each
    strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    first_own = 2 * routers * len(sizes)  # of the links of nodes, after those between routers

    def route(a: int, b: int) -> tuple[int, ...]:
        links, here, there = [], a // each, b // each
        for k, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
            x, y = here // stride % size, there // stride % size
            up = (y - x) % size
            steps, way = (up, 0) if up <= size - up else (size - up, 1)
            for _ in range(steps):
                links.append((here * len(sizes) + k) * 2 + way)
                at = here // stride % size
                here += ((at + (1 if way == 0 else -1)) % size - at) * stride
        return tuple(links) if per_router is None else (first_own + a, *links, first_own + nodes + b)

    capacity = np.tile(np.repeat(between * np.array(widths or (1,) * len(sizes), np.float64), 2), routers)
    own = np.ones(0 if per_router is None else 2 * nodes)
    return Topology("torus", sizes, nodes, route, np.concatenate([capacity, own]))


def fat_tree(per_leaf: int, leaves: int, taper: int = 1, *, between: float = 1.0) -> Topology:
    """Two levels: `per_leaf` nodes per leaf switch, and per_leaf / taper links from each leaf to the spines.

    `between` is the rate of a link between switches relative to a node's. The destination determines the spine
    (D-mod-k, Zahavi 2010), so that a shift of all nodes causes no conflicts.
    """
    spines = max(1, per_leaf // taper)
    nodes = per_leaf * leaves
    up = 2 * nodes

    def route(a: int, b: int) -> tuple[int, ...]:
        first, last = a // per_leaf, b // per_leaf
        if first == last:
            return (a, nodes + b)
        spine = b % spines
        return (a, up + first * spines + spine, up + (leaves + last) * spines + spine, nodes + b)

    capacity = np.concatenate([np.ones(up), np.full(2 * leaves * spines, between)])
    return Topology("fat-tree", (per_leaf, leaves, taper), nodes, route, capacity)


def dragonfly(groups: int, per_group: int, links: int = 1, *, between: float = 1.0) -> Topology:
    """Groups of fully connected nodes, with `links` shared links from each group to every other group.

    `between` is the rate of one of these links relative to a node's. Routes are minimal: to the link between the
    groups, over it, and to the node (Kim, Dally, Scott, Abts 2008).
    """
    nodes = groups * per_group

    def route(a: int, b: int) -> tuple[int, ...]:
        first, last = a // per_group, b // per_group
        across = () if first == last else (2 * nodes + first * groups + last,)
        return (a, *across, nodes + b)

    capacity = np.concatenate([np.ones(2 * nodes), np.full(groups * groups, links * between)])
    return Topology("dragonfly", (groups, per_group, links), nodes, route, capacity)


KINDS: dict[str, Callable[..., Topology]] = {
    "full": full,
    "torus": torus,
    "fat-tree": fat_tree,
    "dragonfly": dragonfly,
}


def topology(kind: str, sizes: Sequence[int], between: float = 1.0) -> Topology:
    """A topology by name. `between` is the rate of a link between switches relative to a node's (tree, dragonfly).

    Raises ModelError for unknown names and invalid sizes.
    """
    if kind not in KINDS:
        raise ModelError(f"unknown topology '{kind}'; known: {', '.join(KINDS)}")
    fewest, most, meaning = SIZES[kind]
    text = "x".join(map(str, sizes))
    if not fewest <= len(sizes) <= most or any(s < 1 for s in sizes):
        raise ModelError(f"sizes '{text}' do not fit topology {kind}, which takes {meaning} (whole numbers above zero)")
    if math.prod(sizes[:2] if kind in ("fat-tree", "dragonfly") else sizes) > 10_000_000:
        raise ModelError(f"topology {kind} {text} has more than 10 million nodes; give smaller sizes")
    if kind == "full" and sizes[0] > 4096:
        raise ModelError(
            f"topology full with {sizes[0]} nodes is too large: it has a link per pair of nodes, so at most 4096 nodes "
            "are supported"
        )
    return KINDS[kind](*sizes, between=between) if kind in ("fat-tree", "dragonfly") else KINDS[kind](*sizes)


def default_sizes(kind: str, nodes: int) -> tuple[int, ...]:
    """Sizes for at least `nodes` nodes: a nearly cubic torus, leaves of 16 nodes, groups of 16 nodes."""
    if kind == "torus":
        return near_cube(nodes)
    if kind in ("fat-tree", "dragonfly"):
        inside = min(16, nodes)
        outside = -(-nodes // inside)
        return (inside, outside, 1) if kind == "fat-tree" else (outside, inside, 1)
    return (nodes,)


@dataclass
class Network:
    """A topology with rates and latencies. Consecutive ranks share a node."""

    topology: Topology
    rate: float  # byte/s per link
    latency: float = 0.0  # s per message
    hop: float = 0.0  # extra latency per link, s
    ranks_per_node: int = 1
    node_rate: float = math.inf  # byte/s per rank, inside a node
    node_latency: float = 0.0
    _routes: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        require_positive(rate=self.rate, ranks_per_node=self.ranks_per_node)
        if min(self.latency, self.hop, self.node_latency) < 0 or not self.node_rate > 0:
            raise ModelError("the latencies of a network must not be negative, and its rates must be above zero")

    @property
    def ranks(self) -> int:
        """The number of ranks that fit on the network."""
        return self.topology.nodes * self.ranks_per_node

    def capacities(self) -> Floats:
        """The rates of all links (byte/s): the topology's, then one per rank for messages inside its node."""
        inside = np.full(self.ranks, min(self.node_rate, 1e300))
        return np.concatenate([self.topology.capacity * self.rate, inside])

    def path(self, a: int, b: int) -> tuple[int, ...]:
        """The links on the way from rank a to rank b; empty if they are the same rank."""
        if a == b:
            return ()
        first, last = a // self.ranks_per_node, b // self.ranks_per_node
        if first == last:
            return (len(self.topology.capacity) + a,)
        key = (first, last)
        if key not in self._routes:
            self._routes[key] = self.topology.route(first, last)
        return self._routes[key]

    def wait(self, a: int, b: int) -> float:
        """The latency (s) of a message from rank a to rank b."""
        if a == b:
            return 0.0
        if a // self.ranks_per_node == b // self.ranks_per_node:
            return self.node_latency
        return self.latency + self.hop * len(self.path(a, b))

    @classmethod
    def of(cls, machine: Machine) -> Network:
        """The network of a described machine. Raises ModelError if the description has no topology."""
        if machine.topology is None:
            raise ModelError(
                f"{machine.title}: the description has no topology; give --topology and --sizes instead of --machine"
            )
        network, node = machine.links.network, machine.link("node")
        rate = machine.card_bytes_per_second
        link = machine.topology.link_bytes_per_second
        between = 1.0 if link is None else link.value / rate
        kind, sizes = machine.topology.kind, machine.topology.sizes
        made = topology(kind, sizes, between)
        if kind == "torus":
            per_router, widths = machine.topology.nodes_per_router, machine.topology.widths
            made = torus(*sizes, per_router=per_router, widths=widths, between=between)
        return cls(
            made, rate, network.latency_seconds.value, 0.0, machine.ranks_per_node, node.bytes_per_second.value,
            node.latency_seconds.value,
        )  # fmt: skip


# --- graphs --------------------------------------------------------------------------------------------------------


@dataclass
class Graph:
    """Delays and messages, and the entries that each depends on. `delay` and `message` add to it."""

    ranks: int
    seconds: list[float] = field(default_factory=list)  # of a delay; 0 for messages
    source: list[int] = field(default_factory=list)  # rank; -1 for delays
    target: list[int] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)
    after: list[tuple[int, ...]] = field(default_factory=list)
    messages: int = 0

    def _add(self, seconds: float, source: int, target: int, size: float, after: Sequence[int]) -> int:
        self.seconds.append(seconds)
        self.source.append(source)
        self.target.append(target)
        self.bytes.append(size)
        self.after.append(tuple(after))
        return len(self.seconds) - 1

    def delay(self, seconds: float, after: Sequence[int] = ()) -> int:
        """Adds computation, or with 0 s a synchronisation point, and returns its number."""
        if not 0 <= seconds < math.inf:
            raise ModelError(f"a delay is {seconds} s, but must be a finite number of at least zero")
        return self._add(seconds, -1, -1, 0.0, after)

    def message(self, source: int, target: int, size: float, after: Sequence[int] = ()) -> int:
        """Adds a message of `size` bytes from one rank to another and returns its number."""
        if not (0 <= source < self.ranks and 0 <= target < self.ranks):
            raise ModelError(
                f"a message goes from rank {source} to rank {target}, but ranks are numbered 0 to {self.ranks - 1}"
            )
        if not 0 <= size < math.inf:
            raise ModelError(f"a message has {size} bytes, but must have a finite number of at least zero")
        if self.messages >= MOST_MESSAGES:
            raise ModelError(
                f"the graph has more than {MOST_MESSAGES} messages, the most that can be replayed; use fewer ranks or "
                "a shorter run"
            )
        self.messages += 1
        return self._add(0.0, source, target, size, after)


Ends = dict[int, tuple[int, ...]]  # by rank: the entries that must finish before it continues


def _exchange(graph: Graph, pairs: Sequence[tuple[int, int, float]], ends: Ends) -> Ends:
    """Adds concurrent messages. Each waits for the last entries of its two ranks, which continue after it."""
    made: dict[int, list[int]] = defaultdict(list)
    for a, b, size in pairs:
        number = graph.message(a, b, size, (*ends.get(a, ()), *(ends.get(b, ()) if a != b else ())))
        made[a].append(number)
        if b != a:
            made[b].append(number)
    return {**ends, **{rank: tuple(numbers) for rank, numbers in made.items()}}


def bcast(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """Binomial tree from `ranks[root]`."""
    n, step = len(ranks), 1
    while step < n:
        pairs = [(ranks[(k + root) % n], ranks[(k + step + root) % n], size) for k in range(min(step, n - step))]
        ends = _exchange(graph, pairs, ends)
        step *= 2
    return ends


def reduce(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """Binomial tree to `ranks[root]`: the messages of a broadcast reversed, in the opposite order."""
    n = len(ranks)
    step = 1 << max(0, math.ceil(math.log2(n)) - 1) if n > 1 else 0
    while step:
        pairs = [(ranks[(k + step + root) % n], ranks[(k + root) % n], size) for k in range(min(step, n - step))]
        ends = _exchange(graph, [p for p in pairs if p[0] != p[1]], ends)
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
        ends = _exchange(graph, pairs, ends)
        step *= 2
    return ends


def allreduce(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """Recursive doubling. Ranks beyond a power of two send their data first and receive the result last."""
    del root
    n = len(ranks)
    whole = 1 << int(math.log2(n))
    extra = n - whole
    if extra:
        ends = _exchange(graph, [(ranks[whole + k], ranks[k], size) for k in range(extra)], ends)
    step = 1
    while step < whole:
        ends = _exchange(graph, [(ranks[k], ranks[k ^ step], size) for k in range(whole)], ends)
        step *= 2
    if extra:
        ends = _exchange(graph, [(ranks[k], ranks[whole + k], size) for k in range(extra)], ends)
    return ends


def allgather(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """Ring of P - 1 steps in which each rank forwards what it received last."""
    del root
    n = len(ranks)
    for _ in range(n - 1):
        ends = _exchange(graph, [(ranks[k], ranks[(k + 1) % n], size) for k in range(n)], ends)
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
        ends = _exchange(graph, [(ranks[k], ranks[(k + step) % n], size) for k in range(n)], ends)
    return ends


def barrier(graph: Graph, ranks: Sequence[int], size: float, ends: Ends, root: int = 0) -> Ends:
    """Dissemination barrier: log2 P rounds of empty messages."""
    del root, size
    n, step = len(ranks), 1
    while step < n:
        ends = _exchange(graph, [(ranks[k], ranks[(k + step) % n], 0.0) for k in range(n)], ends)
        step *= 2
    return ends


Collective = Callable[[Graph, Sequence[int], float, Ends, int], Ends]
COLLECTIVES: dict[str, Collective] = {
    "allreduce": allreduce, "allgather": allgather, "alltoall": alltoall, "barrier": barrier, "bcast": bcast,
    "gather": gather, "reduce": reduce, "reducescatter": reduce_scatter, "scan": allreduce,
    "allreduce-ring": ring_allreduce, "allreduce-tree": tree_allreduce,
}  # fmt: skip


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
        ends = _exchange(graph, [(k, (k + 1) % ranks, size) for k in range(ranks)], ends)
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
    _exchange(graph, pairs, {})
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
    return count


# --- graphs of traces ----------------------------------------------------------------------------------------------


def of_trace(trace: Trace, compute: bool = True, overhead: float = 0.0) -> Graph:
    """The messages of a trace's MPI events, with the time between them as delays if `compute` is set.

    A GOAL schedule has an order of its own. Otherwise each process executes its events in order: a blocking send or
    receive ends with its message, a non-blocking one after its traced time (without `compute` immediately), and a wait
    with the operations it completes (if the file does not say which, with all before it). Collectives become the
    messages of `COLLECTIVES`. `weft.traces.messages` matches the calls. The collectives of NCCL and RCCL on a stream
    follow one another like calls of a thread, with the algorithm that the kernel's name says (TREE), else a ring. The
    messages of a kernel that sends and receives are on their way at the same time.

    `overhead`: seconds per byte that a waiting process spends on the messages that it receives (O of LogGOPS; Hoefler,
    Schneider, Lumsdaine 2010), while they arrive or afterwards.
    """
    if trace.format == "goal":
        return _of_schedule(trace, compute)
    kinds = [messages.kind(n) for n in trace.names]
    rows = messages.calls(trace, kinds)
    if not rows:
        held = ", ".join(sorted({Category(int(c)).name for c in np.unique(trace.category)}))
        raise ModelError(f"{trace.path}: the trace has no MPI events to replay on a network, only {held} events")
    matched, carried = messages.match(trace, rows, kinds), transfers.match(trace)
    if alone := matched.alone + carried.alone:
        raise ModelError(f"{trace.path}: {alone[0]}; a trace that was cut short, has only one side of its "
                         "messages, or holds several runs cannot be replayed")  # fmt: skip
    return _Calls(trace, compute, kinds, rows, matched, carried.found, overhead).graph()


class _Calls:
    """Steps through the calls of all processes and the collectives of all streams concurrently, each as far as it can
    get."""

    def __init__(
        self, trace: Trace, compute: bool, kinds: list[str], rows: dict[int, Ints], matched: messages.Matched,
        carried: list[transfers.Transfer], overhead: float,
    ) -> None:  # fmt: skip
        self.overhead = overhead
        self.trace, self.compute, self.kinds, self.partner = trace, compute, kinds, matched.partner
        stream = trace.on_stream()
        self.rows = [line.tolist() for row in rows.values() for line in _in_sequence(trace, row, stream[row])]
        self.rank = {p: k for k, p in enumerate(rows)}
        self.made = Graph(len(rows))
        self.joined = {e: j for j in matched.joined for e in j.events.values()}
        self.entered: dict[int, int] = defaultdict(int)  # by identity of a collective: processes that entered it
        self.result: dict[int, tuple[int, ...]] = {}  # by event of a collective: entries that complete it
        self.message: dict[int, int] = {}  # by send: the number of its message
        self.carried: dict[int, list[transfers.Transfer]] = defaultdict(list)  # by kernel: its messages
        for transfer in carried:
            self.carried[transfer.sender].append(transfer)
            self.carried[transfer.receiver].append(transfer)
        self.sent: dict[int, int] = {}  # by identity of a kernel's message: its number
        self.arrived: dict[int, tuple[int, ...]] = {}  # by event: entries that its process had finished before it
        self.ends: list[tuple[int, ...]] = [() for _ in self.rows]
        self.open: list[dict[int, list[int]]] = [defaultdict(list) for _ in self.rows]  # by request: open operations
        self.clock = [0] * len(self.rows)

    def graph(self) -> Graph:
        place = [0] * len(self.rows)
        active = list(range(len(self.rows)))
        while active:
            moved = False
            for r in active:
                row = self.rows[r]
                while place[r] < len(row) and self._step(r, row[place[r]]):
                    self.clock[r] = int(self.trace.end[row[place[r]]])
                    place[r] += 1
                    moved = True
            active = [r for r in active if place[r] < len(self.rows[r])]
            if active and not moved:
                event = self.rows[active[0]][place[active[0]]]
                raise ModelError(
                    f"{self.trace.path}: the replay is stuck: process {int(self.trace.process[event])} waits in "
                    f"'{self.trace.names[self.trace.name[event]]}' for a call that no other process makes"
                )
        return self.made

    def _step(self, r: int, event: int) -> bool:
        """Executes one call of row r; False if it must wait for another process."""
        trace = self.trace
        kind = self.kinds[trace.name[event]]
        if event not in self.arrived:
            gap = max(0, int(trace.start[event]) - self.clock[r]) * 1e-9
            if self.compute and gap > 0:
                self.ends[r] = (self.made.delay(gap, self.ends[r]),)
            self.arrived[event] = self.ends[r]
            if event in self.joined:
                self._enter(self.joined[event])
        if kind in ("send", "recv", "isend", "irecv"):
            sender = self._send(event)
            if kind in ("isend", "irecv"):
                self.open[r][int(trace.correlation[event])].append(event)
                own = int(trace.end[event] - trace.start[event]) * 1e-9
                if self.compute and own > 0:  # it waits for nobody, so that its time is the process's own
                    self.ends[r] = (self.made.delay(own, self.ends[r]),)
            elif sender in self.message:
                self.ends[r] = (self.message[sender], *self._own_work(r, [sender] if kind == "recv" else []))
            else:
                return False
        elif event in self.joined:
            if kind not in COLLECTIVES:
                self.open[r][int(trace.correlation[event])].append(event)
            elif event in self.result:
                self.ends[r] = self.result[event]
            else:
                return False
        elif event in self.carried:
            return self._exchange(r, event)
        elif kind == "wait":
            return self._wait(r, int(trace.correlation[event]))
        return True

    def _exchange(self, r: int, kernel: int) -> bool:
        """Sends the messages of a kernel to and from kernels that have arrived; False if others have not."""
        mine = self.carried[kernel]
        for one in mine:
            if id(one) not in self.sent and one.sender in self.arrived and one.receiver in self.arrived:
                a, b = (self.rank[int(self.trace.process[e])] for e in (one.sender, one.receiver))
                after = (*self.arrived[one.sender], *self.arrived[one.receiver])
                self.sent[id(one)] = self.made.message(a, b, float(one.bytes), after)
        if any(id(one) not in self.sent for one in mine):
            return False
        self.ends[r] = tuple(self.sent[id(one)] for one in mine)
        return True

    def _send(self, event: int) -> int:
        """The send of a message, which is added to the graph when both sides have arrived."""
        trace, half = self.trace, self.partner[event]
        sender, receiver = (event, half) if self.kinds[trace.name[event]] in ("send", "isend") else (half, event)
        if sender not in self.message and half in self.arrived:
            a, b = self.rank[int(trace.process[sender])], self.rank[int(trace.process[receiver])]
            size = float(max(trace.bytes[sender], trace.bytes[receiver], 0))
            after = (*self.arrived[sender], *self.arrived[receiver])
            self.message[sender] = self.made.message(a, b, size, after)
        return sender

    def _enter(self, joined: messages.Joined) -> None:
        self.entered[id(joined)] += 1
        if self.entered[id(joined)] < len(joined.events):
            return
        trace = self.trace
        size = float(max(0, max(int(trace.bytes[e]) for e in joined.events.values())))
        ranks = [self.rank[p] for p in joined.events]
        roots = {int(trace.peer[e]) for e in joined.events.values()}
        root = next((k for k, p in enumerate(joined.events) if p in roots), 0)
        if joined.kind == "alltoall":
            size /= len(ranks)  # a trace gives the total that a rank sends
        before = {r: self.arrived[e] for r, e in zip(ranks, joined.events.values(), strict=True)}
        kind = joined.kind
        name = trace.names[trace.name[next(iter(joined.events.values()))]]
        if kind == "allreduce" and name.startswith(("nccl", "rccl")):
            kind = "allreduce-tree" if "TREE" in name.upper() else "allreduce-ring"
        after = COLLECTIVES[kind](self.made, ranks, size, before, root)
        for r, event in zip(ranks, joined.events.values(), strict=True):
            self.result[event] = after[r]

    def _wait(self, r: int, request: int) -> bool:
        requests = [request] if request >= 0 else list(self.open[r])
        done: list[int] = []
        received: list[int] = []
        for event in (e for q in requests for e in self.open[r][q]):
            if event in self.joined:
                if event not in self.result:
                    return False
                done += self.result[event]
                continue
            sender = event if self.kinds[self.trace.name[event]] == "isend" else self.partner[event]
            if sender not in self.message:
                return False
            done.append(self.message[sender])
            if sender != event:
                received.append(sender)
        self.ends[r] = (*self.ends[r], *done, *self._own_work(r, received))
        for q in requests:
            del self.open[r][q]
        return True

    def _own_work(self, r: int, sends: Sequence[int]) -> tuple[int, ...]:
        """What the process of row r does itself with the messages of these sends, from now on."""
        size = sum(self.made.bytes[self.message[send]] for send in sends)
        return (self.made.delay(self.overhead * size, self.ends[r]),) if self.overhead and size else ()


def _in_sequence(trace: Trace, row: Ints, stream: NDArray[np.bool_]) -> list[Ints]:
    """The events of a process that follow one another: the calls of its host, and those of each stream."""
    on = row[stream]
    found = [row[~stream], *(on[trace.line[on] == line] for line in np.unique(trace.line[on]))]
    return [part for part in found if len(part)]


def _of_schedule(trace: Trace, compute: bool) -> Graph:
    processes = np.unique(trace.process)
    peers = trace.peer[trace.peer >= 0]
    graph = Graph(int(max(processes.max(), peers.max(initial=0))) + 1)
    needs: list[list[int]] = [[] for _ in range(len(trace))]
    assert trace.requires is not None
    for event, needed in trace.requires.tolist():
        needs[event].append(needed)
    number: dict[int, int] = {}
    waiting = [len(n) for n in needs]
    after: list[list[int]] = [[] for _ in needs]
    for event, n in enumerate(needs):
        for needed in n:
            after[needed].append(event)
    ready = [e for e, w in enumerate(waiting) if w == 0]
    while ready:
        event = ready.pop()
        before = [number[n] for n in needs[event]]
        if trace.category[event] == Category.mpi and trace.names[trace.name[event]] == "send":
            number[event] = graph.message(
                int(trace.process[event]), int(trace.peer[event]), float(trace.bytes[event]), before
            )
        else:
            calc = trace.category[event] != Category.mpi and compute
            number[event] = graph.delay(float(trace.end[event] - trace.start[event]) * 1e-9 if calc else 0.0, before)
        for other in after[event]:
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    if len(number) < len(trace):
        raise ModelError(f"{trace.path}: the schedule has a cycle: some of its operations wait for themselves")
    return graph


# --- replaying -----------------------------------------------------------------------------------------------------


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


def results(graph: Graph, network: Network, name: str) -> list[Result]:
    """The replayed time of a graph, and the lower bound by its busiest link."""
    found = replay(graph, network)
    sizes = "x".join(map(str, network.topology.sizes))
    inputs = {
        "topology": f"{network.topology.kind} {sizes}", "ranks": graph.ranks, "ranks per node": network.ranks_per_node,
        "link (B/s)": network.rate, "latency (s)": network.latency, "messages": found.messages, "bytes": found.bytes,
    }  # fmt: skip
    equation = "max-min fair flows, static routes"
    least = min(bound(graph, network), found.seconds)
    return [
        exact(METHOD, f"time, {name}", found.seconds, "s", inputs, equation),
        exact(METHOD, "lower bound by the busiest link", least, "s", inputs, "bytes over a link / its rate"),
        exact(METHOD, "lower bound / time", least / found.seconds if found.seconds else 0.0, "", inputs, "their ratio"),
    ]
