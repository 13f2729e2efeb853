"""`weft bench scaling turbulence`: GESTS's Tables 3 and 5 and Fig. 7 for this machine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from weft.bench import scaling
from weft.bench.scaling import Column, Planned, Workload, known, strong_scaling
from weft.format import rate, seconds, short, table
from weft.record import Record
from weft.report import plots, turbulence_plots
from weft.report.measured import SweepRow


def measured(record: Record) -> SweepRow:
    """The entries of a row from the record of a run: the best step, as in the paper, and the parts of a step."""
    timings, figures = record["timings"], record["figures"]
    steps = max(1, timings["profiled_steps"])
    return {
        "process_grid": figures["process_grid"],
        "batch": figures["batch"],
        "grid_points": figures["grid_points"],
        "seconds_per_step": known(timings["best_step_seconds"]),
        "median_step_seconds": known(timings["seconds_per_step"]),
        "points_per_second": known(figures["best_grid_points_per_second"]),
        "memory_bytes_per_rank": figures["memory_bytes_per_rank"],
        "parts": {part: value["mean_seconds"] / steps for part, value in timings["parts"].items()},
    }


def part(name: str, width: int) -> Column:
    """A column of Table 3."""
    return Column(name, width, lambda r: f"{1e3 * r['parts'][name]:.1f}")


TURBULENCE = Workload(
    "turbulence",
    measured,
    [
        Column("N", 5, lambda r: str(r["grid"])),
        Column("ranks", 5, lambda r: str(r["ranks"])),
        Column("PrxPc", 6, lambda r: r["process_grid"]),
        part("FFT", 8),
        part("pack and unpack", 15),
        part("row MPI", 8),
        part("column MPI", 10),
        part("other", 8),
        Column("step (ms)", 9, lambda r: f"{1e3 * r['seconds_per_step']:.1f}"),
        Column("Mpoints/s", 9, lambda r: short(r["points_per_second"] / 1e6)),
    ],
)


def plan(ranks: Sequence[int], grids: Sequence[int], shapes: bool, steps: int) -> Iterator[Planned]:
    """Plans every grid on every number of ranks; with `shapes`, also on every Pr x Pc."""
    for grid in grids:
        for count in ranks:
            for process_grid in process_grids(count) if shapes else ["auto"]:
                keys = {
                    "grid": grid,
                    "process_grid": process_grid,
                    "time.steps": steps,
                    "statistics.every": 0,
                    "statistics.at_end": "false",
                }
                yield Planned(count, keys, {"grid": grid})


def process_grids(ranks: int) -> list[str]:
    """Every Pr x Pc, the most nearly square first, as in the paper's tables."""
    return [f"{pr}x{ranks // pr}" for pr in range(ranks, 0, -1) if ranks % pr == 0]


def weak_scaling(a: SweepRow, b: SweepRow) -> float:
    """The ratio of the speeds per rank of the larger run `b` and of `a`; work is N^3 log2 N (GESTS, section 4.1)."""

    def speed(row: SweepRow) -> float:
        n = row["grid"]
        return float(n**3 * math.log2(n) / (row["ranks"] * row["seconds_per_step"]))

    return speed(b) / speed(a)


def best_rows(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """The fastest row of every grid and number of ranks."""
    best: dict[tuple[int, int], SweepRow] = {}
    for row in rows:
        key = (row["grid"], row["ranks"])
        if key not in best or row["seconds_per_step"] < best[key]["seconds_per_step"]:
            best[key] = row
    return [best[key] for key in sorted(best)]


def strong_table(rows: Sequence[SweepRow]) -> list[tuple[str, ...]]:
    """Strong scaling of every grid, relative to the fewest ranks and to the next smaller number of ranks."""
    lines: list[tuple[str, ...]] = [("STRONG SCALING", "RANKS", "STEP", "SPEED", "VS FEWEST RANKS", "VS NEXT FEWER")]
    best = best_rows(rows)
    for grid in sorted({r["grid"] for r in best}):
        mine = [r for r in best if r["grid"] == grid]
        for index, row in enumerate(mine):
            shares = [strong_scaling(mine[0], row), strong_scaling(mine[index - 1], row)] if index else []
            words = [f"{100 * s:.1f} %" for s in shares] or ["-", "-"]
            speed = rate(row["points_per_second"], "points/s")
            lines.append((f"{grid}^3", str(row["ranks"]), seconds(row["seconds_per_step"]), speed, *words))
    return lines


def weak_table(rows: Sequence[SweepRow]) -> list[tuple[str, ...]]:
    """Weak scaling of runs with about equal points per rank, relative to the smallest (WS1) and next smaller (WS2)."""
    lines: list[tuple[str, ...]] = [("WEAK SCALING", "RANKS", "POINTS PER RANK", "STEP", "WS1", "WS2")]
    chains: list[list[SweepRow]] = []
    for row in sorted(best_rows(rows), key=lambda r: (r["ranks"], r["grid"])):
        load = row["grid_points"] / row["ranks"]
        for chain in chains:
            first = chain[0]["grid_points"] / chain[0]["ranks"]
            if row["ranks"] > chain[-1]["ranks"] and 1 / 1.5 < load / first < 1.5:
                chain.append(row)
                break
        else:
            chains.append([row])
    for chain in chains:
        if len(chain) < 2:
            continue
        for index, row in enumerate(chain):
            shares = [weak_scaling(chain[0], row), weak_scaling(chain[index - 1], row)] if index else []
            words = [f"{100 * s:.1f} %" for s in shares] or ["-", "-"]
            points = f"{row['grid_points'] // row['ranks']:,}"
            lines.append((f"{row['grid']}^3", str(row["ranks"]), points, seconds(row["seconds_per_step"]), *words))
    return lines


def sweep(
    ranks: Sequence[int],
    grids: Sequence[int],
    output: Path,
    *,
    shapes: bool,
    steps: int,
    assignments: Sequence[str],
    time_limit: int,
) -> list[SweepRow]:
    """Runs every combination, and writes scaling.json, scaling.png and table3-<N>.png."""
    planned = plan(ranks, grids, shapes, steps)
    rows, machine = scaling.sweep(TURBULENCE, planned, output, assignments=assignments, time_limit=time_limit)
    print("\n" + table(strong_table(rows)))
    weak = weak_table(rows)
    if len(weak) > 1:
        print("\n" + table(weak))
    else:
        print("\nno weak scaling: no two runs have about equal points per rank, as --grids 64,80 with --ranks 1,2 have")
    plots.save(turbulence_plots.scaling(rows, machine), output / "scaling.png")
    for grid in grids:
        parts = {f"{r['ranks']} rank(s), {r['process_grid']}": r["parts"] for r in rows if r["grid"] == grid}
        plots.save(turbulence_plots.table3(parts, f"{grid}^3; {machine}"), output / f"table3-{grid}.png")
    print(f"wrote {output / 'scaling.json'}, scaling.png and one bar chart per grid")
    return rows
