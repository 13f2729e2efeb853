"""Table 13 of the report for any application: one row per application, computed by the methods of this package.

"The report" is ECP-HIHE01-35 (2021). A cell whose method lacks data is N/E (not evaluated), with the reason.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec

import numpy as np

from weft.model import integration, ratio, roofline
from weft.model.ratio import Run
from weft.model.result import ModelError, Result, finite_or_none
from weft.model.sources import Source, ratio_file, read
from weft.model.sources import coupling as sources_coupling
from weft.traces.window import WHOLE, Window

COLUMNS = (
    "CPU-GPU integration", "CPU:GPU ratio", "disaggregation penalty", "GPU-GPU integration", "unified memory",
    "FPGA-GPU integration",
)  # fmt: skip
Arguments = ParamSpec("Arguments")
TIGHTER, LOOSER = 10.0, 0.1  # sections 5 and 7
NOT_EVALUATED = "N/E"


@dataclass(frozen=True)
class Cell:
    """A value, or the reason why there is none."""

    result: Result | None
    why: str = ""

    @property
    def text(self) -> str:
        """The cell as the report prints it: 1.9x, 3.5:1 or N/E."""
        if self.result is None:
            return NOT_EVALUATED
        value = self.result.value
        return f"{value:.3g}:1" if self.result.unit == "cores" else f"{value:.3g}x"


@dataclass(frozen=True)
class Row:
    """An application: its cells by column, its terms of Eq. 3 (means over runs, in seconds), and its runs' number."""

    application: str
    cells: dict[str, Cell]
    terms: integration.Terms
    runs: int
    notes: tuple[str, ...]

    def json(self) -> dict[str, object]:
        """The content of the JSON file."""
        cells = {
            name: {
                "value": finite_or_none(c.result.value), "low": finite_or_none(c.result.low),
                "high": finite_or_none(c.result.high), "unit": c.result.unit, "equation": c.result.equation,
                "range_is": c.result.range_is, "inputs": finite_or_none(c.result.inputs),
            }
            if c.result is not None
            else {"value": None, "why": c.why}
            for name, c in self.cells.items()
        }  # fmt: skip
        return {"application": self.application, "runs": self.runs, "cells": cells, "notes": list(self.notes)}


def evaluate(function: Callable[Arguments, Result], *arguments: Arguments.args, **options: Arguments.kwargs) -> Cell:
    """The result of a method, or the data that it reports as missing."""
    try:
        return Cell(function(*arguments, **options))
    except ModelError as error:
        return Cell(None, str(error))


def coupling(sources: Sequence[Source], factor: float) -> Result:
    """Eqs. 3 and 4, for runs that used a device."""
    terms = [s.terms for s in sources]
    if not any(t.t_gpu + t.t_cg_data + t.t_cg_control > 0 for t in terms):
        raise ModelError("the run used no device")
    if all(s.record is not None and s.record["machine"]["device"]["backend"] == "host" for s in sources):
        raise ModelError("the run used the host only")
    return sources_coupling(sources, factor, factor)


def cores(runs: Sequence[Run]) -> Result:
    """The cores per GPU that reach 90 % of the asymptotic performance, by Eq. 6."""
    if not runs:
        raise ModelError("needs a sweep over processes and threads: give the ratio.json of 'weft bench ratio'")
    return ratio.scaling_results(runs)[-1]


def merged_nodes(sources: Sequence[Source], ranks_per_node: int | None, acceleration: float) -> Result:
    """Section 8.1: twice as many GPUs per node, so that messages between two nodes stay inside one."""
    shares = [communication(s, ranks_per_node) for s in sources]
    point_to_point, off_node = (statistics.fmean(s[k] for s in shares) for k in (1, 2))
    return integration.gpu_gpu_point_to_point([s[0] for s in shares], point_to_point, off_node, acceleration)


def communication(source: Source, ranks_per_node: int | None) -> tuple[float, float, float]:
    """The shares of Table 12: MPI in the time, point-to-point in MPI bytes, between nodes in point-to-point bytes."""
    share = source.terms.t_mpi / source.terms.t_total
    if source.record is not None:
        machine = source.record["machine"]
        if machine["ranks"] > machine["ranks_per_node"]:
            raise ModelError("a run record does not say which messages went between nodes: give a trace (--trace)")
        return share, 1.0, 0.0  # all ranks were on one node
    from weft.traces import load
    from weft.traces.table import Category

    trace = load(source.path, window=source.window)
    mpi = (trace.category == Category.mpi) & (trace.bytes > 0)
    if not mpi.any():
        if (trace.on_stream() & trace.of(Category.mpi)).any():
            raise ModelError("communication is inside kernels of NCCL or RCCL, without sizes and peers of messages")
        raise ModelError("the trace has no MPI message with a size")
    if ranks_per_node is None:
        raise ModelError("a trace does not say which ranks share a node: give --ranks-per-node")
    addressed = mpi & (trace.peer >= 0)
    off_node = addressed & (trace.process // ranks_per_node != trace.peer // ranks_per_node)
    whole, direct, far = (float(np.sum(trace.bytes[m], dtype=np.int64)) for m in (mpi, addressed, off_node))
    return share, direct / whole, far / direct if direct else 0.0


def unified_memory(
    sources: Sequence[Source], here: roofline.Constants | None, there: roofline.Constants | None
) -> Result:
    """Section 9.1: performance with data in the host's memory relative to the device's, by Eq. 8."""
    if here is None or there is None:
        raise ModelError("needs the constants of two memories: give --memory and --unified")
    record = sources[0].record
    if record is None:
        raise ModelError("a trace does not count memory accesses: give a run record")
    size, method = roofline.run_pattern(record)
    values = []
    for lines in (True, False):
        pattern = roofline.poisson_iteration(size, method, lines=lines)
        values.append(roofline.relative_performance(pattern, there, here))
    inputs = {"elements": size.elements, "N": size.order}
    low, high = min(values), max(values)
    return Result("table13", "unified memory", values[0], "x", low, high, inputs, "Eq. 8", roofline.RANGE)


def label(source: Source) -> str:
    """The name of an application: workload, mesh, order, ranks and device of a record; file name of a trace."""
    if source.record is None:
        return source.application
    figures = source.record.get("figures", {})
    try:
        machine = source.record["machine"]
        parts = [str(figures["mesh"])] if "mesh" in figures else []
        parts += [f"N = {figures['order']}"] if "order" in figures else []
        parts += [f"{machine['ranks']} rank{'s' * (machine['ranks'] != 1)}", str(machine["device"]["backend"])]
    except (KeyError, TypeError) as error:
        raise ModelError(f"{source.path}: the record does not describe its machine: {error} is missing") from None
    return f"{source.application} ({', '.join(parts)})"


def rows(
    paths: Sequence[str | Path],
    *,
    ranks_per_node: int | None = None,
    acceleration: float,
    here: roofline.Constants | None = None,
    there: roofline.Constants | None = None,
    window: Window = WHOLE,
) -> list[Row]:
    """One row per application among the run records and traces; several runs of an application give ranges.

    The ratio.json of a sweep applies to the records of its workload. Raises ModelError if no run is named.
    """
    sweeps: dict[str, list[Run]] = defaultdict(list)
    applications: dict[str, list[Source]] = defaultdict(list)
    for path in paths:
        sweep = ratio_file(path)
        if sweep is not None:
            sweeps[sweep[0]] += sweep[1]
            continue
        source = read(path, window)
        applications[label(source)].append(source)
    if not applications:
        raise ModelError(
            "no run is named: give run directories, run.json files or traces (a ratio.json only adds to these)"
        )
    found = []
    for name, sources in applications.items():
        values = (
            evaluate(coupling, sources, TIGHTER),
            evaluate(cores, sweeps.get(sources[0].application, [])),
            evaluate(coupling, sources, LOOSER),
            evaluate(merged_nodes, sources, ranks_per_node, acceleration),
            evaluate(unified_memory, sources, here, there),
            Cell(None, "the run used no FPGA; 'weft model pipeline' models one from stage times"),
        )
        notes = tuple(dict.fromkeys(n for s in sources for n in s.notes))
        cells = dict(zip(COLUMNS, values, strict=True))
        found.append(Row(name, cells, integration.mean([s.terms for s in sources]), len(sources), notes))
    return found


def console(table: Sequence[Row]) -> list[tuple[str, ...]]:
    """The rows of the table, with its header."""
    lines: list[tuple[str, ...]] = [("APPLICATION", *(c.upper() for c in COLUMNS))]
    return lines + [(r.application, *(r.cells[c].text for c in COLUMNS)) for r in table]


def details(table: Sequence[Row]) -> list[tuple[str, ...]]:
    """One line per cell: its value with range and equation, or the reason why it was not evaluated."""
    lines: list[tuple[str, ...]] = []
    for row in table:
        for name, cell in row.cells.items():
            text = f"{cell.result.text}   {cell.result.equation}" if cell.result is not None else f"N/E: {cell.why}"
            lines.append((row.application, name, text))
        lines += [(row.application, "note", n) for n in row.notes]
    return lines


# --- statistics over columns (section 11) --------------------------------------------------------------------------


def median(column: Sequence[float]) -> float:
    """The median of a column's values."""
    return float(statistics.median(column))


def count_at_least(column: Sequence[float], limit: float, *, strictly: bool = False) -> int:
    """The number of values in a column that reach `limit`, or with `strictly` exceed it."""
    return sum(x > limit or (x == limit and not strictly) for x in column)
