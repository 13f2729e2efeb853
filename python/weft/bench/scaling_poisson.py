"""`weft bench scaling poisson`: hipBone's Figs. 4 to 6 and Table 2 for this machine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from weft.bench import scaling
from weft.bench.scaling import Column, Planned, Workload
from weft.format import rate, short, table
from weft.record import Record
from weft.report import plots
from weft.report.measured import SweepRow
from weft.run.elements import box_counts


def measured(record: Record) -> SweepRow:
    """The entries of a row that come from the record of a run."""
    figures = record["figures"]
    return {
        "dofs": figures["dofs"],
        "points": figures["points"],
        "elements": figures["elements"],
        "fom_gflops": figures["fom_gflops"],
        "throughput_dofs_per_second_per_rank": figures["throughput_dofs_per_second_per_rank"],
        "seconds_per_iteration": record["timings"]["seconds_per_iteration"],
    }


POISSON = Workload(
    "poisson",
    measured,
    [
        Column("order", 5, lambda r: str(r["order"])),
        Column("ranks", 5, lambda r: str(r["ranks"])),
        Column("box", 11, lambda r: "x".join(map(str, r["box"]))),
        Column("DOFs", 9, lambda r: str(r["dofs"])),
        Column("DOFs/rank", 10, lambda r: str(r["dofs"] // r["ranks"])),
        Column("FOM GFLOP/s", 11, lambda r: short(r["fom_gflops"])),
        Column("MDOF/s/rank", 13, lambda r: short(r["throughput_dofs_per_second_per_rank"] / 1e6)),
    ],
)


def boxes(sizes: tuple[int, int], steps: int, ranks: int, order: int) -> list[tuple[int, int, int]]:
    """Boxes with about `sizes` degrees of freedom per rank, in `steps` geometric steps, with an element per rank."""
    first, last = sizes
    wanted = [first * (last / first) ** (k / max(1, steps - 1)) for k in range(steps)]
    # box_counts takes element-local points: N_L / N_G = (N + 1)^3 / N^3 on a large mesh.
    counts = [box_counts(round(w * ranks * ((order + 1) / order) ** 3), order) for w in wanted]
    return [b for b in dict.fromkeys(counts) if math.prod(b) >= ranks]


def plan(ranks: Sequence[int], orders: Sequence[int], sizes: tuple[int, int], steps: int) -> Iterator[Planned]:
    """Every order on every number of ranks at every size."""
    for order in orders:
        for count in ranks:
            for box in boxes(sizes, steps, count, order):
                chosen: SweepRow = {"order": order, "box": list(box)}
                yield Planned(count, {"order": order, "mesh.counts": list(box)}, chosen)


def sweep(
    ranks: Sequence[int],
    orders: Sequence[int],
    sizes: tuple[int, int],
    output: Path,
    *,
    steps: int,
    assignments: Sequence[str],
    time_limit: int,
) -> list[SweepRow]:
    """Runs every combination, and writes scaling.json and scaling-N<order>.png."""
    planned = plan(ranks, orders, sizes, steps)
    rows, machine = scaling.sweep(POISSON, planned, output, assignments=assignments, time_limit=time_limit)
    print("\n" + table(peaks(rows)))
    for order in orders:
        path = output / f"scaling-N{order}.png"
        plots.save(plots.scaling([r for r in rows if r["order"] == order], order, machine), path)
        print(f"wrote {path}")
    print(f"wrote {output / 'scaling.json'}")
    return rows


def peaks(rows: Sequence[SweepRow]) -> list[tuple[str, ...]]:
    """hipBone's Table 2: peak FOM by ranks, and FOM per rank relative to that of the fewest ranks."""
    lines: list[tuple[str, ...]] = [("ORDER", "RANKS", "PEAK FOM", "PER RANK", "VS FEWEST RANKS")]
    for order in sorted({r["order"] for r in rows}):
        best: dict[int, float] = {}
        for row in rows:
            if row["order"] == order:
                best[row["ranks"]] = max(best.get(row["ranks"], 0.0), row["fom_gflops"])
        reference = best[min(best)] / min(best)
        for ranks, fom in sorted(best.items()):
            share = f"{100 * fom / ranks / reference:.1f} %"
            lines.append((str(order), str(ranks), rate(fom * 1e9, "FLOP/s"), rate(fom / ranks * 1e9, "FLOP/s"), share))
    return lines
