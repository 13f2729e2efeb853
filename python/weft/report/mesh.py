"""What a mesh file holds, in words and as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weft.arrays import Values
from weft.format import table
from weft.mesh import Mesh
from weft.mesh_io import Extrusion, RawMesh
from weft.mesh_io.extrude import extrude
from weft.mesh_io.quality import Quality, areas, face_points, quality
from weft.mesh_io.raw import ARC, FACE_CORNERS, MIDPOINT, SPHERE, UNNAMED

WORST = 5  # number of worst elements to list
SHOWN = 0.99  # an element with at least this scaled Jacobian is as good as a cuboid, and not listed
CURVES = {ARC: "arcs", MIDPOINT: "midside nodes", SPHERE: "spherical faces"}


@dataclass
class Seen:
    """The mesh of a file, extruded if it is 2-D, with its quality."""

    raw: RawMesh  # as read
    solid: RawMesh  # 3-D
    mesh: Mesh
    quality: Quality

    @property
    def folded(self) -> int:
        """The number of elements with a Jacobian of 0 or less, which no workload accepts."""
        return int((self.quality.scaled_jacobian <= 0).sum())


def look(raw: RawMesh, how: Extrusion | None = None) -> Seen:
    """The mesh of one process. Raises MeshError for meshes that are torn or not conforming."""
    from mpi4py import MPI

    solid = extrude(raw, how or Extrusion()) if raw.flat or how is not None else raw
    mesh = Mesh.from_raw(solid, comm=MPI.COMM_SELF)
    return Seen(raw, solid, mesh, quality(mesh))


def described(seen: Seen) -> str:
    """The tables of ``weft mesh FILE``."""
    raw, mesh, found = seen.raw, seen.mesh, seen.quality
    x = np.asarray(mesh.point_coordinates(found.order)).reshape(-1, 3)
    low, high = x.min(axis=0), x.max(axis=0)
    kind = "2-D, quadrilaterals" if raw.flat else "3-D, hexahedra"
    shape = "straight sides" if mesh.straight else f"curved sides (geometry of order {mesh.geometry_order})"
    ends = 2 if raw.flat else 1  # a 2-D mesh has its curves at both ends of the layer
    counts = np.bincount(raw.curve_sides[:, 1], minlength=3) // ends
    curves = [f"{count} {CURVES[k]}" for k, count in enumerate(counts) if count]
    if raw.nodes.shape[1] == 27:
        curves.append("second-order elements")
    rows = [("mesh", f"{raw.source}: {kind}"), ("elements", f"{len(raw.vertices)}, {', '.join([shape, *curves])}")]
    if raw.flat:
        layers = len(seen.solid.vertices) // len(raw.vertices)
        rows.append(("extruded", f"{layers} layer{'s' * (layers > 1)}, {high[2] - low[2]:.6g} in all along z"))
    rows.append(("points", f"{mesh.global_points(7)} at order 7"))
    axes = zip("xyz"[: 2 if raw.flat else 3], low, high, strict=False)
    rows.append(("extents", ", ".join(f"{axis} from {a:.6g} to {b:.6g}" for axis, a, b in axes)))
    volume = float(found.volumes.sum())
    rows.append(("area", f"{volume / (high[2] - low[2]):.8g}") if raw.flat else ("volume", f"{volume:.8g}"))
    if len(np.unique(raw.tags)) > 1:
        names = raw.region_names()
        parts = [f"{names[tag]} ({(raw.tags == tag).sum()} elements)" for tag in names]
        rows.append(("regions", ", ".join(parts)))
    shifts = _shifts(seen.solid)
    rows += [("periodic", f"{count} pairs of faces, shift ({shift})") for shift, count in shifts.items()]
    lines = [table(rows)]
    bounds = areas(mesh)
    if bounds:
        heads = [("boundary", "faces", "area")]
        lines += ["", table(heads + [(n, str(count), f"{area:.6g}") for n, (count, area) in bounds.items()])]
    lines += ["", _worst(found), *(f"\n{note}" for note in _notes(seen, bounds))]
    return "\n".join(lines)


def _shifts(raw: RawMesh) -> dict[str, int]:
    """The number of periodic pairs by the shift between their faces."""
    corners = raw.corners()

    def middles(first: int) -> Values:
        at = raw.periodic[:, [first, first + 1]]
        return np.asarray(corners[at[:, 0]][np.arange(len(at))[:, None], FACE_CORNERS[at[:, 1]]].mean(axis=1))

    shift = middles(2) - middles(0)
    shift *= np.where((shift.sum(axis=1, keepdims=True)) < 0, -1.0, 1.0)
    size = float(np.abs(shift).max(initial=1e-300))
    texts = [", ".join(f"{c:.4g}" for c in np.where(np.abs(row) < 1e-4 * size, 0.0, row)) for row in shift]
    return {text: texts.count(text) for text in dict.fromkeys(texts)}


def _worst(found: Quality) -> str:
    rows = [["quality", "scaled Jacobian", "min/max Jacobian", "longest/shortest edge"]]
    figures = (found.scaled_jacobian, found.jacobian_ratio, found.edge_ratio)
    rows.append(["worst", *(f"{pick(of):.3g}" for pick, of in zip((np.min, np.min, np.max), figures, strict=True))])
    rows.append(["mean", *(f"{of.mean():.3g}" for of in figures)])
    for element in np.argsort(found.scaled_jacobian, kind="stable")[:WORST]:
        if found.scaled_jacobian[element] < SHOWN:
            place = ", ".join(f"{c:.4g}" for c in found.centres[element])
            rows.append([f"element {element} at ({place})", *(f"{of[element]:.3g}" for of in figures)])
    return table(rows)


def _notes(seen: Seen, bounds: dict[str, tuple[int, float]]) -> list[str]:
    notes = []
    if seen.folded:
        notes.append(
            f"{seen.folded} elements have a Jacobian of 0 or less at order {seen.quality.order}: they are folded, and "
            "no workload accepts them"
        )
    if list(seen.raw.tag_names) == ["fluid", "solid"]:
        notes.append('This is a conjugate mesh. For a flow, keep the fluid with mesh.region = "fluid".')
    if UNNAMED in bounds:
        count = bounds[UNNAMED][0]
        notes.append(f"The file gives no condition to {count} faces; in a case they are boundaries.{UNNAMED}.")
    return notes


def draw(seen: Seen, path: Path) -> None:
    """Writes a picture of the mesh. Raises OSError."""
    from weft.report.mesh_picture import draw_flat, draw_solid

    order = 1 if seen.mesh.straight else 6
    kinds = seen.solid.boundaries
    faces = face_points(seen.mesh, order)
    title = f"{seen.raw.source}: {len(seen.raw.vertices)} elements"
    if seen.raw.flat:
        one = len(seen.raw.vertices)
        draw_flat(path, title, faces[:one], kinds[:one], seen.solid.boundary_names)
        return
    outer = (kinds > 0) | seen.solid.periodic_faces()
    named = {name: kinds[outer] == k for k, name in enumerate(seen.solid.boundary_names, 1) if (kinds == k).any()}
    draw_solid(path, title, faces[outer], seen.quality.centres[np.nonzero(outer)[0]], named)
