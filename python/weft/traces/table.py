"""The one event table: what happened on which time line from when to when, in columns.

Every reader of this package fills it, whatever the file's format; everything that models or reports reads only it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Kind = Literal["host", "stream"]


class Category(IntEnum):
    """What an event is. ``copy`` moves data between host and device, on a stream or as a blocking call on the host;
    ``launch`` is a call into the device's runtime that does not wait, ``sync`` one that waits for the device."""

    cpu = 0
    gpu = 1
    mpi = 2
    copy = 3
    launch = 4
    sync = 5
    other = 6


@dataclass(frozen=True)
class Line:
    """A time line: a thread of the host, or a stream (queue) of a device."""

    process: int
    label: str
    kind: Kind


@dataclass(frozen=True)
class Trace:
    """Events in columns of one length n, in the order of their starts (of those that start together, the longer first).

    process      int32, the rank where the file tells ranks, else the operating system's process number
    line         int32, index into `lines`
    start, end   int64, nanoseconds since the trace's first event
    category     int8, a `Category`
    name         int32, index into `names`
    bytes        int64, what the event moved or sent, -1 where unknown
    peer         int32, the other process (or the root) of a message, -1 where none
    correlation  int64, equal on an API call and the device work it launched, and on an MPI call that only starts
                 something and the wait that ends it, -1 where none
    group        int64, of an MPI call: messages of two processes match in their order within a group (communicator and
                 tag), so do collectives of a group (communicator); -1 where unknown
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
    origin: int = 0  # nanoseconds on the file's clock at which this trace's clock is zero
    requires: NDArray[np.int64] | None = None  # (m, 2): what the file tells of an event and one it waits for: work
    # and messages do not start, and calls that wait do not end, before the other has ended
    notes: tuple[str, ...] = ()  # what a reader had to leave out or assume, in sentences

    def __len__(self) -> int:
        return len(self.start)

    @property
    def processes(self) -> list[int]:
        """The processes that have events, ascending."""
        return [int(p) for p in np.unique(self.process)]

    @property
    def span(self) -> int:
        """Nanoseconds from the first start to the last end."""
        return int(self.end.max() - self.start.min()) if len(self) else 0

    def select(self, mask: ArrayLike) -> Trace:
        """The events where `mask` (bool, length n) holds; names, lines and the clock's zero stay as they are."""
        keep = np.asarray(mask, dtype=bool)
        columns = {c: getattr(self, c)[keep] for c in COLUMNS}
        requires = self.requires
        if requires is not None:
            place = np.cumsum(keep) - 1
            requires = place[requires[keep[requires].all(axis=1)]]
        return replace(self, requires=requires, **columns)

    def of(self, *categories: Category) -> NDArray[np.bool_]:
        """Mask of the events of these categories."""
        return np.isin(self.category, np.array(categories, dtype=np.int8))

    def on_stream(self) -> NDArray[np.bool_]:
        """Mask of the events on device streams."""
        return np.array([line.kind == "stream" for line in self.lines], dtype=bool)[self.line]

    def overlaps(self) -> NDArray[np.int64]:
        """Indices of the events that start on a stream before an earlier one there has ended."""
        index = np.flatnonzero(self.on_stream())
        index = index[np.argsort(self.line[index], kind="stable")]  # starts ascend within a line
        line, start, end = self.line[index], self.start[index], self.end[index]
        # The largest end so far on the line: lines are laid one after another on one axis so that one pass does all.
        offset = line.astype(np.int64) * (int(self.end.max(initial=0)) + 1)
        before = np.maximum.accumulate(end + offset)[:-1]
        late = np.flatnonzero((line[1:] == line[:-1]) & (start[1:] + offset[1:] < before)) + 1
        return np.sort(index[late])

    def validate(self) -> None:
        """Raises ValueError where no method can trust the table: no events, ends before starts, events of one stream
        that overlap (a stream does one thing at a time, so the file mixes streams or its clock is wrong)."""
        check_events(self)
        late = self.overlaps()
        if len(late):
            raise ValueError(
                f"{self.path}: {len(late)} of {int(self.on_stream().sum())} events on streams start before an earlier "
                f"one of their stream has ended, the first {describe(self, int(late[0]))}"
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
_LONGEST = 2**62  # nanoseconds, 146 years: beyond it differences of times would overflow


def describe(trace: Trace, event: int) -> str:
    """One event in words, for messages."""
    line = trace.lines[trace.line[event]]
    return (
        f"'{trace.names[trace.name[event]]}' on {line.label} of process {line.process}, "
        f"{trace.start[event]} to {trace.end[event]} ns after the first event"
    )


def check_events(trace: Trace) -> None:
    """Raises ValueError where there is no event or one ends before it starts."""
    if len(trace) == 0:
        raise ValueError(f"{trace.path}: no events in this {trace.format} file")
    backwards = np.flatnonzero(trace.end < trace.start)
    if len(backwards):
        raise ValueError(
            f"{trace.path}: the clock runs backwards: {len(backwards)} of {len(trace)} events end before they start, "
            f"the first {describe(trace, int(backwards[0]))}"
        )


class Builder:
    """Collects columns chunk by chunk, and lines and names by their text, into a Trace."""

    def __init__(self, format: str, path: str | Path) -> None:
        self.format, self.path = format, str(path)
        self.notes: list[str] = []
        self._names: dict[str, int] = {}
        self._lines: dict[Line, int] = {}
        self._chunks: list[dict[str, NDArray[Any]]] = []

    def name(self, text: str) -> int:
        """The number of a name."""
        return self._names.setdefault(text, len(self._names))

    def line(self, process: int, label: str, kind: Kind) -> int:
        """The number of a time line."""
        if not -(2**31) <= process < 2**31:
            raise ValueError(f"{self.path}: process number {process} is out of range")
        return self._lines.setdefault(Line(process, label, kind), len(self._lines))

    def add(self, **columns: ArrayLike) -> None:
        """Events: `line`, `start`, `end` (ns on the file's clock), `category`, `name`, and of `bytes`, `peer`,
        `correlation` and `group` what is known; arrays of one length, or scalars that hold for all of `start`."""
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
                raise ValueError(f"{self.path}: column '{column}' holds what is no {np.dtype(type_)}") from None
        self._chunks.append(chunk)

    def __len__(self) -> int:
        return sum(len(c["start"]) for c in self._chunks)

    def build(self, requires: NDArray[np.int64] | None = None) -> Trace:
        """The table, sorted, its clock starting at zero; `requires` counts events in the order they were added.
        Raises ValueError without events, and where one ends before it starts."""
        columns: dict[str, NDArray[Any]] = {}
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
        order = np.lexsort((-columns["end"], columns["start"]))
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
