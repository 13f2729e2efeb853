"""`weft run turbulence`: sets up a flow, steps it, and collects the figures.

The record in its result becomes run.json: `case`, `versions`, `machine`, `choices`, `timings`, `figures`, `statistics`,
with units in the names. Statistics and checkpoints are written to files during the run.
"""

from __future__ import annotations

import dataclasses
import math
import resource
import time
from pathlib import Path
from typing import NoReturn

import numpy as np
from mpi4py import MPI

import weft
from weft import mpi
from weft.arrays import Values
from weft.cases.turbulence import TurbulenceCase
from weft.files import whole
from weft.record import Choices, Distribution, Plane, Record, Reference, Timings
from weft.run.checkpoints import Checkpoints
from weft.run.folder import open_folder
from weft.run.interrupt import asked_to_stop
from weft.run.pictures import Film, picture
from weft.run.record import Display, Result, Stopwatch, breakdown, open_record
from weft.run.stepping import Goal, after, compared, due, read_reference, require_end_ahead, steps_to, thinned
from weft.run.turbulence.figures import add_limits, sizes
from weft.run.turbulence.output import Files, filled, write_fields
from weft.run.turbulence.problem import Problem
from weft.run.turbulence.profile import Profile
from weft.turbulence_output import Checkpoint
from weft.turbulence_statistics import Points


def run(case: TurbulenceCase, display: Display) -> Result:
    """Runs a case on all ranks. (collective)"""
    comm = MPI.COMM_WORLD
    clock = Stopwatch(comm)
    reference = read_reference(case.reference, comm) if case.reference else None
    with clock("solver_seconds"):
        display.phase("solver: process grid, exchanges, transforms")
        problem = Problem(case, comm)
    with clock("initial_seconds"):
        display.phase("initial field")
        began = problem.begin()
    solver = problem.solver
    chosen: Choices = {**solver.tuning, **solver.choices}
    record = open_record(case, solver.device, clock, chosen, sizes(problem, began), transforms=True)
    record["statistics"] = {}
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
        self.spectra_done = self.points_done = -1
        self.statistics_seconds = 0.0
        self.warned = False  # whether a warning was printed that the flow is not resolved

    def go(self, began: Checkpoint | None) -> Result:
        """Steps until the end or a signal. `began`: the checkpoint that the run continues from. (collective)"""
        case, solver = self.case, self.solver
        since = solver.steps if began else None
        require_end_ahead(case.time.end, solver.time)
        self.checkpoints = Checkpoints(case, solver, began, **sharing(case))
        open_folder(case, self.display, self.comm, began.path if began else "")
        scalars = len(case.scalars.schmidt)
        self.files = Files(self.folder, scalars, case.statistics.hdf5, since) if self.comm.rank == 0 else None
        if case.output.movie:
            self.film = Film(case.output.movie_format, self.folder, self.comm, since, case.checkpoint.planned)
        self.goal = Goal(0 if case.time.end > 0 else case.time.steps, case.time.end, solver.steps, solver.time)
        self.end = case.time.end or math.inf
        if case.time.end and case.time.dt:
            steps_to(case.time.end - solver.time, case.time.dt)
        profile = Profile(solver, self.end)
        show = self.display.progress(10**6, self.progress_line)
        self.sample(spectra=False, points=False)
        step_seconds: list[float] = []
        signal = 0
        begin = time.perf_counter()
        try:
            while signal == 0 and not self.goal.reached(solver.steps, solver.time):
                step_seconds.append(profile.step() if step_seconds else self.timed_step())
                done = solver.steps
                every = case.statistics
                self.sample(due(done, every.every), due(done, every.spectra_every), due(done, every.points_every))
                if due(done, case.output.movie):
                    self.frame()
                if due(done, case.checkpoint.every):
                    self.checkpoints.write()
                show(int(1e6 * self.goal.fraction(solver.steps, solver.time)))
                signal = self.comm.allreduce(asked_to_stop(), MPI.MAX)
        except weft.turbulence.BlownUp as error:
            self.blown_up(error)
        seconds = self.comm.allreduce(time.perf_counter() - begin, MPI.MAX)
        last = signal == 0 and case.statistics.at_end
        self.sample(True, spectra=last, points=last)
        if (signal == 0 and case.checkpoint.at_end) or (signal != 0 and case.checkpoint.on_signal):
            self.checkpoints.write()
        if case.output.fields and signal == 0:
            write_fields(self.folder, solver, self.comm)
        if case.output.movie and signal == 0:
            self.film.write(self.plane(np.empty((0, 0))), {})
        self.finish(step_seconds, seconds, profile)
        if signal == 0:
            add_limits(self.problem, self.record, self.display.phase)
        self.display.result(self.record)
        checkpoint = self.checkpoints.last if case.checkpoint.on_signal else ""
        return Result(self.record, signal=signal, checkpoint=checkpoint)

    def timed_step(self) -> float:
        """Takes the first step, which is not profiled because its time includes set-up on first use."""
        begin = time.perf_counter()
        self.solver.step(1, self.end)
        return time.perf_counter() - begin

    def progress_line(self, *_: float) -> str:
        """One line of progress; energy, dissipation and divergence are those of the last row of statistics.csv."""
        last = self.history[-1] if self.history else {}
        words = f"step {self.solver.steps}, t = {self.solver.time:.4g}, Courant {self.solver.courant:.2f}"
        if last:
            words += f", energy {last['energy']:.4g}, dissipation {last['dissipation']:.4g}"
            words += f", divergence {last['divergence']:.0e}"
        return words

    def sample(self, row: bool = True, spectra: bool = False, points: bool = False) -> None:
        """Writes the current statistics that are due and not yet written. (collective)"""
        case, solver = self.case, self.solver
        now = (solver.steps, solver.time)
        row = row and not (self.history and self.history[-1]["step"] == solver.steps)
        spectra = spectra and self.spectra_done != solver.steps
        points = points and self.points_done != solver.steps
        if not (row or spectra or points):
            return
        begin = time.perf_counter()
        found = solver.spectra()
        if row:
            scales = found.scales()
            self.history.append({"step": solver.steps, "time": solver.time, **dataclasses.asdict(scales)})
            if scales.kmax_eta < 1 and not self.warned:
                self.warned = True
                self.display.warn(
                    f"kmax eta = {scales.kmax_eta:.2f} at t = {solver.time:.4g}: the grid does not resolve the "
                    "smallest scales of the flow (at least 1 is needed, 1.5 is better); use a finer grid, a larger "
                    "viscosity or a weaker forcing"
                )
            if self.files is not None:
                self.files.add_scales(now, solver.dt, solver.courant, scales, found, solver.energy_input)
        moved = None
        if points or (spectra and case.statistics.transfer):
            middle = case.points[2] // 2 if case.output.slice and points else -1
            more = solver.point_statistics(
                distributions=points,
                pressure=points and case.statistics.pressure,
                transfer=case.statistics.transfer and (spectra or points),
                slice_z=middle,
            )
            moved = more.transfer
            if points:
                self.points_done = solver.steps
                self.keep_points(now, more)
        if spectra:
            self.spectra_done = solver.steps
            if self.files is not None:
                self.files.add_spectra(now, found, moved)
            self.record["statistics"]["spectrum"] = {
                "step": solver.steps,
                "time": solver.time,
                "wavenumbers": found.wavenumbers.tolist(),
                "energy": found.energy.tolist(),
                "dissipation": found.dissipation.tolist(),
                "transfer": None if moved is None else moved.tolist(),
            }
        self.statistics_seconds += time.perf_counter() - begin

    def keep_points(self, now: tuple[int, float], points: Points) -> None:
        """Writes distributions and the slice to files, and adds them to the record."""
        if self.files is not None:
            self.files.add_points(now, points)
            if points.enstrophy_slice is not None:
                with whole(self.folder / "enstrophy_slice.npy") as place:
                    np.save(place, points.enstrophy_slice)
        kept: dict[str, Distribution] = {}
        for name, d in points.distributions.items():
            lower, upper, density = map(list, zip(*filled(d), strict=True))
            kept[name] = {
                "lower": lower, "upper": upper, "density": density, "moments": d.moments, "scale": d.scale,
                "skewness": d.skewness if math.isfinite(d.skewness) else None,
                "flatness": d.flatness if math.isfinite(d.flatness) else None, "largest": d.largest,
            }  # fmt: skip
        self.record["statistics"]["distributions"] = kept
        self.record["statistics"]["extra_bytes_per_rank"] = self.comm.allreduce(points.extra_bytes, MPI.MAX)
        if points.enstrophy_slice is not None:
            self.record["statistics"]["planes"] = [self.plane(points.enstrophy_slice)]

    def frame(self) -> None:
        """Adds a frame to the film. (collective)"""
        found = self.solver.point_statistics(pressure=False, transfer=False, slice_z=self.case.points[2] // 2)
        image = found.enstrophy_slice
        self.film.add(self.solver.steps, self.solver.time, np.empty((0, 0)) if image is None else image)

    def plane(self, image: Values) -> Plane:
        """The enstrophy on the plane halfway along z, for the record."""
        x, y, z = self.case.lengths
        thin = max(1, math.ceil(max(image.shape) / 512))
        return picture("enstrophy", "z", z / 2, self.solver.time, [0.0, x, 0.0, y], image[::thin, ::thin], {})

    def blown_up(self, error: Exception) -> NoReturn:
        """Raises an error that says when the run failed, and which checkpoint to continue from. (collective)"""
        last = after(self.checkpoints.last, self.case.checkpoint.every)
        raise mpi.CollectiveError(f"{error}; {last}; take a smaller time.courant or time.dt") from None

    def finish(self, step_seconds: list[float], seconds: float, profile: Profile) -> None:
        """Adds the timings and the figures derived from them. (collective)"""
        each = np.array(step_seconds)
        if each.size:
            self.comm.Allreduce(MPI.IN_PLACE, each, MPI.MAX)
        steady = each[1:] if each.size > 1 else each  # the first step includes set-up on first use
        best = float(steady.min()) if steady.size else None
        median = float(np.median(steady)) if steady.size else None
        profiled = self.comm.allreduce(profile.seconds, MPI.MAX)
        timings, figures = self.record["timings"], self.record["figures"]
        timings.update(
            Timings(
                run_seconds=seconds,
                steps_seconds=float(each.sum()),
                seconds_per_step=median,
                best_step_seconds=best,
                statistics_seconds=self.comm.allreduce(self.statistics_seconds, MPI.MAX),
                checkpoint_seconds=self.comm.allreduce(self.checkpoints.seconds, MPI.MAX),
                profiled_seconds=profiled,
                profiled_steps=profile.steps,
                breakdown=breakdown(profile.categories, self.comm),
                parts=breakdown(profile.parts, self.comm),
            )
        )
        figures["steps"] = int(each.size)
        figures["final_time"] = self.solver.time
        figures["grid_points_per_second"] = figures["grid_points"] / median if median else None
        figures["best_grid_points_per_second"] = figures["grid_points"] / best if best else None
        figures["checkpoint"] = self.checkpoints.last
        figures["resident_bytes_per_rank"] = self.comm.allreduce(
            1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, MPI.MAX
        )
        self.record["statistics"]["history"] = thinned(self.history)
        if self.reference is not None:
            self.record["statistics"]["reference"] = compared(self.history, self.reference)


def sharing(case: TurbulenceCase) -> dict[str, int]:
    """How ranks share the files of a checkpoint, as keyword arguments of the solver's `save`."""
    files = case.checkpoint.files
    per_file = int(files) if files.isdigit() else {"node": 0, "one": 2**31 - 1}[files]
    return {"ranks_per_file": per_file, "turns": case.checkpoint.turns}
