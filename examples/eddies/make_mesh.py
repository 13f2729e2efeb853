"""Writes eddies.msh: a distorted, doubly periodic 2-D mesh of the square [0, 2 pi]^2, as Gmsh would.

python make_mesh.py [ELEMENTS PER SIDE] [FILE]
"""

from __future__ import annotations

import math
import sys
from pathlib import Path


def main(side: int = 12, file: str = "eddies.msh") -> None:
    """Writes a mesh of side x side quadrangles."""
    nodes, cells = [], []
    for j in range(side + 1):
        for i in range(side + 1):
            bump = 0.04 * math.sin(2 * math.pi * i / side) * math.sin(2 * math.pi * j / side)
            place = [2 * math.pi * (i / side + bump), 2 * math.pi * (j / side - bump)]
            nodes.append(f"{len(nodes) + 1} {place[0]:.16g} {place[1]:.16g} 0")

    def node(i: int, j: int) -> int:
        return 1 + i + (side + 1) * j

    lines = []  # (line, nodes): 1 and 2 are at x = 0 and 2 pi, 3 and 4 at y = 0 and 2 pi
    for k in range(side):
        lines += [(1, node(0, k), node(0, k + 1)), (2, node(side, k), node(side, k + 1))]
        lines += [(3, node(k, 0), node(k + 1, 0)), (4, node(k, side), node(k + 1, side))]
    elements = [f"1 2 0 {line} {a} {b}" for line, a, b in lines]
    for j in range(side):
        for i in range(side):
            cells.append((node(i, j), node(i + 1, j), node(i + 1, j + 1), node(i, j + 1)))
    elements += [f"3 2 0 1 {a} {b} {c} {d}" for a, b, c, d in cells]
    text = ["$MeshFormat", "2.2 0 8", "$EndMeshFormat", "$Nodes", str(len(nodes)), *nodes, "$EndNodes"]
    text += ["$Elements", str(len(elements)), *(f"{k} {row}" for k, row in enumerate(elements, 1)), "$EndElements"]
    text += ["$Periodic", "2"]
    for slave, master, pairs in (
        (2, 1, [(node(side, k), node(0, k)) for k in range(side + 1)]),
        (4, 3, [(node(k, side), node(k, 0)) for k in range(side + 1)]),
    ):
        text += [f"1 {slave} {master}", str(side + 1), *(f"{a} {b}" for a, b in pairs)]
    Path(file).write_text("\n".join([*text, "$EndPeriodic", ""]))


if __name__ == "__main__":
    main(*(int(word) if word.isdigit() else word for word in sys.argv[1:]))
