"""Attribution of the time of a trace to the five terms of Eq. 3 of the GPU integration report, and exclusive times.

The report adds up profiles, so that overlapping times count twice and the CPU time, which is the remainder, may become
negative. Here each instant of a process counts once, for the first of these conditions that holds:

    t_GPU         a kernel, a memset or a copy within devices is running
    t_MPI         a thread is inside MPI, or a stream in a collective between devices
    t_CGdata      a copy between host and device is running, or a thread is inside a blocking copy
    t_CGcontrol   a thread is inside the device's runtime: launching, allocating, or waiting for an idle device
    t_CPU         none of the above

Every term is therefore >= 0, and t_GPU + t_MPI + t_CGdata + t_CGcontrol + t_CPU = t_total to the nanosecond.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from weft.traces.table import Category, Trace, distinct, per_process

# Terms in order of precedence; instants that no row claims count as t_CPU.
PRECEDENCE: tuple[tuple[str, tuple[Category, ...]], ...] = (
    ("t_gpu", (Category.gpu,)),
    ("t_mpi", (Category.mpi,)),
    ("t_cg_data", (Category.copy,)),
    ("t_cg_control", (Category.launch, Category.sync)),
)


@dataclass(frozen=True)
class Terms:
    """The terms of Eq. 3 of one run, in seconds or in any other common unit of time."""

    t_cpu: float
    t_gpu: float
    t_mpi: float
    t_cg_data: float
    t_cg_control: float

    @property
    def t_total(self) -> float:
        """The run time, which is the sum of the terms (Eq. 3)."""
        return self.t_cpu + self.t_gpu + self.t_mpi + self.t_cg_data + self.t_cg_control


@dataclass(frozen=True)
class Attribution:
    """The terms of Eq. 3 of each process, as arrays of seconds in the order of `processes`.

    `nanoseconds` has the exact values, of shape (processes, 5), in the columns t_cpu, t_gpu, t_mpi, t_cg_data,
    t_cg_control.
    """

    processes: tuple[int, ...]
    nanoseconds: NDArray[np.int64]

    @property
    def t_cpu(self) -> NDArray[np.floating]:
        return self.nanoseconds[:, 0] * 1e-9

    @property
    def t_gpu(self) -> NDArray[np.floating]:
        return self.nanoseconds[:, 1] * 1e-9

    @property
    def t_mpi(self) -> NDArray[np.floating]:
        return self.nanoseconds[:, 2] * 1e-9

    @property
    def t_cg_data(self) -> NDArray[np.floating]:
        return self.nanoseconds[:, 3] * 1e-9

    @property
    def t_cg_control(self) -> NDArray[np.floating]:
        return self.nanoseconds[:, 4] * 1e-9

    @property
    def t_total(self) -> NDArray[np.floating]:
        return self.nanoseconds.sum(axis=1) * 1e-9

    def mean(self) -> Terms:
        """The mean over all processes."""
        return Terms(*(float(getattr(self, f.name).mean()) for f in fields(Terms)))

    def total(self) -> Terms:
        """The sum over all processes, in process-seconds."""
        return Terms(*(float(getattr(self, f.name).sum()) for f in fields(Terms)))


def attribute(trace: Trace) -> Attribution:
    """The terms of Eq. 3 of every process, from the start of its first event to the end of its last event.

    The sorted starts and ends of a process divide its time into segments, and running sums of +1 and -1 give the kinds
    of event that are open in each segment. Takes O(n log n) time and O(n) memory.
    """
    kind = np.full(len(Category), len(PRECEDENCE), dtype=np.int8)
    for row, (_, categories) in enumerate(PRECEDENCE):
        kind[list(categories)] = row
    found = [_divided(trace.start[i], trace.end[i], kind[trace.category[i]]) for i in per_process(trace)]
    return Attribution(tuple(trace.processes), np.roll(np.array(found, dtype=np.int64), 1, axis=1))


def _divided(start: NDArray[np.int64], end: NDArray[np.int64], kind: NDArray[np.int8]) -> NDArray[np.int64]:
    """The time (ns) of one process that each row of PRECEDENCE claims, and the rest."""
    # Only events that claim time divide segments, in addition to the first start and last end.
    claims = (kind < len(PRECEDENCE)) & (end > start)
    claimed, count = kind[claims], int(claims.sum())
    time = np.concatenate([start[claims], end[claims], [start.min(), end.max()]])
    order = np.argsort(time, kind="stable")
    length = np.diff(time[order])
    owner = np.full(len(length), len(PRECEDENCE), dtype=np.int8)
    for row in reversed(range(len(PRECEDENCE))):
        step = np.zeros(len(time), dtype=np.int8)
        mine = claimed == row
        step[:count][mine] = 1
        step[count : 2 * count][mine] = -1
        owner[np.cumsum(step[order], dtype=np.int32)[:-1] > 0] = row
    result = np.zeros(len(PRECEDENCE) + 1, dtype=np.int64)
    np.add.at(result, owner, length)
    return result


def exclusive(trace: Trace) -> NDArray[np.int64]:
    """The exclusive time of each event in ns: each instant of a time line belongs to the open event that began last.

    For nested events, this is the duration of an event minus that of the events inside it. If events overlap without
    nesting, each instant still counts once, so that the times of a line add up to the time that its events cover.
    """
    result = np.zeros(len(trace), dtype=np.int64)
    for events in per_process(trace) if len(trace) else []:
        _exclusive(trace, events, result)
    return result


def _exclusive(trace: Trace, events: NDArray[np.int64], result: NDArray[np.int64]) -> None:
    """Adds the exclusive times of the events of one process to `result`."""
    n, first, last = len(events), trace.start[events], trace.end[events]
    # All lines are placed one after another on a single axis of the ranks of the times, which cannot overflow.
    times, at = np.unique(np.concatenate([first, last]), return_inverse=True)
    order = np.lexsort((-last, first, trace.line[events]))
    line = trace.line[events][order].astype(np.int64)
    start = at[:n][order] + line * len(times)
    end = at[n:][order] + line * len(times)
    outer = previous_longer(end, line)

    # For each interval between two starts or ends on the axis: the open event that began last.
    cuts = distinct(np.concatenate([start, end]))
    owner = np.searchsorted(start, cuts, side="right") - 1
    active = np.flatnonzero(end[owner] <= cuts)
    while len(active):
        owner[active] = outer[owner[active]]
        active = active[owner[active] >= 0]
        active = active[end[owner[active]] <= cuts[active]]
    owned = np.flatnonzero(owner[:-1] >= 0)
    length = times[cuts[owned + 1] % len(times)] - times[cuts[owned] % len(times)]
    np.add.at(result, events[order[owner[owned]]], length)


def previous_longer(end: NDArray[np.int64], line: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each event, the last earlier event on its line that ends after it; -1 if there is none.

    Uses pointer jumping: all events between an event and its candidate are known to end before it, so a candidate that
    also does passes on its own candidate.
    """
    candidate = np.arange(-1, len(end) - 1)
    active = np.arange(len(end))
    while True:
        active = active[candidate[active] >= 0]
        mine = candidate[active]
        same = line[mine] == line[active]
        candidate[active[~same]] = -1
        active = active[same & (end[mine] <= end[active])]
        if len(active) == 0:
            return candidate
        candidate[active] = candidate[candidate[active]]
