"""Materials, boundary conditions, total field and matched layer of a case of `weft run maxwell`, by element."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from weft import maxwell, program
from weft.arrays import Values
from weft.cases.maxwell import CONDITIONS, MaxwellCase, RegionSection
from weft.mesh import Mesh
from weft.mpi import CollectiveError
from weft.run.elements import conditions, places

VACUUM = (1.0, 1.0, 0.0)
INSIDE = 4  # an expression must have the same truth value at all inner points of this order in an element


class Geometry:
    """Coordinates needed by the set-up: points of the order, centres of elements, the extent of the mesh."""

    def __init__(self, mesh: Mesh, order: int) -> None:
        self.mesh = mesh
        self.order = order
        self.points = places(mesh, order)
        inner = np.asarray(mesh.point_coordinates(INSIDE)).reshape(-1, *[INSIDE + 1] * 3, 3)[:, 1:-1, 1:-1, 1:-1]
        self.inner = np.moveaxis(inner.reshape(len(inner), -1, 3), -1, 0)  # [3][E][27]
        self.centres = self.inner.mean(axis=2)
        comm = mesh.comm
        self.lower = np.array([comm.allreduce(float(c.min()) if c.size else math.inf, MPI.MIN) for c in self.points])
        self.upper = np.array([comm.allreduce(float(c.max()) if c.size else -math.inf, MPI.MAX) for c in self.points])


def together(mesh: Mesh, problem: str | None) -> None:
    """Raises CollectiveError with the problem of the lowest rank that has one, if any. (collective)"""
    found = next((p for p in mesh.comm.allgather(problem) if p), None)
    if found:
        raise CollectiveError(found)


def chosen(region: RegionSection, name: str, geometry: Geometry) -> npt.NDArray[np.bool_]:
    """Which of this rank's elements [E] a region selects. Raises CollectiveError if it is invalid. (collective)"""
    mesh = geometry.mesh
    problem = None
    found: Values
    if region.tag != "":
        known = sorted({int(t) for tags in mesh.comm.allgather(np.unique(mesh.element_tags)) for t in tags})
        tag = mesh.tag_names.get(str(region.tag), region.tag)
        if tag not in known:
            have = ", ".join([*map(str, known), *mesh.tag_names])
            problem = f"case key '{name}.tag': found {region.tag!r}; {mesh.source} has the regions {have}"
        found = np.asarray(mesh.element_tags == tag, bool)
    else:
        inner = geometry.inner
        inside: Values  # [E][points]
        if region.where:
            inside = program.values(program.compiled(region.where), *inner) != 0
        else:
            low, high = (np.array(c)[:, None, None] for c in (region.lower, region.upper))
            inside = np.asarray(np.logical_and(inner > low, inner < high).all(axis=0))
        found = np.asarray(inside.all(axis=1))
        cut = inside.any(axis=1) & ~found
        if cut.any():
            element = int(np.argmax(cut))
            at = ", ".join(f"{c:.4g}" for c in geometry.centres[:, element])
            problem = (
                f"case key '{name}': its surface cuts through element {mesh.element_ids[element]} (counting from 0) "
                f"round ({at}) and {cut.sum() - 1} more; a region consists of whole elements: align "
                f"the mesh with its surface"
            )
    together(mesh, problem)
    if not mesh.comm.allreduce(bool(found.any()), MPI.LOR):
        raise CollectiveError(
            f"case key '{name}': it selects no element of {mesh.source}; correct its box or expression"
        )
    return found


def materials(case: MaxwellCase, geometry: Geometry) -> tuple[dict[str, tuple[float, float, float]], Values]:
    """The values (eps, mu, sigma) of each material by name, and the material of each of this rank's elements.
    (collective)

    Raises CollectiveError if a region selects no element or cuts one, if two regions overlap, or if only some regions
    of a mesh file have a material.
    """
    mesh = geometry.mesh
    table = {"vacuum": VACUUM} | {n: (m.epsilon, m.mu, m.sigma) for n, m in case.materials.items()}
    names = list(table)
    rest = next((n for n, m in case.materials.items() if not m.ways), "vacuum")
    regions = np.full(mesh.elements, -1, np.int32)
    for name, material in case.materials.items():
        if not material.ways:
            continue
        found = chosen(material, f"materials.{name}", geometry)
        twice = found & (regions >= 0)
        together(
            mesh,
            f"case keys 'materials.{names[regions[np.argmax(twice)]]}' and 'materials.{name}' both select element "
            f"{mesh.element_ids[np.argmax(twice)]} (counting from 0); allowed: regions that do not overlap"
            if twice.any()
            else None,
        )
        regions[found] = names.index(name)
    left = regions < 0
    if (
        rest == "vacuum"
        and "vacuum" not in case.materials
        and case.mesh.file
        and any(m.tag != "" for m in case.materials.values())
    ):
        bare = left & (mesh.element_tags != 0)
        tag = int(mesh.element_tags[np.argmax(bare)]) if bare.any() else 0
        named = next((n for n, t in mesh.tag_names.items() if t == tag), str(tag))
        problem = (
            f"region {named} of {mesh.source} has no material: add [materials.NAME] with tag = {tag} and epsilon, mu, "
            "or one material without tag, box and where, which fills all remaining elements"
        )
        together(mesh, problem if bare.any() else None)
    regions[left] = names.index(rest)
    return table, regions


def boundaries(case: MaxwellCase, mesh: Mesh) -> dict[str, str]:
    """The condition on each boundary of the mesh: the case's, else that implied by its name (PEC), else that of "*".

    Raises CollectiveError if a boundary has no condition, or a condition is given for a boundary that does not exist.
    (collective)
    """
    spoken = {name: name.lower() for name in mesh.boundary_names if name.lower() in CONDITIONS}
    return conditions(mesh, case.boundaries, spoken, CONDITIONS)


def total_field(case: MaxwellCase, geometry: Geometry) -> Values | None:
    """Which of this rank's elements [E] hold the total field; None if the case has none. (collective)"""
    return chosen(case.total_field, "total_field", geometry) if case.total_field.ways else None


def damping(case: MaxwellCase, geometry: Geometry) -> Values | None:
    """The damping of the case's perfectly matched layer, or None. (collective)"""
    layer = case.layer
    if not layer.thickness:
        return None
    size = (geometry.upper - geometry.lower)[["xyz".index(side[0]) for side in layer.sides]]
    if layer.thickness >= 0.5 * size.min(initial=math.inf):
        half = 0.5 * size.min()
        raise CollectiveError(
            f"case key 'layer.thickness': found {layer.thickness:g}; allowed: less than half the "
            f"extent of the mesh, {half:g}"
        )
    return maxwell.matched_layer(
        geometry.mesh,
        geometry.order,
        layer.thickness,
        lower=geometry.lower.tolist(),
        upper=geometry.upper.tolist(),
        sides=layer.sides,
        reflection=layer.reflection,
        power=layer.power,
    )
