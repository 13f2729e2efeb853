"""weft's own `trace.json`: Chrome's complete events, a process a rank, thread 0 its host, the others its streams."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from weft.traces.chrome import Events, nanoseconds
from weft.traces.head import Head
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "weft's trace.json"

_CATEGORIES = {c.name: int(c) for c in Category}
_BEGINNING = re.compile(r'\s*\{\s*"displayTimeUnit"\s*:\s*"ns"\s*,\s*"traceEvents"\s*:\s*\[')
_CHUNK = 1 << 16


def probe(head: Head) -> bool:
    return _BEGINNING.match(head.text) is not None


def read(path: Path) -> Trace:
    """The spans. The recorder's category `launch` is split: waits for the device, 'synchronize', become `sync`. A span
    that sends or receives several messages becomes as many MPI calls, one after another, of equal times, named
    'isend (SPAN)', 'irecv (SPAN)' or, if it blocks, 'recv (SPAN)'; a collective 'allreduce (SPAN)'."""
    builder = Builder("weft", path)
    labels: dict[tuple[int, int], str] = {}
    lines: dict[tuple[int, int], int] = {}
    rows: list[tuple[int, ...]] = []
    for number, event in enumerate(Events(path)):
        try:
            phase = event.get("ph")
            if phase == "M" and event["name"] == "thread_name":
                labels[event["pid"], event["tid"]] = str(event["args"]["name"])
            elif phase == "X":
                rows += _rows(event, builder, labels, lines)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"{path}: not a trace that weft wrote: event {number} ({reason})") from None
        if len(rows) >= _CHUNK:
            _flush(rows, builder)
    _flush(rows, builder)
    return builder.build()


def _rows(
    event: dict[str, Any],
    builder: Builder,
    labels: dict[tuple[int, int], str],
    lines: dict[tuple[int, int], int],
) -> list[tuple[int, ...]]:
    key = event["pid"], event["tid"]
    line = lines.get(key)
    if line is None:
        rank, thread = key
        label = labels.get(key) or ("host" if thread == 0 else "device")
        line = lines[key] = builder.line(int(rank), label, "host" if thread == 0 else "stream")
    start = nanoseconds(event["ts"])
    end = start + nanoseconds(event["dur"])
    category = _CATEGORIES.get(event.get("cat", ""), int(Category.other))
    name = str(event["name"])
    if name == "synchronize" and category == Category.launch:
        category = int(Category.sync)
    arguments = event.get("args", {})
    moved, request, group = arguments.get("bytes", 0), arguments.get("request", -1), arguments.get("group", -1)
    starts = "i" if request >= 0 else ""
    messages = [("recv", m) for m in arguments.get("receives", ())] + [("send", m) for m in arguments.get("sends", ())]
    if not messages:
        if joins := arguments.get("collective"):
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
