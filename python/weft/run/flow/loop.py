"""`weft run flow`: sets up a flow, steps it, monitors it, and collects the figures.

The record in its result becomes run.json: `case`, `versions`, `machine`, `choices`, `timings`, `figures`, `statistics`,
with units in the names. Statistics and checkpoints are written to files during the run.
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
from mpi4py import MPI

import weft
from weft import mpi
from weft.cases.flow import FlowCase
from weft.flow_statistics import loads
from weft.record import Figures, Record, Reference, Timings
from weft.run.checkpoints import Checkpoints
from weft.run.elements import moved_by_user_code
from weft.run.flow.figures import SOLVES, add_limits, iterations, memory, sizes, summary
from weft.run.flow.output import OutputFiles
from weft.run.flow.problem import Problem, Watch, make_mesh
from weft.run.flow.profile import PROFILED, Profile, paths
from weft.run.folder import open_folder
from weft.run.interrupt import asked_to_stop
from weft.run.record import Display, Result, Stopwatch, open_record
from weft.run.stepping import Goal, Table, after, compared, due, read_reference, require_end_ahead, thinned
from weft.solver_on_elements import Checkpoint


def run(case: FlowCase, display: Display) -> Result:
    """Runs a case on all ranks. (collective)"""
    comm = MPI.COMM_WORLD
    clock = Stopwatch(comm)
    reference = read_reference(case.statistics.reference, comm) if case.statistics.reference else None
    with clock("mesh_seconds"):
        display.phase("mesh: reading and distributing" if case.mesh.file else "mesh: generating")
        mesh = make_mesh(case, comm)
    if note := moved_by_user_code(case, mesh):
        display.warn(note)
    with clock("solver_seconds"):
        display.phase("solver: numbering, exchanges, multigrid")
        problem = Problem(case, mesh)
    with clock("initial_seconds"):
        display.phase("initial fields")
        began = problem.begin()
    solver = problem.solver
    record = open_record(case, solver.device, clock, solver.choices, sizes(problem, began))
    record["statistics"] = {"history": [], "steps": []}
    display.header(record)
    return Run(problem, display, Path(case.output.directory), record, reference).go(began)


class Run:
    """A run in progress."""

    def __init__(
        self, problem: Problem, display: Display, folder: Path, record: Record, reference: Reference | None
    ) -> None:
        self.problem, self.display, self.folder, self.record = problem, display, folder, record
        self.reference = reference
        self.case, self.comm, self.solver = problem.case, problem.comm, problem.solver
        self.history: list[dict[str, float]] = []  # rows of statistics.csv
        self.steps: list[dict[str, float]] = []
        self.statistics_seconds = self.output_seconds = 0.0
        self.profile = Profile()

    def go(self, began: Checkpoint | None) -> Result:
        """Steps until the end or a signal. `began`: the checkpoint that the run continues from. (collective)"""
        case, solver = self.case, self.solver
        require_end_ahead(case.time.end, solver.time)
        open_folder(case, self.display, self.comm, began.path if began else "")
        self.checkpoints = Checkpoints(case, solver, began)
        self.files = OutputFiles(self.problem, self.folder, began)
        self.goal = Goal(0 if case.time.end > 0 else case.time.steps, case.time.end, solver.steps, solver.time)
        self.watch = Watch(self.problem)
        self.table = None
        if self.comm.rank == 0:
            since = solver.steps if began else None
            self.table = Table(self.folder / "statistics.csv", ["step", "time", *self.watch.names], since)
        show = self.display.progress(10**6, self.progress_line)
        self.sample()
        self.output(self.files.probes)
        signal = 0
        begin = time.perf_counter()
        try:
            while signal == 0 and not self.goal.reached(solver.steps, solver.time):
                self.step()
                if due(solver.steps, case.statistics.every):
                    self.sample()
                if any(due(solver.steps, probe.every) for probe in case.probes.values()):
                    self.output(self.files.probes)
                if due(solver.steps, case.checkpoint.every):
                    self.output(self.checkpoints.write)
                if due(solver.steps, case.output.every):
                    self.output(self.files.fields)
                if due(solver.steps, case.output.movie):
                    self.output(lambda: self.files.pictures.frame(solver.steps))
                show(int(1e6 * self.goal.fraction(solver.steps, solver.time)))
                signal = self.comm.allreduce(asked_to_stop(), MPI.MAX)
        except mpi.CollectiveError as error:
            self.went_wrong(error)
        seconds = self.comm.allreduce(time.perf_counter() - begin, MPI.MAX)
        self.sample()
        if (signal == 0 and case.checkpoint.at_end) or (signal != 0 and case.checkpoint.on_signal):
            self.output(self.checkpoints.write)
        if signal == 0:
            self.output(lambda: self.files.at_end(self.record))
        self.record["statistics"]["planes"] = self.files.pictures.planes()
        self.finish(seconds)
        if signal == 0:
            self.record["figures"]["errors"] = self.problem.errors()
            recorded = [step for step in self.steps if step["recorded"]]
            add_limits(self.problem, self.record, recorded, self.display.phase)
            if case.output.compare_paths:
                self.display.phase("exchange: timing every path")
                paths(self.problem, self.record)
        self.display.result(self.record)
        if loose := self.loose():
            self.display.warn(loose)
        last = self.checkpoints.last if case.checkpoint.on_signal else ""
        return Result(self.record, signal=signal, checkpoint=last)

    def step(self) -> None:
        """Takes one step; after the warm-up every second step is recorded, until there are enough."""
        counted = len(self.steps) - self.case.time.warmup
        recorded = counted > 0 and counted % 2 == 0 and self.profile.steps < PROFILED
        dt = self.problem.next_dt()
        begin = time.perf_counter()
        if recorded:
            self.profile.step(self.solver, dt)
        else:
            self.solver.step(1, dt)
        seconds = time.perf_counter() - begin
        if not self.steps:  # a flow may start at rest
            self.first_energy = self.history[0]["energy"] or self.solver.statistics()["energy"]
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
        """Writes a row of statistics.csv, unless this step already has one. (collective)"""
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
        """Writes output, timed as such. (collective)"""
        begin = time.perf_counter()
        write()
        self.output_seconds += time.perf_counter() - begin

    def progress_line(self, *_: float) -> str:
        """One line of progress; Courant number, energy and divergence are those of the last row of statistics.csv."""
        last, watched = self.steps[-1], self.history[-1]
        solves = ", ".join(
            f"{name[:1]} {last[f'{name}_iterations']}" for name in SOLVES if f"{name}_iterations" in last
        )
        words = f"step {last['step']}, t = {last['time']:.4g}, dt = {last['dt']:.3g}, Courant {watched['courant']:.2f}"
        words += f", iterations {solves}"
        return words + f", energy {watched['energy']:.6g}, divergence {watched['divergence']:.0e}"

    def loose(self, failed: bool = False) -> str:
        """What is wrong with the tolerances if they are larger than all terms of a step; else "". (collective)

        The largest terms are about those of the velocity over the time step, in the norm of the residuals. The last
        energies of a run that has ``failed`` do not count.
        """
        if not self.steps:
            return ""
        mass = np.asarray(self.problem.mesh.mass_matrix(self.case.order)).ravel()
        squares, volume = self.comm.allreduce(np.array([mass @ mass, mass.sum()]), MPI.SUM)
        later = [] if failed else [row["energy"] for row in self.history]
        energy = max(self.first_energy, *later, 0.0)
        terms = math.sqrt(2 * energy * squares / volume) / self.steps[-1]["dt"]
        given = self.case.solver
        if not 0 < terms < max(given.pressure_tolerance, given.velocity_tolerance):
            return ""
        return (
            "solver.pressure_tolerance and solver.velocity_tolerance are not relative: they are larger than all terms "
            f"of a step, which in the units of this case are about {terms:.0e}; choose {1e-7 * terms:.0e}"
        )

    def went_wrong(self, error: Exception) -> NoReturn:
        """Raises an error that says when the run failed, and which checkpoint to continue from. (collective)"""
        advice = f"; {loose}" if (loose := self.loose(failed=True)) else ""
        if not advice and isinstance(error, weft.flow.BlownUp):
            advice = "; take a smaller time.dt or time.courant, or a finer mesh"
        text = str(error).rstrip(".")
        last = after(self.checkpoints.last, self.case.checkpoint.every)
        raise mpi.CollectiveError(f"{text}; {last}{advice}") from None

    def finish(self, seconds: float) -> None:
        """Adds the timings and the figures derived from them. (collective)"""
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
            Timings(
                run_seconds=seconds,
                steps_seconds=float(slowest.sum()),
                seconds_per_step=median,
                best_step_seconds=min(each) if each else None,
                mean_step_seconds=float(np.mean(each)) if each else None,
                statistics_seconds=self.comm.allreduce(self.statistics_seconds, MPI.MAX),
                output_seconds=self.comm.allreduce(self.output_seconds, MPI.MAX),
            )
        )
        self.profile.finish(record, self.comm)
        record["figures"].update(memory(self.problem))
        record["figures"].update(
            Figures(
                steps_done=len(self.steps),
                final_time=solver.time,
                points_per_second=solver.points / median if median else None,
                iterations=summary(counted),
                checkpoint=self.checkpoints.last,
                resident_bytes_per_rank=self.comm.allreduce(
                    1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, MPI.MAX
                ),
                files=[str(path) for path in self.files.written],
            )
        )
        given = case.statistics
        if given.forces:
            record["figures"]["loads"] = {
                name: loads(
                    self.history,
                    name,
                    since=given.since or None,
                    drag=given.drag_direction,
                    lift=given.lift_direction,
                    velocity=given.reference_velocity,
                    length=given.reference_length,
                    area=given.reference_area,
                )
                for name in given.forces
            }
        found = record["statistics"]
        found["history"], found["steps"] = thinned(self.history), thinned(self.steps)
        if self.reference is not None:
            found["reference"] = compared(self.history, self.reference)
