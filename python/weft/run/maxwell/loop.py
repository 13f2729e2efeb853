"""`weft run maxwell`: sets up a case, measures the machine, steps, monitors the energy, and collects the figures.

The record in its result becomes run.json: `case`, `versions`, `machine`, `choices`, `timings`, `figures`, `statistics`,
with units in the names.
"""

from __future__ import annotations

import math
from pathlib import Path

from mpi4py import MPI

from weft.cases.maxwell import MaxwellCase
from weft.mpi import CollectiveError
from weft.record import Figures, Record, Timings
from weft.run.checkpoints import Checkpoints
from weft.run.elements import moved_by_user_code
from weft.run.energy import Meter
from weft.run.folder import open_folder
from weft.run.interrupt import asked_to_stop
from weft.run.machine import MEASURING, rates
from weft.run.maxwell.errors import Errors, exact_energies
from weft.run.maxwell.figures import choices, compare, finish, sizes
from weft.run.maxwell.output import OutputFiles
from weft.run.maxwell.problem import Problem, make_mesh
from weft.run.maxwell.profile import PROFILED, communication_share, paths, profile
from weft.run.record import Display, Result, Stopwatch, open_record
from weft.run.stepping import after, due, next_due
from weft.solver_on_elements import Checkpoint

CHECKS = 20  # default number of times that a run computes its energy
LOOKING = 0.1  # limit of the time to compute errors during the run: this fraction of the steps' time, plus one second
PATIENCE = 1.0  # approximate seconds between checks for a signal


def run(case: MaxwellCase, display: Display) -> Result:
    """Runs a case on all ranks. (collective)

    The record's `figures["stable"]` is False if the energy grew beyond the bound of the scheme. The run then ends, its
    result reports a problem, and `figures["unstable"]` says when and why.
    """
    comm = MPI.COMM_WORLD
    clock = Stopwatch(comm)
    with clock("mesh_seconds"):
        display.phase("mesh: reading and distributing" if case.mesh.file else "mesh: generating")
        mesh = make_mesh(case, comm)
    if note := moved_by_user_code(case, mesh):
        display.warn(note)
    with clock("operator_seconds"):
        display.phase("operator: numbering, exchange pattern, geometric factors")
        problem = Problem(case, mesh)
    with clock("initial_seconds"):
        began = problem.begin()
    solver = problem.solver
    record = open_record(case, solver.device, clock, choices(problem), sizes(problem, began))
    record["statistics"] = {"step": [], "time": [], "electric_energy": [], "magnetic_energy": []}
    display.header(record)
    if case.time.integrator == "runge-kutta" and problem.dt > solver.dt_limit * (1 + 1e-9):
        display.warn(
            f"time.dt or time.courant: the time step {problem.dt:.6g} is above the limit {solver.dt_limit:.6g} of this "
            "mesh, order and materials; the fields may grow without bound"
        )
    display.phase(MEASURING)
    with clock("machine_seconds"):
        record["figures"].update(rates(solver.device, case.precision, comm))
    record["figures"].update(Figures(steps_done=0, stable=True, unstable=""))
    return Run(problem, display, Path(case.output.directory), record, began).go()


class Run:
    """A run in progress. `began`: the checkpoint that it continues from."""

    def __init__(
        self, problem: Problem, display: Display, folder: Path, record: Record, began: Checkpoint | None
    ) -> None:
        self.problem, self.display, self.folder, self.record = problem, display, folder, record
        self.case, self.comm, self.solver = problem.case, problem.comm, problem.solver
        self.first, self.began = self.solver.steps, began
        self.checkpoints = Checkpoints(self.case, self.solver, began)
        self.files = OutputFiles(problem, folder, began)
        self.errors = Errors(problem)

    def go(self) -> Result:
        """Steps until the end of the run. (collective)"""
        case, record = self.case, self.record
        open_folder(case, self.display, self.comm, self.began.path if self.began else "")
        try:
            self.display.phase("warming up")
            timings = profile(self.problem)
            record["timings"].update(timings)
            record["figures"].update(Figures(profiled_steps=PROFILED, communication_share=communication_share(timings)))
            self.display.phase("stepping")
            signal = self.march()
        except CollectiveError as error:
            if "unstable" not in str(error):
                raise
            return self.unstable(str(error))
        compare(self.problem, record)
        self.files.planes(record)
        if signal == 0 and case.output.compare_paths:
            self.display.phase("exchange: timing every path")
            paths(self.problem, record)
        self.display.result(record)
        for path in self.files.at_end() if signal == 0 else self.files.probes():
            self.display.write(f"wrote       {path}")
        return Result(record, signal=signal, checkpoint=self.checkpoints.last if case.checkpoint.on_signal else "")

    def march(self) -> int:
        """The run itself: all steps, the energy of the fields at intervals, and the energy consumed. (collective)

        Returns the number of the signal that stopped the run early, else 0.
        """
        case, comm, problem, solver = self.case, self.comm, self.problem, self.solver
        statistics, figures, timings = self.record["statistics"], self.record["figures"], self.record["timings"]
        problem.rewind()
        problem.probes.take(solver.time, solver.host_fields() if problem.probes.holds else None)
        energy = self.watch()
        self.errors.look()
        show = self.display.progress(
            problem.steps, lambda step, total, energy: f"step {step} of {total}, energy {energy:.6e}"
        )
        every = case.output.every or max(1, math.ceil(problem.steps / CHECKS))
        patience = max(1, round(PATIENCE * PROFILED / timings["profiled_seconds"]))
        last = self.first + problem.steps
        meter = Meter(solver.device, comm)
        meter.start()
        seconds, signal = 0.0, 0
        while solver.steps < last and signal == 0:
            step = solver.steps
            plans = (every, case.checkpoint.every, case.output.movie)
            pause = int(min(last, step + patience, *(next_due(step, plan) for plan in plans)))
            comm.Barrier()
            seconds += problem.advance(pause - step)
            figures["steps_done"] = pause - self.first
            meter.sample()
            signal = comm.allreduce(asked_to_stop(), MPI.MAX)
            if due(pause, every) or pause == last or signal != 0:
                energy = self.watch()
                if pause == last or comm.bcast(self.errors.spent < 1.0 + LOOKING * seconds):
                    self.errors.look()
            show(figures["steps_done"], energy)
            if due(pause, case.checkpoint.every):
                self.save()
            if due(pause, case.output.movie):
                self.files.pictures.frame(pause)
        if (signal == 0 and case.checkpoint.at_end) or (signal != 0 and case.checkpoint.on_signal):
            self.save()
        if self.errors.found["time"]:
            statistics["error"] = self.errors.found
            statistics["exact"] = exact_energies(problem, statistics["time"][-1])
        slowest = comm.allreduce(seconds, MPI.MAX)
        per_step = slowest / figures["steps_done"]
        figures["energy_to_solution"] = meter.stop()
        figures["checkpoint"] = self.checkpoints.last
        timings.update(
            Timings(
                steps_seconds=slowest,
                seconds_per_step=per_step,
                checkpoint_seconds=comm.allreduce(self.checkpoints.seconds, MPI.MAX),
            )
        )
        finish(problem, self.record, per_step)
        return signal

    def watch(self) -> float:
        """Adds the current energies of the fields; returns their sum. (collective)"""
        now, statistics = self.solver.statistics(), self.record["statistics"]
        if not math.isfinite(now["energy"]):
            raise CollectiveError(
                f"the energy of the fields is {now['energy']} at time {self.solver.time:.6g}: it exceeds the range of "
                "numbers; use smaller initial fields or sources"
            )
        statistics["step"].append(self.solver.steps)
        statistics["time"].append(self.solver.time)
        statistics["electric_energy"].append(now["electric_energy"])
        statistics["magnetic_energy"].append(now["magnetic_energy"])
        return now["energy"]

    def save(self) -> None:
        """Writes a checkpoint, and the probes so far. (collective)"""
        self.checkpoints.write()
        self.files.probes()

    def unstable(self, error: str) -> Result:
        """Ends a run whose fields have blown up."""
        self.record["figures"].update(Figures(stable=False, unstable=error))  # the same on all ranks
        self.record["timings"].update(Timings(profiled_seconds=0.0, breakdown={}))
        self.display.result(self.record)
        last = self.checkpoints.last
        return Result(self.record, problem=f"{error}; {after(last, self.case.checkpoint.every)}" if last else error)
