"""`weft run turbulence`: sets a flow up, steps it on, and counts.

The record it returns is what run.json holds: `case`, `versions`, `machine`, `choices`, `timings`, `figures`,
`statistics`, with units in the names. Statistics and checkpoints go to files as the run goes on.
"""

from __future__ import annotations

import dataclasses
import json
import math
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from mpi4py import MPI

import weft
from weft import _weft, mpi, trace
from weft import turbulence_statistics as statistics
from weft.cases import TurbulenceCase
from weft.cases.schema import settings
from weft.files import whole
from weft.run.machine import machine, versions
from weft.run.memory import free_bytes
from weft.run.record import Display, Record, Stopwatch, breakdown, memory_bytes, open_folder
from weft.run.stepping import Goal, Interrupted, after, compared, due, picture, read_reference, thinned
from weft.run.turbulence.output import Files, filled, write_fields
from weft.turbulence import kept_modes_x

PROFILED = 10  # steps whose time is broken down, after the first

# The parts of GESTS's Table 3, as the solver's measure() names them.
PARTS = {
    "fft": "FFT",
    "pack_unpack": "pack and unpack",
    "row_mpi": "row MPI",
    "column_mpi": "column MPI",
    "other": "other",
}


def equation_9_bytes(points: int, ranks: int, batch: int, real_bytes: int) -> float:
    """GESTS, Eq. 9, a rank: (8 + 2 Q + 1/2) fields of N^3 / 2 complex numbers; the paper's are in single precision."""
    return (8 + 2 * batch + 0.5) * points / (2 * ranks) * 2 * real_bytes


def predicted_bytes(case: TurbulenceCase, ranks: int, gpu: bool = False) -> float:
    """Bytes that a rank will need: Eq. 9 of GESTS, on the modes that are kept, plus what Eq. 9 does not count.

    A scalar takes one field and three of work, and one more where it has a mean gradient; RK4 keeps every field twice.
    One rank needs no buffers. On a GPU the transforms hold all variables of a stage, as modes and as points. The solver
    checks itself by the same count (predicted_bytes in cpp/weft/turbulence/solver.hpp).
    """
    scalars = len(case.scalars.schmidt)
    fields, work = 3 + scalars, 5 + 3 * scalars
    more = fields if case.time.scheme == "rk4" else 0
    more += scalars if any(case.scalars.gradient) else 0
    more += 2 * max(1, case.batch) if ranks > 1 else 0
    more += 2 * work if gpu else 0
    nx, ny, nz = case.points
    return (fields + work + more) * kept_modes_x(nx, case.dealiasing) * ny * nz / ranks * 2 * real_bytes(case)


def real_bytes(case: TurbulenceCase) -> int:
    """Of a real number."""
    return 4 if case.precision == "single" else 8


def require_memory(case: TurbulenceCase, device: Any, comm: MPI.Intracomm) -> None:
    """CollectiveError, before anything large is allocated, where the box does not fit. (collective)"""
    need = predicted_bytes(case, comm.size, gpu=not device.is_host)
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    sharing = node.size if device.is_host else node.allgather(device.ordinal).count(device.ordinal)
    room = node.bcast(free_bytes(device)) if device.is_host else free_bytes(device)
    node.Free()
    room = comm.allreduce(room / sharing, MPI.MIN)
    if need <= room:
        return
    box = " x ".join(map(str, case.points))
    paper = equation_9_bytes(math.prod(case.points), comm.size, max(1, case.batch), real_bytes(case))
    raise mpi.CollectiveError(
        f"a box of {box} points in {case.precision} precision needs {need / 2**30:.1f} GiB a rank on {comm.size} "
        f"rank(s) (Eq. 9 of GESTS: {paper / 2**30:.1f}), there are {room / 2**30:.1f} GiB a rank: take more nodes, a "
        "smaller grid" + ("" if case.precision == "single" else ", or --precision single")
    )


def spectrum_of(case: TurbulenceCase) -> Callable[[Any], Any]:
    """E(k) = c k^s exp(-s/2 (k/p)^2), peak at p, that holds 3/2 of the square of initial.velocity."""
    peak = case.initial.wavenumber * 2 * math.pi / max(case.lengths)
    s = case.initial.slope
    # The integral of k^s exp(-s/2 (k/p)^2) over k > 0.
    whole = 0.5 * math.gamma((s + 1) / 2) * (2 * peak**2 / s) ** ((s + 1) / 2)
    factor = 1.5 * case.initial.velocity**2 / whole
    return lambda k: factor * k**s * np.exp(-s / 2 * (k / peak) ** 2)


def tuned(case: TurbulenceCase, comm: MPI.Intracomm, device: Any) -> Record:
    """The process grid, Q and exchanges of a case: as it says, else the fastest in transforms of three variables.

    One rank has nothing to choose. (collective)
    """
    if comm.size == 1:
        return {"process_grid": case.process_grid.replace("auto", "1x1"), "batch": max(1, case.batch)}
    nx, ny, nz = case.points
    plan = weft.fft.Plan(
        (nz, ny, nx),
        comm,
        dtype=np.float32 if case.precision == "single" else np.float64,
        process_grid=case.process_grid,
        batch=case.batch or "auto",
        variables=3,
        exchange=case.exchange,
        modes_x=kept_modes_x(nx, case.dealiasing),
        device=device,
    )
    return plan.tuning


def make_solver(case: TurbulenceCase, choice: Record, comm: MPI.Intracomm, device: Any) -> Any:
    """The solver a case asks for, without a flow yet. (collective)"""
    exchange = tuple(
        case.exchange if comm.size == 1 else choice[key] or case.exchange for key in ("row_exchange", "column_exchange")
    )
    chosen = {
        "courant": None if case.time.dt > 0 else case.time.courant,
        "scalars": [weft.turbulence.Scalar(schmidt, case.scalars.gradient) for schmidt in case.scalars.schmidt],
        "process_grid": choice["process_grid"],
        "batch": choice["batch"],
        "exchange": exchange,
        "device": device,
    }
    return weft.turbulence.Solver(case.points, comm=comm, **settings(case) | chosen)


def set_initial(case: TurbulenceCase, solver: Any) -> Record | None:
    """The flow at the beginning; what a checkpoint said of itself where it comes from one. (collective)"""
    initial = case.initial
    if initial.checkpoint:
        return dict(_weft.turbulence.read_checkpoint(solver._core, initial.checkpoint))
    if initial.field == "taylor-green":
        solver.set_taylor_green(initial.velocity)
    elif initial.field == "taylor-green-2d":
        solver.set_taylor_green(initial.velocity, two_dimensional=True)
    elif initial.field == "abc":
        solver.set_abc((initial.velocity,) * 3, initial.wavenumber)
    else:
        solver.set_random(spectrum_of(case), case.seed)
    if case.scalars.field == "random":
        for number in range(len(case.scalars.schmidt)):
            solver.set_random_scalar(spectrum_of(case), number, case.seed)
    return None


class Checkpoints:
    """Writes a run's checkpoints, and knows the last."""

    def __init__(self, case: TurbulenceCase, solver: Any, folder: Path, last: str) -> None:
        self.case, self.solver, self.last = case, solver, last
        self.folder = str(case.checkpoint.directory or folder / "checkpoints")
        self.written_at = -1
        self.seconds: list[float] = []
        self.text = json.dumps({"case": case.model_dump(by_alias=True), "versions": versions()})

    def write(self) -> str:
        """Writes one, unless this step has one; its path. (collective)"""
        if self.written_at != self.solver.steps:
            files = self.case.checkpoint.files
            per_file = int(files) if files.isdigit() else {"node": 0, "one": 2**31 - 1}[files]
            begin = time.perf_counter()
            self.last = _weft.turbulence.write_checkpoint(
                self.solver._core,
                self.folder,
                self.text,
                per_file,
                self.case.checkpoint.turns,
                self.case.checkpoint.keep,
            )
            self.seconds.append(time.perf_counter() - begin)
            self.written_at = self.solver.steps
        return self.last


class Profile:
    """Where the time of some steps goes: by the recorder's categories, and the parts of GESTS's Table 3."""

    def __init__(self, solver: Any) -> None:
        self.solver = solver
        self.steps = 0
        self.seconds = 0.0
        self.parts = dict.fromkeys(PARTS.values(), 0.0)
        self.categories = dict.fromkeys(trace.categories(), 0.0)

    def step(self) -> float:
        """Takes a step; its seconds. Steps after the first PROFILED are not looked into."""
        if self.steps >= PROFILED:
            begin = time.perf_counter()
            self.solver.step()
            return time.perf_counter() - begin
        before = trace.categories() if trace.enabled() else {}
        found = self.solver.measure()
        for category, seconds in trace.categories().items():
            self.categories[category] += seconds - before.get(category, 0.0)
        for name, part in PARTS.items():
            self.parts[part] += found[name]
        self.steps += 1
        self.seconds += found["total"]
        return float(found["total"])


def run(case: TurbulenceCase, comm: MPI.Intracomm, display: Display, folder: Path, asked: Any) -> Record:
    """Runs a case on all ranks of `comm` (collective): its record, the same on every rank.

    `asked.number` becomes a signal's number when the run is to stop: Interrupted, after a checkpoint.
    """
    clock = Stopwatch(comm)
    device = weft.device.open(case.device)
    require_memory(case, device, comm)
    reference = read_reference(case.reference, comm) if case.reference else None
    with clock("solver_seconds"):
        display.phase("solver: process grid, exchanges, transforms")
        choice = tuned(case, comm, device)
        solver = make_solver(case, choice, comm, device)
    with clock("initial_seconds"):
        display.phase("initial field")
        began = set_initial(case, solver)
    record: Record = {
        "case": case.model_dump(by_alias=True),
        "versions": versions(transforms_on=device),
        "machine": machine(device, comm),
        "choices": {**solver.choices, **{k: v for k, v in choice.items() if k not in solver.choices}},
        "timings": clock.seconds,
        "figures": sizes(case, solver, began, comm),
        "statistics": {},
    }
    display.header(record)
    checkpoints = Checkpoints(case, solver, folder, began["path"] if began else "")
    Run(case, comm, display, folder, solver, checkpoints, record, asked, reference).go(began)
    return record


@dataclasses.dataclass
class Run:
    """A run on its way."""

    case: TurbulenceCase
    comm: MPI.Intracomm
    display: Display
    folder: Path
    solver: Any
    checkpoints: Checkpoints
    record: Record
    asked: Any
    reference: Record | None

    def go(self, began: Record | None) -> None:
        """Steps until the end. (collective)"""
        case, solver = self.case, self.solver
        since = solver.steps if began else None
        open_folder(self.folder, self.comm)
        scalars = len(case.scalars.schmidt)
        self.files = Files(self.folder, scalars, case.statistics.hdf5, since) if self.comm.rank == 0 else None
        self.history: list[Record] = []
        self.goal = Goal(case.time.steps, case.time.end, solver.steps, solver.time)
        self.spectra_done = self.points_done = -1
        self.statistics_seconds = 0.0
        profile = Profile(solver)
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
                if due(done, case.checkpoint.every):
                    self.checkpoints.write()
                show(int(1e6 * self.goal.fraction(solver.steps, solver.time)))
                signal = self.comm.allreduce(self.asked.number, MPI.MAX)
        except weft.turbulence.BlownUp as error:
            self.blown_up(error)
        seconds = self.comm.allreduce(time.perf_counter() - begin, MPI.MAX)
        last = signal == 0 and case.statistics.at_end
        self.sample(True, spectra=last, points=last)
        if (signal == 0 and case.checkpoint.at_end) or (signal != 0 and case.checkpoint.on_signal):
            self.checkpoints.write()
        if case.output.fields and signal == 0:
            write_fields(self.folder, solver, case.lengths, self.comm)
        self.finish(step_seconds, seconds, profile)
        self.display.result(self.record)
        if signal != 0:
            raise Interrupted(signal, self.record, self.checkpoints.last if case.checkpoint.on_signal else "")

    def timed_step(self) -> float:
        """The first step: what is set up on first use is in its time, so it is not profiled."""
        begin = time.perf_counter()
        self.solver.step(1)
        return time.perf_counter() - begin

    def progress_line(self, *_: float) -> str:
        """Where the run is; energy, dissipation and divergence as of the last row of statistics.csv."""
        last = self.history[-1] if self.history else {}
        words = f"step {self.solver.steps}, t = {self.solver.time:.4g}, Courant {self.solver.courant:.2f}"
        if last:
            words += f", energy {last['energy']:.4g}, dissipation {last['dissipation']:.4g}"
            words += f", divergence {last['divergence']:.0e}"
        return words

    def sample(self, row: bool = True, spectra: bool = False, points: bool = False) -> None:
        """Statistics of now, as far as they are due and not there yet. (collective)"""
        case, solver = self.case, self.solver
        now = (solver.steps, solver.time)
        row = row and not (self.history and self.history[-1]["step"] == solver.steps)
        spectra = spectra and self.spectra_done != solver.steps
        points = points and self.points_done != solver.steps
        if not (row or spectra or points):
            return
        begin = time.perf_counter()
        found = statistics.spectra(solver)
        if row:
            scales = found.scales()
            self.history.append({"step": solver.steps, "time": solver.time, **dataclasses.asdict(scales)})
            if self.files is not None:
                self.files.add_scales(now, solver.dt, solver.courant, scales, found, solver.energy_input)
        moved = None
        if points or (spectra and case.statistics.transfer):
            middle = case.points[2] // 2 if case.output.slice and points else -1
            more = statistics.points(
                solver,
                self.comm,
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

    def keep_points(self, now: tuple[int, float], points: statistics.Points) -> None:
        """Distributions and the slice, in files and in the record."""
        if self.files is not None:
            self.files.add_points(now, points)
            if points.enstrophy_slice is not None:
                with whole(self.folder / "enstrophy_slice.npy") as place:
                    np.save(place, points.enstrophy_slice)
        kept = {}
        for name, d in points.distributions.items():
            lower, upper, density = zip(*filled(d), strict=True)
            kept[name] = {
                "lower": lower, "upper": upper, "density": density, "moments": d.moments, "scale": d.scale,
                "skewness": d.skewness if math.isfinite(d.skewness) else None,
                "flatness": d.flatness if math.isfinite(d.flatness) else None, "largest": d.largest,
            }  # fmt: skip
        self.record["statistics"]["distributions"] = kept
        self.record["statistics"]["extra_bytes_per_rank"] = self.comm.allreduce(points.extra_bytes, MPI.MAX)
        if points.enstrophy_slice is not None:
            self.record["statistics"]["slice"] = picture(points.enstrophy_slice)

    def blown_up(self, error: Any) -> NoReturn:
        """Says where a run went wrong and what to go on from. (collective)"""
        words = f"{error}; {after(self.checkpoints.last)}; take a smaller time.courant or time.dt"
        raise mpi.CollectiveError(words) from None

    def finish(self, step_seconds: list[float], seconds: float, profile: Profile) -> None:
        """What the run took and what follows from it. (collective)"""
        each = np.array(step_seconds)
        if each.size:
            self.comm.Allreduce(MPI.IN_PLACE, each, MPI.MAX)
        steady = each[1:] if each.size > 1 else each  # the first sets up on first use
        best = float(steady.min()) if steady.size else math.nan
        median = float(np.median(steady)) if steady.size else math.nan
        profiled = self.comm.allreduce(profile.seconds, MPI.MAX)
        timings, figures = self.record["timings"], self.record["figures"]
        timings.update(
            run_seconds=seconds,
            steps_seconds=float(each.sum()),
            seconds_per_step=median,
            best_step_seconds=best,
            statistics_seconds=self.comm.allreduce(self.statistics_seconds, MPI.MAX),
            checkpoint_seconds=self.comm.allreduce(sum(self.checkpoints.seconds), MPI.MAX),
            profiled_seconds=profiled,
            profiled_steps=profile.steps,
            breakdown=breakdown(profile.categories, self.comm),
            parts=breakdown(profile.parts, self.comm),
        )
        figures["steps"] = int(each.size)
        figures["final_time"] = self.solver.time
        # NaN is no JSON.
        figures["grid_points_per_second"] = figures["grid_points"] / median if median > 0 else None
        figures["best_grid_points_per_second"] = figures["grid_points"] / best if best > 0 else None
        for key in ("seconds_per_step", "best_step_seconds"):
            timings[key] = timings[key] if math.isfinite(timings[key]) else None
        figures["checkpoint"] = self.checkpoints.last
        figures["resident_bytes_per_rank"] = self.comm.allreduce(
            1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, MPI.MAX
        )
        self.record["statistics"]["history"] = thinned(self.history)
        if self.reference is not None:
            self.record["statistics"]["reference"] = compared(self.history, self.reference)


def sizes(case: TurbulenceCase, solver: Any, began: Record | None, comm: MPI.Intracomm) -> Record:
    """What the problem counts, and its memory predicted and measured. (collective)"""
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
        "began_from": began["path"] if began else None,
        "formulas": {
            "equation_9_bytes_per_rank": "(8 + 2 Q + 1/2) N^3 / (2 P) complex numbers; GESTS Eq. 9",
            "grid_points_per_second": "N^3 / median seconds of a step; GESTS section 4.1",
            "message_bytes": "Q N^3 / (2 P R) complex numbers of a transpose among R ranks; GESTS section 5.1",
        },
    }
