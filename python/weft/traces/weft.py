"""Reader of weft's `trace.json`: Chrome trace events, where a process is a rank, thread 0 its host, others streams."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from weft.errors import reason
from weft.traces.chrome import Events, Span, nanoseconds
from weft.traces.head import Head
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "weft's trace.json"

_CATEGORIES = {c.name: int(c) for c in Category}
_BEGINNING = re.compile(r'\s*\{\s*"displayTimeUnit"\s*:\s*"ns"\s*,\s*"traceEvents"\s*:\s*\[')
_CHUNK = 1 << 16
Place = tuple[object, object]  # process and thread of an event


class _Details(msgspec.Struct, gc=False):
    """The `args` of a span, as weft's recorder writes them. Messages are pairs (peer, bytes)."""

    name: Any = ""
    bytes: Any = 0
    request: Any = -1
    group: Any = -1
    receives: Any = ()
    sends: Any = ()
    collective: Any = ""


class _Event(Span):
    args: _Details | None = None


_NOTHING = _Details()


def probe(head: Head) -> bool:
    return _BEGINNING.match(head.text) is not None


def read(path: Path) -> Trace:
    """Reads the spans of a trace.

    The recorder's category `launch` is split: waits for the device, named 'synchronize', become `sync`. A span that
    sends or receives several messages becomes as many consecutive MPI calls of equal length, named 'isend (SPAN)',
    'irecv (SPAN)' or, if it blocks, 'recv (SPAN)'. A collective is named 'allreduce (SPAN)'.
    """
    builder = Builder("weft", path)
    labels: dict[Place, str] = {}
    lines: dict[Place, int] = {}
    rows: list[tuple[int, ...]] = []
    kinds: dict[tuple[object, ...], tuple[int, int, str]] = {}  # description of each kind of event
    for number, event in enumerate(Events(path, _Event)):
        try:
            if event.ph == "M" and event.name == "thread_name":
                labels[event.pid, event.tid] = str((event.args or _NOTHING).name)
            elif event.ph == "X":
                key = event.cat, event.name, event.pid, event.tid
                kind = kinds.get(key)
                if kind is None:
                    kind = kinds[key] = _kind(event, builder, labels, lines)
                rows += _rows(event, *kind, builder)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{path}: not a trace that weft wrote: event {number} ({reason(error)})") from None
        if len(rows) >= _CHUNK:
            _flush(rows, builder)
    _flush(rows, builder)
    return builder.build()


def _kind(event: _Event, builder: Builder, labels: dict[Place, str], lines: dict[Place, int]) -> tuple[int, int, str]:
    """The line, the category and the name of an event."""
    event.check()
    rank, thread = key = event.pid, event.tid
    line = lines.get(key)
    if line is None:
        label = labels.get(key) or ("host" if thread == 0 else "device")
        line = lines[key] = builder.line(int(str(rank)), label, "host" if thread == 0 else "stream")
    name, category = str(event.name), _CATEGORIES.get(str(event.cat), int(Category.other))
    if name == "synchronize" and category == Category.launch:
        category = int(Category.sync)
    return line, category, name


def _rows(event: _Event, line: int, category: int, name: str, builder: Builder) -> list[tuple[int, ...]]:
    start = nanoseconds(event.ts)
    end = start + nanoseconds(event.dur)
    of = event.args or _NOTHING
    starts = "i" if of.request >= 0 else ""
    if not (of.receives or of.sends):
        if joins := of.collective:
            name = f"{starts}{joins}" if name == joins else f"{starts}{joins} ({name})"
        return [(line, start, end, category, builder.name(name), of.bytes or -1, -1, of.request, of.group)]
    messages = [("recv", m) for m in of.receives] + [("send", m) for m in of.sends]
    times = [start + (end - start) * k // len(messages) for k in range(len(messages) + 1)]
    return [
        (line, a, b, category, builder.name(f"{starts}{way} ({name})"), size, peer, of.request, of.group)
        for a, b, (way, (peer, size)) in zip(times, times[1:], messages, strict=False)
    ]


def _flush(rows: list[tuple[int, ...]], builder: Builder) -> None:
    if rows:
        line, start, end, category, name, moved, peer, request, group = zip(*rows, strict=True)
        builder.add(line=line, start=start, end=end, category=category, name=name, bytes=moved, peer=peer,
                    correlation=request, group=group)  # fmt: skip
        rows.clear()
