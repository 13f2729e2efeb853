"""Prints the errors of the run of Walsh's eddies.

python compare.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

from weft.record import read


def main(folder: str = "result") -> None:
    """Prints the errors that the run found."""
    record = read(Path(folder) / "run.json")
    print("| order | relative error of the velocity, L2 norm | of the pressure |\n|---|---|---|")
    errors = record["figures"]["errors"]
    print(f"| {record['case']['order']} | {errors['velocity']:.1e} | {errors['pressure']:.1e} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
