"""The figures of a `weft run maxwell`: choices, sizes, times, and the figures derived from them."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from weft.model import maxwell_formulas as formulas
from weft.model.limits import limits
from weft.record import Choices, Figures, Record
from weft.run.maxwell.exact import not_exact
from weft.run.maxwell.problem import Problem
from weft.run.record import memory_bytes
from weft.solver_on_elements import Checkpoint


def choices(problem: Problem) -> Choices:
    """The choices made, and why."""
    solver = problem.solver
    asked = problem.case.kernels != "auto"
    return {
        "flux": problem.case.flux,
        "integrator": problem.case.time.integrator,
        "kernels": f"{solver.kernels}: {'requested' if asked else 'the faster ones on this device'}",
        "exchange": solver.tuning,
    }


def sizes(problem: Problem, began: Checkpoint | None) -> Figures:
    """The sizes of the problem, and the time step."""
    solver, mesh, case, comm = problem.solver, problem.mesh, problem.case, problem.comm
    count = np.bincount(problem.regions, minlength=len(problem.materials)).astype(np.int64)
    count = np.asarray(comm.allreduce(count, MPI.SUM))
    return {
        "mesh": mesh.source,
        "straight": bool(mesh.straight),
        "elements": solver.elements,
        "order": case.order,
        "points": solver.points,
        "ranks": comm.size,
        "elements_by_material": {n: int(c) for n, c in zip(problem.materials, count, strict=True) if c},
        "boundaries": problem.conditions,
        "time_step": problem.dt,
        "time_step_limit": solver.dt_limit,
        "courant": problem.dt / solver.dt_limit,
        "steps": problem.steps,
        "began_from": began.path if began else None,
    }


def finish(problem: Problem, record: Record, per_step: float) -> None:
    """Adds the figures derived from the time per step. (collective)"""
    figures, case, solver = record["figures"], problem.case, problem.solver
    applications = problem.applications / figures["steps_done"]
    work = formulas.step_flops(case.order, solver.points, applications)
    # The solver counts applications of the operator; the exponential integrator's other work is not included.
    counted = {name: value * applications / formulas.STAGES for name, value in solver.figures.items()}
    figures["memory_bytes"] = memory_bytes(solver.memory_bytes, problem.comm)
    bandwidth, peak = figures["bandwidth_bytes_per_second"], figures["peak_flops_per_second"]
    found = limits(per_step, counted["bytes"], bandwidth, counted["flops"], peak)
    energy = figures["energy_to_solution"]["joules"]
    figures.update(
        Figures(
            memory_bytes_per_point=sum(figures["memory_bytes"].values()) / solver.points,
            applications_per_step=applications,
            step_flops=work.value,
            gflops=work.value / per_step / 1e9,
            seconds_per_step_and_point=per_step / solver.points,
            points_per_second_per_rank=solver.points / per_step / problem.comm.size,
            step_flops_done=counted["flops"],
            step_bytes=counted["bytes"],
            step_bytes_sent=counted["bytes_sent"],
            step_messages=counted["messages"],
            achieved_bytes_per_second=counted["bytes"] / per_step,
            limits=found,
            roofline_fraction=found[0]["share"],
            joules_per_step=None if energy is None else energy / figures["steps_done"],
            formulas={
                "gflops": f"{work.text} / time of a step; {work.source}",
                "seconds_per_step_and_point": "time per step / n, n = E (N+1)^3 points of all ranks",
                "roofline_fraction": "max(bytes / bandwidth, flops / peak) / time per step; docs/maxwell.md",
            },
        )
    )


def compare(problem: Problem, record: Record) -> None:
    """The final error, or the reason why it is not known."""
    figures = record["figures"]
    if "error" in record["statistics"]:
        found = record["statistics"]["error"]
        figures["energy_norm_error"], figures["relative_error"] = found["energy_norm"][-1], found["relative"][-1]
    elif problem.solution is not None:
        figures["no_error_because"] = not_exact(problem.case, problem.conditions)
