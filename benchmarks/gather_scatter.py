"""Gather-scatter on a box of spectral elements: times, and the share of the memory's bandwidth they reach.

    mpiexec -n 2 python benchmarks/gather_scatter.py --types float64 float32 --output results.json

Bytes are those the method must move, each once: for a gather-scatter 4 of index and two values (read, written) a point
whose id occurs more than once; for a scatter 4 of index and two values a point; for a gather 4 and one value a point
and 4 and one value an id. Points that share cache lines with those cost more than is counted. The limit is the
streaming kernel of `weft bench` (8 reads : 1 write), measured in the same run on all ranks at once. Set-up is timed in
three parts, once each: the mesh, the numbering of its points, and the gather-scatter with its first call.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from mpi4py import MPI

import weft
import weft.mpi

POINTS = 2**21  # over all ranks, about
COMM = MPI.COMM_WORLD
T = TypeVar("T")


def median_seconds(call: Callable[[], object], repetitions: int) -> float:
    """Median over repetitions of the slowest rank's time."""
    call()
    seconds = []
    for _ in range(repetitions):
        COMM.Barrier()
        begin = time.perf_counter()
        call()
        seconds.append(COMM.allreduce(time.perf_counter() - begin, MPI.MAX))
    return statistics.median(seconds)


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """What a collective call returns, and the slowest rank's time for it."""
    COMM.Barrier()
    begin = time.perf_counter()
    result = call()
    return result, COMM.allreduce(time.perf_counter() - begin, MPI.MAX)


def counts_for(order: int) -> tuple[int, int, int]:
    """Elements a direction for about POINTS points."""
    each = max(1, round((POINTS / (order + 1) ** 3) ** (1 / 3)))
    return (each, each, max(1, round(POINTS / (order + 1) ** 3 / each**2)))


def measure(order: int, fields: int, type_: str, repetitions: int, bandwidth: float) -> dict[str, object]:
    mesh, mesh_seconds = timed(lambda: weft.Mesh.box(counts_for(order), comm=COMM))
    ids, numbering_seconds = timed(lambda: mesh.point_ids(order).ravel())
    x = np.ones((ids.size, fields) if fields > 1 else ids.size, dtype=type_)

    def set_up() -> weft.GatherScatter:
        gs = weft.GatherScatter(ids, COMM, fields, check=False)
        gs(x)  # makes what is needed for this type
        return gs

    gs, setup_seconds = timed(set_up)
    dofs = gs.gather(x)

    _, inverse, multiplicity = np.unique(ids, return_inverse=True, return_counts=True)
    several = COMM.allreduce(int((multiplicity[inverse] > 1).sum()), MPI.SUM)
    points, local = COMM.allreduce(ids.size, MPI.SUM), COMM.allreduce(gs.local_dofs, MPI.SUM)
    value = x.itemsize * fields
    moved = {
        "gather_scatter": several * (4 + 2 * value),
        "gather": points * (4 + value) + local * (4 + value),
        "scatter": points * (4 + 2 * value),
    }
    calls = {
        "gather_scatter": lambda: gs(x, "max"),  # sums would grow without bound
        "gather": lambda: gs.gather(x, out=dofs),
        "scatter": lambda: gs.scatter(dofs, out=x),
    }
    row: dict[str, object] = {
        "order": order,
        "fields": fields,
        "type": type_,
        "points": points,
        "mesh_seconds": mesh_seconds,
        "numbering_seconds": numbering_seconds,
        "setup_seconds": setup_seconds,
    }
    for name, call in calls.items():
        seconds = median_seconds(call, repetitions)
        row[f"{name}_seconds"] = seconds
        row[f"{name}_of_bandwidth"] = moved[name] / seconds / bandwidth
    return row


def latency(repetitions: int) -> list[dict[str, float]]:
    """Time of a gather-scatter in which each rank shares `shared` ids with the next and has no other work."""
    rows = []
    for shared in (1, 8, 64, 512, 4096, 32768):
        following = (COMM.rank + 1) % COMM.size
        ids = np.concatenate([k * 100_000 + 1 + np.arange(shared) for k in sorted({COMM.rank, following})])
        x = np.ones(ids.size)
        row: dict[str, float] = {"shared_ids": shared}
        for path in ("direct", "staged"):
            gs = weft.GatherScatter(ids, COMM, exchange=f"pairwise:{path}", check=False)
            row[f"{path}_seconds"] = median_seconds(lambda gs=gs, x=x: gs(x, "max"), repetitions)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, nargs="+", default=[3, 7, 15])
    parser.add_argument("--fields", type=int, nargs="+", default=[1, 6])
    parser.add_argument("--types", nargs="+", default=["float64", "float32"], choices=["float64", "float32"])
    parser.add_argument("--repetitions", type=int, default=21)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()

    COMM.Barrier()
    bandwidth = COMM.allreduce(weft.device.measure_bandwidth(weft.device.open("host")), MPI.SUM)
    result: dict[str, object] = {
        "mpi": weft.mpi.library_version(),
        "ranks": COMM.size,
        "processor": weft.device.open("host").name,
        "bandwidth_bytes_per_second": bandwidth,
        "repetitions": arguments.repetitions,
    }
    if COMM.rank == 0:
        print(
            f"{COMM.size} rank(s), {bandwidth / 1e9:.1f} GB/s (8 reads : 1 write), medians of {arguments.repetitions}"
        )
        print(
            " N fields    type  mesh s   ids s setup s  gather-scatter ms      gather ms     scatter ms  (of bandwidth)"
        )
    rows = []
    for order, fields, type_ in itertools.product(arguments.orders, arguments.fields, arguments.types):
        row = measure(order, fields, type_, arguments.repetitions, bandwidth)
        rows.append(row)
        if COMM.rank == 0:
            columns = "   ".join(
                f"{1e3 * float(row[name + '_seconds']):8.2f} ({100 * float(row[name + '_of_bandwidth']):3.0f} %)"
                for name in ("gather_scatter", "gather", "scatter")
            )
            times = " ".join(f"{float(row[name + '_seconds']):7.3f}" for name in ("mesh", "numbering", "setup"))
            print(f"{order:2d} {fields:6d} {type_} {times}      {columns}")
    result["box"] = rows
    if COMM.size > 1:
        result["latency"] = latency(20 * arguments.repetitions)
        if COMM.rank == 0:
            for row in result["latency"]:
                print(
                    f"{row['shared_ids']:6d} shared ids: direct {1e6 * row['direct_seconds']:7.1f} us, "
                    f"staged {1e6 * row['staged_seconds']:7.1f} us"
                )
    if COMM.rank == 0 and arguments.output:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
