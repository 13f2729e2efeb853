"""A case of `weft run poisson` on its mesh: the operator, the right-hand side and the exact solution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI

import weft
from weft.arrays import DeviceArray, Values
from weft.cases.poisson import PoissonCase
from weft.cases.schema import settings
from weft.run import elements
from weft.run.poisson.memory import least_bytes

if TYPE_CHECKING:
    from weft.mesh import Mesh
    from weft.poisson import Poisson
    from weft.run.poisson.own import OwnProblem


@dataclass(frozen=True)
class Box:
    """The box of a case, with defaults filled in."""

    counts: tuple[int, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]


def box_of(case: PoissonCase) -> Box:
    """The box of a case. By default its counts follow from the number of points, and its elements have side 2."""
    mesh = case.mesh
    counts = mesh.counts if mesh.counts[0] > 0 else elements.box_counts(mesh.points, case.order)
    upper = mesh.upper if any(mesh.upper) else tuple(lo + 2 * c for lo, c in zip(mesh.lower, counts, strict=True))
    return Box(counts, mesh.lower, upper)


def make_mesh(case: PoissonCase, comm: MPI.Intracomm) -> Mesh:
    """The mesh that a case describes, distributed over the ranks. (collective)"""
    return elements.make_mesh(case, comm, partial(least_bytes, case), box_of(case).upper)


def make_operator(case: PoissonCase, mesh: Mesh) -> Poisson:
    """The operator of a case. (collective)"""
    return weft.Poisson(mesh, dirichlet=case.boundary == "dirichlet", **settings(case))


def error(case: PoissonCase, operator: Poisson, own: OwnProblem | None, x: DeviceArray) -> float | None:
    """The L2 norm of the difference from the exact solution; None if that is not known. (collective)"""
    if own is not None:
        return None if own.exact is None else operator.error(x, own.exact, own.held)
    return operator.error(x, manufactured(case)[0]) if case.rhs == "manufactured" else None


def manufactured(case: PoissonCase) -> tuple[Callable[[Values, Values, Values], Values], float]:
    """u(x, y, z) that satisfies the case's boundary conditions on its box, and k^2 with -Laplacian u = k^2 u."""
    factors = []
    eigenvalue = 0.0
    box = box_of(case)
    for lower, upper, periodic in zip(box.lower, box.upper, case.mesh.periodic, strict=True):
        wave = (2 if periodic else 1) * math.pi / (upper - lower)
        wave_form = np.sin if periodic or case.boundary == "dirichlet" else np.cos
        eigenvalue += wave**2
        factors.append((wave_form, wave, lower))

    def u(x: Values, y: Values, z: Values) -> Values:
        (fx, kx, ax), (fy, ky, ay), (fz, kz, az) = factors
        return fx(kx * (x - ax)) * fy(ky * (y - ay)) * fz(kz * (z - az))

    return u, eigenvalue


def right_hand_side(case: PoissonCase, operator: Poisson) -> DeviceArray:
    """The right-hand side b: random, from f = 1, or from the manufactured solution. (collective)"""
    if case.rhs == "random":
        return operator.random_rhs(case.seed)
    if case.rhs == "unit":
        return operator.project(lambda x, y, z: np.ones_like(x))
    # -Laplacian u = k^2 u. The screening of Eq. 1 multiplies the identity, not a mass matrix: lambda u is added per
    # point.
    u, eigenvalue = manufactured(case)
    b = operator.project(lambda x, y, z: eigenvalue * u(x, y, z))
    return b + case.lambda_ * operator.interpolate(u)


def cycled(case: PoissonCase) -> bool:
    """Whether the preconditioner is a multigrid cycle or its smoother."""
    return case.solver.preconditioner in ("chebyshev", "multigrid")


def iterations_at_most(case: PoissonCase) -> int:
    """The maximum number of iterations of a case."""
    return case.solver.max_iterations if case.solver.tolerance > 0.0 else case.solver.iterations
