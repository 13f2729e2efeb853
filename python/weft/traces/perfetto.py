"""Reader of Perfetto's protobuf traces, which rocprofv3 (`.pftrace`) and programs with Perfetto's SDK write.

Read are the slices of tracks (`TrackEvent`) and the stages of GPUs (`GpuRenderStageEvent`). Perfetto's own definitions,
from PyPI, decode the file. https://perfetto.dev/docs/reference/synthetic-track-event
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from weft.traces import apis, protobufs
from weft.traces.head import Head
from weft.traces.protobufs import text
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "a Perfetto trace (protobuf, also of rocprofv3)"

_BOOT_TIME = 6  # the default clock of a trace
_SEQUENCE_CLOCKS = range(64, 128)  # clocks that a sequence of packets defines for itself
_CLEARED = 1  # flag of a packet: incremental state is cleared
_PACKET = {6: 2, 8: 0, 10: 0, 11: 2, 12: 2, 13: 0, 33: 2, 36: 2, 41: 0, 42: 0, 50: 2, 58: 0, 59: 2, 60: 2, 87: 0}
_UNSPECIFIED, _BEGIN, _END = 0, 1, 2  # types of track events
_COMPLETE = ord("X")  # phase of an event from Chrome's format
_LARGEST = 1 << 28  # bytes that compressed packets may expand to
_LONGEST = 2**62
# The categories of rocprofv3.
_CALLS = ("hip_api", "hsa_api", "rocdecode_api", "rocjpeg_api")
_WORK = ("kernel_dispatch", "memory_copy")
_MARKER, _COLLECTIVES = "marker_api", ("rccl_api", "rocshmem_api")
_ROCPROF = frozenset((*_CALLS, *_WORK, *_COLLECTIVES))


def probe(head: Head) -> bool:
    """All fields of the file are packets, and the first of them have fields that packets of a trace have."""
    known = 0
    try:
        for k, (number, type_, value) in enumerate(protobufs.fields(head.data)):
            if (number, type_) != (1, protobufs.BYTES) or not isinstance(value, bytes):
                return False
            inside = {(n, t) for n, t, _ in protobufs.fields(value)}
            known += any(_PACKET.get(n) == t for n, t in inside)
            if k == 7:
                break
    except ValueError:
        return False
    return known > 0


@dataclass
class _Sequence:
    """What the packets of one writer refer to: interned names, defaults, and clocks of its own."""

    names: dict[int, str] = field(default_factory=dict)
    categories: dict[int, str] = field(default_factory=dict)
    details: dict[int, str] = field(default_factory=dict)  # names of debug annotations
    stages: dict[int, str] = field(default_factory=dict)  # names of queues and stages of GPUs
    track: int = 0
    clock: int = 0
    clocks: dict[int, list[int]] = field(default_factory=dict)  # id -> time (ns), unit (ns), whether incremental


@dataclass
class _Track:
    """What is open and what is known of one track."""

    open: list[list[Any]] = field(default_factory=list)
    parent: int = 0
    name: str = ""
    pid: int = -1
    tid: int = -1


def read(path: Path) -> Trace:
    """Reads the slices of all tracks. Tracks of rocprofv3's device work are streams; other tracks are host threads."""
    return _File(path).read()


class _File:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.builder = Builder("perfetto", path)
        self.sequences: dict[int, _Sequence] = defaultdict(_Sequence)
        self.tracks: dict[int, _Track] = defaultdict(_Track)
        self.offsets: dict[int, int] = {}  # clock -> ns from it to the trace's clock
        # By track and whether it is device work: start, end, category, name, bytes, correlation, one after another.
        self.rows: dict[tuple[int, bool], array[int]] = defaultdict(lambda: array("q"))
        # By category and name of a slice: its category in the table, whether it is device work, and its name's number.
        self.kinds: dict[tuple[str, str], tuple[int, bool, int]] = {}
        self.stages: list[tuple[str, int, int, str]] = []  # queue, start, end, name
        self.other: Counter[str] = Counter()
        self.last = 0

    def read(self) -> Trace:
        for packet in self._packets(protobufs.content(self.path)):
            try:
                self._take(packet)
            except (OverflowError, UnicodeDecodeError) as error:
                raise ValueError(f"{self.path}: a packet of the trace cannot be read ({error})") from None
        for uuid, track in list(self.tracks.items()):
            self.other["slices were open at the end and are closed there"] += len(track.open)
            while track.open:
                self._close(uuid, track, max(self.last, track.open[-1][0]))
        self._add()
        if len(self.builder) == 0:
            what = ", ".join(f"{count} {name}" for name, count in self.other.items() if count) or "no packets of slices"
            raise ValueError(
                f"{self.path}: the Perfetto trace has no slices of tracks and no GPU stages; it has {what}"
            )
        self.builder.notes += [f"{count} {text}" for text, count in self.other.items() if count]
        return self.builder.build()

    def _packets(self, data: bytes, nested: bool = False) -> Iterator[Any]:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

        for count, part in enumerate(protobufs.repeated(self.path, data, 1, DESCRIPTION)):
            packet = TracePacket()
            try:
                packet.ParseFromString(part)
            except DecodeError as error:
                raise ValueError(f"{self.path}: {DESCRIPTION}, damaged in packet {count} ({error})") from None
            if not packet.HasField("compressed_packets"):
                yield packet
                continue
            if nested:
                raise ValueError(f"{self.path}: compressed packets inside of compressed packets")
            unpacker = zlib.decompressobj()
            inner = unpacker.decompress(packet.compressed_packets, _LARGEST)
            if unpacker.unconsumed_tail:
                raise ValueError(f"{self.path}: compressed packets expand to more than {_LARGEST >> 20} MiB")
            yield from self._packets(inner, nested=True)

    def _take(self, packet: Any) -> None:
        number = packet.trusted_packet_sequence_id
        sequence = self.sequences[number]
        if packet.sequence_flags & _CLEARED or packet.incremental_state_cleared:
            sequence = self.sequences[number] = _Sequence(clocks=sequence.clocks)
        if packet.HasField("interned_data"):
            data = packet.interned_data
            sequence.names.update((e.iid, text(e.name)) for e in data.event_names)
            sequence.categories.update((e.iid, text(e.name)) for e in data.event_categories)
            sequence.details.update((e.iid, text(e.name)) for e in data.debug_annotation_names)
            sequence.stages.update((e.iid, text(e.name)) for e in data.gpu_specifications)
        if packet.HasField("trace_packet_defaults"):
            defaults = packet.trace_packet_defaults
            sequence.clock = defaults.timestamp_clock_id
            sequence.track = defaults.track_event_defaults.track_uuid
        kind = packet.WhichOneof("data")
        if kind == "track_event":
            if (time := self._time(packet, sequence)) is not None:
                self._event(packet.track_event, time, sequence)
        elif kind == "gpu_render_stage_event":
            if (time := self._time(packet, sequence)) is not None:
                self._stage(packet.gpu_render_stage_event, time, sequence)
        elif kind == "track_descriptor":
            self._describe(packet.track_descriptor)
        elif kind == "clock_snapshot":
            self._clocks(packet.clock_snapshot, sequence)

    def _clocks(self, snapshot: Any, sequence: _Sequence) -> None:
        """Clocks read at the same instant. The first readings count, so that time never jumps."""
        reference = snapshot.primary_trace_clock or _BOOT_TIME
        own = [c for c in snapshot.clocks if c.clock_id in _SEQUENCE_CLOCKS]
        common = {c.clock_id: c.timestamp for c in snapshot.clocks if c.clock_id not in _SEQUENCE_CLOCKS}
        base = common.get(reference, common.get(_BOOT_TIME))
        if base is None:
            base = next((t + self.offsets.get(c, 0) for c, t in common.items()), None)
        if base is None:
            return
        for clock, time in common.items():
            self.offsets.setdefault(clock, base - time)
        for clock in own:
            unit = clock.unit_multiplier_ns or 1
            # Clocks that are not incremental count from their own zero.
            zero = base if clock.is_incremental else base - clock.timestamp * unit
            sequence.clocks[clock.clock_id] = [zero, unit, int(clock.is_incremental)]

    def _time(self, packet: Any, sequence: _Sequence) -> int | None:
        """The time of a packet on the trace's clock in ns; None, and counted, if the file does not tell it."""
        clock = packet.timestamp_clock_id or sequence.clock or _BOOT_TIME
        time: int = packet.timestamp
        if time == 0 and not packet.HasField("timestamp"):
            event = packet.track_event
            if not event.HasField("timestamp_absolute_us"):
                self.other["events without a time are ignored"] += 1
                return None
            time = event.timestamp_absolute_us * 1000
        if clock in _SEQUENCE_CLOCKS:
            known = sequence.clocks.get(clock)
            if known is None:
                self.other["events on a clock that the file does not define are ignored"] += 1
                return None
            time = known[0] + time * known[1]
            if known[2]:
                known[0] = time
        else:
            time += self.offsets.get(clock, 0)
        if abs(time) > _LONGEST:
            raise ValueError(f"{self.path}: the time {time} ns is too large")
        if time > self.last:
            self.last = time
        return time

    def _describe(self, descriptor: Any) -> None:
        track = self.tracks[descriptor.uuid]
        track.parent = descriptor.parent_uuid or track.parent
        track.name = text(descriptor.name or descriptor.static_name) or track.name
        if descriptor.HasField("thread"):
            track.pid, track.tid = descriptor.thread.pid, descriptor.thread.tid
            track.name = track.name or text(descriptor.thread.thread_name)
        elif descriptor.HasField("process"):
            track.pid = descriptor.process.pid

    def _event(self, event: Any, time: int, sequence: _Sequence) -> None:
        uuid = event.track_uuid or sequence.track
        track = self.tracks[uuid]
        kind = event.type
        if kind == _END:
            if track.open:
                self._close(uuid, track, time)
            else:
                self.other["ends of slices that never began are ignored"] += 1
            return
        complete = kind == _UNSPECIFIED and event.legacy_event.phase == _COMPLETE
        if kind != _BEGIN and not complete:
            self.other["marks and values of counters, which have no duration, are ignored"] += 1
            return
        category = ""
        if iids := event.category_iids:
            category = sequence.categories.get(iids[0], "")
        elif texts := event.categories:
            category = text(texts[0])
        name = sequence.names.get(event.name_iid) or text(event.name)
        name = name or sequence.names.get(event.legacy_event.name_iid) or category or "slice"
        moved = link = -1
        if category in _ROCPROF:
            for detail in event.debug_annotations:
                which = detail.name or sequence.details.get(detail.name_iid)
                if which in ("corr_id", "copy_bytes"):
                    value = detail.uint_value or detail.int_value
                    value = value if value < _LONGEST else -1
                    link, moved = (value, moved) if which == "corr_id" else (link, value)
        track.open.append([time, name, category, moved, link])
        if complete:
            self._close(uuid, track, time + event.legacy_event.duration_us * 1000)

    def _close(self, uuid: int, track: _Track, end: int) -> None:
        start, name, category, moved, link = track.open.pop()
        known = self.kinds.get((category, name))
        if known is None:
            known = self.kinds[category, name] = int(_kind(category, name)), category in _WORK, self.builder.name(name)
        kind, stream, number = known
        self.rows[uuid, stream].extend((start, end, kind, number, moved, link))

    def _stage(self, event: Any, time: int, sequence: _Sequence) -> None:
        queue = sequence.stages.get(event.hw_queue_iid) or f"queue {event.hw_queue_id or event.hw_queue_iid}"
        name = text(event.name) or sequence.names.get(event.name_iid) or sequence.stages.get(event.stage_iid) or "stage"
        self.stages.append((f"device {event.gpu_id} {queue}", time, time + min(event.duration, _LONGEST), name))

    def _place(self, uuid: int) -> tuple[int, str]:
        """The process of a track, and its label: its thread, else its own name."""
        track, seen = self.tracks[uuid], {uuid}
        above = track
        while above.pid < 0 and above.parent and above.parent not in seen and above.parent in self.tracks:
            seen.add(above.parent)
            above = self.tracks[above.parent]
        label = f"thread {track.tid}" if track.tid >= 0 else track.name or f"track {uuid}"
        return max(above.pid, 0), label

    def _add(self) -> None:
        labels: Counter[tuple[int, str, bool]] = Counter()
        for (uuid, stream), rows in self.rows.items():
            process, label = self._place(uuid)
            labels[process, label, stream] += 1  # tracks of the same name stay separate
            number = labels[process, label, stream]
            label += f" #{number}" if number > 1 else ""
            line = self.builder.line(process, label, "stream" if stream else "host")
            columns = ("start", "end", "category", "name", "bytes", "correlation")
            table = np.frombuffer(rows, dtype=np.int64).reshape(-1, len(columns))
            self.builder.add(line=line, **dict(zip(columns, table.T, strict=True)))
        if self.stages:
            queues, start, end, names = zip(*self.stages, strict=True)
            process = max((t.pid for t in self.tracks.values()), default=0)
            self.builder.add(
                line=[self.builder.line(max(process, 0), queue, "stream") for queue in queues], start=start, end=end,
                category=[int(apis.kernel(n)) for n in names], name=[self.builder.name(n) for n in names],
            )  # fmt: skip


def _kind(category: str, name: str) -> Category:
    """The category of a slice, by rocprofv3's category and its name."""
    if category == "memory_copy":
        return apis.copy(not re.search(r"DEVICE_TO_DEVICE", name))
    if category == "kernel_dispatch":
        return apis.kernel(name)
    if category in _CALLS:
        return apis.call(name)
    if category in _COLLECTIVES:
        return Category.mpi
    return Category.other if category == _MARKER else Category.cpu
