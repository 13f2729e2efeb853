"""One rank with P threads compared with P ranks with one thread each, on a node with P cores to itself.

    python benchmarks/threads_and_ranks.py --output benchmarks/results/threads_and_ranks.json

Every workload runs both ways in turns: an iteration of Poisson CG, a time step of the others, and a gather-scatter of
one and of six fields. The ratio is the median time with ranks over the median time with threads: 1.05 means that
threads are 5 % faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from weft.files import write_json
from weft.run.launch import cores, launch, mpiexec, processor_name

STEPS = ["--set", "output.slice=none"]
RUNS: dict[str, list[str]] = {
    "poisson": ["--set", "mesh.points=2000000"],
    "poisson, in cache": ["--set", "mesh.points=100000"],
    "maxwell": ["--set", "mesh.points=400000", "--steps", "20", *STEPS],
    "flow": ["--set", "mesh.points=200000", "--steps", "20", "--dt", "0.002", *STEPS],
    "turbulence": ["--grid", "96", "--steps", "12", "--set", "output.slice=false"],
}
KEYS = ("seconds_per_iteration", "seconds_per_step")


def weft_run(workload: str, ranks: int, threads: int) -> float:
    """Seconds per iteration or step of `weft run`."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["run", workload.partition(",")[0], *RUNS[workload], "--set", "exchange=auto", "--quiet"]
        launch(ranks, [*words, "--output", folder], 120, threads)
        timings = json.loads((Path(folder) / "run.json").read_text())["timings"]
    return next(float(timings[key]) for key in KEYS if key in timings)


def gather_scatter(fields: int, ranks: int, threads: int) -> float:
    """Seconds of a gather-scatter of 2 million points of elements of order 7, by worker() on ranks of their own."""
    words = [mpiexec(), "-n", str(ranks), sys.executable, __file__, "--worker", str(fields)]
    done = subprocess.run(
        words, env={**os.environ, "OMP_NUM_THREADS": str(threads)}, check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def worker(fields: int) -> None:
    """Prints the median time of a gather-scatter on the slowest rank. (collective)"""
    import numpy as np
    from mpi4py import MPI

    import weft

    comm = MPI.COMM_WORLD
    ids = weft.Mesh.box((16, 16, 16), comm=comm).point_ids(7).ravel()
    gs = weft.GatherScatter(ids, comm, fields, layout="fields", check=False)
    x = np.ones(ids.size if fields == 1 else (fields, ids.size))
    seconds = []
    for _ in range(22):
        comm.Barrier()
        begin = time.perf_counter()
        gs(x, "max")
        seconds.append(comm.allreduce(time.perf_counter() - begin, MPI.MAX))
    if comm.rank == 0:
        print(statistics.median(seconds[2:]))


def main(argv: Sequence[str]) -> None:
    """Measures everything and writes the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, default=cores(), help="P; default: all processors that may be used")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", help="some of the workloads")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.worker:
        worker(options.worker)
        return
    measured: dict[str, Callable[[int, int], float]] = {
        name: (lambda ranks, threads, name=name: weft_run(name, ranks, threads)) for name in RUNS
    }
    for fields in (1, 6):
        measured[f"gather-scatter of {fields}"] = lambda ranks, threads, f=fields: gather_scatter(f, ranks, threads)
    rows = []
    for name, run in measured.items():
        if options.only and name not in options.only:
            continue
        times: dict[str, list[float]] = {"ranks": [], "threads": []}
        for _ in range(options.rounds):
            times["ranks"].append(run(options.cores, 1))
            times["threads"].append(run(1, options.cores))
        by_ranks, by_threads = (statistics.median(times[key]) for key in ("ranks", "threads"))
        rows.append({"workload": name, **times, "ratio": by_ranks / by_threads})
        print(
            f"{name:20} {options.cores} ranks {1e3 * by_ranks:8.3f} ms, {options.cores} threads "
            f"{1e3 * by_threads:8.3f} ms, ratio {by_ranks / by_threads:.3f}",
            flush=True,
        )
        if options.output:
            record = {"processor": processor_name(), "cores": options.cores, "rounds": options.rounds, "rows": rows}
            write_json(options.output, record)


if __name__ == "__main__":
    main(sys.argv[1:])
