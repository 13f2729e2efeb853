"""What cases on spectral elements have in common: meshes, conditions of boundaries, fields at other points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from mpi4py import MPI

import weft
from weft import _weft
from weft.arrays import Values
from weft.mpi import CollectiveError

if TYPE_CHECKING:
    from weft.mesh import Mesh

OTHERS = "*"  # stands in a case for every boundary that has no condition of its own

C = TypeVar("C")


def box_counts(points: int, order: int) -> tuple[int, int, int]:
    """Elements of a nearly cubic box of about `points` element-local points at an order."""
    target = max(1.0, points / (order + 1) ** 3)
    side = target ** (1 / 3)
    choices = range(max(1, math.floor(side * 0.7)), math.ceil(side * 1.4) + 1)
    boxes = ((a, b, c) for a in choices for b in choices if b <= a for c in choices if c <= b)

    def distance(box: tuple[int, int, int]) -> float:
        return abs(math.log(math.prod(box) / target)) + 0.02 * math.log(box[0] / box[2])

    return min(boxes, key=distance)


def make_mesh(case: Any, comm: MPI.Intracomm, upper: Sequence[float] | None = None) -> Any:
    """The mesh a case asks for, a file's or a box, shared out over the ranks. (collective)

    `upper`: the box's upper corner where it is not the case's.
    """
    mesh = case.mesh
    if mesh.file:
        return weft.Mesh.read(mesh.file, comm=comm, partitioner=mesh.partitioner)
    return weft.Mesh.box(
        mesh.counts if mesh.counts[0] > 0 else box_counts(mesh.points, case.order),
        lower=mesh.lower,
        upper=mesh.upper if upper is None else upper,
        periodic=mesh.periodic,
        deformation=mesh.deformation,
        deformation_parameter=mesh.deformation_parameter or None,
        comm=comm,
    )


def conditions(mesh: Mesh, given: Mapping[str, C], spoken: Mapping[str, C], allowed: Sequence[str]) -> dict[str, C]:
    """The condition on each boundary of the mesh: the one given, what the boundary's name says, that given of "*".

    CollectiveError for a boundary without a condition (`allowed` are the words for one), and for a condition of a
    boundary that is not there. (collective)
    """
    faces = np.bincount(np.asarray(mesh.boundaries).ravel(), minlength=len(mesh.boundary_names) + 1)
    faces = np.asarray(mesh.comm.allreduce(faces, MPI.SUM))
    known = [name for name, count in zip(mesh.boundary_names, faces[1:], strict=True) if count]  # a periodic one: 0
    for name in given:
        if name not in known and name != OTHERS:
            have = ", ".join(known) if known else "none: all its faces are inside or periodic"
            raise CollectiveError(f"case key 'boundaries.{name}': {mesh.source} has no such boundary; it has {have}")
    result: dict[str, C] = {}
    for name in known:
        condition = given.get(name) or spoken.get(name) or given.get(OTHERS)
        if condition is None:
            words = " | ".join(allowed)
            raise CollectiveError(
                f"boundary {name!r} of {mesh.source} has no condition: set the case key 'boundaries.{name}' ({words})"
            )
        result[name] = condition
    return result


def places(mesh: Mesh, order: int) -> Values:
    """[3][E][points] coordinates of the points of an order."""
    return np.moveaxis(np.asarray(mesh.point_coordinates(order)), -1, 0)


def interpolated(fields: Values, order: int, to: int) -> Values:
    """[E][6][m^3] fields [E][6][n][n][n] of an order at the points of another, in double precision."""
    source, target = (_weft.mesh.gll(n)[0] for n in (order, to))
    matrix = np.asarray(_weft.mesh.interpolation(source, target))
    values = np.einsum("kc,jb,ia,efcba->efkji", matrix, matrix, matrix, fields.astype(float), optimize=True)
    return values.reshape(*fields.shape[:2], -1)
