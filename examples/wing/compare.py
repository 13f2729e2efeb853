"""Prints the iterations and the time of the solve with each preconditioner.

python compare.py FOLDER ...
"""

from __future__ import annotations

import sys
from pathlib import Path

from weft.record import read


def main(*folders: str) -> None:
    """Prints a row for each run."""
    print("| preconditioner | unknowns | iterations | true residual | time, relative to the first |")
    print("|---|---|---|---|---|")
    first = None
    for folder in folders:
        record = read(Path(folder) / "run.json")
        figures, took = record["figures"], record["timings"]["solve_seconds"]
        first = first or took
        kind, share = record["case"]["solver"]["preconditioner"], took / first
        residual = figures["true_residual"]
        print(f"| {kind} | {figures['dofs']:,} | {figures['iterations']} | {residual:.1e} | {share:.2f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
