"""Incompressible turbulence in a periodic box by Rogallo's pseudo-spectral method.

A decaying Taylor-Green vortex at Re = 100::

    solver = weft.turbulence.Solver(64, viscosity=0.01, dt=0.01)
    solver.set_taylor_green()
    solver.step(100)
    u, v, w = solver.velocity()  # [3][z][y][x] of this rank

Source: Yeung et al., "GPU-enabled extreme-scale turbulence simulations: Fourier pseudo-spectral algorithms at the
exascale using OpenMP offloading" (GESTS), section 3; Rogallo, NASA TM 81315 (1981). docs/turbulence-solver.md has the
equations, what each option does and what a step moves.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from weft import _weft, trace
from weft import device as _device
from weft import fft as _fft  # noqa: F401  tells the extension where the libraries of transforms are
from weft.arrays import DeviceArray, DType, Values
from weft.options import by_name
from weft.turbulence_output import Output
from weft.turbulence_statistics import Statistics

if TYPE_CHECKING:
    from mpi4py import MPI

    from weft.device import Device
    from weft.record import Choices

__all__ = ["BlownUp", "Forcing", "Scalar", "Solver"]

N = TypeVar("N", int, float)

_CORES: dict[str, type[_weft.turbulence.SolverDouble | _weft.turbulence.SolverSingle]] = {
    "double": _weft.turbulence.SolverDouble,
    "single": _weft.turbulence.SolverSingle,
}
_TYPES = {"double": np.float64, "single": np.float32}

#: raised if the Courant number exceeds its limit or the velocity is no longer finite; has ``step`` and ``courant``
BlownUp = _weft.turbulence.BlownUp

# E(k) at an array of wavenumbers; a field at arrays of points x, y, z.
Spectrum = Callable[[npt.NDArray[np.float64]], npt.ArrayLike]
Vectors = Callable[[Values, Values, Values], Sequence[npt.ArrayLike]]
Function = Callable[[Values, Values, Values], npt.ArrayLike]


#: forcing of the modes with 0 < abs(k) <= ``radius``, and a scalar with a uniform mean ``gradient``
Forcing = _weft.turbulence.Forcing
Scalar = _weft.turbulence.Scalar


class Solver(Output, Statistics):
    """Navier-Stokes on ``sizes`` points (a number, or those along x, y, z) of a box of ``lengths``.

    ``sizes``: products of 2, 3, 5 and 7. ``scheme``: ``rk2`` or ``rk4``, both with an exact integrating factor.
    ``dealiasing``: ``phase-shift`` (random shifts; keeps modes with (nx/Nx)^2 + (ny/Ny)^2 + (nz/Nz)^2 < 2/9) or
    ``two-thirds`` (keeps modes with abs(n) < N/3 in each direction). Give either ``dt``, or ``courant``, the Courant
    number (Eq. 8, below 1) of each step, which is at most ``max_dt`` long (0: any length). A step whose Courant number
    exceeds ``courant_limit`` raises `BlownUp`.
    ``forcing``: a `Forcing`. ``scalars``: `Scalar`, any number. ``process_grid``: ``(Pr, Pc)`` or ``"PrxPc"``;
    ``auto``: the fastest, by timing, as in `weft.fft.Plan`; None: slabs if every rank gets a plane, else the most
    nearly square grid. ``batch``: Q, variables per message, or ``auto``: the fastest. ``exchange``: for both
    transposes, or a pair for (row, column). ``seed``: of phase shifts and forcing. ``device``, ``precision``: as in
    `weft.Poisson`.

    Physical fields are arrays [z][y][x] of this rank's ``points``, spectral ones [kz][ky][kx] of its ``modes``:
    coefficients of exp(i k.x), where forward transforms divide by the number of points. Construction and all methods
    that compute are collective. Raises ``weft.mpi.CollectiveError`` if options contradict each other.
    """

    @by_name(_weft.turbulence.Options, hidden=("box", "grid", "batch", "row", "column"))
    def __init__(
        self,
        sizes: int | Sequence[int],
        *,
        viscosity: float,
        lengths: float | Sequence[float] = 2.0 * math.pi,
        process_grid: str | tuple[int, int] | None = None,
        batch: int | str = 1,
        exchange: str | tuple[str, str] = "auto",
        exchange_cache: bool = False,
        device: str | Device = "auto",
        precision: str = "double",
        comm: MPI.Intracomm | None = None,
        **options: Any,
    ) -> None:
        from weft.mpi import MPI

        if precision not in _CORES:
            raise ValueError(f"turbulence: precision = {precision!r} is not one of: {', '.join(_CORES)}")
        self.sizes = _three(sizes, operator.index, "sizes")
        self.lengths = _three(lengths, float, "lengths")
        self.precision = precision
        self.device = _device.open(device) if isinstance(device, str) else device
        self.comm = MPI.COMM_WORLD if comm is None else comm
        row, column = (exchange, exchange) if isinstance(exchange, str) else exchange
        #: the solver's options, by name
        self.options = _weft.turbulence.Options(
            box=(self.sizes, self.lengths),
            viscosity=viscosity,
            grid=None if process_grid == "auto" else _grid(process_grid, self.comm.size, self.sizes),
            batch=None if batch == "auto" else batch,
            row=(row, exchange_cache),
            column=(column, exchange_cache),
            device=self.device,
            **options,
        )
        self.viscosity = viscosity
        self.scalars = tuple(self.options.scalars)
        self._core = _CORES[precision](self.options, self.comm)
        self.process_grid: tuple[int, int] = self._core.process_grid
        self.batch: int = self._core.batch

    # --- properties --------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> DType:
        """Type of real fields: float64 or float32, by ``precision``."""
        return np.dtype(_TYPES[self.precision])

    @property
    def time(self) -> float:
        """Time of the fields, in units of length over velocity."""
        return float(self._core.time)

    @property
    def steps(self) -> int:
        """Number of steps taken."""
        return int(self._core.steps)

    @property
    def dt(self) -> float:
        """Length of the last time step."""
        return float(self._core.dt)

    @property
    def courant(self) -> float:
        """The Courant number (GESTS, Eq. 8) of the last step, from the velocity at its beginning."""
        return float(self._core.courant)

    @property
    def energy_input(self) -> float:
        """Work done by the forcing so far, per unit of mass."""
        return float(self._core.energy_input)

    @property
    def largest_wavenumber(self) -> float:
        """kmax: every mode with abs(k) < kmax is kept."""
        return float(self._core.largest_wavenumber)

    @property
    def points(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """This rank's points along x, y, z: index of the first, and count."""
        first, count = self._core.points
        return tuple(first), tuple(count)  # type: ignore[return-value]

    @property
    def modes(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """This rank's modes along kx, ky, kz, in the order of a transform: index of the first, and count."""
        first, count = self._core.modes
        return tuple(first), tuple(count)  # type: ignore[return-value]

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Memory on this rank in bytes, by purpose."""
        return dict(self._core.memory_bytes)

    @property
    def tuning(self) -> Choices:
        """How an automatic ``process_grid`` or ``batch`` was chosen, as `weft.fft.Plan.tuning`; empty without one."""
        return cast("Choices", self._core.tuning)

    @property
    def choices(self) -> Choices:
        """The chosen process grid, batch, and exchanges of rows and columns."""
        pr, pc = self.process_grid
        return {
            "process_grid": f"{pr}x{pc}",
            "batch": self.batch,
            "row_exchange": self._core.row_choice,
            "column_exchange": self._core.column_choice,
        }

    def message_bytes(self, variables: int = 1) -> dict[str, int]:
        """Bytes of the largest message of each exchange with ``variables`` variables per message."""
        row, column = self._core.message_bytes(variables)
        return {"row": int(row), "column": int(column)}

    # --- fields ------------------------------------------------------------------------------------------------------

    def coordinates(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """x, y, z of this rank's points, with shapes that broadcast to [z][y][x]."""
        first, count = self.points
        x, y, z = (
            (first[d] + np.arange(count[d], dtype=np.float64)) * (self.lengths[d] / self.sizes[d]) for d in range(3)
        )
        return x[None, None, :], y[None, :, None], z[:, None, None]

    def wavenumbers(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """kx, ky, kz of this rank's modes, with shapes that broadcast to [kz][ky][kx]."""
        first, count = self.modes
        each = []
        for d in range(3):
            i = first[d] + np.arange(count[d])
            each.append(np.where(i <= self.sizes[d] // 2, i, i - self.sizes[d]) * (2 * math.pi / self.lengths[d]))
        return each[0][None, None, :], each[1][None, :, None], each[2][:, None, None]

    def velocity_modes(self) -> DeviceArray:
        """The velocity's modes [3][kz][ky][kx], a view of the solver's memory; after writing to it, call ``clean``."""
        return self._core.velocity_modes()

    def scalar_modes(self, number: int = 0) -> DeviceArray:
        """The modes of a scalar [kz][ky][kx], a view of the solver's memory."""
        return self._core.scalar_modes(self._scalar(number))

    def velocity(self) -> Values:
        """A copy, on the host, of u, v, w at this rank's points, [3][z][y][x]. (collective)"""
        return self._core.velocity()

    def scalar(self, number: int = 0) -> Values:
        """A copy, on the host, of a scalar at this rank's points, [z][y][x]. (collective)"""
        return self._core.scalar(self._scalar(number))

    def pressure(self) -> Values:
        """The pressure over the density at this rank's points (GESTS, Eq. 11), [z][y][x], with mean 0. (collective)"""
        return np.asarray(_weft.turbulence.pressure(self._core))

    def vorticity(self) -> Values:
        """A copy, on the host, of the vorticity at this rank's points, [3][z][y][x]. (collective)

        It temporarily replaces the velocity in its memory, and needs memory for three more spectral fields. On a GPU it
        needs CuPy.
        """
        modes: Any = self.velocity_modes()
        kept = modes.copy()
        library = np if self.device.is_host else import_module("cupy")
        kx, ky, kz = (1j * library.asarray(k) for k in self.wavenumbers())
        u, v, w = kept
        try:
            modes[0], modes[1], modes[2] = ky * w - kz * v, kz * u - kx * w, kx * v - ky * u
            return self.velocity()
        finally:
            modes[...] = kept

    def set_taylor_green(self, velocity: float = 1.0, *, two_dimensional: bool = False) -> None:
        """u = V sin ax cos by cos cz, v = -V (a/b) cos ax sin by cos cz, w = 0, with the unit wavenumbers a, b, c of
        the box.

        In two dimensions the factor in z is omitted: the exact solution is then u exp(-nu (a^2 + b^2) t).
        """
        self._core.set_taylor_green(float(velocity), two_dimensional)

    def set_abc(self, amplitudes: tuple[float, float, float] = (1.0, 1.0, 1.0), index: int = 1) -> None:
        """The Arnold-Beltrami-Childress flow of wavenumber ``index``: the exact solution is u exp(-nu k^2 t)."""
        self._core.set_abc(amplitudes, operator.index(index))

    def set_random(self, spectrum: Spectrum, seed: int = 0) -> None:
        """A solenoidal field with random phases whose energy spectrum is E(k) = ``spectrum(k)``.

        Each mode's energy is E(k) / (4 pi k^2) times the volume of a mode, so a shell's energy is E(k) up to the number
        of its modes. The random numbers depend only on the seed and the wavenumber: the field is the same on any number
        of ranks, and in single precision it is the rounded field of double precision.
        """
        self._core.set_random_velocity(spectrum, seed)

    def set_random_scalar(self, spectrum: Spectrum, number: int = 0, seed: int = 0) -> None:
        """The same for a scalar, half of whose variance is the integral of ``spectrum``."""
        self._core.set_random_scalar(self._scalar(number), spectrum, seed)

    def set_velocity(self, values: Sequence[npt.ArrayLike] | Values | Vectors) -> None:
        """Set the velocity from [3][z][y][x] at this rank's points, or a function (x, y, z) -> u, v, w. (collective)

        Truncated modes and the part that is not solenoidal are removed.
        """
        if callable(values):
            x, y, z = self.coordinates()
            values = values(x, y, z)
        shape = self._shape()
        parts = [np.broadcast_to(np.asarray(part, self.dtype), shape) for part in values]
        if len(parts) != 3:
            raise ValueError(f"turbulence: a velocity has three components, not {len(parts)}")
        self._core.set_velocity(np.ascontiguousarray(parts, self.dtype))

    def set_scalar(self, values: npt.ArrayLike | Function, number: int = 0) -> None:
        """Set a scalar from [z][y][x] at this rank's points, or a function (x, y, z). (collective)"""
        if callable(values):
            x, y, z = self.coordinates()
            values = values(x, y, z)
        whole = np.broadcast_to(np.asarray(values, self.dtype), self._shape())
        self._core.set_scalar(self._scalar(number), np.ascontiguousarray(whole))

    def clean(self) -> None:
        """Call this after writing to modes: makes the fields real, truncated and solenoidal. (collective)"""
        self._core.clean()

    # --- work --------------------------------------------------------------------------------------------------------

    def step(self, steps: int = 1, end: float = math.inf) -> None:
        """Take ``steps`` time steps, or fewer if the time reaches ``end``: the last step ends there. (collective)

        Raises `BlownUp`, the same on all ranks, if the Courant number exceeds its limit or the velocity is no longer
        finite; the fields are then those before the step that failed.
        """
        self._core.step(operator.index(steps), end)

    def measure(self, steps: int = 1, end: float = math.inf) -> dict[str, float]:
        """Take ``steps`` steps, or fewer to ``end``; return this rank's seconds per step, by category. (collective)

        The categories of GESTS, Table 3: ``fft``, ``pack_unpack`` (of messages that are not packed by a pass of a
        transform), ``row_mpi``, ``column_mpi``, ``other`` (products, derivatives, projection, update) and ``total``.
        """
        recording = trace.enabled()
        if not recording:
            trace.start()
        before, pointwise, begin = _spent(), self._core.pointwise_seconds, _weft.trace.now_ns()
        try:
            self.step(steps, end)
        finally:
            total = (_weft.trace.now_ns() - begin) * 1e-9
            after = _spent()
            if not recording:
                trace.stop()
        return _breakdown(
            {name: (seconds - before.get(name, 0.0)) / steps for name, seconds in after.items()},
            total / steps,
            (self._core.pointwise_seconds - pointwise) / steps,
        )

    def _scalar(self, number: int) -> int:
        if not 0 <= number < len(self.scalars):
            raise ValueError(f"turbulence: scalar index out of range: {number}; there are {len(self.scalars)}")
        return number

    def _shape(self) -> tuple[int, int, int]:
        x, y, z = self.points[1]
        return z, y, x

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.sizes))
        pr, pc = self.process_grid
        chosen = f"{self.options.scheme}, {self.options.dealiasing}, {self.precision}"
        return f"Solver({size} points, {chosen}, {pr}x{pc} ranks, {self.device.backend})"


_EXCHANGES = ("row exchange", "column exchange")


def _spent() -> dict[str, float]:
    """The recorder's exclusive seconds by name; exchanges include the messages, waits and copies within them."""
    names, phases = trace.names(), trace.phases(_EXCHANGES)
    return names | {
        exchange: sum(phases.get(exchange, {}).get(category, 0.0) for category in ("mpi", "copy"))
        for exchange in _EXCHANGES
    }


def _breakdown(spent: dict[str, float], total: float, pointwise: float) -> dict[str, float]:
    """The categories of GESTS, Table 3.

    ``pointwise``: seconds of the host's pointwise functions, which the recorder counts as part of the transforms.
    """
    parts = {
        "fft": sum(seconds for name, seconds in spent.items() if name.startswith("fft")) - pointwise,
        "pack_unpack": spent.get("pack", 0.0) + spent.get("unpack", 0.0),
        "row_mpi": spent["row exchange"],
        "column_mpi": spent["column exchange"],
    }
    parts["other"] = max(0.0, total - sum(parts.values()))
    parts["total"] = total
    return parts


def _three(values: N | Sequence[N], convert: Callable[[N], N], name: str) -> tuple[N, N, N]:
    each = list(values) if isinstance(values, Iterable) else [values] * 3
    if len(each) != 3:
        raise ValueError(f"turbulence: {name} must be one number, or three along x, y, z; found {len(each)}")
    return convert(each[0]), convert(each[1]), convert(each[2])


def _grid(asked: str | tuple[int, int] | None, ranks: int, sizes: tuple[int, int, int]) -> tuple[int, int]:
    if asked is None:
        if ranks <= min(sizes[1], sizes[2]):
            return 1, ranks
        pr = max(d for d in range(1, math.isqrt(ranks) + 1) if ranks % d == 0)
        return pr, ranks // pr
    parts = str(asked).lower().split("x") if isinstance(asked, str) else list(asked)
    try:
        pr, pc = (int(part) for part in parts)
    except ValueError:
        raise ValueError(f"turbulence: process_grid = {asked!r} is not 'auto', 'PrxPc' or (Pr, Pc)") from None
    return pr, pc
