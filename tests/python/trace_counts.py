"""What trace files hold, counted without weft's readers: by SQL, JSON, CSV, patterns and the OTF2 library."""

import csv
import gzip
import json
import re
import sqlite3
import tarfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Counts:
    """The number of events, and of those on the device by kind; ns in which each process's device is busy; bytes."""

    events: int = 0
    kernels: int = 0  # and memsets, and copies inside a device
    collectives: int = 0  # kernels of NCCL or RCCL
    copies: int = 0  # between host and device
    calls: int = 0  # of the device's runtime, and records of waits
    launched: int = 0  # pieces of device work whose call is in the file
    busy: float = 0.0
    bytes: int = 0  # of copies, memsets and collectives of the device, or of messages if there is no device
    messages: int = 0  # calls that communicate
    _intervals: dict[object, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def work(self, process: object, kind: str, start: float, end: float, moved: int = 0) -> None:
        """Adds a piece of device work; `kind` is one of the fields of this class."""
        setattr(self, kind, getattr(self, kind) + 1)
        self._intervals[process].append((start, end))
        self.bytes += moved

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
    name = path.name
    if name.endswith(".sqlite"):
        return nsys(path)
    if name.endswith(".json.gz"):
        with gzip.open(path) as file:
            content = json.load(file)
        return kineto(content["traceEvents"]) if "traceEvents" in content else rocprof(content)
    if name.endswith(".csv"):
        with path.open(newline="") as file:
            return table(list(csv.DictReader(file)))
    if name.endswith(".goal"):
        operations = re.findall(r"^\s*\w+: (send|recv|calc) (\d+)", path.read_text(), re.MULTILINE)
        moved = sum(int(n) for way, n in operations if way != "calc")
        return Counts(len(operations), messages=sum(way != "calc" for way, _ in operations), bytes=moved)
    if name.endswith(".tgz"):
        return collectives(path)
    return archive(path) if name.endswith(".otf2") and len(path.parent.name) > len("traces") else None


def kineto(events: list[dict[str, Any]]) -> Counts:
    """Complete events ('ph': 'X') by category."""
    found = Counts()
    calls, work = set(), []
    first = min(float(e["ts"]) for e in events if e.get("ph") == "X")
    for e in events:
        if e.get("ph") != "X":
            continue
        found.events += 1
        of, link = e.get("cat"), e.get("args", {}).get("correlation")
        if of in ("cuda_runtime", "cuda_driver", "cuda_sync"):
            found.calls += 1
            calls |= {link} if of != "cuda_sync" else set()
        elif of in ("kernel", "gpu_memcpy", "gpu_memset"):
            across = of == "gpu_memcpy" and "DtoD" not in e["name"]
            kind = "copies" if across else "collectives" if e["name"].startswith("nccl") else "kernels"
            start = (float(e["ts"]) - first) * 1e3  # in whole, doubles would keep only a quarter of a microsecond
            args = e["args"]
            moved = args.get("In msg nelems", 0) * {"Float": 4, "Long": 8, "Int": 4, "Char": 1, "Byte": 1}.get(
                args.get("dtype"), 0
            )
            moved = args.get("bytes", 0) if "mem" in of else moved
            found.work(0, kind, start, start + float(e["dur"]) * 1e3, moved)
            work.append(link)
        elif of == "user_annotation" and e["name"].startswith("gloo:"):
            found.messages += 1
    found.launched = sum(link in calls for link in work)
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

    kind = "CUPTI_ACTIVITY_KIND_"
    kernel, copy, memset = f"{kind}KERNEL", f"{kind}MEMCPY", f"{kind}MEMSET"
    work = " UNION ALL ".join(f"SELECT globalPid AS p, start AS a, end AS b, correlationId AS c FROM {t}"
                              for t in (kernel, copy, memset) if t in tables)  # fmt: skip
    before = "max(b) OVER (PARTITION BY p ORDER BY a, b ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    busy = f"SELECT sum(max(0, b - max(a, coalesce(m, a)))) FROM (SELECT a, b, {before} AS m FROM ({work}))"
    nccl = number(f"SELECT count(*) FROM {kernel} JOIN StringIds ON id = shortName WHERE value LIKE 'nccl%'")
    mpi = ("SELECT count(*) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId WHERE end IS NOT NULL AND "
           "substr(coalesce(text, value), 1, 4) = 'MPI_'")  # fmt: skip
    link = f"SELECT globalTid >> 24, correlationId FROM {kind}RUNTIME"
    return Counts(
        events=sum(rows(t) for t in (kernel, copy, memset, f"{kind}RUNTIME", f"{kind}SYNCHRONIZATION", "OSRT_API"))
        + rows("NVTX_EVENTS", "end IS NOT NULL"),
        kernels=rows(kernel) - nccl + rows(memset) + rows(copy, "copyKind = 8"),
        collectives=nccl,
        copies=rows(copy, "copyKind != 8"),
        calls=rows(f"{kind}RUNTIME") + rows(f"{kind}SYNCHRONIZATION"),
        launched=number(f"SELECT count(*) FROM ({work}) WHERE (p >> 24, c) IN ({link})"),
        busy=number(busy),
        bytes=sum(number(f"SELECT sum(bytes) FROM {t}") for t in (copy, memset) if t in tables),
        messages=number(mpi) if "NVTX_EVENTS" in tables else 0,
    )


def table(rows: list[dict[str, str]]) -> Counts:
    """Pipit's rows, an event each for its start and its end, or those of `nsys stats`."""
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
