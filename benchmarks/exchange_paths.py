"""Compares the paths of an exchange over message sizes.

    mpiexec -n 2 python benchmarks/exchange_paths.py --output paths.json
    mpiexec -n 4 python benchmarks/exchange_paths.py --device cuda

There are two shapes. In `pair`, each rank shares ids with the next rank and the previous one (a ring; on two ranks, one
message in each direction). In `all`, it shares ids with every other rank. A message of a gather-scatter has `bytes`
bytes, and one of a scatter about half as many, because each of two ranks owns half of the ids they share, and sends
their values. The times are those of a whole call, including the work on the points. Choices alternate in many short
rounds, so that other work on the machine affects all of them; the figure is the median over rounds of the slowest
rank's time. On a machine that does other work, use only the ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mpi4py import MPI

import weft
import weft.mpi

COMM = MPI.COMM_WORLD
VALUE = 8  # bytes
MOST_SHARED = 10_000_000  # ids that two ranks share


def ids_of(shape: str, shared: int) -> np.ndarray:
    """The ids of this rank, which shares `shared` of them with each of its neighbours, and none with other ranks."""
    others = {(COMM.rank + 1) % COMM.size, (COMM.rank - 1) % COMM.size} if shape == "pair" else set(range(COMM.size))
    first = []
    for other in sorted(others - {COMM.rank}):
        low, high = sorted((COMM.rank, other))
        first.append((low * COMM.size + high) * MOST_SHARED + 1)
    return np.concatenate([f + np.arange(shared) for f in first]) if first else np.arange(0)


def seconds(call: Callable[[], object], repetitions: int) -> float:
    """Seconds of one call on the slowest rank."""
    COMM.Barrier()
    begin = time.perf_counter()
    for _ in range(repetitions):
        call()
    return COMM.allreduce((time.perf_counter() - begin) / repetitions, MPI.MAX)


def measure(shape: str, size: int, choices: list[str], rounds: int, array: Callable) -> dict[str, object]:
    """The medians of all choices for one message size."""
    ids = ids_of(shape, size // VALUE)
    calls: dict[tuple[str, str], Callable[[], object]] = {}
    messages = COMM.size - 1 if shape == "all" else min(2, COMM.size - 1)
    for choice in choices:
        gs = weft.GatherScatter(ids, COMM, exchange=choice, check=False)
        x, dofs = array(ids.size), array(gs.local_dofs + 1)
        calls[choice, "gather_scatter"] = lambda gs=gs, x=x: gs(x, "max")
        calls[choice, "scatter"] = lambda gs=gs, x=x, dofs=dofs: gs.scatter(dofs, out=x)
    repetitions = max(2, min(300, int(4e6 / (2e4 + size * messages))))
    found: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for key, call in calls.items():
            found[key].append(seconds(call, repetitions))
    row: dict[str, object] = {"shape": shape, "bytes": size}
    for (choice, what), values in found.items():
        row[f"{choice} {what} seconds"] = statistics.median(values)
        row[f"{choice} {what} least_seconds"] = min(values)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--choices", nargs="+", default=[], help="schedule:path[:bytes]; by default all paths that work here"
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 64, 512, 4096, 16384, 65536, 262144, 1048576])
    parser.add_argument("--shapes", nargs="+", default=["pair", "all"], choices=["pair", "all"])
    parser.add_argument("--device", default="host", choices=["host", "cuda", "hip"], help="cuda and hip need CuPy")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if COMM.size == 1:
        raise SystemExit("an exchange needs at least two ranks: start this program with mpiexec -n 2 or more")

    if not all(VALUE <= size <= VALUE * MOST_SHARED for size in arguments.sizes):
        raise SystemExit(f"--sizes must be between {VALUE} and {VALUE * MOST_SHARED} bytes")

    device = weft.device.open(arguments.device)
    states = weft.exchange.paths(device, COMM)
    choices = arguments.choices or [f"pairwise:{path}" for path, usable, _ in states if usable]
    if arguments.device == "host":
        array: Callable = np.ones
    else:
        import cupy

        array = cupy.ones

    result: dict[str, object] = {
        "mpi": weft.mpi.library_version(),
        "ranks": COMM.size,
        "device": device.name,
        "processor": weft.device.open("host").name,
        "paths": {path: reason for path, _, reason in states},
        "rounds": arguments.rounds,
    }
    if COMM.rank == 0:
        print(f"{result['mpi']}, {COMM.size} ranks, {device.name}; medians of {arguments.rounds} rounds (least), µs")
        for path, usable, reason in states:
            print(f"  {path}: {'works' if usable else 'does not work'}: {reason}")
    rows = []
    for shape in arguments.shapes if COMM.size > 2 else arguments.shapes[:1]:
        for size in arguments.sizes:
            row = measure(shape, size, choices, arguments.rounds, array)
            rows.append(row)
            if COMM.rank != 0:
                continue
            for what in ("gather_scatter", "scatter"):
                times = "  ".join(
                    f"{choice} {1e6 * float(row[f'{choice} {what} seconds']):9.2f} "
                    f"({1e6 * float(row[f'{choice} {what} least_seconds']):9.2f})"
                    for choice in choices
                )
                print(f"{shape:5s}{size:9d} B  {what:14s}  {times}", flush=True)
    result["rows"] = rows
    if COMM.rank == 0 and arguments.output:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
