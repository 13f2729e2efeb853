"""Reader of weft's `trace.json`: Chrome trace events, where a process is a rank, thread 0 its host, others streams."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypedDict, cast

from weft.errors import reason
from weft.traces.chrome import Event, Events, arguments, nanoseconds
from weft.traces.head import Head
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "weft's trace.json"

_CATEGORIES = {c.name: int(c) for c in Category}
_BEGINNING = re.compile(r'\s*\{\s*"displayTimeUnit"\s*:\s*"ns"\s*,\s*"traceEvents"\s*:\s*\[')
_CHUNK = 1 << 16
Place = tuple[object, object]  # process and thread of an event


class _Details(TypedDict, total=False):
    """The `args` of a span, as weft's recorder writes them. Messages are pairs (peer, bytes)."""

    bytes: int
    request: int
    group: int
    receives: list[tuple[int, int]]
    sends: list[tuple[int, int]]
    collective: str


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
    for number, event in enumerate(Events(path)):
        try:
            phase = event.get("ph")
            if phase == "M" and event["name"] == "thread_name":
                labels[event["pid"], event["tid"]] = str(arguments(event)["name"])
            elif phase == "X":
                rows += _rows(event, builder, labels, lines)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{path}: not a trace that weft wrote: event {number} ({reason(error)})") from None
        if len(rows) >= _CHUNK:
            _flush(rows, builder)
    _flush(rows, builder)
    return builder.build()


def _rows(event: Event, builder: Builder, labels: dict[Place, str], lines: dict[Place, int]) -> list[tuple[int, ...]]:
    key = event["pid"], event["tid"]
    line = lines.get(key)
    if line is None:
        rank, thread = key
        label = labels.get(key) or ("host" if thread == 0 else "device")
        line = lines[key] = builder.line(int(str(rank)), label, "host" if thread == 0 else "stream")
    start = nanoseconds(event["ts"])
    end = start + nanoseconds(event["dur"])
    category = _CATEGORIES.get(str(event.get("cat", "")), int(Category.other))
    name = str(event["name"])
    if name == "synchronize" and category == Category.launch:
        category = int(Category.sync)
    details = cast(_Details, arguments(event))
    moved, request, group = details.get("bytes", 0), details.get("request", -1), details.get("group", -1)
    starts = "i" if request >= 0 else ""
    messages = [("recv", m) for m in details.get("receives", ())] + [("send", m) for m in details.get("sends", ())]
    if not messages:
        if joins := details.get("collective"):
            name = f"{starts}{joins}" if name == joins else f"{starts}{joins} ({name})"
        return [(line, start, end, category, builder.name(name), moved or -1, -1, request, group)]
    times = [start + (end - start) * k // len(messages) for k in range(len(messages) + 1)]
    return [
        (line, a, b, category, builder.name(f"{starts}{way} ({name})"), size, peer, request, group)
        for a, b, (way, (peer, size)) in zip(times, times[1:], messages, strict=False)
    ]


def _flush(rows: list[tuple[int, ...]], builder: Builder) -> None:
    if rows:
        line, start, end, category, name, moved, peer, request, group = zip(*rows, strict=True)
        builder.add(line=line, start=start, end=end, category=category, name=name, bytes=moved, peer=peer,
                    correlation=request, group=group)  # fmt: skip
        rows.clear()
