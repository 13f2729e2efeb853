"""A problem that the case states: -div(k grad u) + c u = f, with values and fluxes on the boundaries of its mesh."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import weft
from weft import arrays
from weft.arrays import DeviceArray
from weft.cases.poisson import BoundarySection, PoissonCase
from weft.cases.schema import settings
from weft.mesh import face_points
from weft.mpi import CollectiveError
from weft.run.elements import OTHERS, conditions
from weft.run.poisson.values import Values

if TYPE_CHECKING:
    from weft.mesh import Mesh
    from weft.poisson import Poisson

BALANCED = 1e-3  # largest sum of sources and fluxes over their magnitudes that counts as an error of quadrature


class OwnProblem:
    """The values of the problem as functions, and the conditions on its boundaries. Construction is collective."""

    def __init__(self, case: PoissonCase, mesh: Mesh) -> None:
        self.case, self.mesh = case, mesh
        self.value = Values(case, mesh.comm)
        rest = BoundarySection(value=0.0) if case.boundary == "dirichlet" else BoundarySection(flux=0.0)
        unnamed = {} if OTHERS in case.boundaries else dict.fromkeys(mesh.boundary_names, rest)
        self.boundaries = conditions(mesh, case.boundaries, unnamed, ("value", "flux"))
        self.exact = None if case.exact == "" else self.value("exact", case.exact)
        #: whether the solution is known up to a constant
        self.free = case.screening == 0.0 and all(given.value == "" for given in self.boundaries.values())
        if self.exact is not None and self.free:
            raise CollectiveError(
                "case key 'exact': without a value on any boundary, the solution is known up to a constant only; give "
                "one boundary a value, or remove exact"
            )
        #: the prescribed values at points, [E][n][n][n], 0 elsewhere
        self.held: arrays.Values = self._held()

    def make_operator(self) -> Poisson:
        """The operator. (collective)"""
        coefficient, screening = self.case.coefficient, self.case.screening
        return weft.Poisson(
            self.mesh,
            dirichlet=[name for name, given in self.boundaries.items() if given.value != ""],
            coefficient=None if coefficient == 1.0 else self.value("coefficient", coefficient),
            screening=None if screening == 0.0 else self.value("screening", screening),
            **settings(self.case),
        )

    def _held(self) -> arrays.Values:
        """The prescribed values at the points: the mean where boundaries with different values meet. (collective)"""
        order = self.case.order
        n = order + 1
        x, y, z = np.moveaxis(np.asarray(self.mesh.point_coordinates(order)).reshape(-1, n, n, n, 3), -1, 0)
        faces = np.asarray(self.mesh.boundaries)
        sums, counts = np.zeros(x.shape), np.zeros(x.shape)
        for number, name in enumerate(self.mesh.boundary_names, 1):
            given = self.boundaries.get(name)
            if given is None or given.value == "":
                continue
            values = np.asarray(self.value(f"boundaries.{name}.value", given.value)(x, y, z))
            for face in range(6):
                where = face_points(face, np.flatnonzero(faces[:, face] == number))
                sums[where] += values[where]
                counts[where] += 1
        # A point of the boundary belongs to elements, perhaps of other ranks, that have no face there.
        share = weft.GatherScatter(np.asarray(self.mesh.point_ids(order)).ravel() + 1, comm=self.mesh.comm)
        for array in (sums, counts):
            flat = np.ascontiguousarray(array.ravel())
            share(flat)
            array[...] = flat.reshape(array.shape)
        return sums / np.maximum(counts, 1)

    def right_hand_side(self, operator: Poisson) -> DeviceArray:
        """The sum of the integrals of f, the fluxes, and the contribution of the prescribed values.

        Raises CollectiveError if it has no solution: if only the mean of u is free, but sources and fluxes do not
        balance. (collective)
        """
        b = operator.project(self.value("rhs", self.case.rhs)) + operator.lift(self.held)
        for name, given in self.boundaries.items():
            if given.flux not in ("", 0.0):
                b = b + operator.flux(self.value(f"boundaries.{name}.flux", given.flux), [name])
        if self.free and (share := operator.imbalance(b)) > BALANCED:
            raise CollectiveError(
                "case key 'rhs': without a value on any boundary and without screening, the integral of f and those of "
                f"the fluxes must add up to 0, but their sum is {100 * share:.3g} % of their magnitudes; change rhs or "
                "a flux, give a boundary a value, or set screening"
            )
        return b

    def fields(self, operator: Poisson, u: arrays.Values) -> dict[str, arrays.Values]:
        """The fields that are written with the solution: f, the coefficient and the error at points [E][n][n][n]."""
        place = np.moveaxis(np.asarray(self.mesh.point_coordinates(operator.order)).reshape(*u.shape, 3), -1, 0)
        case = self.case
        given = {"rhs": case.rhs, "coefficient": case.coefficient}
        if case.screening != 0.0:
            given["screening"] = case.screening
        found = {name: np.broadcast_to(self.value(name, value)(*place), u.shape) for name, value in given.items()}
        return found if self.exact is None else found | {"error": u - self.exact(*place)}
