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
    """The spans. The recorder's category `launch` is split: waits for the device, 'synchronize', become `sync`."""
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
                rows.append(_row(event, builder, labels, lines))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"{path}: not a trace that weft wrote: event {number} ({reason})") from None
        if len(rows) == _CHUNK:
            _flush(rows, builder)
    _flush(rows, builder)
    return builder.build()


def _row(
    event: dict[str, Any],
    builder: Builder,
    labels: dict[tuple[int, int], str],
    lines: dict[tuple[int, int], int],
) -> tuple[int, ...]:
    key = event["pid"], event["tid"]
    line = lines.get(key)
    if line is None:
        rank, thread = key
        label = labels.get(key) or ("host" if thread == 0 else "device")
        line = lines[key] = builder.line(int(rank), label, "host" if thread == 0 else "stream")
    start = nanoseconds(event["ts"])
    category = _CATEGORIES.get(event.get("cat", ""), int(Category.other))
    name = event["name"]
    if name == "synchronize" and category == Category.launch:
        category = int(Category.sync)
    moved = event.get("args", {}).get("bytes", 0)
    return line, start, start + nanoseconds(event["dur"]), category, builder.name(str(name)), moved or -1


def _flush(rows: list[tuple[int, ...]], builder: Builder) -> None:
    if rows:
        line, start, end, category, name, moved = zip(*rows, strict=True)
        builder.add(line=line, start=start, end=end, category=category, name=name, bytes=moved)
        rows.clear()
