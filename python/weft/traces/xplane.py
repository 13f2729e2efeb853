"""Reader of XSpace files (`.xplane.pb`), which the profilers of JAX, XLA, TensorFlow and PyTorch/XLA write.

A file has planes: the threads of one host, and one plane per device. Times of events are picoseconds since the start of
their line. https://github.com/openxla/xla/blob/main/third_party/tsl/tsl/profiler/protobuf/xplane.proto
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from weft.traces import apis, protobufs
from weft.traces.head import Head
from weft.traces.protobufs import text
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "an XSpace file of JAX or XLA (.xplane.pb)"

_FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "Space": {"planes": (1, "*Plane"), "errors": (2, "*bytes"), "warnings": (3, "*bytes"), "hostnames": (4, "*bytes")},
    "Plane": {
        "name": (2, "bytes"), "lines": (3, "*Line"), "events": (4, "*EventEntry"), "stat_names": (5, "*StatEntry"),
        "stats": (6, "*Stat"),
    },
    "Line": {
        "id": (1, "int"), "name": (2, "bytes"), "timestamp_ns": (3, "int"), "events": (4, "*Event"),
        "display_name": (11, "bytes"),
    },
    "Event": {
        "metadata_id": (1, "int"), "offset_ps": (2, "int"), "duration_ps": (3, "int"), "stats": (4, "*Stat"),
        "num_occurrences": (5, "int"),
    },
    "Stat": {
        "metadata_id": (1, "int"), "double": (2, "double"), "uint": (3, "uint"), "int": (4, "int"),
        "text": (5, "bytes"), "data": (6, "bytes"), "reference": (7, "uint"),
    },
    "EventEntry": {"key": (1, "int"), "value": (2, "EventMetadata")},
    "EventMetadata": {"name": (2, "bytes"), "display_name": (4, "bytes")},
    "StatEntry": {"key": (1, "int"), "value": (2, "StatMetadata")},
    "StatMetadata": {"name": (2, "bytes")},
}  # fmt: skip
_PLANE_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2}
_READ = ("correlation_id", "memcpy_details", "step_num", "bytes_accessed")  # statistics of events
_CALL = re.compile(r"(cuda|cu|hip|hsa_)[A-Z_a-z]")
_COPY = re.compile(r"Memcpy(\w\w?2\w|D2D|H2D|D2H|P2P)|MemcpyOther")
_COLLECTIVE = re.compile(
    r"%?(all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-(permute|broadcast)|send|recv)\b"
)
_HOST_TRANSFER = re.compile(r"%?(infeed|outfeed)\b")
_SIZE = re.compile(r"\bsize:(\d{1,18})\b")
# Lines of a device that name what its other lines do.
_DERIVED = (
    "Steps",
    "XLA Modules",
    "XLA TraceMe",
    "Framework Ops",
    "Framework Name Scope",
    "Source code",
    "Launch Stats",
)
_LONGEST = 2**62


def probe(head: Head) -> bool:
    """The first field of the first plane, or its second after the number, is its name."""
    try:
        first = next(protobufs.fields(head.data), None)
        if first is None or first[:2] != (1, protobufs.BYTES) or not isinstance(first[2], bytes):
            return False
        for number, type_, value in protobufs.fields(first[2]):
            if _PLANE_FIELDS.get(number) != type_:
                return False
            if number == 2 and isinstance(value, bytes):
                return value.startswith((b"/", b"Task Environment", b"#"))
    except ValueError:
        pass
    return False


def read(path: Path) -> Trace:
    """Reads threads and streams.

    Of nested operations on a device, the innermost are work; those around them, and lines that only name what others
    do, are annotations. A range that carries a step number is named 'NAME step N'.
    """
    classes = protobufs.schema("weft.xplane", _FIELDS)
    space = protobufs.parse(path, classes["Space"], protobufs.content(path), DESCRIPTION)
    builder = Builder("xplane", path)
    planes = [_Plane(plane) for plane in space.planes]
    process = next((p.process for p in planes if p.process >= 0), 0)
    aggregated = 0
    for plane in planes:
        aggregated += plane.add(builder, process)
    builder.notes += [f"the profiler reports: {text(m)}" for m in [*space.errors, *space.warnings][:3]]
    if aggregated:
        builder.notes.append(f"{aggregated} entries are sums over many events, without times, and are ignored")
    if len(builder) == 0:
        names = ", ".join(f"'{p.name}'" for p in planes[:8]) or "none"
        raise ValueError(f"{path}: the XSpace file has no events; its planes are {names}")
    return builder.build()


class _Plane:
    def __init__(self, plane: Any) -> None:
        self.plane, self.name = plane, text(plane.name)
        self.names = {e.key: text(e.value.display_name or e.value.name) for e in plane.events}
        self.stats = {e.key: text(e.value.name) for e in plane.stat_names}
        self.process = -1
        for stat in plane.stats:
            if self.stats.get(stat.metadata_id) == "process_id":
                value = self._value(stat)
                self.process = value if isinstance(value, int) and 0 <= value < 2**31 else -1
        self.device = self.name.startswith("/device:") and not self.name.startswith("/device:CUSTOM")

    def _value(self, stat: Any) -> int | str:
        if stat.HasField("reference"):
            return self.stats.get(stat.reference, "")
        if stat.HasField("text"):
            return text(stat.text)
        return int(stat.uint if stat.HasField("uint") else stat.int)

    def add(self, builder: Builder, process: int) -> int:
        """Adds the events of this plane, and returns the number of entries that have no time."""
        wanted = {key for key, name in self.stats.items() if name in _READ}
        labels: Counter[str] = Counter()
        aggregated = 0
        for line in self.plane.lines:
            title = text(line.display_name or line.name) or f"line {line.id}"
            labels[title] += 1
            title += f" #{labels[title]}" if labels[title] > 1 else ""
            rows, details = [], []
            for event in line.events:
                if event.HasField("num_occurrences"):
                    aggregated += 1
                    continue
                start, length = event.offset_ps, event.duration_ps
                if length < 0 or abs(start) > _LONGEST or start + length > _LONGEST:
                    raise ValueError(f"{builder.path}: an event of line '{title}' lasts {length} ps from {start} ps")
                # Both ends are rounded down, so that events that follow one another still do.
                rows.append((line.timestamp_ns + start // 1000, line.timestamp_ns + (start + length) // 1000,
                             event.metadata_id))  # fmt: skip
                details.append({s.metadata_id: s for s in event.stats if s.metadata_id in wanted} if wanted else {})
            if rows:
                self._add_line(builder, process, title, rows, details)
        return aggregated

    def _add_line(
        self,
        builder: Builder,
        process: int,
        title: str,
        rows: list[tuple[int, int, int]],
        details: list[dict[int, Any]],
    ) -> None:
        derived = self.device and title.split(" #")[0] in _DERIVED
        inner = _innermost(np.array([r[:2] for r in rows], dtype=np.int64)) if self.device else None
        place = f"{self.name.removeprefix('/device:')} {title}" if self.device else title
        work = builder.line(process, place, "stream" if self.device else "host") if not derived else -1
        around = builder.line(process, f"{place}, annotations", "host") if self.device else work
        columns: list[tuple[int, ...]] = []
        for k, ((start, end, kind), stats) in enumerate(zip(rows, details, strict=True)):
            found = {self.stats[key]: self._value(stat) for key, stat in stats.items()}
            name = self.names.get(kind, f"event {kind}")
            annotation = derived or (inner is not None and not inner[k])
            moved = -1
            if "step_num" in found:
                name, annotation = f"{name} step {found['step_num']}", True
            if annotation:
                category = Category.other
            elif self.device:
                category, moved = _work(name, found)
            else:
                category = apis.call(name) if _CALL.match(name) else Category.cpu
            link = found.get("correlation_id", -1)
            link = link if isinstance(link, int) and link > 0 else -1
            line = around if annotation and self.device else work
            columns.append((line, start, end, int(category), builder.name(name), moved, link))
        names = ("line", "start", "end", "category", "name", "bytes", "correlation")
        builder.add(**dict(zip(names, zip(*columns, strict=True), strict=True)))


def _work(name: str, details: dict[str, int | str]) -> tuple[Category, int]:
    """The category of an event on a device, and the bytes that it moves (-1 if unknown)."""
    if _COPY.match(name):
        size = _SIZE.search(str(details.get("memcpy_details", "")))
        return apis.copy(not re.match(r"Memcpy(D2D|P2P)", name)), int(size[1]) if size else -1
    if _COLLECTIVE.match(name):
        return Category.mpi, -1
    return (Category.copy if _HOST_TRANSFER.match(name) else apis.kernel(name)), -1


def _innermost(times: np.ndarray) -> np.ndarray:
    """Mask of the events of a line that have no other event inside them."""
    order = np.lexsort((-times[:, 1], times[:, 0]))
    start, end = times[order].T
    inner = np.ones(len(order), dtype=bool)
    # An event has others inside if the next one to begin does so before its end, and also ends by then.
    inner[order[:-1]] = ~((start[1:] < end[:-1]) & (end[1:] <= end[:-1]))
    return inner
