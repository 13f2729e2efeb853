"""A case of `weft run maxwell` on its mesh: the solver, the initial fields and the time step."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

import weft
from weft import maxwell, program
from weft.arrays import Values
from weft.cases.maxwell import MaxwellCase
from weft.cases.schema import settings
from weft.exact.maxwell import COMPONENTS
from weft.mesh import Mesh
from weft.mesh_io.probes import Probes
from weft.mpi import CollectiveError
from weft.run import elements
from weft.run.maxwell.exact import Exact, exact
from weft.run.maxwell.memory import least_bytes
from weft.run.maxwell.regions import VACUUM, Geometry, boundaries, damping, materials, total_field
from weft.run.memory import require_memory
from weft.run.stepping import steps_to
from weft.solver_on_elements import Checkpoint


def make_mesh(case: MaxwellCase, comm: MPI.Intracomm) -> Mesh:
    """The mesh that a case describes, distributed over the ranks. (collective)"""
    mesh, needs = case.mesh, partial(least_bytes, case)
    if mesh.file or mesh.shape == "box":
        return elements.make_mesh(case, comm, needs)
    if mesh.shape == "cylinder":
        count = (mesh.side**2 + 4 * mesh.side * mesh.layers) * mesh.slices
        require_memory(case, count, needs(count), comm)
        made = weft.Mesh.cylinder(
            mesh.radii[0],
            mesh.length,
            side=mesh.side,
            layers=mesh.layers,
            slices=mesh.slices,
            periodic=mesh.periodic[2],
            comm=comm,
            geometry_order=mesh.geometry_order or None,
        )
    else:
        count = mesh.side**3 + 6 * mesh.side**2 * mesh.layers * len(mesh.radii)  # without the cube around it
        require_memory(case, count, needs(count), comm)
        made = weft.Mesh.sphere(
            mesh.radii,
            side=mesh.side,
            layers=mesh.layers,
            half_width=mesh.half_width,
            box_layers=mesh.box_layers,
            comm=comm,
            geometry_order=mesh.geometry_order or None,
        )
    return elements.moved(case, made)


class Problem:
    """A case on its mesh, with its solver ready to start. Construction is collective."""

    def __init__(self, case: MaxwellCase, mesh: Mesh) -> None:
        self.case, self.mesh, self.comm = case, mesh, mesh.comm
        self.geometry = Geometry(mesh, case.order)
        self.materials, self.regions = materials(case, self.geometry)
        self.conditions = boundaries(case, mesh)
        self.total = total_field(case, self.geometry)
        self.damping = damping(case, self.geometry)
        self.solver = self.make_solver(case.exchange)
        #: applications of the operator in all steps of `advance`: five per Runge-Kutta step
        self.applications = 0

    def make_solver(self, exchange: str) -> maxwell.Solver:
        """A solver for the case with the given exchange. (collective)"""
        case = self.case
        waves, dipoles = sources(case)
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

    def begin(self) -> Checkpoint | None:
        """Sets the initial fields of the case; returns the checkpoint that they come from, if any. (collective)"""
        case, solver = self.case, self.solver
        solution = exact(case, self.geometry, self.materials, self.regions)
        filled = np.array([values != VACUUM for values in self.materials.values()])[self.regions]
        self.solution = None if solution is None else Exact(solution, self.geometry, filled, self.total)
        self.probes = Probes(self.mesh, case.order, case.probes, COMPONENTS)
        self.began: Checkpoint | None = None
        if case.initial.checkpoint:
            self.began = solver.restore(case.initial.checkpoint)
            self.start = np.array(solver.host_fields())
        else:
            self.start = initial_fields(case, self.geometry, self.solution)
            elements.require_finite("initial.field", self.start, self.comm)
            self.reset(solver)
        self.dt, self.steps = time_step(case, solver.dt_limit, solver.time)
        return self.began

    def rewind(self) -> None:
        """Resets the solver to the start of the case, bit for bit. (collective)"""
        if self.began is not None:
            self.solver.restore(self.began.path)
        else:
            self.reset(self.solver)

    def reset(self, solver: maxwell.Solver) -> None:
        """Gives a solver the initial fields and time of the case; matched layers start at rest."""
        solver.set_fields(self.start.astype(solver.dtype))
        solver.start(*((self.began.time, self.began.step) if self.began is not None else ()))

    def advance(self, count: int) -> float:
        """Takes steps and returns their seconds on this rank; with probes, one step at a time."""
        seconds = 0.0
        for part in [1] * count if self.probes.any else [count]:
            begin = time.perf_counter()
            take(self.solver, part, self.dt)
            seconds += time.perf_counter() - begin
            self.applications += self.solver.applications
            if self.probes.any:
                self.probes.take(self.solver.time, self.solver.host_fields() if self.probes.holds else None)
        return seconds

    def error_norms(self, where: npt.NDArray[np.bool_] | None = None) -> tuple[float, float]:
        """Energy norms of the difference from the exact solution, and of the solution, at the solver's time.

        The norm is the square root of the integral of eps |E|^2 + mu |H|^2, over the elements where ``where`` [E] is
        true; by default all except those of a matched layer, which damps the fields. The quadrature has an order three
        higher, because the error is smaller at the points than between them. (collective)
        """
        assert self.solution is not None
        order = min(self.case.order + 3, 15)
        fine = elements.interpolated(self.solver.host_fields(), self.case.order, order)
        mass = np.asarray(self.mesh.mass_matrix(order)).reshape(len(fine), -1)
        values = np.array(list(self.materials.values()))[self.regions]
        points = elements.places(self.mesh, order)
        if where is None:
            damped = np.zeros(len(fine), bool) if self.damping is None else self.damping.any(axis=(1, 2, 3, 4))
            where = np.logical_not(damped)
        squares = np.zeros(2)
        together = max(1, 8192 // mass.shape[1])  # a few elements at a time: exact solutions need much memory per point
        chosen = np.flatnonzero(where)
        for first in range(0, len(chosen), together):
            some = chosen[first : first + together]
            exact = self.solution.fields(self.solver.time, points[:, some], some) * self.case.initial.amplitude
            for field, (found, wanted) in enumerate(zip(fine[some].swapaxes(0, 1), exact, strict=True)):
                of_material = values[some, field // 3]
                squares += [
                    of_material @ (mass[some] * square).sum(axis=1) for square in ((found - wanted) ** 2, wanted**2)
                ]
        total = self.comm.allreduce(squares, MPI.SUM)
        return float(np.sqrt(total[0])), float(np.sqrt(total[1]))


def take(solver: maxwell.Solver, count: int, dt: float) -> None:
    """Takes steps without repeating the run's warning about their length. (collective)"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        solver.step(count, dt)


def time_step(case: MaxwellCase, limit: float, since: float = 0.0) -> tuple[float, int]:
    """The time step and the number of steps: `time.steps`, or equal steps to `time.end`, no longer than requested.

    `since` is the time of the checkpoint that a run continues from. If the time step is unchanged, the steps are those
    that the original run would have taken. Raises CollectiveError if `since` is not before `time.end`.
    """
    asked = case.time.dt if case.time.dt > 0 else case.time.courant * limit
    end = case.time.end
    if end == 0.0:
        return asked, case.time.steps
    if since >= end * (1 - 1e-12):
        raise CollectiveError(
            f"case key 'time.end': found {end:g}, but the checkpoint is at time {since:g}; allowed: later than that"
        )
    steps = steps_to(end, asked)
    done = since * steps / end
    if abs(done - round(done)) < 1e-6:
        return end / steps, steps - round(done)
    steps = steps_to(end - since, asked)
    return (end - since) / steps, steps


def sources(case: MaxwellCase) -> tuple[list[maxwell.PlaneWave], list[maxwell.Dipole]]:
    """The plane waves and dipoles of a case, in the form that weft.maxwell.Solver takes."""
    waves, dipoles = [], []
    for source in case.sources.values():
        given = settings(source)
        if source.kind == "plane-wave":
            waves.append(maxwell.PlaneWave(given["direction"], given["field"], source.at, pulse=given["pulse"]))
        else:
            dipoles.append(maxwell.Dipole(source.at, given["moment"], given["pulse"]))
    return waves, dipoles


def initial_fields(case: MaxwellCase, geometry: Geometry, solution: Exact | None) -> Values:
    """The fields [E][6][n][n][n] at time 0 on this rank."""
    initial, n = case.initial, case.order + 1
    points = geometry.points
    if initial.zero:
        values = np.zeros((6, *points[0].shape))
    elif solution is not None:
        values = solution.fields(0.0, points)
    elif initial.field == "random":
        values = _random(geometry, initial.seed)
    else:
        zero = np.zeros(points[0].shape)
        values = np.stack(
            [program.values(program.compiled(text), *points) if text else zero for text in initial.expressions.values()]
        )
    values = initial.amplitude * np.asarray(values, float)
    return np.ascontiguousarray(np.moveaxis(values, 0, 1).reshape(-1, 6, n, n, n))


def _random(geometry: Geometry, seed: int) -> Values:
    """Random fields, uniform in [-1, 1).

    Each element has its own random stream, so the fields do not depend on the number of ranks.
    """
    shape = geometry.points.shape[2]
    draw: Callable[[int], Values] = lambda e: np.random.default_rng((seed, int(e))).uniform(-1, 1, (6, shape))  # noqa: E731
    return np.stack([draw(e) for e in geometry.mesh.element_ids], axis=1)
