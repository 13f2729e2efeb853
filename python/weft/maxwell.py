"""Maxwell's equations in time on the spectral elements of a mesh, by a discontinuous Galerkin method.

A plane wave in a periodic box::

    mesh = weft.Mesh.box((8, 8, 8), periodic=True)
    solver = weft.maxwell.Solver(mesh, order=7)
    solver.set_fields(lambda x, y, z: (0, np.sin(2 * np.pi * x), 0, 0, 0, np.sin(2 * np.pi * x)))
    solver.step(100)
    print(solver.time, solver.energy())

Source: Otten et al., "An MPI/OpenACC implementation of a high-order electromagnetics solver with GPUDirect
communication" (NekCEM). docs/maxwell.md has the equations.
"""

from __future__ import annotations

import operator as _operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weft import _weft
from weft import device as _device
from weft.arrays import DeviceArray, Values
from weft.options import by_name
from weft.solver_on_elements import SolverOnElements

if TYPE_CHECKING:
    from weft.device import Device
    from weft.mesh import Mesh
    from weft.record import Tuning

__all__ = ["Dipole", "Material", "PlaneWave", "Pulse", "Solver", "matched_layer"]

# f(x, y, z) -> Ex, Ey, Ez, Hx, Hy, Hz on arrays of any one shape.
Fields = Callable[[Values, Values, Values], Sequence[npt.ArrayLike]]

_CORES: dict[str, type[_weft.maxwell.MaxwellDouble | _weft.maxwell.MaxwellSingle]] = {
    "double": _weft.maxwell.MaxwellDouble,
    "single": _weft.maxwell.MaxwellSingle,
}


#: materials, and sources with their time dependence: structs of the extension, with positional or keyword arguments
Material = _weft.maxwell.Material
Pulse = _weft.maxwell.Pulse
PlaneWave = _weft.maxwell.PlaneWave
Dipole = _weft.maxwell.Dipole


def matched_layer(
    mesh: Mesh,
    order: int,
    thickness: float,
    *,
    lower: Sequence[float],
    upper: Sequence[float],
    sides: Sequence[str] = ("x-", "x+", "y-", "y+", "z-", "z+"),
    reflection: float = 1e-6,
    power: float = 3.0,
    speed: float = 1.0,
) -> npt.NDArray[np.float64]:
    """The damping, ``[E][3][n][n][n]``, of a perfectly matched layer inside the box ``lower`` to ``upper``.

    On each side in ``sides``, sigma = sigma_max (depth / thickness)^power. sigma_max is chosen so that the fraction
    ``reflection`` of a wave at normal incidence returns: -(power + 1) ln(reflection) speed / (2 thickness) (Taflove and
    Hagness 2000, 7.7). ``thickness`` should be that of one or several whole elements.
    """
    if not thickness > 0 or not 0 < reflection < 1:
        raise ValueError(f"maxwell: a layer has thickness > 0 and 0 < reflection < 1, not {thickness}, {reflection}")
    n = order + 1
    x = np.asarray(mesh.point_coordinates(order)).reshape(-1, n, n, n, 3)
    damping = np.zeros((len(x), 3, n, n, n))
    strongest = -(power + 1) * np.log(reflection) * speed / (2 * thickness)
    for side in sides:
        if side not in ("x-", "x+", "y-", "y+", "z-", "z+"):
            raise ValueError(f"maxwell: a layer's side {side!r} is not one of: x-, x+, y-, y+, z-, z+")
        axis = "xyz".index(side[0])
        place = x[..., axis]
        depth = lower[axis] + thickness - place if side[1] == "-" else place - (upper[axis] - thickness)
        depth = np.where(depth > 1e-12 * thickness, depth, 0.0)  # ignores rounding errors of points on the layer's face
        damping[:, axis] += strongest * (np.clip(depth, 0.0, None) / thickness) ** power
    return damping


class Solver(SolverOnElements):
    """eps dE/dt = curl H - sigma E, mu dH/dt = -curl E on the ranks of ``mesh`` (NekCEM, Eqs. 1 to 9).

    Lengths are in the unit of the mesh; times in lengths over the speed of light in vacuum; H is in units of E over the
    impedance of free space. ``order``: polynomial degree N, 1 to 15. ``flux``: ``upwind`` or ``central``.
    ``materials``: values by the region's name, ``{"vacuum": Material()}`` by default. ``regions``: for each element of
    this rank, the index of its material in ``materials``; default: all 0. ``boundaries``: ``pec``, ``pmc`` or
    ``absorbing`` for each of the mesh's boundaries, by name. ``waves`` enter where elements of the ``total_field`` (a
    flag for each of this rank's elements) meet other elements or an absorbing boundary; outside the total field, fields
    are scattered fields. ``dipoles``: currents. ``damping``: of a perfectly matched layer, see ``matched_layer``.
    ``kernels``: ``portable`` (any device), ``simd`` (hosts, without plane waves) or ``auto``. ``integrator``:
    ``runge-kutta`` (five stages, order 4) or ``exponential`` (exp(dt A) in a Krylov space of ``krylov_dimension``, to
    ``krylov_tolerance`` relative to the fields, for any dt; without waves, dipoles and layers). ``device``,
    ``precision``, ``exchange``, ``exchange_cache``: as in ``weft.Poisson``.

    Fields are ``[E][6][n][n][n]``: element, component (Ex Ey Ez Hx Hy Hz), t, s, r; n = order + 1. Construction, and
    every method marked (collective), must be called on all ranks.

    Raises ValueError for options that do not exist; raises ``weft.mpi.CollectiveError``, the same on all ranks, for a
    boundary without a condition, a region without a material, eps or mu that are not positive, or periodic faces that
    do not match.
    """

    _core: _weft.maxwell.MaxwellDouble | _weft.maxwell.MaxwellSingle

    @by_name(_weft.maxwell.Options)
    def __init__(
        self,
        mesh: Mesh,
        order: int = 7,
        *,
        materials: Mapping[str, Material | Sequence[float]] | None = None,
        total_field: npt.ArrayLike | None = None,
        device: str | Device = "auto",
        precision: str = "double",
        kernels: str = "auto",
        exchange: str = "auto",
        exchange_cache: bool = False,
        **options: Any,
    ) -> None:
        if precision not in _CORES:
            raise ValueError(f"maxwell: precision = {precision!r} is not one of: {', '.join(_CORES)}")
        self.mesh = mesh
        self.precision = precision
        self.device = _device.open(device) if isinstance(device, str) else device
        if kernels == "auto":
            kernels = "simd" if self.device.is_host and not options.get("waves") else "portable"
        self.kernels = kernels
        given = _weft.maxwell.Options(
            order=order,
            kernels=kernels,
            materials=None if materials is None else list(materials.items()),
            total_field=None if total_field is None else np.asarray(total_field, bool),
            exchange=(exchange, exchange_cache),
            device=self.device,
            **options,
        )
        self.order = given.order
        self.integrator = given.integrator
        self._core = _CORES[precision](mesh._core, given)
        #: the default time step of ``step``
        self.dt = self.dt_limit
        self._warned = False

    # --- sizes and figures -------------------------------------------------------------------------------------------

    @property
    def dt_limit(self) -> float:
        """The largest stable time step by the estimate of docs/maxwell.md (``Operator::dt_limit``)."""
        return float(self._core.dt_limit)

    @property
    def time(self) -> float:
        """Time of the fields, in units of length over the speed of light in vacuum; may be set."""
        return float(self._core.time)

    @time.setter
    def time(self, value: float) -> None:
        self._core.time = float(value)

    @property
    def steps(self) -> int:
        """Number of steps taken."""
        return int(self._core.steps)

    def start(self, time: float = 0.0, step: int = 0) -> None:
        """Start at ``time``, after ``steps`` steps, from the current fields."""
        self._core.start(float(time), _operator.index(step))

    @property
    def applications(self) -> int:
        """Applications of the operator by the last ``step``: five per step of Runge-Kutta."""
        return int(self._core.applications)

    @property
    def figures(self) -> dict[str, float]:
        """Flops, memory traffic and messages of one time step (five stages), summed over all ranks.

        ``paper_flops`` by Eq. 16, 180 (N + 1) + 420 per point; ``flops`` that the kernels execute (12 derivatives per
        point where the paper counts 18); ``bytes`` of memory traffic if nothing stays in cache between kernels.
        (collective)
        """
        from mpi4py import MPI

        mine = np.array(
            [self._core.paper_flops, self._core.flops, self._core.bytes, self._core.bytes_sent, self._core.messages]
        )
        total = 5 * self.comm.allreduce(mine, op=MPI.SUM)
        names = ("paper_flops", "flops", "bytes", "bytes_sent", "messages")
        return {name: float(value) for name, value in zip(names, total, strict=True)}

    @property
    def tuning(self) -> dict[str, Tuning]:
        """How the exchange was chosen, under the key ``faces``; see ``weft.GatherScatter.tuning``."""
        return {"faces": self._core.exchange}

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Memory on this rank in bytes, by array."""
        return dict(self._core.memory_bytes())

    # --- fields ------------------------------------------------------------------------------------------------------

    @property
    def fields(self) -> DeviceArray:
        """``[E][6][n][n][n]``: the fields themselves, not a copy (on a GPU an array with ``__dlpack__``).

        After writing to them, call ``fields_changed``, or their new energy may be taken for an instability.
        """
        return self._core.fields()

    def host_fields(self) -> Values:
        """``[E][6][n][n][n]`` as a NumPy array: the fields themselves on the host, a copy of those on a GPU."""
        return np.asarray(self._core.host_fields())

    def coordinates(self) -> npt.NDArray[np.float64]:
        """``[3][E][n][n][n]``: coordinates of the points."""
        n = self.order + 1
        return np.moveaxis(np.asarray(self.mesh.point_coordinates(self.order)).reshape(-1, n, n, n, 3), -1, 0)

    def interpolate(self, function: Fields) -> Values:
        """``function`` evaluated at the points, ``[E][6][n][n][n]``."""
        x, y, z = self.coordinates()
        values = [np.broadcast_to(np.asarray(v, np.float64), x.shape) for v in function(x, y, z)]
        if len(values) != 6:
            raise ValueError(f"maxwell: a function of fields must return 6 components, not {len(values)}")
        return np.ascontiguousarray(np.stack(values, axis=1), self.dtype)

    def set_fields(self, values: npt.ArrayLike | Fields) -> None:
        """Set the fields to an array, or to a function of the coordinates; a matched layer is reset to rest."""
        array = self.interpolate(values) if callable(values) else np.asarray(values)
        self._core.set_fields(np.ascontiguousarray(array, self.dtype))

    def fields_changed(self) -> None:
        """Call this after writing to ``fields``."""
        self._core.fields_changed()

    def rates(self, values: npt.ArrayLike, time: float = 0.0) -> Values:
        """d(fields)/dt of any fields at ``time``. (collective)"""
        return self._core.rates(float(time), np.ascontiguousarray(values, self.dtype))

    def statistics(self) -> dict[str, float]:
        """One sample of statistics, by name: ``energy`` and its parts ``electric_energy`` and ``magnetic_energy``.
        (collective)"""
        electric, magnetic = self.energies()
        return {"energy": electric + magnetic, "electric_energy": electric, "magnetic_energy": magnetic}

    def energy(self) -> float:
        """The integral of (eps E . E + mu H . H) / 2 over the mesh. (collective)"""
        return float(sum(self._core.energy()))

    def energies(self) -> tuple[float, float]:
        """The electric and the magnetic part of ``energy``. (collective)"""
        electric, magnetic = self._core.energy()
        return float(electric), float(magnetic)

    def divergence(self) -> tuple[float, float]:
        """L2 norms of div(eps E) and div(mu H) inside the elements. (collective)"""
        electric, magnetic = self._core.divergence()
        return float(electric), float(magnetic)

    # --- time --------------------------------------------------------------------------------------------------------

    def step(self, count: int = 1, dt: float | None = None) -> None:
        """Take ``count`` time steps of ``dt`` (default: ``self.dt``); a step above ``dt_limit`` warns. (collective)

        Raises CollectiveError, the same on all ranks, if the energy exceeds the bound of the scheme: the energy when
        the fields were set, plus what the sources can have added since.
        """
        size = self.dt if dt is None else float(dt)
        limited = self.integrator == "runge-kutta"
        if limited and size > self.dt_limit * (1 + 1e-9) and not self._warned:
            self._warned = True
            warnings.warn(
                f"maxwell: dt = {size:.6g} is above the limit {self.dt_limit:.6g} of this mesh, order and materials; "
                "the fields may grow without bound",
                RuntimeWarning,
                stacklevel=2,
            )
        self._core.step(_operator.index(count), size)
