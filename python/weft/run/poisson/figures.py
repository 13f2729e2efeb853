"""The figures of a `weft run poisson`: sizes, times, and the figures of merit derived from them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mpi4py import MPI

from weft.cases.poisson import PoissonCase
from weft.model import formulas
from weft.model.limits import by_instructions, limits
from weft.record import Figures, Limit, Record, Timings
from weft.run.poisson.problem import cycled
from weft.run.record import breakdown, memory_bytes

if TYPE_CHECKING:
    from weft.mesh import Mesh
    from weft.poisson import CgResult, Poisson


def sizes(mesh: Mesh, operator: Poisson, case: PoissonCase) -> Figures:
    """The sizes of the problem."""
    return {
        "mesh": mesh.source,
        "straight": bool(mesh.straight),
        "elements": int(operator.elements),
        "order": case.order,
        "dofs": int(operator.dofs),
        "points": int(operator.points),
        "ranks": int(operator.ranks),
    }


def finish(record: Record, case: PoissonCase, operator: Poisson, result: CgResult, comm: MPI.Intracomm) -> None:
    """Adds the timings of the solve, and the figures derived from them."""
    seconds = comm.allreduce(float(result.seconds), MPI.MAX)
    iterations = int(result.iterations)
    record["timings"].update(
        Timings(
            solve_seconds=seconds,
            seconds_per_iteration=seconds / max(1, iterations),
            breakdown=breakdown(result.breakdown, comm),
        )
    )
    record["residuals"] = [float(r) for r in result.residuals]
    figures = record["figures"]
    figures["iterations"] = iterations
    figures["converged"] = bool(result.converged) if case.solver.tolerance > 0.0 else None
    if case.solver.tolerance > 0.0:
        figures["true_residual"] = None if math.isnan(result.true_residual) else result.true_residual
    figures["dofs_per_second"] = figures["dofs"] / seconds if seconds > 0.0 else None
    record["choices"]["algorithm"] = result.algorithm
    figures["elements_by_shape"] = dict(operator.elements_by_shape)
    figures["boxes"] = operator.boxes
    figures["memory_bytes"] = memory_bytes(operator.memory_bytes, comm)
    figures["memory_bytes_per_point"] = sum(figures["memory_bytes"].values()) / figures["points"]
    if cycled(case):  # Nekbone counts the flops of an iteration without a multigrid cycle
        figures["formulas"] = {"dofs_per_second": "N_G / time to solution"}
        return
    size = formulas.Size(figures["elements"], case.order, figures["dofs"], 4 if case.precision == "single" else 8)
    method = formulas.Method(
        storage=operator.storage,
        geometry=operator.geometry,
        stored_elements=operator.elements_by_shape["stored"],
        parallelepipeds=operator.elements_by_shape["parallelepiped"],
        boxes=operator.boxes,
        kernels=operator.kernels,
        algorithm=result.algorithm,
        preconditioner=case.solver.preconditioner,
        ranks=comm.size,
        masked=bool(operator.dirichlet),
        screened=operator.screening is not None,
    )
    counted = None
    if result.algorithm == "merged":
        access = operator.choices.get("access", "").partition(":")[0]
        peak = figures["peak_flops_per_second"]
        counted = by_instructions(size, method, "merged", access, operator.device.architecture, peak)
    figures.update(performance(size, method, figures, iterations, seconds, counted))


def performance(
    size: formulas.Size,
    method: formulas.Method,
    measured: Figures,
    iterations: int,
    seconds: float,
    counted: Limit | None = None,
) -> Figures:
    """The figures of merit of `iterations` in `seconds`, each with the formula it follows from.

    `counted`: the limit by instructions, if there is one.
    """
    per_iteration = seconds / max(1, iterations)
    fom = formulas.fom_flops(size)
    paper_bytes, paper_flops = formulas.iteration_bytes(size), formulas.iteration_flops(size)
    ours_bytes = formulas.weft_iteration_bytes(size, method)
    ours_flops = formulas.weft_iteration_flops(size, method)
    bandwidth, peak = measured["bandwidth_bytes_per_second"], measured["peak_flops_per_second"]
    found = limits(per_iteration, ours_bytes.value, bandwidth, ours_flops.value, peak, counted)
    paper = limits(per_iteration, paper_bytes.value, bandwidth, paper_flops.value, peak)
    return {
        "fom_gflops": fom.value / per_iteration / 1e9,
        "throughput_dofs_per_second_per_rank": formulas.throughput(size.dofs, iterations, measured["ranks"], seconds),
        "iteration_flops": paper_flops.value,
        "iteration_bytes_paper": paper_bytes.value,
        "iteration_bytes": ours_bytes.value,
        "achieved_bytes_per_second": ours_bytes.value / per_iteration,
        "limits": found,
        "roofline_fraction_paper": paper[0]["share"],
        "roofline_fraction": max(limit["share"] for limit in found if limit["name"] != "instructions"),
        "formulas": {
            "fom_gflops": f"({fom.text}) x iterations / time; {fom.source}",
            "throughput_dofs_per_second_per_rank": "N_G x iterations / (ranks x time); hipBone Eq. 6",
            "iteration_flops": f"{paper_flops.text}; {paper_flops.source}",
            "iteration_bytes_paper": f"{paper_bytes.text}; {paper_bytes.source}",
            "iteration_bytes": f"{ours_bytes.text}; {ours_bytes.source}",
            "limits": f"least time / time per iteration; flops: {ours_flops.text}; {ours_flops.source}",
            "roofline_fraction": "max(bytes / bandwidth, flops / peak) / time per iteration",
        },
    }
