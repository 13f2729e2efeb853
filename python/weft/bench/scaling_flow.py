"""`weft bench scaling flow`: time of a step, iterations and the exchange's share against ranks, strong and weak."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.bench.scaling import Column, Workload, known, strong_scaling
from weft.bench.scaling_elements import Study
from weft.format import seconds, short
from weft.record import Record
from weft.report import flow_plots
from weft.report.measured import Efficiency, SweepRow

SIDE = 2 * math.pi / 8  # of an element: that of the Taylor-Green vortex on 8 x 8 x 8 elements


def measured(record: Record) -> SweepRow:
    """The entries of a row that come from the record of a run."""
    timings, figures = record["timings"], record["figures"]
    solves = figures["iterations"]
    steps = max(1, figures["profiled_steps"])
    return {
        "points": figures["points"],
        "seconds_per_step": known(timings["seconds_per_step"]),
        "points_per_second": known(figures["points_per_second"]),
        "exchange_share": known(figures["exchange_share"]),
        "communication_share": known(figures["communication_share"]),
        "iterations": {name: solve["mean"] for name, solve in solves.items()} if isinstance(solves, dict) else {},
        "memory_words_per_point": figures["memory_words_per_point"],
        "phases": {name: sum(spent.values()) / steps for name, spent in timings["phases"].items()},
    }


FLOW = Workload(
    "flow",
    measured,
    [
        Column("order", 5, lambda r: str(r["order"])),
        Column("ranks", 5, lambda r: str(r["ranks"])),
        Column("elements", 8, lambda r: str(r["elements"])),
        Column("n/P", 9, lambda r: str(r["points"] // r["ranks"])),
        Column("ms/step", 9, lambda r: f"{1e3 * r['seconds_per_step']:.2f}"),
        Column("Mpoints/s", 9, lambda r: short(r["points_per_second"] / 1e6)),
        Column("p its", 5, lambda r: f"{r['iterations']['pressure']:.1f}"),
        Column("u its", 5, lambda r: f"{r['iterations']['velocity']:.1f}"),
        Column("exchange", 8, lambda r: f"{100 * r['exchange_share']:.0f} %"),
    ],
)


def vortices(counts: Sequence[int]) -> dict[str, object]:
    """The keys of a case: cubic elements in a periodic box, with one period of the Taylor-Green vortex per side."""
    sides = [SIDE * n for n in counts]
    waves = {f"parameters.k{axis}": 2 * math.pi / side for axis, side in zip("xyz", sides, strict=True)}
    velocity = ["sin(kx*x)*cos(ky*y)*cos(kz*z)", "-kx/ky*cos(kx*x)*sin(ky*y)*cos(kz*z)", 0]
    return {
        "mesh.counts": list(counts),
        "mesh.upper": sides,
        "mesh.periodic": "[true, true, true]",
        **waves,
        "viscosity": 1 / 1600,
        "initial.velocity": velocity,
        "time.dt": 0.0,
        "time.courant": 0.3,
        "statistics.every": 0,
        "output.slice": "none",
    }


def weak_efficiency(few: SweepRow, many: SweepRow) -> float:
    """t(P) / t(Q) at equal numbers of elements per rank."""
    return float(few["seconds_per_step"] / many["seconds_per_step"])


def efficiencies(rows: Sequence[SweepRow]) -> list[Efficiency]:
    """The efficiencies of every row: strong relative to the fewest ranks, weak at equal elements per rank."""
    found: list[Efficiency] = []
    for row in rows:
        of_order = [r for r in rows if r["order"] == row["order"] and r["ranks"] < row["ranks"]]
        strong = [r for r in of_order if r["elements"] == row["elements"]]
        weak = [r for r in of_order if r["elements"] * row["ranks"] == row["elements"] * r["ranks"]]
        if strong or weak:
            found.append(
                {
                    "order": row["order"],
                    "elements": row["elements"],
                    "ranks": row["ranks"],
                    "strong": strong_scaling(min(strong, key=_ranks), row) if strong else None,
                    "weak": weak_efficiency(min(weak, key=_ranks), row) if weak else None,
                }
            )
    return found


def _ranks(row: SweepRow) -> int:
    return int(row["ranks"])


FORMULAS = {
    "strong": "P t(P) on the fewest ranks over Q t(Q), with the same elements",
    "weak": "t(P) on the fewest ranks over t(Q), equal elements per rank",
    "seconds_per_step": "median of the steps that were not recorded, slowest rank",
}


def summary(rows: Sequence[SweepRow], found: Sequence[Efficiency]) -> list[tuple[str, ...]]:
    """The efficiencies as lines of a table."""
    lines: list[tuple[str, ...]] = [("ORDER", "ELEMENTS", "RANKS", "PER STEP", "STRONG", "WEAK")]
    times = {(r["order"], r["elements"], r["ranks"]): r["seconds_per_step"] for r in rows}
    for row in found:
        key = row["order"], row["elements"], row["ranks"]
        shares = ["-" if share is None else f"{100 * share:.0f} %" for share in (row["strong"], row["weak"])]
        lines.append((*map(str, key), seconds(times[key]), *shares))
    return lines


STUDY = Study(
    FLOW,
    vortices,
    "efficiencies",
    efficiencies,
    summary,
    lambda rows, _, machine: flow_plots.scaling(rows, machine),
    FORMULAS,
)
