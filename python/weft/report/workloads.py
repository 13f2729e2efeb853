"""The tables and plots that show the record of each workload."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from weft.record import Record
from weft.report.rows import Parts, Plot, Rows


class Report(Protocol):
    """The interface of each workload's module; poisson.py documents its functions."""

    def title(self, record: Record) -> str: ...
    def heading(self, record: Record) -> str: ...
    def header_rows(self, record: Record, verbose: bool = False) -> Rows: ...
    def result_rows(self, record: Record) -> Rows: ...
    def speed_rows(self, record: Record) -> Rows: ...
    def time_spent(self, record: Record) -> Parts: ...
    def tiles(self, record: Record) -> Rows: ...
    def figures_of(self, record: Record) -> list[Plot]: ...
    def speed_figures_of(self, record: Record) -> list[Plot]: ...


def report_of(record: Record) -> Report:
    """The report module for the workload of a record, which is imported on first use."""
    return cast(Report, import_module(f"weft.report.{record['case']['workload']}"))


def save_figures(record: Record, folder: Path) -> None:
    """The plots of a run as PNG files."""
    from weft.report.plots import save

    report = report_of(record)
    for _, name, figure in [*report.figures_of(record), *report.speed_figures_of(record)]:
        save(figure, folder / f"{name}.png")
