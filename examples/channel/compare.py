"""Compares the turbulent channel with Kim, Moin and Moser, and draws its profiles in wall units.

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


def main(folder: str = "result") -> None:
    """Prints the figures and writes profiles.png."""
    record = read(Path(folder) / "run.json")
    profile = record["statistics"]["profile"]
    columns = {name: np.array(values, float) for name, values in profile["columns"].items()}
    friction = float(np.mean(profile["friction_velocities"]))
    reynolds = float(record["case"]["parameters"]["Re"])
    lower = columns["y"] < 0
    distance, rms = columns["distance_plus"], {name: columns[f"{name}{name}_plus"] ** 0.5 for name in "uvw"}
    top = int(rms["u"].argmax())
    centre = np.interp(0, columns["y"], columns["u"])
    print("| | weft | Kim, Moin and Moser |\n|---|---|---|")
    print(f"| Re_tau | {friction * reynolds:.1f} | 180 |")
    print(f"| skin friction 2 u_tau² / U² | {2 * friction**2:.5f} | 0.00818 |")
    print(f"| mean velocity / u_tau | {1 / friction:.2f} | 15.63 |")
    print(f"| velocity at the centre / mean velocity | {centre:.3f} | 1.16 |")
    print(f"| largest u_rms / u_tau | {rms['u'][top]:.2f} at y+ = {distance[top]:.0f} | about 2.7 at y+ = 12 to 15 |")
    figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.4))
    # Both halves, one on the other: how far apart they are shows how far the averages are from converged.
    for half, style in ((lower, "-"), (~lower, "--")):
        order = np.argsort(distance[half])
        axes[0].semilogx(distance[half][order], columns["velocity_plus"][half][order], "C0" + style)
        for colour, name in zip(("C0", "C1", "C2"), "uvw", strict=True):
            axes[1].plot(distance[half][order], rms[name][half][order], colour + style)
    wall, log = np.geomspace(1, 11, 50), np.geomspace(20, 180, 50)
    axes[0].semilogx(wall, wall, "k:", log, 2.5 * np.log(log) + 5.5, "k:")
    axes[0].set(xlabel="$y^+$", ylabel="$U^+$", xlim=(0.8, 200), title="dotted: $y^+$ and 2.5 ln $y^+$ + 5.5")
    for colour, name in zip(("C0", "C1", "C2"), "uvw", strict=True):
        axes[1].plot([], [], colour, label=f"${name}_{{rms}}^+$")
    axes[1].set(xlabel="$y^+$", xlim=(0, 180))
    axes[1].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(Path(folder) / "profiles.png", dpi=100)


if __name__ == "__main__":
    main(*sys.argv[1:])
