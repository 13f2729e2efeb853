"""A window of a trace: a span of time, a named range, and some of its ranks, threads and streams.

All commands that read traces take the same window, and `weft.traces.load` cuts it out of the event table. Whatever
reads the table afterwards sees a smaller trace, with notes that say what was cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from weft.format import seconds
from weft.traces import messages
from weft.traces.launches import Launches
from weft.traces.table import COLUMNS, Category, Line, Trace, in_time

_STEPS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?$")
_STEP = re.compile(r"(?:.*(?:step|iteration)\D{0,3})?0*(\d{1,9})$", re.IGNORECASE)
_ANNOTATIONS = ", annotations"  # annotations of streams are on lines of the host
_LISTED = 8  # maximum number of names in an error


@dataclass(frozen=True)
class Window:
    """The part of a trace to keep; a field that is not given keeps everything.

    start, end   nanoseconds since the first event of the trace
    range        a range that the program named (NVTX, roctx, record_function): its NAME, NAME#K for its K-th occurrence
                 from 0, a pattern with * and ?, or the number of a step, or FIRST-LAST for several steps
    ranks        processes, by the number that the table has
    threads      threads of the host, by label or by the end of it: '7' keeps 'thread 7'
    streams      streams of devices, by label or by the end of it: '7' keeps 'device 0 stream 7'
    """

    start: int | None = None
    end: int | None = None
    range: str | None = None
    ranks: tuple[int, ...] = ()
    threads: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) not in (None, ()) for f in fields(self))

    def cut(self, trace: Trace) -> Trace:
        """The part of a trace inside this window.

        Events that cross its edges are clipped there, and bytes of copies are reduced in proportion. A range is
        searched in every process, and each process is cut to its own occurrences; processes without the range are cut
        to the time of all others. Raises ValueError if the window names something that the trace does not have, or if
        nothing is left.
        """
        if not self:
            return trace
        notes: list[str] = []
        call = Launches(trace).call
        keep = self._lines_kept(trace, call)
        low, high = self._times(trace, keep, notes)
        start, end, inside = _clipped(trace, low, high)
        inside &= keep
        if not inside.any():
            raise ValueError(
                f"{trace.path}: the window has no events; the trace spans 0 to {trace.span / 1e9:.9g} s, on "
                f"{_some(sorted({line.label for line in trace.lines}))}"
            )
        clipped = inside & ((start > trace.start) | (end < trace.end))
        lone = _without_partner(trace, inside)
        notes.append(_said(trace, inside, start, end, clipped, len(lone)))
        notes += _launches_cut(call, inside)
        return _table(trace, inside, start, end, clipped, lone, notes)

    def _lines_kept(self, trace: Trace, call: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the events on the ranks, threads and streams of the window."""
        keep = np.ones(len(trace), dtype=bool)
        if self.ranks:
            missing = sorted(set(self.ranks) - set(trace.processes))
            if missing:
                have = _some([str(p) for p in trace.processes])
                raise ValueError(f"{trace.path}: the trace has no rank {missing[0]}; its ranks or processes are {have}")
            keep &= np.isin(trace.process, self.ranks)
        stream = np.array([_on_device(line) for line in trace.lines], dtype=bool)[trace.line]
        if self.threads:
            mine = _on_lines(trace, self.threads, device=False)
            # Work on a stream belongs to the thread that launched it. Work without a known launch stays.
            keep &= np.where(stream, (call < 0) | mine[call], mine)
        if self.streams:
            keep &= ~stream | _on_lines(trace, self.streams, device=True)
        return keep

    def _times(
        self, trace: Trace, keep: NDArray[np.bool_], notes: list[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first and last time to keep, for each event."""
        low = np.full(len(trace), 0 if self.start is None else self.start, dtype=np.int64)
        high = np.full(len(trace), np.iinfo(np.int64).max if self.end is None else self.end, dtype=np.int64)
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError(
                f"{trace.path}: the window ends at {self.end / 1e9:g} s, before it begins at {self.start / 1e9:g} s"
            )
        if self.range is None:
            return low, high
        found = occurrences(trace, self.range)
        found = found[keep[found] & (trace.end[found] > low[found]) & (trace.start[found] < high[found])]
        if len(found) == 0:
            raise ValueError(
                f"{trace.path}: no range '{self.range}' in this part of the trace; {_near(trace, self.range)}"
            )
        first, last = int(trace.start[found].min()), int(trace.end[found].max())
        inside = trace.process[found]
        for process in trace.processes:
            mine = found[inside == process]
            here = trace.process == process
            begin = int(trace.start[mine].min()) if len(mine) else first
            finish = int(trace.end[mine].max()) if len(mine) else last
            low[here], high[here] = np.maximum(low[here], begin), np.minimum(high[here], finish)
        if len(found) > len(np.unique(inside)) and not _STEPS.match(self.range):
            names = ", ".join(f"'{trace.names[i]}'" for i in np.unique(trace.name[found])[:3])
            notes.append(
                f"the range '{self.range}' occurs {len(found)} times ({names}); the window reaches from the first "
                f"start to the last end, and '{self.range}#0' takes the first alone"
            )
        return low, high


WHOLE = Window()


def spans(trace: Trace, text: str) -> list[NDArray[np.int64]]:
    """The first and last time of each occurrence of a range (see `Window.range`), as a row for each of `processes`.

    The k-th occurrences of all processes belong together. Processes without the range use the times of the first
    process that has it. Occurrences that overlap the previous one or are missing in some processes are left out.
    """
    found = occurrences(trace, text)
    rows: dict[int, list[tuple[int, int]]] = {}
    for event in found.tolist():
        mine = rows.setdefault(int(trace.process[event]), [])
        if not mine or int(trace.start[event]) >= mine[-1][1]:
            mine.append((int(trace.start[event]), int(trace.end[event])))
    if not rows:
        raise ValueError(f"{trace.path}: no range '{text}'; {_near(trace, text)}")
    first, processes = next(iter(rows.values())), trace.processes
    return [
        np.array([rows.get(p, first)[k] for p in processes], dtype=np.int64)
        for k in range(min(map(len, rows.values())))
    ]


def parts(trace: Trace, edges: list[NDArray[np.int64]]) -> Iterator[Trace]:
    """The events of each of some spans of time (see `spans`), clipped to it; a table may be empty."""
    processes = trace.processes
    which = np.searchsorted(processes, trace.process)
    for edge in edges:
        # A span has few of the events: only these are clipped.
        near = trace.select((trace.start < edge[which, 1]) & (trace.end >= edge[which, 0]))
        low, high = edge[np.searchsorted(processes, near.process)].T
        start, end, inside = _clipped(near, low, high)
        yield _table(near, inside, start, end, inside & ((start > near.start) | (end < near.end)), [], [])


def _clipped(
    trace: Trace, low: NDArray[np.int64], high: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Starts and ends clipped to a span of time, and which events are inside it."""
    start, end = np.maximum(trace.start, low), np.minimum(trace.end, high)
    # An event without length is inside if it does not lie on the end of the span.
    return start, end, (end > start) | ((trace.start == trace.end) & (trace.start >= low) & (trace.start < high))


def occurrences(trace: Trace, text: str) -> NDArray[np.int64]:
    """The events of the host that a range names (see `Window.range`), in the order of their starts."""
    host = _on_host(trace)

    def named(wanted: Iterable[int]) -> NDArray[np.int64]:
        return np.flatnonzero(host & np.isin(trace.name, np.fromiter(wanted, dtype=np.int64)))

    found = named(i for i, name in enumerate(trace.names) if name == text)
    if len(found):
        return found
    if steps := _STEPS.match(text):
        first, last = int(steps[1]), int(steps[2] or steps[1])
        numbers = ((i, _STEP.match(name)) for i, name in enumerate(trace.names))
        found = named(i for i, m in numbers if m and first <= int(m[1]) <= last)
        if len(found):
            return found
    name, hash_, number = text.rpartition("#")
    if hash_ and number.isascii() and number.isdigit() and len(number) < 10:
        found = occurrences(trace, name)
        kth = [found[trace.process[found] == p][int(number) : int(number) + 1] for p in np.unique(trace.process[found])]
        if any(len(k) for k in kth):
            return np.sort(np.concatenate(kth))
    if "*" in text or "?" in text:
        return named(i for i, name in enumerate(trace.names) if fnmatchcase(name, text))
    return found


def named_ranges(trace: Trace) -> NDArray[np.bool_]:
    """Mask of the ranges that the program named on its threads, without calls into the system."""
    system = np.array([line.label.endswith(", system") for line in trace.lines], dtype=bool)[trace.line]
    return _on_host(trace) & (trace.category == Category.other) & ~system


def _on_host(trace: Trace) -> NDArray[np.bool_]:
    return ~np.array([_on_device(line) for line in trace.lines], dtype=bool)[trace.line]


def _near(trace: Trace, text: str) -> str:
    """The names of existing ranges, for an error."""
    named = named_ranges(trace)
    names = [trace.names[i] for i in np.unique(trace.name[named if named.any() else _on_host(trace)])]
    near = get_close_matches(text, names, n=1)
    return f"did you mean '{near[0]}'?" if near else f"the ranges are {_some([repr(n) for n in names])}"


def _some(texts: list[str]) -> str:
    shown = ", ".join(t if len(t) <= 60 else t[:59] + "…" for t in texts[:_LISTED]) or "none"
    return f"{shown} and {len(texts) - _LISTED} more" if len(texts) > _LISTED else shown


def _on_device(line: Line) -> bool:
    """Whether a line is a stream or has the annotations of one."""
    return line.kind == "stream" or line.label.endswith(_ANNOTATIONS)


def _on_lines(trace: Trace, wanted: tuple[str, ...], device: bool) -> NDArray[np.bool_]:
    """Mask of the events on the streams or threads whose label is one of those wanted, or ends with it."""
    here = [line for line in trace.lines if _on_device(line) == device]
    chosen = np.zeros(len(trace.lines), dtype=bool)
    for text in wanted:
        hits = {x for x in here if x.label == text or f" {x.label.split(',')[0]}".endswith(f" {text}")}
        if not hits:
            have = _some(list(dict.fromkeys(x.label for x in here)))
            what = "stream" if device else "thread"
            raise ValueError(f"{trace.path}: the trace has no {what} '{text}'; it has {have}")
        chosen |= np.array([line in hits for line in trace.lines])
    return chosen[trace.line]


def _without_partner(trace: Trace, inside: NDArray[np.bool_]) -> list[int]:
    """The messages and collectives inside the window whose other side the window has cut."""
    if not (trace.category == Category.mpi)[inside].any() or inside.all():
        return []
    kinds = [messages.kind(name) for name in trace.names]
    found = messages.match(trace, messages.calls(trace, kinds), kinds)
    kept = set(np.unique(trace.process[inside]).tolist())
    lone = [a for a, b in found.partner.items() if inside[a] and not inside[b]]
    for joined in found.joined:
        mine = [event for process, event in joined.events.items() if process in kept]
        lone += [e for e in mine if inside[e]] if not inside[mine].all() else []
    return lone


def _said(
    trace: Trace,
    inside: NDArray[np.bool_],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    clipped: NDArray[np.bool_],
    lone: int,
) -> str:
    """A sentence on what the window keeps and cuts."""
    events = int(clipped.sum())
    text = (
        f"the window keeps {int(inside.sum()):,} of {len(trace):,} events, of the time from "
        f"{seconds(int(start[inside].min()) * 1e-9)} to {seconds(int(end[inside].max()) * 1e-9)} of "
        f"{seconds(trace.span * 1e-9)}"
    )
    if events:
        text += f"; {events:,} event{'s' * (events > 1)} across its edges clipped, bytes of copies in proportion"
    if lone:
        text += f"; MPI calls whose other side is cut ({lone:,}) keep their time and send nothing"
    return text


def _launches_cut(call: NDArray[np.int64], inside: NDArray[np.bool_]) -> list[str]:
    work = np.flatnonzero(call >= 0)
    orphans = int((inside[work] & ~inside[call[work]]).sum())
    later = int((~inside[work] & inside[call[work]]).sum())
    notes = [f"{orphans:,} pieces of device work in the window were launched outside of it"] if orphans else []
    return notes + ([f"{later:,} launches in the window start device work outside of it"] if later else [])


def _table(
    trace: Trace,
    inside: NDArray[np.bool_],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    clipped: NDArray[np.bool_],
    lone: list[int],
    notes: list[str],
) -> Trace:
    """The events inside with their new times, sorted again, on a clock that starts with the first of them."""
    moved, name, names = trace.bytes.copy(), trace.name.copy(), list(trace.names)
    part = np.flatnonzero(clipped & (trace.category == Category.copy) & (moved > 0))
    share = (end - start)[part] / (trace.end - trace.start)[part]
    moved[part] = np.rint(moved[part] * share).astype(np.int64)
    for event in lone:  # a name of its own, by which no model takes the call for a message
        names.append(f"{trace.names[trace.name[event]]}, cut")
        name[event] = len(names) - 1
    if lone:
        unique = list(dict.fromkeys(names))
        number = {text: i for i, text in enumerate(unique)}
        name, names = np.array([number[text] for text in names], dtype=np.int32)[name], unique
    index = np.flatnonzero(inside)
    index = index[in_time(start[index], end[index], trace.on_stream()[index])]
    zero = int(start[index[0]]) if len(index) else 0
    columns = {c: getattr(trace, c)[index] for c in COLUMNS}
    columns |= {"start": start[index] - zero, "end": end[index] - zero, "bytes": moved[index], "name": name[index]}
    requires = trace.requires
    if requires is not None:
        place = np.full(len(trace), -1, dtype=np.int64)
        place[index] = np.arange(len(index))
        requires = place[requires[inside[requires].all(axis=1)]]
    return replace(
        trace, names=tuple(names), origin=trace.origin + zero, requires=requires, notes=(*trace.notes, *notes),
        **columns,
    )  # fmt: skip
