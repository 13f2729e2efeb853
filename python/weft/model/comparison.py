"""Published scaling tables and their projections: errors by row and by phase, and the ranges that follow from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np

from weft.model import calibration, project, published
from weft.model.machine import Machine, load, with_constants
from weft.model.published import Gests

LEVEL = 0.95  # share of the published values that a range should hold
Measure = Literal["value", "gain", "share"]


@dataclass(frozen=True)
class Row:
    """A published figure, `low` to `high` where a range is printed, and its projection.

    `measure` says what the error is relative to: a value to itself, a gain g of time to 1 + g, and a share of the time
    to the whole time. `size` is the size on which the projection depends; `group` names the rows that are held out
    together.
    """

    paper: str
    table: str
    row: str
    machine: str
    workload: str
    low: float
    high: float
    projected: float
    unit: str
    calibrated: bool  # whether a constant was calibrated on this row
    measure: Measure = "value"
    size: Mapping[str, float] = field(default_factory=dict)
    phases: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # published and projected seconds

    @property
    def published(self) -> float:
        """The printed value, or the end of the printed range that is nearest to the projection."""
        return min(max(self.projected, self.low), self.high)

    @property
    def error(self) -> float:
        """The error of the projection, relative to the quantity that `measure` names; 0 inside a printed range."""
        if self.measure == "share":
            return self.projected - self.published
        one = 1.0 if self.measure == "gain" else 0.0
        return (one + self.projected) / (one + self.published) - 1.0

    @property
    def distance(self) -> float:
        """The error as a distance of logarithms, by which ranges are widened equally in both directions."""
        return abs(math.log1p(self.error))

    @property
    def shown(self) -> str:
        """The printed value or range with its unit."""
        text = f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"
        return f"{text} {self.unit}".rstrip()


# --- rows ----------------------------------------------------------------------------------------------------------


def hipbone_rows(name: str, machine: Machine | None = None) -> list[Row]:
    """hipBone's Table 2, projected on a machine."""
    machine = machine or load(name)
    used = published.HIPBONE_CALIBRATION[name]
    found = []
    for ranks, fom in published.HIPBONE_TABLE_2[name].items():
        made = calibration.hipbone(machine, ranks)
        found.append(
            Row(
                "hipBone", "Table 2", f"{machine.title}, {ranks} rank{'s' * (ranks > 1)}", name, "poisson", fom, fom,
                made.figures["FOM (GFLOP/s)"], "GFLOP/s", ranks in used, size=made.size,
            )
        )  # fmt: skip
    return found


def _gests_row(row: Gests, name: str, machine: Machine) -> Row:
    made = calibration.gests(machine, row)
    projected = dict(made.phases)
    if "MPI" in row.phases:
        projected["MPI"] = projected["row MPI"] + projected["column MPI"]
    shape = f"{row.grid}^3, {row.nodes} node{'s' * (row.nodes > 1)}, " + (
        "slabs" if row.slabs else f"{row.rows} x {row.columns}"
    )
    used = (*published.GESTS_CALIBRATION, published.GESTS_CPU_CALIBRATION)
    return Row(
        "GESTS", f"Table {row.table}", f"{row.case}: {shape}" + (f", Q = {row.batch}" if row.batch > 1 else ""), name,
        "turbulence", row.total, row.total, made.seconds, "s", row in used, size=made.size,
        phases={n: (seconds, projected[n]) for n, seconds in row.phases.items()},
    )  # fmt: skip


def gests_rows(name: str, machine: Machine | None = None) -> list[Row]:
    """GESTS Tables 2, 3, 5 to 7 and section 4.4 on Frontier, or Table 4 on its CPUs, each run once."""
    machine = machine or load(name)
    tables = (4,) if name == "frontier-cpu" else (2, 3, 5, 6, 7)
    runs: dict[tuple[object, ...], Gests] = {}
    for number in tables:
        for row in getattr(published, f"GESTS_TABLE_{number}"):
            runs.setdefault(row.ranks_and_shape, row)
    found = [_gests_row(row, name, machine) for row in runs.values()]
    if name == "frontier":
        for (grid, nodes), seconds in published.GESTS_SLABS_STRONG.items():
            made = project.turbulence(machine, machine.ranks_per_node * nodes, grid=grid)
            text = f"{grid}^3, {nodes} nodes, slabs"
            found.append(
                Row(
                    "GESTS", "section 4.4", text, name, "turbulence", seconds, seconds, made.seconds, "s", False,
                    size=made.size,
                )
            )  # fmt: skip
    return found


def nekcem_rows(machine: Machine | None = None) -> list[Row]:
    """The times and ratios that NekCEM's text gives for its Figs. 7 to 9."""
    machine = machine or load("titan")

    def of(order: int, ranks: int, elements: int, path: project.Path = "direct") -> project.Projection:
        return project.maxwell(machine, ranks, order=order, elements_per_rank=elements // ranks, path=path)

    def row(
        where: str, text: str, low: float, high: float, projected: float, unit: str, used: bool,
        made: project.Projection, measure: Measure = "value",
    ) -> Row:  # fmt: skip
        return Row("NekCEM", where, text, "titan", "maxwell", low, high, projected, unit, used, measure, size=made.size)

    rows = []
    for (order, ranks, elements), seconds in published.NEKCEM_SECONDS.items():
        made = of(order, ranks, elements)
        text = f"N = {order}, {ranks} GPU{'s' * (ranks > 1)}, E = {elements}, 1000 steps"
        rows.append(row("Figs. 7, 9", text, seconds, seconds, 1000 * made.seconds, "s", order == 14, made))
    for order, points in published.NEKCEM_HALF_POINTS.items():
        made = of(order, 1, 512)
        half = made.figures["n_1/2 (points)"]
        rows.append(row("Fig. 7", f"n_1/2, N = {order}", points, points, half, "points", order == 14, made))
    few, many = of(14, 8, 8 * 125), of(14, 16384, 16384 * 125)
    efficiency = published.NEKCEM_WEAK_EFFICIENCY
    text = "weak efficiency, 8 to 16,384 GPUs"
    rows.append(row("Fig. 8", text, efficiency, efficiency, few.seconds / many.seconds, "", False, many))
    for made in (few, many):
        staged = of(14, made.ranks, 125 * made.ranks, "staged")
        text = f"gain by GPUDirect, {made.ranks:,} GPUs"
        gain = staged.seconds / made.seconds - 1
        rows.append(row("Fig. 9", text, *published.NEKCEM_DIRECT_GAIN, gain, "", False, made, "gain"))
    for made in (few, many):
        text = f"share of the gather-scatter, {made.ranks:,} GPUs"
        share = made.figures["share of the gather-scatter"]
        rows.append(row("Fig. 9", text, *published.NEKCEM_EXCHANGE_SHARE, share, "", False, made, "share"))
    return rows


def rows_of(name: str, machine: Machine | None = None) -> list[Row]:
    """The published rows of a machine, each run once, projected on its description or on another."""
    if name in published.HIPBONE_TABLE_2:
        return hipbone_rows(name, machine)
    return nekcem_rows(machine) if name == "titan" else gests_rows(name, machine)


MACHINES = (*published.HIPBONE_TABLE_2, "frontier", "frontier-cpu", "titan")


@cache
def published_rows() -> tuple[Row, ...]:
    """All published rows, each run once, projected."""
    return tuple(row for name in MACHINES for row in rows_of(name))


def predicted(rows: Iterable[Row]) -> list[Row]:
    """The rows on which no constant was calibrated."""
    return [row for row in rows if not row.calibrated]


def errors(rows: Iterable[Row]) -> list[float]:
    """The absolute errors of the rows on which no constant was calibrated."""
    return [abs(row.error) for row in predicted(rows)]


def phase_errors(rows: Iterable[Row]) -> dict[str, list[float]]:
    """The relative errors of the phases that the rows print, by phase, where no constant was calibrated."""
    found: dict[str, list[float]] = {}
    for row in predicted(rows):
        for name, (seconds, projected) in row.phases.items():
            found.setdefault(name, []).append(projected / seconds - 1)
    return found


# --- ranges --------------------------------------------------------------------------------------------------------


def half_width(rows: Sequence[Row]) -> float:
    """The distance that holds a share LEVEL of new rows like these: the conformal quantile of their distances.

    With n rows this is the ceil((n + 1) LEVEL)-th smallest distance, or the largest if n is too small for that.
    """
    distances = sorted(row.distance for row in predicted(rows))
    return distances[min(len(distances), math.ceil((len(distances) + 1) * LEVEL)) - 1]


def _without(name: str, held: Sequence[Row]) -> Machine | None:
    """The machine calibrated without these of its rows; None if they determine none of its constants."""
    machine = load(name)
    out = [row.row for row in held if row.calibrated and row.machine == name]
    if not out or name == "titan":
        return None
    if name in published.HIPBONE_TABLE_2:
        (ranks,) = [p for p, row in zip(published.HIPBONE_TABLE_2[name], rows_of(name), strict=True) if row.row in out]
        return with_constants(
            machine, calibration.calibrate_hipbone(machine, calibration.poisson_foms(name, ranks)), "held out"
        )
    if name == "frontier":
        left = [r for r in published.GESTS_CALIBRATION if _gests_row(r, name, machine).row not in out]
        return with_constants(machine, calibration.calibrate_frontier(machine, left), "held out")
    return _recalibrated_cpu(machine, out)


def _recalibrated_cpu(machine: Machine, out: Sequence[str]) -> Machine:
    """Frontier's CPUs calibrated on the first row of Table 4 that is not held out."""
    left = [r for r in published.GESTS_TABLE_4 if _gests_row(r, "frontier-cpu", machine).row not in out]
    return with_constants(machine, calibration.calibrate_turbulence(machine, left[0]), "held out")


@dataclass(frozen=True)
class HeldOut:
    """A row that was projected, and whose range was found, without it and perhaps without the rows of its size."""

    row: Row
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """Whether the published value lies in the range."""
        return abs(math.log1p(self.row.error)) <= math.log(self.high / self.row.projected)


@cache
def held_out(by: Literal["row", "size"]) -> tuple[HeldOut, ...]:
    """All rows held out in turn: one row, or all rows of the same size (ranks; for turbulence grid) and workload.

    NekCEM's calibrated values are left out: nothing else determines the constants of Titan.
    """
    rows = published_rows()
    found = []
    for place, row in enumerate(rows):
        if row.machine == "titan" and row.calibrated:
            continue
        same = [r for r in rows if r.workload == row.workload]
        held = [row] if by == "row" else [r for r in same if _key(r) == _key(row)]
        others = [r for r in same if r not in held]
        machine = _without(row.machine, held)
        if machine is not None:
            first = next(i for i, r in enumerate(rows) if r.machine == row.machine)
            row = rows_of(row.machine, machine)[place - first]
        width = half_width(others) * project.widening(row.size, project.tested(other.size for other in others))
        found.append(HeldOut(row, row.projected * math.exp(-width), row.projected * math.exp(width)))
    return tuple(found)


def _key(row: Row) -> float:
    return row.size.get("grid", row.size["ranks"])


def coverage(held: Sequence[HeldOut]) -> float:
    """The share of held-out rows whose published value lies in the range."""
    return float(np.mean([h.inside for h in held]))
