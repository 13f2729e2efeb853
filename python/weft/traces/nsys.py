"""Reader of Nsight Systems reports exported as SQLite (`nsys export --type sqlite`).

The tables and columns of a report depend on the version and on what was recorded, so the reader checks for each.
Schemas 2.9 and 3.13 are tested with real reports; tables that later versions renamed or added are found the same way.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from weft.traces import apis
from weft.traces.databases import is_database, opened
from weft.traces.dependencies import Wait, requirements
from weft.traces.head import Head
from weft.traces.nccl_payloads import message, payload, with_payloads
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "an Nsight Systems report exported as SQLite"

_CHUNK = 1 << 16
_TIMED = "start IS NOT NULL AND end IS NOT NULL"
# CUpti_ActivityMemcpyKind, with the names that nsys uses.
_COPIES = {
    0: "unknown", 1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH",
    10: "PtoP", 11: "UVM HtoD", 12: "UVM DtoH", 13: "UVM DtoD",
}  # fmt: skip
_WITHIN_DEVICES = (5, 6, 7, 8, 10, 13)
_EVENT, _STREAM_FOR_EVENT, _STREAM, _CONTEXT = 1, 2, 3, 4  # CUpti_ActivitySynchronizationType
_SYNC = {_EVENT: "event synchronize", _STREAM_FOR_EVENT: "stream wait event", _STREAM: "stream synchronize",
         _CONTEXT: "context synchronize"}  # fmt: skip
_RECORDS = {f"[{name}]" for name in (*_SYNC.values(), "wait")}  # names of the records of waits
_PUSH_POP, _START_END, _DOMAIN = (59, 70), (60, 71), (75, 76)  # NVTX event types, those of registered strings second
_RANK = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "RANK")
_WORLD = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "WORLD_SIZE")
_MPI = ("MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS")


def probe(head: Head) -> bool:
    return is_database(head)


def read(path: Path) -> Trace:
    """Reads device work, runtime and driver calls, MPI calls, NVTX ranges and calls into system libraries.

    A record of a wait is placed on the line of the call that waited. Calls into system libraries are on separate lines,
    so that they do not take the time of the runtime calls that make them.
    """
    with opened(path) as connection:
        return _Report(path, connection).read()


class _Report:
    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self.connection = path, connection
        self.builder = Builder("nsys", path)
        names = [r[0] for r in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
        self.tables = {n: [c[1] for c in connection.execute(f"PRAGMA table_info({_quoted(n)})")] for n in names}
        self.strings: dict[int, str] = {}
        if "StringIds" in self.tables:
            self.strings = dict(
                connection.execute("SELECT id, CAST(value AS TEXT) FROM StringIds WHERE value IS NOT NULL")
            )
        self.ranks = self._ranks()
        self.unended = 0
        self.lone = 0  # the process of rows that do not name theirs: the one that calls, if it is the only one
        self.call_lines: dict[tuple[int, int], int] = {}  # (process, correlation) -> line
        self.streams: dict[tuple[int, int, int], int] = {}  # (process, context, stream) -> line

    def read(self) -> Trace:
        self._calls()
        callers = {process for process, _ in self.call_lines}
        self.lone = callers.pop() if len(callers) == 1 else 0
        self._kernels()
        self._copies()
        self._memsets()
        self._waits()
        self._mpi()
        self._ranges()
        self._system()
        if len(self.builder) == 0:
            raise ValueError(f"{self.path}: the SQLite file has no events of Nsight Systems; {self._contents()}")
        if self.unended:
            self.builder.notes.append(f"{self.unended} events had not ended when the recording stopped and are ignored")
        trace = self._with_requirements(with_payloads(self.builder.build()))
        rank, world = self._rank()
        trace = replace(trace, epoch=self._epoch(), rank=rank, world=world)
        if not trace.on_stream().any():
            trace = _noted(trace, f"the report has no device work; {self._contents()}")
        return trace

    def _contents(self) -> str:
        filled = []
        for name in self.tables:
            if not name.startswith("ENUM_"):
                (count,) = self.connection.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchone()
                filled += [f"{name} ({count})"] if count else []
        more = f" and {len(filled) - 12} more" if len(filled) > 12 else ""
        return f"tables with rows: {', '.join(filled[:12]) or 'none'}{more}"

    def _ranks(self) -> dict[int, int]:
        """The ranks by process number; empty unless the ranks of all processes differ."""
        if not {"globalTid", "rank"} <= set(self.tables.get("MPI_RANKS", ())):
            return {}
        rows = self.connection.execute(f"SELECT globalTid, rank FROM MPI_RANKS WHERE {_integers('globalTid', 'rank')}")
        ranks = {(t >> 24) & 0xFFFFFF: r for t, r in rows}
        return ranks if len(set(ranks.values())) == len(ranks) else {}

    def _rank(self) -> tuple[int, int]:
        """The rank of this report, if it belongs to one rank, and the number of ranks; -1 if not known.

        They come from MPI or, failing that, from variables that launchers set in the profiled command's environment.
        """
        if self.ranks:
            return (next(iter(self.ranks.values())), -1) if len(self.ranks) == 1 else (-1, -1)
        if not {"name", "value"} <= set(self.tables.get("META_DATA_CAPTURE", ())):
            return -1, -1
        rows = self.connection.execute(
            "SELECT value FROM META_DATA_CAPTURE WHERE name LIKE '%ENVIRONMENT_VARIABLE' AND typeof(value) = 'text'"
        )
        have = dict(v.partition("=")[::2] for (v,) in rows)
        values = [[have.get(name, "").strip('"') for name in names] for names in (_RANK, _WORLD)]
        rank, world = (next((int(v) for v in found if v.isdecimal() and len(v) < 7), -1) for found in values)
        return rank, world

    def _epoch(self) -> int:
        """The time (ns since 1970) at which the clock of the report is zero; 0 if it does not say."""
        if "utcEpochNs" not in self.tables.get("TARGET_INFO_SESSION_START_TIME", ()):
            return 0
        query = f"SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME WHERE {_integers('utcEpochNs')}"
        found = self.connection.execute(query).fetchone()
        return int(found[0]) if found and 0 <= found[0] < 2**62 else 0

    def _process(self, global_id: int) -> int:
        if global_id < 0:
            return self.lone
        pid = (global_id >> 24) & 0xFFFFFF
        return self.ranks.get(pid, pid)

    def _thread(self, global_tid: int, suffix: str = "") -> int:
        return self.builder.line(self._process(global_tid), f"thread {global_tid & 0xFFFFFF}{suffix}", "host")

    def _newest(self, table: str) -> str:
        """The name of a table in this report, the newest if names carry a version number; '' if there is none."""
        versions = [n for n in self.tables if re.fullmatch(rf"{table}(_V\d+)?", n, re.IGNORECASE)]
        return max(versions, key=len, default="")

    def _select(self, table: str, columns: Sequence[str], where: str) -> Iterator[dict[str, np.ndarray]]:
        """Chunks of some columns of a table, -1 where NULL or not in this version."""
        have = self.tables[table]
        select = ", ".join(f"coalesce({_quoted(c)}, -1)" if c in have else "-1" for c in columns)
        cursor = self.connection.execute(f"SELECT {select} FROM {_quoted(table)} WHERE {where}")
        while rows := cursor.fetchmany(_CHUNK):
            yield self._numbers(table, columns, rows)

    def _rows(self, table: str, *columns: str) -> Iterator[dict[str, np.ndarray]]:
        """Chunks of a table's `start`, `end` and `columns`; nothing if the report does not have the table."""
        table = self._newest(table)
        if not table:
            return
        have = self.tables[table]
        if not {"start", "end"} <= set(have):
            columns_ = ", ".join(have)
            raise ValueError(f"{self.path}: table {table} has no columns 'start' and 'end', but {columns_}")
        yield from self._select(table, ["start", "end", *columns], _TIMED)
        (open_,) = self.connection.execute(f"SELECT count(*) FROM {_quoted(table)} WHERE end IS NULL").fetchone()
        self.unended += 0 if table == "NVTX_EVENTS" else open_  # NVTX marks have no end

    def _numbers(self, table: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]]) -> dict[str, np.ndarray]:
        """The columns of some rows. Raises ValueError if one has values other than integers."""
        found = {}
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            try:
                found[column] = np.array(values, dtype=np.int64)
            except (ValueError, TypeError, OverflowError):
                raise ValueError(
                    f"{self.path}: column '{column}' of table {table} has text instead of numbers"
                ) from None
        return found

    def _map(self, keys: np.ndarray, function: Callable[[int], int]) -> np.ndarray:
        """The function of each key, called once per distinct key."""
        values, which = np.unique(keys, return_inverse=True)
        return np.array([function(int(v)) for v in values], dtype=np.int64)[which]

    def _names(self, ids: np.ndarray, shown: Callable[[str], str] = str) -> np.ndarray:
        return self._map(ids, lambda i: self.builder.name(shown(self.strings.get(i, f"name {i}"))))

    def _streams(self, rows: dict[str, np.ndarray]) -> np.ndarray:
        key = np.stack([rows[c] for c in ("globalPid", "deviceId", "contextId", "streamId")])
        places, which = np.unique(key, axis=1, return_inverse=True)
        lines = []
        for process, device, context, stream in places.T.tolist():
            label = f"device {device} context {context} stream {stream}"
            lines.append(self.builder.line(self._process(process), label, "stream"))
            self.streams[self._process(process), context, stream] = lines[-1]
        return np.array(lines, dtype=np.int64)[which]

    def _calls(self) -> None:
        for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER"):
            for r in self._rows(table, "globalTid", "correlationId", "nameId"):
                line = self._map(r["globalTid"], self._thread)
                process = self._map(r["globalTid"], self._process)
                self.call_lines.update(
                    zip(zip(process.tolist(), r["correlationId"].tolist(), strict=True), line.tolist(), strict=True)
                )
                self.builder.add(
                    line=line,
                    start=r["start"],
                    end=r["end"],
                    category=self._map(r["nameId"], lambda i: int(apis.call(self.strings.get(i, "")))),
                    name=self._names(r["nameId"], apis.plain),
                    correlation=r["correlationId"],
                )

    _PLACE = ("globalPid", "deviceId", "contextId", "streamId", "correlationId")

    def _kernels(self) -> None:
        for r in self._rows("CUPTI_ACTIVITY_KIND_KERNEL", *self._PLACE, "shortName", "demangledName"):
            name = np.where(r["shortName"] >= 0, r["shortName"], r["demangledName"])
            category = self._map(name, lambda i: int(apis.kernel(self.strings.get(i, ""))))
            self._work(r, category, self._names(name))
        for r in self._rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", *self._PLACE):
            self._work(r, int(Category.gpu), self.builder.name("CUDA graph"))

    def _copies(self) -> None:
        for r in self._rows("CUPTI_ACTIVITY_KIND_MEMCPY", *self._PLACE, "bytes", "copyKind"):
            across = ~np.isin(r["copyKind"], _WITHIN_DEVICES)
            category = np.where(across, int(apis.copy(True)), int(apis.copy(False)))
            name = self._map(r["copyKind"], lambda k: self.builder.name(f"[CUDA memcpy {_COPIES.get(k, k)}]"))
            self._work(r, category, name)

    def _memsets(self) -> None:
        for r in self._rows("CUPTI_ACTIVITY_KIND_MEMSET", *self._PLACE, "bytes"):
            self._work(r, int(Category.gpu), self.builder.name("[CUDA memset]"))

    def _work(self, r: dict[str, np.ndarray], category: ArrayLike, name: ArrayLike) -> None:
        self.builder.add(
            line=self._streams(r),
            start=r["start"],
            end=r["end"],
            category=category,
            name=name,
            bytes=r.get("bytes", -1),
            correlation=r["correlationId"],
        )

    def _waits(self) -> None:
        for r in self._rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "globalPid", "correlationId", "syncType"):
            process = self._map(r["globalPid"], self._process).tolist()
            line = [
                self.call_lines[p, c] if (p, c) in self.call_lines else self.builder.line(p, "waits", "host")
                for p, c in zip(process, r["correlationId"].tolist(), strict=True)
            ]
            name = self._map(r["syncType"], lambda k: self.builder.name(f"[{_SYNC.get(k, 'wait')}]"))
            self.builder.add(
                line=line,
                start=r["start"],
                end=r["end"],
                category=int(Category.sync),
                name=name,
                correlation=r["correlationId"],
            )

    def _with_requirements(self, trace: Trace) -> Trace:
        """Adds the work that calls and streams wait for, if the report has CUDA events (`--cuda-event-trace`).

        A wait names the record of the event by the number that both have in common; in versions without such numbers,
        it is the last record of the event before the wait.
        """
        table = self._newest("CUPTI_ACTIVITY_KIND_CUDA_EVENT")
        place = ("contextId", "streamId", "eventId", "eventSyncId")
        made = self._select(table, ("globalPid", "correlationId", *place), "1") if table else ()
        rows = [row for r in made for row in _tuples(r)]
        if not rows:
            return trace
        waits = trace.category == Category.sync
        waits &= np.isin(trace.name, [k for k, n in enumerate(trace.names) if n in _RECORDS])
        index = np.flatnonzero(~trace.on_stream() & (trace.correlation >= 0) & (trace.peer < 0) & ~waits)[::-1]
        call = dict(zip(zip(trace.process[index].tolist(), trace.correlation[index].tolist(), strict=True),
                        index.tolist(), strict=True))  # fmt: skip
        numbered: dict[tuple[int, int], tuple[int, int]] = {}  # (process, number) -> call that recorded, line
        recorded: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)  # the same by event
        for global_id, correlation, context, stream, event, number in rows:
            process = self._process(global_id)
            by, line = call.get((process, correlation), -1), self.streams.get((process, context, stream), -1)
            if by >= 0 and line >= 0:
                recorded[process, event].append((by, line))
                if number >= 0:
                    numbered[process, number] = by, line
        found: list[Wait] = []
        columns = ("globalPid", "correlationId", "syncType", *place)
        for r in self._rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", *columns):
            for _, _, global_id, correlation, kind, context, stream, event, number in _tuples(r):
                process = self._process(global_id)
                caller, waiter = call.get((process, correlation), -1), self.streams.get((process, context, stream), -1)
                if caller < 0:
                    continue
                if kind in (_EVENT, _STREAM_FOR_EVENT):
                    before = (r for r in recorded[process, event] if r[0] < caller)  # events are in order of time
                    by, line = numbered.get((process, number)) or max(before, default=(-1, -1))
                    if by >= 0 and (kind == _EVENT or waiter >= 0):
                        found.append(Wait(caller, (line,), by, waiter if kind == _STREAM_FOR_EVENT else -1))
                elif kind == _STREAM and waiter >= 0:
                    found.append(Wait(caller, (waiter,)))
                elif kind == _CONTEXT:
                    mine = (n for (p, c, _), n in self.streams.items() if (p, c) == (process, context))
                    found.append(Wait(caller, tuple(mine)))
        return replace(trace, requires=requirements(trace, found))

    def _mpi(self) -> None:
        for table in _MPI:
            for r in self._rows(table, "globalTid", "textId", "size", "remoteRank", "rootRank"):
                self.builder.add(
                    line=self._map(r["globalTid"], self._thread),
                    start=r["start"],
                    end=r["end"],
                    category=int(Category.mpi),
                    name=self._names(r["textId"]),
                    bytes=r["size"],
                    peer=np.where(r["remoteRank"] >= 0, r["remoteRank"], r["rootRank"]),
                )

    def _ranges(self) -> None:
        """NVTX ranges. They name what runs and have the category `other`, unless they belong to the domain 'MPI', as
        which old versions record MPI calls. Ranges that need not nest (start-end) are on separate lines."""
        have = self.tables.get("NVTX_EVENTS", [])
        texts: dict[str, int] = {}
        domains: set[tuple[int, int]] = set()
        if "text" in have:
            texts = {t: -2 - i for i, (t,) in enumerate(self.connection.execute(
                "SELECT DISTINCT text FROM NVTX_EVENTS WHERE text IS NOT NULL"))}  # fmt: skip
            if {"domainId", "eventType", "globalTid"} <= set(have):
                made = self.connection.execute(
                    "SELECT globalTid, domainId FROM NVTX_EVENTS WHERE text = 'MPI' AND eventType IN (75, 76) AND "
                    + _integers("globalTid", "domainId")
                )
                domains = {(t >> 24, d) for t, d in made}
        own = {number: text for text, number in texts.items()}
        if "NVTX_EVENTS" not in self.tables:
            return
        wanted = ["start", "end", "globalTid", "eventType", "textId", "domainId", "jsonTextId"]
        if not {"start", "end", "globalTid"} <= set(have):
            raise ValueError(
                f"{self.path}: table NVTX_EVENTS needs the columns start, end and globalTid, but has {', '.join(have)}"
            )
        select = ", ".join(f"coalesce({c}, -1)" if c in have else "-1" for c in wanted)
        text, json_text = (c if c in have else "NULL" for c in ("text", "jsonText"))
        marks = self.connection.execute(f"SELECT {select}, {json_text}, {text} FROM NVTX_EVENTS WHERE {_TIMED}")
        while rows := marks.fetchmany(_CHUNK):
            words = [row[-1] for row in rows]
            r = self._numbers("NVTX_EVENTS", wanted, [row[:-2] for row in rows])
            given = zip((row[-2] for row in rows), r["jsonTextId"].tolist(), strict=True)
            said = [payload(own_ or self.strings.get(i)) for own_, i in given]
            moved, group, peer = np.array(said, dtype=np.int64).T
            ids = np.where([w is None for w in words], r["textId"], [texts.get(w, -1) for w in words])
            ids = 2 * ids + (peer >= 0)

            def shown(key: int) -> int:
                text = own.get(key >> 1) or self.strings.get(key >> 1) or "range"
                return self.builder.name(message(text) if key & 1 else text)

            name = self._map(ids, shown)
            mpi = np.array([(t >> 24, d) in domains for t, d in zip(r["globalTid"].tolist(), r["domainId"].tolist(),
                                                                    strict=True)])  # fmt: skip
            loose = np.isin(r["eventType"], _START_END)
            for mask, suffix in ((~loose, ""), (loose, ", ranges")):
                self.builder.add(
                    line=self._map(r["globalTid"][mask], lambda t, s=suffix: self._thread(t, s)),  # type: ignore[misc]
                    start=r["start"][mask],
                    end=r["end"][mask],
                    category=np.where(mpi, int(Category.mpi), int(Category.other))[mask],
                    name=name[mask],
                    bytes=moved[mask],
                    peer=peer[mask],
                    group=group[mask],
                )

    def _system(self) -> None:
        for r in self._rows("OSRT_API", "globalTid", "nameId"):
            self.builder.add(
                line=self._map(r["globalTid"], lambda t: self._thread(t, ", system")),
                start=r["start"],
                end=r["end"],
                category=int(Category.other),
                name=self._names(r["nameId"]),
            )


def _tuples(rows: dict[str, np.ndarray]) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in rows.values()), strict=True)


def _integers(*columns: str) -> str:
    """The condition that columns have integers; SQLite keeps values of any type in any column."""
    return " AND ".join(f"typeof({_quoted(c)}) = 'integer'" for c in columns)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _noted(trace: Trace, note: str) -> Trace:
    return replace(trace, notes=(*trace.notes, note))
