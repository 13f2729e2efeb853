"""Reader of tables of events in CSV.

It reads `nvprof --print-gpu-trace|--print-api-trace --csv`, `nsys stats --report ..._trace --format csv`, the tables of
`rocprofv3 --output-format csv` and `rocpd convert`, and the enter and leave events that Pipit exports. Columns are
recognised by their names, and units by these names or by the row of units that nvprof writes.

rocprofv3 writes calls, markers, kernels and copies of a process to one table each. Tables of the same process in a
folder or a list (`of_processes`) are read as one trace, in which calls and the work that they launched share a number.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path

from weft.traces import apis
from weft.traces.head import Head
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "a table of events in CSV (nvprof, nsys stats, rocprofv3, Pipit)"

# The meaning of a column by its name, in lower case and without the unit.
_COLUMNS = {
    "start": "start", "timestamp": "start", "end": "end", "duration": "duration", "name": "name",
    "process": "process", "pid": "process", "thread": "thread", "tid": "thread",
    "stream": "stream", "strm": "stream", "streamid": "stream", "device": "device", "context": "context",
    "ctx": "context", "correlation_id": "correlation", "corrid": "correlation", "correlation id": "correlation",
    "bytes": "bytes", "size": "bytes", "event type": "event", "type": "type", "rank": "process",
    # of rocprofv3; if it gives both a queue and a stream, the queue is used
    "start_timestamp": "start", "end_timestamp": "end", "kernel_name": "name", "function": "name", "direction": "name",
    "process_id": "process", "thread_id": "thread", "agent_id": "device", "queue_id": "stream", "stream_id": "stream",
    "kind": "type", "domain": "type", "source_agent_id": "device",
}  # fmt: skip
_SECONDS = {"ns": 0, "us": 3, "µs": 3, "ms": 6, "s": 9}  # decimal exponents of the unit in nanoseconds
_BYTES = {"b": 1, "bytes": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_CHUNK = 1 << 16
# The tables of rocprofv3: the process or the name that the user chose, and the kind.
_PART = re.compile(r"(?:(.*?)_)?((?:kernel|memory_copy|hip|hsa|marker|rccl|rocdecode|rocjpeg)(?:_\w+)?)_trace\.csv")
_COUNTERS = "counter_collection.csv"  # of rocprofv3: the kernels once more, with their counters
_UNIT = re.compile(r"(.*?)\s*(?:\((\w+)\)|:\w*?_?(ns|us|ms|s))?$")


def probe(head: Head) -> bool:
    return _header(head.text.splitlines()) is not None


def _header(lines: list[str]) -> int | None:
    """The number of the line that names the columns, after nvprof's messages ('==1234== ...') and comments."""
    for number, line in enumerate(lines[:200]):
        if line.startswith(("==", "#")) or not line.strip():
            continue
        cells = line.replace('"', "").lower()
        named = any(name in cells for name in ("name", "function", "direction"))
        return number if named and ("start" in cells or "timestamp" in cells) and "," in cells else None
    return None


def of_processes(files: Sequence[Path]) -> list[list[Path]]:
    """The files of each trace: rocprofv3's tables of one process without its counters, or any other single file."""
    found: dict[tuple[Path, str | None], list[Path]] = {}
    for file in files:
        part = _PART.fullmatch(file.name)
        found.setdefault((file.parent, part[1]) if part else (file, ""), []).append(file)
    for (folder, prefix), parts in list(found.items()):
        counters = folder / (f"{prefix}_{_COUNTERS}" if prefix else _COUNTERS)
        if any(p.name.endswith("kernel_trace.csv") for p in parts):
            found.pop((counters, ""), None)
    return list(found.values())


def read(path: Path, *others: Path) -> Trace:
    """Reads the events: work on streams if a table has streams, otherwise calls and ranges of threads.

    `others` are further tables of the same process.
    """
    csv.field_size_limit(1 << 24)
    builder = Builder("tables", path)
    part = _PART.fullmatch(path.name)
    process = part[1] if part and part[1] and re.fullmatch(r"\d{1,9}", part[1]) else ""
    # Tables of kernels and copies have no process: it is that of the other tables, which are read first.
    for table in sorted((path, *others), key=lambda p: bool(re.search(r"(kernel|memory_copy)\w*_trace", p.name))):
        process = _read_table(table, builder, process)
    return builder.build()


def _read_table(path: Path, builder: Builder, process: str) -> str:
    """Adds the events of a table to a trace, and returns the process of its last one."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        top: list[str] = []
        while (number := _header(top)) is None and len(top) < 200 and (line := file.readline()):
            top.append(line)
        if number is None:
            raise ValueError(f"{path}: the table has no header with the columns 'Name' and 'Start'")
        try:
            table = _Table(path, next(csv.reader(io.StringIO(top[number]))), builder, process)
            table.read(csv.reader(file, strict=True))
        except csv.Error as error:
            raise ValueError(f"{path}: not a CSV table ({error})") from None
        return table.process


class _Table:
    def __init__(self, path: Path, header: list[str], builder: Builder, process: str) -> None:
        self.path, self.header, self.builder, self.process = path, header, builder, process
        self.place: dict[str, int] = {}
        self.unit: dict[str, str] = {}
        for place, cell in enumerate(header):
            match = _UNIT.match(cell.strip())
            name, unit = (match[1], match[2] or match[3]) if match else (cell, None)
            kind = _COLUMNS.get(name.strip().lower())
            if kind and kind not in self.place:
                self.place[kind] = place
                self.unit[kind] = (unit or ("ns" if name.lower().endswith("_timestamp") else "")).lower()
        times = {"start", "event"} if "event" in self.place else {"start"}
        length = {"event", "end", "duration"} & set(self.place)
        if not times <= set(self.place) or not length or "name" not in self.place:
            raise ValueError(f"{path}: the table needs columns for the name, the start, and the end or duration of "
                             f"events, but has {', '.join(header)[:300]}")  # fmt: skip
        self.lines: dict[tuple[str, ...], int] = {}

    def read(self, rows: Iterator[list[str]]) -> None:
        chunk: list[tuple[int, ...]] = []
        open_: dict[int, list[tuple[int, str]]] = {}
        for number, row in enumerate(rows):
            if not row or (number == 0 and self._units(row)):
                continue
            if len(row) < len(self.header):
                raise ValueError(f"{self.path}: row {number + 1} has {len(row)} of {len(self.header)} columns; "
                                 "was the file cut short?")  # fmt: skip
            try:
                event = self._entered_left(row, open_) if "event" in self.place else self._event(row)
            except (ValueError, InvalidOperation) as error:
                raise ValueError(f"{self.path}: row {number + 1}: {error or 'a cell is not a number'}") from None
            if event:
                chunk.append(event)
            if len(chunk) == _CHUNK:
                self._flush(chunk)
        self._flush(chunk)
        waiting = sum(len(stack) for stack in open_.values())
        if waiting:
            self.builder.notes.append(f"{waiting} events that have no end are ignored")

    def _units(self, row: list[str]) -> bool:
        """Reads nvprof's row of units; False if the row is something else."""
        cells = {k: row[p].strip().lower() for k, p in self.place.items() if p < len(row)}
        if cells.get("start") not in _SECONDS:
            return False
        self.unit.update({k: c for k, c in cells.items() if c})
        return True

    def _cell(self, row: list[str], column: str) -> str:
        place = self.place.get(column)
        return row[place].strip() if place is not None else ""

    def _time(self, row: list[str], column: str) -> int:
        text, digits = self._cell(row, column), _SECONDS.get(self.unit[column], 9)
        if digits == 0 and text.isascii() and text.isdigit() and len(text) < 20:
            return int(text)
        value = Decimal(text)
        if not value.is_finite() or value.adjusted() + digits > 18:
            raise ValueError(f"{text!r} is not a valid time")
        return int(value.scaleb(digits))

    def _event(self, row: list[str]) -> tuple[int, ...]:
        start = self._time(row, "start")
        end = self._time(row, "end") if "end" in self.place else start + self._time(row, "duration")
        return self._row(row, start, end)

    def _entered_left(self, row: list[str], open_: dict[int, list[tuple[int, str]]]) -> tuple[int, ...] | None:
        """Reads a row of Pipit: an event ends when its line leaves the event entered last."""
        line, time, name = self._line(row), self._time(row, "start"), self._cell(row, "name")
        kind = self._cell(row, "event").lower()
        stack = open_.setdefault(line, [])
        if kind == "enter":
            stack.append((time, name))
            return None
        if kind != "leave":
            return None
        if not stack or stack[-1][1] != name:
            # Events on a stream may end in the order in which they began.
            place = next((i for i, e in enumerate(stack) if e[1] == name), None)
            if place is None:
                raise ValueError(f"{name!r} ends, but never began")
            begun = stack.pop(place)[0]
        else:
            begun = stack.pop()[0]
        return self._row(row, begun, time)

    def _on_stream(self, row: list[str]) -> bool:
        return self._cell(row, "stream") not in ("", "-") or self._cell(row, "type") == "MEMORY_COPY"

    def _line(self, row: list[str]) -> int:
        on_stream = self._on_stream(row)
        columns = ("process", "device", "context", "stream") if on_stream else ("process", "thread")
        key = tuple(self._cell(row, c) for c in columns)
        line = self.lines.get(key)
        if line is None:
            if key[0] or "process" in self.place:
                self.process = key[0]
            number = re.fullmatch(r"\d{1,9}", self.process)
            copies = (
                "copies, " if self._cell(row, "type") == "MEMORY_COPY" else ""
            )  # copies use other engines than kernels
            words = copies + " ".join(f"{c} {v}" for c, v in zip(columns[1:], key[1:], strict=True) if v)
            process = int(number[0]) if number else 0
            line = self.builder.line(process, words or "thread", "stream" if on_stream else "host")
            self.lines[key] = line
        return line

    def _row(self, row: list[str], start: int, end: int) -> tuple[int, ...]:
        name = self._cell(row, "name")
        category = self._category(name, self._cell(row, "type"), self._on_stream(row))
        text = self._cell(row, "bytes").replace(",", "")
        correlation = self._cell(row, "correlation")
        moved = -1
        if text and text != "-":
            scale = _BYTES.get(self.unit["bytes"], 1)
            value = Decimal(text)
            if not value.is_finite() or value.adjusted() > 15:
                raise ValueError(f"{text!r} is not a number of bytes")
            moved = int(value * scale)
        link = int(correlation) if re.fullmatch(r"\d{1,18}", correlation) else -1
        shown = name if self._on_stream(row) else apis.plain(name)
        return self._line(row), start, end, int(category), self.builder.name(shown), moved, link

    @staticmethod
    def _category(name: str, type_: str, on_stream: bool) -> Category:
        if on_stream:
            text = f"{name} {type_}".lower()
            if "memcpy" in text or "memory_copy" in text:
                return apis.copy(not re.search(r"dtod|device_to_device|ptop|atoa|device-to-device|peer-to-peer", text))
            return apis.kernel(name)
        if type_.startswith("MARKER"):
            return Category.other
        if re.match(r"(cuda|cu|(__)?hip)[A-Z]|hsa_", name):
            return apis.call(name)
        return Category.mpi if re.match(r"P?MPI_", name) or type_.startswith("RCCL") else Category.cpu

    def _flush(self, chunk: list[tuple[int, ...]]) -> None:
        if chunk:
            line, start, end, category, name, moved, link = zip(*chunk, strict=True)
            self.builder.add(line=line, start=start, end=end, category=category, name=name, bytes=moved,
                             correlation=link)  # fmt: skip
            chunk.clear()
