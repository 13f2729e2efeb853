"""Writes cylinder.msh: a cylinder of diameter 1 in a rectangle, rings of curved quadrangles around it.

python make_mesh.py [FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from quadrangles import halved, write

X = [-8, -4.5, -2.6, -1.5, -0.75, 0, 0.75, 1.5, 2.4, 3.5, 4.8, 6.4, 8.4, 11, 14.5, 19]
Y = [-10, -5, -2.7, -1.5, -0.75, 0, 0.75, 1.5, 2.7, 5, 10]
SQUARE = 1.5  # half the side of the square around the rings
RINGS = [0, 0.11, 0.36, 1]  # from the cylinder to the square


def main(file: str = "cylinder.msh") -> None:
    """Writes the mesh."""
    x, y, ring = halved(X), halved(Y), halved(RINGS)
    # Around the cylinder: from the corner at -45 degrees, anticlockwise.
    along = halved([v for v in Y if abs(v) <= SQUARE])
    edge = np.column_stack([np.full(len(along), SQUARE), along])
    square = np.concatenate([(edge @ [[0, 1], [-1, 0]] if k % 2 else edge)[:-1] * (-1) ** (k // 2) for k in range(4)])
    square = np.concatenate([square, square[:1]])
    angle = np.linspace(-np.pi / 4, 7 * np.pi / 4, len(square))
    circle = 0.5 * np.column_stack([np.cos(angle), np.sin(angle)])
    blocks = [circle + ring[:, None, None] * (square - circle)]
    grid = np.stack(np.meshgrid(x, y), axis=-1)
    for j in range(0, len(y) - 2, 2):
        for i in range(0, len(x) - 2, 2):
            if max(abs(grid[j + 1, i + 1])) > SQUARE:
                blocks.append(grid[j : j + 3, i : i + 3])
    ends = {"inlet": grid[:, 0], "outlet": grid[:, -1], "sides": np.concatenate([grid[0], grid[-1]])}
    write(file, blocks, {"cylinder": circle, **ends})


if __name__ == "__main__":
    main(*sys.argv[1:])
