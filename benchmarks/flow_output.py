"""Measures the cost of a flow's output: checkpoints, fields, Nek files and time averages, on the Taylor-Green vortex.

    mpiexec -n 2 python benchmarks/flow_output.py --output benchmarks/results/flow_output_2_ranks.json

The default is 512 elements of order 7. Rounds of --steps steps with a sample of the averages after each step alternate
with rounds without; `averages_share` is the difference of the medians over the median without. Files go to --folder (by
default the system's temporary folder) and are removed. Checkpoints and Nek files are timed until they are on the disk
(fsync). Rates are bytes of the file over the time, medians of --rounds. `steps_after_checkpoint` compares the pressure
iterations of the steps before a checkpoint with those after it, where the space of earlier solutions is empty. The
program takes about a minute on two quiet cores.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import weft
from weft.run.machine import machine, versions

COMM = MPI.COMM_WORLD


def make(side: int, order: int) -> weft.flow.Solver:
    mesh = weft.Mesh.box(side, upper=2 * np.pi, periodic=True)
    solver = weft.flow.Solver(mesh, order=order, viscosity=1 / 1600, dt=0.01)
    solver.set_velocity(("sin(x) * cos(y) * cos(z)", "-cos(x) * sin(y) * cos(z)", 0.0))
    return solver


def seconds(work: Callable[[], Any]) -> float:
    """Seconds of the slowest rank."""
    COMM.Barrier()
    begin = time.perf_counter()
    work()
    return COMM.allreduce(time.perf_counter() - begin, MPI.MAX)


def iterations(solver: weft.flow.Solver, steps: int) -> list[int]:
    found = []
    for _ in range(steps):
        solver.step(1)
        found.append(int(solver.figures["pressure_iterations"]))
    return found


def file_rates(solver: weft.flow.Solver, folder: Path, rounds: int) -> dict[str, Any]:
    works: dict[str, tuple[Callable[[], Any], Callable[[], list[Path]]]] = {
        "checkpoint_write": (lambda: solver.save(folder / "c"), lambda: [*(folder / "c").rglob("flow.bin")][:1]),
        "checkpoint_read": (lambda: solver.restore(folder / "c"), lambda: [*(folder / "c").rglob("flow.bin")][:1]),
        "nek_write": (lambda: solver.write_nek(folder / "a0.f00001"), lambda: [folder / "a0.f00001"]),
        "nek_read": (lambda: solver.read_nek(folder / "a0.f00001"), lambda: [folder / "a0.f00001"]),
        "vtk_write": (lambda: solver.write_fields(folder / "v"), lambda: [*folder.rglob("*.vtu")]),
    }
    found = {}
    for name, (work, files) in works.items():
        median = statistics.median(seconds(work) for _ in range(rounds))
        size = sum(path.stat().st_size for path in files())
        found[name] = {"seconds": median, "bytes": size, "megabytes_per_second": size / median / 1e6}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=8)
    parser.add_argument("--order", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--output", default="")
    options = parser.parse_args()
    folder = Path(COMM.bcast(tempfile.mkdtemp(dir=options.folder) if COMM.rank == 0 else None))
    without, averaging = make(options.side, options.order), make(options.side, options.order)
    averaging.start_averages()
    times: dict[str, list[float]] = {"without": [], "averaging": []}
    for solver in (without, averaging):
        solver.step(12)  # the space of earlier solutions is full
    for _ in range(options.rounds):
        for name, solver in (("without", without), ("averaging", averaging)):
            times[name].append(seconds(lambda solver=solver: solver.step(options.steps)) / options.steps)
    median = {name: statistics.median(values) for name, values in times.items()}
    before = iterations(without, 4)
    without.save(folder / "c")
    after = iterations(without, 12)
    record = {
        "program": "benchmarks/flow_output.py",
        "versions": versions(),
        "machine": machine(without.device, COMM),
        "ranks": COMM.size,
        "points": without.points,
        "step_seconds": median,
        "averages_share": median["averaging"] / median["without"] - 1,
        "steps_after_checkpoint": {"before": before, "after": after},
        "files": file_rates(without, folder, options.rounds),
    }
    COMM.Barrier()
    if COMM.rank == 0:
        shutil.rmtree(folder)
        text = json.dumps(record, indent=1)
        print(text)
        if options.output:
            Path(options.output).write_text(text + "\n")


if __name__ == "__main__":
    main()
