"""`weft bench scaling maxwell`: NekCEM's Figs. 5 to 7: strong and weak curves, n_1/2, the strong-scale limit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.bench.scaling import Column, Workload, known
from weft.bench.scaling_elements import Study
from weft.format import rate, short
from weft.model.maxwell_formulas import half_rate_size
from weft.record import Record
from weft.report import maxwell_plots
from weft.report.measured import Fit, SweepRow

EFFICIENT = 0.8  # share of the rate of one rank below which strong scaling has ended


def measured(record: Record) -> SweepRow:
    """The entries of a row that come from the record of a run."""
    figures = record["figures"]
    return {
        "points": figures["points"],
        "gflops": figures["gflops"],
        "communication_share": known(figures["communication_share"]),
        "seconds_per_step_and_point": figures["seconds_per_step_and_point"],
        "seconds_per_step": known(record["timings"]["seconds_per_step"]),
        "exchange": record["choices"]["exchange"]["faces"]["chosen"],
    }


MAXWELL = Workload(
    "maxwell",
    measured,
    [
        Column("order", 5, lambda r: str(r["order"])),
        Column("ranks", 5, lambda r: str(r["ranks"])),
        Column("elements", 8, lambda r: str(r["elements"])),
        Column("points n", 9, lambda r: str(r["points"])),
        Column("n/P", 9, lambda r: str(r["points"] // r["ranks"])),
        Column("ms/step", 9, lambda r: f"{1e3 * r['seconds_per_step']:.3f}"),
        Column("GFLOP/s", 8, lambda r: short(r["gflops"])),
        Column("comm", 5, lambda r: f"{100 * r['communication_share']:.0f} %"),
    ],
)


def fits(rows: Sequence[SweepRow]) -> list[Fit]:
    """For each order and number of ranks, n_1/2, the saturated rate, the strong-scaling limit and the weak efficiency.

    The strong-scaling limit is the smallest n/P from which on a rank reaches 80 % of the best rate of one rank alone
    (the paper reads it off its Figs. 5 and 6); None if no measured size does. The weak efficiency is relative to one
    rank (or the fewest ranks), at the largest n/P that both have.
    """
    found: list[Fit] = []
    for order in sorted({r["order"] for r in rows}):
        of_order = [r for r in rows if r["order"] == order]
        fewest = min(r["ranks"] for r in of_order)
        alone = {r["points"] // fewest: r for r in of_order if r["ranks"] == fewest}
        best = max(r["gflops"] / r["ranks"] for r in alone.values())
        for ranks in sorted({r["ranks"] for r in of_order}):
            mine = sorted((r for r in of_order if r["ranks"] == ranks), key=lambda r: r["points"])
            if len(mine) < 2:
                continue
            half, saturated = half_rate_size([r["points"] for r in mine], [r["seconds_per_step"] for r in mine])
            known, limit = math.isfinite(half), None  # times that do not grow with n have no rate
            for row in reversed(mine):
                if row["gflops"] / ranks < EFFICIENT * best:
                    break
                limit = row["points"] // ranks
            both = [r for r in mine if r["points"] // ranks in alone]
            weak = None
            if both:
                weak = alone[both[-1]["points"] // ranks]["seconds_per_step"] / both[-1]["seconds_per_step"]
            per_point = (180 * (order + 1) + 420) * 1e-9
            found.append(
                {
                    "order": order,
                    "ranks": ranks,
                    "half_rate_points": half if known else None,
                    "half_rate_points_per_rank": half / ranks if known else None,
                    "saturated_gflops": saturated * per_point if known else None,
                    "strong_scale_limit_points_per_rank": limit,
                    "weak_efficiency": weak,
                }
            )
    return found


FORMULAS = {
    "half_rate_points": "n_1/2 in time per step = (n + n_1/2) / rate, least squares of relative errors; NekCEM Fig. 7",
    "saturated_gflops": "[180 (N+1) + 420] x rate of the fit; NekCEM Eq. 16",
    "strong_scale_limit_points_per_rank": f"smallest n/P with {EFFICIENT:.0%} of the fewest ranks' best rate per rank",
    "weak_efficiency": "time per step on the fewest ranks over that on P, at the largest n/P of both",
}


def summary(found: Sequence[Fit]) -> list[tuple[str, ...]]:
    """The fits as lines of a table."""
    lines: list[tuple[str, ...]] = [("ORDER", "RANKS", "n_1/2", "SATURATED", "STRONG-SCALING LIMIT n/P", "WEAK")]
    for fit in found:
        limit, weak = fit["strong_scale_limit_points_per_rank"], fit["weak_efficiency"]
        half, saturated = fit["half_rate_points"], fit["saturated_gflops"]
        lines.append(
            (
                str(fit["order"]),
                str(fit["ranks"]),
                "not reached" if half is None else f"{half:.0f} points",
                "-" if saturated is None else rate(saturated * 1e9, "FLOP/s"),
                "not reached" if limit is None else f"{limit} points",
                "-" if weak is None else f"{100 * weak:.0f} %",
            )
        )
    return lines


STUDY = Study(
    MAXWELL,
    lambda box: {"mesh.counts": box},
    "fits",
    fits,
    lambda _, found: summary(found),
    maxwell_plots.half_rate,
    FORMULAS,
)
