"""The contents of trace files, counted without weft's readers: by SQL, JSON, CSV, patterns and the OTF2 library."""

import csv
import gzip
import json
import re
import sqlite3
import tarfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from dataclasses import fields as columns_of
from pathlib import Path
from typing import Any


@dataclass
class Counts:
    """The number of events, and of those on the device by kind; ns in which each process's device is busy; bytes.

    Figures that were not counted are None.
    """

    events: int = 0
    kernels: int = 0  # and memsets, and copies inside a device
    collectives: int = 0  # kernels of NCCL or RCCL
    copies: int = 0  # between host and device
    calls: int | None = 0  # of the device's runtime, and records of waits
    launched: int | None = 0  # pieces of device work whose call is in the file
    busy: float | None = 0.0
    bytes: int = 0  # of copies, memsets and collectives of the device, or of messages if there is no device
    messages: int = 0  # calls that communicate
    _intervals: dict[object, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def work(self, process: object, kind: str, start: float, end: float, moved: int = 0) -> None:
        """Adds a piece of device work; `kind` is one of the fields of this class."""
        setattr(self, kind, getattr(self, kind) + 1)
        self._intervals[process].append((start, end))
        self.bytes += moved

    def figures(self) -> dict[str, float]:
        """The counts by name."""
        return {f.name: getattr(self, f.name) for f in columns_of(self) if not f.name.startswith("_")}

    def differences(self, other: "Counts", allowed: float) -> list[str]:
        """The figures that differ from other counts; busy times and bytes by more than the share `allowed`."""
        found = []
        for name, value in self.figures().items():
            wanted = other.figures()[name]
            if wanted is not None and abs(value - wanted) > (allowed * wanted if name in ("busy", "bytes") else 0):
                found.append(f"{name}: {value:g} instead of {wanted:g}")
        return found

    def done(self) -> "Counts":
        """Adds up the busy time, by counting the work that is open between any two starts and ends."""
        for intervals in self._intervals.values():
            times = sorted([(a, 1) for a, _ in intervals] + [(b, -1) for _, b in intervals])
            open_ = 0
            for (time, step), (later, _) in zip(times, [*times[1:], times[-1]], strict=True):
                open_ += step
                self.busy += later - time if open_ else 0
        return self


def counts(path: Path) -> Counts | None:
    """The counts of a file; None if it is no trace."""
    name, data = path.name.removesuffix(".gz"), path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    if name.endswith(".sqlite"):
        return nsys(path)
    if name.endswith(".db"):
        return rocpd(path)
    if name.endswith(".json"):
        return written(json.loads(data))
    if name.endswith(".et"):
        return chakra(data)
    if name.endswith(".xplane.pb"):
        return xplane(data)
    if name.endswith(".csv"):
        return table(list(csv.DictReader(data.decode().splitlines())))
    if name.endswith(".goal"):
        operations = re.findall(r"^\s*\w+: (send|recv|calc) (\d+)", data.decode(), re.MULTILINE)
        moved = sum(int(n) for way, n in operations if way != "calc")
        return Counts(len(operations), messages=sum(way != "calc" for way, _ in operations), bytes=moved)
    if name.endswith(".tgz"):
        return collectives(path)
    return archive(path) if name.endswith(".otf2") and len(path.parent.name) > len("traces") else None


def written(content: dict[str, Any]) -> Counts | None:
    """JSON of PyTorch's profiler, rocprofv3 or Chakra; None if it is of something else."""
    if "traceEvents" in content:
        return kineto(content["traceEvents"])
    if "workload_graph" in content:
        keys = ("Id", "Name", "NodeType", "is_cpu_op", "data_deps")
        return graph([(*(node[k] for k in keys), node.get("comm_type"), 0) for node in content["workload_graph"]])
    return rocprof(content) if "rocprofiler-sdk-tool" in content else None


def kineto(events: list[dict[str, Any]]) -> Counts:
    """Complete events ('ph': 'X') by category; device work belongs to the process that launched it, or to any."""
    found = Counts()
    calls: dict[object, object] = {}  # the process of each call by its correlation
    work: list[tuple[object, str, float, float, int]] = []
    first = min(float(e["ts"]) for e in events if e.get("ph") == "X")
    for e in events:
        if e.get("ph") != "X":
            continue
        found.events += 1
        of, link = e.get("cat", "").lower(), e.get("args", {}).get("correlation")
        if of in ("cuda_runtime", "cuda_driver", "cuda_sync", "runtime"):
            found.calls += 1
            if of != "cuda_sync" and link is not None:
                calls[link] = e["pid"]
        elif of in ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"):
            across = "memcpy" in of and "DtoD" not in e["name"]
            kind = "copies" if across else "collectives" if e["name"].startswith("nccl") else "kernels"
            start = (float(e["ts"]) - first) * 1e3  # in whole, doubles would keep only a quarter of a microsecond
            args = e["args"]
            moved = args.get("In msg nelems", 0) * {
                "Float": 4,
                "Long": 8,
                "Int": 4,
                "Char": 1,
                "Byte": 1,
                "BFloat16": 2,
                "Half": 2,
            }.get(args.get("dtype"), 0)
            moved = args.get("bytes", 0) if "mem" in of else moved
            work.append((link, kind, start, start + float(e["dur"]) * 1e3, moved))
        elif of == "user_annotation" and e["name"].startswith("gloo:"):
            found.messages += 1
    for link, *what in work:
        found.launched += link in calls
        found.work(calls.get(link, next(iter(calls.values()), 0)), *what)
    return found.done()


def rocprof(content: dict[str, Any]) -> Counts:
    """Kernel dispatches; the file at hand has nothing else, which is checked."""
    found = Counts()
    (tool,) = content["rocprofiler-sdk-tool"]
    records = tool["buffer_records"]
    assert {kind for kind, rows in records.items() if rows} == {"kernel_dispatch"}
    names = {k["kernel_id"]: k["kernel_name"] for k in tool["kernel_symbols"]}
    for r in records["kernel_dispatch"]:
        found.events += 1
        kind = "collectives" if "nccl" in names[r["dispatch_info"]["kernel_id"]] else "kernels"
        found.work(0, kind, r["start_timestamp"], r["end_timestamp"])
    return found.done()


def nsys(path: Path) -> Counts:
    """By SQL, busy times too: what each row adds to the latest end so far of its process."""
    file = sqlite3.connect(f"file:{path.resolve()}?mode=ro&immutable=1", uri=True)
    tables = {n for (n,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def number(query: str) -> int:
        return int(file.execute(query).fetchone()[0] or 0)

    def rows(name: str, where: str = "1") -> int:
        return number(f"SELECT count(*) FROM {name} WHERE {where}") if name in tables else 0

    def columns(name: str) -> set[str]:
        return {row[1] for row in file.execute(f"PRAGMA table_info({name})")}

    kind = "CUPTI_ACTIVITY_KIND_"
    kernel, copy, memset = f"{kind}KERNEL", f"{kind}MEMCPY", f"{kind}MEMSET"
    calls = [f"{kind}{t}" for t in ("RUNTIME", "DRIVER") if f"{kind}{t}" in tables]
    device = [t for t in (kernel, copy, memset, f"{kind}GRAPH_TRACE") if t in tables]
    # Without processes (as some tools write), all is of one.
    whose = {t: "globalPid >> 24" if "globalPid" in columns(t) else "0" for t in device}
    one = "0" in whose.values()
    work = " UNION ALL ".join(f"SELECT {whose[t]} AS p, start AS a, end AS b, correlationId AS c FROM {t}"
                              for t in device) or "SELECT 0 AS p, 0 AS a, 0 AS b, 0 AS c WHERE 0"  # fmt: skip
    before = "max(b) OVER (PARTITION BY p ORDER BY a, b ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    busy = f"SELECT sum(max(0, b - max(a, coalesce(m, a)))) FROM (SELECT a, b, {before} AS m FROM ({work}))"
    nccl = f"SELECT count(*) FROM {kernel} JOIN StringIds ON id = shortName WHERE value LIKE 'nccl%'"
    mpi = ("SELECT count(*) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId WHERE end IS NOT NULL AND "
           "substr(coalesce(text, value), 1, 4) = 'MPI_'")  # fmt: skip
    link = " UNION ALL ".join(f"SELECT {0 if one else 'globalTid >> 24'}, correlationId FROM {t}" for t in calls)
    collectives = number(nccl) if kernel in tables else 0
    return Counts(
        events=sum(rows(t) for t in (*device, *calls, f"{kind}SYNCHRONIZATION"))
        + sum(rows(t, "end IS NOT NULL") for t in ("OSRT_API", "NVTX_EVENTS")),
        kernels=rows(kernel) - collectives + rows(memset) + rows(copy, "copyKind = 8") + rows(f"{kind}GRAPH_TRACE"),
        collectives=collectives,
        copies=rows(copy, "copyKind != 8"),
        calls=sum(rows(t) for t in calls) + rows(f"{kind}SYNCHRONIZATION"),
        launched=number(f"SELECT count(*) FROM ({work}) WHERE (p, c) IN ({link})") if calls else 0,
        busy=number(busy),
        bytes=sum(number(f"SELECT sum(bytes) FROM {t}") for t in (copy, memset) if t in tables),
        messages=number(mpi) if "NVTX_EVENTS" in tables and "StringIds" in tables else 0,
    )


def rocpd(path: Path) -> Counts:
    """Regions, dispatches and copies by SQL; a dispatch is launched by the region with its stack."""
    file = sqlite3.connect(f"file:{path.resolve()}?mode=ro&immutable=1", uri=True)

    def rows(query: str) -> list[Any]:
        return file.execute(query).fetchall()

    regions, copies = rows("SELECT 1 FROM rocpd_region"), rows("SELECT start, end, size FROM rocpd_memory_copy")
    kernels = rows("SELECT start, end FROM rocpd_kernel_dispatch")
    stack = "SELECT e.stack_id FROM rocpd_region r JOIN rocpd_event e ON e.id = r.event_id"
    launched = f"FROM rocpd_kernel_dispatch k JOIN rocpd_event e ON e.id = k.event_id WHERE e.stack_id IN ({stack})"
    found = Counts(len(regions) + len(kernels) + len(copies), calls=len(regions))
    found.launched = rows(f"SELECT count(*) {launched}")[0][0]
    for start, end in kernels:
        found.work(0, "kernels", start, end)
    for start, end, size in copies:
        found.work(0, "copies", start, end, size)
    return found.done()


def fields(data: bytes) -> Iterable[tuple[int, Any]]:
    """The numbers and values of the fields of a protobuf message."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            length = varint() if key & 7 == 2 else {1: 8, 5: 4}[key & 7]
            yield key >> 3, data[at : at + length]
            at += length


def chakra(data: bytes) -> Counts:
    """The nodes after the first message."""
    nodes, at = [], 0
    while at < len(data):
        length = next(value for _, value in fields(b"\x08" + data[at : at + 10]))
        at += len(_varint(length))
        node = list(fields(data[at : at + length]))
        at += length
        given: dict[bytes, Any] = {}
        for attribute in (dict(fields(value)) for number, value in node if number == 10):
            given[attribute[1]] = next((v for n, v in attribute.items() if n not in (1, 2)), 0)
        needs = [v if isinstance(v, int) else next(fields(b"\x08" + v))[1] for n, v in node if n == 5 and v != b""]
        of = dict(node)
        nodes.append((of.get(1, 0), of.get(2, b"").decode(errors="replace"), of.get(3), given.get(b"is_cpu_op"), needs,
                      given.get(b"comm_type"), given.get(b"comm_size", 0)))  # fmt: skip
    return graph(nodes[1:])


def graph(nodes: list[tuple[Any, ...]]) -> Counts:
    """Nodes of Chakra: id, name, type, whether on the host, needs, kind of collective, bytes.

    Busy times depend on a schedule and are not counted.
    """
    found = Counts(len(nodes), busy=None)
    host = {node[0] for node in nodes if node[3]}
    for _, name, kind, on_host, needs, collective, size in nodes:
        if on_host:
            continue
        says = kind in (5, 6) or (kind == 7 and collective is not None)
        found.bytes += size if says else 0
        found.collectives += says or name.startswith("nccl")
        found.kernels += not (says or name.startswith("nccl"))
        found.launched += bool(needs) and needs[0] in host
    return found


def _varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80]) + _varint(number >> 7) if number > 0x7F else bytes([number])


def xplane(data: bytes) -> Counts:
    """The events of all lines of all planes, and those of lines named 'Stream' on devices; calls are not counted."""
    found = Counts(calls=None, launched=None)
    for plane in (list(fields(value)) for number, value in fields(data) if number == 1):
        name = dict(plane).get(2, b"")
        for line in (list(fields(value)) for number, value in plane if number == 3):
            begin, label = dict(line).get(3, 0), dict(line).get(2, b"")
            for event in (dict(fields(value)) for number, value in line if number == 4):
                found.events += 1
                if name.startswith(b"/device:GPU") and label.startswith(b"Stream"):
                    start = 1000 * begin + event.get(2, 0)
                    found.work(0, "kernels", start / 1000, (start + event.get(3, 0)) / 1000)
    return found.done()


def rocprofv3(rows: list[dict[str, str]]) -> Counts:
    """One of rocprofv3's tables, of kernels or of calls."""
    found = Counts(events=len(rows))
    for r in rows:
        if "Kernel_Name" in r:
            found.work(0, "kernels", int(r["Start_Timestamp"]), int(r["End_Timestamp"]))
        else:
            found.calls += r["Domain"].startswith("HIP")
    return found.done()


def table(rows: list[dict[str, str]]) -> Counts:
    """Pipit's rows, an event each for its start and its end, or those of `nsys stats`."""
    if rows and "Start_Timestamp" in rows[0]:
        return rocprofv3(rows)
    found = Counts()
    begun = [r for r in rows if r.get("Event Type", "Enter") == "Enter"]
    found.events = len(begun)
    for r in begun:
        if r.get("streamId"):
            kind = "copies" if "memcpy" in r["Name"].lower() else "kernels"
            ends = float(r["Timestamp (ns)"]), float(r["_matching_timestamp"])
            found.work(0, kind, *ends, int(float(r["bytes"] or 0)))
        elif re.match("cu(da)?[A-Z]", r["Name"]):
            found.calls += 1
    return found.done()


def collectives(path: Path) -> Counts:
    """The lines of the files trace_*.ct, with the bytes in their fourth column."""
    found = Counts()
    with tarfile.open(path) as tar:
        for member in tar:
            if "/trace_" in member.name:
                lines = (tar.extractfile(member) or tarfile.ExFileObject(tar, member)).read().decode().splitlines()
                found.events += len(lines)
                found.bytes += sum(int(line.split(",")[3]) for line in lines)
    found.messages = found.events
    return found


def archive(path: Path) -> Counts:
    """Regions and messages, by the OTF2 library's own iterator."""
    import otf2

    found = Counts()
    with otf2.reader.open(str(path)) as trace:
        events: Iterable[tuple[Any, Any]] = trace.events
        for _, event in events:
            entered = isinstance(event, otf2.events.Enter)
            found.events += entered
            found.messages += entered and event.region.name.startswith("MPI_")
            if isinstance(event, (otf2.events.MpiSend, otf2.events.MpiRecv, otf2.events.MpiIsend)):
                found.bytes += event.msg_length
    return found
