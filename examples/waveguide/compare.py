"""Measures the frequency of a mode of a circular waveguide and compares it with the dispersion relation.

python compare.py [FOLDER]
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import curve_fit
from scipy.special import jn_zeros

from weft.record import read


def main(folder: str = "result") -> None:
    """Fits a cosine to Ez at the probe."""
    record = read(Path(folder) / "run.json")
    case, figures = record["case"], record["figures"]
    m, n, periods = case["initial"]["mode"]
    along = 2 * np.pi * periods / case["mesh"]["length"]
    cut_off = jn_zeros(m, n)[-1] / case["mesh"]["radii"][0]
    exact = np.hypot(cut_off, along)
    with (Path(folder) / "probes.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    time, field = (np.array([float(row[key]) for row in rows]) for key in ("time", "axis.Ez"))
    (_, found, _), _ = curve_fit(
        lambda t, a, w, p: a * np.cos(w * t + p), time, field, (np.abs(field).max(), exact, 0.1)
    )
    print("| | weft | exact |\n|---|---|---|")
    print(f"| angular frequency, from the probe | {abs(found):.8f} | {exact:.8f} |")
    print(f"| cut-off, its part across the guide | {np.sqrt(found**2 - along**2):.8f} | {cut_off:.8f} |")
    print(f"| relative error of the fields at the end | {figures['relative_error']:.1e} | |")


if __name__ == "__main__":
    main(*sys.argv[1:])
