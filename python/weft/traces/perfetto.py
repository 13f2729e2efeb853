"""Reader of Perfetto's protobuf traces, which rocprofv3 (`.pftrace`) and programs with Perfetto's SDK write.

The reader uses the slices of tracks (`TrackEvent`) and the stages of GPUs (`GpuRenderStageEvent`). Perfetto's own
definitions, from PyPI, decode the file. https://perfetto.dev/docs/reference/synthetic-track-event
"""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from weft.traces import apis, protobufs
from weft.traces.head import Head
from weft.traces.perfetto_slices import BEGIN, CLEARED, END, Marks, Slices, paired
from weft.traces.protobuf_columns import Decoder, Texts, joined
from weft.traces.protobufs import text
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "a Perfetto trace (protobuf, also of rocprofv3)"

_BOOT_TIME = 6  # the default clock of a trace
_SEQUENCE_CLOCKS = range(64, 128)  # clocks that a sequence of packets defines for itself
_PACKET = {6: 2, 8: 0, 10: 0, 11: 2, 12: 2, 13: 0, 33: 2, 36: 2, 41: 0, 42: 0, 50: 2, 58: 0, 59: 2, 60: 2, 87: 0}
_UNSPECIFIED = 0  # type of track events
_COMPLETE = ord("X")  # phase of an event from Chrome's format
_LARGEST = 1 << 28  # bytes that compressed packets may expand to
_LONGEST = 2**62
_FEW = 500  # runs of at most this many packets are taken one by one
_NO_CLOCK = "events on a clock that the file does not define are ignored"
# The categories of rocprofv3.
_CALLS = ("hip_api", "hsa_api", "rocdecode_api", "rocjpeg_api")
_WORK = ("kernel_dispatch", "memory_copy")
_MARKER, _COLLECTIVES = "marker_api", ("rccl_api", "rocshmem_api")
_ROCPROF = frozenset((*_CALLS, *_WORK, *_COLLECTIVES))


def probe(head: Head) -> bool:
    """Whether all fields of the file are packets, and the first of them have fields of trace packets."""
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
    """The state to which the packets of one writer refer: interned names, defaults, and its own clocks."""

    names: dict[int, str] = field(default_factory=dict)
    categories: dict[int, str] = field(default_factory=dict)
    details: dict[int, str] = field(default_factory=dict)  # names of debug annotations
    stages: dict[int, str] = field(default_factory=dict)  # names of queues and stages of GPUs
    track: int = 0
    clock: int = 0
    clocks: dict[int, list[int]] = field(default_factory=dict)  # id -> time (ns), unit (ns), whether incremental


@dataclass
class _Track:
    """The description of one track."""

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
        self.numbers: dict[int, int] = {}  # of tracks
        self.kinds: dict[tuple[str, str], int] = {}  # numbers of slices' categories and names
        self.texts = Texts()
        self.marks: list[Marks] = []
        self.complete: dict[int, list[tuple[int, int, int]]] = defaultdict(list)  # track -> kind, start, end
        self.stages: list[tuple[str, int, int, str]] = []  # queue, start, end, name
        self.other: Counter[str] = Counter()
        self.last = 0

    def read(self) -> Trace:
        try:
            self._packets(protobufs.content(self.path))
        except (OverflowError, UnicodeDecodeError) as error:
            raise ValueError(f"{self.path}: a packet of the trace cannot be read ({error})") from None
        self._add()
        if len(self.builder) == 0:
            what = ", ".join(f"{count} {name}" for name, count in self.other.items() if count) or "no packets of slices"
            raise ValueError(
                f"{self.path}: the Perfetto trace has no slices of tracks and no GPU stages; it has {what}"
            )
        self.builder.notes += [f"{count} {text}" for text, count in self.other.items() if count]
        return self.builder.build()

    def _packets(self, data: bytes, nested: bool = False) -> None:
        """Takes all packets in their order: long runs of plain slices by columns, others by Perfetto's definitions."""
        decoder, count = Decoder(data), 0
        for bounds in protobufs.elements(self.path, data, 1, DESCRIPTION):
            try:
                slices = Slices(decoder, bounds, self.texts)
            except ValueError as error:
                raise ValueError(
                    f"{self.path}: {DESCRIPTION}, damaged in packets {count} to {count + len(bounds) - 1} ({error})"
                ) from None
            marks, kept = Marks.void(len(bounds)), 0
            edges = [-1, *np.flatnonzero(~slices.plain).tolist(), len(bounds)]
            for last, k in pairwise(edges):
                if k - last > _FEW:
                    self._run(slices, np.arange(last + 1, k), marks)
                    last = k - 1
                for one in range(last + 1, min(k + 1, len(bounds))):
                    inner = self._packet(data[slice(*bounds[one])], count + one, marks, one)
                    if inner is not None and nested:
                        raise ValueError(f"{self.path}: compressed packets inside of compressed packets")
                    if inner is not None:
                        self.marks.append(marks[kept:one])
                        kept = one
                        self._packets(inner, nested=True)
            self.marks.append(marks[kept:])
            count += len(bounds)

    def _packet(self, data: bytes, number: int, marks: Marks, place: int) -> bytes | None:
        """Takes one packet, or returns the packets that are compressed in it."""
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

        packet = TracePacket()
        try:
            packet.ParseFromString(data)
        except DecodeError as error:
            raise ValueError(f"{self.path}: {DESCRIPTION}, damaged in packet {number} ({error})") from None
        if not packet.HasField("compressed_packets"):
            self._take(packet, marks, place)
            return None
        unpacker = zlib.decompressobj()
        inner = unpacker.decompress(packet.compressed_packets, _LARGEST)
        if unpacker.unconsumed_tail:
            raise ValueError(f"{self.path}: compressed packets expand to more than {_LARGEST >> 20} MiB")
        return inner

    def _run(self, slices: Slices, index: NDArray[np.int64], marks: Marks) -> None:
        """Takes the beginnings and ends of slices in a run of plain packets, during which nothing is defined anew."""
        for number in np.unique(slices.sequence[index]).tolist():
            sequence = self.sequences[number]
            mine = index[slices.sequence[index] == number]
            clocks = np.where(slices.clock[mine] == 0, sequence.clock or _BOOT_TIME, slices.clock[mine])
            for clock in np.unique(clocks).tolist():
                self._times(clock, mine[clocks == clock], slices, sequence, marks)
            mine = mine[marks.step[mine] != 0]
            track = np.where(slices.track[mine] == 0, _signed(sequence.track), slices.track[mine])
            marks.track[mine] = self._tracks_of(track)
            begins = mine[marks.step[mine] > 0]
            kinds, which = slices.kinds(begins)
            numbers, linked = [], []
            for category_iid, category_text, name_iid, name_text in kinds:
                category = sequence.categories.get(category_iid, "") or text(self.texts.all[category_text])
                name = sequence.names.get(name_iid) or text(self.texts.all[name_text]) or category or "slice"
                numbers.append(self._kind(category, name))
                linked.append(category in _ROCPROF)
            if len(begins):
                marks.kind[begins] = np.array(numbers)[which]
                self._details(slices, begins[np.array(linked)[which]], sequence, marks)

    def _times(self, clock: int, index: NDArray[np.int64], slices: Slices, sequence: _Sequence, marks: Marks) -> None:
        """Sets the times of these packets, and which of them begin or end a slice."""
        time, known = slices.time[index], sequence.clocks.get(clock)
        if clock in _SEQUENCE_CLOCKS and known is None:
            self.other[_NO_CLOCK] += len(index)
            return
        zero, unit, incremental = known if known is not None and clock in _SEQUENCE_CLOCKS else (0, 1, 0)
        zero = zero if clock in _SEQUENCE_CLOCKS else self.offsets.get(clock, 0)
        unsigned = time.view(np.uint64).astype(float)
        largest = float(unsigned.sum() if incremental else unsigned.max()) * abs(unit) + abs(zero)
        if largest > _LONGEST:
            raise ValueError(f"{self.path}: the time {largest:.4g} ns is too large")
        time = zero + (np.cumsum(time) if incremental else time) * unit
        if incremental and known is not None:
            known[0] = int(time[-1])
        self.last = max(self.last, int(time.max()))
        marks.time[index] = time
        marks.step[index] = np.where(slices.type[index] == BEGIN, 1, -1)

    def _details(self, slices: Slices, index: NDArray[np.int64], sequence: _Sequence, marks: Marks) -> None:
        """Sets the bytes and the links of work and calls of rocprofv3."""
        wanted = np.zeros(len(slices.plain) + 1, dtype=bool)
        wanted[index] = True
        for which, column in (("corr_id", marks.correlation), ("copy_bytes", marks.bytes)):
            iids = [iid for iid, name in sequence.details.items() if name == which]
            named = [k for k, name in enumerate(self.texts.all) if name == which.encode()]
            found = wanted[slices.detail_of] & (
                ((slices.detail_name == 0) & np.isin(slices.detail_iid, iids)) | np.isin(slices.detail_name, named)
            )
            value = slices.detail_value[found]
            column[slices.detail_of[found]] = np.where((value >= 0) & (value < _LONGEST), value, -1)

    def _tracks_of(self, uuids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of tracks."""
        values, which = np.unique(uuids, return_inverse=True)
        numbers = [self._track_number(uuid) for uuid in values.view(np.uint64).tolist()]
        return np.array(numbers, dtype=np.int64)[which]

    def _track_number(self, uuid: int) -> int:
        return self.numbers.setdefault(uuid, len(self.numbers))

    def _kind(self, category: str, name: str) -> int:
        """The number of a kind of slice."""
        if (known := self.kinds.get((category, name))) is None:
            known = self.kinds[category, name] = len(self.kinds)
        return known

    def _take(self, packet: Any, marks: Marks, place: int) -> None:
        number = packet.trusted_packet_sequence_id
        sequence = self.sequences[number]
        if packet.sequence_flags & CLEARED or packet.incremental_state_cleared:
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
                self._event(packet.track_event, time, sequence, marks, place)
        elif kind == "gpu_render_stage_event":
            if (time := self._time(packet, sequence)) is not None:
                self._stage(packet.gpu_render_stage_event, time, sequence)
        elif kind == "track_descriptor":
            self._describe(packet.track_descriptor)
        elif kind == "clock_snapshot":
            self._clocks(packet.clock_snapshot, sequence)

    def _clocks(self, snapshot: Any, sequence: _Sequence) -> None:
        """Takes clocks that were read at the same instant.

        Only the first readings are used, so that time never jumps.
        """
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
        """The time of a packet on the trace's clock in ns; None (and counted) if the file does not give it."""
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
                self.other[_NO_CLOCK] += 1
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

    def _event(self, event: Any, time: int, sequence: _Sequence, marks: Marks, place: int) -> None:
        track = self._track_number(event.track_uuid or sequence.track)
        complete = event.type == _UNSPECIFIED and event.legacy_event.phase == _COMPLETE
        if event.type not in (BEGIN, END) and not complete:
            self.other["marks and values of counters, which have no duration, are ignored"] += 1
            return
        marks.track[place], marks.time[place] = track, time
        if event.type == END:
            marks.step[place] = -1
            return
        category = ""
        if iids := event.category_iids:
            category = sequence.categories.get(iids[0], "")
        elif texts := event.categories:
            category = text(texts[0])
        name = sequence.names.get(event.name_iid) or text(event.name)
        name = name or sequence.names.get(event.legacy_event.name_iid) or category or "slice"
        marks.kind[place] = self._kind(category, name)
        if complete:
            end = time + event.legacy_event.duration_us * 1000
            self.complete[track].append((int(marks.kind[place]), time, end))
            return
        marks.step[place] = 1
        for detail in event.debug_annotations if category in _ROCPROF else ():
            which = text(detail.name) or sequence.details.get(detail.name_iid)
            value = detail.uint_value or detail.int_value
            if which in ("corr_id", "copy_bytes"):
                column = marks.correlation if which == "corr_id" else marks.bytes
                column[place] = value if value < _LONGEST else -1

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
        """Adds the slices of each track, and the stages."""
        labels: Counter[tuple[int, str, bool]] = Counter()
        table = [(int(_category(*key)), key[0] in _WORK, self.builder.name(key[1])) for key in self.kinds]
        kinds = np.array(table or [(0, False, 0)], dtype=np.int64)
        marks = joined(self.marks) if self.marks else Marks.void(0)
        self.marks.clear()
        marks = marks[marks.step != 0]
        order = np.argsort(marks.track, kind="stable")
        edges = np.searchsorted(marks.track[order], np.arange(len(self.numbers) + 1))
        for uuid, number in self.numbers.items():
            begins, end, stray = paired(marks[order[edges[number] : edges[number + 1]]])
            self.other["ends of slices that never began are ignored"] += stray
            self.other["slices were open at the end and are closed there"] += int(np.count_nonzero(end < 0))
            end = np.where(end < 0, np.maximum(self.last, begins.time), end)
            kind, start, later = np.array(self.complete.get(number, []), dtype=np.int64).reshape(-1, 3).T
            none = np.full(len(kind), -1)
            columns = {
                "kind": np.concatenate((begins.kind, kind)), "start": np.concatenate((begins.time, start)),
                "end": np.concatenate((end, later)), "bytes": np.concatenate((begins.bytes, none)),
                "correlation": np.concatenate((begins.correlation, none)),
            }  # fmt: skip
            category, on_stream, title = kinds[columns.pop("kind")].T
            process, label = self._place(uuid)
            for stream in np.unique(on_stream).tolist():
                labels[process, label, bool(stream)] += 1  # tracks of the same name stay separate
                place = labels[process, label, bool(stream)]
                which = f"{label} #{place}" if place > 1 else label
                line = self.builder.line(process, which, "stream" if stream else "host")
                mine = on_stream == stream
                columns_of = {key: column[mine] for key, column in columns.items()}
                self.builder.add(line=line, category=category[mine], name=title[mine], **columns_of)
        if self.stages:
            queues, begun, ended, names = zip(*self.stages, strict=True)
            process = max((t.pid for t in self.tracks.values()), default=0)
            self.builder.add(
                line=[self.builder.line(max(process, 0), queue, "stream") for queue in queues], start=begun, end=ended,
                category=[int(apis.kernel(n)) for n in names], name=[self.builder.name(n) for n in names],
            )  # fmt: skip


def _signed(number: int) -> int:
    """An unsigned 64-bit number as the signed number with the same bits."""
    return number - 2**64 if number >= 2**63 else number


def _category(category: str, name: str) -> Category:
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
