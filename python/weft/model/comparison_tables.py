"""The published rows and their projections as text: for a terminal, and for docs/model-project.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from weft.format import table
from weft.model import comparison
from weft.model.comparison import Row
from weft.model.machine import Machine, load, numbers_of
from weft.model.result import number

PAPERS = ("hipBone", "GESTS", "NekCEM")
PAPER_OF = {"poisson": "hipBone", "turbulence": "GESTS", "maxwell": "NekCEM"}


def percent(error: float) -> str:
    """An error in percent, with its sign; zero has a plus."""
    return f"{round(100 * error, 1) + 0.0:+.1f} %"


def console(rows: Sequence[Row]) -> str:
    """Rows with their phases, errors by table and by phase, and the machines' constants, as aligned lines."""
    lines = [("TABLE", "ROW", "PUBLISHED", "PROJECTED", "ERROR", "", "ERRORS OF PHASES")]
    for r in rows:
        phases = ", ".join(f"{name} {100 * (made / seconds - 1):+.0f} %" for name, (seconds, made) in r.phases.items())
        mark = "*" if r.calibrated else ""
        lines.append((f"{r.paper} {r.table}", r.row, r.shown, number(r.projected), percent(r.error), mark, phases))
    parts = [table(lines), "* A constant was calibrated on this row."]
    for head, body in (
        (("BY TABLE", "ROWS", "MEAN", "MEDIAN", "LARGEST"), by_table(rows)),
        (("BY PHASE", "ROWS", "MEAN", "MEDIAN", "LARGEST"), by_phase(rows)),
        (("MACHINE", "CONSTANTS", "FROM THE PAPER", "ROWS USED", "ROWS PREDICTED", "RANGE"), by_machine(rows)),
        (("HELD OUT", "ROWS", "IN THE RANGE"), by_held_out()),
    ):
        parts.append(table([head, *body]))
    return "\n\n".join(parts)


def markdown(rows: Sequence[Row]) -> str:
    """The summary tables, and every row with its phases, in Markdown."""
    names = ("FFT", "pack and unpack", "row MPI", "column MPI", "MPI", "other")
    every = []
    for r in rows:
        phases = [f"{100 * (r.phases[n][1] / r.phases[n][0] - 1):+.0f}" if n in r.phases else "" for n in names]
        mark = " \\*" if r.calibrated else ""
        every.append((f"{r.paper} {r.table}", r.row + mark, r.shown, number(r.projected), percent(r.error), *phases))
    return "\n\n".join(
        (
            markdown_table(("rows not used for calibration", "rows", "mean", "median", "largest"), by_table(rows)),
            markdown_table(("phase", "rows", "mean", "median", "largest"), by_phase(rows)),
            markdown_table(
                (
                    "machine",
                    "constants",
                    "measured numbers from the same paper",
                    "rows used",
                    "rows predicted",
                    "range",
                ),
                by_machine(rows),
            ),
            markdown_table(("held out", "rows", "published values in the range"), by_held_out()),
            "All rows (\\* used for calibration); errors of phases in percent:",
            markdown_table(("table", "row", "published", "projected", "error", *names), every),
        )
    )


def markdown_table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _errors(name: str, errors: Sequence[float]) -> tuple[str, ...]:
    found = np.abs(errors) * 100
    statistics = (f"{f(found):.1f} %" for f in (np.mean, np.median, np.max))
    return (name, str(len(errors)), *statistics)


def by_table(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The errors of each table, of each paper, and of all rows that were not used for calibration."""
    found = []
    for paper in PAPERS:
        of = [r for r in rows if r.paper == paper]
        tables = list(dict.fromkeys(r.table for r in of))
        for name in tables:
            errors = comparison.errors([r for r in of if r.table == name])
            if errors:
                found.append(_errors(f"{paper} {name}", errors))
        if len(tables) > 1:
            found.append(_errors(f"{paper}, all", comparison.errors(of)))
    return [*found, _errors("all papers", comparison.errors(rows))]


def by_phase(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The errors of each printed phase, on GPUs and on CPUs."""
    found = []
    for name, where in (("frontier", "GPUs"), ("frontier-cpu", "CPUs")):
        phases = comparison.phase_errors(r for r in rows if r.machine == name)
        found += [_errors(f"GESTS, {where}: {phase}", errors) for phase, errors in phases.items()]
    return found


def by_machine(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Constants, measured numbers of the same paper, rows used and predicted, and the range of each machine."""
    found: list[tuple[str, ...]] = []
    for name in comparison.MACHINES:
        machine, of = load(name), [r for r in rows if r.machine == name]
        predicted = len(comparison.predicted(of))
        workload, accuracy = of[0].workload, machine.errors[of[0].workload]  # type: ignore[index]
        constants = ", ".join(f"{n} = {c.value:.4g}" for n, c in machine.constants.items())
        found.append(
            (
                machine.title, constants, str(len(measured(machine, PAPER_OF[workload]))), str(len(of) - predicted),
                str(predicted), f"{100 * accuracy.value:.1f} %",
            )
        )  # fmt: skip
    return found


def measured(machine: Machine, paper: str) -> list[str]:
    """The numbers of device, links and network that a paper measured or states: they count as calibrated on it.

    The sizes of a topology, which describe the hardware, are not among them.
    """
    return [
        key
        for key, (_, source) in numbers_of(machine).items()
        if paper in source
        and key.startswith(("device", "links", "topology"))
        and not key.startswith(("topology.sizes", "topology.widths"))
    ]


def by_held_out() -> list[tuple[str, ...]]:
    """The share of published values that lie in the range found without them."""
    found: list[tuple[str, ...]] = []
    for by, text in (("row", "each row in turn"), ("size", "each size in turn, with all rows of that size")):
        held = comparison.held_out(by)  # type: ignore[arg-type]
        found.append((text, str(len(held)), f"{100 * comparison.coverage(held):.0f} %"))
    return found
