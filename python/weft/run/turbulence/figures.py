"""The figures of a `weft run turbulence`: sizes, and memory compared with the paper's prediction."""

from __future__ import annotations

import math

from mpi4py import MPI

from weft.record import Figures
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
