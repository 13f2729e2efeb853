"""`weft bench scaling WORKLOAD`: launches mpiexec for each run of a sweep, prints a line for each, keeps the rows."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.files import write_json
from weft.record import Record, read
from weft.report.measured import SweepRow
from weft.run.launch import cores, launch


@dataclass(frozen=True)
class Planned:
    """One run of a sweep: its ranks, the case keys it sets, and the entries of its row besides the measurement."""

    ranks: int
    keys: Mapping[str, object]
    row: SweepRow


@dataclass(frozen=True)
class Column:
    """A printed column: its head, its width, and a row's value as text."""

    head: str
    width: int
    text: Callable[[SweepRow], str]


@dataclass(frozen=True)
class Workload:
    """The sweep of a workload: its name, the row that follows from the record of a run, and the printed columns."""

    name: str
    measured: Callable[[Record], SweepRow]
    columns: Sequence[Column]


def known(value: float | None) -> float:
    """Returns a figure that every run with at least one step has; raises RuntimeError if it is None."""
    if value is None:
        raise RuntimeError("a run of the sweep took no step")
    return value


def default_ranks() -> list[int]:
    """1, 2, 4, … up to the cores."""
    return [2**k for k in range(int(math.log2(cores())) + 1)]


def run(workload: str, ranks: int, assignments: Iterable[str], time_limit: int, threads: int | None = None) -> Record:
    """The record of one `weft run WORKLOAD` on `ranks` ranks; `assignments` are key=value.

    `threads` and the errors raised are those of `launch.launch`.
    """
    with tempfile.TemporaryDirectory(prefix="weft-scaling-") as folder:
        arguments = [a for text in assignments for a in ("--set", text)]
        launch(ranks, ["run", workload, "--quiet", "--output", folder, *arguments], time_limit, threads)
        return read(folder)


def sweep(
    workload: Workload, plan: Iterable[Planned], output: Path, *, assignments: Sequence[str], time_limit: int
) -> tuple[list[SweepRow], str]:
    """Runs the plan, prints a line for each run, and writes scaling.json: the rows, and the machine in words.

    `assignments` come after the plan's own keys. Raises RuntimeError if a run fails.
    """
    rows: list[SweepRow] = []
    machine = ""
    print("  ".join(column.head.rjust(column.width) for column in workload.columns), flush=True)
    for planned in plan:
        own = [f"{key}={value}" for key, value in planned.keys.items()]
        record = run(workload.name, planned.ranks, [*own, *assignments], time_limit)
        machine = f"{record['machine']['device']['name']}, {record['case']['precision']} precision"
        rows.append({"ranks": planned.ranks, **planned.row, **workload.measured(record)})
        print("  ".join(c.text(rows[-1]).rjust(c.width) for c in workload.columns), flush=True)
        # After every run, so that an interrupted sweep keeps its results.
        write_json(output / "scaling.json", {"machine": machine, "rows": rows})
    return rows, machine


def strong_scaling(a: SweepRow, b: SweepRow) -> float:
    """The parallel efficiency of `b` relative to `a`: the same problem on more ranks."""
    return float(a["ranks"] * a["seconds_per_step"] / (b["ranks"] * b["seconds_per_step"]))
