"""A case of `weft run flow` on its mesh: the solver, its boundaries, initial fields and exact solution."""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from weft import arrays, flow
from weft.cases.flow import CONDITIONS, BoundarySection, FlowCase, ProbeSection
from weft.cases.schema import settings
from weft.flow_probes import Probes, line, plane
from weft.mesh import Mesh, MeshError
from weft.mpi import CollectiveError
from weft.run import elements
from weft.run.elements import conditions, interpolated, require_finite
from weft.run.flow.memory import least_bytes
from weft.run.flow.values import Function, Values
from weft.run.stepping import steps_to
from weft.solver_on_elements import Checkpoint

__all__ = ["Problem", "Watch", "boundaries", "make_mesh"]

GROWTH = 1.1  # largest growth of a variable step from one to the next
# The conditions implied by the names of boundaries; the letters are those of Nek files.
SPOKEN = {
    "w": "wall", "wall": "wall", "o": "outflow", "outflow": "outflow", "sym": "symmetry", "symmetry": "symmetry",
}  # fmt: skip


def make_mesh(case: FlowCase, comm: MPI.Intracomm) -> Mesh:
    """The mesh that a case describes, distributed over the ranks.

    Raises CollectiveError if the mesh is conjugate, with fluid and solid elements. (collective)
    """
    mesh = elements.make_mesh(case, comm, functools.partial(least_bytes, case))
    solid = comm.allreduce(int((mesh.element_tags == mesh.tag_names.get("solid", -1)).sum()), MPI.SUM)
    if solid and "fluid" in mesh.tag_names:
        raise CollectiveError(
            f"{mesh.source} is a conjugate mesh: {solid} of its {mesh.global_elements} elements are solid, but weft "
            'run flow has no conduction of heat in solids; set mesh.region = "fluid" for the flow in the fluid alone'
        )
    return mesh


def places(probe: ProbeSection) -> npt.NDArray[np.float64]:
    """The points [P][3] of a probe; on a plane those from at to to run fastest."""
    if probe.across:
        return plane(probe.at, probe.to, probe.across, (probe.counts[0], probe.counts[1]))
    return line(probe.at, probe.to, probe.counts[0]) if probe.to else np.array([probe.at])


def boundaries(case: FlowCase, mesh: Mesh) -> dict[str, BoundarySection]:
    """The condition on each boundary of the mesh: the case's, else that implied by its name, else that of "*".
    (collective)"""
    spoken = {
        name: BoundarySection(condition=SPOKEN[name.lower()])  # type: ignore[arg-type]
        for name in mesh.boundary_names
        if name.lower() in SPOKEN
    }
    return conditions(mesh, case.boundaries, spoken, CONDITIONS)


class Problem:
    """A case on its mesh, with its solver ready to start. Construction is collective."""

    def __init__(self, case: FlowCase, mesh: Mesh) -> None:
        self.case, self.mesh, self.comm = case, mesh, mesh.comm
        self.values = Values(case, mesh.comm)
        self.boundaries = boundaries(case, mesh)
        for name in case.statistics.forces:
            if name not in self.boundaries:
                known = ", ".join(self.boundaries) or "none: all its faces are interior or periodic"
                raise CollectiveError(
                    f"case key 'statistics.forces': {mesh.source} has no boundary {name!r}; it has {known}"
                )
        self.solver = self.make_solver(case.exchange)
        try:
            self.probes = Probes(
                self.solver,
                {name: places(probe) for name, probe in case.probes.items()},
                {name: probe.fields for name, probe in case.probes.items()},
            )
        except MeshError as error:
            raise CollectiveError(f"case key 'probes': {error}") from None

    def make_solver(self, exchange: str) -> flow.Solver:
        """A solver for the case with the given exchange. (collective)"""
        case = self.case
        axis = "xyz".index(case.forcing.direction)
        rate = flow.FlowRate(case.forcing.bulk_velocity, tuple(np.eye(3)[axis])) if case.forcing.bulk_velocity else None
        found = settings(case)
        found["pressure"]["single"] = case.solver.cycle_precision != "double"
        return flow.Solver(
            self.mesh,
            viscosity=case.constants["nu"],
            boundaries={name: self.condition(name, given) for name, given in self.boundaries.items()},
            scalars={name: self.scalar(name) for name in case.scalars},
            force=self.force(),
            buoyancy=[b for name in case.scalars if (b := self.buoyancy(name)) is not None],
            flow_rate=rate,
            **found | {"exchange": exchange},
        )

    def condition(self, name: str, given: BoundarySection) -> flow.Condition:
        """The condition of the velocity on a boundary, in the form that the solver takes."""
        if given.condition != "velocity":
            return given.condition
        return "velocity", self.values.three(f"boundaries.{name}.velocity", given.velocity, self.case.exact.velocity)

    def scalar(self, name: str) -> flow.Scalar:
        """A scalar in the form that the solver takes."""
        case, given = self.case, self.case.scalars[name]
        exact = case.exact.scalars.get(name)
        held = {
            boundary: ("value", self.values.one(f"boundaries.{boundary}.scalars.{name}", found.scalars[name], exact))
            for boundary, found in self.boundaries.items()
            if name in found.scalars
        }
        return flow.Scalar(
            case.number(f"scalars.{name}.diffusivity", given.diffusivity),
            held,
            None if given.source == 0.0 else self.values.one(f"scalars.{name}.source", given.source),
        )

    def force(self) -> flow.Given | None:
        """The body force, or None."""
        given = self.case.forcing.acceleration
        return None if given == (0.0, 0.0, 0.0) else self.values.three("forcing.acceleration", given)

    def buoyancy(self, name: str) -> flow.Buoyancy | None:
        """The buoyancy of a scalar, or None if it is passive."""
        case, given = self.case, self.case.scalars[name]
        key = f"scalars.{name}.buoyancy"
        x, y, z = (case.number(key, part) for part in given.buoyancy)
        if not any((x, y, z)):
            return None
        return flow.Buoyancy(name, (x, y, z), case.number(f"scalars.{name}.reference", given.reference))

    def begin(self) -> Checkpoint | None:
        """Sets the initial fields of the case; returns the checkpoint that they come from, if any. (collective)

        Fields that a Nek field file lacks get the initial values of the case.
        """
        case, solver, exact = self.case, self.solver, self.case.exact
        if case.initial.checkpoint:
            return solver.restore(case.initial.checkpoint)
        velocity = self.values.three("initial.velocity", case.initial.velocity, exact.velocity)
        for name, scalar in case.scalars.items():
            key = f"scalars.{name}.initial"
            solver.set_scalar(name, self.values.one(key, scalar.initial, exact.scalars.get(name)))
            require_finite(key, solver.scalar(name), self.comm)
        solver.set_velocity(velocity)
        require_finite("initial.velocity", solver.velocity(), self.comm)
        if case.initial.nek:
            solver.read_nek(case.initial.nek, time=0.0)
        return None

    @functools.cached_property
    def longest_dt(self) -> float:
        """The limit of variable steps: the case's, or the time that diffusion takes across an element of mean volume.

        Without a limit, steps would grow without bound as a flow decays, and no longer resolve its decay. (collective)
        """
        case = self.case
        if case.time.max_dt:
            return case.time.max_dt
        volume = self.comm.allreduce(float(np.sum(self.mesh.mass_matrix(1))), MPI.SUM) / self.mesh.global_elements
        scalars = (case.number(f"scalars.{name}.diffusivity", s.diffusivity) for name, s in case.scalars.items())
        return float(volume ** (2 / 3) / max(case.constants["nu"], *scalars, 0.0))

    def next_dt(self) -> float:
        """The next time step: the case's, or that of its Courant number; the last steps end exactly at time.end.

        It depends only on the state of the flow, so that a restart takes the same steps. Raises CollectiveError if the
        initial flow and its boundaries are at rest, so that there is no Courant number. (collective)
        """
        given, solver = self.case.time, self.solver
        dt = given.dt
        if dt > 0 and given.end > 0:
            steps_to(given.end - solver.time, dt)
        if dt == 0:
            rate, last = solver.courant_rate(), solver.last_dt
            if rate == 0 and last == 0:
                rate = solver.courant_rate_of_boundaries()
            if rate == 0 and last == 0:
                raise CollectiveError(
                    "case key 'time.dt': found 0 (steps from the Courant number), but the initial "
                    "flow and its boundaries are at rest; set time.dt"
                )
            # Let steps grow slowly: the flow may be about to accelerate.
            most = min(self.longest_dt, GROWTH * last if last > 0 else math.inf)
            dt = min(given.courant / rate if rate > 0 else math.inf, most)
        left = (given.end - solver.time) / dt
        if 0 < left < 2 and abs(left - round(left)) > 1e-9:  # equal steps at the end, rather than a tiny last one
            dt = (given.end - solver.time) / max(1, math.ceil(left - 1e-6))
        return dt

    def errors(self) -> dict[str, float]:
        """Relative L2 norms of the differences from the exact solution, by field. (collective)

        Uses a quadrature of order three higher, because errors are smaller at the points than between them. The
        pressure is compared without its mean if it is known up to a constant.
        """
        exact, solver = self.case.exact, self.solver
        wanted: dict[str, tuple[arrays.Values, Function]] = {}
        if exact.velocity:
            wanted["velocity"] = solver.velocity(), self.values.function("exact.velocity", exact.velocity, 3)
        if exact.pressure != "":
            wanted["pressure"] = solver.pressure()[None], self.values.function("exact.pressure", exact.pressure, 1)
        for name, value in exact.scalars.items():
            wanted[name] = solver.scalar(name)[None], self.values.function(f"exact.scalars.{name}", value, 1)
        if not wanted:
            return {}
        order = min(self.case.order + 3, 15)
        x, y, z = elements.places(self.mesh, order)
        mass = np.asarray(self.mesh.mass_matrix(order)).reshape(x.shape)
        found: dict[str, float] = {}
        for name, (values, function) in wanted.items():
            fine = interpolated(np.moveaxis(values, 0, 1), self.case.order, order)  # [E][components][m^3]
            given = function(x, y, z, solver.time)
            known = np.stack(given if len(values) == 3 else [given], axis=1)
            difference = fine - known
            if name == "pressure" and solver.pressure_singular:
                difference -= self.mean(difference, mass)
                known = known - self.mean(known, mass)
            squares = np.array([(f**2 * mass[:, None]).sum() for f in (difference, known)])
            self.comm.Allreduce(MPI.IN_PLACE, squares, MPI.SUM)
            found[name] = float(np.sqrt(squares[0] / squares[1])) if squares[1] > 0 else float(np.sqrt(squares[0]))
        return found

    def mean(self, values: npt.NDArray[np.float64], mass: npt.NDArray[np.float64]) -> float:
        """The mean over the mesh. (collective)"""
        sums = np.array([(values * mass[:, None]).sum(), mass.sum()])
        self.comm.Allreduce(MPI.IN_PLACE, sums, MPI.SUM)
        return float(sums[0] / sums[1])


class Watch:
    """The columns of statistics.csv after step and time."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.names = list(self.now())

    def now(self) -> dict[str, float]:
        """The current row. (collective)"""
        solver = self.problem.solver
        given = self.problem.case.statistics
        found = solver.statistics(forces=given.forces, centre=given.moment_centre)
        return {"dt": solver.last_dt, "courant": solver.last_dt * found.pop("courant_rate"), **found}
