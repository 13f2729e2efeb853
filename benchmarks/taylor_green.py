#!/usr/bin/env python3
"""The Taylor-Green vortex at Re 1600 compared with its 512^3 spectral reference: largest error, a plot and a JSON file.

    python benchmarks/taylor_green.py --grid 128 --ranks 2 --output benchmarks/results

Runs `weft run turbulence --case taylor-green`. The reference (columns time, energy, dissipation) is by default
../shared/data/tgv, next to the checkout. On two cores 128^3 takes minutes, and 256^3 about an hour.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from weft.report import plots, turbulence_plots
from weft.run.launch import mpiexec

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT.parent / "shared" / "data" / "tgv" / "spectral_Re1600_512.gdiag"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=128)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--end", type=float, default=20.0)
    parser.add_argument("--courant", type=float, default=0.9)
    parser.add_argument("--precision", choices=["double", "single"], default="double")
    parser.add_argument("--reference", type=Path, default=REFERENCE)
    parser.add_argument("--limit", type=float, default=7200, help="time limit of the run, in seconds")
    parser.add_argument("--output", type=Path, required=True, help="folder of the results")
    options = parser.parse_args()
    if not options.reference.exists():
        sys.exit(
            f"{options.reference} does not exist: pass a file with columns time, energy, dissipation as --reference"
        )
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *([mpiexec(), "-n", str(options.ranks)] if options.ranks > 1 else []),
            sys.executable, "-m", "weft.cli.main", "run", "turbulence", "--case", "taylor-green",
            "--grid", str(options.grid), "--precision", options.precision, "--output", folder,
            "--set", f"time.end={options.end}", "--set", f"time.courant={options.courant}",
            "--set", f"reference={options.reference}", "--set", "statistics.every=5",
        ]  # fmt: skip
        done = subprocess.run(command, timeout=options.limit, check=False)
        if done.returncode != 0:
            return done.returncode
        record = json.loads((Path(folder) / "run.json").read_text())
        with (Path(folder) / "statistics.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    reference = np.loadtxt(options.reference, comments="#")
    time, dissipation, energy = (np.array([float(r[k]) for r in rows]) for k in ("time", "dissipation", "energy"))
    peak = int(np.argmax(dissipation))
    peak_of_reference = int(np.argmax(reference[:, 2]))
    errors = record["statistics"]["reference"]
    result = {
        "what": "Taylor-Green vortex, Re 1600; errors over the largest value of the reference, up to --end",
        "reference": options.reference.name,
        "grid": options.grid,
        "precision": options.precision,
        "ranks": options.ranks,
        "courant": options.courant,
        "end_time": float(time[-1]),
        "steps": record["figures"]["steps"],
        "largest_energy_error": errors["largest_energy_error"],
        "largest_dissipation_error": errors["largest_dissipation_error"],
        "peak_dissipation": float(dissipation[peak]),
        "peak_time": float(time[peak]),
        "peak_dissipation_of_reference": float(reference[peak_of_reference, 2]),
        "peak_time_of_reference": float(reference[peak_of_reference, 0]),
        "energy_at_the_end": float(energy[-1]),
        "run_seconds": record["timings"]["run_seconds"],
        "seconds_per_step": record["timings"]["seconds_per_step"],
        "machine": record["machine"],
    }
    name = f"taylor_green_{options.grid}" + ("_single" if options.precision == "single" else "")
    (options.output / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    beside = {"name": "512^3 reference", "time": reference[:, 0], "energy": reference[:, 1],
              "dissipation": reference[:, 2]}  # fmt: skip
    shown = reference[:, 0] <= time[-1]
    beside |= {k: beside[k][shown] for k in ("time", "energy", "dissipation")}
    plots.save(turbulence_plots.history(time.tolist(), dissipation.tolist(), energy.tolist(), beside),
               options.output / f"{name}.png")  # fmt: skip
    print(f"largest error: dissipation {100 * result['largest_dissipation_error']:.2f} %, "
          f"energy {100 * result['largest_energy_error']:.3f} % of the reference's largest; peak "
          f"{result['peak_dissipation']:.6f} at t = {result['peak_time']:.2f} (reference "
          f"{result['peak_dissipation_of_reference']:.6f} at {result['peak_time_of_reference']:.2f})")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
