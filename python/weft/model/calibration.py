"""Calibration of the constants of machine descriptions on published measurements.

`weft.model.comparison` compares the projections with the other rows; `weft.model.calibrate` calibrates a machine on
measurements by weft.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import nnls

from weft.model import formulas, project, published
from weft.model.machine import CONSTANTS, Machine, load, with_constants
from weft.model.published import AllToAll, Gests
from weft.model.result import ModelError

# --- hipBone -------------------------------------------------------------------------------------------------------


def _hipbone_elements() -> int:
    return round(published.HIPBONE_DOFS_PER_RANK / published.HIPBONE_ORDER**3)


def hipbone(machine: Machine, ranks: int) -> project.Projection:
    """The projection of a row of hipBone's Table 2."""
    return project.poisson(machine, ranks, order=published.HIPBONE_ORDER, elements_per_rank=_hipbone_elements())


def calibrate_poisson(machine: Machine, foms: dict[int, float], order: int, elements_per_rank: int) -> dict[str, float]:
    """The three constants from the FOM (GFLOP/s, Eq. 3) on 1 rank and on two or more other numbers of ranks.

    The row on 1 rank gives the streaming efficiency. The others give split_overhead and exchange_factor, in which the
    time is linear as long as the interior hides the halo: by solving two rows, or by least squares of the relative
    errors of more. Without a row on 1 rank, split_overhead keeps its default.
    """
    if len(foms) < 3:
        raise ModelError(
            "the calibration of poisson needs the FOM on at least three numbers of ranks, but has those on "
            f"{sorted(foms)}"
        )
    size = formulas.large_mesh(order, elements_per_rank)
    moved = formulas.iteration_bytes(size).value / machine.device.stream_bytes_per_second.value
    ones = dict.fromkeys(("stream_efficiency", "split_overhead", "exchange_factor"), 1.0)
    ideal = with_constants(machine, ones, "calibration")

    def row(ranks: int) -> tuple[float, float, float]:
        """The measured time minus reductions, the time of launches, and that of the exchange at the links' rates."""
        phases = project.poisson(ideal, ranks, order=order, elements_per_rank=elements_per_rank).phases
        seconds = formulas.fom_flops(size).value * ranks / (foms[ranks] * 1e9)
        return seconds - phases.get("reductions", 0.0), phases["stream"] - moved, phases.get("exchange", 0.0)

    several = [row(ranks) for ranks in sorted(foms) if ranks > 1]
    if 1 in foms:
        left, launches, _ = row(1)
        inverse = (left - launches) / moved
        local = [moved * inverse + launches for _, launches, _ in several]
        design = [[one, exchange] for one, (_, _, exchange) in zip(local, several, strict=True)]
        split, factor = _least_squares(design, [t - one for one, (t, _, _) in zip(local, several, strict=True)])
    else:
        split = CONSTANTS["split_overhead"][0]
        design = [[moved * (1 + split), exchange] for _, _, exchange in several]
        inverse, factor = _least_squares(design, [t - launches * (1 + split) for t, launches, _ in several])
    return {"stream_efficiency": 1 / inverse, "split_overhead": split, "exchange_factor": factor}


def _least_squares(design: list[list[float]], values: list[float]) -> tuple[float, float]:
    """Two unknowns, not below zero, by least squares."""
    found, _ = nnls(np.array(design), np.array(values))
    return float(found[0]), float(found[1])


# --- GESTS ---------------------------------------------------------------------------------------------------------


def gests(machine: Machine, row: Gests) -> project.Projection:
    """The projection of a row of GESTS Tables 2 to 7."""
    return project.turbulence(
        machine, machine.ranks_per_node * row.nodes, grid=row.grid, rows=row.rows, batch=row.batch
    )


def transform_rates() -> dict[str, list[float]]:
    """Byte/s, read plus written, of GESTS Table 1 by grid: non-strided and strided transforms."""
    both = 2 * published.GESTS_TABLE_1_BYTES
    found: dict[str, list[float]] = {"contiguous_bytes_per_second": [], "strided_bytes_per_second": []}
    for strided, contiguous in published.GESTS_TABLE_1.values():
        found["contiguous_bytes_per_second"].append(both / contiguous[1])
        found["strided_bytes_per_second"].append(both / strided[1])
    return found


def packing_efficiency(machine: Machine) -> float:
    """The share of the streaming rate that packing and unpacking reach in GESTS Table 1, for strided transforms."""
    seconds = [0.5 * (unpack + pack) for (unpack, _, pack), _ in published.GESTS_TABLE_1.values()]
    rate = 2 * published.GESTS_TABLE_1_BYTES / float(np.median(seconds))
    return rate / machine.device.stream_bytes_per_second.value


def all_to_all_rate(rows: Sequence[AllToAll], *, host: bool = False) -> float:
    """Byte/s per rank between nodes from GESTS Tables 10 to 14, of the messages to all other ranks.

    The result is the median over message sizes of the fastest rate at each size, because contention with other jobs
    only adds time (section 4.1), and because the rates show no trend with size. Jobs inside one group and those on 8192
    nodes, whose global links are full, are excluded.
    """
    fastest: dict[float, float] = {}
    for row in rows:
        seconds = row.seconds_host if host else row.seconds
        if row.in_row or not 8 < row.nodes < 8192 or seconds is None:
            continue
        rate = row.message * 2**20 * (row.members - 1) / seconds
        fastest[row.message] = max(rate, fastest.get(row.message, 0.0))
    return float(np.median(list(fastest.values())))


def calibrate_bricks(machine: Machine, rows: Sequence[Gests]) -> float:
    """The overhead of packing and pointwise kernels per 1000 points of a brick's side N / P_c, from their times."""
    plain = with_constants(machine, {"brick_overhead": 0.0, "kernel_efficiency": 1.0}, "calibration")
    efficiency = machine.constant("kernel_efficiency")
    slopes = []
    for row in rows:
        phases = gests(plain, row).phases
        alone = (phases["pack and unpack"] + phases["other"]) / efficiency
        slopes.append(((row.pack + row.other) / alone - 1) / (row.grid / row.columns / 1000))
    return float(np.mean(slopes))


def calibrate_frontier(machine: Machine, rows: Sequence[Gests] = published.GESTS_CALIBRATION) -> dict[str, float]:
    """The packing rate from Table 1, and the overhead of thick bricks from rows on one node."""
    efficiency = packing_efficiency(machine)
    known = with_constants(machine, {"kernel_efficiency": efficiency}, "calibration")
    return {"kernel_efficiency": efficiency, "brick_overhead": calibrate_bricks(known, rows) if rows else 0.0}


def calibrate_turbulence(machine: Machine, row: Gests) -> dict[str, float]:
    """Two constants from the times of one row: strided transforms, and packing with the other kernels."""
    trial = {"strided_efficiency": 1.0, "kernel_efficiency": 1.0, "brick_overhead": 0.0}

    def at(**values: float) -> dict[str, float]:
        return gests(with_constants(machine, {**trial, **values}, "calibration"), row).phases

    ones, halves = at(), at(strided_efficiency=0.5, kernel_efficiency=0.5)

    def solve(measured: float, *phases: str) -> float:
        # Each time has the form a + b / efficiency.
        one, half = (sum(p[name] for name in phases) for p in (ones, halves))
        b = half - one
        if measured <= one - b or b <= 0:
            raise ModelError(
                f"{measured:g} s for {' and '.join(phases)} is less than the part that does not depend on an efficiency"
            )
        return b / (measured - (one - b))

    return {
        "strided_efficiency": solve(row.fft, "FFT"),
        "kernel_efficiency": solve(row.pack + row.other, "pack and unpack", "other"),
        "brick_overhead": 0.0,
    }


# --- NekCEM --------------------------------------------------------------------------------------------------------


def nekcem(machine: Machine, order: int, ranks: int, elements: int, path: project.Path = "direct") -> float:
    """Seconds of 1000 steps."""
    return 1000 * project.maxwell(machine, ranks, order=order, elements_per_rank=elements // ranks, path=path).seconds


def calibrate_maxwell(machine: Machine) -> dict[str, float]:
    """Two constants: the streaming efficiency from one GPU at N = 14, and the exchange efficiency from 8 GPUs."""
    one, eight = published.NEKCEM_SECONDS[14, 1, 1024], published.NEKCEM_SECONDS[14, 8, 1000]

    def phases(ranks: int, elements: int, **values: float) -> dict[str, float]:
        changed = with_constants(machine, {"stream_efficiency": 1.0, "exchange_efficiency": 1.0, **values}, "trial")
        return project.maxwell(changed, ranks, order=14, elements_per_rank=elements // ranks).phases

    alone = phases(1, 1024)
    efficiency = (alone["stream"] + alone.get("gather-scatter", 0.0)) / (one / 1000 - alone["launches"])
    together = phases(8, 1000, stream_efficiency=efficiency)
    left = eight / 1000 - together["stream"] - together.get("gather-scatter", 0.0) - together["launches"]
    return {"stream_efficiency": efficiency, "exchange_efficiency": float(together["exchange"] / left)}


def poisson_foms(name: str, without: int | None = None) -> dict[int, float]:
    """The rows of hipBone's Table 2 that calibrate a machine; if one of them is missing, all others are used."""
    table, used = published.HIPBONE_TABLE_2[name], published.HIPBONE_CALIBRATION[name]
    return {p: fom for p, fom in table.items() if p != without and (p in used or without in used)}


def calibrate_hipbone(machine: Machine, foms: dict[int, float]) -> dict[str, float]:
    """The constants of poisson from rows of hipBone's Table 2."""
    return calibrate_poisson(machine, foms, published.HIPBONE_ORDER, _hipbone_elements())


def calibrations() -> dict[str, Callable[[], dict[str, float]]]:
    """The calibrations that determine the constants in the descriptions, by machine.

    Constants that several workloads have are those of the workload that was measured.
    """

    def of(workload: str, found: dict[str, float]) -> dict[str, float]:
        return {f"{workload}.{name}": value for name, value in found.items()}

    hipbone_machines = {
        name: (lambda name=name: of("poisson", calibrate_hipbone(load(name), poisson_foms(name))))
        for name in published.HIPBONE_TABLE_2
    }
    return {
        **hipbone_machines,
        "frontier": lambda: calibrate_frontier(load("frontier")),
        "frontier-cpu": lambda: calibrate_turbulence(load("frontier-cpu"), published.GESTS_CPU_CALIBRATION),
        "titan": lambda: of("maxwell", calibrate_maxwell(load("titan"))),
    }
