"""The order of the nodes of hexahedra: corners around the bottom and the top in VTK and Gmsh, lexicographic in weft."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.mesh_io.raw import Floats, Ints

# The index of corner i + 2 j + 4 k in the order of VTK and Gmsh.
CORNERS = np.array([0, 1, 3, 2, 4, 5, 7, 6])

# The corners, in the order of VTK and Gmsh, between which nodes 8 to 26 lie: of 12 edges, 6 faces and the element.
GMSH: list[list[int]] = [
    *([0, 1], [0, 3], [0, 4], [1, 2], [1, 5], [2, 3], [2, 6], [3, 7], [4, 5], [4, 7], [5, 6], [6, 7]),
    *([0, 1, 2, 3], [0, 1, 5, 4], [0, 3, 7, 4], [1, 2, 6, 5], [2, 3, 7, 6], [4, 5, 6, 7]),
    [0, 1, 2, 3, 4, 5, 6, 7],
]
VTK: list[list[int]] = [
    *([0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4], [0, 4], [1, 5], [2, 6], [3, 7]),
    *([0, 3, 7, 4], [1, 2, 6, 5], [0, 1, 5, 4], [2, 3, 7, 6], [0, 1, 2, 3], [4, 5, 6, 7]),
    [0, 1, 2, 3, 4, 5, 6, 7],
]


def _slots(between: Sequence[Sequence[int]]) -> Ints:
    """The place of each of the 27 nodes in the 3 x 3 x 3 lexicographic order."""
    place = np.empty(8, np.int64)
    place[CORNERS] = np.arange(8)
    at = 2 * np.stack([place & 1, place >> 1 & 1, place >> 2], axis=1)
    nodes = [*at, *(at[list(corners)].mean(axis=0).astype(np.int64) for corners in between)]
    return np.array(nodes) @ [1, 3, 9]


def lexicographic(places: Floats, between: Sequence[Sequence[int]]) -> Floats:
    """The nodes [E][8 or 27][3] of hexahedra given by 8, 20 or 27 nodes in the order of VTK or Gmsh.

    With 20 nodes, those in the middle of faces and of the element follow from serendipity shape functions.
    """
    given = places.shape[1]
    if given == 8:
        return np.ascontiguousarray(places[:, CORNERS])
    slots = _slots(between)
    nodes = np.empty((len(places), 27, 3))
    nodes[:, slots[:given]] = places
    for n in range(given, 27):
        ends = set(between[n - 8])
        edges = [8 + i for i, pair in enumerate(between[:12]) if set(pair) <= ends]
        share = 0.5 if n < 26 else 0.25
        nodes[:, slots[n]] = share * places[:, edges].sum(axis=1) - 0.25 * places[:, list(ends)].sum(axis=1)
    return nodes


def matched(places: Floats, between: Sequence[Sequence[int]]) -> Ints:
    """The order in which nodes [E][8, 20 or 27][3] with the right corners are those of ``between``: [8, 20 or 27].

    Formats agree on corners, but not on the nodes in the middle of edges and faces, so these go to the middles that
    they are nearest to, on the mean of up to 1000 elements. If that is ambiguous the order stays what it is.
    """
    given = places.shape[1]
    some = places[:: max(1, len(places) // 1000)]
    order = np.arange(given)
    if given == 8:
        return order
    middles = np.stack([some[:, list(corners)].mean(axis=1) for corners in between[: given - 8]], axis=1)
    size = np.ptp(some[:, :8], axis=1).max(axis=1)
    apart = np.linalg.norm(some[:, 8:, None] - middles[:, None], axis=-1) / size[:, None, None]
    nearest = apart.mean(axis=0).argmin(axis=1)
    if len(np.unique(nearest)) == given - 8:
        order[8 + nearest] = np.arange(8, given)
    return order
