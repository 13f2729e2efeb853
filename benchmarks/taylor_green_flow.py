#!/usr/bin/env python3
"""The Taylor-Green vortex at Re 1600 on spectral elements, compared with a Fourier code and the 512^3 reference.

    python benchmarks/taylor_green_flow.py --elements 8 --ranks 2 --output benchmarks/results

Runs `weft run flow --case taylor-green` with the given number of elements per side, then `weft run turbulence` on the
grid nearest to as many points. Writes the largest errors, a plot and a JSON file. The reference (columns time, energy,
-dE/dt) is by default ../shared/data/tgv, next to the checkout. On two cores 8 elements at N = 7 take minutes, and 16 an
hour or more.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from weft.cases.turbulence import smooth_neighbours
from weft.report import plots
from weft.run.launch import mpiexec

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT.parent / "shared" / "data" / "tgv" / "spectral_Re1600_512.gdiag"


def run(options, *arguments):
    """A run of weft: its record, and the columns of its statistics.csv as arrays."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *([mpiexec(), "-n", str(options.ranks)] if options.ranks > 1 else []),
            sys.executable, "-m", "weft.cli.main", "run", *arguments, "--case", "taylor-green", "--output", folder,
            "--set", f"time.end={options.end}", "--set", "statistics.every=5",
        ]  # fmt: skip
        done = subprocess.run(command, timeout=options.limit, check=False)
        if done.returncode != 0:
            sys.exit(done.returncode)
        record = json.loads((Path(folder) / "run.json").read_text())
        with (Path(folder) / "statistics.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    return record, {key: np.array([float(row[key]) for row in rows]) for key in ("time", "energy", "dissipation")}


def errors(found, reference):
    """The largest differences relative to the largest values of the reference, and the peak of dissipation."""
    result = {}
    for column, key in ((1, "energy"), (2, "dissipation")):
        expected = np.interp(found["time"], reference[:, 0], reference[:, column])
        result[f"largest_{key}_error"] = float(np.abs(found[key] - expected).max() / reference[:, column].max())
    # The actual loss of energy, including numerical dissipation.
    middle = (found["time"][1:] + found["time"][:-1]) / 2
    loss = -np.diff(found["energy"]) / np.diff(found["time"])
    expected = np.interp(middle, reference[:, 0], reference[:, 2])
    result["largest_energy_loss_error"] = float(np.abs(loss - expected).max() / reference[:, 2].max())
    peak = int(np.argmax(found["dissipation"]))
    result["peak_dissipation"], result["peak_time"] = float(found["dissipation"][peak]), float(found["time"][peak])
    result["energy_at_the_end"] = float(found["energy"][-1])
    return result


def thinned(found, count=200):
    """The curves at about this many times, for the record."""
    every = max(1, len(found["time"]) // count)
    return {key: [float(f"{value:.7g}") for value in column[::every]] for key, column in found.items()}


def timings(record):
    steps = record["figures"].get("steps_done", record["figures"].get("steps"))
    return {"steps": steps, **{key: record["timings"][key] for key in ("run_seconds", "seconds_per_step")}}


def picture(curves, reference, path):
    """Dissipation and energy against time."""
    with plt.rc_context(plots.STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(10.4, 4.0))
        shown = reference[:, 0] <= max(found["time"][-1] for found in curves.values())
        for panel, (column, key, label) in zip(
            axes, ((2, "dissipation", "dissipation"), (1, "energy", "kinetic energy")), strict=True
        ):
            panel.plot(reference[shown, 0], reference[shown, column], color="black", linewidth=1.0,
                       label="512$^3$ reference")  # fmt: skip
            for index, (name, found) in enumerate(curves.items()):
                panel.plot(found["time"], found[key], color=plots.COLOURS[index], linestyle="--", label=name)
            panel.set_xlabel("time")
            panel.set_ylabel(label)
            panel.set_ylim(0, 1.5 * panel.dataLim.y1)  # room for the legend
            panel.legend()
        figure.tight_layout()
    plots.save(figure, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=8, help="elements per side")
    parser.add_argument("--order", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--end", type=float, default=20.0)
    parser.add_argument(
        "--courant", type=float, default=0.4, help="Courant number of the steps; BDF3/EXT3 is near its limit at 0.7"
    )
    parser.add_argument("--convection", choices=["overintegrated", "skew-symmetric"], default="overintegrated")
    parser.add_argument("--reference", type=Path, default=REFERENCE)
    parser.add_argument("--limit", type=float, default=7200, help="time limit of a run, in seconds")
    parser.add_argument("--output", type=Path, required=True, help="folder of the results")
    options = parser.parse_args()
    if not options.reference.exists():
        sys.exit(f"{options.reference} does not exist: pass a file with columns time, energy, -dE/dt as --reference")
    options.output.mkdir(parents=True, exist_ok=True)
    reference = np.loadtxt(options.reference, comments="#")

    points = options.elements * options.order  # per side, without repetition
    grid = min(smooth_neighbours(points), key=lambda size: abs(size - points))
    count = options.elements
    flow_record, flow = run(
        options, "flow", "--order", str(options.order), "--set", f"mesh.counts=[{count}, {count}, {count}]",
        "--set", "time.dt=0", "--set", f"time.courant={options.courant}",
        "--set", f"convection={options.convection}",
    )  # fmt: skip
    fourier_record, fourier = run(options, "turbulence", "--grid", str(grid), "--set", "time.courant=0.6")
    result = {
        "what": "Taylor-Green vortex, Re 1600; errors over the largest value of the reference, up to --end",
        "reference": options.reference.name,
        "end_time": float(flow["time"][-1]),
        "ranks": options.ranks,
        "flow": {
            "elements_a_side": count,
            "order": options.order,
            "points_a_side": points,
            "courant": options.courant,
            "convection": options.convection,
            **errors(flow, reference),
            **timings(flow_record),
            "curves": thinned(flow),
        },
        "turbulence": {
            "points_a_side": grid,
            **errors(fourier, reference),
            **timings(fourier_record),
            "curves": thinned(fourier),
        },
        "machine": flow_record["machine"],
    }
    name = f"taylor_green_flow_{count}_{options.order}"
    (options.output / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    curves = {f"weft run flow, {count}$^3$ elements, N = {options.order}": flow,
              f"weft run turbulence, {grid}$^3$": fourier}  # fmt: skip
    picture(curves, reference, options.output / f"{name}.png")
    for key in ("flow", "turbulence"):
        part = result[key]
        print(f"{key}, {part['points_a_side']}^3 points: largest error of dissipation "
              f"{100 * part['largest_dissipation_error']:.2f} %, of the loss of energy "
              f"{100 * part['largest_energy_loss_error']:.2f} %, of energy {100 * part['largest_energy_error']:.3f} % "
              f"of the reference's largest; peak {part['peak_dissipation']:.6f} at t = {part['peak_time']:.2f}; "
              f"{part['run_seconds']:.0f} s")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
