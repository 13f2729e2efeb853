"""Incompressible Navier-Stokes on spectral elements: P_N-P_N (velocity and pressure of equal degree), time splitting.

The Taylor-Green vortex at Re = 100 in a periodic box::

    mesh = weft.Mesh.box((8, 8, 8), upper=2 * numpy.pi, periodic=True)
    solver = weft.flow.Solver(mesh, order=7, viscosity=0.01, dt=0.01)
    solver.set_velocity(lambda x, y, z, t: (sin(x) * cos(y) * cos(z), -cos(x) * sin(y) * cos(z), 0 * x))
    solver.step(100)
    u, v, w = solver.velocity()  # [3][E][k][j][i] of this rank

Sources: Karniadakis, Israeli and Orszag, J. Comput. Phys. 97 (1991); Tomboulides, Lee and Orszag, J. Sci. Comput. 12
(1997); Karp et al., "Neko" (2021). docs/flow.md has the equations and what each option does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np
import numpy.typing as npt

from weft import _weft
from weft import device as _device
from weft.arrays import DType, Values
from weft.flow_output import Output
from weft.flow_statistics import Statistics
from weft.functions import takes_time
from weft.multigrid import coarsen
from weft.options import by_name
from weft.program import compiled
from weft.solver_on_elements import SolverOnElements

if TYPE_CHECKING:
    from weft.device import Device
    from weft.mesh import Mesh
    from weft.record import Choices, Tuning

__all__ = ["BlownUp", "Buoyancy", "Filter", "FlowRate", "Pressure", "Scalar", "Solver"]

# names of the flow's own fields in files and statistics
OWN = ("velocity", "pressure", "vorticity", "u", "v", "w")

# the solver, its options and the functions among them
_CORES: dict[str, tuple[Any, Any, Any]] = {
    "double": (_weft.flow.FlowDouble, _weft.flow.OptionsDouble, _weft.flow.FunctionDouble),
    "single": (_weft.flow.FlowSingle, _weft.flow.OptionsSingle, _weft.flow.FunctionSingle),
}

#: raised when a field is no longer finite; ``step`` and ``field`` say which
BlownUp = _weft.flow.BlownUp

# f(x, y, z, t), or f(x, y, z) if steady, on arrays of any one shape; of vectors, three values.
Function = Callable[..., Any]
Part = float | str | _weft.program.Code
Given = Part | Sequence[Part] | Values | Function
Condition = str | tuple[str, Given]
# A number, an expression in x, y, z, t, or a program from weft.program.compiled; three of them for a vector.


@dataclass(frozen=True)
class Scalar:
    """A scalar transported by the flow: ds/dt + (u . grad) s = diffusivity Laplacian s + source.

    ``boundaries``: for each of the mesh's boundaries, by name, ``("value", VALUES)``, ``("flux", VALUES)``
    (diffusivity ds/dn) or ``"insulated"``, which is the default. ``source``: values, or a function of x, y, z, t.
    """

    diffusivity: float
    boundaries: Mapping[str, Condition] = field(default_factory=dict)
    source: Given | None = None


#: the extension's structs, made in order or by name
Buoyancy = _weft.flow.Buoyancy
FlowRate = _weft.flow.FlowRate
Filter = _weft.flow.Filter
Pressure = _weft.flow.Pressure


class _OnHost:
    """A function of NumPy arrays in the form that the extension calls; a steady function is called once."""

    def __init__(self, function: Function, components: int, dtype: DType) -> None:
        self.function, self.components, self.dtype = function, components, dtype
        self.steady = not takes_time(function)
        self.kept: Values | None = None

    def __call__(self, places: Values, time: float) -> Values:
        if self.kept is not None:
            return self.kept
        values = self.function(*places) if self.steady else self.function(*places, time)
        parts = [values] if self.components == 1 else values
        if len(parts) != self.components:
            raise ValueError(f"flow: a function returned {len(parts)} values, {self.components} are needed")
        found = np.ascontiguousarray(np.stack([np.broadcast_to(v, places[0].shape) for v in parts]), self.dtype)
        if self.steady:
            self.kept = found
        return found


def _part(given: object) -> str | float:
    """An expression, or a number of Python's or NumPy's. Raises TypeError for anything else."""
    if isinstance(given, str):
        return given
    number = np.asarray(given)
    if number.ndim or number.dtype.kind not in "biuf":
        raise TypeError(f"flow: a value is a number, an expression or a function, not {given!r}")
    return float(number)


class StepFigures(TypedDict):
    """Iterations of a step's solves, by component and by scalar, and the force of a constant flow rate."""

    pressure_iterations: int
    pressure_residuals: tuple[float, float, float]  # with a zero guess, with the initial guess, at the end
    velocity_iterations: list[int]
    scalar_iterations: list[int]
    flow_rate_forcing: float


class Solver(SolverOnElements, Output, Statistics):
    """du/dt + (u . grad) u = -grad p + viscosity Laplacian u + force, div u = 0 on the ranks of ``mesh``.

    ``order``: polynomial degree N, 1 to 15. ``boundaries``: for each of the mesh's boundaries ``"wall"``,
    ``"outflow"``, ``"symmetry"`` (of a side normal to an axis) or ``("velocity", VALUES)``. VALUES are three numbers or
    expressions in x, y, z, t, or a function of (x, y, z, t) that returns three arrays. Expressions are evaluated on the
    device, functions on the host; a steady function of (x, y, z) is called once. Where conditions meet at a point, a
    wall takes precedence over a velocity, and both over symmetry and outflow. ``time_order``: k of BDFk/EXTk, 1 to 3,
    reached after k - 1 steps of lower orders unless `start_from` gives a solution at earlier times too.
    ``first_step_halvings``: h: the first step is split into dt / 2^h, dt / 2^h, dt / 2^(h-1), ..., dt / 2, to keep the
    error of the low initial orders small; 0: the first step is not split. ``scalars``: `Scalar` by name. ``force``:
    VALUES. ``buoyancy``: `Buoyancy`, any number. ``flow_rate``: a `FlowRate`. ``filter``: a `Filter`. ``pressure``: a
    `Pressure`. ``convection``: ``overintegrated`` (the 3/2 rule on Gauss points) or ``skew-symmetric`` (on the
    elements' own points). Tolerances limit the norm sqrt(sum r_i^2 / volume) of residuals r (default: 1e-7, in single
    precision 1e-4). ``dt``: the default time step of ``step``. ``device``, ``precision``, ``geometry``, ``kernels``,
    ``exchange``, ``exchange_cache``: as in `weft.Poisson`.

    Fields are ``[3][E][n][n][n]`` (velocity) and ``[E][n][n][n]``: element, t, s, r; n = order + 1. They are
    continuous: where elements meet, one of their values is used. Construction, and every method marked (collective),
    must be called on all ranks.

    ``save`` discards the earlier solutions on which pressure solves are projected. After ``restore`` from a checkpoint
    of another order, the first step has order 1; averages continue if both runs have them.

    Raises ValueError for options that do not exist; raises ``weft.mpi.CollectiveError``, the same on all ranks, for a
    boundary without a condition, a condition without a boundary, prescribed velocities with a net inflow and no
    outflow.
    """

    _core: _weft.flow.FlowDouble | _weft.flow.FlowSingle

    @by_name(_weft.flow.OptionsDouble)
    def __init__(
        self,
        mesh: Mesh,
        order: int = 7,
        *,
        viscosity: float,
        boundaries: Mapping[str, Condition] | None = None,
        dt: float | None = None,
        scalars: Mapping[str, Scalar] | None = None,
        force: Given | None = None,
        device: str | Device = "auto",
        precision: str = "double",
        geometry: str = "auto",
        kernels: str = "auto",
        exchange: str = "auto",
        exchange_cache: bool = False,
        **options: Any,
    ) -> None:
        if precision not in _CORES:
            raise ValueError(f"flow: precision = {precision!r} is not one of: {', '.join(_CORES)}")
        core, struct, self._functions = _CORES[precision]
        self.mesh = mesh
        self.precision = precision
        self.device = _device.open(device) if isinstance(device, str) else device
        if kernels == "auto":
            kernels = "simd" if self.device.is_host else "portable"
        if geometry == "auto":
            geometry = "trilinear" if mesh.straight else "mixed"
        self.geometry, self.kernels = geometry, kernels
        self.scalars = dict(scalars or {})
        if taken := sorted(set(OWN) & set(self.scalars)):
            raise ValueError(f"flow: {taken[0]!r} cannot be the name of a scalar: the flow has a field of that name")
        self.dt = None if dt is None else float(dt)
        space = _weft.poisson.Options(
            order=order,
            geometry=geometry,
            kernels=kernels,
            exchange=(exchange, exchange_cache),
            device=self.device,
        )
        given = struct(
            viscosity=viscosity,
            boundaries={name: self._condition(condition, 3) for name, condition in (boundaries or {}).items()},
            scalars=[
                {
                    "name": name,
                    "diffusivity": scalar.diffusivity,
                    "boundaries": {b: self._condition(condition, 1) for b, condition in scalar.boundaries.items()},
                    "source": self._function(scalar.source, 1)[0],
                }
                for name, scalar in self.scalars.items()
            ],
            force=self._function(force, 3)[0],
            **options,
        )
        self.order = space.order
        self.viscosity = given.viscosity
        self.convection = given.convection
        self.time_order = given.time_order
        pressure = given.pressure
        self._core = core(mesh._core, space, given)
        made = self._core.coarse_matrix()
        size = self.comm.allreduce(int(made["unknowns"]))
        sizes: list[int] = []
        if made["algebraic"]:
            hierarchy, sizes = coarsen(made["rows"], made["columns"], made["values"], size, made["singular"], self.comm)
            self._core.set_coarse(*hierarchy)
        #: what was chosen, by option
        self.choices: Choices = {
            "geometry": self.geometry,
            "kernels": self.kernels,
            "convection": self.convection,
            "pressure": {
                "orders": list(self._core.pressure_orders),
                "algebraic_level_unknowns": sizes,
                "smoother": "none" if made["algebraic"] and self.order == 1 else made["smoother"],
                "degree": 1 if made["smoother"] == "schwarz" else pressure.degree,
                "largest_eigenvalues": list(self._core.largest_eigenvalues),
                "precision": "single" if pressure.single or precision == "single" else "double",
                "method": pressure.method,
                "projection": pressure.projection,
                "level": "known up to a constant: no boundary is an outflow"
                if self.pressure_singular
                else "0 on outflow",
            },
            "exchange": self.tuning,
        }

    # --- conversion of the user's arguments for the extension
    # ------------------------------------------------------------------

    def _values(self, given: Any, components: int) -> _OnHost | list[_weft.program.Code] | None:
        if given is None:
            return None
        if callable(given):
            return _OnHost(given, components, self.dtype)
        parts = list(given) if components > 1 and np.iterable(given) else [given]
        if len(parts) != components:
            what = f"an array of {given.shape}" if isinstance(given, np.ndarray) else repr(given)
            raise ValueError(f"flow: {len(parts)} values are given, {components} are needed: {what}")
        return [part if isinstance(part, _weft.program.Code) else compiled(_part(part)) for part in parts]

    def _function(self, given: Given | None, components: int) -> tuple[object, bool]:
        """The function in the form that the options expect, and whether it is steady."""
        values = self._values(given, components)
        return (None, True) if values is None else self._functions.of(values, components, self.device)

    def _condition(self, given: Condition, components: int) -> tuple[str, object, bool]:
        word, values = (given, None) if isinstance(given, str) else given
        needs = word in ("velocity", "value", "flux")
        if needs and values is None:
            raise ValueError(f'flow: the condition "{word}" needs values: ("{word}", VALUES)')
        if not needs and values is not None:
            raise ValueError(f'flow: the condition "{word}" takes no values')
        return word, *self._function(values, components)

    # --- sizes and figures -------------------------------------------------------------------------------------------

    @property
    def time(self) -> float:
        """Time of the fields, in the unit of time of the problem."""
        return float(self._core.time)

    @property
    def last_dt(self) -> float:
        """Length of the last time step, including one before a restored checkpoint; 0 before the first."""
        return float(self._core.last_dt)

    @property
    def steps(self) -> int:
        """Number of steps taken."""
        return int(self._core.steps)

    @property
    def pressure_singular(self) -> bool:
        """Whether the pressure is known only up to a constant (no boundary is an outflow); its mean is then 0."""
        return bool(self._core.pressure_singular)

    @property
    def figures(self) -> StepFigures:
        """Figures of the last step."""
        return cast(StepFigures, self._core.figures)

    @property
    def unknowns(self) -> int:
        """Unknowns per field on this rank; their sum over ranks is the number of distinct points."""
        return int(self._core.unknowns)

    @property
    def elements_by_shape(self) -> tuple[int, int, int, int]:
        """This rank's boxes, other parallelepipeds, trilinear elements, and those whose metric is stored."""
        boxes, affine, trilinear, stored = self._core.elements_by_shape
        return boxes, affine, trilinear, stored

    def work(self, term: str, fields: int = 3) -> tuple[float, float]:
        """Bytes and operations of a term of docs/flow-terms.md on this rank, such as ``"convect"`` or ``"gradient"``.

        ``fields``: the number of fields that are convected, of which the first three are the velocity.
        """
        moved, flops = self._core.work(term, operator.index(fields))
        return float(moved), float(flops)

    @property
    def tuning(self) -> dict[str, Tuning]:
        """How each exchange was chosen; see ``weft.GatherScatter.tuning``."""
        return dict(self._core.exchange)

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Memory on this rank in bytes, by owner."""
        return dict(self._core.memory_bytes()) | self._statistics_bytes()

    # --- fields ------------------------------------------------------------------------------------------------------

    def coordinates(self) -> npt.NDArray[np.float64]:
        """Coordinates of the points, ``[3][E][n][n][n]``."""
        n = self.order + 1
        return np.moveaxis(np.asarray(self.mesh.point_coordinates(self.order)).reshape(-1, n, n, n, 3), -1, 0)

    def velocity(self, level: int = 0) -> Values:
        """A copy of the velocity, ``[3][E][n][n][n]``, ``level`` steps ago (below ``time_order``). (collective)"""
        return np.asarray(self._core.velocity(operator.index(level)))

    def pressure(self) -> Values:
        """A copy of the pressure over density, ``[E][n][n][n]``, at the time of the velocity. (collective)"""
        return np.asarray(self._core.pressure())

    def scalar(self, name: str, level: int = 0) -> Values:
        """A copy of a scalar, ``[E][n][n][n]``. (collective)"""
        return np.asarray(self._core.scalar(self._number(name), operator.index(level)))

    def set_velocity(self, values: Given | npt.ArrayLike, level: int = 0) -> None:
        """Set the velocity to an array, or to a function or expressions evaluated at the current time. (collective)

        For ``level`` 0, the solver starts from it with a step of order 1, also after BlownUp.
        """
        self._core.set_velocity(self._fields(values, 3, self.time), operator.index(level))
        if level == 0:
            self.start(self.time, self.steps)

    def set_scalar(self, name: str, values: Given | npt.ArrayLike, level: int = 0) -> None:
        """Set a scalar, in the same way as ``set_velocity``. (collective)"""
        self._core.set_scalar(self._number(name), self._fields(values, 1, self.time), operator.index(level))

    def set_pressure(self, values: Given | npt.ArrayLike) -> None:
        """Set the pressure, which is the initial guess of the next step. (collective)"""
        self._core.set_pressure(self._fields(values, 1, self.time))

    def start(self, time: float = 0.0, step: int = 0) -> None:
        """Start at ``time`` from the current fields, with a step of order 1. (collective)"""
        self._core.start([float(time)], operator.index(step))

    def start_from(
        self, velocity: Function, times: Sequence[float], scalars: Mapping[str, Function] | None = None
    ) -> None:
        """Start from a known solution at decreasing ``times``, the first being the current time, with a step of order
        len(times).

        ``velocity`` and ``scalars``: functions of x, y, z, t or expressions. (collective)
        """
        for level, time in enumerate(times):
            self._core.set_velocity(self._fields(velocity, 3, time), level)
            for name, function in (scalars or {}).items():
                self._core.set_scalar(self._number(name), self._fields(function, 1, time), level)
        self._core.start([float(time) for time in times], 0)

    def _number(self, name: str) -> int:
        if name not in self.scalars:
            raise ValueError(f"flow: scalar {name!r} is not defined; defined: {', '.join(self.scalars) or 'none'}")
        return list(self.scalars).index(name)

    def _fields(self, given: Given | npt.ArrayLike, components: int, time: float) -> Values:
        array = np.asarray(given) if not callable(given) else None
        if array is None or array.dtype.kind in "OU" or array.ndim < 2:
            array = self._core.evaluate(self._values(given, components), components, float(time))
            array = array[0] if components == 1 else array
        elif array.dtype.kind == "c":
            raise TypeError(f"flow: the values are of type {array.dtype}, but real numbers are needed")
        elif array.ndim != (5 if components > 1 else 4):
            n, vector = self.order + 1, "[3]" if components > 1 else ""
            raise ValueError(
                f"flow: values are {vector}[{self.mesh.elements}][{n}][{n}][{n}] on this rank, not of the shape "
                f"{array.shape}"
            )
        return np.ascontiguousarray(array, self.dtype)

    # --- time --------------------------------------------------------------------------------------------------------

    def step(self, count: int = 1, dt: float | None = None) -> None:
        """``count`` time steps of ``dt`` (default: ``self.dt``); ``dt`` may vary from step to step. (collective)

        Raises BlownUp if a field is no longer finite; raises CollectiveError if a solve stalls.
        """
        size = self.dt if dt is None else float(dt)
        if size is None:
            raise ValueError("flow: no time step is given: pass dt to step() or to the solver")
        if operator.index(count) < 0:
            raise ValueError(f"flow: {count} steps; allowed: at least 0")
        for _ in range(operator.index(count)):
            self._core.step(size)
