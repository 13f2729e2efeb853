"""The event table: columns that say what happened on which time line, and from when to when.

Every reader of this package fills it, whatever the format of the file, and all models and reports read only this table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Kind = Literal["host", "stream"]
Column = NDArray[Any]  # each column has an integer type of its own


class Category(IntEnum):
    """The category of an event.

    ``copy`` moves data between host and device, on a stream or as a blocking call on the host. ``launch`` is a call
    into the device's runtime that does not wait, and ``sync`` one that waits for the device. In ``wait`` a thread waits
    for time or another thread, or polls: it does no work (`weft.traces.waiting`). ``other`` names what runs.
    """

    cpu = 0
    gpu = 1
    mpi = 2
    copy = 3
    launch = 4
    sync = 5
    other = 6
    wait = 7


@dataclass(frozen=True)
class Line:
    """A time line: a thread of the host, or a stream (queue) of a device."""

    process: int
    label: str
    kind: Kind


@dataclass(frozen=True)
class Trace:
    """Events in columns of the same length n, in the order of `in_time`.

    process      int32, the rank if the file has ranks, otherwise the process number of the operating system
    line         int32, index into `lines`
    start, end   int64, nanoseconds since the first event of the trace
    category     int8, a `Category`
    name         int32, index into `names`
    bytes        int64, bytes moved or sent by the event; -1 if unknown
    peer         int32, the other process (or the root) of a message; -1 if there is none
    correlation  int64, the same for an API call, the device work it launched and the messages that this carries
                 (`weft.traces.transfers`), and for a non-blocking MPI call and the wait that completes it; -1 if none
    group        int64, for MPI calls: messages of two processes match in their order within a group (communicator and
                 tag), and so do the collectives of a group (communicator); -1 if unknown
    """

    format: str
    path: str
    process: NDArray[np.int32]
    line: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    category: NDArray[np.int8]
    name: NDArray[np.int32]
    bytes: NDArray[np.int64]
    peer: NDArray[np.int32]
    correlation: NDArray[np.int64]
    group: NDArray[np.int64]
    names: tuple[str, ...]
    lines: tuple[Line, ...]
    origin: int = 0  # time on the file's clock (ns) at which the clock of this trace is zero
    # (m, 2), if the file has dependencies: pairs of an event and an event that it waits for. Work and messages do not
    # start, and waiting calls do not end, before the other event has ended.
    requires: NDArray[np.int64] | None = None
    notes: tuple[str, ...] = ()  # what the reader had to ignore or assume, in sentences
    epoch: int = 0  # time (ns since 1970) at which the file's clock is zero, if it says so
    rank: int = -1  # the rank of the file, if it says so
    world: int = -1  # number of ranks of the run, if the file says so

    def __len__(self) -> int:
        return len(self.start)

    @property
    def processes(self) -> list[int]:
        """The processes that have events, in ascending order."""
        return [int(p) for p in np.unique(self.process)]

    @property
    def process_noun(self) -> str:
        """The name for a process: 'rank' if the file says so or the processes are numbered from 0, else 'process'."""
        processes = self.processes
        ranks = self.rank >= 0 or processes[-1] < self.world or processes == list(range(len(processes)))
        return "rank" if ranks else "process"

    @property
    def began(self) -> int:
        """The time (ns) at which the clock of this trace is zero: since 1970 if the file says it, else on its clock."""
        return self.epoch + self.origin

    @property
    def span(self) -> int:
        """The time from the first start to the last end, in nanoseconds."""
        return int(self.end.max() - self.start.min()) if len(self) else 0

    def select(self, mask: ArrayLike) -> Trace:
        """The events for which `mask` (bool, length n) is true; names, lines and the clock's origin stay the same."""
        keep = np.asarray(mask, dtype=bool)
        columns = {c: getattr(self, c)[keep] for c in COLUMNS}
        requires = self.requires
        if requires is not None:
            place = np.cumsum(keep) - 1
            requires = place[requires[keep[requires].all(axis=1)]]
        return replace(self, requires=requires, **columns)

    def of(self, *categories: Category) -> NDArray[np.bool_]:
        """Mask of the events that have one of these categories."""
        return np.isin(self.category, np.array(categories, dtype=np.int8))

    def on_stream(self) -> NDArray[np.bool_]:
        """Mask of the events on device streams."""
        return np.array([line.kind == "stream" for line in self.lines], dtype=bool)[self.line]

    def overlaps(self) -> NDArray[np.int64]:
        """Indices of the events on streams that start before an earlier event on the same stream has ended."""
        index = np.flatnonzero(self.on_stream())
        index = index[np.argsort(self.line[index], kind="stable")]  # starts ascend within a line
        line, start, end = self.line[index], self.start[index], self.end[index]
        # The largest end so far on the line. All lines are placed one after another on one axis for a single pass.
        offset = line.astype(np.int64) * (int(self.end.max(initial=0)) + 1)
        before = np.maximum.accumulate(end + offset)[:-1]
        late = np.flatnonzero((line[1:] == line[:-1]) & (start[1:] + offset[1:] < before)) + 1
        return np.sort(index[late])

    def validate(self) -> None:
        """Raises ValueError if the table cannot be trusted.

        That is the case if it has no events, if events end before they start, or if events on the same stream overlap,
        because then the file mixes streams or its clock is wrong.
        """
        check_events(self)
        late = self.overlaps()
        if len(late):
            raise ValueError(
                f"{self.path}: {len(late)} of {int(self.on_stream().sum())} events on streams start before an earlier "
                f"event on the same stream has ended; the first is {describe(self, int(late[0]))}"
            )


COLUMNS = ("process", "line", "start", "end", "category", "name", "bytes", "peer", "correlation", "group")
_TYPES: tuple[type[np.signedinteger], ...] = (
    np.int32,
    np.int32,
    np.int64,
    np.int64,
    np.int8,
    np.int32,
    np.int64,
    np.int32,
    np.int64,
    np.int64,
)
_DEFAULTS = {"bytes": -1, "peer": -1, "correlation": -1, "group": -1}
_LONGEST = 2**62  # nanoseconds, 146 years; longer differences of times would overflow


def in_time(start: Column, end: Column, on_stream: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The order by start. Of events that start together, the longer comes first, because it may contain the other.

    On a stream events do not contain others, so an event of length 0 comes first: it has ended when the other starts.
    """
    longest_first = np.where(on_stream & (start == end), np.iinfo(np.int64).min, -end)
    return np.lexsort((longest_first, start))


def distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct values in ascending order.

    `np.unique` hashes, which takes far longer if most values are distinct.
    """
    ordered = np.sort(values)
    new = np.ones(len(ordered), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return ordered[new]


def per_line(trace: Trace, events: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Some events, in the table's order, as one array per time line."""
    grouped = events[np.argsort(trace.line[events], kind="stable")]
    cuts = np.flatnonzero(np.diff(trace.line[grouped])) + 1
    return np.split(grouped, cuts) if len(grouped) else []


def per_process(trace: Trace) -> list[NDArray[np.int64]]:
    """The events of each of the `processes`, in the table's order."""
    order = np.argsort(trace.process, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(trace.process[order])) + 1)


def describe(trace: Trace, event: int) -> str:
    """A description of an event, for messages."""
    line = trace.lines[trace.line[event]]
    owner = f" of process {line.process}" if line.process >= 0 else ""  # not known while the file is being read
    return (
        f"'{trace.names[trace.name[event]]}' on {line.label}{owner}, "
        f"{trace.start[event]} to {trace.end[event]} ns after the first event"
    )


def check_events(trace: Trace) -> None:
    """Raises ValueError if there are no events or if an event ends before it starts."""
    if len(trace) == 0:
        raise ValueError(f"{trace.path}: this {trace.format} file has no events")
    backwards = np.flatnonzero(trace.end < trace.start)
    if len(backwards):
        raise ValueError(
            f"{trace.path}: the clock runs backwards: {len(backwards)} of {len(trace)} events end before they start; "
            f"the first is {describe(trace, int(backwards[0]))}"
        )


class Builder:
    """Builds a Trace from chunks of columns, and from lines and names given as text."""

    def __init__(self, format: str, path: str | Path) -> None:
        self.format, self.path = format, str(path)
        self.notes: list[str] = []
        self._names: dict[str, int] = {}
        self._lines: dict[Line, int] = {}
        self._chunks: list[dict[str, Column]] = []

    def name(self, text: str) -> int:
        """The number of a name, which is added if it is new."""
        return self._names.setdefault(text, len(self._names))

    def line(self, process: int, label: str, kind: Kind) -> int:
        """The number of a time line, which is added if it is new."""
        if not -(2**31) <= process < 2**31:
            raise ValueError(f"{self.path}: process number {process} is out of range")
        return self._lines.setdefault(Line(process, label, kind), len(self._lines))

    def add(self, **columns: ArrayLike) -> None:
        """Adds events: `line`, `start`, `end` (ns on the file's clock), `category` and `name`, and `bytes`, `peer`,
        `correlation` and `group` if they are known. Columns have the length of `start`, or are scalars for all events.
        """
        n = len(np.atleast_1d(np.asarray(columns["start"])))
        if n == 0:
            return
        chunk = {}
        for column, type_ in zip(COLUMNS, _TYPES, strict=True):
            if column == "process":
                continue
            value = columns.get(column, _DEFAULTS.get(column))
            try:
                array = np.asarray(value)
                if array.dtype.kind not in "iu":
                    array = array.astype(np.int64, casting="unsafe" if array.dtype == object else "same_kind")
                limits = np.iinfo(type_)
                if array.size and (array.min() < limits.min or array.max() > limits.max):
                    raise OverflowError
                chunk[column] = np.ascontiguousarray(np.broadcast_to(array.astype(type_), n))
            except (OverflowError, TypeError, ValueError):
                raise ValueError(f"{self.path}: column '{column}' has values that are not {np.dtype(type_)}") from None
        self._chunks.append(chunk)

    def __len__(self) -> int:
        return sum(len(c["start"]) for c in self._chunks)

    def build(self, requires: NDArray[np.int64] | None = None) -> Trace:
        """The table, sorted, with its clock starting at zero. `requires` numbers events in the order of their addition.

        Raises ValueError if there are no events or if an event ends before it starts.
        """
        columns: dict[str, Any] = {}
        for column, type_ in zip(COLUMNS, _TYPES, strict=True):
            if column != "process":
                parts = [c.pop(column) for c in self._chunks]
                columns[column] = np.concatenate(parts) if parts else np.zeros(0, type_)
        self._chunks.clear()
        processes = np.array([line.process for line in self._lines], dtype=np.int32)
        columns["process"] = processes[columns["line"]]
        origin = int(columns["start"].min(initial=0)) if len(columns["start"]) == 0 else int(columns["start"].min())
        if len(columns["start"]) and max(int(columns["end"].max()), int(columns["start"].max())) - origin > _LONGEST:
            raise ValueError(f"{self.path}: the times of this {self.format} file span more than 146 years")
        columns["start"] -= origin
        columns["end"] -= origin
        on_stream = np.array([line.kind == "stream" for line in self._lines], dtype=bool)[columns["line"]]
        order = in_time(columns["start"], columns["end"], on_stream)
        if requires is not None:
            place = np.empty(len(order), dtype=np.int64)
            place[order] = np.arange(len(order))
            requires = place[requires]
        columns = {c: v[order] for c, v in columns.items()}
        trace = Trace(
            self.format,
            self.path,
            names=tuple(self._names),
            lines=tuple(self._lines),
            origin=origin,
            requires=requires,
            notes=tuple(self.notes),
            **columns,
        )
        check_events(trace)
        return trace
