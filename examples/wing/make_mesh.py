"""Writes wing.msh: a ring of curved quadrangles around the section of a wing, NACA 0012 with a round trailing edge.

python make_mesh.py [FILE] [ELEMENTS AROUND]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from quadrangles import halved, write

RINGS = [0, 0.012, 0.035, 0.08, 0.16, 0.3, 0.55, 1]  # from the wing to the outer circle
RADIUS = 4.0
ROUND = 0.04


def main(file: str = "wing.msh", around: str = "32") -> None:
    """Writes the mesh, whose wing is 1 long."""
    angle = np.linspace(0, 2 * np.pi, 2 * int(around) + 1)
    x = (1 + np.cos(angle)) / 2
    # I. H. Abbott and A. E. von Doenhoff, Theory of Wing Sections; the last coefficient closes the trailing edge, and
    # the term after them makes it round.
    half = 0.6 * (0.2969 * np.sqrt(x) - 0.1260 * x - 0.3516 * x**2 + 0.2843 * x**3 - 0.1036 * x**4)
    half += ROUND * x**4 * np.sqrt(1 - x)
    wing = np.column_stack([x, np.sign(np.sin(angle).round(12)) * half])
    circle = RADIUS * np.column_stack([np.cos(angle), np.sin(angle)]) + [0.5, 0]
    blocks = [wing + halved(RINGS)[:, None, None] * (circle - wing)]
    write(file, blocks, {"wing": wing, "far": circle})


if __name__ == "__main__":
    main(*sys.argv[1:])
