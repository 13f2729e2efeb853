"""Reader of traces of PyTorch's profiler (Kineto): Chrome trace events, plain or gzipped, one host process per file."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from weft.traces import apis
from weft.traces.chrome import Event, Events, arguments, integer, nanoseconds
from weft.traces.head import Head
from weft.traces.launches import Launches
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "a trace of PyTorch's profiler (Kineto JSON, also gzipped)"

_CHUNK = 1 << 16
_CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "privateuse1_runtime")
_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def probe(head: Head) -> bool:
    text = head.text
    return head.is_json() and any(f'"{w}"' in text for w in ("schemaVersion", "cuda_runtime", "cpu_op", "Ev Idx"))


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
        self.hosts: dict[object, int] = {}  # process of the host -> its number
        self.rows: list[tuple[int, ...]] = []
        self.waits: list[tuple[str, int, int, int, int, int]] = []  # kind, correlation, device, stream, on, record
        self.lines: dict[tuple[object, object, str], int] = {}
        self.other: Counter[str] = Counter()

    def read(self) -> Trace:
        events = Events(self.path)
        for number, event in enumerate(events):
            try:
                phase = event.get("ph")
                if phase == "X":
                    self._event(event)
                elif phase in ("B", "E"):
                    self.other[phase] += 1
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                reason = f"{type(error).__name__}: {error}"
                raise ValueError(f"{self.path}: event {number} is not a Kineto event ({reason})") from None
            if len(self.rows) >= _CHUNK:
                self._flush()
        self._flush()
        if self.other["B"]:
            self.builder.notes.append(f"{self.other['B']} events given as begin and end are ignored")
        trace = self.builder.build()
        trace = self._with_processes(trace, events.header)
        return self._with_requirements(trace)

    def _event(self, event: Event) -> None:
        category, name, pid, tid = event.get("cat", ""), str(event["name"]), event["pid"], event["tid"]
        start = nanoseconds(event["ts"])
        end = start + nanoseconds(event["dur"])
        details = arguments(event)
        correlation = integer(details.get("correlation"))
        moved = -1
        if category in _CALLS:
            kind, host, suffix = apis.call(name), True, ""
        elif category in _WORK:
            host, suffix = False, ""
            moved = integer(details.get("bytes"))
            if category == "kernel":
                kind = apis.kernel(name)
            elif category == "gpu_memcpy":
                kind = apis.copy("DtoD" not in name and "PtoP" not in name)
            else:
                kind = Category.gpu
        elif category == "cuda_sync":
            wait = str(details.get("cuda_sync_kind", name))
            record = integer(details.get("wait_on_cuda_event_record_corr_id"))
            on = integer(details.get("wait_on_stream"))
            self.waits.append((wait, correlation, integer(pid), integer(details.get("stream")), on, record))
            kind, host, suffix = Category.sync, True, ", waits"
        elif category == "gpu_user_annotation":
            kind, host, suffix = Category.other, True, ", annotations"
        elif category in ("cpu_op", "python_function"):
            kind, host, suffix = Category.cpu, True, ""
        else:
            kind, host, suffix = Category.other, True, ""
        line = self.lines.get((pid, tid, suffix))
        if line is None:
            line = self._line(pid, tid, suffix, host)
        self.rows.append((line, start, end, int(kind), self.builder.name(name), moved, correlation))

    def _line(self, pid: object, tid: object, suffix: str, host: bool) -> int:
        on_device = not host or suffix != ""
        label = f"device {pid} stream {tid}{suffix}" if on_device else f"thread {tid}"
        # The process that a device belongs to is only known at the end; until then, the device's number stands for it.
        in_words = integer(pid) < 0
        number = -2 - max(integer(pid), 0) if on_device or in_words else self.hosts.setdefault(pid, integer(pid))
        line = self.builder.line(number, label, "host" if host else "stream")
        self.lines[pid, tid, suffix] = line
        return line

    def _flush(self) -> None:
        if self.rows:
            line, start, end, category, name, moved, correlation = zip(*self.rows, strict=True)
            self.builder.add(line=line, start=start, end=end, category=category, name=name, bytes=moved,
                             correlation=correlation)  # fmt: skip
            self.rows.clear()

    def _with_processes(self, trace: Trace, header: dict[str, object]) -> Trace:
        """Assigns the lines of devices, and those named in words ('Spans'), to their processes.

        A device belongs to the host process with which it shares correlations, the only one in nearly all files.
        """
        hosts = sorted(set(self.hosts.values())) or [0]
        info = header.get("distributedInfo")
        rank = integer(info.get("rank")) if isinstance(info, dict) else -1
        owner: dict[int, int] = {}
        if len(hosts) == 1:
            number = rank if 0 <= rank < 2**31 else hosts[0]
            owner = dict.fromkeys((line.process for line in trace.lines), number)
        else:
            mine = (trace.process >= 0) & (trace.correlation >= 0)
            launcher = dict(zip(trace.correlation[mine].tolist(), trace.process[mine].tolist(), strict=True))
            for device in np.unique(trace.process[trace.process < -1]).tolist():
                links = trace.correlation[trace.process == device].tolist()
                counts = Counter(launcher[c] for c in links if c in launcher)
                owner[device] = counts.most_common(1)[0][0] if counts else hosts[0]
        lines = tuple(replace(line, process=owner.get(line.process, line.process)) for line in trace.lines)
        processes = np.array([line.process for line in lines], dtype=np.int32)
        return replace(trace, lines=lines, process=processes[trace.line])

    def _with_requirements(self, trace: Trace) -> Trace:
        """Puts the records of waits on the threads that waited, and finds what they wait for by the order of launches.

        A record of a CUDA event stands for the work last launched on its stream before it.
        """
        if not self.waits:
            return trace
        launches = Launches(trace)
        stream = {(integer(p), integer(t)): line for (p, t, s), line in self.lines.items() if s == ""}
        calls = ~trace.on_stream() & (trace.correlation >= 0)
        waits = np.array([line.label.endswith(", waits") for line in trace.lines], dtype=bool)[trace.line]
        call = dict(zip(trace.correlation[calls & ~waits].tolist(), np.flatnonzero(calls & ~waits).tolist(),
                        strict=True))  # fmt: skip
        pairs: list[tuple[int, int]] = []
        for kind, correlation, device, waiting, on, record in self.waits:
            caller = call.get(correlation, -1)
            if caller < 0:
                continue
            time = int(trace.start[caller])
            if kind in ("Stream Wait Event", "Event Sync"):
                if record not in call or (device, on) not in stream:
                    continue  # the event was recorded before the profiler began, or on a stream without work
                source = launches.last_before(stream[device, on], int(trace.start[call[record]]))
                if kind == "Event Sync":
                    target = caller
                else:
                    target = launches.first_after(stream.get((device, waiting), -1), time)
                pairs += [(target, source)] if source >= 0 and target >= 0 else []
            else:
                context = kind == "Context Sync"
                lines = launches.streams(int(trace.process[caller])) if context else [stream.get((device, waiting), -1)]
                sources = (launches.last_before(line, time) for line in lines)
                pairs += [(caller, s) for s in sources if s >= 0]
        line = trace.line.copy()
        for event in np.flatnonzero(waits).tolist():
            caller = call.get(int(trace.correlation[event]), -1)
            if caller >= 0:
                line[event] = trace.line[caller]
        requires = np.array(sorted(set(pairs)), dtype=np.int64).reshape(-1, 2)
        return replace(trace, line=line, requires=requires)
