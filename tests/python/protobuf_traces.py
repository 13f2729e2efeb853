"""Writers of small protobuf traces for tests: Perfetto by its authors' builder, XSpace and Chakra by weft's schemas."""

from __future__ import annotations

from typing import Any

from perfetto.trace_builder.proto_builder import TraceProtoBuilder

from weft.traces import chakra_nodes, protobufs, xplane


def length(size: int) -> bytes:
    """A length as Chakra writes it before each message."""
    out = b""
    while size > 0x7F:
        out += bytes([size & 0x7F | 0x80])
        size >>= 7
    return out + bytes([size])


def delimited(*messages: Any) -> bytes:
    return b"".join(length(len(data)) + data for data in (m.SerializeToString() for m in messages))


class Perfetto:
    """A trace with the packets that Perfetto's SDK writes: interned names and a clock that counts from the last packet.

    `rocprofv3`'s tool writes each slice with its category, and the same annotations.
    """

    def __init__(self) -> None:
        self.builder = TraceProtoBuilder()
        self.interned: dict[tuple[str, str], int] = {}
        self.now = 5_000
        packet = self.packet(flags=1)
        packet.trace_packet_defaults.timestamp_clock_id = 64
        packet.trace_packet_defaults.track_event_defaults.track_uuid = 11
        snapshot = self.packet().clock_snapshot
        for clock, time in ((6, self.now), (3, self.now - 4_000)):
            snapshot.clocks.add(clock_id=clock, timestamp=time)
        snapshot.clocks.add(clock_id=64, timestamp=0, is_incremental=True)
        process = self.packet().track_descriptor
        process.uuid, process.process.pid = 10, 77
        thread = self.packet().track_descriptor
        thread.uuid, thread.parent_uuid, thread.thread.pid, thread.thread.tid = 11, 10, 77, 78
        for uuid, name in ((20, "COMPUTE AGENT [4] STREAM [1] (GPU)"), (21, "COPY to AGENT [4] STREAM [1] (GPU)")):
            track = self.packet().track_descriptor
            track.uuid, track.parent_uuid, track.name = uuid, 10, name

    def packet(self, flags: int = 2) -> Any:
        packet = self.builder.add_packet()
        packet.trusted_packet_sequence_id, packet.sequence_flags = 3, flags
        return packet

    def intern(self, packet: Any, kind: str, text: str) -> int:
        if (kind, text) not in self.interned:
            self.interned[kind, text] = len(self.interned) + 1
            getattr(packet.interned_data, kind).add(iid=self.interned[kind, text], name=text)
        return self.interned[kind, text]

    def at(self, packet: Any, time: int) -> None:
        """Sets the time: as the difference from the last packet, or absolute on the default clock if it lies before."""
        if time >= self.now:
            packet.timestamp, self.now = time - self.now, time
        else:
            packet.timestamp, packet.timestamp_clock_id = time, 6

    def slice(self, track: int, start: int, end: int, name: str, category: str = "app", **details: int) -> Perfetto:
        begin = self.packet()
        self.at(begin, start)
        event = begin.track_event
        event.type = event.TYPE_SLICE_BEGIN
        if track != 11:
            event.track_uuid = track
        event.name_iid = self.intern(begin, "event_names", name)
        event.category_iids.append(self.intern(begin, "event_categories", category))
        for key, value in details.items():
            event.debug_annotations.add(name_iid=self.intern(begin, "debug_annotation_names", key), uint_value=value)
        if end >= 0:
            self.end(track, end)
        return self

    def end(self, track: int, time: int) -> Perfetto:
        packet = self.packet()
        self.at(packet, time)
        packet.track_event.type, packet.track_event.track_uuid = packet.track_event.TYPE_SLICE_END, track
        return self

    def bytes(self) -> bytes:
        return self.builder.serialize()


def rocprofv3() -> Perfetto:
    """A program with a marker around a copy and a kernel, in rocprofv3's order: by kind, not by time."""
    trace = Perfetto()
    trace.slice(11, 6_000, 6_500, "hipMemcpyAsync", "hip_api", corr_id=1)
    trace.slice(11, 7_000, 7_200, "hipLaunchKernel", "hip_api", corr_id=2)
    trace.slice(11, 7_300, 9_900, "hipDeviceSynchronize", "hip_api", corr_id=3)
    trace.slice(11, 5_500, 9_950, "step 0", "marker_api", corr_id=4)
    trace.slice(21, 6_400, 6_900, "MEMORY_COPY_HOST_TO_DEVICE", "memory_copy", corr_id=1, copy_bytes=4096)
    return trace.slice(20, 7_500, 9_800, "axpy(double*)", "kernel_dispatch", corr_id=2)


def xspace() -> Any:
    """A host with two steps, and a GPU with a stream, whose 'while' has two operations inside, and a derived line."""
    fields = {kind: dict(of) for kind, of in xplane._FIELDS.items()}
    fields["Plane"]["lines"], fields["Line"]["events"] = (
        (3, "*Line"),
        (4, "*Event"),
    )  # the reader declares text as bytes
    classes = protobufs.schema("test.xplane", fields)
    space = classes["Space"]()
    for plane_name in (b"/host:CPU", b"/device:GPU:0"):
        plane = space.planes.add(name=plane_name)
        ids: dict[bytes, int] = {}
        stats = {key: k + 1 for k, key in enumerate((b"correlation_id", b"memcpy_details", b"step_num", b"process_id"))}
        for key, number in stats.items():
            plane.stat_names.add(key=number).value.name = key
        plane.stats.add(metadata_id=stats[b"process_id"], int=42)
        lines: dict[bytes, list[tuple]] = {
            b"/host:CPU": [
                (b"main", [(b"train", 0, 5_000_000, {b"step_num": 7}),
                           (b"cuLaunchKernel", 1_000_500, 500_000, {b"correlation_id": 9})]),
            ],
            b"/device:GPU:0": [
                (b"Stream #14", [(b"while", 2_000_000, 2_000_000, {}), (b"fusion", 2_000_000, 900_000, {}),
                                 (b"ncclDevKernel_AllReduce", 3_000_000, 1_000_000, {b"correlation_id": 9}),
                                 (b"MemcpyH2D", 4_100_000, 100_000, {b"memcpy_details": b"size:640 dest:0"})]),
                (b"XLA Modules", [(b"jit_f(1)", 2_000_000, 2_000_000, {})]),
            ],
        }[plane_name]  # fmt: skip
        for number, (title, events) in enumerate(lines):
            line = plane.lines.add(id=number, name=title, timestamp_ns=1_000_000)
            for name, offset, duration, details in events:
                key = ids.setdefault(name, len(ids) + 1)
                event = line.events.add(metadata_id=key, offset_ps=offset, duration_ps=duration)
                for stat, value in details.items():
                    added = event.stats.add(metadata_id=stats[stat])
                    setattr(added, "text" if isinstance(value, bytes) else "int", value)
        for name, key in ids.items():
            plane.events.add(key=key).value.name = name
    return space


def graph(nodes: list[tuple], start: bool = False, packed: bool = False) -> bytes:
    """A Chakra trace of nodes (id, name, type, dependencies, duration in µs, attributes).

    `packed` writes dependencies like libraries for version 3 of protobufs. An attribute may be (field, value).
    """
    classes = protobufs.schema("test.chakra", chakra_nodes.FIELDS)
    messages = [classes["Metadata"](version=b"0.0.4")]
    for number, name, kind, data, duration, attributes in nodes:
        node = classes["Node"](id=number, name=name.encode(), type=kind, duration_micros=duration)
        if packed and data:
            numbers = b"".join(map(length, data))
            node.MergeFromString(b"\x2a" + length(len(numbers)) + numbers)  # field 5 as bytes
            assert list(node.data) == data
        else:
            node.data.extend(data)
        if start:
            node.start_micros = 1000 + 10 * number
        for key, value in attributes.items():
            which = {bool: "bool", int: "int64", str: "text"}.get(type(value), "")
            which, value = (which, value) if which else value
            added = node.attributes.add(name=key.encode())
            setattr(added, which, value.encode() if isinstance(value, str) else value)
        messages.append(node)
    return delimited(*messages)


NODES = [
    (1, "aten::mm(0)", 4, [], 20, {"is_cpu_op": True, "tid": 1}),
    (2, "gemm", 4, [1], 100, {"is_cpu_op": False, "stream": 7}),
    (3, "aten::add(0)", 4, [1], 30, {"is_cpu_op": True, "tid": 1}),
    (4, "add", 4, [3, 2], 10, {"is_cpu_op": False, "stream": 7}),
    (5, "ncclKernel", 7, [2], 50, {"is_cpu_op": False, "stream": 9, "comm_type": 0, "comm_size": 1024, "pg_name": "3"}),
    (6, "to the next", 5, [5], 5, {"is_cpu_op": False, "stream": 9, "comm_dst": 1, "comm_size": 64, "comm_tag": 2}),
]
