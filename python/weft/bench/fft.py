"""`weft bench fft`: the distributed 3-D transform by size, precision and process grid, and its lines alone (Table 1).

GESTS is "GPU-enabled extreme-scale turbulence simulations: Fourier pseudo-spectral algorithms at the exascale using
OpenMP offloading" (Yeung, Ravikumar, Nichols, Uma-Vaideswaran). Its Table 1 compares strided transforms of lines with
copying the lines to contiguous memory, transforming them, and copying them back.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from mpi4py import MPI

import weft
from weft import _weft
from weft.bench.timing import Effort, RefusedError, Samples, alternate, budget, require
from weft.files import write_json
from weft.format import gigabytes, rate, short, table
from weft.model.limits import limits
from weft.record import Limit, Machine, Versions
from weft.report import fft_plots, plots
from weft.report.console import Console, Silent
from weft.report.measured import Lines, Transform
from weft.run.machine import Place, machine, placement, placement_rows, versions
from weft.run.record import by_first

if TYPE_CHECKING:
    from weft.device import Device

REAL = {"double": 8, "single": 4}  # bytes


class FftRecord(TypedDict):
    """The content of fft.json."""

    versions: Versions
    machine: Machine
    placement: list[Place]
    limits: dict[str, float]
    peaks: dict[str, float]
    formulas: dict[str, str]
    transforms: list[Transform]
    lines: list[Lines]


def pair_flops(points: int) -> float:
    """Flops of a real transform of points^3 and its inverse: 2.5 M log2 M each, M = points^3.

    This is the count of benchFFT for real data (half of 5 M log2 M), whatever algorithm is used.
    """
    total = float(points) ** 3
    return 2 * 2.5 * total * log2(total)


def pair_bytes(points: int, real_bytes: int) -> int:
    """The minimum bytes that a pair moves if each of its six passes reads and writes the field once, not counting
    messages.

    The forward pass in x reads N^3 reals and writes N^2 (N/2 + 1) complex values, which the passes in z and y read and
    write. The backward passes move as much.
    """
    physical = real_bytes * points**3
    spectral = 2 * real_bytes * points**2 * (points // 2 + 1)
    return 2 * (physical + 5 * spectral)


def line_flops(points: int, lines: int) -> float:
    """Flops of complex transforms of ``points``: 5 n log2 n each."""
    return 5.0 * points * log2(points) * lines


class Pair:
    """A transform forward and backward of ``variables`` fields, timed by itself."""

    def __init__(self, plan: weft.fft.Plan, comm: MPI.Intracomm, variables: int) -> None:
        self.plan, self.comm = plan, comm
        random = np.random.default_rng(comm.rank).random((variables, *plan.physical_shape))
        self.given = (random - 0.5).astype(plan.physical_dtype)
        self.field = plan.device.array(self.given)
        self.modes = plan.device.array(np.zeros((variables, *plan.spectral_shape), plan.spectral_dtype))
        self.physical, self.spectral = self.field.view(), self.modes.view()

    def check(self) -> None:
        """Raises CollectiveError unless the pair reproduces the field."""
        self.plan.forward(self.physical, self.spectral)
        self.plan.backward(self.spectral, self.physical)
        worst = float(np.abs(self.field.numpy() - self.given).max(initial=0))
        del self.given

        def raise_if_wrong() -> None:
            if not worst < 200 * np.finfo(self.plan.physical_dtype).eps:
                raise RuntimeError(f"the transforms lose the field: largest difference {worst:.2g}")

        weft.mpi.together(self.comm, raise_if_wrong)

    def run(self, repetitions: int) -> float:
        """Seconds that a pair takes on this rank."""
        self.comm.Barrier()
        begin = time.perf_counter()
        for _ in range(repetitions):
            self.plan.forward(self.physical, self.spectral)
            self.plan.backward(self.spectral, self.physical)
        return (time.perf_counter() - begin) / repetitions


def grids_of(ranks: int) -> list[str]:
    """Every Pr x Pc, ascending by Pr."""
    return [f"{rows}x{ranks // rows}" for rows in range(1, ranks + 1) if ranks % rows == 0]


def transforms(
    comm: MPI.Intracomm,
    device: Device,
    points: int,
    precision: str,
    grids: Sequence[str],
    variables: int,
    batch: int,
    exchange: str,
    bandwidth: float,
    peak: float,
    effort: Effort,
) -> list[Transform]:
    """A row for each process grid. (collective)"""
    dtype = np.dtype("f8" if precision == "double" else "f4")
    cases = {}
    for grid in grids:
        plan = weft.fft.Plan(
            (points,) * 3, comm, dtype=dtype, process_grid=grid, batch=batch, variables=variables, exchange=exchange,
            device=device,
        )  # fmt: skip
        cases[grid] = Pair(plan, comm, variables)
    rows: list[Transform] = []
    measured: dict[str, Samples] = alternate(cases, comm, effort)
    for grid, samples in measured.items():
        figures = samples.record(1 / variables)
        tuning = cases[grid].plan.tuning
        rows.append(
            {
                "points": points,
                "precision": precision,
                "process_grid": grid,
                "variables": variables,
                "batch": batch,
                "row_exchange": tuning["row_exchange"],
                "column_exchange": tuning["column_exchange"],
                **figures,
                "flops_per_second": pair_flops(points) / figures["seconds"],
                "bytes": pair_bytes(points, REAL[precision]),
                "bandwidth_share": pair_bytes(points, REAL[precision]) / figures["seconds"] / bandwidth,
                "limits": limits(
                    figures["seconds"], pair_bytes(points, REAL[precision]), bandwidth, pair_flops(points), peak
                ),
                "memory_bytes": sum(cases[grid].plan.memory_bytes.values()),
            }
        )
    return rows


def lines(
    comm: MPI.Intracomm,
    device: Device,
    points: int,
    precision: str,
    bandwidth: float,
    peak: float,
    effort: Effort,
) -> Lines:
    """Complex transforms of all lines in y of a rank's part of points^3, by the methods of Table 1. (collective)"""
    width = points // 2 + 1
    planes = max(1, points // comm.size)
    ways = _weft.bench.lines_ways(device)
    cases = {way: _weft.bench.lines(comm, device, way, points, width, planes, precision == "single") for way in ways}
    measured = {way: s.record() for way, s in alternate(cases, comm, effort).items()}
    flops = comm.size * line_flops(points, width * planes)
    copies = ("unpack", "contiguous", "pack")
    totals = {"strided": measured["strided"]["seconds"]}
    if "unpack" in measured:
        totals["non-strided"] = sum(measured[way]["seconds"] for way in copies)
        totals["panels"] = measured["panels"]["seconds"]
    moved = 2 * 2 * REAL[precision] * points * width * planes * comm.size
    return {
        "points": points,
        "precision": precision,
        "lines": width * planes * comm.size,
        "steps": measured,
        "total_seconds": totals,
        "flops_per_second": {way: flops / seconds for way, seconds in totals.items()},
        "bytes": moved,
        "bandwidth_share": {way: moved / seconds / bandwidth for way, seconds in totals.items()},
        "limits": {way: limits(seconds, moved, bandwidth, flops, peak) for way, seconds in totals.items()},
        "fastest": min(totals, key=lambda way: totals[way]),
    }


def needs(points: int, real_bytes: int, ranks: int, variables: int, batch: int, grids: int) -> int:
    """Maximum bytes per rank: for each grid, fields of both kinds and the plan's buffers; copies of the lines."""
    field = 2 * real_bytes * points**2 * (points // 2 + 1) // ranks + real_bytes
    # The check of a case also holds the field twice on the host.
    return max(grids * (2 * variables + 2 * batch + 1) * field + 4 * variables * field, 5 * 2 * field)


def run(
    comm: MPI.Intracomm,
    output: Path,
    *,
    sizes: Sequence[int],
    precisions: Sequence[str],
    grids: Sequence[str],
    variables: int,
    batch: int,
    exchange: str,
    device: str,
    effort: Effort,
) -> FftRecord:
    """Measures, prints, and writes fft.json (after every size) and fft.png.

    Raises RefusedError on all ranks, before anything is allocated, for grids that do not match the number of ranks, and
    sizes that do not fit. (collective)
    """
    opened = weft.device.open(device)
    console = Console() if comm.rank == 0 else Silent()
    known = grids_of(comm.size)
    for grid in grids:
        if grid not in known:
            raise RefusedError(f"{grid} is not a process grid of {comm.size} ranks; possible grids: {', '.join(known)}")
    chosen = list(grids) or known
    if problem := weft.fft.libraries(opened.backend)[0]["problem"]:
        raise RefusedError(problem)
    has = budget(opened, comm)
    for points in sizes:
        host = max(needs(points, REAL[p], comm.size, variables, batch, len(chosen)) for p in precisions)
        on_device = 0 if opened.is_host else host
        require(f"N = {points}", (host, on_device), has, "use smaller --sizes, or fewer --process-grids")
    comm.Barrier()
    bandwidth = comm.allreduce(weft.device.measure_bandwidth(opened), MPI.SUM)
    peaks = {each: comm.allreduce(weft.device.measure_peak(opened, each), MPI.SUM) for each in precisions}
    record: FftRecord = {
        "versions": versions(transforms_on=opened),
        "machine": machine(opened, comm),
        "placement": placement(opened, comm),
        "limits": {"bandwidth_bytes_per_second": bandwidth},
        "peaks": peaks,
        "formulas": {
            "flops_per_second": "2 x 2.5 M log2 M / s, M = N^3: a real transform forward and backward (benchFFT)",
            "bytes": "each of six passes reads and writes the field once; messages are not counted",
            "bandwidth_share": "bytes / s over the bandwidth measured in this run (8 reads : 1 write)",
            "limits": "least time by bytes / bandwidth and by flops / FMA peak, over the time",
            "lines": "5 n log2 n per line; bytes: each line is read and written once",
        },
        "transforms": [],
        "lines": [],
    }
    rows = [("libraries", record["versions"]["fft"]), ("bandwidth", f"{gigabytes(bandwidth)} GB/s, all ranks at once")]
    rows += [("FMA peak", f"{rate(peak, 'FLOP/s')}, {name}, all ranks at once") for name, peak in peaks.items()]
    console.write(table([*rows, *placement_rows(record["placement"])]))
    console.write(f"\nreal transform of one field forward and backward, {variables} at a time, Q = {batch}\n{HEAD}")
    for points in sizes:
        for precision in precisions:
            if console.terminal:
                console.phase(f"N = {points}, {precision}")
            measured = transforms(
                comm, opened, points, precision, chosen, variables, batch, exchange, bandwidth, peaks[precision], effort
            )
            record["transforms"] += measured
            for row in measured:
                console.write(transform_line(row))
            by_first(comm, write_json, output / "fft.json", record)
    console.write(f"\ncomplex transforms along y of a rank's planes (GESTS Table 1), ms\n{LINES_HEAD}")
    for points in sizes:
        for precision in precisions:
            found = lines(comm, opened, points, precision, bandwidth, peaks[precision], effort)
            record["lines"].append(found)
            console.write(lines_line(found))
            by_first(comm, write_json, output / "fft.json", record)
    console.write(
        "GFLOP/s: 2.5 M log2 M per real transform of M = N^3 points, 5 n log2 n per line; bytes %: bytes that each\n"
        "pass must read and write / time / measured bandwidth (above 100 %: the field stays in a cache); flops %:\n"
        "these operations / time / measured peak of multiply-adds"
    )
    name = f"{comm.size} rank(s), {record['machine']['device']['name']}, {record['versions']['fft']}"
    by_first(comm, draw, output / "fft.png", record, name)
    console.write(f"wrote {output / 'fft.json'}, {output / 'fft.png'}")
    return record


def draw(path: Path, record: FftRecord, title: str) -> None:
    """Writes the plot."""
    plots.save(fft_plots.transforms(record["transforms"], record["lines"], title), path)


HEAD = (
    f"{'N':>6}  {'precision':<10}{'grid':<8}{'row, column exchange':<36}{'ms':>9}{'GFLOP/s':>9}{'bytes %':>9}"
    f"{'flops %':>9}"
)
LINES_HEAD = (
    f"{'N':>6}  {'precision':<10}{'strided':>9}{'unpack':>9}{'FFT':>9}{'pack':>9}{'total':>9}{'panels':>9}"
    f"{'GFLOP/s':>9}{'bytes %':>9}{'flops %':>9}  fastest"
)


def transform_line(row: Transform) -> str:
    """A line of the first table."""
    exchanges = f"{row['row_exchange'] or '-'}, {row['column_exchange'] or '-'}"
    return (
        f"{row['points']:>6}  {row['precision']:<10}{row['process_grid']:<8}{exchanges:<36}"
        f"{short(1e3 * row['seconds']):>9}{short(row['flops_per_second'] / 1e9):>9}"
        f"{shares(row['limits'])}"
    )


def lines_line(row: Lines) -> str:
    """A line of the second table; a dash if a device does not support the method."""
    steps, totals = row["steps"], row["total_seconds"]
    cells = [steps[way]["seconds"] if way in steps else None for way in ("strided", "unpack", "contiguous", "pack")]
    cells += [totals.get("non-strided"), totals.get("panels")]
    text = "".join(f"{'-' if s is None else short(1e3 * s):>9}" for s in cells)
    best = row["fastest"]
    return (
        f"{row['points']:>6}  {row['precision']:<10}{text}{short(row['flops_per_second'][best] / 1e9):>9}"
        f"{shares(row['limits'][best])}  {best}"
    )


def shares(limits: Sequence[Limit]) -> str:
    """The cells of the shares of the bandwidth and of the peak."""
    share = {limit["name"]: limit["share"] for limit in limits}
    return "".join(f"{100 * share[name]:>9.0f}" for name in ("bandwidth", "arithmetic"))
