"""Times weft's conjugate gradients on a GPU beside hipBone's, on the same problem, in alternation.

    python benchmarks/compare_hipbone.py --hipbone "mpiexec -n 1 ./hipBone -m CUDA" --folder hipBone \\
        --cases 7:26,3:60,15:12 --output compare_hipbone.json

Case N:n is order N on n^3 elements. hipBone (https://github.com/paranumal/hipBone) streams the geometry at every point,
like weft's geometry "stored"; weft also runs the geometry of trilinear elements and of boxes. Both solve in double
precision without a preconditioner for 100 iterations, and both are judged by hipBone's figure of merit,
(12 E (N+1)^4 + 34 E (N+1)^3) / time per iteration (hipBone Eq. 3). hipBone's time is computed from the figure that it
prints. weft's box is the one nearest to n^3 elements.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from weft import device
from weft.files import write_json
from weft.format import table
from weft.model import formulas

GEOMETRIES = ("stored", "trilinear", "box")


def work(order: int, side: int) -> formulas.Formula:
    """The flops of an iteration."""
    return formulas.fom_flops(formulas.large_mesh(order, side**3))


def hipbone(command: list[str], folder: Path, order: int, side: int) -> float:
    """hipBone's figure of merit, in GFLOP/s."""
    size = [word for axis in "xyz" for word in (f"-n{axis}", str(side))]
    done = subprocess.run([*command, *size, "-p", str(order)], cwd=folder, capture_output=True, text=True, timeout=120)
    found = re.search(r"FOM\D*([\d.eE+]+)", done.stdout)
    if done.returncode != 0 or found is None:
        sys.exit(f"hipBone failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return float(found[1])


def weft(order: int, side: int) -> dict[str, float]:
    """weft's figure of merit by geometry, in GFLOP/s."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--orders", str(order), "--cg", "100", "--dofs", str((order * side) ** 3), "--kernels", "portable"]
        command = [sys.executable, "-m", "weft.cli.main", "bench", "operator", *words, "--output", folder]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        rows = json.loads((Path(folder) / "operator.json").read_text())["rows"]
    return {row["geometry"]: row["fom_gflops"] for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hipbone", required=True, help="the command that starts hipBone, without sizes")
    parser.add_argument("--folder", type=Path, default=Path(), help="where it is started")
    parser.add_argument("--cases", default="7:26,3:60,15:12", help="order:elements per side, ...")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts")
    parser.add_argument("--output", type=Path, default=Path("compare_hipbone.json"))
    options = parser.parse_args()
    gpu, counted = device.open("auto").name, work(1, 1)
    cases = [tuple(map(int, case.split(":"))) for case in options.cases.split(",")]
    found: dict[tuple[int, int], dict[str, list[float]]] = {(order, side): {} for order, side in cases}
    rows: list[dict[str, Any]] = []
    for _ in range(options.rounds):
        for order, side in cases:
            foms = {"hipbone": hipbone(shlex.split(options.hipbone), options.folder, order, side), **weft(order, side)}
            for name, fom in foms.items():
                found[order, side].setdefault(name, []).append(fom)
        rows = [{"order": order, "side": side, "unknowns": (order * side) ** 3, "gflops": foms,
                 "median": {name: statistics.median(values) for name, values in foms.items()}}
                for (order, side), foms in found.items()]  # fmt: skip
        # Written after every round, so that a program that is stopped leaves something.
        write_json(options.output, {"device": gpu, "formula": f"{counted.text}; {counted.source}", "rows": rows})
    lines = [("N", "UNKNOWNS", "HIPBONE", *(name.upper() for name in GEOMETRIES), "STORED / HIPBONE", "µs HIPBONE",
              "µs STORED")]  # fmt: skip
    for row in rows:
        middle = row["median"]
        flops = work(row["order"], row["side"]).value
        micro = [flops / (1e3 * middle[name]) for name in ("hipbone", "stored")]
        lines.append(
            (
                str(row["order"]), f"{row['unknowns']:.3g}", f"{middle['hipbone']:.0f}",
                *(f"{middle[name]:.0f}" for name in GEOMETRIES), f"{middle['stored'] / middle['hipbone']:.2f}",
                *(f"{value:.1f}" for value in micro),
            )
        )  # fmt: skip
    print(table(lines))


if __name__ == "__main__":
    main()
