"""Gather-scatter on a box of spectral elements: times, and the share of the memory bandwidth that they reach.

    mpiexec -n 2 python benchmarks/gather_scatter.py --types float64 float32 --output results.json

Bytes are those that the method must move, each counted once. A gather-scatter moves 4 bytes of index and two values
(read, written) per point whose id occurs more than once; a scatter 4 bytes of index and one value per point, and one
value per id; a gather 4 bytes and one value per point, and 4 bytes and one value per id. Memory moves whole lines, and
the lines of combined points also hold others: a gather-scatter of one field at N = 15 moves three times the values that
it uses. The count by lines has 4 bytes of index per combined point, and twice each 64-byte line that holds one. Judge a
kernel by its own bytes.

There are two limits. The first is the streaming kernel of `weft bench` (8 reads : 1 write, arrays larger than the
caches). It is measured before every row on all ranks at once, because other machines may use the same memory; a share
of it counts a kernel's own bytes. Arrays that fit into caches exceed it. The second limit is a plain program over
arrays of the same size with the same mix of reads and writes (gather_scatter_limit.cpp), which alternates with the
kernel; a share of it is that program's median time over the kernel's. For a gather, the program reads the values of the
points and all index bytes, and writes the values of the ids. For a scatter, it reads the values of the ids and the
index, and writes the points. Both access memory in order, with or without non-temporal stores, whichever is faster. For
a gather-scatter, it reads and writes back, in ascending order, the lines that hold a combined point, and reads 4 bytes
per line, with or without prefetching, whichever is faster. Every timed call follows an untimed one. Arrays are in huge
pages, like all of weft's own.

Set-up is timed in three parts, once each: the mesh, the numbering of its points, and the gather-scatter with its first
call, which on several ranks includes the tuning of its exchange.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import mmap
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from mpi4py import MPI

import weft
import weft.mpi

POINTS = 2**21  # about, over all ranks
LINE = 64
HUGE_PAGE = 2**21
COMM = MPI.COMM_WORLD
T = TypeVar("T")


def medians_in_turn(calls: list[Callable[[], object]], repetitions: int) -> list[float]:
    """Medians over repetitions of the slowest rank's time of alternating calls, each after an untimed call."""
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(repetitions):
        for call, of_call in zip(calls, seconds, strict=True):
            call()
            COMM.Barrier()
            begin = time.perf_counter()
            call()
            of_call.append(COMM.allreduce(time.perf_counter() - begin, MPI.MAX))
    return [statistics.median(of_call) for of_call in seconds]


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """The result of a collective call, and its time on the slowest rank."""
    COMM.Barrier()
    begin = time.perf_counter()
    result = call()
    return result, COMM.allreduce(time.perf_counter() - begin, MPI.MAX)


def counts_for(order: int) -> tuple[int, int, int]:
    """Elements per direction for about POINTS points."""
    each = max(1, round((POINTS / (order + 1) ** 3) ** (1 / 3)))
    return (each, each, max(1, round(POINTS / (order + 1) ** 3 / each**2)))


def ones(shape: tuple[int, ...], type_: str) -> np.ndarray:
    """An array in huge pages, if the system has them."""
    values = np.prod(shape, dtype=int)
    memory = mmap.mmap(-1, values * np.dtype(type_).itemsize + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(memory, dtype=np.uint8)
    first = -whole.ctypes.data % HUGE_PAGE
    array = whole[first : first + values * np.dtype(type_).itemsize].view(type_).reshape(shape)
    array.fill(1)
    return array


def lines_of(several: np.ndarray, fields: int, layout: str, itemsize: int) -> np.ndarray:
    """The lines of an array that hold a combined point, ascending."""
    first = np.flatnonzero(several)
    if layout == "fields":
        first = (np.arange(fields)[:, None] * several.size + first).ravel() * itemsize
        last = first
    else:
        first = first * itemsize * fields
        last = first + itemsize * fields - 1
    return np.unique(np.concatenate([first // LINE, last // LINE])).astype(np.int32)


class Limit:
    """The programs of gather_scatter_limit.cpp."""

    def __init__(self) -> None:
        source = Path(__file__).with_name("gather_scatter_limit.cpp")
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "limit.so"
            build = [
                "c++",
                "-std=c++20",
                "-O3",
                "-march=native",
                "-Wno-psabi",
                "-shared",
                "-fPIC",
                "-o",
                library,
                source,
            ]
            subprocess.run(build, check=True)
            self.library = ctypes.CDLL(str(library))

    def stream(self, read: int, written: int) -> list[Callable[[], object]]:
        """Two ways to read and write this many bytes."""
        lines = [max(1, -(-size // LINE)) for size in (read, written)]
        source, target = (ones((count * LINE,), "uint8") for count in lines)

        def call(past_caches: int) -> None:
            arguments = (source.ctypes.data, lines[0], target.ctypes.data, lines[1])
            self.library.stream_lines(*map(ctypes.c_int64, arguments), past_caches)

        return [lambda: call(0), lambda: call(1)]

    def update(self, x: np.ndarray, lines: np.ndarray) -> list[Callable[[], object]]:
        """Two ways to read and write back these lines of x."""

        def call(asks: int) -> None:
            addresses = map(ctypes.c_void_p, (x.ctypes.data, lines.ctypes.data))
            self.library.update_lines(*addresses, ctypes.c_int64(lines.size), asks)

        return [lambda: call(0), lambda: call(1)]


def measure(order: int, fields: int, layout: str, type_: str, repetitions: int, limit: Limit) -> dict[str, object]:
    mesh, mesh_seconds = timed(lambda: weft.Mesh.box(counts_for(order), comm=COMM))
    ids, numbering_seconds = timed(lambda: mesh.point_ids(order).ravel())

    def shape(entries: int) -> tuple[int, ...]:
        if fields == 1:
            return (entries,)
        return (entries, fields) if layout == "points" else (fields, entries)

    x = ones(shape(ids.size), type_)

    def set_up() -> weft.GatherScatter:
        gs = weft.GatherScatter(ids, COMM, fields, layout=layout, check=False)
        gs(x)  # makes what is needed for this type
        return gs

    gs, setup_seconds = timed(set_up)
    own = gs.gather(x)
    dofs = ones(own.shape, type_)

    _, inverse, multiplicity = np.unique(ids, return_inverse=True, return_counts=True)
    several = multiplicity[inverse] > 1
    combined = COMM.allreduce(int(several.sum()), MPI.SUM)
    own_lines = lines_of(several, fields, layout, x.itemsize)
    lines = COMM.allreduce(own_lines.size, MPI.SUM)
    points, local = COMM.allreduce(ids.size, MPI.SUM), COMM.allreduce(gs.local_dofs, MPI.SUM)
    value = x.itemsize * fields
    moved = {
        "gather_scatter": combined * (4 + 2 * value),
        "gather": points * (4 + value) + local * (4 + value),
        "scatter": points * (4 + value) + local * value,
    }
    calls = {
        "gather_scatter": lambda: gs(x, "max"),  # sums would grow without bound
        "gather": lambda: gs.gather(x, out=dofs),
        "scatter": lambda: gs.scatter(dofs, out=x),
    }
    here = {"points": ids.size, "dofs": gs.local_dofs}
    limits = {
        "gather_scatter": limit.update(ones(x.shape, type_), own_lines),
        "gather": limit.stream(here["points"] * (4 + value) + 4 * here["dofs"], here["dofs"] * value),
        "scatter": limit.stream(here["points"] * 4 + here["dofs"] * value, here["points"] * value),
    }
    bandwidth = COMM.allreduce(weft.device.measure_bandwidth(weft.device.open("host")), MPI.SUM)
    row: dict[str, object] = {
        "bandwidth_bytes_per_second": bandwidth,
        "order": order,
        "fields": fields,
        "layout": layout,
        "type": type_,
        "points": points,
        "combined_points": combined,
        "mesh_seconds": mesh_seconds,
        "numbering_seconds": numbering_seconds,
        "setup_seconds": setup_seconds,
    }
    for name, call in calls.items():
        seconds, *of_limit = medians_in_turn([call, *limits[name]], repetitions)
        row[f"{name}_seconds"] = seconds
        row[f"{name}_of_bandwidth"] = moved[name] / seconds / bandwidth
        row[f"{name}_limit_seconds"] = min(of_limit)
        row[f"{name}_of_limit"] = min(of_limit) / seconds
    by_lines = 2 * LINE * lines + 4 * combined
    row["gather_scatter_of_bandwidth_by_lines"] = by_lines / float(row["gather_scatter_seconds"]) / bandwidth
    return row


def latency(repetitions: int) -> list[dict[str, float]]:
    """Time of a gather-scatter in which each rank shares `shared` ids with each of its two neighbours in a ring.

    On two ranks that is one neighbour, and twice as many.
    """
    rows = []
    for shared in (1, 8, 64, 512, 4096, 32768):
        following = (COMM.rank + 1) % COMM.size
        ids = np.concatenate([k * 100_000 + 1 + np.arange(shared) for k in sorted({COMM.rank, following})])
        x = np.ones(ids.size)
        row: dict[str, float] = {"shared_ids": shared}
        for path in ("direct", "staged"):
            gs = weft.GatherScatter(ids, COMM, exchange=f"pairwise:{path}", check=False)
            (row[f"{path}_seconds"],) = medians_in_turn([lambda gs=gs, x=x: gs(x, "max")], repetitions)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, nargs="+", default=[3, 7, 15])
    parser.add_argument("--fields", type=int, nargs="+", default=[1, 6])
    parser.add_argument("--layouts", nargs="+", default=["points", "fields"], choices=["points", "fields"])
    parser.add_argument("--types", nargs="+", default=["float64", "float32"], choices=["float64", "float32"])
    parser.add_argument("--repetitions", type=int, default=21)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()

    limit = Limit()
    COMM.Barrier()
    result: dict[str, object] = {
        "mpi": weft.mpi.library_version(),
        "ranks": COMM.size,
        "processor": weft.device.open("host").name,
        "repetitions": arguments.repetitions,
    }
    if COMM.rank == 0:
        print(f"{COMM.size} rank(s), medians of {arguments.repetitions}; GB/s: 8 reads : 1 write")
        print("in brackets % of that bandwidth by its own bytes, % of a stream of its own mix;")
        print("gather-scatter: % of that bandwidth by the lines it touches, too")
        print(" N fields layout type     GB/s  gather-scatter ms (%, %, %)     gather ms (%, %)    scatter ms (%, %)")
    rows = []
    for order, fields, layout, type_ in itertools.product(
        arguments.orders, arguments.fields, arguments.layouts, arguments.types
    ):
        if fields == 1 and layout != arguments.layouts[0]:
            continue  # the same
        row = measure(order, fields, layout, type_, arguments.repetitions, limit)
        rows.append(row)
        if COMM.rank == 0:
            shares = {key: round(100 * float(row[key])) for key in row if "_of_" in key}
            print(
                f"{order:2d} {fields:6d} {layout:6s} {type_:8s} {float(row['bandwidth_bytes_per_second']) / 1e9:5.1f}"
                f"{1e3 * float(row['gather_scatter_seconds']):8.2f} ({shares['gather_scatter_of_bandwidth']:3d}, "
                f"{shares['gather_scatter_of_limit']:3d}, {shares['gather_scatter_of_bandwidth_by_lines']:3d})"
                + "".join(
                    f"    {1e3 * float(row[name + '_seconds']):7.2f} ({shares[name + '_of_bandwidth']:3d}, "
                    f"{shares[name + '_of_limit']:3d})"
                    for name in ("gather", "scatter")
                ),
                flush=True,
            )
    result["box"] = rows
    if COMM.size > 1:
        result["latency"] = latency(20 * arguments.repetitions)
        if COMM.rank == 0:
            for row in result["latency"]:
                print(
                    f"{row['shared_ids']:6d} shared ids: direct {1e6 * row['direct_seconds']:7.1f} µs, "
                    f"staged {1e6 * row['staged_seconds']:7.1f} µs"
                )
    if COMM.rank == 0 and arguments.output:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
