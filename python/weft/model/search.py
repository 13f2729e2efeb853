"""Search for the fastest and the cheapest way to run a problem: machines, nodes, process grids, batches, paths.

Every configuration is projected (`weft.model.project`), so the result is that of brute force. The problem is fixed:
the grid of turbulence, or the elements of the whole mesh and their order. Ranks fill whole nodes; smaller jobs than a
node use a part of one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.model import project
from weft.model.machine import Machine, numbers_of, with_number
from weft.model.project import OutOfMemoryError, Projection
from weft.model.project.projection import at_least_one
from weft.model.result import ModelError

BATCHES = (1, 2, 3, 4)  # fields per all-to-all (Q of GESTS Eq. 9)
# Ranks of workloads on elements, whose neighbours are looked at: that takes about a second for so many.
MOST_RANKS = 1_000_000
MOST_DIVISOR = 10_000_000  # grids whose smaller divisors exceed this fit on no machine
STEPS = 1000  # number of steps for which node-hours are given


@dataclass(frozen=True)
class Configuration:
    """One way to run the problem: a machine, the ranks, the other options of `project`, and the projection."""

    machine: Machine
    ranks: int
    options: Mapping[str, int | str]
    projection: Projection

    @property
    def nodes(self) -> int:
        """The nodes that the job is charged for."""
        return -(-self.ranks // self.machine.ranks_per_node)

    @property
    def seconds(self) -> float:
        """The time of an iteration or a time step."""
        return self.projection.seconds

    @property
    def node_hours(self) -> float:
        """The node-hours of 1000 iterations or steps."""
        return STEPS * self.seconds * self.nodes / 3600

    @property
    def text(self) -> str:
        """The options as shown, such as '2 x 16384, Q = 4'."""
        if "rows" in self.options:
            rows = int(self.options["rows"])
            return f"{rows} x {self.ranks // rows}, Q = {self.options['batch']}"
        each, exchange = int(self.options["elements_per_rank"]), f"{self.options['schedule']}:{self.options['path']}"
        return f"{each:,} element{'s' * (each > 1)} per rank, {exchange}"

    def on(self, machine: Machine) -> Projection:
        """The projection of the same job on another machine."""
        function: Callable[..., Projection] = getattr(project, self.projection.workload)
        return function(machine, self.ranks, **self.options, precision=self.projection.precision)


@dataclass(frozen=True)
class Found:
    """The result of a search: the configurations that fit, and the number of those that do not fit into memory."""

    fitting: tuple[Configuration, ...]
    too_large: int

    @property
    def tried(self) -> int:
        """The number of configurations that were tried."""
        return len(self.fitting) + self.too_large

    def by_nodes(self) -> dict[str, list[Configuration]]:
        """For each machine, the fastest configuration on each number of nodes, in ascending order of nodes."""
        best: dict[tuple[str, int], Configuration] = {}
        for c in self.fitting:
            key = (c.machine.title, c.nodes)
            if key not in best or c.seconds < best[key].seconds:
                best[key] = c
        found: dict[str, list[Configuration]] = {}
        for (title, _), c in sorted(best.items()):
            found.setdefault(title, []).append(c)
        return found

    def fastest(self, count: int) -> list[Configuration]:
        """The fastest configurations, one for each machine and number of nodes."""
        return sorted((c for row in self.by_nodes().values() for c in row), key=lambda c: c.seconds)[:count]

    def front(self) -> list[Configuration]:
        """The configurations that no other one beats in both time and node-hours, by ascending time."""
        found: list[Configuration] = []
        for c in sorted(self.fitting, key=lambda c: (c.seconds, c.node_hours)):
            if not found or c.node_hours < found[-1].node_hours:
                found.append(c)
        return found


def process_grids(grid: int, most_ranks: int) -> Iterator[tuple[int, int]]:
    """The process grids rows x columns of at most this many ranks on which every rank has bricks of the same size."""
    small = [n for n in range(1, min(math.isqrt(grid), most_ranks, MOST_DIVISOR) + 1) if grid % n == 0]
    sides = sorted({side for n in small for side in (n, grid // n) if side <= most_ranks})
    return ((rows, columns) for rows in sides for columns in sides if rows * columns <= most_ranks)


def rank_counts(machine: Machine, most_nodes: int) -> list[int]:
    """Ranks in steps of at most 3/2: powers of two inside a node, then 2^k and 3 x 2^k nodes, and all nodes allowed."""
    per_node = machine.ranks_per_node
    nodes = {n for k in range(most_nodes.bit_length() + 1) for n in (2**k, 3 * 2**k) if n < most_nodes} | {most_nodes}
    inside = {2**k for k in range(per_node.bit_length()) if 2**k < per_node}
    return sorted(inside | {n * per_node for n in nodes})


def _jobs(
    workload: str, machine: Machine, most_nodes: int, size: Mapping[str, int]
) -> Iterator[tuple[int, dict[str, int | str]]]:
    """The ranks and options of all configurations on a machine."""
    if workload == "turbulence":
        for rows, columns in process_grids(size["grid"], most_nodes * machine.ranks_per_node):
            for batch in BATCHES:
                yield rows * columns, {"grid": size["grid"], "rows": rows, "batch": batch}
        return
    paths = ("direct", "staged") if machine.links.host is not None else ("direct",)
    for ranks in rank_counts(machine, most_nodes):
        if ranks <= min(size["elements"], MOST_RANKS):
            each = -(-size["elements"] // ranks)
            for path, schedule in itertools.product(paths, ("pairwise", "crystal") if ranks > 1 else ("pairwise",)):
                yield ranks, {"order": size["order"], "elements_per_rank": each, "path": path, "schedule": schedule}


def search(
    workload: str,
    machines: Iterable[Machine],
    *,
    most_nodes: int | None = None,
    most_ranks: int | None = None,
    precision: str | None = None,
    **size: int,
) -> Found:
    """All configurations of a problem on these machines, on at most this many nodes and ranks of each.

    `size` is `grid` for turbulence, and `elements` (of the whole mesh) and `order` for the other workloads. Raises
    ModelError if no configuration fits.
    """
    at_least_one(**size)
    fitting, too_large = [], 0
    given = {} if precision is None else {"precision": precision}
    function: Callable[..., Projection] = getattr(project, workload)
    for machine in machines:
        limits = [int(machine.nodes.value), most_nodes, most_ranks and -(-most_ranks // machine.ranks_per_node)]
        for ranks, options in _jobs(workload, machine, min(n for n in limits if n is not None), size):
            if most_ranks is not None and ranks > most_ranks:
                continue
            try:
                made = function(machine, ranks, **options, **given)
            except OutOfMemoryError:
                too_large += 1
                continue
            fitting.append(Configuration(machine, ranks, options, made))
    if not fitting:
        raise ModelError(
            f"none of the {too_large} configurations fits into the memory of the devices: allow more nodes, name "
            "machines with more memory, or use a smaller problem"
        )
    return Found(tuple(fitting), too_large)


# --- what limits a configuration -----------------------------------------------------------------------------------

# Numbers that are doubled together, by the first matching prefix of their keys. Latencies and launch times are halved.
RESOURCES = (
    ("device.stream", "memory bandwidth"),
    ("device.flops", "floating-point peak"),
    ("device.kernel_seconds", "kernel launches"),
    ("device.transforms", "rate of transforms"),
    ("device.gather", "local gather-scatter"),
    ("topology.link_bytes", "links between switches"),
)
LINKS = {"device": "links in a package", "node": "links in a node", "group": "links in a group", "network": "network",
         "host": "link to the host"}  # fmt: skip


def _resource(key: str) -> str | None:
    for start, name in RESOURCES:
        if key.startswith(start):
            return name
    if key.startswith("links."):
        _, level, what = key.split(".")[:3]
        if what == "latency_seconds":
            return f"latency, {LINKS[level]}"
        return "network card of a node" if what == "node_bytes_per_second" else LINKS[level]
    return None


def twice_as_fast(machine: Machine) -> dict[str, Machine]:
    """For each resource of a machine, the machine on which it alone is twice as fast."""
    found: dict[str, Machine] = {}
    for key, (value, _) in numbers_of(machine).items():
        name = _resource(key)
        if name is not None and value > 0:
            factor = 0.5 if "seconds" in key.rpartition(".")[2] and "bytes" not in key else 2.0
            found[name] = with_number(found.get(name, machine), key, factor * value)
    return found


def limits(configurations: Sequence[Configuration]) -> list[tuple[str, float]]:
    """For each configuration, the resource that shortens its time most if twice as fast, and by what share."""
    faster: dict[str, dict[str, Machine]] = {}
    found = []
    for c in configurations:
        others = faster.setdefault(c.machine.title, twice_as_fast(c.machine))
        gains = {name: 1 - c.on(machine).seconds / c.seconds for name, machine in others.items()}
        name = max(gains, key=lambda n: gains[n])
        found.append((name, gains[name]))
    return found


def with_range(c: Configuration) -> tuple[float, float]:
    """The range of the time of a configuration, as `weft model project` prints it."""
    result = project.results(c.machine, c.on)[0]
    return result.low, result.high
