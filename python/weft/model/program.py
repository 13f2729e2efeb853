"""A traced run in the form in which it is replayed: calls, device work, and waits between them.

Numbers of calls count all threads one after another, and numbers of device work are in the order of the trace. Columns
keep a million events in 150 MB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from weft.model.meetings import Meeting

NONE, UP, DOWN = 0, 1, 2  # direction in which a piece of device work uses the link
KERNEL, COPY, COLLECTIVE = 0, 1, 2  # kinds of device work; copies may be within a device
UNLIMITED = 2**62  # depth of a queue that never fills

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class HandOver(NamedTuple):
    """A call that begins because a call of another thread has returned."""

    call: int  # the one that returned
    lag: float  # s, from its return


class Call(NamedTuple):
    """A call on the host, `gap` seconds after the previous call on its thread."""

    gap: float
    seconds: float  # duration; for a call that waits, without the time spent waiting
    launches: tuple[int, ...] = ()  # device work, by number
    offsets: tuple[float, ...] = ()  # time from the start of the call to each launch
    waits: tuple[int, ...] = ()  # device work that must be done before the call returns
    tail: float = 0.0  # time from the end of that work to the return
    bytes: float = -1.0  # of a copy that the host makes itself
    way: int = NONE
    opens: tuple[int, ...] = ()  # meetings of processes that it enters, by number
    needs: tuple[tuple[int, float], ...] = ()  # meetings it waits for, and the time from each to its return
    depth: int = UNLIMITED  # launches that its stream holds; the call blocks until there is room


class Work(NamedTuple):
    """A piece of device work (a kernel, a copy or a collective) on a stream."""

    stream: int
    seconds: float
    launched: bool = True  # whether a call of the trace launched it
    after_work: float = 0.0  # least time from the end of the previous work on its stream
    after_launch: float = 0.0  # least time from its launch
    latency: float = 0.0  # launch latency contained in `after_launch`
    bytes: float = -1.0
    way: int = NONE
    kind: int = KERNEL
    waits: tuple[tuple[int, float], ...] = ()  # work of other streams that it waits for, and the time from its end


@dataclass(frozen=True)
class Calls:
    """The calls of all threads in columns; see `Call`.

    first          int64 (threads + 1): the calls of thread t are first[t] to first[t + 1] - 1
    launch_first   int64 (calls + 1): call c launches the work launched[launch_first[c] : launch_first[c + 1]]
    wait_first     int64 (calls + 1): call c waits for the work waited[wait_first[c] : wait_first[c + 1]]
    entry          int64 (calls): the number of launches before this one into `queue`, its stream; -1 without a launch
    """

    first: Ints
    gap: Floats
    seconds: Floats
    tail: Floats
    launch_first: Ints
    launched: Ints
    offset: Floats
    wait_first: Ints
    waited: Ints
    depth: Ints
    queue: Ints
    entry: Ints
    copies: Mapping[int, tuple[float, int]] = field(default_factory=dict)  # by call: bytes and direction
    opens: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    needs: Mapping[int, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    hand_overs: Mapping[int, HandOver] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.gap)


@dataclass(frozen=True)
class DeviceWork:
    """All device work in columns; see `Work`.

    first          int64 (streams + 1): stream s does the work order[first[s] : first[s + 1]] in this order
    queue_first    int64 (streams + 1): stream s receives the launches last[queue_first[s] : queue_first[s + 1]], of
                   which `last` is the last work. Work that no call of the trace launched counts as a launch of its own.
    """

    first: Ints
    order: Ints
    stream: Ints
    seconds: Floats
    launched: NDArray[np.bool_]
    after_work: Floats
    after_launch: Floats
    latency: Floats
    bytes: Floats
    way: NDArray[np.int8]
    kind: NDArray[np.int8]
    queue_first: Ints
    last: Ints
    waits: Mapping[int, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    opens: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # collectives: the meetings they enter
    needs: Mapping[int, tuple[int, float]] = field(default_factory=dict)  # the meeting that ends it, and the time since

    def __len__(self) -> int:
        return len(self.seconds)


@dataclass(frozen=True)
class Program:
    """The content of a trace in the form in which it is replayed."""

    calls: Calls
    thread_process: tuple[int, ...]
    thread_names: tuple[str, ...]
    work: DeviceWork
    stream_process: tuple[int, ...]
    stream_names: tuple[str, ...]
    traced_seconds: float
    latency: float  # traced launch latency: from a launch to the start of its work on an idle stream
    bandwidth: float  # traced bandwidth of the link; infinite if nothing was copied over it
    traced_events: int
    notes: tuple[str, ...] = ()
    meetings: tuple[Meeting, ...] = ()
    message_latency: float = 0.0  # traced latency of messages and collectives
    message_bandwidth: float = np.inf  # traced bandwidth of messages; infinite if waits do not grow with their size
    rest: float = 0.0  # time (s) from the last call or work to the end of the trace

    @property
    def processes(self) -> set[int]:
        """The processes that have threads or streams."""
        return set(self.stream_process) | set(self.thread_process)

    @property
    def copies(self) -> list[tuple[float, float]]:
        """The (bytes, seconds) of all copies over a link."""
        across = (self.work.way != NONE) & (self.work.bytes > 0)
        found = list(zip(self.work.bytes[across].tolist(), self.work.seconds[across].tolist(), strict=True))
        return found + [(size, float(self.calls.seconds[c])) for c, (size, _) in self.calls.copies.items() if size > 0]


def program_of(
    threads: Sequence[Sequence[Call]],
    work: Sequence[Work],
    streams: Sequence[Sequence[int]],
    traced_seconds: float,
    latency: float = 0.0,
    bandwidth: float = np.inf,
    thread_process: Sequence[int] = (),
    stream_process: Sequence[int] = (),
    hand_overs: Mapping[int, HandOver] | None = None,
    meetings: Sequence[Meeting] = (),
) -> Program:
    """Makes a program of calls and pieces of work.

    ``thread_process`` and ``stream_process`` give the processes of the threads and streams; without them, all belong to
    process 0.
    """
    flat = [call for thread in threads for call in thread]
    launched = np.array([k for call in flat for k in call.launches], dtype=np.int64)
    launch_first = offsets_of([len(call.launches) for call in flat])
    caller = np.full(len(work), -1, dtype=np.int64)
    caller[launched] = np.repeat(np.arange(len(flat)), np.diff(launch_first))
    order = np.array([k for stream in streams for k in stream], dtype=np.int64)
    first = offsets_of([len(stream) for stream in streams])
    queue_first, last, queue, entry = queues(first, order, caller, len(flat))

    def column(name: str, dtype: type) -> NDArray[Any]:
        return np.array([getattr(one, name) for one in work], dtype=dtype)

    gap, seconds, tail = (np.array([getattr(c, name) for c in flat], float) for name in ("gap", "seconds", "tail"))
    calls = Calls(
        offsets_of([len(thread) for thread in threads]), gap, seconds, tail,
        launch_first, launched, np.array([s for call in flat for s in call.offsets], dtype=float),
        offsets_of([len(call.waits) for call in flat]),
        np.array([k for call in flat for k in call.waits], dtype=np.int64),
        np.array([call.depth for call in flat], dtype=np.int64), queue, entry,
        {c: (call.bytes, call.way) for c, call in enumerate(flat) if call.way != NONE},
        {c: call.opens for c, call in enumerate(flat) if call.opens},
        {c: call.needs for c, call in enumerate(flat) if call.needs},
        hand_overs or {},
    )  # fmt: skip
    device = DeviceWork(
        first, order, column("stream", np.int64), column("seconds", float), column("launched", bool),
        column("after_work", float), column("after_launch", float), column("latency", float), column("bytes", float),
        column("way", np.int8), column("kind", np.int8), queue_first, last,
        {k: one.waits for k, one in enumerate(work) if one.waits},
    )  # fmt: skip
    return Program(
        calls, tuple(thread_process) or (0,) * len(threads), tuple(f"thread {t}" for t in range(len(threads))),
        device, tuple(stream_process) or (0,) * len(streams), tuple(f"stream {s}" for s in range(len(streams))),
        traced_seconds, latency, bandwidth, len(flat) + len(work), meetings=tuple(meetings),
    )  # fmt: skip


def view(column: NDArray[Any]) -> memoryview[Any]:
    """A column whose single elements are read and written as fast as those of a list, without a copy."""
    return cast("memoryview[Any]", column.data)


def offsets_of(counts: Sequence[int] | NDArray[np.integer]) -> Ints:
    """The offset of each of several rows in their concatenation, followed by the end of the last one."""
    return np.concatenate([[0], np.cumsum(np.asarray(counts, dtype=np.int64))]).astype(np.int64)


def queues(first: Ints, order: Ints, caller: Ints, calls: int) -> tuple[Ints, Ints, Ints, Ints]:
    """The launches that each stream receives: `queue_first`, `last` of `DeviceWork`, and `queue`, `entry` of `Calls`.

    Work launched by the same call, such as the kernels of a graph, is one launch.
    """
    stream = np.repeat(np.arange(len(first) - 1), np.diff(first))
    by = caller[order]
    ends = np.ones(len(order), dtype=bool)  # whether the work is the last one of its launch
    ends[:-1] = (by[1:] != by[:-1]) | (by[1:] < 0) | (stream[1:] != stream[:-1])
    queue_first = offsets_of(np.bincount(stream[ends], minlength=len(first) - 1))
    last, queue_of, launcher = order[ends], stream[ends], by[ends]
    queue, entry = np.zeros(calls, dtype=np.int64), np.full(calls, -1, dtype=np.int64)
    known = launcher >= 0
    queue[launcher[known]] = queue_of[known]
    entry[launcher[known]] = (np.arange(len(last)) - queue_first[queue_of])[known]
    return queue_first, last, queue, entry
