"""`weft run flow`: sets a flow up, steps it on, watches it, and counts.

The record it returns is what run.json holds: `case`, `versions`, `machine`, `choices`, `timings`, `figures`,
`statistics`, with units in the names. Statistics and checkpoints go to files as the run goes on.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from mpi4py import MPI

import weft
from weft import mpi, trace
from weft.cases import FlowCase
from weft.run.flow.output import OutputFiles
from weft.run.flow.problem import Problem, Watch, make_mesh
from weft.run.machine import machine, versions
from weft.run.record import Display, Record, Stopwatch, breakdown, memory_bytes, open_folder
from weft.run.stepping import (
    Goal,
    Interrupted,
    Table,
    after,
    compared,
    due,
    read_reference,
    thinned,
)

PROFILED = 10  # steps whose spans are recorded: every second one from the first that counts
COMPARED = 10  # steps timed with each path of the exchange
SOLVES = ("pressure", "velocity", "scalar")
PHASES = ("convection", "pressure", "velocity", "scalars", "projection", "exchange")


class Profile:
    """Where the time of some steps goes: by category, by phase and category, and by span."""

    def __init__(self) -> None:
        self.steps = 0
        self.seconds = 0.0
        self.categories: dict[str, float] = dict.fromkeys(trace.categories(), 0.0)
        self.phases: dict[str, dict[str, float]] = {}
        self.names: dict[str, float] = {}

    def step(self, solver: Any, dt: float) -> None:
        """Takes a step with the recorder on, which takes time itself."""
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

    def finish(self, record: Record, comm: MPI.Intracomm) -> None:
        """The record's timings and shares. (collective)"""
        timings, figures = record["timings"], record["figures"]
        whole = comm.allreduce(self.seconds, MPI.MAX)
        names = sorted(set().union(*comm.allgather([n for n, s in self.names.items() if s > 0])))
        timings.update(
            profiled_seconds=whole,
            breakdown=breakdown(self.categories, comm),
            phases=self.mean_phases(comm),
            routines=breakdown({name: self.names.get(name, 0.0) for name in names}, comm),
        )
        spent = timings["breakdown"]
        told = spent["mpi"]["mean_seconds"] + spent["copy"]["mean_seconds"]
        figures["profiled_steps"] = self.steps
        figures["communication_share"] = told / whole if whole > 0 else None
        figures["exchange_share"] = exchange_seconds(timings["routines"]) / whole if whole > 0 else None

    def mean_phases(self, comm: MPI.Intracomm) -> dict[str, dict[str, float]]:
        """Mean over ranks of the seconds by phase and category; what is in no phase is "other". (collective)"""
        keys = sorted({(p, c) for rank in comm.allgather(self.phases) for p, found in rank.items() for c in found})
        means: dict[str, dict[str, float]] = {phase: {} for phase in (*PHASES, "")}
        for phase, category in keys:
            mine = self.phases.get(phase, {}).get(category, 0.0)
            means[phase][category] = comm.allreduce(mine, MPI.SUM) / comm.size
        return {phase or "other": spent for phase, spent in means.items() if spent}


def add(sums: dict[str, float], now: dict[str, float], before: dict[str, float]) -> None:
    """Adds what has come since to the sums."""
    for key, value in now.items():
        sums[key] = sums.get(key, 0.0) + value - before.get(key, 0.0)


# Spans of the exchange of values between elements of different ranks: messages, and the kernels that fill and empty
# them. All-reduces are not among them.
EXCHANGE = (
    "post receives", "send", "wait", "start collective", "publish", "receive", "until read",
    "pack", "gather_groups", "scatter_groups", "combine_groups", "copy_pieces", "copy",
)  # fmt: skip


def exchange_seconds(routines: Record) -> float:
    """Seconds of the exchange among those by span, mean over ranks."""
    return float(sum(routines[name]["mean_seconds"] for name in EXCHANGE if name in routines))


class Checkpoints:
    """Writes a run's checkpoints, and knows the last."""

    def __init__(self, case: FlowCase, solver: Any, folder: Path, last: str) -> None:
        self.case, self.solver, self.last = case, solver, last
        self.folder = case.checkpoint.directory or str(folder / "checkpoints")
        self.written_at = -1
        self.text = json.dumps({"case": case.model_dump(by_alias=True), "versions": versions()})

    def write(self) -> None:
        """Writes one, unless this step has one. (collective)"""
        if self.written_at != self.solver.steps:
            self.last = self.solver.save(self.folder, keep=self.case.checkpoint.keep, text=self.text)
            self.written_at = self.solver.steps


def run(case: FlowCase, comm: MPI.Intracomm, display: Display, folder: Path, asked: Any) -> Record:
    """Runs a case on all ranks of `comm` (collective): its record, the same on every rank.

    `asked.number` becomes a signal's number when the run is to stop: Interrupted, after a checkpoint.
    """
    clock = Stopwatch(comm)
    reference = read_reference(case.statistics.reference, comm) if case.statistics.reference else None
    with clock("mesh_seconds"):
        display.phase("mesh: reading and sharing out" if case.mesh.file else "mesh: generating")
        mesh = make_mesh(case, comm)
    with clock("solver_seconds"):
        display.phase("solver: numbering, exchanges, multigrid")
        problem = Problem(case, mesh)
    with clock("initial_seconds"):
        display.phase("initial fields")
        began = problem.begin()
    record: Record = {
        "case": case.model_dump(by_alias=True),
        "versions": versions(),
        "machine": machine(problem.solver.device, comm),
        "choices": problem.solver.choices,
        "timings": clock.seconds,
        "figures": sizes(problem, began),
        "statistics": {"history": [], "steps": []},
    }
    display.header(record)
    Run(problem, display, folder, record, asked, reference).go(began)
    return record


class Run:
    """A run on its way."""

    def __init__(
        self, problem: Problem, display: Display, folder: Path, record: Record, asked: Any, reference: Record | None
    ) -> None:
        self.problem, self.display, self.folder, self.record = problem, display, folder, record
        self.asked, self.reference = asked, reference
        self.case, self.comm, self.solver = problem.case, problem.comm, problem.solver
        self.history: list[Record] = []  # of statistics.csv
        self.steps: list[Record] = []
        self.statistics_seconds = self.output_seconds = 0.0
        self.profile = Profile()

    def go(self, began: Any) -> None:
        """Steps until the end. (collective)"""
        case, solver = self.case, self.solver
        open_folder(self.folder, self.comm)
        self.checkpoints = Checkpoints(case, solver, self.folder, began.path if began else "")
        self.files = OutputFiles(self.problem, self.folder, began)
        self.goal = Goal(0 if case.time.end > 0 else case.time.steps, case.time.end, solver.steps, solver.time)
        self.watch = Watch(self.problem)
        self.table = None
        if self.comm.rank == 0:
            since = solver.steps if began else None
            self.table = Table(self.folder / "statistics.csv", ["step", "time", *self.watch.names], since)
        show = self.display.progress(10**6, self.progress_line)
        self.sample()
        signal = 0
        begin = time.perf_counter()
        try:
            while signal == 0 and not self.goal.reached(solver.steps, solver.time):
                self.step()
                if due(solver.steps, case.statistics.every):
                    self.sample()
                if due(solver.steps, case.checkpoint.every):
                    self.output(self.checkpoints.write)
                if due(solver.steps, case.output.every):
                    self.output(self.files.fields)
                show(int(1e6 * self.goal.fraction(solver.steps, solver.time)))
                signal = self.comm.allreduce(self.asked.number, MPI.MAX)
        except mpi.CollectiveError as error:
            self.went_wrong(error)
        seconds = self.comm.allreduce(time.perf_counter() - begin, MPI.MAX)
        self.sample()
        if (signal == 0 and case.checkpoint.at_end) or (signal != 0 and case.checkpoint.on_signal):
            self.output(self.checkpoints.write)
        if signal == 0:
            self.output(lambda: self.files.at_end(self.record))
        self.finish(seconds)
        if signal == 0:
            self.record["figures"]["errors"] = self.problem.errors()
            if case.output.compare_paths:
                self.display.phase("exchange: timing every path")
                paths(self.problem, self.record)
        self.display.result(self.record)
        if signal != 0:
            raise Interrupted(signal, self.record, self.checkpoints.last if case.checkpoint.on_signal else "")

    def step(self) -> None:
        """One step; every second one of those that count is recorded, until there are enough."""
        counted = len(self.steps) - self.case.time.warmup
        recorded = counted > 0 and counted % 2 == 0 and self.profile.steps < PROFILED
        dt = self.problem.next_dt()
        begin = time.perf_counter()
        if recorded:
            self.profile.step(self.solver, dt)
        else:
            self.solver.step(1, dt)
        seconds = time.perf_counter() - begin
        self.steps.append(
            {
                "step": self.solver.steps,
                "time": self.solver.time,
                "dt": dt,
                **iterations(self.solver.figures),
                "seconds": seconds,
                "recorded": recorded,
            }
        )

    def sample(self) -> None:
        """A row of statistics.csv, unless this step has one. (collective)"""
        step = self.solver.steps
        if self.history and self.history[-1]["step"] == step:
            return
        begin = time.perf_counter()
        row = {"step": step, "time": self.solver.time, **self.watch.now()}
        self.history.append(row)
        if self.table is not None:
            self.table.add([list(row.values())])
        self.statistics_seconds += time.perf_counter() - begin

    def output(self, write: Callable[[], None]) -> None:
        """Writes something, on the clock of output. (collective)"""
        begin = time.perf_counter()
        write()
        self.output_seconds += time.perf_counter() - begin

    def progress_line(self, *_: float) -> str:
        """Where the run is; Courant number, energy and divergence as of the last row of statistics.csv."""
        last, watched = self.steps[-1], self.history[-1]
        solves = ", ".join(
            f"{name[:1]} {last[f'{name}_iterations']}" for name in SOLVES if f"{name}_iterations" in last
        )
        words = f"step {last['step']}, t = {last['time']:.4g}, dt = {last['dt']:.3g}, Courant {watched['courant']:.2f}"
        words += f", iterations {solves}"
        return words + f", energy {watched['energy']:.6g}, divergence {watched['divergence']:.0e}"

    def went_wrong(self, error: Exception) -> NoReturn:
        """Says where a run went wrong and what to go on from. (collective)"""
        advice = ""
        if isinstance(error, weft.flow.BlownUp):
            advice = "; take a smaller time.dt or time.courant, or a finer mesh"
        text = str(error).rstrip(".")
        raise mpi.CollectiveError(f"{text}; {after(self.checkpoints.last)}{advice}") from None

    def finish(self, seconds: float) -> None:
        """What the run took and what follows from it. (collective)"""
        record, solver, case = self.record, self.solver, self.case
        slowest = np.array([s["seconds"] for s in self.steps])
        if slowest.size:
            self.comm.Allreduce(MPI.IN_PLACE, slowest, MPI.MAX)
        for step, value in zip(self.steps, slowest.tolist(), strict=True):
            step["seconds"] = value
        counted = [s for s in self.steps[case.time.warmup :] if not s["recorded"]] or self.steps
        each = [s["seconds"] for s in counted]
        median = float(np.median(each)) if each else None
        record["timings"].update(
            run_seconds=seconds,
            steps_seconds=float(slowest.sum()),
            seconds_per_step=median,
            best_step_seconds=min(each) if each else None,
            statistics_seconds=self.comm.allreduce(self.statistics_seconds, MPI.MAX),
            output_seconds=self.comm.allreduce(self.output_seconds, MPI.MAX),
        )
        self.profile.finish(record, self.comm)
        record["figures"].update(
            memory(self.problem),
            steps_done=len(self.steps),
            final_time=solver.time,
            points_per_second=solver.points / median if median else None,
            iterations=summary(self.steps[case.time.warmup :] or self.steps),
            checkpoint=self.checkpoints.last,
            resident_bytes_per_rank=self.comm.allreduce(
                1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, MPI.MAX
            ),
            files=[str(path) for path in self.files.written],
        )
        found = record["statistics"]
        found["history"], found["steps"] = thinned(self.history), thinned(self.steps)
        if self.reference is not None:
            found["reference"] = compared(self.history, self.reference)


def iterations(figures: Record) -> dict[str, int]:
    """Of the last step's solves; of components that are solved together those of the slowest."""
    found = {"pressure_iterations": int(figures["pressure_iterations"])}
    for name in SOLVES[1:]:
        counts = figures[f"{name}_iterations"]
        if counts:
            found[f"{name}_iterations"] = int(max(counts))
    return found


def summary(steps: Sequence[Record]) -> Record:
    """Mean and largest iterations of each solve over steps."""
    found: Record = {}
    for name in SOLVES:
        counts = [s[f"{name}_iterations"] for s in steps if f"{name}_iterations" in s]
        if counts:
            found[name] = {"mean": float(np.mean(counts)), "largest": max(counts)}
    return found


def sizes(problem: Problem, began: Any) -> Record:
    """What the problem counts, and its memory. (collective)"""
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
            "points_per_second": "n / median seconds of a step that was not recorded, slowest rank",
            "exchange_share": "messages, their packing and copies over the recorded steps' time, mean over ranks",
            "communication_share": "MPI and copies over the recorded steps' time, mean over ranks",
        },
    }


def memory(problem: Problem) -> Record:
    """Bytes of all ranks by what holds them, at present: statistics and averages hold some once they are asked for.

    (collective)
    """
    solver = problem.solver
    held = memory_bytes(solver.memory_bytes, problem.comm)
    word = 4 if problem.case.precision == "single" else 8
    whole = sum(held.values())
    return {"memory_bytes": held, "memory": whole, "memory_words_per_point": whole / word / solver.points}


def paths(problem: Problem, record: Record) -> None:
    """Time of a step and share of the exchange with every path that works here. (collective)

    All start from the flow at the end of the run, with a step of order 1; speed_up is over the staged path.
    """
    comm, chosen, figures = problem.comm, problem.solver, record["figures"]
    figures["paths"] = {}
    if comm.size == 1:
        figures["paths_note"] = "one rank exchanges nothing with others"
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
        shares: Record = {"timings": {}, "figures": {}}
        profile.finish(shares, comm)
        figures["paths"][path] = {
            "seconds_per_step": per_step,
            "exchange_share": shares["figures"]["exchange_share"],
            "exchange_seconds_per_step": exchange_seconds(shares["timings"]["routines"]) / profile.steps,
        }
    staged = figures["paths"].get("staged")
    for row in figures["paths"].values():
        row["speed_up"] = staged["seconds_per_step"] / row["seconds_per_step"] if staged else None
    if chosen.device.is_host:
        figures["paths_note"] = "host memory: staged copies once more where direct does not"
