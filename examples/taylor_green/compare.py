"""Compares the peak of the dissipation of the Taylor-Green vortex with the reference on 512^3 points.

python compare.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from weft.record import read

PEAK, WHEN = 0.01286, 8.98  # of the workshop's reference, spectral_Re1600_512.gdiag


def main(folder: str = "result") -> None:
    """Prints the figures."""
    history = read(Path(folder) / "run.json")["statistics"]["history"]
    time, dissipation, energy = (
        np.array([row[key] for row in history], float) for key in ("time", "dissipation", "energy")
    )
    top = int(dissipation.argmax())
    a, b, _ = np.polyfit(time[top - 2 : top + 3], dissipation[top - 2 : top + 3], 2)
    when = -b / (2 * a)
    peak = float(np.interp(when, time, dissipation))
    print("| | weft, 64³ points | reference, 512³ |\n|---|---|---|")
    print(f"| largest dissipation | {peak:.5f} | {PEAK} |")
    print(f"| its time | {when:.2f} | {WHEN} |")
    print(f"| energy lost by then | {100 * (1 - np.interp(when, time, energy) / energy[0]):.1f} % | |")


if __name__ == "__main__":
    main(*sys.argv[1:])
