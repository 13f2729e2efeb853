"""How the time of a flow's steps is spent, and how it depends on the path of the exchange."""

from __future__ import annotations

import time
from collections.abc import Mapping

from mpi4py import MPI

import weft
from weft import trace
from weft.flow import Solver
from weft.record import Record, Spread, Timings
from weft.run.flow.problem import Problem
from weft.run.record import breakdown

PROFILED = 10  # number of steps whose spans are recorded: every second one after the warm-up
COMPARED = 10  # number of steps timed with each path of the exchange
PHASES = ("convection", "pressure", "velocity", "scalars", "projection", "exchange")


class Profile:
    """How the time of some steps is spent: by category, by phase and category, and by span."""

    def __init__(self) -> None:
        self.steps = 0
        self.seconds = 0.0
        self.categories: dict[str, float] = dict.fromkeys(trace.categories(), 0.0)
        self.phases: dict[str, dict[str, float]] = {}
        self.names: dict[str, float] = {}

    def step(self, solver: Solver, dt: float) -> None:
        """Takes a step with the recorder on, which itself takes time."""
        recording = trace.enabled()
        if not recording:
            trace.start()
        before = trace.categories(), trace.phases(PHASES), trace.names()
        begin = time.perf_counter()
        solver.step(1, dt)
        seconds = time.perf_counter() - begin
        now = trace.categories(), trace.phases(PHASES), trace.names()
        if not recording:
            trace.stop()
        add(self.categories, now[0], before[0])
        add(self.names, now[2], before[2])
        for phase, spent in now[1].items():
            add(self.phases.setdefault(phase, {}), spent, before[1].get(phase, {}))
        self.steps += 1
        self.seconds += seconds

    def timings(self, comm: MPI.Intracomm) -> Timings:
        """The timings of the recorded steps, for a record. (collective)"""
        names = sorted(set().union(*comm.allgather([n for n, s in self.names.items() if s > 0])))
        return {
            "profiled_seconds": comm.allreduce(self.seconds, MPI.MAX),
            "breakdown": breakdown(self.categories, comm),
            "phases": self.mean_phases(comm),
            "routines": breakdown({name: self.names.get(name, 0.0) for name in names}, comm),
        }

    def finish(self, record: Record, comm: MPI.Intracomm) -> None:
        """Adds the timings and shares to the record. (collective)"""
        timings, figures = self.timings(comm), record["figures"]
        record["timings"].update(timings)
        whole, spent = timings["profiled_seconds"], timings["breakdown"]
        told = spent["mpi"]["mean_seconds"] + spent["copy"]["mean_seconds"]
        figures["profiled_steps"] = self.steps
        figures["communication_share"] = told / whole if whole > 0 else None
        figures["exchange_share"] = exchange_seconds(timings["routines"]) / whole if whole > 0 else None

    def mean_phases(self, comm: MPI.Intracomm) -> dict[str, dict[str, float]]:
        """Seconds by phase and category, mean over ranks; time outside all phases is "other". (collective)"""
        keys = sorted({(p, c) for rank in comm.allgather(self.phases) for p, found in rank.items() for c in found})
        means: dict[str, dict[str, float]] = {phase: {} for phase in (*PHASES, "")}
        for phase, category in keys:
            mine = self.phases.get(phase, {}).get(category, 0.0)
            means[phase][category] = comm.allreduce(mine, MPI.SUM) / comm.size
        return {phase or "other": spent for phase, spent in means.items() if spent}


def add(sums: dict[str, float], now: dict[str, float], before: dict[str, float]) -> None:
    """Adds the spans recorded since the last call to the sums."""
    for key, value in now.items():
        sums[key] = sums.get(key, 0.0) + value - before.get(key, 0.0)


# Spans of the exchange of values between elements of different ranks: messages, and the kernels that pack and unpack
# them. They do not include all-reduces.
EXCHANGE = (
    "post receives", "send", "wait", "start collective", "publish", "receive", "until read",
    "pack", "gather_groups", "scatter_groups", "combine_groups", "copy_pieces", "copy",
)  # fmt: skip


def exchange_seconds(routines: Mapping[str, Spread]) -> float:
    """Seconds of the exchange from the seconds by span, mean over ranks."""
    return float(sum(routines[name]["mean_seconds"] for name in EXCHANGE if name in routines))


def paths(problem: Problem, record: Record) -> None:
    """Time per step and share of the exchange, with every path that works on this machine. (collective)

    All start from the final flow of the run, with a step of order 1; speed_up is relative to the staged path.
    """
    comm, chosen, figures = problem.comm, problem.solver, record["figures"]
    figures["paths"] = {}
    if comm.size == 1:
        figures["paths_note"] = "a single rank exchanges no data"
        return
    schedule = "pairwise"
    usable = [path for path, works, _ in weft.exchange.paths(chosen.device, comm) if works]
    velocity, pressure = chosen.velocity(), chosen.pressure()
    dt = problem.next_dt()
    for path in sorted(usable, key=lambda p: p != "staged"):
        solver = problem.make_solver(f"{schedule}:{path}")
        for name in problem.case.scalars:
            solver.set_scalar(name, chosen.scalar(name))
        solver.set_pressure(pressure)
        solver.set_velocity(velocity)
        for _ in range(problem.case.time.order + 1):
            solver.step(1, dt)
        comm.Barrier()
        begin = time.perf_counter()
        solver.step(COMPARED, dt)
        per_step = comm.allreduce(time.perf_counter() - begin, MPI.MAX) / COMPARED
        profile = Profile()
        for _ in range(COMPARED // 2):
            profile.step(solver, dt)
        timings = profile.timings(comm)
        spent = exchange_seconds(timings["routines"])
        figures["paths"][path] = {
            "seconds_per_step": per_step,
            "exchange_share": spent / timings["profiled_seconds"],
            "exchange_seconds_per_step": spent / profile.steps,
        }
    staged = figures["paths"].get("staged")
    for row in figures["paths"].values():
        row["speed_up"] = staged["seconds_per_step"] / row["seconds_per_step"] if staged else None
    if chosen.device.is_host:
        figures["paths_note"] = "in host memory, staged makes one more copy than direct"
