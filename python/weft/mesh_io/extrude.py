"""2-D meshes: how readers hold them, and how they become meshes of hexahedra.

A reader lifts quadrilaterals to one layer of hexahedra (a flat mesh, see ``RawMesh.flat``), which is then connected and
checked like any other mesh. ``extrude`` stacks layers of it and closes the two ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from weft.mesh_io.raw import MIDPOINT, Floats, FormatError, RawMesh

Ends = Literal["periodic", "symmetry", "named"]
SYMMETRY = "SYM"  # boundary of both ends, by Nek's name for symmetry planes
BOTTOM_EDGES = (0, 1, 4, 5)  # edges of face t-; those of t+ have numbers higher by 2


@dataclass(frozen=True)
class Extrusion:
    """How a 2-D mesh is extended along z, from z = 0."""

    layers: int = 1
    length: float = 0.0  # in all; 0: each layer is as thick as the mean element is wide
    #: periodic: the ends are joined; symmetry: both are the boundary ``SYM``; named: they are ``z-`` and ``z+``
    ends: Ends = "periodic"

    def __post_init__(self) -> None:
        if self.layers < 1 or not 0 <= self.length < math.inf or self.ends not in get_args(Ends):
            raise FormatError(
                "an extrusion needs at least 1 layer, a length of at least 0 and ends periodic, symmetry or named; "
                f"found layers {self.layers}, length {self.length:g}, ends {self.ends!r}"
            )


def thickness(corners: Floats) -> float:
    """The side of a square with the mean area of the quadrilaterals [E][4][2]; 1 if that is not a positive number."""
    across = corners[:, 3] - corners[:, 0]
    along = corners[:, 2] - corners[:, 1]
    areas = 0.5 * (across[:, 0] * along[:, 1] - across[:, 1] * along[:, 0])
    mean = float(np.abs(areas).mean()) if len(areas) else 0.0
    return math.sqrt(mean) if 0 < mean < math.inf else 1.0


def lift(corners: Floats) -> Floats:
    """The one layer of hexahedra [E][8][3] over quadrilaterals [E][4][2], from z = 0."""
    nodes = np.zeros((len(corners), 2, 4, 3))
    nodes[..., :2] = corners[:, None]
    nodes[:, 1, :, 2] = thickness(corners)
    return nodes.reshape(-1, 8, 3)


def extrude(raw: RawMesh, how: Extrusion) -> RawMesh:
    """The mesh of ``how.layers`` layers that a flat mesh stands for. Raises FormatError if the mesh is 3-D already."""
    if not raw.flat:
        raise FormatError("the mesh is 3-D already, and cannot be extruded")
    count, layers = len(raw.vertices), how.layers
    length = how.length or layers * float(raw.nodes[:, :, 2].max() if count else 1.0)
    step = length / layers

    _, bottom = np.unique(raw.vertices[:, :4], return_inverse=True)
    bottom = bottom.reshape(-1, 4)
    points = int(bottom.max(initial=-1)) + 1
    layer = np.arange(layers)[:, None, None]
    vertices = np.concatenate([bottom + layer * points, bottom + (layer + 1) * points], axis=2).reshape(-1, 8)

    levels = round(raw.nodes.shape[1] ** (1 / 3))  # 2 or 3 nodes along z
    plane = raw.nodes.reshape(count, levels, levels**2, 3)[:, 0]
    nodes = np.empty((layers, count, levels, levels**2, 3))
    nodes[..., :2] = plane[None, :, None, :, :2]
    nodes[..., 2] = (step * (np.arange(layers)[:, None] + np.arange(levels) / (levels - 1)))[:, None, :, None]

    boundaries = np.tile(raw.boundaries, (layers, 1, 1))
    names = list(raw.boundary_names)
    pairs = np.tile(raw.periodic, (layers, 1, 1))
    pairs[:, :, [0, 2]] += count * layer
    pairs = pairs.reshape(-1, 8)
    if how.ends == "periodic":
        low = np.arange(count)
        columns = [low, np.full(count, 4), low + count * (layers - 1), np.full(count, 5)]
        ends = np.stack([*columns, *(np.full(count, corner) for corner in range(4))], axis=1)
        pairs = np.concatenate([pairs, ends])
    else:
        for face, at, name in ((4, 0, "z-"), (5, -1, "z+")):
            name = SYMMETRY if how.ends == "symmetry" else name
            if name not in names:
                names.append(name)
            boundaries[at, :, face] = 1 + names.index(name)

    sides = np.tile(raw.curve_sides, (layers, 1, 1))
    sides[:, :, :1] += count * layer
    values = np.tile(raw.curve_values, (layers, 1, 1))
    level = np.arange(layers)[:, None] + ~np.isin(raw.curve_sides[:, 2], BOTTOM_EDGES)
    middle = raw.curve_sides[:, 1] == MIDPOINT
    values[:, middle, 2] = step * level[:, middle]

    interfaces = np.tile(raw.interfaces, (layers, 1, 1))
    interfaces[:, :, :1] += count * layer
    return RawMesh(
        vertices.astype(np.int64),
        nodes.reshape(layers * count, -1, 3),
        boundaries.reshape(-1, 6).astype(np.int32),
        names,
        raw.source,
        pairs.astype(np.int64),
        sides.reshape(-1, 3),
        values.reshape(-1, 5),
        np.tile(raw.tags, layers),
        raw.tag_names,
        interfaces=interfaces.reshape(-1, 3),
    ).check()
