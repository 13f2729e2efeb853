"""weft's Maxwell step compared with NekCEM's and with the roofline: the same boxes, orders and ranks.

    for each N:E   python benchmarks/nekcem_case.py nekcem CASES/nN --order N --elements E     (see its help)
    ninja -C build maxwell_cpu
    python benchmarks/compare_maxwell.py --nekcem CASES --output results.json

Both codes run the lowest mode of a cube with conducting walls in double precision, with the upwind flux and
fourth-order Runge-Kutta steps of five stages. NekCEM's time is the one it prints (its clock around the steps, from step
10 on). weft's time is the median of its rounds, on the slowest rank. In a round one code runs after the other; ratios
are those of medians over the rounds, and weft is faster where they are above 1. The limits (8:1 bandwidth, FMA peak)
are measured in weft's runs, on as many ranks; docs/cpu-kernels.md states the bytes and operations that a step must
take. Without --nekcem, weft runs alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import nekcem_case

ROOT = Path(__file__).resolve().parents[1]
FIRST = 10  # NekCEM prints its clock after each of the first steps and after the last


def run(command: list[str], folder: Path, limit: float = 120) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=limit,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def nekcem(folder: Path, order: int, ranks: int, steps: int, launcher: str) -> tuple[float, float]:
    """Seconds per step and the largest error of the electric field at the end."""
    nekcem_case.write_steps(folder, order, FIRST + steps, 1e-4)
    (folder / "SESSION.NAME").write_text(f"{nekcem_case.NAME}\n{folder.resolve()}/\n")
    command = ["./nekcem"] if ranks == 1 else [launcher, "-n", str(ranks), "./nekcem"]
    text = run(command, folder)
    # step, elements, order, points, time, dt, errors (Hx Hy Hz Ex Ey Ez), clock, clock / points
    clocks, errors = {}, {}
    for line in re.findall(r"^ *\d+ .*CPU: Linf", text, flags=re.MULTILINE):
        values = line.split()
        clocks[int(values[0])] = float(values[-4])
        errors[int(values[0])] = max(float(v) for v in values[9:12])
    last = FIRST + steps
    if FIRST not in clocks or last not in clocks:
        sys.exit(f"NekCEM in {folder} printed no times of steps {FIRST} and {last}:\n{text[-2000:]}")
    return (clocks[last] - clocks[FIRST]) / steps, errors[last]


def weft(program: Path, case: tuple[int, int], ranks: int, steps: int) -> dict[str, Any]:
    launcher = shutil.which("mpiexec") or "mpiexec"
    order, count = case
    command = [launcher, "-n", str(ranks), str(program), str(order), str(count), "box", "double", "3", str(steps)]
    text = run(command, ROOT)
    return dict(json.loads(next(line for line in text.splitlines() if line.startswith("{"))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nekcem", type=Path, help="folder with NekCEM's cases n7, n9, ...")
    parser.add_argument("--mpiexec", default="mpiexec", help="launcher of the MPI that NekCEM was built with")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="weft's build folder")
    parser.add_argument("--cases", nargs="+", default=["7:8", "9:6", "14:4", "15:4"], help="N:elements per direction")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="NekCEM's steps per round, after its first 10")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    program = arguments.build.resolve() / "benchmarks" / "maxwell_cpu"
    if not program.exists():
        sys.exit(f"{program} does not exist: build it with ninja -C {arguments.build} maxwell_cpu")

    rows = []
    for text in arguments.cases:
        order, count = (int(v) for v in text.split(":"))
        for ranks in arguments.ranks:
            ours, theirs, errors = [], [], []
            for _ in range(arguments.rounds):
                if arguments.nekcem:
                    seconds, error = nekcem(
                        arguments.nekcem / f"n{order}", order, ranks, arguments.steps, arguments.mpiexec
                    )
                    theirs.append(seconds)
                    errors.append(error)
                ours.append(weft(program, (order, count), ranks, arguments.steps))
            step = statistics.median(o["step_seconds"] for o in ours)
            # The limits of the machine are the best of those measured.
            bandwidth = max(o["bandwidth_gbs"] for o in ours) * 1e9
            peak = max(o["fma_peak_gflops"] for o in ours) * 1e9
            by_bytes, by_flops = ours[0]["bytes"] / bandwidth, ours[0]["flops"] / peak
            row: dict[str, Any] = {
                "order": order,
                "elements": count**3,
                "points": ours[0]["points"],
                "ranks": ranks,
                "step_seconds": step,
                "step_seconds_by_round": [o["step_seconds"] for o in ours],
                "bytes": ours[0]["bytes"],
                "flops": ours[0]["flops"],
                "bandwidth_bytes_per_second": bandwidth,
                "peak_flops_per_second": peak,
                "fraction_of_byte_limit": by_bytes / step,
                "fraction_of_flop_limit": by_flops / step,
                "fraction_of_roofline": max(by_bytes, by_flops) / step,
                "error": ours[0]["error"],
                "bytes_held_per_point": ours[0]["bytes_held_per_point"],
            }
            line = (
                f"N={order:2d} {count}^3 elements {ranks} rank(s): weft {1e3 * step:7.2f} ms a step, "
                f"{100 * row['fraction_of_roofline']:3.0f} % of the roofline"
            )
            if theirs:
                row |= {
                    "nekcem_step_seconds": statistics.median(theirs),
                    "nekcem_step_seconds_by_round": theirs,
                    "nekcem_error": max(errors),
                    "ratio": statistics.median(theirs) / step,
                }
                line += f"; NekCEM {1e3 * row['nekcem_step_seconds']:7.2f} ms, {row['ratio']:.2f} times as long"
            rows.append(row)
            print(line, flush=True)
    if arguments.output:
        machine = {"cores": sorted(os.sched_getaffinity(0)), "load": os.getloadavg()}
        arguments.output.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
