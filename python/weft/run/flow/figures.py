"""The figures of a `weft run flow`: sizes, memory, iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.flow import StepFigures
from weft.record import Figures, Iterations
from weft.run.flow.problem import Problem
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
