"""Extrapolates published scaling tables from few ranks to many, and prints both.

    python benchmarks/extrapolation.py --output benchmarks/results/extrapolation.json
    python -m venv FOLDER && FOLDER/bin/pip install extrap
    python benchmarks/extrapolation.py --extrap FOLDER/bin/extrap

Fits `weft.model.extrapolate` to the first rows of each table and predicts the others. With --extrap, Extra-P (Calotoiu
et al. 2013) gets the same rows, with negative exponents allowed for strong scaling. It uses one parameter here, the
number of ranks, so both tools get the total time of series in which either the problem or the problem per rank is
fixed.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.model import extrapolate, published
from weft.model.extrapolate import Run
from weft.model.result import ModelError

Series = list[Run]


def gests(rows: list[published.Gests], parts: bool) -> Series:
    """Rows of GESTS as runs, with the parts of a step as terms or with the total alone."""
    return [
        Run(f"{r.case}", 8 * r.nodes, float(r.grid) ** 3, dict(r.phases) if parts else {"total": r.total}) for r in rows
    ]


def series(parts: bool) -> Iterator[tuple[str, Series]]:
    """The published series: strong or weak scaling, in ascending ranks."""
    for machine, table in published.HIPBONE_TABLE_2.items():
        per_rank = published.HIPBONE_DOFS_PER_RANK
        yield f"hipBone Table 2, {machine}", [Run("", p, per_rank * p, {"total": p / f}) for p, f in table.items()]
    several = [r for r in published.GESTS_TABLE_2 if r.nodes > 1 and r.case != "6"]
    yield "GESTS Table 2, slabs, weak", gests(several, parts)
    pencils = [*published.GESTS_TABLE_3, *published.GESTS_TABLE_5, *published.GESTS_TABLE_6, *published.GESTS_TABLE_7]
    for rows in (1, 2, 4, 8):
        mine = {(r.grid, r.nodes): r for r in reversed(pencils) if r.rows == rows and r.nodes > 1}
        weak = [mine[key] for key in ((4096, 8), (8192, 64), (16384, 512), (32768, 4096)) if key in mine]
        yield f"GESTS Table 3, {rows} rows, weak", gests(weak, parts)
        strong = sorted((r for (grid, _), r in mine.items() if grid == 8192), key=lambda r: r.nodes)
        yield f"GESTS Table 5, {rows} rows, strong", gests(strong, parts)


def everything() -> Iterator[tuple[str, Series, Series]]:
    """GESTS with both the problem and the ranks varying, by parts: fitted up to 512 nodes and up to 1024."""
    tables = [*published.GESTS_TABLE_3, *published.GESTS_TABLE_5, *published.GESTS_TABLE_6, *published.GESTS_TABLE_7]
    for rows in (1, 2, 4, 8):
        mine = {(r.grid, r.nodes): r for r in reversed(tables) if r.rows == rows and r.nodes > 1}
        ordered = sorted(mine.values(), key=lambda r: (r.nodes, r.grid))
        for most in (512, 1024):
            few, many = ([r for r in ordered if (r.nodes <= most) == small] for small in (True, False))
            yield f"GESTS Tables 3 to 7, {rows} rows, to {most} nodes", gests(few, True), gests(many, True)


def predict(name: str, few: Series, many: Series) -> list[dict[str, Any]]:
    """The rows of `many` with their predictions from `few`."""
    made = extrapolate.program(few)
    found = []
    for run in many:
        terms = made.at(run.ranks, float(run.points or 0))
        value, low, high = (math.fsum(t[k] for t in terms.values()) for k in range(3))
        seconds = math.fsum(run.terms.values())
        found.append(
            {"series": name, "fitted_rows": len(few), "fitted_to_ranks": few[-1].ranks, "ranks": run.ranks,
             "points": run.points, "published": seconds, "weft": value, "weft_low": low, "weft_high": high,
             "weft_error": value / seconds - 1, "inside": low <= seconds <= high,
             "laws": {t.name: t.text for t in made.terms}}
        )  # fmt: skip
    return found


def extra_p(command: str, few: Series, ranks: list[int]) -> list[float]:
    """Extra-P's predictions of the total time from the same rows, by its command line."""
    lines = ["PARAMETER p", "POINTS " + " ".join(f"({r.ranks})" for r in few), "REGION program", "METRIC time"]
    lines += [f"DATA {math.fsum(r.terms.values())!r}" for r in few]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.txt"
        path.write_text("\n".join(lines) + "\n")
        negative = ["--modeler", "basic", "--options", "allow_negative_exponents=True"]
        strong = few[0].points == few[-1].points
        done = subprocess.run(
            [command, "--text", str(path), "--disable-progress", "--print", "functions-python",
             *(negative if strong else [])],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
    formula = done.stdout.strip().splitlines()[-1]
    names = {"log2": math.log2, "math": math, "sqrt": math.sqrt}
    return [float(eval(formula, {"__builtins__": {}}, {**names, "p": float(p)})) for p in ranks]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extrap", metavar="COMMAND", help="Extra-P's command line")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    alone, by_parts, refused = [], [], []
    for name, rows in series(parts=False):
        for count in range(2, len(rows)):
            few, many = rows[:count], rows[count:]
            try:
                found = predict(name, few, many)
            except ModelError as error:
                refused.append({"series": name, "fitted_rows": count, "why": str(error)})
                continue
            if arguments.extrap:
                for row, value in zip(found, extra_p(arguments.extrap, few, [r.ranks for r in many]), strict=True):
                    row["extra_p"], row["extra_p_error"] = value, value / row["published"] - 1
            alone += found
    for name, few, many in everything():
        by_parts += predict(name, few, many)

    def summary(rows: list[dict[str, Any]], key: str) -> dict[str, float]:
        errors = [abs(r[key]) for r in rows]
        return {"rows": len(errors), "mean": statistics.mean(errors), "median": statistics.median(errors),
                "largest": max(errors)}  # fmt: skip

    result: dict[str, Any] = {
        "weft": summary(alone, "weft_error"),
        "weft_in_range": statistics.mean(r["inside"] for r in alone),
        "by_parts": summary(by_parts, "weft_error"),
        "by_parts_in_range": statistics.mean(r["inside"] for r in by_parts),
    }
    if arguments.extrap:
        result["extra_p"] = summary(alone, "extra_p_error")
    for row in [*alone, *by_parts]:
        other = f"  Extra-P {100 * row['extra_p_error']:+7.1f} %" if "extra_p" in row else ""
        print(
            f"{row['series']:44s} to {row['fitted_to_ranks']:6d}: {row['ranks']:6d} ranks {row['published']:9.4g}  "
            f"weft {row['weft']:9.4g} ({row['weft_low']:.4g} to {row['weft_high']:.4g}) "
            f"{100 * row['weft_error']:+6.1f} %{other}"
        )
    print(json.dumps(result, indent=1))
    if arguments.output:
        content = {"summary": result, "series": alone, "by_parts": by_parts, "refused": refused}
        arguments.output.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
