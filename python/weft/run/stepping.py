"""Common parts of time-dependent runs: schedules, stopping on signals, tables, reference data."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from mpi4py import MPI

from weft import mpi
from weft.cases.schema import LARGEST
from weft.files import whole
from weft.record import Reference, Row

HISTORY_ROWS = 2000  # maximum number of rows of a table in the record, for the plots of the report


Cells = Sequence[float | str]


def due(step: int, every: int) -> bool:
    """Whether an action is due after this step; `every` is the number of steps from one action to the next, or 0."""
    return every > 0 and step % every == 0


def next_due(step: int, every: int) -> float:
    """The next step, after this one, at which the action is due."""
    return (step // every + 1) * every if every > 0 else math.inf


def steps_to(span: float, dt: float) -> int:
    """The number of steps, no longer than dt, that a span of time takes.

    Raises CollectiveError if they are more than a run can take.
    """
    count = span / dt * (1 - 1e-12)
    if not count < LARGEST:
        raise mpi.CollectiveError(
            f"case key 'time.end': {count:.1e} time steps of {dt:.3g} are needed; allowed: at most {LARGEST:,} "
            "steps; choose an earlier time.end"
        )
    return max(1, math.ceil(count))


def require_end_ahead(end: float, since: float) -> None:
    """Raises CollectiveError if the end of a run (0: none) lies before the time ``since`` at which it begins.

    An end that has just been reached is allowed: a run that was stopped in its last step continues to its final output.
    """
    if 0 < end < since * (1 - 1e-12):
        raise mpi.CollectiveError(
            f"case key 'time.end': found {end:g}, but the checkpoint is at time {since:g}; allowed: not before that"
        )


class Goal:
    """The end of a run: after a number of steps or at a time, whichever comes first; 0 means no such limit."""

    def __init__(self, steps: int, end: float, first_step: int, first_time: float) -> None:
        self.steps, self.end, self.first_step, self.first_time = steps, end, first_step, first_time

    def reached(self, step: int, time: float) -> bool:
        """Whether the run ends here; all ranks return the same."""
        if self.steps > 0 and step - self.first_step >= self.steps:
            return True
        return self.end > 0 and time >= self.end * (1 - 1e-12)

    def fraction(self, step: int, time: float) -> float:
        """The fraction of the run that is done."""
        parts = [(step - self.first_step) / self.steps] if self.steps > 0 else []
        if self.end > self.first_time:
            parts.append((time - self.first_time) / (self.end - self.first_time))
        return min(1.0, max(parts, default=1.0))


def after(checkpoint: str, every: int) -> str:
    """The part of an error message that names the run's latest checkpoint. `every`: the case's `checkpoint.every`."""
    if checkpoint:
        return f"the last checkpoint is {checkpoint}"
    return "there is no checkpoint yet" if every else "there is no checkpoint (set checkpoint.every to write some)"


def clean(row: Mapping[str, float]) -> Row:
    """The value with NaN and infinities, which JSON lacks, replaced by None."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


def thinned(rows: Sequence[Mapping[str, float]]) -> list[Row]:
    """At most about HISTORY_ROWS of the rows, including the last, without NaN or infinities."""
    kept = list(rows[:: max(1, math.ceil(len(rows) / HISTORY_ROWS))])
    if rows and kept[-1] is not rows[-1]:
        kept.append(rows[-1])
    return [clean(row) for row in kept]


class Table:
    """A CSV file that grows during a run. A run that continues from a checkpoint keeps the rows up to its first
    step."""

    def __init__(self, path: Path, head: Sequence[str], since_step: int | None) -> None:
        kept: list[list[str]] = []
        if since_step is not None and path.exists():
            with path.open(newline="") as old:
                rows = list(csv.reader(old))
            if rows and rows[0] == list(head):
                complete = [r for r in rows[1:] if len(r) == len(head) and r[0].isdigit()]
                kept = [r for r in complete if int(r[0]) <= since_step]
        self.path = path
        self.steps = {int(r[0]) for r in kept}
        with whole(path) as place, place.open("w", newline="") as new:
            csv.writer(new, lineterminator="\n").writerows([head, *kept])

    def add(self, rows: Sequence[Cells]) -> None:
        """Appends rows, whose first column is the step; a step that is already in the file is not written again."""
        fresh = [[number(v) for v in r] for r in rows if int(r[0]) not in self.steps]
        with self.path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(fresh)
        self.steps |= {int(r[0]) for r in rows}


def number(value: float | str) -> str:
    """A value for a CSV file: numbers with full precision; NaN becomes an empty cell."""
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else repr(float(value))
    return str(value)


def read_reference(path: str, comm: MPI.Intracomm) -> Reference:
    """Reads the columns time, energy and dissipation of a text file, in which # begins a comment. (collective)

    Raises CollectiveError if the file cannot be read.
    """

    def read() -> Reference:
        try:
            columns = np.loadtxt(path, comments="#", ndmin=2)
        except OSError as error:
            raise ValueError(f"case key 'reference': {path}: {error.strerror or error}") from None
        except ValueError as error:
            raise ValueError(f"case key 'reference': {path}: {error}") from None
        if columns.shape[0] < 2 or columns.shape[1] < 3:
            raise ValueError(
                f"case key 'reference': {path}: expected columns time, energy, dissipation and at least two rows"
            )
        time, energy, dissipation = columns[:, :3].T.tolist()
        return {"name": Path(path).stem, "time": time, "energy": energy, "dissipation": dissipation}

    return mpi.together(comm, read)


def compared(history: Sequence[Mapping[str, float]], reference: Reference) -> Reference:
    """The largest difference from a reference over the common time span, relative to the largest reference value."""
    times = np.array([r["time"] for r in history])
    inside = (times >= reference["time"][0]) & (times <= reference["time"][-1])

    def largest_error(key: Literal["energy", "dissipation"]) -> float | None:
        if not inside.any():
            return None
        mine = np.array([r[key] for r in history])
        other = np.interp(times, reference["time"], reference[key])
        return float(np.max(np.abs(mine - other)[inside])) / float(np.max(np.abs(reference[key])))

    stride = max(1, len(reference["time"]) // 500)
    return {
        "name": reference["name"],
        "largest_energy_error": largest_error("energy"),
        "largest_dissipation_error": largest_error("dissipation"),
        "time": reference["time"][::stride],
        "energy": reference["energy"][::stride],
        "dissipation": reference["dissipation"][::stride],
    }
