"""The figures of a `weft run turbulence`: sizes, and memory compared with the paper's prediction."""

from __future__ import annotations

import math
from collections.abc import Callable

from mpi4py import MPI

from weft.model import turbulence_formulas as formulas
from weft.model.limits import limits
from weft.record import Figures, Record
from weft.run.machine import rates_beside
from weft.run.record import memory_bytes
from weft.run.turbulence.memory import equation_9_bytes, real_bytes
from weft.run.turbulence.problem import Problem
from weft.turbulence_output import Checkpoint


def sizes(problem: Problem, began: Checkpoint | None) -> Figures:
    """The sizes of the problem, and its predicted and measured memory. (collective)"""
    case, solver, comm = problem.case, problem.solver, problem.comm
    points = math.prod(case.points)
    held = memory_bytes(solver.memory_bytes, comm)
    mine = comm.allreduce(sum(solver.memory_bytes.values()), MPI.MAX)
    return {
        "grid": list(case.points),
        "grid_points": points,
        "ranks": comm.size,
        "process_grid": solver.choices["process_grid"],
        "batch": solver.batch,
        "largest_wavenumber": solver.largest_wavenumber,
        "message_bytes": solver.message_bytes(solver.batch),
        "memory_bytes": held,
        "memory_bytes_per_rank": mine,
        "equation_9_bytes_per_rank": equation_9_bytes(points, comm.size, solver.batch, real_bytes(case)),
        "began_from": began.path if began else None,
        "formulas": {
            "equation_9_bytes_per_rank": "(8 + 2 Q + 1/2) N^3 / (2 P) complex numbers; GESTS Eq. 9",
            "grid_points_per_second": "N^3 / median seconds per step; GESTS section 4.1",
            "message_bytes": "Q N^3 / (2 P R) complex numbers per message of a transpose among R "
            "ranks; GESTS section 5.1",
        },
    }


def add_limits(problem: Problem, record: Record, announce: Callable[[str], None]) -> None:
    """Measures the host and adds the limits of a step; none where there is no room for it, or no step. (collective)"""
    case, figures, seconds = problem.case, record["figures"], record["timings"]["seconds_per_step"]
    if not seconds:
        return
    measured = rates_beside(problem.solver.device, case.precision, problem.comm, announce)
    if measured is None:
        return
    what = (case.points, case.dealiasing, case.time.scheme, len(case.scalars.schmidt))
    moved, flops = formulas.step_bytes(*what, real_bytes(case)), formulas.step_flops(*what)
    bandwidth, peak = measured["bandwidth_bytes_per_second"], measured["peak_flops_per_second"]
    figures.update(measured)
    figures["step_bytes"], figures["step_flops_done"] = moved.value, flops.value
    figures["limits"] = limits(seconds, moved.value, bandwidth, flops.value, peak)
    figures["formulas"]["step_bytes"] = f"{moved.text}; {moved.source}"
    figures["formulas"]["step_flops_done"] = f"{flops.text}; {flops.source}"
