"""The figures of a `weft run flow`: sizes, memory, iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from mpi4py import MPI

from weft.flow import StepFigures
from weft.model import flow_formulas, formulas
from weft.model.limits import limits
from weft.record import Figures, Iterations, Record
from weft.run.flow.problem import Problem
from weft.run.machine import rates_beside
from weft.run.record import memory_bytes
from weft.solver_on_elements import Checkpoint

SOLVES = ("pressure", "velocity", "scalar")


def iterations(figures: StepFigures) -> dict[str, int]:
    """Iterations of the last step's solves; for components solved together, those of the slowest."""
    found = {"pressure_iterations": figures["pressure_iterations"]}
    for name, counts in (("velocity", figures["velocity_iterations"]), ("scalar", figures["scalar_iterations"])):
        if counts:
            found[f"{name}_iterations"] = max(counts)
    return found


def summary(steps: Sequence[Mapping[str, float]]) -> dict[str, Iterations]:
    """Mean and maximum iterations of each solve over the steps."""
    found: dict[str, Iterations] = {}
    for name in SOLVES:
        counts = [s[f"{name}_iterations"] for s in steps if f"{name}_iterations" in s]
        if counts:
            found[name] = {"mean": float(np.mean(counts)), "largest": int(max(counts))}
    return found


def sizes(problem: Problem, began: Checkpoint | None) -> Figures:
    """The sizes of the problem, and its memory. (collective)"""
    solver, mesh, case, comm = problem.solver, problem.mesh, problem.case, problem.comm
    return {
        "mesh": mesh.source,
        "straight": bool(mesh.straight),
        "elements": solver.elements,
        "order": case.order,
        "points": solver.points,
        "fields": 4 + len(case.scalars),
        "ranks": comm.size,
        "viscosity": solver.viscosity,
        "longest_time_step": case.time.dt or problem.longest_dt,
        "boundaries": {name: given.condition for name, given in problem.boundaries.items()},
        "pressure_singular": solver.pressure_singular,
        **memory(problem),
        "began_from": began.path if began else None,
        "formulas": {
            "memory_words_per_point": "bytes of all ranks / (bytes of a number x n), n = E (N+1)^3",
            "points_per_second": "n / median seconds per step (unrecorded steps, slowest rank)",
            "exchange_share": "time of messages, packing and copies / time of the recorded steps, mean over ranks",
            "communication_share": "time of MPI and copies / time of the recorded steps, mean over ranks",
        },
    }


def memory(problem: Problem) -> Figures:
    """Bytes currently held on all ranks, by owner. Statistics and averages allocate on first use.

    (collective)
    """
    solver = problem.solver
    held = memory_bytes(solver.memory_bytes, problem.comm)
    word = 4 if problem.case.precision == "single" else 8
    whole = sum(held.values())
    return {"memory_bytes": held, "memory": whole, "memory_words_per_point": whole / word / solver.points}


TERMS = {"overintegrated": "convect", "skew-symmetric": "convect_skew"}


def add_limits(
    problem: Problem, record: Record, recorded: Sequence[Mapping[str, float]], announce: Callable[[str], None]
) -> None:
    """Measures the host and adds the limits of the phases that can be counted, from the steps that were `recorded`.

    Without recorded steps, SIMD kernels or room for the measurement there are none. (collective)
    """
    solver, case, comm, figures = problem.solver, problem.case, problem.comm, record["figures"]
    phases = record["timings"]["phases"]
    if not recorded or solver.kernels != "simd":
        return
    measured = rates_beside(solver.device, case.precision, comm, announce)
    if measured is None:
        return
    figures.update(measured)

    def whole(mine: Sequence[float]) -> list[float]:
        return [comm.allreduce(value, MPI.SUM) for value in mine]

    def of_term(name: str, fields: int = 3) -> tuple[float, float]:
        moved, flops = whole(solver.work(name, fields))
        return moved, flops

    boxes, affine, _, stored = map(int, whole(solver.elements_by_shape))
    size = formulas.Size(
        solver.elements, case.order, int(whole([solver.unknowns])[0]), 4 if case.precision == "single" else 8
    )
    method = formulas.Method(
        geometry=solver.geometry, stored_elements=stored, parallelepipeds=boxes + affine, boxes=boxes, kernels="simd"
    )
    components = 3 + len(case.scalars)
    iterations = float(np.mean([step["velocity_iterations"] for step in recorded]))
    counted = {
        "convection": flow_formulas.convection(
            size, of_term(TERMS[solver.convection], components), components, solver.time_order
        ),
        "velocity": flow_formulas.velocity(size, method, of_term("gradient"), iterations),
    }
    bandwidth, peak = measured["bandwidth_bytes_per_second"], measured["peak_flops_per_second"]
    figures["limits_by_phase"] = {
        name: limits(sum(phases[name].values()) / len(recorded), phase.bytes.value, bandwidth, phase.flops.value, peak)
        for name, phase in counted.items()
        if name in phases
    }
    for name, phase in counted.items():
        figures["formulas"][f"limits of {name}"] = f"{phase.bytes.text}; {phase.bytes.source}"
