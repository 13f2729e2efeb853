"""`weft bench scaling poisson`: hipBone's Figs. 4 to 6 for this machine, by launching mpiexec for each run."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.bench.launch import cores, launch
from weft.bench.poisson import box_counts
from weft.report import plots
from weft.report.format import rate, table

Record = dict[str, Any]


def default_ranks() -> list[int]:
    """1, 2, 4, … up to the cores."""
    return [2**k for k in range(int(math.log2(cores())) + 1)]


def boxes(sizes: tuple[int, int], steps: int, ranks: int, order: int) -> list[tuple[int, int, int]]:
    """Boxes of about `sizes` degrees of freedom per rank, in `steps` geometric steps, with an element for each rank."""
    first, last = sizes
    wanted = [first * (last / first) ** (k / max(1, steps - 1)) for k in range(steps)]
    # box_counts takes element-local points: N_L / N_G = (N + 1)^3 / N^3 on a large mesh.
    counts = [box_counts(round(w * ranks * ((order + 1) / order) ** 3), order) for w in wanted]
    return [b for b in dict.fromkeys(counts) if math.prod(b) >= ranks]


def run_poisson(ranks: int, arguments: Sequence[str], time_limit: int, threads: int | None = None) -> Record:
    """The record of one `weft run poisson` on `ranks` ranks. Errors and `threads` as of `launch.launch`."""
    with tempfile.TemporaryDirectory(prefix="weft-scaling-") as folder:
        launch(ranks, ["run", "poisson", "--quiet", "--output", folder, *arguments], time_limit, threads)
        return dict(json.loads((Path(folder) / "run.json").read_text()))


def sweep(
    ranks: Sequence[int],
    orders: Sequence[int],
    sizes: tuple[int, int],
    output: Path,
    *,
    steps: int,
    assignments: Sequence[str],
    time_limit: int,
) -> list[Record]:
    """Runs every combination, prints a line for each, and writes scaling.json and scaling-N<order>.png."""
    output.mkdir(parents=True, exist_ok=True)
    rows: list[Record] = []
    machine = ""
    print("order  ranks          box       DOFs   DOFs/rank  FOM GFLOP/s  MDOF/s a rank", flush=True)
    for order in orders:
        for count in ranks:
            for box in boxes(sizes, steps, count, order):
                case = [f"order={order}", f"mesh.counts={list(box)}", *assignments]
                record = run_poisson(count, [a for text in case for a in ("--set", text)], time_limit)
                figures = record["figures"]
                keys = ("dofs", "points", "elements", "fom_gflops", "throughput_dofs_per_second_per_rank", "ranks")
                row = {"order": order, "box": list(box), **{k: figures[k] for k in keys}}
                row["seconds_per_iteration"] = record["timings"]["seconds_per_iteration"]
                rows.append(row)
                machine = f"{record['machine']['device']['name']}, {record['case']['precision']} precision"
                print(
                    f"{order:5}  {count:5}  {'x'.join(map(str, box)):>11}  {row['dofs']:9}  {row['dofs'] // count:10}"
                    f"  {row['fom_gflops']:11.2f}  {row['throughput_dofs_per_second_per_rank'] / 1e6:13.1f}",
                    flush=True,
                )
                # After every run, so that an interrupted sweep leaves what it has.
                (output / "scaling.json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    print("\n" + table(peaks(rows)))
    for order in orders:
        path = output / f"scaling-N{order}.png"
        plots.save(plots.scaling([r for r in rows if r["order"] == order], order, machine), path)
        print(f"written {path}")
    print(f"written {output / 'scaling.json'}")
    return rows


def peaks(rows: Sequence[Record]) -> list[tuple[str, ...]]:
    """hipBone's Table 2: peak FOM by ranks, and how much of the fewest ranks' FOM per rank is kept."""
    lines: list[tuple[str, ...]] = [("ORDER", "RANKS", "PEAK FOM", "PER RANK", "OF THE FEWEST RANKS'")]
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
