"""Reader of traces of PyTorch's profiler (Kineto): Chrome trace events, plain or gzipped."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from weft.errors import reason
from weft.traces import apis
from weft.traces.chrome import Events, Span, integer, nanoseconds
from weft.traces.dependencies import Wait, requirements
from weft.traces.head import Head
from weft.traces.table import Builder, Category, Trace
from weft.traces.transfers import tied

DESCRIPTION = "a trace of PyTorch's profiler (Kineto JSON, also gzipped)"

_CHUNK = 1 << 16
_CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "privateuse1_runtime")
# As PyTorch named its categories before version 1.13.
_OLD = {"Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Runtime": "cuda_runtime",
        "Operator": "cpu_op"}  # fmt: skip
_HOST_COLLECTIVES = ("gloo:", "mpi:", "ucc:")  # PyTorch's back ends whose collectives run on threads of the host
_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
# Bytes of PyTorch's scalar types, as its profiler names them.
_SIZES = {
    "byte": 1, "char": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
    "short": 2, "half": 2, "bfloat16": 2, "int": 4, "float": 4, "long": 8, "double": 8, "complexfloat": 8,
    "complexdouble": 16,
}  # fmt: skip
_Wait = tuple[str, int, int, int, int, int, int]  # kind, correlation, start, device, stream, on stream, record


class _Details(msgspec.Struct, gc=False):
    """The fields that are read from the `args` of an event."""

    correlation: Any = -1
    bytes: Any = -1
    stream: Any = -1
    wait: Any = msgspec.field(name="cuda_sync_kind", default=None)
    on_stream: Any = msgspec.field(name="wait_on_stream", default=-1)
    record: Any = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=-1)
    operation: Any = msgspec.field(name="Collective name", default=None)
    elements: Any = msgspec.field(name="In msg nelems", default=-1)
    dtype: Any = None
    communicator: Any = msgspec.field(name="Process Group Name", default=None)
    ranks: Any = msgspec.field(name="Process Group Ranks", default=None)
    source: Any = msgspec.field(name="Src Rank", default=-1)
    target: Any = msgspec.field(name="Dst Rank", default=-1)


class _Event(Span):
    args: _Details | None = None


_NOTHING = _Details()


def probe(head: Head) -> bool:
    text, words = head.text, ("schemaVersion", "cuda_runtime", "cpu_op", "Ev Idx", *_OLD)
    return head.is_json() and any(f'"{w}"' in text for w in words)


def read(path: Path) -> Trace:
    """Reads operators, runtime calls and work on streams. The process is the rank, if the file says it.

    A wait ('cuda_sync') is placed on the thread that waited, and determines what the waiting call, or the next work on
    the waiting stream, requires. Annotations name what runs and have the category `other`; those of streams are on
    separate lines.
    """
    return _File(path).read()


class _File:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.builder = Builder("kineto", path)
        self.hosts: dict[object, int] = {}  # processes that run operators or call the runtime, and their numbers
        self.known: dict[tuple[object, ...], tuple[int, int, str, str]] = {}  # description of each kind of event
        self.rows: list[tuple[int, ...]] = []
        self.waits: list[_Wait] = []
        self.lines: dict[tuple[object, object, str, bool], int] = {}  # process, thread, suffix, on the host
        self.streams: dict[tuple[int, int, int], int] = {}  # by process, device and stream: the line
        self.other: Counter[str] = Counter()

    def read(self) -> Trace:
        events = Events(self.path, _Event)
        for number, event in enumerate(events):
            try:
                if event.ph == "X":
                    self._event(event)
                elif event.ph in ("B", "E"):
                    self.other[event.ph] += 1
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise ValueError(f"{self.path}: event {number} is not a Kineto event ({reason(error)})") from None
            if len(self.rows) >= _CHUNK:
                self._flush()
        self._flush()
        if self.other["unended"]:
            self.builder.notes.append(f"{self.other['unended']} events have no end and are ignored")
        if self.other["B"]:
            self.builder.notes.append(f"{self.other['B']} events given as begin and end are ignored")
        trace = self.builder.build()
        trace = tied(self._with_requirements(self._with_processes(trace, events.header)))
        info = events.header.get("distributedInfo")
        info = info if isinstance(info, dict) else {}
        # 'ts' counts from this time, if the file gives it.
        base = max(0, integer(events.header.get("baseTimeNanoseconds"), 0))
        return replace(trace, epoch=base, rank=integer(info.get("rank")), world=integer(info.get("world_size")))

    def _event(self, event: _Event) -> None:
        if event.dur is None or event.dur == -1:  # what was running when the recording stopped
            self.other["unended"] += 1
            return
        key = event.cat, event.name, event.pid, event.tid
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = self._kind(event)
        line, kind, category, name = known
        start, details = nanoseconds(event.ts), event.args or _NOTHING
        correlation = details.correlation if type(details.correlation) is int else integer(details.correlation)
        moved = group = peer = -1
        if category in _WORK:
            moved = integer(details.bytes)
            if kind == Category.mpi and details.operation is not None:
                name, moved, group, peer = _collective(name, details)
        elif details.operation in ("send", "recv") and category == "cpu_op":
            name, moved, group, peer = _collective(name, details)
        elif category == "cuda_sync":
            where = integer(event.pid), integer(details.stream), integer(details.on_stream)
            self.waits.append((str(details.wait or name), correlation, start, *where, integer(details.record)))
        end = start + nanoseconds(event.dur)
        self.rows.append((line, start, end, kind, self.builder.name(name), moved, peer, correlation, group))

    def _kind(self, event: _Event) -> tuple[int, int, str, str]:
        """The line, the category in the table and in the file, and the name of an event."""
        event.check()
        pid, tid, name = event.pid, event.tid, str(event.name)
        category = _OLD.get(str(event.cat), str(event.cat))
        host, suffix, kind = True, "", Category.other
        if category in _CALLS:
            kind = apis.call(name)
        elif category == "kernel":
            kind, host = apis.kernel(name), False
        elif category == "gpu_memcpy":
            kind, host = apis.copy("DtoD" not in name and "PtoP" not in name), False
        elif category == "gpu_memset":
            kind, host = Category.gpu, False
        elif category == "cuda_sync":
            kind, suffix = Category.sync, ", waits"
        elif category == "user_annotation" and name.startswith(_HOST_COLLECTIVES):
            kind = Category.mpi
        elif category == "gpu_user_annotation":
            suffix = ", annotations"
        elif category in ("cpu_op", "python_function"):
            kind = Category.cpu
        if (category in _CALLS or category == "cpu_op") and pid not in self.hosts and _is_number(pid):
            self.hosts[pid] = integer(pid)
        line = self.lines.get((pid, tid, suffix, host))
        if line is None:
            line = self._line(pid, tid, suffix, host)
        return line, int(kind), category, name

    def _line(self, pid: object, tid: object, suffix: str, host: bool) -> int:
        on_device = not host or suffix != ""
        label = f"device {pid} stream {tid}{suffix}" if on_device else f"thread {tid}"
        # The process is only known at the end; until then, the number of the line stands for it.
        line = self.builder.line(-2 - len(self.lines), label, "host" if host else "stream")
        self.lines[pid, tid, suffix, host] = line
        return line

    def _flush(self) -> None:
        if self.rows:
            line, start, end, category, name, moved, peer, correlation, group = zip(*self.rows, strict=True)
            self.builder.add(line=line, start=start, end=end, category=category, name=name, bytes=moved, peer=peer,
                             correlation=correlation, group=group)  # fmt: skip
            self.rows.clear()

    def _with_processes(self, trace: Trace, header: dict[str, object]) -> Trace:
        """Assigns the lines to processes.

        A process of the host is one that runs operators or calls the device's runtime; in files without either, one
        that has no device work. The file numbers devices like processes, and puts work of streams, Python threads and
        spans of the profiler under such numbers or under words ('Spans'). They belong to the only process of the host;
        if several hosts share a file, each piece of device work belongs to the host that launched it.
        """
        if not self.hosts:
            devices = {pid for pid, _, _, host in self.lines if not host}
            self.hosts = {pid: integer(pid) for pid, _, suffix, host in self.lines
                          if host and suffix == "" and pid not in devices and _is_number(pid)}  # fmt: skip
        owner = np.array([self.hosts.get(pid, -1) if host and suffix == "" else -1
                          for pid, _, suffix, host in self.lines], dtype=np.int64)  # fmt: skip
        hosts = set(self.hosts.values())
        if len(hosts) > 1:
            process = _launching(trace, owner, [str(pid) for pid, *_ in self.lines])
        else:
            info = header.get("distributedInfo")
            rank = integer(info.get("rank")) if isinstance(info, dict) else -1
            alone = rank if _is_number(rank) else min(hosts, default=0)
            process = np.full(len(trace), alone, dtype=np.int64)
        numbers, number = np.unique(process, return_inverse=True)
        pairs, which = np.unique(trace.line * len(numbers) + number, return_inverse=True)
        before = pairs // len(numbers)
        lines = tuple(replace(trace.lines[line], process=int(process))
                      for line, process in zip(before, numbers[pairs % len(numbers)], strict=True))  # fmt: skip
        places = list(self.lines)
        self.streams = {
            (lines[k].process, integer(places[line][0]), integer(places[line][1])): k
            for k, line in enumerate(before.tolist())
            if lines[k].kind == "stream"
        }
        return replace(trace, lines=lines, line=which.astype(np.int32), process=process.astype(np.int32))

    def _with_requirements(self, trace: Trace) -> Trace:
        """Puts records of waits on the threads that waited, and finds the work they wait for by the order of launches.

        A record of a CUDA event stands for the work last launched on its stream before it.
        """
        if not self.waits:
            return trace
        calls = ~trace.on_stream() & (trace.correlation >= 0) & (trace.peer < 0)
        waits = np.array([line.label.endswith(", waits") for line in trace.lines], dtype=bool)[trace.line]
        index = np.flatnonzero(calls & ~waits)
        call = dict(zip(zip(trace.process[index].tolist(), trace.correlation[index].tolist(), strict=True),
                        index.tolist(), strict=True))  # fmt: skip
        line = trace.line.copy()
        caller_at: dict[tuple[int, int], int] = {}  # by correlation and start: the call that made the record
        for event in np.flatnonzero(waits).tolist():
            caller = call.get((int(trace.process[event]), int(trace.correlation[event])), -1)
            if caller >= 0:
                line[event] = trace.line[caller]
                caller_at[int(trace.correlation[event]), int(trace.start[event])] = caller
        found: list[Wait] = []
        for kind, correlation, begin, device, waiting, on, record in self.waits:
            caller = caller_at.get((correlation, begin - trace.origin), -1)
            if caller < 0:
                continue
            process = int(trace.process[caller])
            waiter = self.streams.get((process, device, waiting), -1)
            if kind in ("Stream Wait Event", "Event Sync"):
                recorded, source = call.get((process, record), -1), self.streams.get((process, device, on), -1)
                if recorded < 0 or source < 0 or (kind == "Stream Wait Event" and waiter < 0):
                    continue  # the event was recorded before the profiler began, or on a stream without work
                found.append(Wait(caller, (source,), recorded, waiter if kind == "Stream Wait Event" else -1))
            elif kind == "Context Sync":
                mine = (number for (of, _, _), number in self.streams.items() if of == process)
                found.append(Wait(caller, tuple(mine)))
            elif waiter >= 0:
                found.append(Wait(caller, (waiter,)))
        return replace(trace, line=line, requires=requirements(trace, found))


def _collective(name: str, details: _Details) -> tuple[str, int, int, int]:
    """The name, the bytes that each rank contributes, the communicator, and the other rank of a message.

    They come from PyTorch's details of a kernel or of the operator that launches it. A name that does not contain the
    operation is preceded by it.
    """
    operation = apis.collective(str(details.operation))
    if apis.collective(name) in ("", "sendrecv") and operation:
        name = f"nccl {operation} ({name})"
    elements = integer(details.elements)
    size = _SIZES.get(str(details.dtype).lower(), -1)
    ranks = f"{details.communicator} {details.ranks}"
    peer = integer({"send": details.target, "recv": details.source}.get(operation, -1))
    moved = elements * size if elements >= 0 and size > 0 else -1
    return name, moved, zlib.crc32(ranks.encode()), peer if _is_number(peer) else -1


def _is_number(value: object) -> bool:
    """Whether a value can number a process or a rank; `Spans` and other words cannot."""
    return 0 <= integer(value) < 2**31


def _launching(trace: Trace, owner: NDArray[np.int64], pids: list[str]) -> NDArray[np.int64]:
    """The process of each event, where several hosts launched the work of one file.

    `owner` is the host of each line, -1 for lines of devices, whose events belong to the host that called with their
    correlation. Hosts may use the same correlations; the last such call before the event is then taken. Events without
    such a call follow the majority of their line, else that of the lines with the same number (`pids`).
    """
    process = owner[trace.line]
    calls = np.flatnonzero((process >= 0) & (trace.correlation >= 0))
    open_ = np.flatnonzero((process < 0) & (trace.correlation >= 0))
    # The table is sorted by start, so that the numbers of events are an order in time, for equal correlations.
    _, key = np.unique(np.concatenate([trace.correlation[calls], trace.correlation[open_]]), return_inverse=True)
    table, wanted = (key[: len(calls)] * len(trace) + calls), (key[len(calls) :] * len(trace) + open_)
    order = np.argsort(table)
    place = np.searchsorted(table[order], wanted) - 1
    for shift in (0, 1):  # with clocks that disagree, the call may seem to follow
        at = np.clip(place + shift, 0, max(len(calls) - 1, 0))
        if len(calls):
            found = (key[: len(calls)][order][at] == key[len(calls) :]) & (process[open_] < 0)
            process[open_[found]] = owner[trace.line[calls[order][at[found]]]]
    first = int(owner[owner >= 0].min())
    by_pid = {pid: _majority(process[np.isin(trace.line, [i for i, p in enumerate(pids) if p == pid])], first)
              for pid in set(pids)}  # fmt: skip
    for line in np.unique(trace.line[process < 0]).tolist():
        mine = trace.line == line
        process[mine & (process < 0)] = _majority(process[mine], by_pid[pids[line]])
    return process


def _majority(processes: NDArray[np.int64], default: int) -> int:
    found, counts = np.unique(processes[processes >= 0], return_counts=True)
    return int(found[counts.argmax()]) if len(found) else default
