"""Projection of weft's workloads to any scale: computation from bytes, operations and rates; exchanges from messages.

One function per workload returns the time of an iteration or a time step, by phase. Machines are described in
`weft.model.machine`. The few constants that no data sheet gives are listed in `machine.CONSTANTS` and calibrated by
`weft.model.calibration`. Equation numbers are followed by the paper they refer to.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.model import crystal, formulas
from weft.model.fabric import fabric
from weft.model.machine import Machine, Share
from weft.model.result import ModelError, Result, exact

METHOD = "project"
Path = Literal["direct", "staged"]
Schedule = Literal["pairwise", "crystal"]
Precision = Literal["double", "single"]
WORDS: dict[str, int] = {"double": 8, "single": 4}  # bytes per real number


class OutOfMemoryError(ModelError):
    """Raised for a problem that does not fit into the memory of the devices."""


@dataclass(frozen=True)
class Projection:
    """Time (s) of one iteration or step on the slowest rank, by phase, and the `figures` that the papers report."""

    workload: str
    machine: str
    ranks: int
    unit: str  # "iteration" or "step"
    phases: dict[str, float]
    figures: dict[str, float] = field(default_factory=dict)
    size: dict[str, float] = field(default_factory=dict)  # what describes the problem, for ranges and for output
    precision: str = "double"

    @property
    def seconds(self) -> float:
        """The total time of all phases."""
        return math.fsum(self.phases.values())


# --- boxes of elements ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def near_cube(count: int) -> tuple[int, int, int]:
    """The three factors of `count` whose box has the smallest surface, in descending order."""
    best = (count, 1, 1)
    for c in range(1, round(count ** (1 / 3)) + 2):
        if count % c:
            continue
        rest = count // c
        for b in range(c, math.isqrt(rest) + 1):
            if rest % b == 0:
                best = min(best, (rest // b, b, c), key=lambda f: f[0] * f[1] + f[1] * f[2] + f[0] * f[2])
    return best


def box_of(elements: int) -> tuple[int, int, int]:
    """A box of `elements` elements if they have three similar factors, else a nearly cubic box of about this size."""
    exact = near_cube(elements)
    if exact[0] <= 2 * exact[2]:
        return exact
    side = max(1, round(elements ** (1 / 3)))
    return (side, side, max(1, round(elements / side**2)))


@dataclass(frozen=True)
class Halo:
    """Points and messages that the slowest rank sends in one exchange, inside its node and over the network."""

    node_points: float
    node_messages: float
    network_points: float
    network_messages: float
    busiest_node_points: float  # sent over the network by the node that sends most
    busiest_group_points: float = 0.0  # sent out of the group of nodes that sends most


def _neighbors(
    chosen: NDArray[np.int64], ranks: int, box: tuple[int, int, int], order: int, corners: bool, periodic: bool
) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.int64], float, float]]:
    """For each direction: which of the chosen ranks have a neighbour there, its rank, their points, and the messages.

    The messages are less than one where other directions lead to the same rank, which gets a single message. The ranks
    form a nearly cubic grid, and each has a box of elements; `halo` says what `corners` means.
    """
    grid = np.array(near_cube(ranks))
    place = np.stack(np.unravel_index(chosen, tuple(grid)), axis=1)
    side = np.array(box) * order + 1 if corners else np.array(box) * (order + 1)
    for direction in itertools.product((-1, 0, 1), repeat=3):
        d = np.array(direction)
        if not d.any() or (not corners and np.abs(d).sum() > 1):
            continue
        there = place + d
        inside = ((there >= 0) & (there < grid)).all(axis=1)
        if periodic:
            there, inside = there % grid, ((there % grid) != place).any(axis=1)
        other = np.ravel_multi_index(tuple(np.clip(there, 0, grid - 1).T), tuple(grid))
        alike = 2 ** np.count_nonzero(d[grid == 2]) if periodic else 1  # both ways round a ring of two
        yield inside, other, float(np.prod(np.where(d == 0, side, 1))), 1 / alike


@lru_cache(maxsize=1024)
def halo(
    ranks: int,
    box: tuple[int, int, int],
    order: int,
    ranks_per_node: int,
    *,
    corners: bool,
    periodic: bool,
    groups: int = 1,
) -> Halo:
    """The halo of a nearly cubic grid of ranks with `box` elements each, in which consecutive ranks share a node.

    Consecutive nodes form `groups` groups of about the same size: groups of a dragonfly, or leaves of a tree.

    With `corners`, as for continuous elements, ranks exchange shared points on faces, edges and corners (order x
    elements + 1 points per direction). Without, as for discontinuous elements, they exchange all points of faces
    ((order + 1) x elements points per direction).
    """
    points = np.zeros((2, ranks))
    messages = np.zeros((2, ranks))
    node = np.arange(ranks) // ranks_per_node
    group = node * groups // (node[-1] + 1)
    out_of_group = np.zeros(ranks)
    for inside, other, size, count in _neighbors(np.arange(ranks), ranks, box, order, corners, periodic):
        for level, here in enumerate((inside & (node[other] == node), inside & (node[other] != node))):
            points[level] += size * here
            messages[level] += count * here
        out_of_group += size * (inside & (group[other] != group))
    # The rank with the most traffic, where network traffic counts ten times as much as traffic inside the node.
    worst = int(np.argmax(points[0] + 10 * points[1]))
    leaving = np.bincount(node, weights=points[1])
    return Halo(
        points[0, worst], messages[0, worst], points[1, worst], messages[1, worst], float(leaving.max(initial=0.0)),
        float(np.bincount(group, weights=out_of_group).max(initial=0.0)),
    )  # fmt: skip


def halo_of(
    machine: Machine, ranks: int, box: tuple[int, int, int], order: int, *, corners: bool, periodic: bool
) -> Halo:
    """The halo of a job on a machine, with the groups that its nodes are placed on."""
    groups = fabric(machine, ranks).groups
    return halo(ranks, box, order, machine.ranks_per_node, corners=corners, periodic=periodic, groups=groups)


def transfer_seconds(
    machine: Machine,
    ranks: int,
    sent: Halo,
    bytes_per_point: float,
    path: Path = "direct",
    *,
    shared: bool = True,
) -> float:
    """Time (s) of an exchange: messages inside the node, then network messages.

    These take the longest of three times: of the rank's own link, of the node's card, and, if `shared`, of the links
    that switches or routers share.
    """
    near, far = machine.link("node"), machine.link("network")
    leaving = max(
        sent.network_points * bytes_per_point / far.bytes_per_second.value,
        sent.busiest_node_points * bytes_per_point / machine.card_bytes_per_second,
    )
    if shared:
        links = fabric(machine, ranks)
        leaving = max(leaving, sent.busiest_group_points * bytes_per_point / links.group_rate)
        if links.groups == 1:  # a torus, where neighbours are at random places
            leaving = max(leaving, sent.network_points * bytes_per_point / links.random_rate)
    seconds = near.seconds(sent.node_messages, sent.node_points * bytes_per_point)
    seconds += sent.network_messages * far.latency_seconds.value + leaving
    return seconds + (staging_seconds(machine, sent, bytes_per_point) if path == "staged" else 0.0)


def staging_seconds(machine: Machine, sent: Halo, bytes_per_point: float) -> float:
    """Time (s) of one copy out of the device and one back into it."""
    return machine.link("host").seconds(2, 2 * (sent.node_points + sent.network_points) * bytes_per_point)


CRYSTAL_SAMPLE = 512  # ranks whose messages are followed, spread over all


@lru_cache(maxsize=1024)
def crystal_points(
    ranks: int, box: tuple[int, int, int], order: int, ranks_per_node: int, *, corners: bool, periodic: bool
) -> tuple[tuple[float, float], ...]:
    """For each step of the crystal router, the points that a rank sends inside its node and out of it, in the mean."""
    chosen = np.unique(np.linspace(0, ranks - 1, min(ranks, CRYSTAL_SAMPLE)).astype(np.int64))
    source, target, size = [], [], []
    for inside, other, points, _ in _neighbors(chosen, ranks, box, order, corners, periodic):
        source.append(chosen[inside])
        target.append(other[inside])
        size.append(np.full(int(inside.sum()), points))
    found = []
    ends = np.concatenate(source), np.concatenate(target), np.concatenate(size)
    for holder, partner, moved in crystal.steps(*ends, ranks):
        near = holder // ranks_per_node == partner // ranks_per_node
        found.append((float(moved[near].sum()) / len(chosen), float(moved[~near].sum()) / len(chosen)))
    return tuple(found)


def crystal_seconds(
    machine: Machine,
    ranks: int,
    box: tuple[int, int, int],
    order: int,
    bytes_per_point: float,
    *,
    corners: bool,
    periodic: bool,
) -> float:
    """Time (s) of an exchange by the crystal router: per step one message, packed and unpacked by a kernel each.

    Most steps reach far across the job, so what leaves a node gets the share of the links that random traffic gets.
    """
    near, far = machine.link("node"), machine.link("network")
    card = machine.card_bytes_per_second / min(ranks, machine.ranks_per_node)
    rate = min(far.bytes_per_second.value, card, fabric(machine, ranks).random_rate)
    seconds = 0.0
    for inside, outside_ in crystal_points(
        ranks, box, order, machine.ranks_per_node, corners=corners, periodic=periodic
    ):
        seconds += far.latency_seconds.value if outside_ > 0 else near.latency_seconds.value
        seconds += bytes_per_point * (inside / near.bytes_per_second.value + outside_ / rate)
        packing = 4 * bytes_per_point * (inside + outside_) / machine.device.stream_bytes_per_second.value
        seconds += packing + 2 * machine.device.kernel_seconds.value
    return seconds


def counted_exchange(
    machine: Machine, ranks: int, workload: str, sent: Halo, bytes_per_point: float, path: Path, hiding: float
) -> dict[str, float]:
    """Phases of exchanges and all-reduces by their counted number, of which `hiding` seconds of work hide a part.

    The messages of an exchange travel at the same time, so each level has one latency per exchange. The work takes
    turns with what the processor does for messages itself, so that much of an exchange always shows.
    """
    traffic = machine.traffic[workload]  # type: ignore[index]
    counted = Halo(
        sent.node_points * traffic.volume, min(sent.node_messages, 1) * traffic.exchanges,
        sent.network_points * traffic.volume, min(sent.network_messages, 1) * traffic.exchanges,
        sent.busiest_node_points * traffic.volume, sent.busiest_group_points * traffic.volume,
    )  # fmt: skip
    travel = transfer_seconds(machine, ranks, counted, bytes_per_point, path)
    data = counted.network_points * bytes_per_point
    fixed = traffic.exchanges * machine.constant("exchange_seconds", workload)
    return {
        "exchange": fixed + max(machine.link("network").busy(data), travel - traffic.overlap * hiding),
        "reductions": traffic.reductions * reduction_seconds(machine, ranks),
    }


def reduction_seconds(machine: Machine, ranks: int) -> float:
    """Time (s) of an all-reduce of one number by recursive doubling: log2 P messages, the first inside the node."""
    if ranks == 1:
        return 0.0
    inside = min(ranks, machine.ranks_per_node)
    stages, near = math.ceil(math.log2(ranks)), math.ceil(math.log2(inside))
    network = machine.link("network").latency_seconds.value
    return near * machine.link("node").latency_seconds.value + (stages - near) * network


def streamed(machine: Machine, bytes_: float, flops: float, kernels: float, efficiency: float) -> float:
    """Time (s) by hipBone Eq. 4, plus the launch cost alpha of its streaming model t = alpha + beta B."""
    rate = machine.device.stream_bytes_per_second.value * efficiency
    return max(bytes_ / rate, flops / machine.device.flops_per_second.value) + kernels * (
        machine.device.kernel_seconds.value
    )


# --- spectral elements ---------------------------------------------------------------------------------------------

# Per iteration on several ranks: pack, operator in three parts, gather, two fused updates, x (hipBone Fig. 2).
POISSON_KERNELS = 8


# Bytes per point that a solver cannot do without, in double precision: for poisson six factors, W and local results,
# 4-byte indices (hipBone Eq. 4); for maxwell fields, residuals and curls of six components, and nine metric terms.
POISSON_BYTES, MAXWELL_BYTES = 68, 216


def _fits(machine: Machine, order: int, elements: int, bytes_per_point: int) -> None:
    """Raises ModelError if the fields of this many elements per rank do not fit into the memory of a device."""
    _at_least_one(order=order, elements_per_rank=elements)
    needed, room = elements * (order + 1) ** 3 * bytes_per_point, machine.device.memory_bytes.value
    if needed > room:
        most = int(room // ((order + 1) ** 3 * bytes_per_point))
        raise OutOfMemoryError(
            f"{elements:.6g} elements of order {order} per rank need at least {needed / 1024**3:.3g} GiB, but a device "
            f"has {room / 1024**3:.3g} GiB: use at most {most:,} elements per rank"
        )


def poisson(
    machine: Machine,
    ranks: int,
    *,
    order: int = 7,
    elements_per_rank: int = 8192,
    path: Path = "direct",
    schedule: Schedule = "pairwise",
    precision: Precision = "double",
) -> Projection:
    """One CG iteration of hipBone's benchmark: 108 N_G + 80 N_L bytes (text before its Eq. 5), halo and gather.

    The halo exchange and the gather each move half of the shared points on average, and overlap with two halves of the
    interior. The share `exchange_factor` of their time remains visible. The figure of merit counts the operations of
    Eq. 3.
    """
    size, phases = _iteration(machine, ranks, order, elements_per_rank, path, schedule, precision, "poisson")
    projection = Projection("poisson", machine.title, ranks, "iteration", phases, precision=precision)
    fom = formulas.fom_flops(size).value * ranks / projection.seconds / 1e9
    dofs = size.dofs / projection.seconds
    return _with(
        projection, {"FOM (GFLOP/s)": fom, "FOM per rank (GFLOP/s)": fom / ranks, "DOF/s per rank": dofs},
        **_of_elements(order, size.elements),
    )  # fmt: skip


def _iteration(
    machine: Machine,
    ranks: int,
    order: int,
    elements: int,
    path: Path,
    schedule: Schedule,
    precision: Precision,
    workload: str,
) -> tuple[formulas.Size, dict[str, float]]:
    """The size of a CG iteration per rank and its phases, with the constants of a workload."""
    machine.require(ranks)
    word = WORDS[precision]
    _fits(machine, order, elements, POISSON_BYTES * word // 8)
    box = box_of(elements)
    size = formulas.large_mesh(order, math.prod(box), word)
    moved, flops = formulas.iteration_bytes(size).value, formulas.iteration_flops(size).value
    points = math.prod(box) * (order + 1) ** 3
    efficiency = machine.stream_efficiency(workload, order, points, ranks)
    local = streamed(machine, moved, flops, POISSON_KERNELS - (4 if ranks == 1 else 0), efficiency)
    phases = {"stream": local}
    if ranks > 1:
        phases["split"] = local * machine.constant("split_overhead", workload)
        sent = halo_of(machine, ranks, box, order, corners=True, periodic=False)
        if workload in machine.traffic and schedule == "pairwise":
            work = math.fsum(phases.values())
            phases |= counted_exchange(machine, ranks, workload, sent, word, path, work)
            return size, phases
        once = transfer_seconds(machine, ranks, sent, word / 2, path)
        if schedule == "crystal":
            once = crystal_seconds(machine, ranks, box, order, word / 2, corners=True, periodic=False)
            once += staging_seconds(machine, sent, word / 2) if path == "staged" else 0.0
        both = 2 * once
        seen = machine.constant("exchange_factor", workload) * both
        phases["exchange"] = seen + max(0.0, both - seen - local)
        phases["reductions"] = 2 * reduction_seconds(machine, ranks)
    return size, phases


# Memory words per point and stage, from NekCEM Eqs. 9 to 15. Curls: six fields and nine metric terms read, six
# derivatives written (21). Mass and material: 6 + 2. Runge-Kutta: residual and field of six components, each read and
# written (24). Fluxes and their addition on the faces are part of the exchange.
MAXWELL_WORDS = 21 + 8 + 24
MAXWELL_STAGES = 5
MAXWELL_KERNELS = 215  # per step: calls in NekCEM Table 3, divided by its 1000 steps
MAXWELL_EXCHANGE_KERNELS = 120  # of these, those of the gather-scatter: the four loops of Algorithm 4 on six fields


def maxwell_step_flops(order: int, points: int) -> float:
    """NekCEM Eq. 16: operations per time step for `points` = E (N + 1)^3."""
    return (180 * (order + 1) + 420) * points


def maxwell(
    machine: Machine,
    ranks: int,
    *,
    order: int = 7,
    elements_per_rank: int = 512,
    path: Path = "direct",
    schedule: Schedule = "pairwise",
    precision: Precision = "double",
) -> Projection:
    """One time step of NekCEM's scheme: five Runge-Kutta stages, each with an exchange of six fields over the faces.

    The operations are those of Eq. 16. The launch cost of the kernels determines n_1/2 (text on its Fig. 7).
    """
    machine.require(ranks)
    word = WORDS[precision]
    _fits(machine, order, elements_per_rank, MAXWELL_BYTES * word // 8)
    box = box_of(elements_per_rank)
    points = math.prod(box) * (order + 1) ** 3
    work = maxwell_step_flops(order, points)
    start = MAXWELL_KERNELS * machine.device.kernel_seconds.value
    efficiency = machine.stream_efficiency("maxwell", order, points, ranks)
    stream = streamed(machine, MAXWELL_STAGES * MAXWELL_WORDS * word * points, work, 0, efficiency)
    gathered = 0.0  # local gather and scatter, a part of the calibrated streaming time
    if machine.device.gather_bytes_per_second is not None:
        values = MAXWELL_STAGES * 6 * 6 * math.prod(box) * (order + 1) ** 2
        gathered = min(stream, word * values / machine.device.gather_bytes_per_second.value)
    phases = {"stream": stream - gathered, "gather-scatter": gathered, "launches": start}
    if ranks > 1 and "maxwell" in machine.traffic and schedule == "pairwise":
        sent = halo_of(machine, ranks, box, order, corners=False, periodic=True)
        phases["split"] = stream * machine.constant("split_overhead", "maxwell")
        hiding = (stream + phases["split"]) / MAXWELL_STAGES
        stage = counted_exchange(machine, ranks, "maxwell", sent, 6 * word, path, hiding)
        phases |= {name: MAXWELL_STAGES * seconds for name, seconds in stage.items()}
    elif ranks > 1:
        sent = halo_of(machine, ranks, box, order, corners=False, periodic=True)
        alone = transfer_seconds(machine, ranks, sent, 6 * word, shared=False)
        once = alone / machine.constant("exchange_efficiency", "maxwell")
        # What the links that routers share add does not pass through the rank's own inefficiencies.
        once += transfer_seconds(machine, ranks, sent, 6 * word) - alone
        if schedule == "crystal":
            once = crystal_seconds(machine, ranks, box, order, 6 * word, corners=False, periodic=True)
            once /= machine.constant("exchange_efficiency", "maxwell")
        if path == "staged":
            once += staging_seconds(machine, sent, 6 * word)
        phases["exchange"] = MAXWELL_STAGES * once
    projection = Projection(
        "maxwell", machine.title, ranks, "step", {k: v for k, v in phases.items() if v > 0}, precision=precision
    )
    figures = {"GFLOP/s per rank": work / projection.seconds / 1e9, "n_1/2 (points)": start / (stream / points)}
    if ranks > 1 and gathered > 0:
        share = gathered + phases["exchange"] + start * MAXWELL_EXCHANGE_KERNELS / MAXWELL_KERNELS
        figures["share of the gather-scatter"] = share / projection.seconds
    return _with(projection, figures, **_of_elements(order, math.prod(box)))


def flow(
    machine: Machine,
    ranks: int,
    *,
    order: int = 7,
    elements_per_rank: int = 2048,
    pressure_iterations: int = 20,
    velocity_iterations: int = 4,
    path: Path = "direct",
    schedule: Schedule = "pairwise",
    precision: Precision = "double",
) -> Projection:
    """One time step of incompressible Navier-Stokes on spectral elements.

    It consists of a pressure solve, three velocity solves and the advection term. A solver iteration costs as much as
    hipBone's (`poisson`). Advection is evaluated on 3/2 as many points per direction, the usual dealiasing: three
    fields are interpolated, nine derivatives taken, and three results returned.
    """
    _at_least_one(pressure_iterations=pressure_iterations, velocity_iterations=velocity_iterations)
    size, once = _iteration(machine, ranks, order, elements_per_rank, path, schedule, precision, "flow")
    elements, word = size.elements, WORDS[precision]
    n, fine = order + 1, math.ceil(1.5 * (order + 1))
    moved = word * elements * (6 * n**3 + 9 * fine**3)
    flops = elements * (6 * 2 * (n**3 * fine + n**2 * fine**2 + n * fine**3) + 3 * (12 * fine**4 + 15 * fine**3) / 2)
    iterations = pressure_iterations + 3 * velocity_iterations
    phases = {name: seconds * iterations for name, seconds in once.items()}
    points = elements * n**3
    phases["advection"] = streamed(machine, moved, flops, 6, machine.stream_efficiency("flow", order, points, ranks))
    projection = Projection("flow", machine.title, ranks, "step", phases, precision=precision)
    return _with(projection, {"points/s per rank": points / projection.seconds}, **_of_elements(order, elements))


# --- turbulence ----------------------------------------------------------------------------------------------------

STAGES = 2  # second-order Runge-Kutta (GESTS section 3.1)
INVERSE, FORWARD_X, FORWARD_Y = 3, 5, 4  # fields: velocities; Rogallo's five products in x and z, of which four in y
COLUMN_CALLS = STAGES * (INVERSE + FORWARD_Y)  # 14, GESTS section 4.3
ROW_CALLS = STAGES * (INVERSE + FORWARD_X)  # 16, section 5.2
CONTIGUOUS_LINES = STAGES * (INVERSE + FORWARD_X)  # transforms in x, contiguous in memory
STRIDED_LINES = STAGES * (2 * INVERSE + FORWARD_X + FORWARD_Y)  # transforms in y and z, strided (section 2.1)
# Fields that the pointwise kernels of a step read or write (GESTS section 3.2; the truncation mask is half a field).
# Per stage: phase shift of three velocities, mask (6.5); five products of three velocities (8); derivatives of five
# products with the inverse shift, mask (8.5). Predictor: Courant number (3); projection and update from three terms and
# three velocities to the new velocities and the partial sums (12). Corrector: update from terms and partial sums (9).
POINTWISE = STAGES * (6.5 + 8 + 8.5) + 3 + 12 + 9
WORD = 4  # bytes per real number in single precision, as in GESTS


def turbulence_memory_gib(grid: int, ranks: int, batch: int = 1, word: int = WORD) -> float:
    """GESTS Eq. 9: memory per rank in GiB, with `word` bytes per real number."""
    return (8 + 2 * batch + 0.5) * grid**3 / (2 * ranks) * 2 * word / 1024**3


def all_to_all_rate(machine: Machine, ranks: int) -> float:
    """Byte/s over the network of a rank in all-to-alls in which all ranks of a job take part.

    The least of the rank's injection, its part of the node's card, and its part of the links that switches share.
    """
    links = fabric(machine, ranks)
    link = machine.link("group") if links.groups == 1 else machine.link("network")
    if link.all_to_all_bytes_per_second is not None:
        own = link.all_to_all_bytes_per_second.value
    else:
        part = machine.card_bytes_per_second / min(ranks, machine.ranks_per_node)
        own = min(link.bytes_per_second.value, part) * machine.constant("network_efficiency", "turbulence")
    return min(own, links.random_rate)


def all_to_all_seconds(machine: Machine, ranks: int, members: int, stride: int, volume: float, calls: float) -> float:
    """Time (s) of `calls` all-to-alls among the ranks 0, stride, 2 stride, …, each with `volume` bytes per rank.

    All other ranks of the job exchange in communicators of the same shape at the same time. Inside a node, the messages
    to each level take its rate, one after another, because a copy engine serves one message at a time (GESTS section
    5.2). Between nodes, all messages take the rate of the network, the slowest link (section 5). A message takes its
    transfer or the gap of LogGP (Alexandrov et al. 1995), whichever is longer. The gap is what the software takes for a
    message, and that is the latency inside a node. The latency of the network counts once: all messages are on their
    way at the same time. What a rank keeps is copied in its memory meanwhile; one that is alone copies nothing
    (docs/fft.md).
    """
    if ranks == 1:
        return 0.0
    message = volume / members
    kept = 2 * message / machine.device.stream_bytes_per_second.value
    if members == 1:
        return calls * kept

    gap = machine.link("node").latency_seconds.value

    def sent(count: int, rate: float, least: float) -> float:
        return count * max(message / rate, least)

    if (members - 1) * stride >= machine.ranks_per_node:
        network = machine.link("network")
        least = min(gap, network.latency_seconds.value)
        travel = sent(members - 1, all_to_all_rate(machine, ranks), least)
        travel = max(travel, network.busy(message * (members - 1)))
        return calls * max(kept, travel + network.latency_seconds.value)
    package = -(-min(machine.ranks_per_package, members * stride) // stride) - 1  # others of the first rank's package
    travel, waits = 0.0, []
    for count, link in ((package, machine.link("device")), (members - 1 - package, machine.link("node"))):
        rate = link.all_to_all_bytes_per_second or link.bytes_per_second
        travel += sent(count, rate.value, link.latency_seconds.value)
        waits += [link.latency_seconds.value] * (count > 0)
    return calls * max(kept, travel + max(waits))


def transform_rates(machine: Machine, grid: int, word: int = WORD) -> tuple[float, float]:
    """Byte/s of transforms of contiguous and of strided lines of `grid` points: measured ones, or by efficiency."""
    device = machine.device
    if device.transforms is not None:
        return device.transforms.rates(grid)
    stream, limit = device.stream_bytes_per_second.value, device.cached_fft_bytes
    # A line that does not fit into the local memory of a multiprocessor takes two passes through memory.
    passes = 2 if limit is not None and 2 * word * grid > limit.value else 1
    return stream / passes, stream * machine.constant("strided_efficiency", "turbulence") / passes


def turbulence(
    machine: Machine, ranks: int, *, grid: int, rows: int = 1, batch: int = 1, precision: Precision = "single"
) -> Projection:
    """One time step of GESTS's Fourier pseudo-spectral DNS on `rows` x (ranks / rows) ranks; one row means slabs.

    `batch` fields are exchanged per call (Q of Eq. 9). Raises ModelError if the grid does not fit.
    """
    machine.require(ranks)
    _at_least_one(grid=grid, rows=rows, batch=batch)
    if ranks % rows:
        raise ModelError(f"{ranks} ranks cannot be divided into {rows} rows; the number of rows must divide the ranks")
    columns = ranks // rows
    if columns > grid or rows > grid:
        raise ModelError(
            f"the process grid {rows} x {columns} is too large for {grid}^3 points: at most {grid} ranks per direction"
        )
    word = WORDS[precision]
    memory = turbulence_memory_gib(grid, ranks, batch, word)
    if memory * 1024**3 > machine.device.memory_bytes.value:
        room = machine.device.memory_bytes.value / 1024**3
        raise OutOfMemoryError(
            f"{grid}^3 points on {ranks} rank{'s' * (ranks > 1)} need {memory:.4g} GiB per rank (GESTS Eq. 9), but a "
            f"device has {room:.4g} GiB: use more ranks or a smaller grid"
        )
    volume = word * grid**3 / ranks  # bytes per field and rank
    contiguous, strided = transform_rates(machine, grid, word)
    kernels = machine.device.stream_bytes_per_second.value * machine.constant("kernel_efficiency", "turbulence")
    kernels /= 1 + machine.constant("brick_overhead", "turbulence") * grid / columns / 1000
    # One rank per column still packs and copies to itself (GESTS Table 4, case 3); one row skips its exchange (4.3).
    row_calls, column_calls = ROW_CALLS if rows > 1 else 0, COLUMN_CALLS
    phases = {
        "FFT": 2 * volume * (CONTIGUOUS_LINES / contiguous + STRIDED_LINES / strided),
        "pack and unpack": 4 * volume * (row_calls + column_calls) / kernels,
        "row MPI": all_to_all_seconds(machine, ranks, rows, 1, volume * batch, row_calls / batch),
        "column MPI": all_to_all_seconds(machine, ranks, columns, rows, volume * batch, column_calls / batch),
        "other": POINTWISE * volume / kernels,
    }
    projection = Projection("turbulence", machine.title, ranks, "step", phases, precision=precision)
    return _with(projection, {"memory (GiB)": memory, "points/s": grid**3 / projection.seconds}, grid=grid)


# --- results -------------------------------------------------------------------------------------------------------

CONSTANTS_OF = {
    "poisson": ("stream_efficiency", "split_overhead", "exchange_seconds", "exchange_factor"),
    "maxwell": ("stream_efficiency", "split_overhead", "exchange_seconds", "exchange_efficiency"),
    "flow": ("stream_efficiency", "split_overhead", "exchange_seconds", "exchange_factor"),
    "turbulence": ("network_efficiency", "strided_efficiency", "kernel_efficiency", "brick_overhead"),
}


def constants_of(machine: Machine, workload: str) -> tuple[str, ...]:
    """The constants that a workload uses on a machine: those of which no rate was measured instead."""
    counted = workload in machine.traffic
    unused = {
        "stream_efficiency": workload in machine.efficiency,
        "exchange_seconds": not counted or machine.key("exchange_seconds", workload) is None,
        "exchange_factor": counted,
        "exchange_efficiency": counted,
        "split_overhead": workload == "maxwell" and not counted,
        "network_efficiency": machine.links.network.all_to_all_bytes_per_second is not None or machine.nodes.value == 1,
        "strided_efficiency": machine.device.transforms is not None,
    }
    return tuple(name for name in CONSTANTS_OF[workload] if not unused.get(name, False))


EQUATIONS = {
    "poisson": "hipBone Eqs. 3 to 5 and Fig. 2",
    "maxwell": "NekCEM Eq. 16 and n_1/2",
    "flow": "hipBone Eq. 5 per solver iteration",
    "turbulence": "GESTS Eqs. 9 and 13",
}


def results(machine: Machine, project: Callable[[Machine], Projection]) -> list[Result]:
    """The time of `project(machine)`, the times of its phases, and its figures, with their ranges.

    If the machine has constants that were not calibrated, the range spans the corners of their ranges. If published
    rows or held-out runs were projected on it, the range also holds the error that 95 % of the former or all of the
    latter stay within, more outside their sizes.
    """
    central = project(machine)
    name = central.workload
    used = constants_of(machine, name)
    inputs: dict[str, object] = {
        "machine": machine.title,
        **{k: v for k, v in central.size.items() if k != "ranks"},
        **({"elements per rank": elements_of(central.size)} if "order" in central.size else {}),
        "precision": central.precision,
        "ranks": central.ranks,
        **{c: machine.constant(c, name) for c in used},
    }
    if name in machine.efficiency:
        inputs["efficiency"] = machine.stream_efficiency(
            name, int(central.size["order"]), central.size["points per rank"], central.ranks
        )
    what = f"time per {central.unit}"
    equation = EQUATIONS[name]
    seconds = [project(m).seconds for m in _corners(machine, name, used)] + [central.seconds]
    low, high = min(seconds) / central.seconds, max(seconds) / central.seconds
    range_is = "range of the constants" if low < high else ""
    if name in machine.errors:
        accuracy = machine.errors[name]
        width = math.log1p(accuracy.value) * widening(central.size, accuracy.tested)
        low, high = low * math.exp(-width), high * math.exp(width)
        share = "95 % of " if accuracy.basis == "published rows" else "all "
        range_is = f"{share}{accuracy.basis}" + (", widened" if outside(central.size, accuracy.tested) else "")

    def one(quantity: str, value: float, unit: str, inverse: bool = False) -> Result:
        ends = (1 / high, 1 / low) if inverse else (low, high)
        return Result(METHOD, quantity, value, unit, value * ends[0], value * ends[1], inputs, equation, range_is)

    found = [one(what, central.seconds, "s")]
    found += [exact(METHOD, f"  {phase}", seconds, "s", inputs, equation) for phase, seconds in central.phases.items()]
    for quantity, value in central.figures.items():
        if "/s" in quantity:
            found.append(one(quantity, value, "", inverse=True))
        else:
            found.append(exact(METHOD, quantity, value, "", inputs, equation))
    return found


def notes(machine: Machine, workload: str, sizes: Iterable[Mapping[str, float]] = ()) -> list[str]:
    """Notes on the limits of projections of a workload with these sizes on this machine."""
    found = []
    sizes = list(sizes)
    if (efficiency := machine.efficiency.get(workload)) is not None:  # type: ignore[call-overload]
        orders = {int(size["order"]) for size in sizes} - set(efficiency.orders)
        found += [
            f"order {n} was not measured: the efficiency is that of order {efficiency.nearest(n)}"
            for n in sorted(orders)
        ]
    if workload == "turbulence" and (transforms := machine.device.transforms) is not None:
        grids = {int(size["grid"]) for size in sizes}
        found += [
            f"no measured transform has a length with the largest prime factor of {n}: lengths of other factors count"
            for n in sorted(grids)
            if not transforms.alike(n)
        ]
    missing = [n for n in constants_of(machine, workload) if machine.key(n, workload) is None]
    if missing:
        found.append(
            f"{', '.join(missing)}: not calibrated for {machine.title}, so values of other machines are used "
            "(docs/model-project.md); the range shows the resulting uncertainty"
        )
    if workload not in machine.errors:
        return [
            *found,
            f"no published rows of {workload} on {machine.title}, and no held-out runs: the error of the model is not "
            "in the range",
        ]
    accuracy = machine.errors[workload]
    for name in dict.fromkeys(name for size in sizes for name, _ in outside(size, accuracy.tested)):
        low, high = accuracy.tested[name]
        rows = f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
        found.append(f"{name}: {accuracy.basis} cover {rows}; the range widens by its width with each doubling outside")
    return found


def _corners(machine: Machine, workload: str, names: tuple[str, ...]) -> list[Machine]:
    """The machine with each constant that is not calibrated at either end of its range."""
    free = [n for n in names if machine.key(n, workload) is None]
    ends = [machine.constant_range(n, workload) for n in free]
    found = []
    for corner in itertools.product(*ends) if free else ():
        values = {f"{workload}.{n}": Share(value=v, source="range") for n, v in zip(free, corner, strict=True)}
        # A copy is not validated: a corner may hold more constants than a description is allowed to have calibrated.
        found.append(machine.model_copy(update={"constants": {**machine.constants, **values}}))
    return found


def _with(projection: Projection, figures: dict[str, float], **size: float) -> Projection:
    return replace(projection, figures=figures, size={"ranks": projection.ranks, **size})


def _of_elements(order: int, elements: int) -> dict[str, float]:
    return {"order": order, "points per rank": elements * (order + 1) ** 3}


def elements_of(size: Mapping[str, float]) -> int:
    """The elements per rank of a problem on elements."""
    return round(size["points per rank"] / (size["order"] + 1) ** 3)


def tested(sizes: Iterable[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """The smallest and largest of each size among problems."""
    found: dict[str, tuple[float, float]] = {}
    for size in sizes:
        for name, value in size.items():
            low, high = found.get(name, (value, value))
            found[name] = (min(low, value), max(high, value))
    return found


def widening(size: Mapping[str, float], tested: Mapping[str, tuple[float, float]]) -> float:
    """The factor by which a range widens outside the sizes that were tested: one more width per doubling."""
    return 1.0 + math.fsum(doublings for _, doublings in outside(size, tested))


def outside(size: Mapping[str, float], tested: Mapping[str, tuple[float, float]]) -> list[tuple[str, float]]:
    """The sizes outside those that were tested, and by how many doublings or halvings."""
    found = []
    for name, (low, high) in tested.items():
        doublings = max(math.log2(low / size[name]), math.log2(size[name] / high), 0.0)
        if doublings > 0:
            found.append((name, doublings))
    return found


def _at_least_one(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise ModelError(f"{name} is {value}, but must be at least 1")


def alltoall_bandwidth(volume: float, seconds: float) -> float:
    """GESTS Eq. 13: P2P x R / t, in byte/s per rank."""
    return volume / seconds
