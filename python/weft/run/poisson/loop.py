"""`weft run poisson`: sets the problem up, measures the machine, solves, and counts.

The record it returns is what run.json holds: `case`, `versions`, `machine`, `choices`, `timings`, `figures`,
`residuals`, with units in the names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

import weft
from weft.cases import PoissonCase
from weft.cases.schema import settings
from weft.model import formulas
from weft.run.machine import machine, rates, versions
from weft.run.record import Display, Record, Stopwatch, breakdown, memory_bytes


def box_counts(points: int, order: int) -> tuple[int, int, int]:
    """Elements of a nearly cubic box of about `points` element-local points at an order."""
    target = max(1.0, points / (order + 1) ** 3)
    side = target ** (1 / 3)
    choices = range(max(1, math.floor(side * 0.7)), math.ceil(side * 1.4) + 1)
    boxes = ((a, b, c) for a in choices for b in choices if b <= a for c in choices if c <= b)

    def distance(box: tuple[int, int, int]) -> float:
        return abs(math.log(math.prod(box) / target)) + 0.02 * math.log(box[0] / box[2])

    return min(boxes, key=distance)


@dataclass(frozen=True)
class Box:
    """The box of a case, with what the case left open filled in."""

    counts: tuple[int, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]


def box_of(case: PoissonCase) -> Box:
    """Counts from the number of points, and elements of side 2 (the reference element), where a case says neither."""
    mesh = case.mesh
    counts = mesh.counts if mesh.counts[0] > 0 else box_counts(mesh.points, case.order)
    upper = mesh.upper if any(mesh.upper) else tuple(lo + 2 * c for lo, c in zip(mesh.lower, counts, strict=True))
    return Box(counts, mesh.lower, upper)


def make_mesh(case: PoissonCase, comm: MPI.Intracomm) -> Any:
    """The mesh a case asks for, shared out over the ranks. (collective)"""
    if case.mesh.file:
        return weft.Mesh.read(case.mesh.file, comm=comm, partitioner=case.mesh.partitioner)
    box = box_of(case)
    return weft.Mesh.box(
        box.counts,
        lower=box.lower,
        upper=box.upper,
        periodic=case.mesh.periodic,
        deformation=case.mesh.deformation,
        deformation_parameter=case.mesh.deformation_parameter or None,
        comm=comm,
    )


def manufactured(case: PoissonCase) -> tuple[Callable[..., Any], float]:
    """u(x, y, z) that satisfies the case's boundary conditions on its box, and k^2 with -Laplacian u = k^2 u."""
    factors = []
    eigenvalue = 0.0
    box = box_of(case)
    for lower, upper, periodic in zip(box.lower, box.upper, case.mesh.periodic, strict=True):
        wave = (2 if periodic else 1) * math.pi / (upper - lower)
        wave_form = np.sin if periodic or case.boundary == "dirichlet" else np.cos
        eigenvalue += wave**2
        factors.append((wave_form, wave, lower))

    def u(x: Any, y: Any, z: Any) -> Any:
        (fx, kx, ax), (fy, ky, ay), (fz, kz, az) = factors
        return fx(kx * (x - ax)) * fy(ky * (y - ay)) * fz(kz * (z - az))

    return u, eigenvalue


def right_hand_side(case: PoissonCase, operator: Any) -> Any:
    """b of the case: random, of f = 1, or of the manufactured solution. (collective)"""
    if case.rhs == "random":
        return operator.random_rhs(case.seed)
    if case.rhs == "unit":
        return operator.project(lambda x, y, z: np.ones_like(x))
    # -Laplacian u = k^2 u. The screening of Eq. 1 multiplies the identity, not a mass matrix: lambda u joins per point.
    u, eigenvalue = manufactured(case)
    b = operator.project(lambda x, y, z: eigenvalue * u(x, y, z))
    return b + case.lambda_ * operator.interpolate(u)


def solve(case: PoissonCase, operator: Any, b: Any, progress: Callable[[int, float], None], comm: MPI.Intracomm) -> Any:
    """The timed solve, after the case's warm-up. (collective)

    Progress is shown where the warm-up says that the solve takes long: calls into Python between iterations would be
    part of a short one's time.
    """
    if cycled(case):
        return solve_cycled(case, operator, b, progress)
    options = {"preconditioner": case.solver.preconditioner, "algorithm": case.solver.algorithm}
    long = case.solver.warmup == 0
    if case.solver.warmup > 0:
        result = operator.cg(b, iterations=case.solver.warmup, **options)
        long = comm.bcast(result.seconds / case.solver.warmup * iterations_at_most(case)) > 5.0
    if case.solver.tolerance > 0.0:
        goal = {"tolerance": case.solver.tolerance, "max_iterations": case.solver.max_iterations}
    else:
        goal = {"iterations": case.solver.iterations}
    return operator.cg(b, progress=progress if long else None, **goal, **options)


def cycled(case: PoissonCase) -> bool:
    """Whether the preconditioner is more than a diagonal."""
    return case.solver.preconditioner in ("chebyshev", "multigrid")


def solve_cycled(case: PoissonCase, operator: Any, b: Any, progress: Callable[[int, float], None]) -> Any:
    """The timed solve by multigrid, or by its smoother alone; the levels are made before the clock. (collective)"""
    chosen = case.solver
    orders = (case.order,) if chosen.preconditioner == "chebyshev" else tuple(chosen.levels) or None
    options = {
        "method": chosen.method,
        "restart": chosen.restart,
        "orders": orders,
        "smoother": "chebyshev-jacobi" if chosen.preconditioner == "chebyshev" else chosen.smoother,
        "degree": chosen.degree,
        "precision": chosen.cycle_precision,
    }
    if chosen.warmup > 0:
        operator.multigrid(b, tolerance=0.5, max_iterations=chosen.warmup, **options)
    return operator.multigrid(
        b, tolerance=chosen.tolerance, max_iterations=chosen.max_iterations, progress=progress, **options
    )


def progress_line(iteration: int, total: int, residual: float) -> str:
    """Where a solve is."""
    return f"iteration {iteration} of at most {total}, |r| = {residual:.3e}"


def iterations_at_most(case: PoissonCase) -> int:
    """How many iterations a case may take."""
    return case.solver.max_iterations if case.solver.tolerance > 0.0 else case.solver.iterations


def run(case: PoissonCase, comm: MPI.Intracomm, display: Display) -> tuple[Record, Any, Any]:
    """Runs a case on all ranks of `comm` (collective): its record, the same on every rank, the operator, the result.

    The record's `figures["converged"]` is False where a solve did not reach its tolerance, and null for the benchmark.
    """
    clock = Stopwatch(comm)
    with clock("mesh_seconds"):
        display.phase("mesh: reading and sharing out" if case.mesh.file else "mesh: generating")
        mesh = make_mesh(case, comm)
    with clock("operator_seconds"):
        display.phase("operator: numbering, exchange pattern, geometric factors")
        operator = weft.Poisson(mesh, dirichlet=case.boundary == "dirichlet", **settings(case))
    with clock("right_hand_side_seconds"):
        b = right_hand_side(case, operator)
    record: Record = {
        "case": case.model_dump(by_alias=True),
        "versions": versions(),
        "machine": machine(operator.device, comm),
        "choices": operator.choices,
        "timings": clock.seconds,
        "figures": sizes(mesh, operator, case),
        "residuals": [],
    }
    display.header(record)
    display.phase("machine: measuring bandwidth and peak")
    with clock("machine_seconds"):
        record["figures"].update(rates(operator.device, case.precision, comm))
    display.phase("solving")
    result = solve(case, operator, b, display.progress(iterations_at_most(case), progress_line), comm)
    finish(record, case, operator, result, comm)
    if case.rhs == "manufactured":
        record["figures"]["l2_error"] = operator.error(result.x, manufactured(case)[0])
    display.result(record)
    return record, operator, result


def sizes(mesh: Any, operator: Any, case: PoissonCase) -> Record:
    """What the problem counts."""
    return {
        "mesh": mesh.source,
        "straight": bool(mesh.straight),
        "elements": int(operator.elements),
        "order": case.order,
        "dofs": int(operator.dofs),
        "points": int(operator.points),
        "ranks": int(operator.ranks),
    }


def finish(record: Record, case: PoissonCase, operator: Any, result: Any, comm: MPI.Intracomm) -> None:
    """Adds what the solve took and what follows from it."""
    seconds = comm.allreduce(float(result.seconds), MPI.MAX)
    iterations = int(result.iterations)
    record["timings"].update(
        solve_seconds=seconds,
        seconds_per_iteration=seconds / max(1, iterations),
        breakdown=breakdown(result.breakdown, comm),
    )
    record["residuals"] = [float(r) for r in result.residuals]
    figures = record["figures"]
    figures["iterations"] = iterations
    figures["converged"] = bool(result.converged) if case.solver.tolerance > 0.0 else None
    figures["dofs_per_second"] = figures["dofs"] / seconds if seconds > 0.0 else None
    record["choices"]["algorithm"] = result.algorithm
    figures["memory_bytes"] = memory_bytes(operator.memory_bytes, comm)
    figures["memory_bytes_per_point"] = sum(figures["memory_bytes"].values()) / figures["points"]
    if cycled(case):  # NekBone's count is of an iteration without a cycle
        figures["formulas"] = {"dofs_per_second": "N_G / time to solution"}
        return
    size = formulas.Size(figures["elements"], case.order, figures["dofs"], 4 if case.precision == "single" else 8)
    method = formulas.Method(
        storage=operator.storage,
        geometry=operator.geometry,
        kernels=operator.kernels,
        algorithm=result.algorithm,
        preconditioner=case.solver.preconditioner,
        ranks=comm.size,
        masked=bool(operator.dirichlet),
    )
    figures.update(performance(size, method, figures, iterations, seconds))


def performance(
    size: formulas.Size, method: formulas.Method, measured: Record, iterations: int, seconds: float
) -> Record:
    """The figures of merit of `iterations` in `seconds`, each with the formula it follows from."""
    per_iteration = seconds / max(1, iterations)
    fom = formulas.fom_flops(size)
    paper_bytes, paper_flops = formulas.iteration_bytes(size), formulas.iteration_flops(size)
    ours_bytes = formulas.weft_iteration_bytes(size, method)
    bandwidth, peak = measured["bandwidth_bytes_per_second"], measured["peak_flops_per_second"]

    def fraction(moved: formulas.Formula) -> float:
        return max(moved.value / bandwidth, paper_flops.value / peak) / per_iteration

    return {
        "fom_gflops": fom.value / per_iteration / 1e9,
        "throughput_dofs_per_second_per_rank": formulas.throughput(size.dofs, iterations, measured["ranks"], seconds),
        "iteration_flops": paper_flops.value,
        "iteration_bytes_paper": paper_bytes.value,
        "iteration_bytes": ours_bytes.value,
        "achieved_bytes_per_second": ours_bytes.value / per_iteration,
        "roofline_fraction_paper": fraction(paper_bytes),
        "roofline_fraction": fraction(ours_bytes),
        "formulas": {
            "fom_gflops": f"({fom.text}) x iterations / time; {fom.source}",
            "throughput_dofs_per_second_per_rank": "N_G x iterations / (ranks x time); hipBone Eq. 6",
            "iteration_flops": f"{paper_flops.text}; {paper_flops.source}",
            "iteration_bytes_paper": f"{paper_bytes.text}; {paper_bytes.source}",
            "iteration_bytes": f"{ours_bytes.text}; {ours_bytes.source}",
            "roofline_fraction": "max(bytes / bandwidth, flops / peak) / time of an iteration",
        },
    }
