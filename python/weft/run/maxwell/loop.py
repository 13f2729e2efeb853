"""`weft run maxwell`: sets a case up, measures the machine, steps, watches the energy, and counts.

The record it returns is what run.json holds: `case`, `versions`, `machine`, `choices`, `timings`, `figures`,
`statistics`, with units in the names.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
from mpi4py import MPI

import weft
from weft import trace
from weft.cases import MaxwellCase
from weft.cases.schema import settings
from weft.exact.maxwell import COMPONENTS
from weft.exact.mie import Sphere
from weft.mesh_io.probes import Probes
from weft.model import maxwell_formulas as formulas
from weft.mpi import CollectiveError
from weft.run.elements import interpolated, places
from weft.run.energy import Meter
from weft.run.machine import machine, rates, versions
from weft.run.maxwell import problem
from weft.run.record import Display, Record, Stopwatch, breakdown, memory_bytes
from weft.run.stepping import plane

PROFILED = 10  # steps whose spans are recorded for the breakdown by routine
COMPARED = 20  # steps timed with each path
CHECKS = 20  # times that a run looks at its energy, unless told
LOOKING = 0.1  # of the steps' time, and a second: what looking at the error on the way may take
EXACT = 400  # times at which the energies of an exact solution are drawn


class Run:
    """A case on its mesh, ready to step. Making one is collective."""

    def __init__(self, case: MaxwellCase, comm: MPI.Intracomm, display: Display) -> None:
        self.case, self.comm = case, comm
        clock = Stopwatch(comm)
        with clock("mesh_seconds"):
            display.phase("mesh: reading and sharing out" if case.mesh.file else "mesh: generating")
            self.mesh = problem.make_mesh(case, comm)
        with clock("operator_seconds"):
            display.phase("operator: numbering, exchange pattern, geometric factors")
            self.geometry = problem.Geometry(self.mesh, case.order)
            self.materials, self.regions = problem.materials(case, self.geometry)
            self.conditions = problem.boundaries(case, self.mesh)
            self.total = problem.total_field(case, self.geometry)
            self.damping = problem.damping(case, self.geometry)
            self.solver = self.make_solver(case.exchange)
        with clock("initial_seconds"):
            solution = problem.exact(case, self.geometry, self.materials, self.regions)
            filled = np.array([values != problem.VACUUM for values in self.materials.values()])[self.regions]
            self.solution = None if solution is None else problem.Exact(solution, self.geometry, filled, self.total)
            self.start = problem.initial_fields(case, self.geometry, self.solution)
            self.probes = Probes(self.mesh, case.order, case.probes, COMPONENTS)
        self.timings = clock.seconds
        self.dt, self.steps = time_step(case, self.solver.dt_limit)
        #: of the operator, in all steps of `advance`: five a step of Runge-Kutta
        self.applications = 0

    def make_solver(self, exchange: str) -> Any:
        """A solver of the case with some exchange. (collective)"""
        case = self.case
        waves, dipoles = problem.sources(case)
        return weft.maxwell.Solver(
            self.mesh,
            materials=self.materials,
            regions=self.regions,
            boundaries=self.conditions,
            waves=waves,
            total_field=self.total,
            dipoles=dipoles,
            damping=self.damping,
            **settings(case) | {"exchange": exchange},
        )

    def reset(self, solver: Any) -> None:
        """The fields and the time that the case starts from."""
        solver.set_fields(self.start.astype(solver.dtype))
        solver.time = 0.0

    def advance(self, count: int) -> float:
        """Steps, and the seconds of them on this rank; with probes one by one."""
        seconds = 0.0
        for part in [1] * count if self.probes.any else [count]:
            begin = time.perf_counter()
            take(self.solver, part, self.dt)
            seconds += time.perf_counter() - begin
            self.applications += self.solver.applications
            if self.probes.any:
                self.probes.take(self.solver.time, self.solver.host_fields() if self.probes.holds else None)
        return seconds

    def error_norms(self, where: Any = None) -> tuple[float, float]:
        """Energy norms of the difference from the exact solution, and of the solution, at the solver's time.

        Over the elements ``where`` [E] says so, by default all but those of a matched layer, where fields are damped.

        sqrt of the integral of eps |E|^2 + mu |H|^2, by quadrature of an order three higher: at the points themselves
        the error is smaller than between them. (collective)
        """
        assert self.solution is not None
        order = min(self.case.order + 3, 15)
        fine = interpolated(self.solver.host_fields(), self.case.order, order)
        mass = np.asarray(self.mesh.mass_matrix(order)).reshape(len(fine), -1)
        values = np.array(list(self.materials.values()))[self.regions]
        points = places(self.mesh, order)
        if where is None:
            where = np.ones(len(fine), bool) if self.damping is None else ~self.damping.any(axis=(1, 2, 3, 4))
        squares = np.zeros(2)
        for e in range(len(fine)):  # one element at a time: exact solutions take much memory a point
            if not where[e]:
                continue
            exact = self.solution.fields(self.solver.time, points[:, e : e + 1], slice(e, e + 1))[:, 0]
            exact *= self.case.initial.amplitude
            weight = np.repeat(values[e, :2], 3) @ np.stack([(fine[e] - exact) ** 2, exact**2], axis=1).reshape(6, -1)
            squares += weight.reshape(2, -1) @ mass[e]
        total = self.comm.allreduce(squares, MPI.SUM)
        return float(np.sqrt(total[0])), float(np.sqrt(total[1]))


def take(solver: Any, count: int, dt: float) -> None:
    """Steps of a length that the run has already warned of if there is reason to. (collective)"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        solver.step(count, dt)


def time_step(case: MaxwellCase, limit: float) -> tuple[float, int]:
    """The time step and how many: to `time.end` in equal steps no longer than asked for, or `time.steps`."""
    asked = case.time.dt if case.time.dt > 0 else case.time.courant * limit
    if case.time.end == 0.0:
        return asked, case.time.steps
    steps = max(1, math.ceil(case.time.end / asked * (1 - 1e-12)))
    return case.time.end / steps, steps


class Errors:
    """The error against the exact solution as a run goes on, where one is known."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.known = run.solution is not None and not problem.not_exact(run.case, run.conditions)
        self.spent = 0.0  # seconds, the slowest rank's
        self.found: dict[str, list[float]] = {"time": [], "energy_norm": [], "relative": []}

    def look(self) -> None:
        """Adds the error of now: the energy norm of the difference, and over that of the solution. (collective)"""
        if not self.known:
            return
        begin = time.perf_counter()
        difference, whole = self.run.error_norms()
        row = self.run.solver.time, difference, difference / whole if whole > 0 else math.inf
        for values, value in zip(self.found.values(), row, strict=True):
            values.append(value)
        self.spent += self.run.comm.allreduce(time.perf_counter() - begin, MPI.MAX)


def exact_energies(this: Run, end: float) -> Record:
    """Electric and magnetic energy of the exact solution at EXACT times up to `end`. (collective)

    By the quadrature of the points. A field Re(P exp(-i omega t)) is |exp(-i omega t)| (Re P cos + Im P sin), so its
    energies at every time follow from three integrals. Empty for the Mie series, whose domain ends in a layer.
    """
    assert this.solution is not None
    harmonic = this.solution.solution
    if isinstance(harmonic, Sphere):
        return {}
    omega, decay = harmonic.omega.real, harmonic.omega.imag
    quarter = 0.5 * math.pi / omega if omega else 0.0
    points, amplitude = this.geometry.points, this.case.initial.amplitude
    even = amplitude * this.solution.fields(0.0, points)
    odd = amplitude * this.solution.fields(quarter, points) * math.exp(-decay * quarter)
    values = np.array(list(this.materials.values()))[this.regions]
    weight = values[:, :2, None] * np.asarray(this.mesh.mass_matrix(this.case.order)).reshape(len(values), 1, -1)
    products = [
        0.5 * np.einsum("fcep,efp->f", (a * b).reshape(2, 3, *a.shape[1:]), weight)
        for a, b in ((even, even), (even, odd), (odd, odd))
    ]
    square, mixed, other = this.comm.allreduce(np.array(products), MPI.SUM)
    at = np.linspace(0.0, end, EXACT)
    c, s = np.cos(omega * at), np.sin(omega * at)
    electric, magnetic = np.exp(2 * decay * at) * (
        square[:, None] * c * c + 2 * mixed[:, None] * c * s + other[:, None] * s * s
    )
    return {"time": at.tolist(), "electric_energy": electric.tolist(), "magnetic_energy": magnetic.tolist()}


STATISTICS = ("step", "time", "electric_energy", "magnetic_energy")


def run(case: MaxwellCase, comm: MPI.Intracomm, display: Display) -> tuple[Record, Run]:
    """Runs a case on all ranks of `comm` (collective): its record, the same on every rank, and the run.

    The record's `figures["stable"]` is False where the energy grew beyond the scheme's bound; the run ends there, and
    `figures["unstable"]` says when and why.
    """
    this = Run(case, comm, display)
    solver = this.solver
    record: Record = {
        "case": case.model_dump(by_alias=True),
        "versions": versions(),
        "machine": machine(solver.device, comm),
        "choices": choices(this),
        "timings": this.timings,
        "figures": sizes(this),
        "statistics": {name: [] for name in STATISTICS},
    }
    display.header(record)
    if case.time.integrator == "runge-kutta" and this.dt > this.solver.dt_limit * (1 + 1e-9):
        display.warn(
            f"time.dt or time.courant: the step {this.dt:.6g} is above the limit {this.solver.dt_limit:.6g} of this "
            "mesh, order and materials; the fields may grow without bound"
        )
    display.phase("machine: measuring bandwidth and peak")
    begin = time.perf_counter()
    record["figures"].update(rates(solver.device, case.precision, comm))
    record["timings"]["machine_seconds"] = comm.allreduce(time.perf_counter() - begin, MPI.MAX)
    record["figures"].update(steps_done=0, stable=True, unstable="")
    try:
        display.phase("warming up")
        profile(this, record)
        display.phase("stepping")
        march(this, record, display)
    except CollectiveError as error:
        if "unstable" not in str(error):
            raise
        record["figures"].update(stable=False, unstable=str(error))  # the same on all ranks
        record["timings"].update(profiled_seconds=0.0, breakdown={})
        display.result(record)
        return record, this
    compare(this, record)
    if case.output.slice != "none":
        name, values = component(solver.host_fields(), case.output.slice)
        record["statistics"]["slice"] = plane(this.mesh, case.order, values, name, solver.time, case.output)
    if case.output.compare_paths:
        display.phase("exchange: timing every path")
        paths(this, record)
    display.result(record)
    return record, this


def choices(this: Run) -> Record:
    """What was chosen and why."""
    solver = this.solver
    asked = this.case.kernels != "auto"
    return {
        "flux": this.case.flux,
        "integrator": this.case.time.integrator,
        "kernels": f"{solver.kernels}: {'asked for' if asked else 'what suits this device'}",
        "exchange": solver.tuning,
    }


def sizes(this: Run) -> Record:
    """What the problem counts, and the time step."""
    solver, mesh, case, comm = this.solver, this.mesh, this.case, this.comm
    count = np.bincount(this.regions, minlength=len(this.materials)).astype(np.int64)
    count = np.asarray(comm.allreduce(count, MPI.SUM))
    return {
        "mesh": mesh.source,
        "straight": bool(mesh.straight),
        "elements": solver.elements,
        "order": case.order,
        "points": solver.points,
        "ranks": comm.size,
        "elements_by_material": {n: int(c) for n, c in zip(this.materials, count, strict=True) if c},
        "boundaries": this.conditions,
        "time_step": this.dt,
        "time_step_limit": solver.dt_limit,
        "courant": this.dt / solver.dt_limit,
        "steps": this.steps,
    }


def profile(this: Run, record: Record) -> None:
    """Warm-up steps, and then some with the recorder on: where the time goes, by category and by routine. (collective)

    The paper's Table 3. Recording takes time itself, so these steps are not those that are timed.
    """
    case, comm, solver = this.case, this.comm, this.solver
    this.reset(solver)
    if case.time.warmup:
        take(solver, case.time.warmup, this.dt)
    recording = trace.enabled()
    if not recording:
        trace.start(comm)
    before = trace.categories(), trace.names()
    comm.Barrier()
    begin = time.perf_counter()
    take(solver, PROFILED, this.dt)
    seconds = comm.allreduce(time.perf_counter() - begin, MPI.MAX)
    categories, names = trace.categories(), trace.names()
    if not recording:
        trace.stop()
    spent = {k: v - before[0].get(k, 0.0) for k, v in categories.items()}
    by_name = {k: v - before[1].get(k, 0.0) for k, v in names.items()}
    everywhere = sorted({k for rank in comm.allgather([k for k, v in by_name.items() if v > 0]) for k in rank})
    record["timings"].update(
        profiled_seconds=seconds,
        breakdown=breakdown(spent, comm),
        routines=breakdown({k: by_name.get(k, 0.0) for k in everywhere}, comm),
    )
    record["figures"]["profiled_steps"] = PROFILED
    record["figures"]["communication_share"] = communication_share(record["timings"])


def communication_share(timings: Record) -> float:
    """The part of the profiled steps spent in MPI and in copies between host and device, mean over ranks."""
    spent = timings["breakdown"]
    return float((spent["mpi"]["mean_seconds"] + spent["copy"]["mean_seconds"]) / timings["profiled_seconds"])


def march(this: Run, record: Record, display: Display) -> None:
    """The run itself: all steps, the energy every so often, and the energy that the machine takes. (collective)"""
    case, comm, solver = this.case, this.comm, this.solver
    this.reset(solver)
    this.probes.take(0.0, this.solver.host_fields() if this.probes.holds else None)
    statistics, figures = record["statistics"], record["figures"]
    watch(this, statistics, 0)
    errors = Errors(this)
    errors.look()
    show = display.progress(this.steps, lambda step, total, energy: f"step {step} of {total}, energy {energy:.6e}")
    every = case.output.every or max(1, math.ceil(this.steps / CHECKS))
    meter = Meter(solver.device, comm)
    meter.start()
    seconds, done = 0.0, 0
    while done < this.steps:
        count = min(every, this.steps - done)
        comm.Barrier()
        seconds += this.advance(count)
        done += count
        figures["steps_done"] = done
        meter.sample()
        show(done, watch(this, statistics, done))
        if done == this.steps or comm.bcast(errors.spent < 1.0 + LOOKING * seconds):
            errors.look()
    if errors.found["time"]:
        statistics["error"] = errors.found
        statistics["exact"] = exact_energies(this, statistics["time"][-1])
    slowest = comm.allreduce(seconds, MPI.MAX)
    figures["energy_to_solution"] = meter.stop()
    record["timings"].update(steps_seconds=slowest, seconds_per_step=slowest / done)
    finish(this, record)


def watch(this: Run, statistics: Record, step: int) -> float:
    """Adds the fields' energy at a step; its sum. (collective)"""
    electric, magnetic = this.solver.energies()
    for name, value in zip(STATISTICS, (step, this.solver.time, electric, magnetic), strict=True):
        statistics[name].append(value)
    return float(electric + magnetic)


def finish(this: Run, record: Record) -> None:
    """What follows from the times. (collective)"""
    figures, case, solver = record["figures"], this.case, this.solver
    per_step = record["timings"]["seconds_per_step"]
    applications = this.applications / figures["steps_done"]
    work = formulas.step_flops(case.order, solver.points, applications)
    # The solver counts five stages; what the exponential integrator adds to the operator's applications is left out.
    counted = {name: value * applications / formulas.STAGES for name, value in solver.figures.items()}
    figures["memory_bytes"] = memory_bytes(solver.memory_bytes, this.comm)
    bound = max(
        counted["bytes"] / figures["bandwidth_bytes_per_second"], counted["flops"] / figures["peak_flops_per_second"]
    )
    energy = figures["energy_to_solution"]["joules"]
    figures.update(
        memory_bytes_per_point=sum(figures["memory_bytes"].values()) / solver.points,
        applications_per_step=applications,
        step_flops=work.value,
        gflops=work.value / per_step / 1e9,
        seconds_per_step_and_point=per_step / solver.points,
        points_per_second_per_rank=solver.points / per_step / this.comm.size,
        step_flops_done=counted["flops"],
        step_bytes=counted["bytes"],
        step_bytes_sent=counted["bytes_sent"],
        step_messages=counted["messages"],
        achieved_bytes_per_second=counted["bytes"] / per_step,
        roofline_fraction=bound / per_step,
        joules_per_step=None if energy is None else energy / figures["steps_done"],
        formulas={
            "gflops": f"{work.text} / time of a step; {work.source}",
            "seconds_per_step_and_point": "time of a step / n, n = E (N+1)^3 points of all ranks",
            "roofline_fraction": "max(bytes / bandwidth, flops / peak) / time of a step; docs/maxwell.md",
        },
    )


def compare(this: Run, record: Record) -> None:
    """The error at the end, the last of those that were looked at; or why it is not known."""
    figures = record["figures"]
    if "error" in record["statistics"]:
        found = record["statistics"]["error"]
        figures["energy_norm_error"], figures["relative_error"] = found["energy_norm"][-1], found["relative"][-1]
    elif this.solution is not None:
        figures["no_error_because"] = problem.not_exact(this.case, this.conditions)


def component(fields: Any, name: str) -> tuple[str, Any]:
    """A component by name (ex … hz), or the magnitude of e or h: as it is written, and its values [E][n][n][n]."""
    if len(name) == 2:
        return name.capitalize(), fields[:, ("ex", "ey", "ez", "hx", "hy", "hz").index(name)].astype(float)
    first = 0 if name == "e" else 3
    return f"|{name.upper()}|", np.sqrt((fields[:, first : first + 3].astype(float) ** 2).sum(axis=1))


def paths(this: Run, record: Record) -> None:
    """Time of a step and share of communication with every path that works here (the paper's Fig. 9). (collective)"""
    comm, case = this.comm, this.case
    figures = record["figures"]
    if comm.size == 1:
        figures["paths"] = {}
        figures["paths_note"] = "one rank exchanges nothing with others"
        return
    schedule = this.solver.tuning["faces"]["chosen"].partition(":")[0]
    usable = [path for path, works, _ in weft.exchange.paths(this.solver.device, comm) if works]
    rows: Record = {}
    chosen = this.solver
    for path in usable:
        # The chosen solver stays as it is: its fields are what is written.
        solver = this.make_solver(f"{schedule}:{path}")
        this.reset(solver)
        take(solver, max(1, case.time.warmup), this.dt)
        comm.Barrier()
        begin = time.perf_counter()
        take(solver, COMPARED, this.dt)
        per_step = comm.allreduce(time.perf_counter() - begin, MPI.MAX) / COMPARED
        this.solver = solver
        shares: Record = {"timings": {}, "figures": {}}
        profile(this, shares)
        this.solver = chosen
        rows[path] = {
            "seconds_per_step": per_step,
            "communication_share": shares["figures"]["communication_share"],
        }
    figures["paths"] = rows
    if this.solver.device.is_host:
        figures["paths_note"] = "host memory: staged copies once more where direct does not"
