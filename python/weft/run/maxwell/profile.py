"""How the time of a step is spent, and how it depends on the path of the exchange."""

from __future__ import annotations

import time

from mpi4py import MPI

import weft
from weft import trace
from weft.record import PathFigures, Record, Timings
from weft.run.maxwell.problem import Problem, take
from weft.run.record import breakdown

PROFILED = 10  # number of steps recorded for the breakdown by routine
COMPARED = 20  # number of steps timed with each path


def profile(problem: Problem) -> Timings:
    """Takes warm-up steps, then recorded ones; returns how the time is spent, by category and by routine. (collective)

    The routines are those of Table 3 of the NekCEM paper. Recording itself takes time, so these steps are not the timed
    ones.
    """
    case, comm, solver = problem.case, problem.comm, problem.solver
    problem.reset(solver)
    if case.time.warmup:
        take(solver, case.time.warmup, problem.dt)
    recording = trace.enabled()
    if not recording:
        trace.start(comm)
    before = trace.categories(), trace.names()
    comm.Barrier()
    begin = time.perf_counter()
    take(solver, PROFILED, problem.dt)
    seconds = comm.allreduce(time.perf_counter() - begin, MPI.MAX)
    categories, names = trace.categories(), trace.names()
    if not recording:
        trace.stop()
    spent = {k: v - before[0].get(k, 0.0) for k, v in categories.items()}
    by_name = {k: v - before[1].get(k, 0.0) for k, v in names.items()}
    everywhere = sorted({k for rank in comm.allgather([k for k, v in by_name.items() if v > 0]) for k in rank})
    return {
        "profiled_seconds": seconds,
        "breakdown": breakdown(spent, comm),
        "routines": breakdown({k: by_name.get(k, 0.0) for k in everywhere}, comm),
    }


def communication_share(timings: Timings) -> float:
    """The fraction of the recorded steps spent in MPI and in copies between host and device, mean over ranks."""
    spent = timings["breakdown"]
    return float((spent["mpi"]["mean_seconds"] + spent["copy"]["mean_seconds"]) / timings["profiled_seconds"])


def paths(problem: Problem, record: Record) -> None:
    """Time per step and share of communication with every path that works on this machine (Fig. 9). (collective)"""
    comm, case = problem.comm, problem.case
    figures = record["figures"]
    if comm.size == 1:
        figures["paths"] = {}
        figures["paths_note"] = "a single rank exchanges no data"
        return
    schedule = problem.solver.tuning["faces"]["chosen"].partition(":")[0]
    usable = [path for path, works, _ in weft.exchange.paths(problem.solver.device, comm) if works]
    rows: dict[str, PathFigures] = {}
    chosen = problem.solver
    for path in usable:
        # The run's own solver is left unchanged: its fields are written later.
        solver = problem.make_solver(f"{schedule}:{path}")
        problem.reset(solver)
        take(solver, max(1, case.time.warmup), problem.dt)
        comm.Barrier()
        begin = time.perf_counter()
        take(solver, COMPARED, problem.dt)
        per_step = comm.allreduce(time.perf_counter() - begin, MPI.MAX) / COMPARED
        problem.solver = solver
        timings = profile(problem)
        problem.solver = chosen
        rows[path] = {
            "seconds_per_step": per_step,
            "communication_share": communication_share(timings),
        }
    figures["paths"] = rows
    if problem.solver.device.is_host:
        figures["paths_note"] = "in host memory, staged makes one more copy than direct"
