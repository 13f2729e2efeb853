"""Which tables and plots each workload's record is shown with."""

from __future__ import annotations

from types import ModuleType

from weft.report import flow, maxwell, poisson, turbulence
from weft.report.rows import Record

# A module has HISTORY, WHOLE, PARTS, title, heading, header_rows, result_rows, tiles and pictures, as poisson.py.
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
