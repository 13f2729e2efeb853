"""Compares one rank with P threads to P ranks with one thread each, on an otherwise idle node with P cores.

    python benchmarks/threads_and_ranks.py --output benchmarks/results/threads_and_ranks.json

Every workload alternates between both: an iteration of Poisson CG, a time step of the others, and a gather-scatter of
one and of six fields. The ratio is the median time with ranks over the median time with threads: 1.05 means that
threads are 5 % faster.

The host of a virtual machine may move its processors between cores that share a last-level cache and cores that do not,
which changes the cost of data that threads share. Therefore `core_to_core.c` (which needs gcc) measures before and
after each run how long a cache line takes from one processor to the other and back. A run counts as "far" if this took
more than 150 ns before or after it, otherwise as "near". Runs during which other processes took more than a tenth of a
processor do not count, because threads that wait for one that cannot run lose much time. They are repeated, but no more
than twice as many rounds are run as `--rounds` says.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
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
DISTURBED = 0.1  # processors that other processes used on average
FAR = 150e-9  # seconds: between the round trips of cores with and without a common cache (55 and 315 ns on Zen 4)


def weft_run(workload: str, ranks: int, threads: int) -> float:
    """Seconds per iteration or step of `weft run`."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["run", workload.partition(",")[0], *RUNS[workload], "--set", "exchange=auto", "--quiet"]
        launch(ranks, [*words, "--output", folder], 120, threads)
        timings = json.loads((Path(folder) / "run.json").read_text())["timings"]
    return next(float(timings[key]) for key in KEYS if key in timings)


def gather_scatter(fields: int, ranks: int, threads: int) -> float:
    """Seconds of a gather-scatter of 2 million points of elements of order 7, by worker() on separate ranks."""
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


def core_to_core(folder: Path) -> Callable[[], float]:
    """Measures the longest round trip of a cache line between the processors that may be used (s)."""
    made = folder / "core_to_core.so"
    source = Path(__file__).with_name("core_to_core.c")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-pthread", "-o", str(made), str(source)], check=True)
    library = ctypes.CDLL(str(made))
    library.round_trip.restype = ctypes.c_double
    pairs = list(itertools.pairwise(sorted(os.sched_getaffinity(0))))
    return lambda: max((library.round_trip(*pair) for pair in pairs), default=0.0)


def processor_seconds() -> tuple[float, float]:
    """Processor time since the start: of all processes of the system, and of the children of this one."""
    with open("/proc/stat") as lines:
        ticks = [int(word) for word in lines.readline().split()[1:9]]
    idle = ticks[3] + ticks[4]
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK"), own.ru_utime + own.ru_stime


def measure(run: Callable[[int, int], float], layout: tuple[int, int], round_trip: Callable[[], float]) -> list[float]:
    """Seconds of a run, the round trip around it, and the processors that others used meanwhile."""
    trip = round_trip()
    begin, (all_before, own_before) = time.perf_counter(), processor_seconds()
    seconds = run(*layout)
    wall, (all_after, own_after) = time.perf_counter() - begin, processor_seconds()
    others = (all_after - all_before - (own_after - own_before)) / wall
    return [seconds, max(trip, round_trip()), max(0.0, others)]


def undisturbed(runs: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """Those during which others hardly ran."""
    return [run for run in runs if run[2] <= DISTURBED]


def ratios(times: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, float]:
    """Ratio of the medians by place of the processors: near, far. Entries of `times` are those of measure()."""
    found = {}
    for place in ("near", "far"):
        far = place == "far"
        here = {way: [run[0] for run in undisturbed(runs) if (run[1] > FAR) == far] for way, runs in times.items()}
        if all(here.values()):
            found[place] = statistics.median(here["ranks"]) / statistics.median(here["threads"])
    return found


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
    with tempfile.TemporaryDirectory() as folder:
        round_trip = core_to_core(Path(folder))
    for name, run in measured.items():
        if options.only and name not in options.only:
            continue
        times: dict[str, list[list[float]]] = {"ranks": [], "threads": []}
        for _ in range(2 * options.rounds):
            if min(len(undisturbed(runs)) for runs in times.values()) >= options.rounds:
                break
            for way, layout in (("ranks", (options.cores, 1)), ("threads", (1, options.cores))):
                times[way].append(measure(run, layout, round_trip))
        row = {"workload": name, **times, "ratio": ratios(times)}
        rows.append(row)
        for place, ratio in row["ratio"].items():
            print(
                f"{name:20} {options.cores} {place} processors: time with ranks / with threads {ratio:.3f}", flush=True
            )
        if options.output:
            record = {"processor": processor_name(), "cores": options.cores, "rounds": options.rounds, "rows": rows}
            write_json(options.output, record)


if __name__ == "__main__":
    main(sys.argv[1:])
