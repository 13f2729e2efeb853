"""weft's workloads at any scale: computation from bytes and flops over rates, exchanges from message sizes and links.

One function a workload gives the seconds of an iteration or a step, by what they go to. Machines are described in
`weft.model.machine`; constants that no data sheet gives are few, named (`machine.CONSTANTS`) and calibrated by
`weft.model.calibration`. Eq. numbers are of the papers named beside them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from weft.model import formulas
from weft.model.machine import Machine, with_constants
from weft.model.result import ModelError, Result, exact

METHOD = "project"
Path = Literal["direct", "staged"]


@dataclass(frozen=True)
class Projection:
    """Seconds of one iteration or step of the slowest rank, by phase; `figures` hold what the paper prints of them."""

    workload: str
    machine: str
    ranks: int
    unit: str  # "iteration" or "step"
    phases: dict[str, float]
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Of all phases."""
        return math.fsum(self.phases.values())


# --- boxes of elements ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def near_cube(count: int) -> tuple[int, int, int]:
    """Three factors of `count` whose box has the smallest surface, largest first."""
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
    """A box of `elements` elements where three near factors exist, else of about so many, sides as equal as can be."""
    exact = near_cube(elements)
    if exact[0] <= 2 * exact[2]:
        return exact
    side = max(1, round(elements ** (1 / 3)))
    return (side, side, max(1, round(elements / side**2)))


@dataclass(frozen=True)
class Halo:
    """What the slowest rank of a box of ranks sends in one exchange: points and messages on its node and off it."""

    node_points: float
    node_messages: float
    network_points: float
    network_messages: float
    busiest_node_points: float  # leaving the node that sends most


def halo(
    ranks: int, box: tuple[int, int, int], order: int, ranks_per_node: int, *, corners: bool, periodic: bool
) -> Halo:
    """Neighbours of every rank of a near-cubic grid of ranks with `box` elements each, consecutive ranks on a node.

    `corners`: also edges and corners, points shared (order x elements + 1 a side), as continuous elements need; else
    faces with all their points ((order + 1) x elements a side), as discontinuous ones.
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
    # The rank whose network and node traffic together is largest: the network weighs ten times a node's link.
    worst = int(np.argmax(points[0] + 10 * points[1]))
    leaving = np.bincount(node, weights=points[1])
    return Halo(
        points[0, worst], messages[0, worst], points[1, worst], messages[1, worst], float(leaving.max(initial=0.0))
    )


def transfer_seconds(machine: Machine, sent: Halo, bytes_per_point: float, path: Path = "direct") -> float:
    """Time of an exchange: node and network messages one after another, the node's card shared by its ranks."""
    near, far = machine.link("node"), machine.link("network")
    leaving = sent.network_points * bytes_per_point / far.bytes_per_second.value
    if far.node_bytes_per_second is not None:
        shared = sent.busiest_node_points * bytes_per_point / far.node_bytes_per_second.value
        leaving = max(leaving, shared)
    seconds = near.seconds(sent.node_messages, sent.node_points * bytes_per_point)
    seconds += sent.network_messages * far.latency_seconds.value + leaving
    if path == "staged":
        # Out of the device and back in, each one copy.
        seconds += machine.link("host").seconds(2, 2 * (sent.node_points + sent.network_points) * bytes_per_point)
    return seconds


def reduction_seconds(machine: Machine, ranks: int) -> float:
    """An all-reduce of one number: recursive doubling, log2 P messages of which those inside a node are its link's."""
    if ranks == 1:
        return 0.0
    inside = min(ranks, machine.ranks_per_node)
    stages, near = math.ceil(math.log2(ranks)), math.ceil(math.log2(inside))
    network = machine.link("network").latency_seconds.value
    return near * machine.link("node").latency_seconds.value + (stages - near) * network


def streamed(machine: Machine, bytes_: float, flops: float, kernels: float) -> float:
    """hipBone Eq. 4 with the launch cost alpha of its streaming model t = alpha + beta B."""
    rate = machine.device.stream_bytes_per_second.value * machine.constant("stream_efficiency")
    return max(bytes_ / rate, flops / machine.device.flops_per_second.value) + kernels * (
        machine.device.kernel_seconds.value
    )


# --- spectral elements ---------------------------------------------------------------------------------------------

POISSON_KERNELS = 8  # an iteration on several ranks: pack, three operator parts, gather, two fused updates, x (Fig. 2)


def poisson(
    machine: Machine, ranks: int, *, order: int = 7, elements_per_rank: int = 8192, path: Path = "direct"
) -> Projection:
    """One CG iteration of hipBone's benchmark: bytes 108 N_G + 80 N_L (text before its Eq. 5), halo and gather.

    The halo and the gather move the points that ranks share, each half of them on average, and overlap two halves of
    the interior; `exchange_factor` of their time is seen all the same. The figure of merit counts Eq. 3.
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


# Words of memory a point and stage, NekCEM Eqs. 9 to 15: six fields and nine metric terms in and six derivatives out
# for the curls (21), mass and material (6 + 2), Runge-Kutta with residual and field of six components, each read and
# written (24); fluxes and their addition on the faces are part of the exchange.
MAXWELL_WORDS = 21 + 8 + 24
MAXWELL_STAGES = 5
MAXWELL_KERNELS = 215  # a step: calls in NekCEM Table 3 over 1000 steps


def maxwell_step_flops(order: int, points: int) -> float:
    """NekCEM Eq. 16: operations of a time step for `points` = E (N + 1)^3."""
    return (180 * (order + 1) + 420) * points


def maxwell(
    machine: Machine, ranks: int, *, order: int = 7, elements_per_rank: int = 512, path: Path = "direct"
) -> Projection:
    """One time step of NekCEM's scheme: five Runge-Kutta stages, each with an exchange of six fields over the faces.

    The work is Eq. 16. The start-up cost of the kernels is what makes n_1/2 (text on its Fig. 7).
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
    """One step of incompressible Navier-Stokes on spectral elements: pressure and three velocity solves, and advection.

    A solver iteration costs what hipBone's does (`poisson`). Advection is evaluated on 3/2 as many points a direction
    (the usual dealiasing): three fields interpolated, nine derivatives, three results back.
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

STAGES = 2  # Runge-Kutta, second order (GESTS section 3.1)
INVERSE, FORWARD_X, FORWARD_Y = 3, 5, 4  # fields: velocities; Rogallo's five products in x and z, four left in y
COLUMN_CALLS = STAGES * (INVERSE + FORWARD_Y)  # 14, GESTS section 4.3
ROW_CALLS = STAGES * (INVERSE + FORWARD_X)  # 16, section 5.2
CONTIGUOUS_LINES = STAGES * (INVERSE + FORWARD_X)  # transforms in x, along memory
STRIDED_LINES = STAGES * (2 * INVERSE + FORWARD_X + FORWARD_Y)  # in y and z, strided (section 2.1)
# Fields that the pointwise kernels of a stage read or write: phase shift 6, products 3 + 5, inverse shift and
# derivatives 5 + 3, projection and Runge-Kutta 8, largest velocity and truncation 5.
POINTWISE = STAGES * (6 + 8 + 8 + 8)
WORD = 4  # bytes of a real number in single precision


def turbulence_memory_gib(grid: int, ranks: int, batch: int = 1) -> float:
    """GESTS Eq. 9: GiB a rank."""
    return (8 + 2 * batch + 0.5) * grid**3 / (2 * ranks) * 8 / 1024**3


def all_to_all_seconds(
    machine: Machine, members: int, stride: int, volume: float, calls: float, efficiency: float
) -> float:
    """`calls` all-to-alls of `volume` bytes a rank each among ranks 0, stride, 2 stride …, seen from rank 0.

    Messages to each level go at that level's rate, one after another (a copy engine serves one at a time, GESTS section
    5.2); what a rank keeps is a copy in its memory. `efficiency`: of the network's rate.
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
    """One step of GESTS' Fourier pseudo-spectral DNS on `rows` x (ranks / rows) ranks; one row: a slab each.

    `batch` fields are exchanged in one call (Q of Eq. 9). Raises ModelError where the grid does not fit.
    """
    machine.require(ranks)
    _at_least_one(grid=grid, rows=rows, batch=batch)
    if ranks % rows:
        raise ModelError(f"{rows} rows of ranks: {ranks} ranks are no multiple of it")
    columns = ranks // rows
    if columns > grid or rows > grid:
        raise ModelError(f"a {rows} x {columns} grid of ranks on {grid}^3: at most {grid} ranks a direction")
    memory = turbulence_memory_gib(grid, ranks, batch)
    if memory * 1024**3 > machine.device.memory_bytes.value:
        room = machine.device.memory_bytes.value / 1024**3
        raise ModelError(f"{grid}^3 on {ranks} ranks needs {memory:.1f} GiB a rank (GESTS Eq. 9), there are {room:.1f}")
    volume = WORD * grid**3 / ranks  # bytes of a field a rank
    stream = machine.device.stream_bytes_per_second.value
    limit = machine.device.cached_fft_bytes
    # A line that does not fit beside a multiprocessor is transformed in two passes through memory.
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
    """The time of `project(machine)` and of its phases, and its figures, with their ranges.

    The range: where the workload was calibrated on published rows, the largest error on the rows that were not used;
    else the corners of the constants' ranges.
    """
    central = project(machine)
    name = central.workload
    used = CONSTANTS_OF[name]
    inputs: dict[str, Any] = {
        "machine": machine.title,
        "ranks": central.ranks,
        **{c: machine.constant(c) for c in used},
    }
    what = f"time of {'an' if central.unit == 'iteration' else 'a'} {central.unit}"
    equation = EQUATIONS[name]
    if name in machine.errors:
        error = machine.errors[name].value
        factors, range_is = (1 - error, 1 + error), "largest error on published rows not calibrated on"
    else:
        seconds = [project(m).seconds for m in _corners(machine, used)] + [central.seconds]
        factors = (min(seconds) / central.seconds, max(seconds) / central.seconds)
        # Where all constants are calibrated and nothing was left to compare with, no range is known.
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
    """What a reader must know of a projection on this machine."""
    missing = [n for n in CONSTANTS_OF[workload] if n not in machine.constants]
    if not missing:
        return []
    return [
        f"{', '.join(missing)}: not calibrated on {machine.title}, taken from other machines (docs/model-project.md); "
        "the range shows what that leaves open"
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
            raise ModelError(f"{name} is {value}: at least 1 is needed")


def alltoall_bandwidth(volume: float, seconds: float) -> float:
    """GESTS Eq. 13: P2P x R / t, bytes a second a rank."""
    return volume / seconds
