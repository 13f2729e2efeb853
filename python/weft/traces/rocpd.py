"""Reader of rocpd databases (SQLite), which rocprofv3 writes by default since ROCm 7, and rocprofiler-systems as well.

A database has one set of tables for each process, whose names end in an identifier of the process; sets of several
processes may be in one file. https://rocm.docs.amd.com/projects/rocprofiler-sdk, "Using rocpd output format"
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.traces import apis
from weft.traces.databases import is_database, opened
from weft.traces.head import Head
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "a rocpd database of rocprofv3 (SQLite)"

_CHUNK = 1 << 16
_TABLE = re.compile(r"rocpd_(region|kernel_dispatch|memory_copy)(?=_|$)")
_RANK = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "RANK")
_WORLD = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "WORLD_SIZE")


def probe(head: Head) -> bool:
    if not is_database(head):
        return False
    try:
        with opened(head.path) as connection:
            return any(_TABLE.match(name) for name in _names(connection))
    except ValueError:
        return False


def read(path: Path) -> Trace:
    """Reads calls, markers, kernels and copies, with the numbers that link calls and the work that they launch."""
    builder = Builder("rocpd", path)
    with opened(path) as connection:
        tables = _names(connection)
        suffixes = dict.fromkeys(name[m.end() :] for name in tables if (m := _TABLE.match(name)))
        # Views join the sets; they have the names of the tables without an identifier.
        sets = [_Process(connection, suffix, builder) for suffix in suffixes if suffix or len(suffixes) == 1]
        for one in sets:
            one.add()
        if len(builder) == 0:
            raise ValueError(f"{path}: the rocpd database has no calls, kernels or copies")
        trace = builder.build()
        environment = sets[0].environment() if len(sets) == 1 else {}
    rank, world = (
        next((int(v) for name in names if (v := str(environment.get(name, ""))).isdigit() and len(v) < 8), -1)
        for names in (_RANK, _WORLD)
    )
    return replace(trace, rank=rank, world=world)


def _names(connection: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name LIKE 'rocpd\\_%' ESCAPE '\\'"
    return [str(name) for (name,) in connection.execute(query)]


class _Process:
    """The tables of one process."""

    def __init__(self, connection: sqlite3.Connection, suffix: str, builder: Builder) -> None:
        self.connection, self.suffix, self.builder = connection, suffix, builder
        self.strings = {int(k): str(v) for k, v in self._rows("string", ("id", "string"))}
        self.pids = {int(k): int(v) for k, v in self._rows("info_process", ("id", "pid"))}
        self.tids = {int(k): int(v) for k, v in self._rows("info_thread", ("id", "tid"))}
        agents = list(self._rows("info_agent", ("id", "type", "type_index", "name")))
        self.agents = {int(k): f"{kind} {number}" for k, kind, number, _ in agents}
        self.cpus = {int(k) for k, kind, _, _ in agents if kind == "CPU"}

    def _columns(self, table: str) -> list[str]:
        return [c[1] for c in self.connection.execute(f"PRAGMA table_info({self._quoted(table)})")]

    def _quoted(self, table: str) -> str:
        return '"' + f"rocpd_{table}{self.suffix}".replace('"', '""') + '"'

    def _rows(self, table: str, columns: Sequence[str]) -> Iterable[tuple[Any, ...]]:
        have = self._columns(table)
        if not have:
            return []
        picked = ", ".join(f'"{c}"' if c in have else "NULL" for c in columns)
        return self.connection.execute(f"SELECT {picked} FROM {self._quoted(table)}")

    def environment(self) -> dict[str, Any]:
        """The environment in which the process started."""
        for (text,) in self._rows("info_process", ("environment",)):
            try:
                found = json.loads(str(text))
            except ValueError:
                continue
            return found if isinstance(found, dict) else {}
        return {}

    def _timed(self, table: str, columns: Sequence[str]) -> NDArray[np.int64] | None:
        """Integer columns of the events of a table, -1 where there is no value.

        The first are the start, the end, and the category and the link of the event.
        """
        have = self._columns(table)
        if not {"start", "end"} <= set(have):
            return None
        picked = [f'COALESCE(t."{c}", -1)' if c in have else "-1" for c in columns]
        event, joined = ["-1", "-1"], ""
        if "event_id" in have and self._columns("event"):
            event = ["COALESCE(e.category_id, -1)", "COALESCE(e.stack_id, -1)"]
            joined = f"LEFT JOIN {self._quoted('event')} e ON e.id = t.event_id"
        cursor = self.connection.execute(
            f'SELECT t."start", t."end", {", ".join(event + picked)} FROM {self._quoted(table)} t {joined} '
            'WHERE t."start" IS NOT NULL AND t."end" IS NOT NULL'
        )
        parts = []
        while rows := cursor.fetchmany(_CHUNK):
            part = np.array(rows)
            if part.dtype.kind != "i":
                raise ValueError(f"{self.builder.path}: table rocpd_{table} has values that are no integers")
            parts.append(part)
        return np.concatenate(parts) if parts else None

    def add(self) -> None:
        self._regions()
        self._kernels()
        self._copies()

    def _add(
        self,
        rows: NDArray[np.int64],
        keys: Sequence[NDArray[np.int64]],
        describe: Callable[..., tuple[int, int, int]],
        **more: NDArray[np.int64],
    ) -> None:
        """Adds events; `describe` returns line, category and name for each combination of keys."""
        code = np.zeros(len(rows), dtype=np.int64)
        for key in keys:
            values, which = np.unique(key, return_inverse=True)
            code = np.unique(code * len(values) + which, return_inverse=True)[1]
        _, first, which = np.unique(code, return_index=True, return_inverse=True)
        found = [describe(*(int(key[i]) for key in keys)) for i in first.tolist()]
        line, category, name = np.array(found, dtype=np.int64).reshape(-1, 3)[which].T
        link = np.where(rows[:, 3] > 0, rows[:, 3], -1)
        self.builder.add(
            line=line, start=rows[:, 0], end=rows[:, 1], category=category, name=name, correlation=link, **more
        )

    def _pid(self, key: int) -> int:
        pid = self.pids.get(key, key)
        return pid if 0 <= pid < 2**31 else 0

    def _string(self, key: int, default: str) -> str:
        return self.strings.get(key) or default

    def _regions(self) -> None:
        rows = self._timed("region", ("pid", "tid", "name_id", "event_id"))
        if rows is None:
            return
        texts = self._messages(rows)
        said = ["", *dict.fromkeys(texts.values())]
        place = {text: k for k, text in enumerate(said)}
        message = np.zeros(len(rows), dtype=np.int64)
        message[list(texts)] = [place[text] for text in texts.values()]

        def describe(pid: int, tid: int, name: int, category: int, message: int) -> tuple[int, int, int]:
            line = self.builder.line(self._pid(pid), f"thread {self.tids.get(tid, tid)}", "host")
            call, kind = self._string(name, f"call {name}"), self._string(category, "").upper()
            return line, int(_category(kind, call)), self.builder.name(said[message] or call)

        self._add(rows, (*(rows[:, k] for k in (4, 5, 6, 2)), message), describe)

    def _messages(self, rows: NDArray[np.int64]) -> dict[int, str]:
        """The texts of markers, by row."""
        markers = [key for key, text in self.strings.items() if text.upper().startswith("MARKER")]
        mine = np.flatnonzero(np.isin(rows[:, 2], markers))
        if not len(mine) or "extdata" not in self._columns("event"):
            return {}
        query = f"SELECT id, extdata FROM {self._quoted('event')} WHERE category_id IN ({','.join(map(str, markers))})"
        texts = {}
        for event, extra in self.connection.execute(query):
            try:
                found = json.loads(str(extra))
            except ValueError:
                continue
            if isinstance(found, dict) and found.get("message"):
                texts[event] = str(found["message"])
        return {int(row): texts[event] for row in mine if (event := int(rows[row, 7])) in texts}

    def _kernels(self) -> None:
        rows = self._timed("kernel_dispatch", ("pid", "agent_id", "queue_id", "kernel_id"))
        if rows is None:
            return
        symbols = self._rows("info_kernel_symbol", ("id", "display_name", "kernel_name"))
        names = {int(k): str(shown or name or f"kernel {k}") for k, shown, name in symbols}

        def describe(pid: int, agent: int, queue: int, kernel: int) -> tuple[int, int, int]:
            label = f"{self.agents.get(agent, f'agent {agent}')} queue {queue}"
            name = names.get(kernel, f"kernel {kernel}")
            line = self.builder.line(self._pid(pid), label, "stream")
            return line, int(apis.kernel(name)), self.builder.name(name)

        self._add(rows, (rows[:, 4], rows[:, 5], rows[:, 6], rows[:, 7]), describe)

    def _copies(self) -> None:
        rows = self._timed("memory_copy", ("pid", "src_agent_id", "dst_agent_id", "name_id", "size"))
        if rows is None:
            return

        def describe(pid: int, source: int, target: int, name: int) -> tuple[int, int, int]:
            ends = [self.agents.get(one, f"agent {one}") for one in (source, target)]
            text = self._string(name, "copy")
            across = bool(self.cpus & {source, target}) if self.cpus else "DEVICE_TO_DEVICE" not in text
            line = self.builder.line(self._pid(pid), f"copies {ends[0]} to {ends[1]}", "stream")
            return line, int(apis.copy(across)), self.builder.name(text)

        self._add(rows, tuple(rows[:, k] for k in (4, 5, 6, 7)), describe, bytes=rows[:, 8])


def _category(kind: str, name: str) -> Category:
    """The category of a region, by the category that rocpd gives it and by its name."""
    if kind.startswith("MARKER"):
        return Category.other
    if kind.startswith(("RCCL", "ROCSHMEM")) or re.match(r"P?MPI_", name):
        return Category.mpi
    if kind.startswith(("HIP", "HSA", "ROCDECODE", "ROCJPEG")) or re.match(r"hip[A-Z]|hsa_", name):
        return apis.call(name)
    return Category.cpu
