"""Calibration of machine constants on published tables or on runs of weft, and the errors on the other rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from weft.format import table
from weft.model import formulas, project, published
from weft.model.machine import Machine, load, with_constants
from weft.model.published import Gests
from weft.model.result import ModelError, number, require_positive
from weft.record import Record


@dataclass(frozen=True)
class Row:
    """A published figure and its projection."""

    table: str
    row: str
    published: float
    projected: float
    unit: str
    calibrated: bool  # whether a constant was calibrated on this row

    @property
    def error(self) -> float:
        """The relative error of the projection."""
        return self.projected / self.published - 1.0


# --- hipBone -------------------------------------------------------------------------------------------------------


def _hipbone_elements() -> int:
    return round(published.HIPBONE_DOFS_PER_RANK / published.HIPBONE_ORDER**3)


def hipbone(machine: Machine, ranks: int) -> project.Projection:
    """The projection of a row of hipBone's Table 2."""
    return project.poisson(machine, ranks, order=published.HIPBONE_ORDER, elements_per_rank=_hipbone_elements())


def calibrate_poisson(machine: Machine, foms: dict[int, float], order: int, elements_per_rank: int) -> dict[str, float]:
    """The three constants from the FOM (GFLOP/s, Eq. 3) on 1 rank and on two other numbers of ranks, one inside a node.

    The time is linear in split_overhead and exchange_factor as long as the interior hides the halo, as it does here.
    """
    if len(foms) != 3 or min(foms) != 1:
        raise ModelError(
            "the calibration of poisson needs the FOM on 1 rank and on two other numbers of ranks, but has those on "
            f"{sorted(foms)}"
        )
    size = formulas.large_mesh(order, math.prod(project.box_of(elements_per_rank)))
    seconds = {p: formulas.fom_flops(size).value * p / (fom * 1e9) for p, fom in foms.items()}

    def with_(**values: float) -> Machine:
        return with_constants(machine, values, "calibration")

    def at(ranks: int, **values: float) -> project.Projection:
        return project.poisson(with_(**values), ranks, order=order, elements_per_rank=elements_per_rank)

    launches = at(1, stream_efficiency=1.0).seconds - formulas.iteration_bytes(size).value / (
        machine.device.stream_bytes_per_second.value
    )
    bytes_seconds = formulas.iteration_bytes(size).value / machine.device.stream_bytes_per_second.value
    efficiency = bytes_seconds / (seconds[1] - launches)
    rows, left = [], []
    for ranks in sorted(set(foms) - {1}):
        phases = at(ranks, stream_efficiency=efficiency, split_overhead=1.0, exchange_factor=1.0).phases
        rows.append([phases["split"], phases["exchange"]])
        left.append(seconds[ranks] - phases["stream"] - phases["reductions"])
    split, share = np.linalg.solve(np.array(rows), np.array(left))
    return {"stream_efficiency": efficiency, "split_overhead": float(split), "exchange_factor": float(share)}


def hipbone_rows(name: str, machine: Machine | None = None) -> list[Row]:
    """hipBone's Table 2, projected on a machine."""
    machine = machine or load(name)
    used = published.HIPBONE_CALIBRATION[name]
    return [
        Row(
            "hipBone Table 2", f"{machine.title}, {ranks} ranks", fom, hipbone(machine, ranks).figures["FOM (GFLOP/s)"],
            "GFLOP/s", ranks in used,
        )
        for ranks, fom in published.HIPBONE_TABLE_2[name].items()
    ]  # fmt: skip


# --- GESTS ---------------------------------------------------------------------------------------------------------


def gests(machine: Machine, row: Gests) -> project.Projection:
    """The projection of a row of GESTS Tables 2 to 7."""
    return project.turbulence(
        machine, machine.ranks_per_node * row.nodes, grid=row.grid, rows=row.rows, batch=row.batch
    )


def calibrate_turbulence(machine: Machine, row: Gests) -> dict[str, float]:
    """The three constants from the times of one row: FFT, packing and other kernels, and MPI."""
    trial = dict.fromkeys(("network_efficiency", "strided_efficiency", "kernel_efficiency"), 1.0)

    def at(**values: float) -> dict[str, float]:
        return gests(with_constants(machine, {**trial, **values}, "calibration"), row).phases

    ones, halves = at(), at(strided_efficiency=0.5, kernel_efficiency=0.5, network_efficiency=0.5)

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
        "network_efficiency": solve(row.row_mpi + row.column_mpi, "row MPI", "column MPI"),
        "strided_efficiency": solve(row.fft, "FFT"),
        "kernel_efficiency": solve(row.pack + row.other, "pack and unpack", "other"),
    }


def gests_rows(table: int, machine: Machine | None = None) -> list[Row]:
    """The total times per step of one of GESTS Tables 2 to 7, projected. Table 4 is for the CPU code."""
    rows: list[Gests] = getattr(published, f"GESTS_TABLE_{table}")
    machine = machine or load("frontier-cpu" if table == 4 else "frontier")
    used = (published.GESTS_CALIBRATION, published.GESTS_CPU_CALIBRATION)
    return [
        Row(
            f"GESTS Table {table}", f"{r.case}: {r.grid}^3, {r.nodes} nodes, {r.rows} x {r.columns}"
            + (f", Q = {r.batch}" if r.batch > 1 else ""), r.total, gests(machine, r).seconds, "s", r in used,
        )
        for r in rows
    ]  # fmt: skip


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
    efficiency = alone["stream"] / (one / 1000 - alone["launches"])
    together = phases(8, 1000, stream_efficiency=efficiency)
    left = eight / 1000 - together["stream"] - together["launches"]
    return {"stream_efficiency": efficiency, "exchange_efficiency": float(together["exchange"] / left)}


def nekcem_rows(machine: Machine | None = None) -> list[Row]:
    """The times and ratios that NekCEM's text gives for its Figs. 7 to 9."""
    machine = machine or load("titan")
    rows = [
        Row(
            "NekCEM Figs. 7, 9", f"N = {order}, {ranks} GPU, E = {elements}, 1000 steps", seconds,
            nekcem(machine, order, ranks, elements), "s", order == 14,
        )
        for (order, ranks, elements), seconds in published.NEKCEM_SECONDS.items()
    ]  # fmt: skip
    for order, points in published.NEKCEM_HALF_POINTS.items():
        found = project.maxwell(machine, 1, order=order, elements_per_rank=512).figures["n_1/2 (points)"]
        rows.append(Row("NekCEM Fig. 7", f"n_1/2, N = {order}", points, found, "points", order == 14))
    weak = nekcem(machine, 14, 8, 8 * 125) / nekcem(machine, 14, 16384, 16384 * 125)
    rows.append(
        Row("NekCEM Fig. 8", "weak scaling, 8 to 16,384 GPUs", published.NEKCEM_WEAK_EFFICIENCY, weak, "", False)
    )
    for ranks, printed in zip((8, 16384), published.NEKCEM_DIRECT_GAIN, strict=True):
        elements = 125 * ranks
        gain = nekcem(machine, 14, ranks, elements, "staged") / nekcem(machine, 14, ranks, elements) - 1
        rows.append(Row("NekCEM Fig. 9", f"gain by GPUDirect, {ranks} GPUs (4 % to 12 %)", printed, gain, "", False))
    direct = project.maxwell(machine, 16384, order=14, elements_per_rank=125)
    share = direct.phases["exchange"] / direct.seconds
    rows.append(
        Row(
            "NekCEM Fig. 9",
            "share of gather-scatter (33 % to 46 %)",
            published.NEKCEM_EXCHANGE_SHARE[0],
            share,
            "",
            False,
        )
    )
    return rows


def published_rows() -> list[Row]:
    """All rows of all published scaling tables, projected."""
    rows: list[Row] = []
    for name in published.HIPBONE_TABLE_2:
        rows += hipbone_rows(name)
    for printed in range(2, 8):
        rows += gests_rows(printed)
    return rows + nekcem_rows()


def calibrations() -> dict[str, Callable[[], dict[str, float]]]:
    """The calibrations that determine the constants in the descriptions, by machine."""

    def poisson(name: str) -> Callable[[], dict[str, float]]:
        foms = {p: published.HIPBONE_TABLE_2[name][p] for p in published.HIPBONE_CALIBRATION[name]}
        return lambda: calibrate_poisson(load(name), foms, published.HIPBONE_ORDER, _hipbone_elements())

    return {
        **{name: poisson(name) for name in published.HIPBONE_TABLE_2},
        "frontier": lambda: calibrate_turbulence(load("frontier"), published.GESTS_CALIBRATION),
        "frontier-cpu": lambda: calibrate_turbulence(load("frontier-cpu"), published.GESTS_CPU_CALIBRATION),
        "titan": lambda: calibrate_maxwell(load("titan")),
    }


def errors(rows: Sequence[Row], calibrated: bool = False) -> list[float]:
    """The absolute relative errors of the rows that were (or were not) used for calibration."""
    return [abs(r.error) for r in rows if r.calibrated == calibrated]


def show(rows: Sequence[Row]) -> str:
    """The rows as aligned lines, and the errors by table on the rows that were not used for calibration."""
    lines = [("TABLE", "ROW", "PUBLISHED", "PROJECTED", "ERROR", "")]
    for r in rows:
        mark = "*" if r.calibrated else ""
        lines.append(
            (r.table, r.row, f"{number(r.published)} {r.unit}", number(r.projected), f"{100 * r.error:+.1f} %", mark)
        )
    summary = [("", "", "", "", "", "")]
    for name in dict.fromkeys(r.table for r in rows):
        found = errors([r for r in rows if r.table == name])
        summary.append(
            (name, f"{len(found)} rows not used for calibration", "", "median",
             f"{100 * float(np.median(found)):.1f} %", f"largest {100 * max(found):.1f} %")
        )  # fmt: skip
    return table([*lines, *summary])


# --- runs of weft --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PoissonRun:
    """The figures of a run that a calibration uses, per rank where that applies."""

    ranks: int
    per_node: int  # ranks per node
    bytes: float  # per iteration
    seconds: float  # per iteration
    rate: float  # byte/s
    peak: float  # FLOP/s
    memory: float  # bytes
    name: str  # of the device


def machine_of_runs(records: Sequence[Record]) -> Machine:
    """The machine on which these records of `weft run poisson` were made, with constants calibrated on them.

    The runs on one rank determine the streaming efficiency and the launch cost, by a least-squares fit of
    t = kernels x launch + bytes / (efficiency x rate) if their sizes differ, else without the launch cost. The runs on
    several ranks determine the overhead of the split. Links between ranks of a node have half the bandwidth of memory,
    because a copy reads and writes.
    """
    runs: list[_PoissonRun] = []
    for record in records:
        try:
            figures, machine = record["figures"], record["machine"]
            if (workload := record["case"]["workload"]) != "poisson":
                raise ModelError(
                    f"the record is of workload '{workload}', but only poisson runs can calibrate a machine"
                )
            ranks = int(figures["ranks"])
            # Counted as in `project.poisson`, whatever the run moved: the efficiency absorbs the difference.
            size = formulas.large_mesh(int(figures["order"]), int(figures["elements"]))
            runs.append(
                _PoissonRun(
                    ranks=ranks,
                    per_node=int(machine["ranks_per_node"]),
                    bytes=formulas.iteration_bytes(size).value / ranks,
                    seconds=float(record["timings"]["seconds_per_iteration"]),
                    rate=float(figures["bandwidth_bytes_per_second"]) / ranks,
                    peak=float(figures["peak_flops_per_second"]) / ranks,
                    memory=float(machine["device"]["memory_bytes"]),
                    name=str(machine["device"]["name"]),
                )
            )
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(f"not a record of 'weft run poisson': a value is missing or wrong ({error!r})") from None
    alone = [r for r in runs if r.ranks == 1]
    if not alone:
        raise ModelError(
            f"there is no run on 1 rank among the {len(runs)} given; add one, with which the others are compared"
        )
    for r in runs:
        require_positive(**{k: getattr(r, k) for k in ("bytes", "seconds", "rate", "peak", "memory", "per_node")})
    rate = float(np.median([r.rate for r in alone]))
    moved, seconds = np.array([r.bytes for r in alone]), np.array([r.seconds for r in alone])
    kernels = project.POISSON_KERNELS - 4
    launch, inverse = 0.0, float(np.median(seconds / moved))
    if len(set(moved)) > 1:
        slope, offset = np.polyfit(moved, seconds, 1)
        if slope > 0 and offset >= 0:
            launch, inverse = float(offset) / kernels, float(slope)
    constants = {"stream_efficiency": 1.0 / (inverse * rate)}
    several = [r for r in runs if r.ranks > 1]
    if several:
        over = [r.seconds / (r.bytes * inverse + launch * kernels) - 1.0 for r in several]
        constants["split_overhead"] = max(0.0, float(np.median(over)))
        constants["exchange_factor"] = 0.0  # the measured overhead includes what overlap does not hide
    source = f"{len(runs)} run record{'s' * (len(runs) > 1)}"

    def sourced(value: float) -> dict[str, float | str]:
        return {"value": value, "source": source}

    link = {"latency_seconds": sourced(1e-6), "bytes_per_second": sourced(rate / 2)}
    per_node = max(r.per_node for r in runs)
    return Machine.model_validate(
        {
            "title": f"{alone[0].name} (from {source})",
            "nodes": sourced(1_000_000),
            "ranks_per_node": per_node,
            "device": {
                "name": alone[0].name, "stream_bytes_per_second": sourced(rate),
                "flops_per_second": sourced(alone[0].peak), "kernel_seconds": sourced(launch),
                "memory_bytes": sourced(alone[0].memory),
            },
            "links": {"node": link, "network": link},
            "constants": {k: sourced(v) for k, v in constants.items()},
        }
    )  # fmt: skip
