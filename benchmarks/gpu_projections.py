"""Compares weft's own times on an H100 with projections on its description, in which nothing is calibrated.

Writes into docs/model-project.md.

    python benchmarks/gpu_projections.py

The times are those of `device.sh` and `compare_hipbone.py`. Flows are left out: the iterations of their solves were not
kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from published_tables import PAGE, written_between

from weft.format import seconds as duration
from weft.model import formulas, project
from weft.model.comparison_tables import markdown_table, percent
from weft.model.machine import load

RESULTS = Path(__file__).parent / "results"
MARK = "own times on a GPU"
PROBLEM = {  # in the words of benchmarks/device_report.py
    "maxwell": re.compile(r"maxwell, N = (?P<order>\d+), (?P<elements_per_rank>\d+) elements, (?P<precision>\w+)"),
    "turbulence": re.compile(r"turbulence, (?P<grid>\d+)\^3, (?P<precision>\w+)"),
}


@dataclass(frozen=True)
class Row:
    """A measured time (s) of an iteration or step, and its projection."""

    workload: str
    options: Mapping[str, Any]
    measured: float
    projected: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """Whether the range of the projection holds the measured time."""
        return self.low <= self.measured <= self.high

    @property
    def cells(self) -> tuple[str, ...]:
        """For the table."""
        size = f"{self.options['grid']}³" if self.workload == "turbulence" else (
            f"N = {self.options['order']}, {self.options['elements_per_rank']:,} elements"
        )  # fmt: skip
        shown = (duration(self.measured), duration(self.projected), percent(self.projected / self.measured - 1))
        ends = f"{duration(self.low)} to {duration(self.high)}"
        return (self.workload, size, *shown, ends, "yes" if self.inside else "no")


def measured() -> Iterator[tuple[str, dict[str, Any], float]]:
    """Workloads, the options of their projections, and measured times (s)."""
    for row in json.loads((RESULTS / "compare_hipbone_h100.json").read_text())["rows"]:
        options = {"order": row["order"], "elements_per_rank": row["side"] ** 3}
        flops = formulas.fom_flops(formulas.large_mesh(row["order"], row["side"] ** 3)).value
        yield "poisson", options, flops / (1e9 * row["median"]["stored"])
    for file in ("device_h100.json", "device_h100_again.json"):
        for row in json.loads((RESULTS / file).read_text())["rows"]:
            for workload, pattern in PROBLEM.items():
                if row["unit"] == "ms per step" and (found := pattern.fullmatch(row["what"])):
                    options = {k: int(v) if v.isdigit() else v for k, v in found.groupdict().items()}
                    yield workload, options, 1e-3 * row["measured"]


def rows() -> list[Row]:
    """All measured times beside their projections."""
    machine, found = load("h100"), []
    for workload, options, seconds in measured():
        function = getattr(project, workload)
        time = project.results(machine, lambda m, f=function, o=options: f(m, 1, **o))[0]
        found.append(Row(workload, options, seconds, time.value, time.low, time.high))
    return found


def page(text: str) -> str:
    """The page with the table between its marks."""
    head = ("workload", "problem", "measured", "projected", "error", "range of the constants", "holds it")
    return written_between(text, MARK, Path(__file__).name, markdown_table(head, (row.cells for row in rows())))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE}")
