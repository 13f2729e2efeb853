"""Sweeps of workloads whose size is a number of elements: boxes of 2^k elements, on every number of ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from matplotlib.figure import Figure

from weft.bench import scaling
from weft.bench.scaling import Planned, Workload
from weft.files import write_json
from weft.format import table
from weft.report import plots
from weft.report.measured import SweepRow

F = TypeVar("F")


@dataclass(frozen=True)
class Study(Generic[F]):
    """The evaluation of a sweep: `name` and function of a fit to its rows, a table, a plot, and the `formulas`."""

    workload: Workload
    keys: Callable[[list[int]], Mapping[str, object]]  # keys of a case on a box of so many elements
    name: str
    fit: Callable[[Sequence[SweepRow]], list[F]]
    summary: Callable[[Sequence[SweepRow], Sequence[F]], list[tuple[str, ...]]]  # of rows and fits
    plot: Callable[[Sequence[SweepRow], Sequence[F], str], Figure]  # of rows, fits and the machine
    formulas: Mapping[str, str]


def box_of(elements: int) -> list[int]:
    """A box of 2^k elements that is as cubic as possible."""
    power = int(math.log2(elements))
    return [2 ** ((power + 2 - d) // 3) for d in range(3)]


def plan(
    keys: Callable[[list[int]], Mapping[str, object]],
    ranks: Sequence[int],
    orders: Sequence[int],
    elements: tuple[int, int],
    steps: int,
) -> Iterator[Planned]:
    """Plans E = first, twice that, … last elements for every order, on every number of ranks P <= E.

    Runs with equal E show strong scaling; E on P ranks and 2 E on 2 P ranks show weak scaling (NekCEM's Fig. 5).
    """
    for order in orders:
        for count in ranks:
            size = elements[0]
            while size <= elements[1]:
                if size >= count:
                    box = box_of(size)
                    chosen: SweepRow = {"order": order, "elements": size, "box": box}
                    yield Planned(count, {**keys(box), "order": order, "time.steps": steps}, chosen)
                size *= 2


def sweep(
    study: Study[F],
    ranks: Sequence[int],
    orders: Sequence[int],
    elements: tuple[int, int],
    output: Path,
    *,
    steps: int,
    assignments: Sequence[str],
    time_limit: int,
) -> list[SweepRow]:
    """Runs every combination, and writes scaling.json, with the fits and their formulas, and scaling-WORKLOAD.png."""
    planned = plan(study.keys, ranks, orders, elements, steps)
    rows, machine = scaling.sweep(study.workload, planned, output, assignments=assignments, time_limit=time_limit)
    found = study.fit(rows)
    content = {"machine": machine, "rows": rows, study.name: found, "formulas": study.formulas}
    write_json(output / "scaling.json", content)
    if found:
        print("\n" + table(study.summary(rows, found)))
    path = output / f"scaling-{study.workload.name}.png"
    plots.save(study.plot(rows, found, machine), path)
    print(f"wrote {path}")
    print(f"wrote {output / 'scaling.json'}")
    return rows
