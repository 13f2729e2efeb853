"""The screened Poisson problem (S + lambda I) x = b on the spectral elements of a mesh.

A short solve, -Laplacian u = f with u given on the boundary::

    mesh = weft.Mesh.box((8, 8, 8))
    op = weft.Poisson(mesh, order=7, lam=0.0, dirichlet=True)
    result = op.cg(op.project(f) + op.lift(u), tolerance=1e-10, preconditioner="jacobi")
    values = op.at_points(result.x, boundary=u)  # [E][k][j][i]

Source: Chalmers et al., "hipBone: a performance-portable GPU-accelerated C++ version of the NekBone benchmark".
docs/poisson.md has the equations, the variants, and the bytes that each moves.
"""

from __future__ import annotations

import dataclasses
import math
import operator as _operator
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from weft import _weft, trace
from weft import device as _device
from weft.arrays import DeviceArray, DType, Values
from weft.mesh import face_points
from weft.multigrid import coarsen
from weft.options import by_name

if TYPE_CHECKING:
    from mpi4py import MPI

    from weft.device import Device
    from weft.mesh import Mesh
    from weft.record import Choices, Tuning

__all__ = ["CgResult", "Poisson"]

# A function of coordinates, f(x, y, z) -> values, on arrays of any one shape.
Function = Callable[[Values, Values, Values], npt.ArrayLike]

_CORES: dict[str, type[_weft.poisson.PoissonDouble | _weft.poisson.PoissonSingle]] = {
    "double": _weft.poisson.PoissonDouble,
    "single": _weft.poisson.PoissonSingle,
}
_TYPES = {"double": np.float64, "single": np.float32}


# How far points are moved towards the middle of their element where a coefficient is taken, so that one that jumps
# between elements has the value of their own side on a face.
INWARDS = 1e-12


@dataclass(frozen=True)
class CgResult:
    """The result of a solve."""

    x: DeviceArray  #: the solution, a vector like those of ``Poisson.vector``
    residuals: list[float]  #: |r| before the first iteration and after each, in the operator's inner product
    iterations: int
    converged: bool  #: |b - A x| itself reached the tolerance, or a fixed number of iterations was completed
    algorithm: str  #: ``classic``, ``merged`` or ``multigrid METHOD``
    seconds: float  #: time of the iterations on the slowest rank
    breakdown: dict[str, float] = field(default_factory=dict)  #: this rank's exclusive seconds by category
    #: |b - A x| relative to the first |r|; the residuals of the iterations agree with it up to rounding; NaN if not
    #: computed
    true_residual: float = math.nan


def _choice(key: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"poisson: {key} = {value!r} is not one of: {', '.join(allowed)}")
    return value


class Poisson:
    """A = S + lambda I on the ranks of ``mesh`` (hipBone, Eq. 1 and 2), and conjugate gradients for it.

    ``order``: polynomial degree N, 1 to 15. ``lam``: the screening parameter; it multiplies the identity, not a mass
    matrix. ``device``: ``auto``, ``host``, ``cuda``, ``hip`` or a ``weft.device.Device``. ``precision``: ``double`` or
    ``single``. ``storage``: ``assembled`` (a vector holds every degree of freedom once, as in hipBone) or ``scattered``
    (once per element, as in Nekbone). ``geometry``: ``stored`` factors, ``trilinear`` (recomputed from the corners;
    straight elements only), ``mixed`` (stored for curved elements and recomputed for the others), or ``auto``. With
    SIMD kernels, ``auto`` measures whether it is faster to read stored factors (48 bytes per point in double precision)
    for straight elements that are not parallelepipeds, too; the two results differ by rounding. Unless it is stored,
    the metric of a parallelepiped is constant. ``kernels``: ``portable`` (the same source for all devices), ``simd``
    (for hosts only), or ``auto``. ``threads``: the thread blocks of the portable kernels, ``points``, ``columns``,
    ``matrices`` (orders 3, 7 and 15 in double precision), or ``auto``. ``dirichlet``: the boundaries whose points are
    removed (their value is 0, or see ``lift``): ``True`` for all, ``False`` for none, or their names; the others are
    natural. ``exchange``: ``auto`` (timed, separately for halo and gather), ``schedule`` or ``schedule:path``;
    ``exchange_cache``: store the timings on disk for the next run on the same mesh, ranks and machine.
    ``coefficient``: k(x, y, z) above 0, which makes S the operator of -div(k grad u). It may jump between elements:
    points are moved inwards by 1e-12 of their element before k is evaluated. It needs ``stored`` geometry, which
    ``auto`` then chooses. ``screening``: c(x, y, z), at least 0, adds the term c u:
    A = S + lam I + Z^T (w J c) Z, the operator of -div(k grad u) + c u. The levels of multigrid evaluate c at their
    own points. CG then runs ``classic``.

    Vectors have ``unknowns`` values on each rank. They are NumPy arrays on the host, and on a GPU CuPy arrays if CuPy
    is installed, else any array with ``__dlpack__``. Values at points are arrays ``[E][n][n][n]`` (element, t, s, r;
    n = order + 1) in the mesh's order of elements. Construction, and every method marked (collective), must be called
    on all ranks.

    Raises ValueError for options that do not exist or do not go together; raises ``weft.mpi.CollectiveError``, the same
    on all ranks, for what only some ranks can see, such as a negative Jacobian.
    """

    @by_name(_weft.poisson.Options, hidden=("lambda_",))
    def __init__(
        self,
        mesh: Mesh,
        order: int = 7,
        lam: float = 0.1,
        *,
        device: str | Device = "auto",
        precision: str = "double",
        geometry: str = "auto",
        kernels: str = "auto",
        exchange: str = "auto",
        exchange_cache: bool = False,
        coefficient: Function | None = None,
        screening: Function | None = None,
        **options: Any,
    ) -> None:
        if precision not in _CORES:
            raise ValueError(f"poisson: precision = {precision!r} is not one of: {', '.join(_CORES)}")
        self.mesh = mesh
        self.precision = precision
        self.device = _device.open(device) if isinstance(device, str) else device
        given = _weft.poisson.Options(order=order, lambda_=lam, device=self.device, **options)
        given.exchange = (exchange, exchange_cache)
        self.order = given.order
        self.lam = given.lambda_
        self.storage = given.storage
        self.dirichlet = options.get("dirichlet", False)
        self.coefficient = coefficient
        threads = given.threads
        why: dict[str, str] = {}
        given.kernels, why["kernels"] = self._choose_kernels(kernels)
        given.geometry, why["geometry"] = self._choose_geometry(geometry, given.kernels)
        self.kernels = given.kernels
        self.screening = screening
        screened = self._screening_mass(self.order)
        self._mesh = mesh._core if coefficient is None else self._with_coefficient(coefficient)
        self._core = _CORES[precision](self._mesh, given)
        self.geometry = self._core.geometry
        if self._core.geometry_reason:
            why["geometry"] = self._core.geometry_reason
        if screened is not None:
            self._core.set_screening(screened.astype(self.dtype))
        #: elements on all ranks by the form of their metric: ``parallelepiped`` (constant), ``trilinear``, ``stored``
        self.elements_by_shape = {
            shape: int(self.comm.allreduce(count)) for shape, count in self._core.elements_by_shape.items()
        }
        #: how many of the parallelepipeds have right angles, so that their metric is diagonal
        self.boxes = int(self.comm.allreduce(self._core.boxes))
        if len(shapes := [f"{count} {shape}" for shape, count in self.elements_by_shape.items() if count]) > 1:
            why["geometry"] += f" (elements: {', '.join(shapes)})"
        elif self.elements_by_shape["parallelepiped"]:
            why["geometry"] += ", and all are parallelepipeds"
        why["storage"] = (
            "every degree of freedom once"
            if self.storage == "assembled"
            else "every point of every element, as in Nekbone"
        )
        if self._core.threads is not None:
            why["threads"] = "requested" if threads != "auto" else "the best for this device and order"
        found = {
            "geometry": self.geometry,
            "kernels": self.kernels,
            "storage": self.storage,
            "threads": self._core.threads,
        }
        #: what was chosen and why, by option: "choice: reason"; for the exchange see ``tuning``
        self.choices = cast("Choices", {key: f"{found[key]}: {reason}" for key, reason in why.items()})
        if self._core.access is not None:
            self.choices["access"] = self._core.access
        self.choices["exchange"] = self.tuning
        self._multigrid: tuple[object, ...] | None = None  # the options with which the levels were created
        self._singular = False  # as detected when the levels were created

    @property
    def tuning(self) -> dict[str, Tuning]:
        """How the exchange was chosen, for ``halo`` and ``gather`` (scattered storage: ``gather_scatter``).

        ``weft.GatherScatter.tuning`` describes the entries.
        """
        return dict(self._core.exchange)

    def _with_coefficient(self, coefficient: Function) -> _weft.mesh.Mesh:
        """The mesh with the coefficient in its geometric factors.

        Raises CollectiveError if the coefficient is not above 0. (collective)
        """
        from weft import mpi

        def made() -> _weft.mesh.Mesh:
            values = self._inside("the coefficient", coefficient, self.order, "above 0", np.greater)
            return self.mesh._core.with_coefficient(self.order, values)

        return mpi.together(self.comm, made)

    def _screening_mass(self, order: int) -> Values | None:
        """The screening times the mass of each point [points] of an order.

        Raises CollectiveError if it is below 0; None if there is no screening. (collective)
        """
        from weft import mpi

        given = self.screening
        if given is None:
            return None
        values = mpi.together(
            self.comm, lambda: self._inside("the screening", given, order, "at least 0", np.greater_equal)
        )
        return np.ascontiguousarray(values * self.mesh.mass_matrix(order)).ravel()

    def _inside(
        self, what: str, function: Function, order: int, limit: str, holds: Callable[[Values, float], Values]
    ) -> Values:
        """A function at the points [E][points] of an order, each moved slightly into its own element.

        Raises ValueError if a value violates the limit.
        """
        points = self.mesh.point_coordinates(order)
        points = points + INWARDS * (points.mean(axis=1, keepdims=True) - points)
        x, y, z = np.moveaxis(points, -1, 0)
        values = np.ascontiguousarray(np.broadcast_to(np.asarray(function(x, y, z), np.float64), x.shape))
        wrong = ~(np.isfinite(values) & holds(values, 0.0))
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            place = ", ".join(f"{c[at]:.4g}" for c in (x, y, z))
            raise ValueError(f"poisson: {what} is {values[at]:g} at ({place}); allowed: finite, {limit}")
        return values

    def _choose_geometry(self, geometry: str, kernels: str) -> tuple[str, str]:
        if geometry != "auto":
            return geometry, "requested"
        if self.coefficient is not None:
            return "stored", "they hold the coefficient"
        if kernels == "simd":  # the operator chooses by timing, unless all elements are parallelepipeds or curved
            why = "all elements have straight edges" if self.mesh.straight else "curved elements store their metric"
            return "auto", why
        if self.mesh.straight:
            return "trilinear", "all elements have straight edges"
        return "mixed", "the mesh has curved elements, whose metric is stored"

    def _choose_kernels(self, kernels: str) -> tuple[str, str]:
        possible = self.device.is_host and self.storage == "assembled"
        if kernels != "auto":
            return kernels, "requested"
        if possible:
            return "simd", "made for the host's processors"
        return "portable", "scattered storage" if self.device.is_host else "the kernels of GPUs"

    # --- sizes -------------------------------------------------------------------------------------------------------

    @property
    def comm(self) -> MPI.Intracomm:
        """The mpi4py communicator of the mesh."""
        return self.mesh.comm

    @property
    def ranks(self) -> int:
        """Number of ranks that share the mesh."""
        return int(self.comm.size)

    @property
    def elements(self) -> int:
        """E: the number of elements of all ranks."""
        return int(self.mesh.global_elements)

    @property
    def dofs(self) -> int:
        """N_G: degrees of freedom of all ranks, without points on Dirichlet boundaries."""
        return int(self._core.dofs)

    @property
    def points(self) -> int:
        """N_L = E (N + 1)^3: element-local points of all ranks."""
        return self.elements * (self.order + 1) ** 3

    @property
    def unknowns(self) -> int:
        """Number of values of a vector on this rank; N_G (assembled) or N_L (scattered) over all ranks."""
        return int(self._core.unknowns)

    @property
    def halo_elements(self) -> int:
        """Number of this rank's elements with points that other ranks also hold: those of the second launch."""
        return int(self._core.halo_elements)

    @property
    def bytes_sent(self) -> int:
        """Bytes this rank sends in one application of A."""
        return int(self._core.bytes_sent)

    @property
    def messages(self) -> int:
        """Messages this rank sends in one application of A."""
        return int(self._core.messages)

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Bytes held by this rank, by array; includes those of CG after its first run."""
        return dict(self._core.memory_bytes())

    @property
    def resources(self) -> dict[str, int]:
        """The portable kernel's threads and elements per block, registers, shared bytes, blocks per multiprocessor."""
        return dict(self._core.resources())

    # --- vectors -----------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> DType:
        """Type of vectors: float64 or float32, by ``precision``."""
        return np.dtype(_TYPES[self.precision])

    def vector(self, values: npt.ArrayLike = 0.0) -> DeviceArray:
        """A vector of this rank on the operator's device, filled with ``values`` (a number or [unknowns])."""
        return self._to_device(np.broadcast_to(np.asarray(_real(values), self.dtype), (self.unknowns,)).copy())

    def coordinates(self) -> npt.NDArray[np.float64]:
        """[unknowns][3]: coordinates of each value of a vector (one of its periodic images), on the host."""
        return self._core.coordinates()

    def random_rhs(self, seed: int = 0) -> DeviceArray:
        """Pseudo-random values in [-1, 1), a hash of ``seed`` and the point's global id: the same on any ranks.

        A sum over the elements' copies, as Nekbone's right-hand side is, would depend on the storage; this does not.
        """
        return self._to_device(self._core.random_values(seed))

    def interpolate(self, function: Function) -> DeviceArray:
        """``function`` at the points of a vector, 0 at masked ones."""
        x, y, z = self.coordinates().T
        values = np.broadcast_to(np.asarray(function(x, y, z), np.float64), x.shape)
        return self._to_device(np.where(self._core.unknown_ids() > 0, values, 0.0).astype(self.dtype))

    def project(self, function: Function) -> DeviceArray:
        """The right-hand side Z^T (w J f) of a function f(x, y, z): its integrals against the basis. (collective)"""
        return self._to_device(self._core.sum_points(self._per_point(function, self._core.mass())))

    def lift(self, function: Function | Values) -> DeviceArray:
        """The contribution of prescribed Dirichlet values to the right-hand side. (collective)

        With u_b = function there and 0 elsewhere, -Z^T S_L u_b. The solution at all points is then
        ``at_points(x, boundary=function)``. ``function``: or values at points, [E][n][n][n].
        """
        return self._to_device(-self._core.stiffness_of_points(self._per_point(function, self._core.masked())))

    def flux(self, function: Function, boundaries: Sequence[str]) -> DeviceArray:
        """The right-hand side of prescribed fluxes k du/dn = function on boundaries, by name: the integrals of the
        function times the basis over their faces. (collective)"""
        n = self.order + 1
        _, weights, derivative = _weft.mesh.gll(self.order)
        known = list(self.mesh.boundary_names)
        chosen = [boundaries] if isinstance(boundaries, str) else list(boundaries)
        if unknown := [name for name in chosen if name not in known]:
            raise ValueError(
                f"poisson: {self.mesh.source} has no boundary {unknown[0]!r}; it has {', '.join(known) or 'none'}"
            )
        numbers = [1 + known.index(name) for name in chosen]
        place = np.asarray(self.mesh.point_coordinates(self.order)).reshape(-1, n, n, n, 3)
        area = np.zeros(place.shape[:-1])
        marked = np.isin(np.asarray(self.mesh.boundaries), numbers)
        for face in range(6):
            of = np.flatnonzero(marked[:, face])
            corner = place[face_points(face, of)]  # [faces][n][n][3]
            first = np.einsum("am,fmbc->fabc", derivative, corner)
            second = np.einsum("bm,famc->fabc", derivative, corner)
            area[face_points(face, of)] += np.linalg.norm(np.cross(first, second), axis=-1) * np.outer(weights, weights)
        values = area * np.broadcast_to(np.asarray(function(*np.moveaxis(place, -1, 0)), np.float64), area.shape)
        return self._to_device(self._core.sum_points(np.ascontiguousarray(values.ravel(), self.dtype)))

    def at_points(self, x: DeviceArray, boundary: Function | Values | None = None) -> Values:
        """[E][n][n][n] values of a vector at this rank's points, ``boundary`` (else 0) where masked. (collective)"""
        values = self._core.at_points(_to_host(x, self.dtype))
        if boundary is not None:
            values = np.where(self._core.masked() != 0, self._per_point(boundary), values)
        n = self.order + 1
        return values.reshape(-1, n, n, n)

    def error(self, x: DeviceArray, exact: Function, boundary: Function | Values | None = None) -> float:
        """The L2 norm of x - exact over the mesh, with the values of ``boundary``, else exact's own, on Dirichlet
        boundaries. (collective)

        Both are compared as functions, by quadrature of an order three higher: at the operator's own points the error
        is smaller than it is between them.
        """
        from mpi4py import MPI

        order = min(self.order + 3, 15)
        points, fine = (_weft.mesh.gll(n)[0] for n in (self.order, order))
        to = _weft.mesh.interpolation(points, fine)
        values = np.asarray(self.at_points(x, boundary=exact if boundary is None else boundary), np.float64)
        for axis in (1, 2, 3):
            values = np.moveaxis(np.tensordot(values, to, axes=(axis, 1)), -1, axis)
        place = np.moveaxis(np.asarray(self.mesh.point_coordinates(order)).reshape(-1, 3), 1, 0)
        difference = values.ravel() - np.asarray(exact(*place), np.float64)
        mass = np.asarray(self.mesh.geometric_factors(order)[1]).ravel()
        return float(np.sqrt(self.comm.allreduce(float(mass @ difference**2), op=MPI.SUM)))

    def write_fields(self, path: str | os.PathLike[str], fields: Mapping[str, DeviceArray]) -> Path:
        """Write vectors for ParaView (VTK's high-order hexahedra); returns the file to open. (collective)

        ``fields``: name -> vector, as ``{"u": result.x}``; 0 where a Dirichlet boundary masks points, or values at
        points as ``at_points`` gives them.
        """
        from weft.mesh_io.fields import write_fields

        n = self.order + 1
        at_points = {
            name: value if np.ndim(value) == 4 and np.shape(value)[1:] == (n, n, n) else self.at_points(value)
            for name, value in fields.items()
        }
        return write_fields(path, self.mesh, self.order, at_points)

    def _per_point(self, function: Function | Values, factor: Values | None = None) -> Values:
        if callable(function):
            x, y, z = self._core.point_coordinates().T
            values = np.broadcast_to(np.asarray(function(x, y, z), np.float64), x.shape)
        else:
            values = np.asarray(function, np.float64).ravel()
        return np.ascontiguousarray(values if factor is None else factor * values, self.dtype)

    def _to_device(self, values: Values) -> DeviceArray:
        values = np.ascontiguousarray(values, self.dtype)
        return values if self.device.is_host else _wrap(self.device.array(values).view())

    # --- work --------------------------------------------------------------------------------------------------------

    def apply(self, x: DeviceArray) -> DeviceArray:
        """A x. (collective)"""
        return _wrap(self._core.apply(_vector(x, self.dtype)))

    def cg(
        self,
        b: DeviceArray,
        *,
        iterations: int | None = None,
        tolerance: float | None = None,
        max_iterations: int | None = None,
        guess: DeviceArray | None = None,
        preconditioner: str = "none",
        algorithm: str = "auto",
        progress: Callable[[int, float], None] | None = None,
    ) -> CgResult:
        """Solve A x = b by conjugate gradients (hipBone, Algorithm 1). (collective)

        Give either ``iterations`` (so many, unless the residual becomes zero: the benchmark, default 100) or
        ``tolerance`` (stop when |r| is below it times the first |r|; at most ``max_iterations``, default 10000;
        ``result.converged`` says whether it was reached). ``guess``: the initial guess, default 0.
        ``preconditioner``: ``none`` or ``jacobi``. ``algorithm``: ``classic`` (the paper's), ``merged`` (the same
        recurrence in one pass per iteration, with the SIMD kernels), or ``auto``. ``progress``: called as
        progress(iteration, residual norm) on every rank.

        Raises ``CollectiveError`` on all ranks if NaN or Inf turns up, or if A proves not to be positive definite.
        """
        if iterations is not None and tolerance is not None:
            raise ValueError("poisson: give iterations (a fixed number) or tolerance (a solve), not both")
        if max_iterations is not None and tolerance is None:
            raise ValueError("poisson: max_iterations goes with tolerance; for a fixed number use iterations")
        _choice("preconditioner", preconditioner, ("none", "jacobi"))
        _choice("algorithm", algorithm, ("auto", "classic", "merged"))
        if algorithm == "merged" and self.kernels != "simd":
            raise ValueError(f"poisson: algorithm = 'merged' needs kernels = 'simd', not {self.kernels!r}")
        if algorithm == "merged" and self.screening is not None:
            raise ValueError("poisson: algorithm = 'merged' does not support a screening term; use 'classic' or 'auto'")
        merged = self.kernels == "simd" and self.screening is None if algorithm == "auto" else algorithm == "merged"
        if tolerance is None:
            count, relative = 100 if iterations is None else _operator.index(iterations), 0.0
        else:
            count, relative = 10000 if max_iterations is None else _operator.index(max_iterations), float(tolerance)
            if not 0 < relative < 1:
                raise ValueError(
                    f"poisson: tolerance = {relative}; allowed: between 0 and 1, relative to the first residual"
                )
        if count < 1:
            raise ValueError(f"poisson: {count} iterations; allowed: at least 1")

        def solved(rhs: DeviceArray, start: DeviceArray | None, until: float, most: int) -> CgResult:
            return self._solved(
                lambda: self._core.cg(
                    _vector(rhs, self.dtype),
                    None if start is None else _vector(start, self.dtype),
                    most,
                    until,
                    preconditioner,
                    merged,
                    progress,
                ),
                "merged" if merged else "classic",
            )

        result = solved(b, guess, relative, count)
        if relative == 0:
            return result
        return self._checked(
            result, b, relative, False,
            lambda r, until, used: solved(self._to_device(r), None, until, max(1, count - used)),
        )  # fmt: skip

    def _checked(
        self,
        result: CgResult,
        b: DeviceArray,
        tolerance: float,
        singular: bool,
        again: Callable[[Values, float, int], CgResult],
    ) -> CgResult:
        """The result of a solve to a tolerance, converged only if its true residual is below it. (collective)

        The residuals of the iterations follow a recurrence, which continues to decrease when b - A x no longer does.
        While the true residual is above the tolerance, and at least halves each time, A d = b - A x is solved by
        ``again(right-hand side, tolerance, iterations so far)`` and d is added to x. ``singular``: constants in b,
        which are outside the range of A, are ignored.
        """
        first, before, best = result.residuals[0], math.inf, result
        if not result.converged or first == 0:
            return result
        while True:
            r = _to_host(b, self.dtype).astype(float) - _to_host(self.apply(result.x), self.dtype)
            if singular:
                r -= self.comm.allreduce(float(r.sum())) / self.dofs
            found = math.sqrt(self.comm.allreduce(float(self._weights() @ r**2))) / first
            if found < before:
                best = dataclasses.replace(result, converged=found <= 1.001 * tolerance, true_residual=found)
            if best.converged or not found < 0.5 * before:
                return best
            before = found
            more = again(r, 0.5 * tolerance / found, result.iterations)
            result = dataclasses.replace(
                result,
                x=self._to_device(_to_host(result.x, self.dtype) + _to_host(more.x, self.dtype)),
                residuals=[*result.residuals, *more.residuals[1:]],
                iterations=result.iterations + more.iterations,
                seconds=result.seconds + more.seconds,
                breakdown={k: v + more.breakdown.get(k, 0.0) for k, v in result.breakdown.items()},
            )

    def imbalance(self, b: DeviceArray) -> float:
        """The sum of a right-hand side over the sum of its magnitudes, from 0 to 1. (collective)

        If A is singular (no Dirichlet boundary, lam = 0, no screening), A x = b has solutions only where it is 0: where
        sources and fluxes balance.
        """
        values = _to_host(b, self.dtype).astype(float)
        weights = self._weights()
        total, size = (self.comm.allreduce(float(weights @ part)) for part in (values, np.abs(values)))
        return abs(total) / size if size > 0 else 0.0

    def _weights(self) -> Values:
        """The weights of inner products [unknowns]: one over the number of copies of each value, 0 where masked."""
        used = self._core.unknown_ids() > 0
        if self.storage == "assembled":
            return np.asarray(used, float)
        copies = np.asarray(self._core.sum_points(np.ones(used.shape, self.dtype)), float)
        return np.where(used, 1 / np.where(used, copies, 1), 0.0)

    def _solved(self, solve: Callable[[], dict[str, Any]], algorithm: str) -> CgResult:
        """The result of a solve of the extension, with where its time went."""
        before = trace.categories() if trace.enabled() else None
        if before is None:
            trace.start()
        try:
            with trace.span("conjugate gradients"):
                result = solve()
        finally:
            if before is None:
                trace.stop()
        after = trace.categories()
        breakdown = {name: seconds - (before or {}).get(name, 0.0) for name, seconds in after.items()}
        return CgResult(
            _wrap(result["x"]),
            result["residuals"],
            result["iterations"],
            result["converged"],
            algorithm,
            result["seconds"],
            breakdown,
        )

    def multigrid(
        self,
        b: DeviceArray,
        *,
        tolerance: float = 1e-8,
        max_iterations: int = 200,
        guess: DeviceArray | None = None,
        method: str = "cg",
        restart: int = 30,
        orders: tuple[int, ...] | None = None,
        smoother: str = "auto",
        degree: int = 3,
        precision: str = "auto",
        progress: Callable[[int, float], None] | None = None,
    ) -> CgResult:
        """Solve A x = b by a Krylov method with a p-multigrid V-cycle as its preconditioner. (collective)

        ``method``: ``cg`` (flexible conjugate gradients) or ``gmres`` (flexible, restarted after ``restart``
        directions). ``orders``: the orders of the levels, decreasing from that of the operator to 1, by default N, N/2,
        ..., 1; the level of order 1 uses algebraic multigrid (PyAMG). If only the order of the operator is given, the
        smoother alone is the preconditioner. ``smoother``: ``chebyshev-jacobi``, ``chebyshev-schwarz``, ``schwarz``
        (one step of a restricted overlapping Schwarz method), or ``auto``: ``schwarz`` where all elements are boxes,
        else ``chebyshev-schwarz``, but ``chebyshev-jacobi`` with a screening that varies a lot. ``degree``: the degree
        of the Chebyshev polynomial (1 to 4). ``precision``: that of the V-cycle, ``double``, ``single``, or ``auto``:
        single, which halves the bytes that it moves; the Krylov method around it keeps the operator's precision. The
        first solve creates the levels; a later one creates them again if these options have changed.

        If A is singular (no Dirichlet boundary, lam = 0), the part of b along the constants is dropped and the unknowns
        of the solution have mean 0. Raises the errors of ``cg``, and ``CollectiveError`` if the preconditioner proves
        not to be positive definite in ``cg``.
        """
        _choice("method", method, ("cg", "gmres"))
        _choice("smoother", smoother, ("auto", "chebyshev-jacobi", "schwarz", "chebyshev-schwarz"))
        _choice("precision", precision, ("auto", "single", "double"))
        if self.storage != "assembled":
            raise ValueError("poisson: multigrid needs storage = 'assembled'")
        max_iterations, restart, degree = map(_operator.index, (max_iterations, restart, degree))
        levels = multigrid_orders(self.order) if orders is None else [_operator.index(order) for order in orders]
        single = precision == "single" or (precision == "auto" and self.precision == "double")
        options = (tuple(levels), orders is None, smoother, degree, single, method, restart)
        if self._multigrid != options:
            self._multigrid = None  # until all is made: the next solve starts anew if this fails
            made = self._core.make_multigrid(
                self._mesh,
                orders=levels,
                smoother=smoother,
                degree=degree,
                single=single,
                method=method,
                restart=restart,
                algebraic=orders is None,
                screening=[values for order in levels if (values := self._screening_mass(order)) is not None],
            )
            sizes: list[int] = []
            if made["algebraic"]:
                size = self.comm.allreduce(int(self._core.coarse_unknowns))
                triplets = (made["rows"], made["columns"], made["values"])
                hierarchy, sizes = coarsen(*triplets, size, made["singular"], self.comm)
                self._core.set_coarse(*hierarchy)
            self._multigrid, self._singular = options, bool(made["singular"])
            self.choices["multigrid"] = {
                "orders": levels,
                "algebraic_level_unknowns": sizes,
                "smoother": "none" if made["algebraic"] and len(levels) == 1 else made["smoother"],
                "degree": 1 if made["smoother"] == "schwarz" else degree,
                "largest_eigenvalues": made["largest_eigenvalues"],
                "precision": "single" if single else self.precision,
                "method": method,
                "exchange": made["exchange"],
            }

        def solved(rhs: DeviceArray, start: DeviceArray | None, until: float, most: int) -> CgResult:
            return self._solved(
                lambda: self._core.solve_multigrid(
                    _vector(rhs, self.dtype),
                    None if start is None else _vector(start, self.dtype),
                    most,
                    until,
                    progress,
                ),
                f"multigrid {method}",
            )

        return self._checked(
            solved(b, guess, tolerance, max_iterations), b, tolerance, self._singular,
            lambda r, until, used: solved(self._to_device(r), None, until, max(1, max_iterations - used)),
        )  # fmt: skip

    def time_kernel(self, repeats: int = 50) -> list[float]:
        """Seconds of each of ``repeats`` runs of the element kernel alone, (S_L + lambda W) Z, on this rank."""
        return list(self._core.time_kernel(repeats))

    def __repr__(self) -> str:
        return (
            f"Poisson({self.mesh.source}: order {self.order}, {self.dofs} degrees of freedom, {self.storage}, "
            f"{self.geometry} geometry, {self.kernels} kernels, {self.precision}, {self.device.backend})"
        )


def multigrid_orders(order: int) -> list[int]:
    """N, N/2 rounded down, ..., 1: the levels of a p-multigrid, each with about an eighth of the points."""
    orders = [order]
    while orders[-1] > 1:
        orders.append(orders[-1] // 2)
    return orders


def _vector(x: DeviceArray, dtype: DType) -> DeviceArray:
    """An array that the extension accepts: a contiguous host array of the right type, or a device array unchanged."""
    if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] != 1:
        return x
    return np.ascontiguousarray(_real(x), dtype).ravel()


def _real(x: DeviceArray) -> Values:
    """A host array; raises TypeError for complex values, whose imaginary part NumPy would drop with a mere warning."""
    values = np.asarray(x)
    if values.dtype.kind == "c":
        raise TypeError(f"poisson: the values are of type {values.dtype}, but real numbers are needed")
    return values


def _to_host(x: DeviceArray, dtype: DType) -> Values:
    if hasattr(x, "get"):  # CuPy
        x = x.get()
    elif not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__"):
        x = np.from_dlpack(x, device="cpu")
    return np.ascontiguousarray(_real(x), dtype).ravel()


def _wrap(x: DeviceArray) -> DeviceArray:
    """Host arrays unchanged; arrays on a GPU as CuPy arrays, if CuPy is installed."""
    if isinstance(x, np.ndarray):
        return x
    try:
        import cupy
    except ImportError:
        return x
    return cupy.from_dlpack(x)
