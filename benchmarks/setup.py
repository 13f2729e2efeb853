"""Measures the set-up of `weft run poisson`: seconds and bytes per unknown, by phase and size.

    python benchmarks/setup.py --order 7 --unknowns 1e6 5e6 --output benchmarks/results/setup.json
    python benchmarks/setup.py --order 1 --unknowns 5e6 --ranks 2 --device cuda

Every size runs in processes of its own: a box, the operator with the portable kernels (those of GPUs, unless --kernels
names others), the random right-hand side. A phase is a span of weft's recorder, without the phases inside it. Meanwhile
a thread of the process reads the resident memory: `host` is private memory, and with a GPU driver made for tests
`device` is the memory that this driver shares. With `--device host` the arrays of the device are in host memory, too:
`arrays` is their size at the end. Times and bytes are those of the slowest and the largest rank. `--iterations N` also
times N iterations of conjugate gradients, after as many that do not count. `--rounds N` repeats all runs N times, in
turn. `--against FILE` adds the results of an earlier version, from a file that this program wrote, to the output.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.run.launch import mpiexec

PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Sampler:
    """Samples the resident memory in its own thread: (ns, private bytes, shared bytes)."""

    samples: list[tuple[int, int, int]] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def read(self) -> None:
        from weft import _weft

        with open("/proc/self/statm") as file:
            while not self.stopped.wait(0.002):
                file.seek(0)
                resident, shared = map(int, file.read().split()[1:3])
                self.samples.append((_weft.trace.now_ns(), PAGE * (resident - shared), PAGE * shared))


def phases(events: list[dict[str, Any]], samples: list[tuple[int, int, int]]) -> dict[str, dict[str, float]]:
    """Seconds of each phase without the phases inside it, and the maximum memory during it."""
    spans = sorted((round(1e3 * e["ts"]), -round(1e3 * e["dur"]), e["name"]) for e in events if e.get("cat") == "cpu")
    found: dict[str, dict[str, float]] = {}
    edges: list[tuple[int, str]] = []  # when a phase became the innermost one
    open_: list[tuple[int, str]] = []  # end, name

    def close(until: int) -> None:
        while open_ and open_[-1][0] <= until:
            end, _ = open_.pop()
            edges.append((end, open_[-1][1] if open_ else ""))

    for begin, length, name in spans:
        close(begin)
        open_.append((begin - length, name))
        edges.append((begin, name))
    close(sys.maxsize)
    for (begin, name), (end, _) in itertools.pairwise(edges):
        phase = found.setdefault(name, {"seconds": 0.0, "host_bytes": 0, "device_bytes": 0})
        phase["seconds"] += 1e-9 * (end - begin)
    starts = [begin for begin, _ in edges]
    for when, private, shared in samples:
        place = bisect.bisect_right(starts, when) - 1
        if place >= 0 and edges[place][1] in found:
            phase = found[edges[place][1]]
            phase["host_bytes"] = max(phase["host_bytes"], private)
            phase["device_bytes"] = max(phase["device_bytes"], shared)
    found.pop("", None)
    return found


def measure(order: int, unknowns: int, device: str, iterations: int, options: dict[str, Any]) -> None:
    """Sets up one problem on all ranks, and prints its times and memory."""
    from mpi4py import MPI

    import weft
    from weft import _weft, trace

    comm = MPI.COMM_WORLD
    # A mesh and an operator, so that libraries are loaded and kernels compiled before memory and time are counted.
    weft.Poisson(weft.Mesh.box(4), order, device=device, **options).random_rhs()
    side = max(1, round((unknowns ** (1 / 3) - 1) / order))
    trace.start(comm)
    sampler = Sampler()
    thread = threading.Thread(target=sampler.read)
    thread.start()
    while not sampler.samples:
        time.sleep(0.001)
    begin = time.perf_counter()
    with trace.span("mesh"):
        mesh = weft.Mesh.box(side)
    with trace.span("operator"):
        operator = weft.Poisson(mesh, order, device=device, **options)
    with trace.span("right-hand side"):
        rhs = operator.random_rhs()
    seconds = time.perf_counter() - begin
    memory = operator.memory_bytes
    sampler.stopped.set()
    thread.join()
    trace.stop()
    found = phases(json.loads("[" + _weft.trace.chrome_trace_events(comm.rank) + "]"), sampler.samples)
    _, private, shared = sampler.samples[0]
    for phase in found.values():
        phase["host_bytes"] = max(0, phase["host_bytes"] - private)
        phase["device_bytes"] = max(0, phase["device_bytes"] - shared)
    # Solves start the recorder anew.
    solve = [operator.cg(rhs, iterations=iterations).seconds for _ in range(2)][-1] if iterations > 0 else 0.0
    solve = comm.allreduce(solve, MPI.MAX)
    names = list(dict.fromkeys(name for other in comm.allgather(list(found)) for name in other))
    every = comm.gather((seconds, found, sum(memory.values()), operator.unknowns))
    if every is None:
        return
    none = {"seconds": 0.0, "host_bytes": 0, "device_bytes": 0}
    total = operator.dofs
    print(
        json.dumps(
            {
                "order": order,
                "side": side,
                "unknowns": total,
                "ranks": comm.size,
                "threads": int(os.environ["OMP_NUM_THREADS"]),
                "seconds": max(s for s, _, _, _ in every),
                **({"iterations": iterations, "iterations_seconds": solve} if iterations > 0 else {}),
                "host_bytes_per_unknown": max(max(p["host_bytes"] for p in f.values()) / n for _, f, _, n in every),
                "array_bytes_per_unknown": max(m / n for _, _, m, n in every),
                "phases": {
                    name: {
                        "seconds": max(f.get(name, none)["seconds"] for _, f, _, _ in every),
                        "host_bytes_per_unknown": max(f.get(name, none)["host_bytes"] / n for _, f, _, n in every),
                        "device_bytes_per_unknown": max(f.get(name, none)["device_bytes"] / n for _, f, _, n in every),
                    }
                    for name in names
                },
            }
        ),
        flush=True,
    )


def run(order: int, unknowns: int, ranks: int, threads: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The result of one size, in processes of its own."""
    command = [sys.executable, __file__, "--inside", "--order", str(order), "--unknowns", str(unknowns)]
    command += ["--device", arguments.device, "--geometry", arguments.geometry, "--kernels", arguments.kernels]
    command += ["--iterations", str(arguments.iterations)]
    before = os.getloadavg()[0]
    done = subprocess.run(
        [mpiexec(), "-n", str(ranks), *command],
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        check=True,
        capture_output=True,
        text=True,
        timeout=arguments.timeout,
    )
    return {**json.loads(done.stdout.splitlines()[-1]), "load_before": before, "load_after": os.getloadavg()[0]}


def show(result: dict[str, Any]) -> None:
    """Prints the table of a result."""
    print(
        f"\nN = {result['order']}, {result['unknowns'] / 1e6:.2f} million unknowns, {result['ranks']} ranks of "
        f"{result['threads']} threads: {result['seconds']:.2f} s, at most {result['host_bytes_per_unknown']:.0f} host "
        f"bytes per unknown; arrays {result['array_bytes_per_unknown']:.0f} bytes; load {result['load_before']:.1f}"
    )
    if "iterations" in result:
        print(f"  {result['iterations']} iterations of CG take {result['iterations_seconds']:.2f} s")
    print(f"  {'phase':28s}{'s':>8s}{'host B':>9s}{'device B':>9s}   per unknown")
    for name, phase in result["phases"].items():
        if phase["seconds"] < 0.005 * result["seconds"]:
            continue
        print(
            f"  {name:28s}{phase['seconds']:8.2f}{phase['host_bytes_per_unknown']:9.1f}"
            f"{phase['device_bytes_per_unknown']:9.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--order", type=int, default=7)
    parser.add_argument("--unknowns", type=float, nargs="+", default=[1e6, 5e6])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1])
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="shared by the ranks")
    parser.add_argument("--device", default="host", choices=["host", "cuda", "hip"])
    parser.add_argument("--geometry", default="auto", choices=["auto", "stored", "trilinear"])
    parser.add_argument("--kernels", default="portable", choices=["auto", "portable", "simd"])
    parser.add_argument("--iterations", type=int, default=0, help="of CG that are timed after the set-up")
    parser.add_argument("--rounds", type=int, default=1, help="how often all sizes are run, in turn")
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--against", type=Path, help="results of an earlier version")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        # A launch would need a GPU: where it is a driver made for tests, the exchange cannot be timed.
        exchange = "pairwise:staged" if arguments.kernels == "portable" else "auto"
        options = {"geometry": arguments.geometry, "kernels": arguments.kernels, "exchange": exchange}
        measure(arguments.order, int(arguments.unknowns[0]), arguments.device, arguments.iterations, options)
        return

    from weft.run.launch import processor_name

    results: dict[str, Any] = {
        "processor": processor_name(),
        "device": arguments.device,
        "geometry": arguments.geometry,
        "kernels": arguments.kernels,
        "runs": [],
    }
    for _, ranks, unknowns in itertools.product(range(arguments.rounds), arguments.ranks, arguments.unknowns):
        result = run(arguments.order, int(unknowns), ranks, max(1, arguments.cores // ranks), arguments)
        results["runs"].append(result)
        show(result)
    if arguments.against:
        results["before"] = json.loads(arguments.against.read_text())["runs"]
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
