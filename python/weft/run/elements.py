"""Common parts of cases on spectral elements: meshes, boundary conditions, interpolation of fields to other points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from mpi4py import MPI

import weft
from weft import _weft, program
from weft.arrays import Values
from weft.cases.shared import ExtrudeSection
from weft.cases.values import PYTHON
from weft.mesh_io import Extrusion
from weft.mesh_io.user_code import moved_by
from weft.mpi import CollectiveError, together
from weft.run.functions import read
from weft.run.memory import require_memory

if TYPE_CHECKING:
    from weft.cases.shared import ElementCase
    from weft.mesh import Mesh

OTHERS = "*"  # in a case: every boundary without a condition of its own

C = TypeVar("C")


def box_counts(points: int, order: int) -> tuple[int, int, int]:
    """Numbers of elements [3] of a nearly cubic box with about `points` element-local points at an order."""
    target = max(1.0, points / (order + 1) ** 3)
    side = target ** (1 / 3)
    low, high = max(0.7 * side, side - 8), min(1.4 * side, side + 8)  # large boxes have enough choices near the cube
    choices = range(max(1, math.floor(low)), math.ceil(high) + 1)
    boxes = ((a, b, c) for a in choices for b in choices if b <= a for c in choices if c <= b)

    def distance(box: tuple[int, int, int]) -> float:
        return abs(math.log(math.prod(box) / target)) + 0.02 * math.log(box[0] / box[2])

    return min(boxes, key=distance)


def make_mesh(
    case: ElementCase,
    comm: MPI.Intracomm,
    least_bytes: Callable[[int], int],
    upper: Sequence[float] | None = None,
) -> Mesh:
    """The mesh that a case describes, from a file or a box, distributed over the ranks. (collective)

    `least_bytes`: a lower bound on the memory of the solver's arrays, as a function of the number of elements. Raises
    CollectiveError if they do not fit into memory; for a box this is checked before the box is created. `upper`: the
    upper corner of the box, if it differs from that of the case.
    """
    mesh = case.mesh
    if mesh.file:
        made = weft.Mesh.read(
            mesh.file,
            comm=comm,
            partitioner=mesh.partitioner,
            geometry_order=mesh.geometry_order or None,
            extrude=None if mesh.extrude == ExtrudeSection() else Extrusion(**mesh.extrude.model_dump()),
            region=None if mesh.region == "" else mesh.region,
        )
        require_memory(case, made.global_elements, least_bytes(made.global_elements), comm)
    else:
        counts = mesh.counts if mesh.counts[0] > 0 else box_counts(mesh.points, case.order)
        require_memory(case, math.prod(counts), least_bytes(math.prod(counts)), comm)
        made = weft.Mesh.box(
            counts,
            lower=mesh.lower,
            upper=mesh.upper if upper is None else upper,
            periodic=mesh.periodic,
            deformation=mesh.deformation,
            deformation_parameter=mesh.deformation_parameter or None,
            comm=comm,
        )
    return moved(case, made)


def moved(case: ElementCase, mesh: Mesh) -> Mesh:
    """The mesh with every point where mesh.map moves it. Raises CollectiveError if the map fails. (collective)"""
    given, order = case.mesh.map, case.mesh.geometry_order or None
    if not given:
        return mesh
    if isinstance(given, str):
        name = given.removeprefix(PYTHON)
        functions = together(mesh.comm, lambda: read(case.functions.file, [("mesh.map", given)]))
        return mesh.mapped(functions[name], geometry_order=order, name=f"case key 'mesh.map': {name}")
    codes = [program.compiled(part, case.constants) for part in given]
    return mesh.mapped(
        lambda x, y, z: [program.values(code, x, y, z) for code in codes],
        geometry_order=order,
        name="case key 'mesh.map'",
    )


def moved_by_user_code(case: ElementCase, mesh: Mesh) -> str:
    """A warning for a mesh file that is known not to be the geometry of its example without a map; else empty."""
    if case.mesh.map or not case.mesh.file:
        return ""
    why = moved_by(Path(case.mesh.file), mesh.global_elements // case.mesh.extrude.layers)
    return f"{mesh.source} is used as it is, but {why}; set mesh.map to do the same" if why else ""


def conditions(mesh: Mesh, given: Mapping[str, C], spoken: Mapping[str, C], allowed: Sequence[str]) -> dict[str, C]:
    """The condition on each boundary of the mesh: the given one, else that implied by its name, else that of "*".

    Raises CollectiveError if a boundary has no condition (`allowed` lists the possible ones), or a condition is given
    for a boundary that does not exist. (collective)
    """
    faces = np.bincount(np.asarray(mesh.boundaries).ravel(), minlength=len(mesh.boundary_names) + 1)
    faces = np.asarray(mesh.comm.allreduce(faces, MPI.SUM))
    known = [
        name for name, count in zip(mesh.boundary_names, faces[1:], strict=True) if count
    ]  # periodic boundaries have no faces
    for name in given:
        if name not in known and name != OTHERS:
            have = ", ".join(known) if known else "none: all its faces are interior or periodic"
            raise CollectiveError(f"case key 'boundaries.{name}': {mesh.source} has no such boundary; it has {have}")
    found = {name: given.get(name) or spoken.get(name) or given.get(OTHERS) for name in known}
    if missing := [name for name, condition in found.items() if condition is None]:
        words = " | ".join(allowed)
        keys = ", ".join(f"'boundaries.{name}'" for name in missing)
        raise CollectiveError(
            f"{mesh.source}: no condition for {len(missing)} of its {len(known)} boundaries: set the case keys {keys}, "
            f"or 'boundaries.{OTHERS}' for all of them ({words})"
            if len(missing) > 1
            else f"boundary {missing[0]!r} of {mesh.source} has no condition: set the case key {keys} ({words})"
        )
    return {name: condition for name, condition in found.items() if condition is not None}


def require_finite(key: str, values: Values, comm: MPI.Intracomm) -> None:
    """Raises CollectiveError, which names the key, if an initial value is not finite. (collective)"""
    wrong = comm.allreduce(int(values.size - np.isfinite(values).sum()), MPI.SUM)
    if wrong:
        total = comm.allreduce(int(values.size), MPI.SUM)
        raise CollectiveError(f"case key '{key}': {wrong:,} of {total:,} initial values are not finite numbers")


def places(mesh: Mesh, order: int) -> Values:
    """The coordinates [3][E][points] of the points of an order."""
    return np.moveaxis(np.asarray(mesh.point_coordinates(order)), -1, 0)


def interpolated(fields: Values, order: int, to: int) -> Values:
    """Fields [E][6][n][n][n] of one order interpolated to the points of another: [E][6][m^3], in double precision."""
    source, target = (_weft.mesh.gll(n)[0] for n in (order, to))
    matrix = np.asarray(_weft.mesh.interpolation(source, target))
    values = np.einsum("kc,jb,ia,efcba->efkji", matrix, matrix, matrix, fields.astype(float), optimize=True)
    return values.reshape(*fields.shape[:2], -1)
