"""What every reader hands on: a whole mesh by corners, and the two geometric matches that formats leave to the reader.

Elements, corners, edges and faces are numbered as in ``cpp/weft/mesh/reference.hpp``: corner ``i + 2 j + 4 k``, faces
r-, r+, s-, s+, t-, t+.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FACE_CORNERS = np.array([[0, 2, 4, 6], [1, 3, 5, 7], [0, 1, 4, 5], [2, 3, 6, 7], [0, 1, 2, 3], [4, 5, 6, 7]])
EDGE_CORNERS = np.array(
    [[0, 1], [2, 3], [4, 5], [6, 7], [0, 2], [1, 3], [4, 6], [5, 7], [0, 4], [1, 5], [2, 6], [3, 7]]
)
FACE_NAMES = ("r-", "r+", "s-", "s+", "t-", "t+")
CORNER_TOLERANCE = 0.02  # of the shortest edge: corners nearer than this are one vertex

LARGEST = 1e60  # coordinate: its cube is still a number

ARC, MIDPOINT, SPHERE = 0, 1, 2  # Curve::Kind of cpp/weft/mesh/whole.hpp


class FormatError(ValueError):
    """A file that is not what it should be; the text says where and what to do."""


@dataclass
class RawMesh:
    """A mesh as read. E elements."""

    vertices: Ints  # [E][8] ids of the corners, from 0
    nodes: Floats  # [E][8 or 27][3], lexicographic, i fastest
    boundaries: npt.NDArray[np.int32]  # [E][6]: 0, or 1 + index of boundary_names
    boundary_names: list[str]
    source: str
    periodic: Ints = field(default_factory=lambda: np.empty((0, 8), np.int64))  # element, face, element, face, corners
    curve_sides: Ints = field(default_factory=lambda: np.empty((0, 3), np.int64))  # element, kind, edge or face
    curve_values: Floats = field(default_factory=lambda: np.empty((0, 5)))
    tags: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # [E] region of each element; empty: all 0
    tag_names: dict[str, int] = field(default_factory=dict)

    def check(self) -> RawMesh:
        """Refuse coordinates that are not numbers and elements that are left-handed; returns the mesh itself."""
        check_numbers(self.nodes)
        if not (np.abs(self.curve_values) < LARGEST).all():
            raise FormatError("a curved side has values that are not finite numbers")
        corner = self.corners()
        # The Jacobian of the trilinear map in the middle: the triple product of the mean edge vectors.
        edges = corner[:, EDGE_CORNERS[:, 1]] - corner[:, EDGE_CORNERS[:, 0]]
        r, s, t = (edges[:, d : d + 4].mean(axis=1) for d in (0, 4, 8))
        jacobian = np.einsum("ed,ed->e", np.cross(r, s), t)
        wrong = ~(jacobian > 0)
        if wrong.any():
            element = int(np.argmax(wrong))
            kind = "left-handed: its corners are listed in mirror order" if jacobian[element] < 0 else "flat"
            more = f" (and {wrong.sum() - 1} more)" if wrong.sum() > 1 else ""
            raise FormatError(
                f"element {element} (counting from 0) is {kind}; its mean edges span the volume "
                f"{jacobian[element]:.6g}{more}"
            )
        return self

    def corners(self) -> Floats:
        """[E][8][3]"""
        if self.nodes.shape[1] == 8:
            return self.nodes
        return self.nodes[:, [0, 2, 6, 8, 18, 20, 24, 26]]


def check_numbers(nodes: Floats) -> None:
    """Refuse [E][..][3] coordinates that are NaN, infinite or too large to be squared."""
    bad = ~(np.abs(nodes) < LARGEST).all(axis=(1, 2))
    if bad.any():
        raise FormatError(f"element {np.argmax(bad)} (counting from 0) has coordinates that are not finite numbers")


def match_vertices(corners: Floats) -> Ints:
    """Number the corners [E][8][3] so that those at one place share an id [E][8]; moves them onto exactly one place.

    Formats without vertex ids repeat coordinates, often in single precision. Equal bits are matched by sorting; what is
    left is matched within ``CORNER_TOLERANCE`` of the shortest edge of the elements that touch it.
    """
    flat = corners.reshape(-1, 3)
    flat += 0.0  # one zero only
    places, ids = unique_rows(flat)
    edges = np.linalg.norm(corners[:, EDGE_CORNERS[:, 1]] - corners[:, EDGE_CORNERS[:, 0]], axis=2)
    reach = np.full(len(places), np.inf)
    np.minimum.at(reach, ids, np.repeat(CORNER_TOLERANCE * edges.min(axis=1), 8))
    while len(places) > 1:
        distance, other = cKDTree(places).query(places, k=2)
        # The nearest is the point itself, or one so near that their distance is 0 in double precision.
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
    # Numbered as they come in the file, so that numbers depend on nothing else.
    _, first, ids = np.unique(ids, return_index=True, return_inverse=True)
    return first.argsort().argsort()[ids].reshape(-1, 8).astype(np.int64)


def unique_rows(table: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Ints]:
    """Distinct rows of 8-byte numbers and, for each row, which it is. Sorts one hash a row: several times faster."""
    bits = np.ascontiguousarray(table).view(np.uint64)
    h = np.zeros(len(table), np.uint64)
    for column in bits.T:
        h = ((h ^ (h >> np.uint64(29))) + column) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(32)
    _, first, ids = np.unique(h, return_index=True, return_inverse=True)
    if not np.array_equal(table[first][ids], table):  # two different rows with one hash
        rows, ids = np.unique(table, axis=0, return_inverse=True)
        return rows, ids.reshape(-1)
    return table[first], ids


def match_faces(a: Floats, b: Floats) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Which corner of each face b [K][4][3] each corner of a [K][4][3] meets when a is shifted onto b.

    Returns the corners [K][4] and whether all four meet within ``CORNER_TOLERANCE`` of a's shortest side.
    """
    a = a - a.mean(axis=1, keepdims=True)
    b = b - b.mean(axis=1, keepdims=True)
    distance = np.linalg.norm(a[:, :, None] - b[:, None, :], axis=3)
    corners = distance.argmin(axis=2)
    sides = np.linalg.norm(a[:, [1, 3, 2, 0]] - a[:, [0, 1, 3, 2]], axis=2).min(axis=1)
    meets = distance.min(axis=2).max(axis=1) <= CORNER_TOLERANCE * sides
    meets &= (np.sort(corners, axis=1) == np.arange(4)).all(axis=1)
    return corners.astype(np.int64), meets
