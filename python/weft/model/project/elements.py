"""Projections of workloads on spectral elements: poisson, maxwell, flow."""

from __future__ import annotations

import math

from weft.model import formulas
from weft.model.machine import Machine
from weft.model.project.boxes import box_of
from weft.model.project.exchanges import (
    Path,
    Schedule,
    counted_exchange,
    crystal_seconds,
    halo_of,
    reduction_seconds,
    staging_seconds,
    transfer_seconds,
)
from weft.model.project.projection import (
    WORDS,
    OutOfMemoryError,
    Precision,
    Projection,
    at_least_one,
    of_elements,
    with_figures,
)
from weft.model.result import ModelError


def streamed(machine: Machine, bytes_: float, flops: float, kernels: float, efficiency: float) -> float:
    """Time (s) by hipBone Eq. 4, plus the launch cost alpha of its streaming model t = alpha + beta B."""
    rate = machine.device.stream_bytes_per_second.value * efficiency
    return max(bytes_ / rate, flops / machine.device.flops_per_second.value) + kernels * (
        machine.device.kernel_seconds.value
    )


# Per iteration on several ranks: pack, operator in three parts, gather, two fused updates, x (hipBone Fig. 2).
POISSON_KERNELS = 8

# Bytes per point that a solver cannot do without, in double precision: for poisson six factors, W and local results,
# 4-byte indices (hipBone Eq. 4); for maxwell fields, residuals and curls of six components, and nine metric terms.
POISSON_BYTES, MAXWELL_BYTES = 68, 216


def _fits(machine: Machine, order: int, elements: int, bytes_per_point: int) -> None:
    """Raises ModelError if the fields of this many elements per rank do not fit into the memory of a device."""
    at_least_one(order=order, elements_per_rank=elements)
    needed, room = elements * (order + 1) ** 3 * bytes_per_point, machine.device.memory_bytes.value
    if needed > room:
        most = int(room // ((order + 1) ** 3 * bytes_per_point))
        raise OutOfMemoryError(
            f"{elements:.6g} elements of order {order} per rank need at least {needed / 1024**3:.3g} GiB, but a device "
            f"has {room / 1024**3:.3g} GiB: use at most {most:,} elements per rank"
        )


def computed(machine: Machine, elements: int, word: int) -> int:
    """The elements of a rank that kernels compute: those of whole blocks, on a processor whose vectors are known."""
    block = max(1, (machine.device.vector_bytes or 0) // word)
    return -(-elements // block) * block


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
    return with_figures(
        projection, {"FOM (GFLOP/s)": fom, "FOM per rank (GFLOP/s)": fom / ranks, "DOF/s per rank": dofs},
        **of_elements(order, size.elements),
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
    size = formulas.large_mesh(order, elements, word)
    blocks = formulas.large_mesh(order, computed(machine, elements, word), word)
    moved, flops = formulas.iteration_bytes(blocks).value, formulas.iteration_flops(blocks).value
    points = elements * (order + 1) ** 3
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
    points = elements_per_rank * (order + 1) ** 3
    work = maxwell_step_flops(order, points)
    start = MAXWELL_KERNELS * machine.device.kernel_seconds.value
    efficiency = machine.stream_efficiency("maxwell", order, points, ranks)
    stream = streamed(machine, MAXWELL_STAGES * MAXWELL_WORDS * word * points, work, 0, efficiency)
    gathered = 0.0  # local gather and scatter, a part of the calibrated streaming time
    if machine.device.gather_bytes_per_second is not None:
        values = MAXWELL_STAGES * 6 * 6 * elements_per_rank * (order + 1) ** 2
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
    return with_figures(projection, figures, **of_elements(order, elements_per_rank))


# A pressure iteration in iterations of `poisson`: one of flexible CG, and a V-cycle on boxes: two local solves by fast
# diagonalisation, a residual and the coarse levels, in single precision. Weft's flow on Zen 5 takes 5 to 7.
PRESSURE_WORK, VELOCITIES = 6, 3
MOST_ITERATIONS = 1_000_000


def extrapolation_words(components: int, time_order: int) -> int:
    """Words per unknown that extrapolating a step's velocities and convective terms reads or writes.

    It reads both at every level; it writes the results over the oldest ones, and three accelerations; and it reads the
    mass and its inverse.
    """
    return (2 * time_order + 2) * components + 3 + 2


# Words per unknown that subtracting the three derivatives of the pressure from the right-hand sides reads or writes;
# the derivatives themselves take 7.
SUBTRACTION_WORDS = 9
# Vectors that a step reads or writes outside its solves' iterations (docs/flow-terms.md): extrapolation, divergence 5,
# gradient of the pressure 7 and its subtraction; the projection onto L earlier pressures 4 L + 12, where L grows from 8
# to 16, and 2 applications of the operator, which are about an iteration.
STEP_WORDS = extrapolation_words(VELOCITIES, 3) + 5 + 7 + SUBTRACTION_WORDS + 4 * 12 + 12
STEP_ITERATIONS = 1


def step_iterations(pressure: float, velocity: float) -> float:
    """The iterations of `poisson` that the solves of a step amount to.

    `pressure` and `velocity` are the mean numbers of iterations of their solves; the three velocities are solved
    together, and the first residual takes as long as an iteration.
    """
    return PRESSURE_WORK * pressure + VELOCITIES * (velocity + 1) + STEP_ITERATIONS


def step_reductions(pressure: float, velocity: float) -> float:
    """The all-reduces of a step, in those of an iteration of `poisson`.

    Multigrid makes none, and the velocities share theirs. Each solve makes some before its iterations, and the
    projection onto earlier pressures makes two.
    """
    return pressure + velocity + 3


def flow(
    machine: Machine,
    ranks: int,
    *,
    order: int = 7,
    elements_per_rank: int = 2048,
    pressure_iterations: float = 20,
    velocity_iterations: float = 4,
    path: Path = "direct",
    schedule: Schedule = "pairwise",
    precision: Precision = "double",
) -> Projection:
    """One time step of incompressible Navier-Stokes on spectral elements.

    It consists of a pressure solve with multigrid, a projection onto earlier pressures, three velocity solves and the
    advection term; the numbers of iterations are means over steps. Iterations cost multiples of hipBone's (`poisson`).
    Advection is evaluated on 3/2 as many points per direction, the usual dealiasing: three fields are interpolated,
    nine derivatives taken, and three results returned.
    """
    iterations = {"pressure iterations": pressure_iterations, "velocity iterations": velocity_iterations}
    for name, count in iterations.items():
        if not 0 <= count <= MOST_ITERATIONS:
            raise ModelError(f"{name}: {count:g}, but must be 0 to {MOST_ITERATIONS:,}")
    size, once = _iteration(machine, ranks, order, elements_per_rank, path, schedule, precision, "flow")
    elements, word = size.elements, WORDS[precision]
    n, fine = order + 1, math.ceil(1.5 * (order + 1))
    blocks = computed(machine, elements, word)
    moved = word * blocks * (6 * n**3 + 9 * fine**3)
    flops = blocks * (6 * 2 * (n**3 * fine + n**2 * fine**2 + n * fine**3) + 3 * (12 * fine**4 + 15 * fine**3) / 2)
    times = step_iterations(pressure_iterations, velocity_iterations)
    phases = {name: seconds * times for name, seconds in once.items()}
    if "reductions" in once:
        phases["reductions"] = once["reductions"] * step_reductions(pressure_iterations, velocity_iterations)
    points = elements * n**3
    efficiency = machine.stream_efficiency("flow", order, points, ranks)
    phases["advection"] = streamed(machine, moved, flops, 6, efficiency)
    phases["vectors"] = streamed(machine, word * STEP_WORDS * size.dofs, 0, 6, efficiency)
    projection = Projection("flow", machine.title, ranks, "step", phases, precision=precision)
    figures = {"points/s per rank": points / projection.seconds, **iterations}
    return with_figures(projection, figures, **of_elements(order, elements))
