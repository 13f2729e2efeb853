"""Compares the heat transfer and the largest velocities of the heated cavity with those of de Vahl Davis.

python compare.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from weft.record import read

# de Vahl Davis (1983), Ra = 1e5: mean Nusselt number; largest u at x = 1/2 and v at y = 1/2, in units of kappa / L.
NUSSELT, U, V = 4.519, 34.73, 68.59


def main(folder: str = "result") -> None:
    """Prints the figures."""
    record = read(Path(folder) / "run.json")
    planes = {plane["name"]: np.array(plane["values"], float) for plane in record["statistics"]["planes"]}
    numbers = record["case"]["parameters"]
    kappa = 1 / np.sqrt(float(numbers["Pr"]) * float(numbers["Ra"]))
    rows, columns = planes["u"].shape
    # The mean of the flux u T - kappa dT/dx over the cavity is the same as on every vertical line.
    nusselt = 1 + (planes["u"] * planes["temperature"]).mean() / kappa
    u = planes["u"][:, columns // 2 - 1 : columns // 2 + 1].mean(axis=1) / kappa
    v = planes["v"][rows // 2 - 1 : rows // 2 + 1].mean(axis=0) / kappa
    print("| at steady state | weft | de Vahl Davis |\n|---|---|---|")
    print(f"| mean Nusselt number | {nusselt:.3f} | {NUSSELT} |")
    print(f"| largest u on x = 1/2 | {u.max():.2f} | {U} |")
    print(f"| largest v on y = 1/2 | {v.max():.2f} | {V} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
