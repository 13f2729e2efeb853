"""Compares the centre-line velocities of the lid-driven cavity with those of Ghia, Ghia and Shin, and draws both.

python compare.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from weft.record import read

# Tables I and II of Ghia, Ghia and Shin, Re = 100, without the corners.
Y = [0.0547, 0.0625, 0.0703, 0.1016, 0.1719, 0.2813, 0.4531, 0.5, 0.6172, 0.7344, 0.8516, 0.9531, 0.9609, 0.9688,
     0.9766]  # fmt: skip
U = [-0.03717, -0.04192, -0.04775, -0.06434, -0.10150, -0.15662, -0.21090, -0.20581, -0.13641, 0.00332, 0.23151,
     0.68717, 0.73722, 0.78871, 0.84123]  # fmt: skip
X = [0.0625, 0.0703, 0.0781, 0.0938, 0.1563, 0.2266, 0.2344, 0.5, 0.8047, 0.8594, 0.9063, 0.9453, 0.9531, 0.9609,
     0.9688]  # fmt: skip
V = [0.09233, 0.10091, 0.10890, 0.12317, 0.16077, 0.17507, 0.17527, 0.05454, -0.24533, -0.22445, -0.16914, -0.10313,
     -0.08864, -0.07391, -0.05906]  # fmt: skip


def main(folder: str = "result") -> None:
    """Prints the largest differences and writes profiles.png."""
    planes = {
        plane["name"]: np.array(plane["values"], float)
        for plane in read(Path(folder) / "run.json")["statistics"]["planes"]
    }
    rows, columns = planes["u"].shape
    y, x = (np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns
    # The centre line lies between two columns of pixels, or two rows.
    u = planes["u"][:, columns // 2 - 1 : columns // 2 + 1].mean(axis=1)
    v = planes["v"][rows // 2 - 1 : rows // 2 + 1].mean(axis=0)
    print("| on the centre line | weft | Ghia, Ghia and Shin |\n|---|---|---|")
    print(f"| smallest u | {u.min():.4f} at y = {y[u.argmin()]:.3f} | {min(U):.4f} at y = {Y[int(np.argmin(U))]:.3f} |")
    print(f"| largest v | {v.max():.4f} at x = {x[v.argmax()]:.3f} | {max(V):.4f} at x = {X[int(np.argmax(V))]:.3f} |")
    print(f"| smallest v | {v.min():.4f} at x = {x[v.argmin()]:.3f} | {min(V):.4f} at x = {X[int(np.argmin(V))]:.3f} |")
    print(f"| largest difference from the table, u | {np.abs(np.interp(Y, y, u) - U).max():.4f} | |")
    print(f"| largest difference from the table, v | {np.abs(np.interp(X, x, v) - V).max():.4f} | |")
    figure, axes = plt.subplots(figsize=(5, 3.6))
    axes.plot(y, u, label="$u(y)$ at $x$ = 0.5")
    axes.plot(x, v, label="$v(x)$ at $y$ = 0.5")
    axes.plot(Y, U, "ko", X, V, "ks", markersize=4, markerfacecolor="none")
    axes.plot([], [], "ko", markersize=4, markerfacecolor="none", label="Ghia, Ghia and Shin")
    axes.set(xlabel="$x$ or $y$", ylabel="velocity")
    axes.legend(frameon=False)
    figure.savefig(Path(folder) / "profiles.png", dpi=100, bbox_inches="tight")


if __name__ == "__main__":
    main(*sys.argv[1:])
