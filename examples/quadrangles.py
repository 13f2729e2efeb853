"""Writes second-order 2-D meshes in Gmsh's format, for the examples that make their own mesh."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt


def write(file: str, blocks: list[npt.NDArray[np.float64]], boundary: Mapping[str, npt.NDArray[np.float64]]) -> None:
    """Writes blocks of quadrangles that touch.

    A block [2 m + 1][2 n + 1][2] has the corners of its m x n quadrangles, and between them the middles of their sides
    and their centres. A boundary [K][2] is given by all of its points, corners and middles.
    """
    number: dict[tuple[float, float], int] = {}

    def node(point: npt.NDArray[np.float64]) -> int:
        return number.setdefault((round(float(point[0]), 9) + 0.0, round(float(point[1]), 9) + 0.0), len(number) + 1)

    ring = ((0, 0), (0, 2), (2, 2), (2, 0), (0, 1), (1, 2), (2, 1), (1, 0), (1, 1))  # Gmsh's order of the nine nodes
    quadrangles = [
        [node(block[j + b, i + a]) for b, a in ring]
        for block in blocks
        for j in range(0, len(block) - 2, 2)
        for i in range(0, block.shape[1] - 2, 2)
    ]
    on = {name: {node(point) for point in points} for name, points in boundary.items()}
    sides = [
        (tag, [corners[a], corners[(a + 1) % 4], corners[4 + a]])
        for corners in quadrangles
        for a in range(4)
        for tag, nodes in enumerate(on.values(), 1)
        if {corners[a], corners[(a + 1) % 4], corners[4 + a]} <= nodes
    ]
    inside = len(on) + 1
    names = [f'1 {tag} "{name}"' for tag, name in enumerate(on, 1)] + [f'2 {inside} "inside"']
    elements = [f"8 2 {tag} {tag} {' '.join(map(str, nodes))}" for tag, nodes in sides]
    elements += [f"10 2 {inside} {inside} {' '.join(map(str, nodes))}" for nodes in quadrangles]
    lines = ["$MeshFormat", "2.2 0 8", "$EndMeshFormat", "$PhysicalNames", str(len(names)), *names, "$EndPhysicalNames"]
    lines += ["$Nodes", str(len(number)), *(f"{k} {x!r} {y!r} 0" for (x, y), k in number.items()), "$EndNodes"]
    lines += ["$Elements", str(len(elements)), *(f"{k} {row}" for k, row in enumerate(elements, 1)), "$EndElements"]
    Path(file).write_text("\n".join([*lines, ""]))


def halved(corners: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Increasing numbers with the means of neighbours between them."""
    ends = np.asarray(corners, float)
    return np.interp(np.arange(2 * len(ends) - 1) / 2, np.arange(len(ends)), ends)
