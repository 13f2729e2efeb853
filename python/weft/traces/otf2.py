"""Reader of OTF2 archives of Score-P and other tools: the anchor file `traces.otf2` and the files next to it.

The official library (`otf2` on PyPI) decodes them through its C callbacks, because creating its Python objects, one per
event, would take ten times as long. The library does not check its input, so it runs in a process of its own.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from weft.traces import apis
from weft.traces.head import Head
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "an OTF2 archive (its anchor file, traces.otf2)"

_TIME_LIMIT = 3600.0  # seconds


class _Group(Protocol):
    """A location group of the library: a process, or an accelerator that belongs to one."""

    name: str
    _ref: int


class _Location(Protocol):
    """A location of the library: a thread, or a stream of an accelerator."""

    group: _Group


def probe(head: Head) -> bool:
    return head.data[2:6] == b"OTF2"


def read(path: Path) -> Trace:
    """Reads the regions of every location.

    A region in which messages were sent or received has their bytes and last peer. Metrics and other kinds of event are
    ignored.
    """
    command = [sys.executable, "-c", "from weft.traces.otf2 import decode; decode()", str(path)]
    environment = {"PYTHONPATH": ":".join(p for p in sys.path if p), "PATH": ""}
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIME_LIMIT, env=environment)
    except subprocess.TimeoutExpired:
        raise ValueError(f"{path}: the OTF2 library did not finish reading this archive within an hour") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().split("\n")[-1] or f"it exited with code {done.returncode}"
        raise ValueError(f"{path}: the OTF2 archive is damaged or incomplete: {said[:300]}")
    with np.load(io.BytesIO(done.stdout)) as arrays:
        return _table(path, dict(arrays))


def _table(path: Path, arrays: dict[str, np.ndarray]) -> Trace:
    builder = Builder("otf2", path)
    lines = [builder.line(int(p), str(label), "stream" if s else "host")
             for p, label, s in zip(arrays["process"], arrays["label"], arrays["stream"], strict=True)]  # fmt: skip
    names, categories = [], []
    for region, paradigm in zip(arrays["region"], arrays["paradigm"], strict=True):
        names.append(builder.name(str(region)))
        categories.append((int(_category(str(region), str(paradigm), False)),
                           int(_category(str(region), str(paradigm), True))))  # fmt: skip
    for note in arrays["notes"]:
        builder.notes.append(str(note))
    table = arrays["events"]  # line, start, end, region, bytes, peer
    if len(table):
        stream = arrays["stream"].astype(np.int64)
        builder.add(
            line=np.array(lines)[table[:, 0]],
            start=table[:, 1],
            end=table[:, 2],
            category=np.array(categories)[table[:, 3], stream[table[:, 0]]],
            name=np.array(names)[table[:, 3]],
            bytes=table[:, 4],
            peer=table[:, 5],
        )
    return builder.build()


def _category(name: str, paradigm: str, stream: bool) -> Category:
    if stream:
        return apis.kernel(name)
    if paradigm in ("MPI", "SHMEM", "GASPI", "UPC"):
        return Category.mpi
    return apis.call(name) if paradigm in ("CUDA", "HIP", "OPENCL", "OPENACC") else Category.cpu


def decode() -> None:
    """Reads the archive named on the command line and writes its columns to standard output as an .npz file."""
    try:
        arrays = _Archive(sys.argv[1]).arrays()
    except ImportError as error:
        sys.exit(f"reading OTF2 needs the package 'otf2' (pip install otf2): {error}")
    except Exception as error:
        sys.exit(str(error) or "the library gives no reason")
    np.savez(sys.stdout.buffer, allow_pickle=True, **arrays)


def _process(location: _Location) -> int:
    """The number in the name of a location's process ('MPI Rank 3'), or of the creating process for an accelerator."""
    group = location.group
    group = getattr(group, "creating_location_group", None) or group
    number = re.search(r"\d{1,9}$", group.name)
    return int(number[0]) if number else int(group._ref) % 2**31


class _Archive:
    def __init__(self, path: str) -> None:
        import _otf2
        import otf2

        self.unmatched, self.open_ended = 0, 0
        self.rows: list[list[int]] = []
        self.stacks: dict[int, list[list[int]]] = {}
        self.last: dict[int, int] = {}
        with otf2.reader.open(path) as trace:
            self.definitions = trace.definitions
            clock = self.definitions.clock_properties
            self.resolution, self.offset = int(clock.timer_resolution), int(clock.global_offset)
            self.places = {location._ref: i for i, location in enumerate(self.definitions.locations)}
            self.regions = {region._ref: i for i, region in enumerate(self.definitions.regions)}
            self.process = {place._ref: _process(place) for place in self.definitions.locations}
            self.world = {c._ref: self._members(c) for c in self.definitions.comms}
            handle = trace._get_global_evt_reader_handle(None)
            callbacks = _otf2.GlobalEvtReaderCallbacks_New()
            handlers: dict[str, Callable[..., None]] = {
                "Enter": self._enter,
                "Leave": self._leave,
                "MpiCollectiveEnd": self._collective,
            }
            handlers |= dict.fromkeys(("MpiSend", "MpiIsend", "MpiRecv", "MpiIrecv"), self._message)
            # The library ties the lifetime of its C functions to the Python functions, which are therefore kept.
            functions = [partial(handler) for handler in handlers.values()]
            for kind, function in zip(handlers, functions, strict=True):
                getattr(_otf2, f"GlobalEvtReaderCallbacks_Set{kind}Callback")(callbacks, function)
            _otf2.Reader_RegisterGlobalEvtCallbacks(trace.handle, handle, callbacks, None)
            _otf2.GlobalEvtReaderCallbacks_Delete(callbacks)
            self.count = _otf2.Reader_ReadAllGlobalEvents(trace.handle, handle)
        for place, stack in self.stacks.items():
            while stack:
                self.open_ended += 1
                self._close(stack, self.last[place])

    def _members(self, comm: object) -> list[int]:
        """The processes of a communicator's ranks; empty if the archive does not list them."""
        members = getattr(getattr(comm, "group", None), "members", None) or []
        return [self.process.get(getattr(m, "_ref", -1), -1) for m in members]

    def _enter(self, location: int, time: int, _: object, __: object, region: int) -> None:
        self.last[location] = time
        self.stacks.setdefault(location, []).append([self.places[location], time, 0, self.regions[region], -1, -1])

    def _leave(self, location: int, time: int, _: object, __: object, region: int) -> None:
        self.last[location] = time
        stack = self.stacks.get(location)
        if not stack or stack[-1][3] != self.regions[region]:
            self.unmatched += 1
        else:
            self._close(stack, time)

    def _close(self, stack: list[list[int]], time: int) -> None:
        row = stack.pop()
        row[2] = time
        self.rows.append(row)

    def _message(self, location: int, _: int, __: object, ___: object, peer: int, comm: int, tag: int, length: int,
                 *request: int) -> None:  # fmt: skip
        self._note(location, length, peer, comm)

    def _collective(self, location: int, _: int, __: object, ___: object, operation: int, comm: int, root: int,
                    sent: int, received: int) -> None:  # fmt: skip
        self._note(location, sent, root if root < 2**31 else -1, comm)

    def _note(self, location: int, length: int, peer: int, comm: int) -> None:
        stack = self.stacks.get(location)
        if stack:
            members = self.world.get(comm, [])
            stack[-1][4] = max(stack[-1][4], 0) + length
            stack[-1][5] = members[peer] if 0 <= peer < len(members) else peer

    def arrays(self) -> dict[str, np.ndarray]:
        process, label, stream = [], [], []
        for i, location in enumerate(self.definitions.locations):
            on_device = str(location.type).endswith(("GPU", "ACCELERATOR_STREAM"))
            process.append(self.process[location._ref])
            label.append(location.name if on_device or location.name else f"location {i}")
            stream.append(on_device)
        labels: dict[tuple[int, str], int] = {}
        for i, key in enumerate(zip(process, label, strict=True)):  # threads with the same name stay separate
            labels[key] = labels.get(key, 0) + 1
            label[i] += f" {labels[key]}" if labels[key] > 1 else ""
        table = np.array(self.rows, dtype=np.uint64).reshape(-1, 6) if not self.rows else np.array(self.rows, np.int64)
        table = table.astype(np.int64)
        for column in (1, 2):
            table[:, column] = self._nanoseconds(table[:, column])
        notes = []
        if self.open_ended:
            notes.append(f"{self.open_ended} regions were still open at the end and were closed there")
        if self.unmatched:
            notes.append(f"{self.unmatched} ends of regions that were never entered are ignored")
        regions = list(self.definitions.regions)
        return {
            "process": np.array(process, dtype=np.int64),
            "label": np.array(label, dtype=str),
            "stream": np.array(stream, dtype=bool),
            "region": np.array([r.name for r in regions], dtype=str),
            "paradigm": np.array([str(r.paradigm).split(".")[-1] for r in regions], dtype=str),
            "notes": np.array(notes, dtype=str),
            "events": table,
        }

    def _nanoseconds(self, ticks: np.ndarray) -> np.ndarray:
        """Ticks of the archive's clock since its beginning, in nanoseconds. Exact for clocks below 9 GHz."""
        whole, rest = np.divmod(ticks - self.offset, self.resolution)
        if self.resolution < 9 * 10**9:
            return whole * 10**9 + rest * 10**9 // self.resolution
        return whole * 10**9 + (rest * (1e9 / self.resolution)).astype(np.int64)
