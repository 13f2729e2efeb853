"""Measures the speed of the models: a replay, a surface of replays, and a projection at scale.

    python benchmarks/model_speed.py --output benchmarks/results/model_speed.json

Times are medians of `--rounds` rounds (one round for building the program and for the surface). The benchmark takes two
to three minutes. It generates the trace that it replays: launches, kernels, copies and waits on four streams. Its
program is built and replayed on one core. The required limits are 60 s on one core for a replay of 10^6 events; 1 s for
a projection of any workload with its range at 10^5 ranks, without cached results; 20 s for
`weft model published` and `weft model validate` together; and 60 s for a search among 10^4 configurations.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from weft.model import dag, machine, network, project, replay, search
from weft.model.project.boxes import halo, near_cube
from weft.run.launch import processor_name
from weft.traces.table import Builder, Category, Trace


def synthetic(events: int) -> Trace:
    """A process that launches kernels and copies to four streams in turn; every tenth call waits."""
    b = Builder("synthetic", "synthetic")
    host = b.line(0, "thread", "host")
    streams = np.array([b.line(0, f"stream {k}", "stream") for k in range(4)])
    draw, calls = np.random.default_rng(1), round(events / 1.9)
    start = np.cumsum(draw.integers(10_000, 14_000, calls))
    kind = np.where(np.arange(calls) % 10 == 9, int(Category.sync), int(Category.launch))
    b.add(line=host, start=start, end=start + 2000, category=kind, name=b.name("call"), correlation=np.arange(calls))
    launches = np.flatnonzero(kind == int(Category.launch))
    begin = start[launches] + 5000
    copy = launches % 5 == 0
    b.add(
        line=streams[launches % 4], start=begin, end=begin + draw.integers(1000, 30_000, len(launches)),
        category=np.where(copy, int(Category.copy), int(Category.gpu)),
        name=np.where(copy, b.name("memcpy HtoD"), b.name("kernel")), bytes=np.where(copy, 65536, -1),
        correlation=launches,
    )  # fmt: skip
    return b.build()


def median_seconds(call: Callable[[], object], rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


RANKS = 100_000
PROBLEMS: dict[str, dict[str, int]] = {
    "poisson": {"order": 7, "elements_per_rank": 8192},
    "maxwell": {"order": 7, "elements_per_rank": 512},
    "flow": {"order": 7, "elements_per_rank": 2048},
    "turbulence": {"grid": 40_000, "rows": 8},
}


def at_scale() -> dict[str, float]:
    """Seconds of a projection of each workload with its range, on a Frontier that has enough nodes."""
    frontier = machine.load("frontier")
    grown = machine.with_number(frontier, "nodes", -(-RANKS // frontier.ranks_per_node))
    found = {}
    for workload, options in PROBLEMS.items():
        call = partial(getattr(project, workload), ranks=RANKS, **options)
        halo.cache_clear()
        near_cube.cache_clear()
        begin = time.perf_counter()
        project.results(grown, call)
        found[workload] = time.perf_counter() - begin
    return found


def searching() -> dict[str, float]:
    """Seconds of a search for a grid with many divisors."""
    machines = [machine.load(name) for name in ("frontier", "summit")]
    begin = time.perf_counter()
    found = search.search("turbulence", machines, grid=27_720)
    return {"configurations": found.tried, "seconds": time.perf_counter() - begin}


def command_seconds(*words: str) -> float:
    """Wall-clock seconds of a command of weft, including its start."""
    begin = time.perf_counter()
    subprocess.run(["weft", "model", *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--surface-events", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("model_speed.json"))
    given = parser.parse_args()

    trace = synthetic(given.events)
    began = time.perf_counter()
    source = replay.program(trace)
    build = time.perf_counter() - began
    unchanged = median_seconds(lambda: replay.replay(source), given.rounds)
    contended = replay.Scenario(lanes=1, bandwidth=8e9, latency=2e-5)
    shared = median_seconds(lambda: replay.replay(source, contended), given.rounds)

    small = replay.program(synthetic(given.surface_events))
    side = 20
    surface = median_seconds(
        lambda: replay.surface(small, np.geomspace(1e-6, 1e-3, side), np.geomspace(1e9, 64e9, side)), 1
    )
    frontier = machine.load("frontier")
    big = median_seconds(lambda: project.turbulence(frontier, 32768, grid=32768, rows=2), 20)
    spectral = median_seconds(lambda: project.poisson(machine.load("summit"), 27_648), 3)
    summit = dag.Cluster.of(machine.load("summit"))
    blocks = dag.supernodes(dag.factor(dag.stencil((20, 20, 20))))
    solve = median_seconds(lambda: dag.triangular(blocks, 12, summit), given.rounds)
    flows = network.Network(network.torus(4, 4, 4), 1e9, 1e-6)
    graph = network.collective("alltoall", 64, 1e6)
    pairs = median_seconds(lambda: network.replay(graph, flows), given.rounds)

    record = {
        "processor": processor_name(), "cores": len(os.sched_getaffinity(0)), "python": platform.python_version(),
        "rounds": given.rounds,
        "replay": {
            "events": len(trace), "build_seconds": build, "seconds": unchanged,
            "events_per_second": len(trace) / unchanged, "contended_seconds": shared,
            "contended_events_per_second": len(trace) / shared,
        },
        "surface": {
            "replays": side * side, "events_each": source_events(small), "seconds": surface,
            "replays_per_second": side * side / surface,
        },
        "project": {
            "turbulence_32768_ranks_seconds": big, "poisson_27648_ranks_seconds": spectral,
            f"with_range_{RANKS}_ranks_seconds": at_scale(),
        },
        "tables": {name: command_seconds(name) for name in ("published", "validate")},
        "search": searching(),
        "dag": {"supernodes": blocks.count, "gpus": 12, "seconds": solve},
        "network": {"pattern": "alltoall of 64 on a 4 x 4 x 4 torus", "messages": graph.messages, "seconds": pairs},
    }  # fmt: skip
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


def source_events(source: replay.Program) -> int:
    """Calls and device work of a program."""
    return len(source.calls) + len(source.work)


if __name__ == "__main__":
    main()
