"""Reader of XSpace files (`.xplane.pb`), which the profilers of JAX, XLA, TensorFlow and PyTorch/XLA write.

A file has planes: the threads of one host, and one plane per device. Times of events are picoseconds since the start of
their line. https://github.com/openxla/xla/blob/main/third_party/tsl/tsl/profiler/protobuf/xplane.proto
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.traces import apis, protobufs
from weft.traces.head import Head
from weft.traces.protobuf_columns import Column, Decoder, combinations, joined, wire_types
from weft.traces.protobufs import text
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "an XSpace file of JAX or XLA (.xplane.pb)"

_FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "Space": {"planes": (1, "*Plane"), "errors": (2, "*bytes"), "warnings": (3, "*bytes"), "hostnames": (4, "*bytes")},
    "Plane": {
        "name": (2, "bytes"), "lines": (3, "*bytes"), "events": (4, "*EventEntry"), "stat_names": (5, "*StatEntry"),
        "stats": (6, "*Stat"),
    },
    "Line": {
        "id": (1, "int"), "name": (2, "bytes"), "timestamp_ns": (3, "int"), "display_name": (11, "bytes"),
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
# Events and their statistics are most of a file, and so decoded by columns.
_EVENTS = 4  # the field of a line
_EVENT, _STAT = (wire_types(_FIELDS[message]) for message in ("Event", "Stat"))
_PLANE_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2}
_CALL = re.compile(r"(cuda|cu|hip)[A-Z]|hsa_|__hip")
_PROFILER = re.compile(r"\$profiler\.py:\d+ (start_trace|stop_trace|trace)\b")  # JAX's own, in traces of Python
_BLOCKS = re.compile(r"\$\w+\.py:\d+ (try_to_block|block_until_ready)$")  # JAX waits for the device
_READ = ("correlation_id", "memcpy_details", "step_num")  # statistics of events
_COPY = re.compile(r"Memcpy(\w\w?2\w|D2D|H2D|D2H|P2P)|MemcpyOther")
_COLLECTIVE = re.compile(
    r"%?(all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-(permute|broadcast)|send|recv)\b"
)
_HOST_TRANSFER = re.compile(r"%?(infeed|outfeed)\b")
_SIZE = re.compile(r"\bsize:(\d{1,18})\b")
# Lines of a device that annotate its other lines.
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
    """Whether the first field of the first plane, or its second after the number, is a name."""
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
        aggregated += plane.add(builder, process, classes["Line"])
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

    def add(self, builder: Builder, process: int, head: Any) -> int:
        """Adds the events of this plane, and returns the number of entries that have no time."""
        labels: Counter[str] = Counter()
        aggregated = 0
        for data in self.plane.lines:
            line = protobufs.parse(Path(builder.path), head, data, DESCRIPTION)
            title = text(line.display_name or line.name) or f"line {line.id}"
            decoder, count, parts = Decoder(data), 0, []
            for bounds in protobufs.elements(Path(builder.path), data, _EVENTS, DESCRIPTION):
                try:
                    parts.append(self._events(decoder, bounds, line.timestamp_ns))
                except ValueError as error:
                    raise ValueError(f"{builder.path}: {DESCRIPTION}: line '{title}' is damaged ({error})") from None
                count += len(bounds)
            events = joined(parts)
            labels[title] += 1
            title += f" #{labels[title]}" if labels[title] > 1 else ""
            aggregated += count - len(events.start)
            if len(events.start):
                self._add_line(builder, process, title, events)
        return aggregated

    def _events(self, decoder: Decoder, bounds: NDArray[np.int64], began: int) -> _Events:
        """The events of a line that have a time; the others are sums over many. Raises ValueError if one has no end."""
        wanted = {name: [key for key, one in self.stats.items() if one == name] for name in _READ}
        count = len(bounds)
        event, _ = decoder.columns(bounds, _EVENT)
        offset, length = event[2].last(count), event[3].last(count)
        kept = np.ones(count, dtype=bool)
        kept[event[5].owner] = False
        # As floats, because the sum of two numbers may be larger than an integer of 64 bits.
        wrong = kept & ((length < 0) | (np.abs(offset.astype(float)) + length > _LONGEST))
        if np.any(wrong):
            k = int(np.flatnonzero(wrong)[0])
            raise ValueError(f"an event lasts {length[k]} ps from {offset[k]} ps")
        stats = event[4]
        stat, _ = decoder.columns(stats.bounds(), _STAT)
        which, number = stat[1].last(len(stats.owner)), np.full(len(stats.owner), -1, dtype=np.int64)
        for kind in (3, 4):
            number[stat[kind].owner] = stat[kind].value
        numbers = {}
        for name in ("correlation_id", "step_num"):
            numbers[name] = np.full(count, -1, dtype=np.int64)
            mine = np.isin(which, wanted[name])
            numbers[name][stats.owner[mine]] = number[mine]
        size = np.full(count, -1, dtype=np.int64)
        for k in np.flatnonzero(np.isin(which, wanted["memcpy_details"])).tolist():
            size[stats.owner[k]] = self._size(decoder.data, stat, k)
        # Both ends are rounded down, so that events that follow one another still do.
        columns = (began + offset // 1000, began + (offset + length) // 1000, event[1].last(count),
                   numbers["correlation_id"], numbers["step_num"], size)  # fmt: skip
        return _Events(*(column[kept] for column in columns))

    def _size(self, data: bytes, stat: dict[int, Column], k: int) -> int:
        """The bytes that the details of a copy name, which are text or refer to the name of a statistic."""
        said = ""
        j = int(np.searchsorted(stat[5].owner, k))
        if j < len(stat[5].owner) and stat[5].owner[j] == k:
            at = int(stat[5].at[j])
            said = text(data[at : at + int(stat[5].value[j])])
        j = int(np.searchsorted(stat[7].owner, k))
        if j < len(stat[7].owner) and stat[7].owner[j] == k:
            said = self.stats.get(int(stat[7].value[j]), "")
        found = _SIZE.search(said)
        return int(found[1]) if found else -1

    def _add_line(self, builder: Builder, process: int, title: str, events: _Events) -> None:
        derived = self.device and title.split(" #")[0] in _DERIVED
        place = f"{self.name.removeprefix('/device:')} {title}" if self.device else title
        annotation = np.full(len(events.start), derived)
        if self.device:
            annotation |= ~_innermost(np.stack((events.start, events.end), axis=1))
        annotation |= events.step >= 0
        first, which = combinations(events.kind, events.step)
        names, categories, copies = [], [], []
        for kind, step in zip(events.kind[first].tolist(), events.step[first].tolist(), strict=True):
            name = self.names.get(kind, f"event {kind}")
            copies.append(self.device and bool(_COPY.match(name)))
            categories.append(int(_work(name) if self.device else _host(name)))
            names.append(builder.name(name if step < 0 else f"{name} step {step}"))
        line = np.full(len(events.start), -1, dtype=np.int64)
        for mine, label, on_device in (
            (~annotation, place, self.device),
            (annotation, f"{place}, annotations" if self.device else place, False),
        ):
            if np.any(mine):
                line[mine] = builder.line(process, label, "stream" if on_device else "host")
        builder.add(
            line=line, start=events.start, end=events.end, name=np.array(names)[which],
            category=np.where(annotation, int(Category.other), np.array(categories)[which]),
            bytes=np.where(np.array(copies)[which] & ~annotation, events.bytes, -1),
            correlation=np.where(events.correlation > 0, events.correlation, -1),
        )  # fmt: skip


@dataclass(frozen=True)
class _Events:
    """Columns of the events of a line: times in ns, numbers of names, and further values, -1 if not known."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    kind: NDArray[np.int64]
    correlation: NDArray[np.int64]
    step: NDArray[np.int64]
    bytes: NDArray[np.int64]


def _host(name: str) -> Category:
    """The category of an event of a thread."""
    if _CALL.match(name):
        return apis.call(name)
    if _BLOCKS.match(name):
        return Category.sync
    return Category.other if _PROFILER.match(name) else Category.cpu


def _work(name: str) -> Category:
    """The category of an event on a device."""
    if _COPY.match(name):
        return apis.copy(not re.match(r"Memcpy(D2D|P2P)", name))
    if _COLLECTIVE.match(name):
        return Category.mpi
    return Category.copy if _HOST_TRANSFER.match(name) else apis.kernel(name)


def _innermost(times: np.ndarray) -> np.ndarray:
    """Mask of the events of a line that have no other event inside them."""
    order = np.lexsort((-times[:, 1], times[:, 0]))
    start, end = times[order].T
    inner = np.ones(len(order), dtype=bool)
    # An event has others inside if the next one to begin does so before its end, and also ends by then.
    inner[order[:-1]] = ~((start[1:] < end[:-1]) & (end[1:] <= end[:-1]))
    return inner
