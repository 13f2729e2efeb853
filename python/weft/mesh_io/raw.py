"""The result of all mesh readers, a whole mesh by corners, and the geometric matching that formats leave to readers.

Elements, corners, edges and faces are numbered as in ``cpp/weft/mesh/reference.hpp``: corner ``i + 2 j + 4 k``, faces
r-, r+, s-, s+, t-, t+.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Number = TypeVar("Number", np.int64, np.float64)

FACE_CORNERS = np.array([[0, 2, 4, 6], [1, 3, 5, 7], [0, 1, 4, 5], [2, 3, 6, 7], [0, 1, 2, 3], [4, 5, 6, 7]])
EDGE_CORNERS = np.array(
    [[0, 1], [2, 3], [4, 5], [6, 7], [0, 2], [1, 3], [4, 6], [5, 7], [0, 4], [1, 5], [2, 6], [3, 7]]
)
FACE_NAMES = ("r-", "r+", "s-", "s+", "t-", "t+")
CORNER_TOLERANCE = 0.02  # relative to the shortest edge; corners closer than this are the same vertex
GAP = 0.25  # relative to the shortest edge: two faces without a name that are closer than this should be one
UNNAMED = "unnamed"  # boundary of the faces that a file leaves without a name or condition

LARGEST = 1e60  # largest coordinate, whose cube does not overflow

ARC, MIDPOINT, SPHERE = 0, 1, 2  # Curve::Kind of cpp/weft/mesh/whole.hpp


class FormatError(ValueError):
    """Raised for invalid mesh files; the message says what is wrong and where."""


@dataclass
class RawMesh:
    """A mesh of E elements, as read from a file."""

    vertices: Ints  # [E][8] ids of the corners, from 0
    nodes: Floats  # [E][8 or 27][3], lexicographic, i fastest
    boundaries: npt.NDArray[np.int32]  # [E][6] 0, or 1 + index into boundary_names
    boundary_names: list[str]
    source: str
    periodic: Ints = field(default_factory=lambda: np.empty((0, 8), np.int64))  # element, face, element, face, corners
    curve_sides: Ints = field(default_factory=lambda: np.empty((0, 3), np.int64))  # element, kind, edge or face
    curve_values: Floats = field(default_factory=lambda: np.empty((0, 5)))
    tags: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # [E] region of each element; empty: all 0
    tag_names: dict[str, int] = field(default_factory=dict)
    # A flat mesh is 2-D: one layer of some thickness along z, the t direction, whose faces t- and t+ are open.
    # ``extrude`` makes a 3-D mesh of it.
    flat: bool = False
    # Conditions between two regions, which become boundaries if only one of the two is kept: element, face, boundary.
    interfaces: Ints = field(default_factory=lambda: np.empty((0, 3), np.int64))

    def check(self) -> RawMesh:
        """Returns the mesh itself. Raises FormatError for invalid coordinates, and left-handed or repeated elements."""
        check_numbers(self.nodes)
        if not (np.abs(self.curve_values) < LARGEST).all():
            raise FormatError("a curved side has values that are not finite numbers")
        corner = self.corners()
        # The Jacobian of the trilinear map at the centre is the triple product of the mean edge vectors.
        edges = corner[:, EDGE_CORNERS[:, 1]] - corner[:, EDGE_CORNERS[:, 0]]
        r, s, t = (edges[:, d : d + 4].mean(axis=1) for d in (0, 4, 8))
        jacobian = np.einsum("ed,ed->e", np.cross(r, s), t)
        wrong = ~(jacobian > 0)
        if wrong.any():
            element = int(np.argmax(wrong))
            kind = "left-handed: its corners are listed in mirror order" if jacobian[element] < 0 else "flat"
            more = f" (and {wrong.sum() - 1} more)" if wrong.sum() > 1 else ""
            raise FormatError(
                f"element {element} (counting from 0) is {kind}; its mean edges span a volume of "
                f"{jacobian[element]:.6g}{more}"
            )
        _, group = unique_rows(np.sort(self.vertices, axis=1))
        _, first = np.unique(group, return_index=True)
        twice = np.flatnonzero(first[group] != np.arange(len(group)))
        if len(twice):
            raise FormatError(
                f"element {twice[0]} (counting from 0) has the corners of element {first[group[twice[0]]]} "
                f"({len(twice)} of {len(group)} elements are repeated)"
            )
        return self

    def corners(self) -> Floats:
        """The coordinates of the corners [E][8][3]."""
        if self.nodes.shape[1] == 8:
            return self.nodes
        return self.nodes[:, [0, 2, 6, 8, 18, 20, 24, 26]]

    def periodic_faces(self) -> npt.NDArray[np.bool_]:
        """Whether each face is in a periodic pair: [E][6]."""
        result = np.zeros(self.boundaries.shape, bool)
        for first in (0, 2):
            result[self.periodic[:, first], self.periodic[:, first + 1]] = True
        return result

    def region_names(self) -> dict[int, str]:
        """The name of each region that the elements are in: that of the file, or its number."""
        named = {tag: name for name, tag in self.tag_names.items()}
        return {tag: named.get(tag, str(tag)) for tag in np.unique(self.tags).tolist()}

    def part(self, region: str | int) -> RawMesh:
        """The elements of one region, by name or number, as a mesh; raises FormatError if there are none.

        Faces towards other regions get the condition that the file gives between them, or the name ``unnamed``.
        """
        tag = self.tag_names.get(str(region), region)
        keep = np.flatnonzero(self.tags == int(tag)) if str(tag).lstrip("-").isdigit() else np.empty(0, np.int64)
        if len(keep) == 0:
            have = ", ".join(self.region_names().values()) or "none"
            raise FormatError(f"the mesh has no region {region!r}; it has: {have}")
        place = np.full(len(self.vertices), -1)
        place[keep] = np.arange(len(keep))
        boundaries = self.boundaries.copy()
        boundaries[self.interfaces[:, 0], self.interfaces[:, 1]] = self.interfaces[:, 2]
        _, vertices = np.unique(self.vertices[keep], return_inverse=True)
        pairs = self.periodic[(place[self.periodic[:, [0, 2]]] >= 0).all(axis=1)]
        pairs[:, [0, 2]] = place[pairs[:, [0, 2]]]
        bent = place[self.curve_sides[:, 0]] >= 0
        sides = self.curve_sides[bent]
        sides[:, 0] = place[sides[:, 0]]
        result = RawMesh(
            vertices.reshape(-1, 8).astype(np.int64),
            self.nodes[keep],
            boundaries[keep],
            list(self.boundary_names),
            self.source,
            pairs,
            sides,
            self.curve_values[bent],
            self.tags[keep],
            self.tag_names,
            self.flat,
        )
        result.name_bare_faces()
        return result

    def name_bare_faces(self) -> None:
        """Gives the faces without a neighbour, a partner and a name the name ``unnamed``.

        Raises FormatError where such faces show that the mesh is torn, or not conforming.
        """
        outer = outer_faces(self.vertices) & ~self.periodic_faces()
        if self.flat:
            outer[:, 4:] = False
        _refuse_torn(self, np.flatnonzero(outer))
        bare = outer & (self.boundaries == 0)
        if not bare.any():
            return
        _refuse_hanging(self, np.flatnonzero(bare))
        if UNNAMED not in self.boundary_names:
            self.boundary_names.append(UNNAMED)
        self.boundaries[bare] = 1 + self.boundary_names.index(UNNAMED)


def outer_faces(vertices: Ints) -> npt.NDArray[np.bool_]:
    """Whether each face [E][6] belongs to one element only."""
    faces = np.sort(vertices[:, FACE_CORNERS], axis=2).reshape(-1, 4)
    _, group = unique_rows(np.ascontiguousarray(faces))
    return np.asarray(np.bincount(group)[group] == 1).reshape(-1, 6)


def face_text(face: int) -> str:
    """Face 6 * element + face, in words."""
    return f"face {FACE_NAMES[face % 6]} of element {face // 6}"


def _shortest_edges(corners: Floats) -> Floats:
    """The length of the shortest edge of each element [E][8][3]: [E]."""
    lengths: Floats = np.linalg.norm(corners[:, EDGE_CORNERS[:, 1]] - corners[:, EDGE_CORNERS[:, 0]], axis=2)
    return lengths.min(axis=1)


def _refuse_torn(raw: RawMesh, faces: Ints) -> None:
    """Refuses meshes with two outer faces (6 * element + face) in the same place, unless both have names.

    Such a mesh should have been connected there. If both faces have names, they are intended: a crack or a thin wall.
    """
    if len(faces) < 2:
        return
    from scipy.spatial import cKDTree

    corners = raw.corners()
    own = corners[faces // 6][np.arange(len(faces))[:, None], FACE_CORNERS[faces % 6]]
    size = _shortest_edges(corners)[faces // 6]
    distance, other = cKDTree(own.mean(axis=1)).query(own.mean(axis=1), k=2)
    # Equal places may come in either order; the other face is the one that is not the face itself.
    other = np.where(other[:, 0] == np.arange(len(faces)), other[:, 1], other[:, 0])
    bare = raw.boundaries.reshape(-1)[faces] == 0
    reach = np.where(bare & bare[other], GAP, CORNER_TOLERANCE) * np.minimum(size, size[other])
    torn = (distance[:, 1] <= reach) & (bare | bare[other])
    if torn.any():
        k = int(np.argmax(torn))
        raise FormatError(
            f"torn face: {face_text(int(faces[k]))} and {face_text(int(faces[other[k]]))} (counting from 0) are in the "
            f"same place, or nearly (distance {distance[k, 1]:.3g}), but do not share their corners; merge them (Gmsh: "
            "Coherence Mesh), or name both surfaces if they are the two sides of a crack"
        )


def _refuse_hanging(raw: RawMesh, faces: Ints) -> None:
    """Refuses meshes with a vertex in the middle of an outer face without a name, or of one of its edges."""
    from scipy.spatial import cKDTree

    corners = raw.corners()
    own = corners[faces // 6][np.arange(len(faces))[:, None], FACE_CORNERS[faces % 6]]
    middles = np.concatenate([own.mean(axis=1, keepdims=True), 0.5 * (own + own[:, [1, 3, 0, 2]])], axis=1)
    distance, at = cKDTree(corners.reshape(-1, 3)).query(middles.reshape(-1, 3))
    reach = np.repeat(CORNER_TOLERANCE * _shortest_edges(corners)[faces // 6], 5)
    hanging = distance <= reach
    if hanging.any():
        k = int(np.argmax(hanging))
        raise FormatError(
            f"the mesh is not conforming: a corner of element {at[k] // 8} is in the middle of "
            f"{face_text(int(faces[k // 5]))} (counting from 0); weft needs elements that share whole faces"
        )


def check_numbers(nodes: Floats) -> None:
    """Raises FormatError for coordinates [E][..][3] that are NaN, infinite or too large."""
    bad = ~(np.abs(nodes) < LARGEST).all(axis=(1, 2))
    if bad.any():
        raise FormatError(f"element {np.argmax(bad)} (counting from 0) has coordinates that are not finite numbers")


def match_vertices(corners: Floats) -> Ints:
    """Numbers the corners [E][8][3] such that those in the same place share an id [E][8], and makes them coincide.

    Formats without vertex ids repeat coordinates, often in single precision. Identical coordinates are matched by
    sorting. The others are matched within ``CORNER_TOLERANCE`` of the shortest edge of the elements around them.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    flat = corners.reshape(-1, 3)
    flat += 0.0  # turns -0.0 into 0.0
    places, ids = unique_rows(flat)
    edges = np.linalg.norm(corners[:, EDGE_CORNERS[:, 1]] - corners[:, EDGE_CORNERS[:, 0]], axis=2)
    reach = np.full(len(places), np.inf)
    np.minimum.at(reach, ids, np.repeat(CORNER_TOLERANCE * edges.min(axis=1), 8))
    while len(places) > 1:
        distance, other = cKDTree(places).query(places, k=2)
        # The nearest point is the point itself, or one at a distance of 0 in double precision.
        other = np.where(other[:, 0] == np.arange(len(places)), other[:, 1], other[:, 0])
        near = distance[:, 1] <= np.minimum(reach, reach[other])
        if not near.any():
            break
        rows = np.flatnonzero(near)
        links = coo_array((np.ones(len(rows)), (rows, other[rows])), shape=(len(places), len(places)))
        count, label = connected_components(links, directed=False)
        first = np.full(count, len(places))
        np.minimum.at(first, label, np.arange(len(places)))
        joined = np.full(count, np.inf)
        np.minimum.at(joined, label, reach)
        places, reach, ids = places[first], joined, label[ids]
    flat[:] = places[ids]
    # Number vertices in the order of the file, so that the numbers depend on nothing else.
    _, first, ids = np.unique(ids, return_index=True, return_inverse=True)
    return first.argsort().argsort()[ids].reshape(-1, 8).astype(np.int64)


def unique_rows(table: npt.NDArray[Number]) -> tuple[npt.NDArray[Number], Ints]:
    """The distinct rows of a table of 8-byte numbers, and the index of each row among them.

    Sorts one hash per row, which is several times faster than np.unique.
    """
    bits = np.ascontiguousarray(table).view(np.uint64)
    h = np.zeros(len(table), np.uint64)
    for column in bits.T:
        h = ((h ^ (h >> np.uint64(29))) + column) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(32)
    _, first, ids = np.unique(h, return_index=True, return_inverse=True)
    if not np.array_equal(table[first][ids], table):  # two different rows have the same hash
        rows, ids = np.unique(table, axis=0, return_inverse=True)
        return rows, ids.reshape(-1)
    return table[first], ids


def match_faces(a: Floats, b: Floats) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Matches the corners of faces a [K][4][3] with those of faces b [K][4][3] after shifting a onto b.

    Returns the matching corners of b [K][4], and whether all four match within ``CORNER_TOLERANCE`` of a's shortest
    side [K].
    """
    a = a - a.mean(axis=1, keepdims=True)
    b = b - b.mean(axis=1, keepdims=True)
    distance = np.linalg.norm(a[:, :, None] - b[:, None, :], axis=3)
    corners = distance.argmin(axis=2)
    sides = np.linalg.norm(a[:, [1, 3, 2, 0]] - a[:, [0, 1, 3, 2]], axis=2).min(axis=1)
    meets = distance.min(axis=2).max(axis=1) <= CORNER_TOLERANCE * sides
    meets &= (np.sort(corners, axis=1) == np.arange(4)).all(axis=1)
    return corners.astype(np.int64), meets
