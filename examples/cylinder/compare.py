"""Prints Strouhal number, drag and lift of the cylinder over the last periods of the run.

python compare.py [FOLDER]
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from weft.record import read


def main(folder: str = "result") -> None:
    """Prints the figures."""
    length = read(Path(folder) / "run.json")["case"]["mesh"]["extrude"]["length"]
    with (Path(folder) / "statistics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    time, drag, lift = (
        np.array([float(row[key]) for row in rows]) for key in ("time", "force_cylinder_x", "force_cylinder_y")
    )
    late = time > 0.7 * time[-1]
    time, drag, lift = time[late], 2 * drag[late] / length, 2 * lift[late] / length
    up = np.flatnonzero((lift[:-1] < 0) & (lift[1:] >= 0))
    print("| | weft | known at Re 100 |\n|---|---|---|")
    if len(up) > 1:
        crossings = time[up] - lift[up] * (time[up + 1] - time[up]) / (lift[up + 1] - lift[up])
        strouhal = (len(crossings) - 1) / (crossings[-1] - crossings[0])
        print(f"| Strouhal number | {strouhal:.4f} | 0.164 (Williamson 1989, experiment), 0.165 (Park et al. 1998) |")
    print(f"| mean drag coefficient | {drag.mean():.3f} | 1.33 (Park et al. 1998) |")
    print(f"| largest lift coefficient | {lift.max():.3f} | 0.33 (Park et al. 1998) |")


if __name__ == "__main__":
    main(*sys.argv[1:])
