"""Meshes from arrays of other programs, and from meshio's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.mesh_io.nodes import CORNERS, VTK, lexicographic, matched
from weft.mesh_io.raw import FACE_CORNERS, Floats, FormatError, Ints, RawMesh, face_text, match_faces, unique_rows


def from_arrays(
    points: npt.ArrayLike,
    hexahedra: npt.ArrayLike,
    faces: Mapping[str, npt.ArrayLike] | None = None,
    periodic: Sequence[tuple[str, str]] = (),
    regions: npt.ArrayLike | None = None,
    region_names: Mapping[str, int] | None = None,
    source: str = "arrays",
) -> RawMesh:
    """The mesh that ``weft.Mesh.from_arrays`` describes. Raises FormatError for arrays that are not a mesh."""
    places, cells = np.asarray(points, np.float64), np.asarray(hexahedra)
    if places.ndim != 2 or places.shape[1] != 3:
        raise FormatError(f"points have the shape {places.shape}, but need (number of points, 3)")
    if cells.ndim != 2 or cells.shape[1] not in (8, 20, 27) or len(cells) == 0:
        raise FormatError(f"hexahedra have the shape {cells.shape}, but need (number of elements, 8, 20 or 27)")
    cells = _numbers(cells, len(places), "hexahedra")
    used, vertices = np.unique(cells[:, CORNERS], return_inverse=True)
    vertices = vertices.reshape(-1, 8).astype(np.int64)
    nodes = lexicographic(places[cells], VTK)
    raw = RawMesh(vertices, nodes, np.zeros((len(cells), 6), np.int32), [], source)
    if regions is not None:
        tags = np.asarray(regions)
        if tags.dtype.kind not in "iu":
            raise FormatError(f"regions have the type {tags.dtype}, but need whole numbers of at most 64 bits")
        raw.tags = tags.astype(np.int64)
        if raw.tags.shape != (len(cells),):
            raise FormatError(f"regions have the shape {raw.tags.shape}, but need ({len(cells)},): one per element")
    raw.tag_names = dict(region_names or {})
    raw.check()

    number = np.full(len(places), -1, np.int64)
    number[used] = np.arange(len(used))
    _name_faces(raw, {name: number[_quads(name, quads, len(places))] for name, quads in (faces or {}).items()})
    for first, second in periodic:
        raw.periodic = np.concatenate([raw.periodic, _pairs(raw, first, second)])
    raw.boundaries[raw.periodic_faces()] = 0
    raw.name_bare_faces()
    return raw


def from_meshio(mesh: Any, periodic: Sequence[tuple[str, str]] = (), source: str = "meshio") -> RawMesh:
    """The mesh of a ``meshio.Mesh``: hexahedra of 8, 20 or 27 nodes, and boundaries from its named quadrilaterals.

    Names come from ``gmsh:physical`` and ``field_data``, or from ``cell_sets``. meshio keeps the order of nodes of some
    formats: middle nodes are ordered by where they are (Exodus), and where all elements are left-handed (MED), bottoms
    and tops are exchanged.
    """
    blocks = [(block.type, np.asarray(block.data)) for block in mesh.cells]
    kinds = sorted({kind for kind, data in blocks if kind.startswith("hexahedron") and len(data)})
    if len(kinds) != 1:
        found = ", ".join(sorted({kind for kind, _ in blocks})) or "none"
        raise FormatError(
            f"the mesh needs hexahedra of one kind (hexahedron, hexahedron20 or hexahedron27); it has: {found}"
        )
    physical = mesh.cell_data.get("gmsh:physical")
    names = {(int(dimension), int(tag)): name for name, (tag, dimension) in mesh.field_data.items()}
    cells, tags = [], []
    faces: dict[str, list[Ints]] = {}
    for k, (kind, data) in enumerate(blocks):
        marks = np.zeros(len(data), np.int64) if physical is None else np.asarray(physical[k], np.int64)
        if kind == kinds[0]:
            cells.append(data)
            tags.append(marks)
        elif kind.startswith("quad"):
            for tag in np.unique(marks[marks != 0]).tolist():
                faces.setdefault(names.get((2, tag), f"surface {tag}"), []).append(data[marks == tag][:, :4])
            for name, parts in mesh.cell_sets.items():
                if not name.startswith("gmsh:") and parts[k] is not None and len(parts[k]):
                    faces.setdefault(name, []).append(data[np.asarray(parts[k], np.int64)][:, :4])
    points = np.asarray(mesh.points, np.float64)
    if points.shape[1] < 3:
        points = np.pad(points, ((0, 0), (0, 3 - points.shape[1])))
    return from_arrays(
        points,
        _as_vtk(points, np.concatenate(cells)),
        {name: np.concatenate(parts) for name, parts in faces.items()},
        periodic,
        np.concatenate(tags),
        {name: tag for (dimension, tag), name in names.items() if dimension == 3},
        source,
    )


def _as_vtk(points: Floats, cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Hexahedra [E][8, 20 or 27] in VTK's order of nodes; unchanged if they refer to points that do not exist."""
    if cells.size == 0 or cells.min() < 0 or cells.max() >= len(points):
        return cells
    first, r, s, t = (points[cells[:, corner]] for corner in (0, 1, 3, 4))
    if (np.einsum("ed,ed->e", np.cross(r - first, s - first), t - first) < 0).all():
        cells = np.concatenate([cells[:, 4:8], cells[:, :4], cells[:, 8:]], axis=1)
    return cells[:, matched(points[cells], VTK)]


def _numbers(table: npt.NDArray[Any], points: int, what: str) -> Ints:
    if table.dtype.kind not in "iu":
        raise FormatError(f"{what} have the type {table.dtype}, but need whole numbers of points, from 0")
    if table.size and not (table.min() >= 0 and table.max() < points):
        raise FormatError(
            f"{what} refer to points {table.min()} to {table.max()}, but there are points 0 to {points - 1}"
        )
    return table.astype(np.int64)


def _quads(name: str, quads: npt.ArrayLike, points: int) -> Ints:
    table = np.asarray(quads)
    if table.size == 0:
        return np.empty((0, 4), np.int64)
    if table.ndim != 2 or table.shape[1] < 4:
        raise FormatError(f"faces {name!r} have the shape {table.shape}, but need (number of faces, 4)")
    return _numbers(table[:, :4], points, f"faces {name!r}")


def _name_faces(raw: RawMesh, faces: Mapping[str, Ints]) -> None:
    """Gives the outer faces with these corners [K][4] their names; faces inside the mesh are not boundaries."""
    own = np.sort(raw.vertices[:, FACE_CORNERS], axis=2).reshape(-1, 4)
    _, group = unique_rows(np.concatenate([own, *(np.sort(quads, axis=1) for quads in faces.values())]))
    elements = np.bincount(group[: len(own)], minlength=group.max() + 1)  # that have each face
    label = np.zeros(len(elements), np.int64)
    start = len(own)
    for index, (name, quads) in enumerate(faces.items(), 1):
        found = group[start : start + len(quads)]
        start += len(quads)
        if (elements[found] == 0).any():
            lost = int(np.argmax(elements[found] == 0))
            raise FormatError(f"face {lost} (counting from 0) of {name!r} is not a face of any hexahedron")
        if (label[found] > 0).any():
            other = list(faces)[int(label[found].max()) - 1]
            raise FormatError(f"a face is in two boundaries, {other!r} and {name!r}, but can be in only one")
        label[found] = index
    label[elements != 1] = 0
    raw.boundaries = label[group[: len(own)]].reshape(-1, 6).astype(np.int32)
    raw.boundary_names = list(faces)


def _pairs(raw: RawMesh, first: str, second: str) -> Ints:
    """The periodic pairs [K][8] of the faces of two boundaries that are the same up to a shift."""
    for name in (first, second):
        if name not in raw.boundary_names:
            have = ", ".join(raw.boundary_names) or "none"
            raise FormatError(f"periodic boundary {name!r} is not defined; defined: {have}")
    ours, theirs = (np.flatnonzero(raw.boundaries == 1 + raw.boundary_names.index(name)) for name in (first, second))
    if len(ours) != len(theirs) or first == second:
        raise FormatError(f"periodic boundaries {first!r} and {second!r} have {len(ours)} and {len(theirs)} faces")
    corners = raw.corners()

    def of(faces: Ints) -> Floats:
        return corners[faces // 6][np.arange(len(faces))[:, None], FACE_CORNERS[faces % 6]]

    a, b = of(ours), of(theirs)
    middle_a, middle_b = (x.mean(axis=1) - x.mean(axis=(0, 1)) for x in (a, b))
    from scipy.spatial import cKDTree

    _, partner = cKDTree(middle_b).query(middle_a)
    match, meets = match_faces(a, b[partner])
    if len(np.unique(partner)) < len(partner) or not meets.all():
        raise FormatError(
            f"periodic boundaries {first!r} and {second!r} are not the same up to a shift: "
            f"{face_text(int(ours[np.argmin(meets)]))} (counting from 0) has no partner"
        )
    other = theirs[partner]
    return np.stack([ours // 6, ours % 6, other // 6, other % 6, *match.T], axis=1)
