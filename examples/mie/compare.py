"""Compares the fields around a sphere with the Mie series.

python compare.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

from weft.record import read


def main(folder: str = "result") -> None:
    """Prints the error."""
    record = read(Path(folder) / "run.json")
    print("| order | relative error, energy norm of all fields |\n|---|---|")
    print(f"| {record['case']['order']} | {100 * record['figures']['relative_error']:.2f} % |")


if __name__ == "__main__":
    main(*sys.argv[1:])
