"""Which tables and plots each workload's record is shown with."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from weft.report import flow, maxwell, poisson, turbulence
from weft.report.rows import Record

# A module has HISTORY, WHOLE, PARTS, title, heading, header_rows, result_rows, tiles and figures_of, as poisson.py.
REPORTS: dict[str, ModuleType] = {
    "poisson": poisson,
    "maxwell": maxwell,
    "turbulence": turbulence,
    "flow": flow,
}


def report_of(record: Record) -> ModuleType:
    """The report of the workload a record is of. ValueError where weft has none."""
    workload = record["case"].get("workload")
    if workload not in REPORTS:
        raise ValueError(f"a record of the workload {workload!r}; known: {', '.join(REPORTS)}")
    return REPORTS[workload]


def save_figures(record: Record, folder: Path) -> None:
    """The plots of a run as PNG files."""
    from weft.report.plots import save

    for _, name, figure in report_of(record).figures_of(record):
        save(figure, folder / f"{name}.png")
