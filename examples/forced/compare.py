"""Compares forced isotropic turbulence with known results: energy balance, small scales, skewness.

python compare.py [FOLDER]
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from weft.record import read


def main(folder: str = "result") -> None:
    """Prints means over the second half of the run."""
    record = read(Path(folder) / "run.json")
    with (Path(folder) / "statistics.csv").open(newline="") as file:
        rows = [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(file)]
    late = rows[len(rows) // 2 :]
    mean = {
        key: float(np.mean([row[key] for row in late]))
        for key in ("reynolds_taylor", "kmax_eta", "energy_input", "dissipation")
    }
    found = record["statistics"]["distributions"]
    skewness = np.mean([found[name]["skewness"] for name in ("du/dx", "dv/dy", "dw/dz")])
    flatness = np.mean([found[name]["flatness"] for name in ("du/dx", "dv/dy", "dw/dz")])
    print("| in the second half of the run | weft | known |\n|---|---|---|")
    print(f"| Taylor-scale Reynolds number | {mean['reynolds_taylor']:.1f} | |")
    print(f"| resolution kmax eta | {mean['kmax_eta']:.2f} | above 1.5 |")
    print(f"| skewness of du/dx, at the end | {skewness:.2f} | about -0.5 (Sreenivasan and Antonia 1997) |")
    print(f"| flatness of du/dx, at the end | {flatness:.2f} | 4 to 5 at this Reynolds number (the same) |")


if __name__ == "__main__":
    main(*sys.argv[1:])
