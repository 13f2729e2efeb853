"""Projection of weft's workloads to any scale: computation from bytes, operations and rates; exchanges from messages.

One function per workload returns the time of an iteration or a time step, by phase. Machines are described in
`weft.model.machine`. The few constants that no data sheet gives are listed in `machine.CONSTANTS` and calibrated by
`weft.model.calibration`. Equation numbers are followed by the paper they refer to.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np

from weft.model import formulas
from weft.model.machine import Machine, with_constants
from weft.model.result import ModelError, Result, exact

METHOD = "project"
Path = Literal["direct", "staged"]


@dataclass(frozen=True)
class Projection:
    """Time (s) of one iteration or step on the slowest rank, by phase, and the `figures` that the papers report."""

    workload: str
    machine: str
    ranks: int
    unit: str  # "iteration" or "step"
    phases: dict[str, float]
    figures: dict[str, float] = field(default_factory=dict)

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


def halo(
    ranks: int, box: tuple[int, int, int], order: int, ranks_per_node: int, *, corners: bool, periodic: bool
) -> Halo:
    """The halo of a nearly cubic grid of ranks with `box` elements each, in which consecutive ranks share a node.

    With `corners`, as for continuous elements, ranks exchange shared points on faces, edges and corners (order x
    elements + 1 points per direction). Without, as for discontinuous elements, they exchange all points of faces
    ((order + 1) x elements points per direction).
    """
    grid = np.array(near_cube(ranks))
    place = np.stack(np.unravel_index(np.arange(ranks), tuple(grid)), axis=1)
    side = np.array(box) * order + 1 if corners else np.array(box) * (order + 1)
    points = np.zeros((2, ranks))
    messages = np.zeros((2, ranks))
    node = np.arange(ranks) // ranks_per_node
    for direction in itertools.product((-1, 0, 1), repeat=3):
        d = np.array(direction)
        if not d.any() or (not corners and np.abs(d).sum() > 1):
            continue
        there = place + d
        inside = ((there >= 0) & (there < grid)).all(axis=1)
        if periodic:
            there, inside = there % grid, ((there % grid) != place).any(axis=1)
        other = np.ravel_multi_index(tuple(np.clip(there, 0, grid - 1).T), tuple(grid))
        size = float(np.prod(np.where(d == 0, side, 1)))
        for level, here in enumerate((inside & (node[other] == node), inside & (node[other] != node))):
            points[level] += size * here
            messages[level] += here
    # The rank with the most traffic, where network traffic counts ten times as much as traffic inside the node.
    worst = int(np.argmax(points[0] + 10 * points[1]))
    leaving = np.bincount(node, weights=points[1])
    return Halo(
        points[0, worst], messages[0, worst], points[1, worst], messages[1, worst], float(leaving.max(initial=0.0))
    )


def transfer_seconds(machine: Machine, sent: Halo, bytes_per_point: float, path: Path = "direct") -> float:
    """Time (s) of an exchange: messages inside the node, then network messages, with the network card shared."""
    near, far = machine.link("node"), machine.link("network")
    leaving = sent.network_points * bytes_per_point / far.bytes_per_second.value
    if far.node_bytes_per_second is not None:
        shared = sent.busiest_node_points * bytes_per_point / far.node_bytes_per_second.value
        leaving = max(leaving, shared)
    seconds = near.seconds(sent.node_messages, sent.node_points * bytes_per_point)
    seconds += sent.network_messages * far.latency_seconds.value + leaving
    if path == "staged":
        # One copy out of the device and one back into it.
        seconds += machine.link("host").seconds(2, 2 * (sent.node_points + sent.network_points) * bytes_per_point)
    return seconds


def reduction_seconds(machine: Machine, ranks: int) -> float:
    """Time (s) of an all-reduce of one number by recursive doubling: log2 P messages, the first inside the node."""
    if ranks == 1:
        return 0.0
    inside = min(ranks, machine.ranks_per_node)
    stages, near = math.ceil(math.log2(ranks)), math.ceil(math.log2(inside))
    network = machine.link("network").latency_seconds.value
    return near * machine.link("node").latency_seconds.value + (stages - near) * network


def streamed(machine: Machine, bytes_: float, flops: float, kernels: float) -> float:
    """Time (s) by hipBone Eq. 4, plus the launch cost alpha of its streaming model t = alpha + beta B."""
    rate = machine.device.stream_bytes_per_second.value * machine.constant("stream_efficiency")
    return max(bytes_ / rate, flops / machine.device.flops_per_second.value) + kernels * (
        machine.device.kernel_seconds.value
    )


# --- spectral elements ---------------------------------------------------------------------------------------------

# Per iteration on several ranks: pack, operator in three parts, gather, two fused updates, x (hipBone Fig. 2).
POISSON_KERNELS = 8


def poisson(
    machine: Machine, ranks: int, *, order: int = 7, elements_per_rank: int = 8192, path: Path = "direct"
) -> Projection:
    """One CG iteration of hipBone's benchmark: 108 N_G + 80 N_L bytes (text before its Eq. 5), halo and gather.

    The halo exchange and the gather each move half of the shared points on average, and overlap with two halves of the
    interior. The share `exchange_factor` of their time remains visible. The figure of merit counts the operations of
    Eq. 3.
    """
    machine.require(ranks)
    _at_least_one(order=order, elements_per_rank=elements_per_rank)
    box = box_of(elements_per_rank)
    size = formulas.large_mesh(order, math.prod(box))
    moved, flops = formulas.iteration_bytes(size).value, formulas.iteration_flops(size).value
    local = streamed(machine, moved, flops, POISSON_KERNELS - (4 if ranks == 1 else 0))
    phases = {"stream": local}
    if ranks > 1:
        phases["split"] = local * machine.constant("split_overhead")
        sent = halo(ranks, box, order, machine.ranks_per_node, corners=True, periodic=False)
        both = 2 * transfer_seconds(machine, sent, 8 / 2, path)
        seen = machine.constant("exchange_factor") * both
        phases["exchange"] = seen + max(0.0, both - seen - local)
        phases["reductions"] = 2 * reduction_seconds(machine, ranks)
    projection = Projection("poisson", machine.title, ranks, "iteration", phases)
    fom = formulas.fom_flops(size).value * ranks / projection.seconds / 1e9
    dofs = size.dofs / projection.seconds
    return _with(projection, {"FOM (GFLOP/s)": fom, "FOM per rank (GFLOP/s)": fom / ranks, "DOF/s per rank": dofs})


# Memory words per point and stage, from NekCEM Eqs. 9 to 15. Curls: six fields and nine metric terms read, six
# derivatives written (21). Mass and material: 6 + 2. Runge-Kutta: residual and field of six components, each read and
# written (24). Fluxes and their addition on the faces are part of the exchange.
MAXWELL_WORDS = 21 + 8 + 24
MAXWELL_STAGES = 5
MAXWELL_KERNELS = 215  # per step: calls in NekCEM Table 3, divided by its 1000 steps


def maxwell_step_flops(order: int, points: int) -> float:
    """NekCEM Eq. 16: operations per time step for `points` = E (N + 1)^3."""
    return (180 * (order + 1) + 420) * points


def maxwell(
    machine: Machine, ranks: int, *, order: int = 7, elements_per_rank: int = 512, path: Path = "direct"
) -> Projection:
    """One time step of NekCEM's scheme: five Runge-Kutta stages, each with an exchange of six fields over the faces.

    The operations are those of Eq. 16. The launch cost of the kernels determines n_1/2 (text on its Fig. 7).
    """
    machine.require(ranks)
    _at_least_one(order=order, elements_per_rank=elements_per_rank)
    box = box_of(elements_per_rank)
    points = math.prod(box) * (order + 1) ** 3
    work = maxwell_step_flops(order, points)
    start = MAXWELL_KERNELS * machine.device.kernel_seconds.value
    phases = {
        "stream": streamed(machine, MAXWELL_STAGES * MAXWELL_WORDS * 8 * points, work, 0),
        "launches": start,
    }
    if ranks > 1:
        sent = halo(ranks, box, order, machine.ranks_per_node, corners=False, periodic=True)
        once = transfer_seconds(machine, sent, 6 * 8) / machine.constant("exchange_efficiency")
        if path == "staged":
            extra = 2 * (sent.node_points + sent.network_points) * 6 * 8
            once += machine.link("host").seconds(2, extra)
        phases["exchange"] = MAXWELL_STAGES * once
    projection = Projection("maxwell", machine.title, ranks, "step", phases)
    rate = phases["stream"] / points
    return _with(projection, {"GFLOP/s per rank": work / projection.seconds / 1e9, "n_1/2 (points)": start / rate})


def flow(
    machine: Machine,
    ranks: int,
    *,
    order: int = 7,
    elements_per_rank: int = 2048,
    pressure_iterations: int = 20,
    velocity_iterations: int = 4,
    path: Path = "direct",
) -> Projection:
    """One time step of incompressible Navier-Stokes on spectral elements.

    It consists of a pressure solve, three velocity solves and the advection term. A solver iteration costs as much as
    hipBone's (`poisson`). Advection is evaluated on 3/2 as many points per direction, the usual dealiasing: three
    fields are interpolated, nine derivatives taken, and three results returned.
    """
    machine.require(ranks)
    _at_least_one(pressure_iterations=pressure_iterations, velocity_iterations=velocity_iterations)
    once = poisson(machine, ranks, order=order, elements_per_rank=elements_per_rank, path=path)
    elements = math.prod(box_of(elements_per_rank))
    n, fine = order + 1, math.ceil(1.5 * (order + 1))
    moved = 8 * elements * (6 * n**3 + 9 * fine**3)
    flops = elements * (6 * 2 * (n**3 * fine + n**2 * fine**2 + n * fine**3) + 3 * (12 * fine**4 + 15 * fine**3) / 2)
    iterations = pressure_iterations + 3 * velocity_iterations
    phases = {name: seconds * iterations for name, seconds in once.phases.items()}
    phases["advection"] = streamed(machine, moved, flops, 6)
    projection = Projection("flow", machine.title, ranks, "step", phases)
    points = elements * n**3
    return _with(projection, {"points/s per rank": points / projection.seconds})


# --- turbulence ----------------------------------------------------------------------------------------------------

STAGES = 2  # second-order Runge-Kutta (GESTS section 3.1)
INVERSE, FORWARD_X, FORWARD_Y = 3, 5, 4  # fields: velocities; Rogallo's five products in x and z, of which four in y
COLUMN_CALLS = STAGES * (INVERSE + FORWARD_Y)  # 14, GESTS section 4.3
ROW_CALLS = STAGES * (INVERSE + FORWARD_X)  # 16, section 5.2
CONTIGUOUS_LINES = STAGES * (INVERSE + FORWARD_X)  # transforms in x, contiguous in memory
STRIDED_LINES = STAGES * (2 * INVERSE + FORWARD_X + FORWARD_Y)  # transforms in y and z, strided (section 2.1)
# Fields that the pointwise kernels of a stage read or write: 6 for the phase shift, 3 + 5 for products, 5 + 3 for the
# inverse shift and derivatives, and 8 for projection and Runge-Kutta.
POINTWISE = STAGES * (6 + 8 + 8 + 8)
WORD = 4  # bytes per real number in single precision


def turbulence_memory_gib(grid: int, ranks: int, batch: int = 1) -> float:
    """GESTS Eq. 9: memory per rank in GiB."""
    return (8 + 2 * batch + 0.5) * grid**3 / (2 * ranks) * 8 / 1024**3


def all_to_all_seconds(
    machine: Machine, members: int, stride: int, volume: float, calls: float, efficiency: float
) -> float:
    """Time (s) of `calls` all-to-alls among the ranks 0, stride, 2 stride, …, each with `volume` bytes per rank.

    Messages to each level take that level's rate, one after another, because a copy engine serves one message at a time
    (GESTS section 5.2). What a rank keeps is a copy in its memory. `efficiency` is the share of the network's rate that
    is reached.
    """
    others = np.arange(1, members, dtype=np.int64) * stride
    package = int((others < machine.ranks_per_package).sum())
    node = int((others < machine.ranks_per_node).sum()) - package
    far = members - 1 - package - node
    message = volume / members
    network = machine.link("network")
    rate = network.bytes_per_second.value * efficiency
    seconds = package * message / machine.link("device").bytes_per_second.value
    seconds += node * message / machine.link("node").bytes_per_second.value
    seconds += far * message / rate
    latency = network.latency_seconds.value if far else machine.link("node").latency_seconds.value
    return calls * (seconds + latency * math.ceil(math.log2(members)) if members > 1 else 0.0)


def turbulence(
    machine: Machine, ranks: int, *, grid: int, rows: int = 1, batch: int = 1, slabs: bool = False
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
    memory = turbulence_memory_gib(grid, ranks, batch)
    if memory * 1024**3 > machine.device.memory_bytes.value:
        room = machine.device.memory_bytes.value / 1024**3
        raise ModelError(
            f"{grid}^3 points on {ranks} ranks need {memory:.1f} GiB per rank (GESTS Eq. 9), but a device has "
            f"{room:.1f} GiB: use more ranks or a smaller grid"
        )
    volume = WORD * grid**3 / ranks  # bytes per field and rank
    stream = machine.device.stream_bytes_per_second.value
    limit = machine.device.cached_fft_bytes
    # A line that does not fit into the shared memory of a multiprocessor takes two passes through memory.
    passes = 2 if limit is not None and 2 * WORD * grid > limit.value else 1
    strided = stream * machine.constant("strided_efficiency")
    kernels = stream * machine.constant("kernel_efficiency")
    network = machine.constant("network_efficiency")
    row_calls = ROW_CALLS if rows > 1 else 0
    column_calls = COLUMN_CALLS if columns > 1 else 0
    phases = {
        "FFT": 2 * volume * passes * (CONTIGUOUS_LINES / stream + STRIDED_LINES / strided),
        "pack and unpack": 4 * volume * (row_calls + column_calls) / kernels,
        "row MPI": all_to_all_seconds(machine, rows, 1, volume * batch, row_calls / batch, network),
        "column MPI": all_to_all_seconds(machine, columns, rows, volume * batch, column_calls / batch, network),
        "other": POINTWISE * volume / kernels,
    }
    projection = Projection("turbulence", machine.title, ranks, "step", phases)
    return _with(projection, {"memory (GiB)": memory, "points/s": grid**3 / projection.seconds})


# --- results -------------------------------------------------------------------------------------------------------

CONSTANTS_OF = {
    "poisson": ("stream_efficiency", "split_overhead", "exchange_factor"),
    "maxwell": ("stream_efficiency", "exchange_efficiency"),
    "flow": ("stream_efficiency", "split_overhead", "exchange_factor"),
    "turbulence": ("network_efficiency", "strided_efficiency", "kernel_efficiency"),
}
EQUATIONS = {
    "poisson": "hipBone Eqs. 3 to 5 and Fig. 2",
    "maxwell": "NekCEM Eq. 16 and n_1/2",
    "flow": "hipBone Eq. 5 per solver iteration",
    "turbulence": "GESTS Eqs. 9 and 13",
}


def results(machine: Machine, project: Callable[[Machine], Projection]) -> list[Result]:
    """The time of `project(machine)`, the times of its phases, and its figures, with their ranges.

    If the machine was calibrated on published rows, the range is the largest error on the other rows. Otherwise, it
    spans the corners of the constants' ranges.
    """
    central = project(machine)
    name = central.workload
    used = CONSTANTS_OF[name]
    inputs: dict[str, object] = {
        "machine": machine.title,
        "ranks": central.ranks,
        **{c: machine.constant(c) for c in used},
    }
    what = f"time per {central.unit}"
    equation = EQUATIONS[name]
    if name in machine.errors:
        error = machine.errors[name].value
        factors, range_is = (1 - error, 1 + error), "largest error on published rows not used for calibration"
    else:
        seconds = [project(m).seconds for m in _corners(machine, used)] + [central.seconds]
        factors = (min(seconds) / central.seconds, max(seconds) / central.seconds)
        # If all constants are calibrated and no rows are left to compare with, the range is unknown.
        range_is = "range of the constants" if factors[0] < factors[1] else ""

    def one(quantity: str, value: float, unit: str, inverse: bool = False) -> Result:
        low, high = (1 / factors[1], 1 / factors[0]) if inverse else factors
        return Result(METHOD, quantity, value, unit, value * low, value * high, inputs, equation, range_is)

    found = [one(what, central.seconds, "s")]
    found += [exact(METHOD, f"  {phase}", seconds, "s", inputs, equation) for phase, seconds in central.phases.items()]
    for quantity, value in central.figures.items():
        if "/s" in quantity:
            found.append(one(quantity, value, "", inverse=True))
        else:
            found.append(exact(METHOD, quantity, value, "", inputs, equation))
    return found


def notes(machine: Machine, workload: str) -> list[str]:
    """Notes on the limits of a projection on this machine."""
    missing = [n for n in CONSTANTS_OF[workload] if n not in machine.constants]
    if not missing:
        return []
    return [
        f"{', '.join(missing)}: not calibrated for {machine.title}, so values of other machines are used "
        "(docs/model-project.md); the range shows the resulting uncertainty"
    ]


def _corners(machine: Machine, names: tuple[str, ...]) -> list[Machine]:
    """The machine with each of these constants at either end of its range."""
    ends = [machine.constant_range(n) for n in names]
    return [with_constants(machine, dict(zip(names, c, strict=True)), "range") for c in itertools.product(*ends)]


def _with(projection: Projection, figures: dict[str, float]) -> Projection:
    return Projection(
        projection.workload, projection.machine, projection.ranks, projection.unit, projection.phases, figures
    )


def _at_least_one(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise ModelError(f"{name} is {value}, but must be at least 1")


def alltoall_bandwidth(volume: float, seconds: float) -> float:
    """GESTS Eq. 13: P2P x R / t, in byte/s per rank."""
    return volume / seconds
