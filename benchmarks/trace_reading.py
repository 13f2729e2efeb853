"""Measures how fast traces are read and summarised, and kernels are ordered; writes JSON.

    python benchmarks/trace_reading.py --events 1000000 --output benchmarks/results/trace_reading.json

Generates a trace of that many events in each of six formats. Each is read in a process of its own, which reports the
processor time of reading, of `weft trace summary` and of its --stats, and its peak memory. The benchmark then orders
2,000 kernels of 20 runs.

    python benchmarks/trace_reading.py --ranks 64 --of TRACE.json.gz --output benchmarks/results/trace_ranks.json

repeats the events of a real Kineto trace with collectives to 100,000 per rank, in a folder with a file per rank, whose
clocks differ, and measures `weft trace summary` of that folder.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from weft.traces import chakra_nodes, protobufs, xplane

FORMATS = ("weft", "kineto", "nsys", "perfetto", "xplane", "chakra")


def rounds(events: int) -> Iterator[tuple[int, int, int, int]]:
    """(correlation, ns of the launch, start and end of the kernel): a launch and a kernel are two events."""
    random = np.random.default_rng(0)
    lengths = random.integers(500, 20_000, events // 2).tolist()
    free = 0
    for i, length in enumerate(lengths):
        launch = 6_000 * i
        start = max(launch + 4_000, free)
        free = start + length // 2
        yield i, launch, start, free


def write_chrome(path: Path, events: int, kineto: bool) -> None:
    beginning = '{"schemaVersion":1,"traceEvents":[' if kineto else '{"displayTimeUnit":"ns","traceEvents":[\n'
    with path.open("w") as file:
        file.write(beginning)
        for i, launch, start, end in rounds(events):
            link = f'"External id":{i},"correlation":{i}' if kineto else '"bytes":0'
            for name, kind, pid, tid, ts, length in (
                ("cudaLaunchKernel", "cuda_runtime" if kineto else "launch", 50 if kineto else 0, 0, launch, 3_000),
                (f"kernel {i % 97}", "kernel" if kineto else "gpu", 0, 7 if kineto else 1, start, end - start),
            ):
                comma = "" if i == 0 and name == "cudaLaunchKernel" else ",\n"
                file.write(
                    f'{comma}{{"ph":"X","cat":"{kind}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts / 1000:.3f},'
                    f'"dur":{length / 1000:.3f},"args":{{{link}}}}}'
                )
        file.write("\n]}\n")


def write_nsys(path: Path, events: int) -> None:
    thread = (50 << 24) + 51
    with sqlite3.connect(path) as base:
        base.execute("create table StringIds (id integer primary key, value text)")
        names = [(1, "cudaLaunchKernel_v7000"), *((i + 2, f"kernel {i}") for i in range(97))]
        base.executemany("insert into StringIds values (?, ?)", names)
        base.execute("create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, globalTid integer, "
                     "correlationId integer, nameId integer)")  # fmt: skip
        base.execute(
            "create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, deviceId integer, contextId integer, "
            "streamId integer, correlationId integer, globalPid integer, shortName integer)"
        )
        base.executemany("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?, ?, ?, ?, 1)",
                         ((launch, launch + 3000, thread, i) for i, launch, _, _ in rounds(events)))  # fmt: skip
        base.executemany("insert into CUPTI_ACTIVITY_KIND_KERNEL values (?, ?, 0, 1, 7, ?, ?, ?)",
                         ((s, e, i, 50 << 24, i % 97 + 2) for i, _, s, e in rounds(events)))  # fmt: skip
    base.close()


def write_perfetto(path: Path, events: int) -> None:
    """Writes slices like rocprofv3: two packets each, with the number that links call and kernel."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

    def begin(packet: TracePacket) -> bytes:
        data = packet.SerializeToString()
        return b"\x0a" + varint(len(data)) + data

    def slice(track: int, start: int, end: int, name: int, category: int, link: int) -> tuple[tuple[int, bytes], ...]:
        first, last = TracePacket(), TracePacket()
        for packet, when in ((first, start), (last, end)):
            packet.timestamp, packet.trusted_packet_sequence_id, packet.sequence_flags = when, 1, 2
            packet.track_event.track_uuid = track
        first.track_event.type, last.track_event.type = first.track_event.TYPE_SLICE_BEGIN, 2
        first.track_event.name_iid = name
        first.track_event.category_iids.append(category)
        first.track_event.debug_annotations.add(name_iid=1, uint_value=link)
        return (start, begin(first)), (end, begin(last))

    head = TracePacket(trusted_packet_sequence_id=1, sequence_flags=1)
    for k, name in enumerate(("hipLaunchKernel", *(f"kernel {i}" for i in range(97)))):
        head.interned_data.event_names.add(iid=k + 1, name=name)
    for k, name in enumerate(("hip_api", "kernel_dispatch")):
        head.interned_data.event_categories.add(iid=k + 1, name=name)
    head.interned_data.debug_annotation_names.add(iid=1, name="corr_id")
    thread = TracePacket(trusted_packet_sequence_id=1)
    thread.track_descriptor.uuid, thread.track_descriptor.thread.pid, thread.track_descriptor.thread.tid = 1, 50, 51
    stream = TracePacket(trusted_packet_sequence_id=1)
    stream.track_descriptor.uuid, stream.track_descriptor.parent_uuid, stream.track_descriptor.name = 2, 1, "stream 1"
    with path.open("wb") as file:
        file.write(begin(head) + begin(thread) + begin(stream))
        for i, launch, start, end in rounds(events):
            for _, packet in slice(1, launch, launch + 3_000, 1, 1, i + 1):
                file.write(packet)
            for _, packet in slice(2, start, end, i % 97 + 2, 2, i + 1):
                file.write(packet)


def write_xplane(path: Path, events: int) -> None:
    fields = {kind: dict(of) for kind, of in xplane._FIELDS.items()}
    fields["Plane"]["lines"], fields["Line"]["events"] = (3, "*Line"), (4, "*Event")
    classes = protobufs.schema("benchmark.xplane", fields)
    space = classes["Space"]()
    places = (("/host:CPU", "python"), ("/device:GPU:0", "Stream #7"))
    lines = []
    for plane_name, line_name in places:
        plane = space.planes.add(name=plane_name.encode())
        plane.stat_names.add(key=1).value.name = b"correlation_id"
        for k, name in enumerate(("cuLaunchKernel", *(f"kernel {i}" for i in range(97)))):
            plane.events.add(key=k + 1).value.name = name.encode()
        lines.append(plane.lines.add(name=line_name.encode(), timestamp_ns=1_000))
    for i, launch, start, end in rounds(events):
        for line, first, last, name in ((lines[0], launch, launch + 3_000, 1), (lines[1], start, end, i % 97 + 2)):
            event = line.events.add(metadata_id=name, offset_ps=1000 * first, duration_ps=1000 * (last - first))
            event.stats.add(metadata_id=1, int=i + 1)
    path.write_bytes(space.SerializeToString())


def write_chakra(path: Path, events: int) -> None:
    """Writes pairs of a host's node and the device's node that depends on it."""
    classes = protobufs.schema("benchmark.chakra", chakra_nodes.FIELDS)

    def message(kind: str, **fields: object) -> bytes:
        data = classes[kind](**fields).SerializeToString()
        return varint(len(data)) + data

    def attribute(name: bytes, **value: object) -> object:
        return classes["Attribute"](name=name, **value)

    host = [attribute(b"is_cpu_op", bool=True), attribute(b"tid", int64=1)]
    device = [attribute(b"is_cpu_op", bool=False), attribute(b"stream", int64=7)]
    with path.open("wb") as file:
        file.write(message("Metadata", version=b"0.0.4"))
        for i, _, start, end in rounds(events):
            file.write(message("Node", id=2 * i + 1, name=b"aten::mul", type=4, duration_micros=3, attributes=host))
            file.write(message("Node", id=2 * i + 2, name=f"kernel {i % 97}".encode(), type=4, data=[2 * i + 1],
                               duration_micros=(end - start) // 1000 + 1, attributes=device))  # fmt: skip


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def write_ranks(folder: Path, source: Path, ranks: int, events: int) -> None:
    """Writes the repeated records of a trace for each rank; clocks differ by whole microseconds."""
    with gzip.open(source, "rt") as file:
        content = json.load(file)
    rows = [e for e in content["traceEvents"] if "ts" in e]
    first, last = min(float(e["ts"]) for e in rows), max(float(e["ts"]) for e in rows)
    group = json.dumps(str([*range(ranks)]))[1:-1]
    texts = []
    for row in rows:
        text = json.dumps({**row, "ts": "TIME"}).replace('"Process Group Ranks": "[0, 1]"',
                                                         f'"Process Group Ranks": "{group}"')  # fmt: skip
        texts.append((float(row["ts"]) - first, *text.split('"TIME"')))
    random = np.random.default_rng(0)
    for rank in range(ranks):
        skew = float(random.integers(-3000, 3000)) + 5000
        info = {"backend": "nccl", "rank": rank, "world_size": ranks}
        with (folder / f"rank{rank}.json").open("w") as out:
            out.write(f'{{"schemaVersion":1,"distributedInfo":{json.dumps(info)},"traceEvents":[')
            for n in range(events):
                since, head, tail = texts[n % len(texts)]
                time = since + (n // len(texts)) * (last - first + 100) + skew
                out.write(f"{',' if n else ''}{head}{time:.3f}{tail}")
            out.write("]}\n")


def write(path: Path, name: str, events: int) -> None:
    """A trace in a format."""
    if name in ("weft", "kineto"):
        write_chrome(path, events, name == "kineto")
    else:
        {"nsys": write_nsys, "perfetto": write_perfetto, "xplane": write_xplane, "chakra": write_chakra}[name](
            path, events
        )


def measure_ranks(source: Path, ranks: int, events: int) -> dict[str, object]:
    """Time and memory of `weft trace summary` for a folder of ranks."""
    with tempfile.TemporaryDirectory() as name:
        write_ranks(Path(name), source, ranks, events)
        size = sum(p.stat().st_size for p in Path(name).iterdir())
        command = "from weft.cli.main import main; main()"
        subprocess.run([sys.executable, "-c", command, "trace", "summary", name, "--json"], check=True,
                       stdout=(Path(name).with_suffix(".out")).open("w"))  # fmt: skip
    out = Path(name).with_suffix(".out")
    said = json.loads(out.read_text())
    out.unlink()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"source": source.name, "ranks": ranks, "records_per_rank": events, "file_bytes": size,
            "events": said["events"], "processor_seconds": used.ru_utime + used.ru_stime,
            "peak_bytes": used.ru_maxrss * 1024,
            "clocks": next(n for n in said["notes"] if "clocks" in n)}  # fmt: skip


def measure(path: str) -> None:
    """The work of a separate process: read, summarise, and print time and memory."""
    from weft.report.trace import figures
    from weft.report.trace_statistics import statistics
    from weft.traces import load

    times = [time.process_time()]
    trace = load(path)
    for step in (lambda: None, lambda: figures(trace), lambda: statistics(trace)):
        step()
        times.append(time.process_time())
    load_seconds, summary_seconds, statistics_seconds = np.diff(times)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"events": len(trace), "load_seconds": load_seconds, "summary_seconds": summary_seconds,
                      "statistics_seconds": statistics_seconds, "peak_bytes": memory}))  # fmt: skip


def ordering() -> dict[str, float]:
    """20 runs of 2,000 kernels on 8 streams, each with one kernel delayed."""
    from weft.model.order import order
    from weft.traces import Builder, Category

    random = np.random.default_rng(1)
    length = random.integers(1_000, 50_000, 2000)
    runs = []
    for run in range(20):
        builder = Builder("generated", f"run {run}")
        lines = [builder.line(0, f"stream {s}", "stream") for s in range(8)]
        free, starts, ends = [0] * 8, [], []
        delayed = int(random.integers(0, 2000))
        for k in range(2000):
            wait = max(free) if k % 50 == 49 else 0  # a barrier now and then
            start = max(5_000 * k, free[k % 8], wait) + (10**8 if k == delayed else 0)
            starts.append(start)
            ends.append(start + int(length[k]) + int(random.integers(0, 2_000)))
            free[k % 8] = ends[-1]
        name = [builder.name(f"k{k}") for k in range(2000)]
        builder.add(
            line=[lines[k % 8] for k in range(2000)], start=starts, end=ends, category=int(Category.gpu), name=name
        )
        runs.append(builder.build())
    began = time.process_time()
    found = order(runs)
    ordered = time.process_time()
    width = found.width()
    return {"kernels": 2000, "runs": 20, "order_seconds": ordered - began,
            "width_seconds": time.process_time() - ordered, "width": width, "edges": len(found.edges)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--ranks", type=int, default=0, help="measure a folder of this many ranks instead")
    parser.add_argument("--of", type=Path, help="Kineto trace whose events the ranks repeat")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ranks:
        found = measure_ranks(options.of, options.ranks, min(options.events, 100_000))
        print(found)
        if options.output:
            options.output.write_text(json.dumps(found, indent=1) + "\n")
        return
    if options.measure:
        measure(options.measure)
        return
    results: dict[str, object] = {
        "machine": platform.processor() or platform.machine(),
        "python": sys.version.split()[0],
    }
    with tempfile.TemporaryDirectory() as folder:
        for name in FORMATS:
            path = Path(folder) / f"{name}.trace"
            write(path, name, options.events)
            done = subprocess.run([sys.executable, __file__, "--measure", str(path)], capture_output=True, text=True,
                                  check=True)  # fmt: skip
            results[name] = {"file_bytes": path.stat().st_size, **json.loads(done.stdout)}
            print(name, results[name], flush=True)
            path.unlink()
    results["order"] = ordering()
    print("order", results["order"])
    if options.output:
        options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
