"""Constants of machines from stated rows of published tables or from runs of weft, and the errors on the other rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.format import table
from weft.model import formulas, project, published
from weft.model.machine import Machine, load, with_constants
from weft.model.published import Gests
from weft.model.result import ModelError, number, require_positive


@dataclass(frozen=True)
class Row:
    """One published figure beside the projected one."""

    table: str
    row: str
    published: float
    projected: float
    unit: str
    calibrated: bool  # whether a constant comes from this row

    @property
    def error(self) -> float:
        """Relative."""
        return self.projected / self.published - 1.0


# --- hipBone -------------------------------------------------------------------------------------------------------


def _hipbone_elements() -> int:
    return round(published.HIPBONE_DOFS_PER_RANK / published.HIPBONE_ORDER**3)


def hipbone(machine: Machine, ranks: int) -> project.Projection:
    """The projection of a row of hipBone's Table 2."""
    return project.poisson(machine, ranks, order=published.HIPBONE_ORDER, elements_per_rank=_hipbone_elements())


def calibrate_poisson(machine: Machine, foms: dict[int, float], order: int, elements_per_rank: int) -> dict[str, float]:
    """The three constants from the FOM (GFLOP/s, Eq. 3) of one rank and of two other counts, one within a node.

    Time is linear in split_overhead and exchange_factor while the halo fits behind the interior, as here.
    """
    if len(foms) != 3 or min(foms) != 1:
        raise ModelError(f"calibrating poisson needs the FOM of 1 rank and of two other counts, found {sorted(foms)}")
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
    """hipBone's Table 2 on a machine."""
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
    """The three constants from one row: its FFT, its packing and other kernels, its MPI time."""
    trial = dict.fromkeys(("network_efficiency", "strided_efficiency", "kernel_efficiency"), 1.0)

    def at(**values: float) -> dict[str, float]:
        return gests(with_constants(machine, {**trial, **values}, "calibration"), row).phases

    ones, halves = at(), at(strided_efficiency=0.5, kernel_efficiency=0.5, network_efficiency=0.5)

    def solve(measured: float, *phases: str) -> float:
        # Each time is a + b / efficiency.
        one, half = (sum(p[name] for name in phases) for p in (ones, halves))
        b = half - one
        if measured <= one - b or b <= 0:
            raise ModelError(f"{measured:g} s for {' and '.join(phases)} is less than its fixed part")
        return b / (measured - (one - b))

    return {
        "network_efficiency": solve(row.row_mpi + row.column_mpi, "row MPI", "column MPI"),
        "strided_efficiency": solve(row.fft, "FFT"),
        "kernel_efficiency": solve(row.pack + row.other, "pack and unpack", "other"),
    }


def gests_rows(table: int, machine: Machine | None = None) -> list[Row]:
    """One of GESTS Tables 2 to 7: total times of a step. Table 4 is of the CPU code."""
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
    """Two constants: the streaming efficiency from one GPU at N = 14, the exchange's from 8 GPUs."""
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
    """The times and ratios that NekCEM's text gives of its Figs. 7 to 9."""
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
        Row("NekCEM Fig. 8", "weak efficiency, 8 to 16,384 GPUs", published.NEKCEM_WEAK_EFFICIENCY, weak, "", False)
    )
    for ranks, printed in zip((8, 16384), published.NEKCEM_DIRECT_GAIN, strict=True):
        elements = 125 * ranks
        gain = nekcem(machine, 14, ranks, elements, "staged") / nekcem(machine, 14, ranks, elements) - 1
        rows.append(Row("NekCEM Fig. 9", f"GPUDirect's gain, {ranks} GPUs (4 % to 12 %)", printed, gain, "", False))
    direct = project.maxwell(machine, 16384, order=14, elements_per_rank=125)
    share = direct.phases["exchange"] / direct.seconds
    rows.append(
        Row(
            "NekCEM Fig. 9",
            "gather-scatter's share (33 % to 46 %)",
            published.NEKCEM_EXCHANGE_SHARE[0],
            share,
            "",
            False,
        )
    )
    return rows


def published_rows() -> list[Row]:
    """Every row of every published scaling table, projected."""
    rows: list[Row] = []
    for name in published.HIPBONE_TABLE_2:
        rows += hipbone_rows(name)
    for printed in range(2, 8):
        rows += gests_rows(printed)
    return rows + nekcem_rows()


def calibrations() -> dict[str, Callable[[], dict[str, float]]]:
    """How the constants in a machine's description come from its stated rows, by machine."""

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
    """Absolute relative errors of the rows that were (or were not) calibrated on."""
    return [abs(r.error) for r in rows if r.calibrated == calibrated]


def show(rows: Sequence[Row]) -> str:
    """The rows as aligned lines, and by table the errors on the rows that were not calibrated on."""
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
            (name, f"{len(found)} rows not calibrated on", "", "median", f"{100 * float(np.median(found)):.1f} %",
             f"largest {100 * max(found):.1f} %")
        )  # fmt: skip
    return table([*lines, *summary])


# --- runs of weft --------------------------------------------------------------------------------------------------


def machine_of_runs(records: Sequence[dict[str, Any]]) -> Machine:
    """The machine that made these records of `weft run poisson`, with its constants from them.

    From runs on one rank: the streaming efficiency and the cost of a launch, by least squares of
    t = kernels x launch + bytes / (efficiency x rate) where sizes differ, else without launches. From runs on several
    ranks: the split's overhead. Links between ranks of one node are its memory's: a copy reads and writes.
    """
    runs: list[dict[str, Any]] = []
    for record in records:
        try:
            figures, machine = record["figures"], record["machine"]
            if record.get("workload", "poisson") != "poisson":
                raise ModelError(f"a record of '{record['workload']}': only poisson's calibrate a machine so far")
            runs.append(
                {
                    "ranks": int(figures["ranks"]), "per_node": int(machine["ranks_per_node"]),
                    # As `project.poisson` counts them, whatever the run moved: the efficiency has the difference.
                    "bytes": formulas.iteration_bytes(
                        formulas.large_mesh(int(figures["order"]), int(figures["elements"]))
                    ).value / int(figures["ranks"]),
                    "seconds": float(record["timings"]["seconds_per_iteration"]),
                    "rate": float(figures["bandwidth_bytes_per_second"]) / int(figures["ranks"]),
                    "peak": float(figures["peak_flops_per_second"]) / int(figures["ranks"]),
                    "memory": float(machine["device"]["memory_bytes"]), "name": str(machine["device"]["name"]),
                }
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(f"not the record of a 'weft run poisson': {error!r} is missing or wrong in it") from None
    alone = [r for r in runs if r["ranks"] == 1]
    if not alone:
        raise ModelError(f"no run on 1 rank among {len(runs)}: its time is what the others are compared with")
    for r in runs:
        require_positive(**{k: r[k] for k in ("bytes", "seconds", "rate", "peak", "memory", "per_node")})
    rate = float(np.median([r["rate"] for r in alone]))
    moved, seconds = (np.array([r[k] for r in alone]) for k in ("bytes", "seconds"))
    kernels = project.POISSON_KERNELS - 4
    launch, inverse = 0.0, float(np.median(seconds / moved))
    if len(set(moved)) > 1:
        slope, offset = np.polyfit(moved, seconds, 1)
        if slope > 0 and offset >= 0:
            launch, inverse = float(offset) / kernels, float(slope)
    constants = {"stream_efficiency": 1.0 / (inverse * rate)}
    several = [r for r in runs if r["ranks"] > 1]
    if several:
        over = [r["seconds"] / (r["bytes"] * inverse + launch * kernels) - 1.0 for r in several]
        constants["split_overhead"] = max(0.0, float(np.median(over)))
        constants["exchange_factor"] = 0.0  # what overlap does not hide is within the overhead measured
    source = f"{len(runs)} run record(s)"

    def sourced(value: float) -> dict[str, Any]:
        return {"value": value, "source": source}

    link = {"latency_seconds": sourced(1e-6), "bytes_per_second": sourced(rate / 2)}
    per_node = max(r["per_node"] for r in runs)
    return Machine.model_validate(
        {
            "title": f"{alone[0]['name']} (from {source})",
            "nodes": sourced(1_000_000),
            "ranks_per_node": per_node,
            "device": {
                "name": alone[0]["name"], "stream_bytes_per_second": sourced(rate),
                "flops_per_second": sourced(alone[0]["peak"]), "kernel_seconds": sourced(launch),
                "memory_bytes": sourced(alone[0]["memory"]),
            },
            "links": {"node": link, "network": link},
            "constants": {k: sourced(v) for k, v in constants.items()},
        }
    )  # fmt: skip
