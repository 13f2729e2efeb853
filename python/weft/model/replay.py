"""Discrete-event replay of a trace with another coupling of host and device; combines the report's SSI and AgoChart.

Section and figure numbers refer to "Hardware Evaluation Analytical Modeling and Node Simulation: Benefits of Tighter
GPU Integration" (ECP-HIHE01-35, 2021), "the report": 4.4 and 5.6 (SSI), 4.7, 5.5 and 8.5 (AgoChart).

A trace becomes a `Program`: ordered calls on each host thread with the time between them, and ordered work on each
device stream, connected by launches and waits. A replay keeps these dependencies and everything that the scenario does
not change, so that the scenario "as traced" reproduces the times of the trace. Every thread and stream has a clock of
its own and runs ahead until it needs another one. Only shared resources (links, execution units) are served by SimPy
in the order of simulated time.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from weft.model.meetings import Meeting, find_meetings
from weft.model.rate import link_bandwidth, link_bandwidth_range
from weft.model.result import ModelError, Result, exact, require_positive
from weft.traces import messages
from weft.traces.table import Category, Trace

METHOD = "replay"
NONE, UP, DOWN = 0, 1, 2  # direction in which a piece of device work uses the link
LITTLE = 500_000  # with fewer replayed events than this, starting processes does not pay
MOST_STREAMS_WAITED = 64  # per process; with more, a device-wide wait only covers streams seen to be waited for
Steps = Generator[simpy.Event, object, None]
Hold = Generator[simpy.Event, object, float]


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


class Work(NamedTuple):
    """A piece of device work (a kernel or a copy) on a stream."""

    stream: int
    seconds: float
    launched: bool  # whether a call of the trace launched it
    bound_by_launch: bool  # whether it had to wait for its launch, rather than for a busy stream
    delay: float  # after the launch (bound_by_launch) or after the previous work
    floor: float  # launch latency contained in the time since its launch
    bytes: float = -1.0
    way: int = NONE
    kernel: bool = True


@dataclass(frozen=True)
class Program:
    """The content of a trace in the form in which it is replayed."""

    threads: tuple[tuple[Call, ...], ...]
    thread_process: tuple[int, ...]
    work: tuple[Work, ...]
    streams: tuple[tuple[int, ...], ...]  # numbers of the work on each stream, in order
    stream_process: tuple[int, ...]
    traced_seconds: float
    latency: float  # traced launch latency: from a launch to the start of its work on an idle stream
    bandwidth: float  # traced bandwidth of the link; infinite if nothing was copied over it
    traced_events: int
    notes: tuple[str, ...] = ()
    meetings: tuple[Meeting, ...] = ()
    message_latency: float = 0.0  # traced latency of messages and collectives
    message_bandwidth: float = np.inf  # traced bandwidth of messages; infinite if waits do not grow with their size

    @property
    def processes(self) -> set[int]:
        """The processes that have threads or streams."""
        return set(self.stream_process) | set(self.thread_process)

    @property
    def copies(self) -> list[tuple[float, float]]:
        """The (bytes, seconds) of all copies over a link."""
        found = [(w.bytes, w.seconds) for w in self.work if w.way != NONE and w.bytes > 0]
        return found + [(c.bytes, c.seconds) for t in self.threads for c in t if c.way != NONE and c.bytes > 0]

    @property
    def calls(self) -> int:
        """The number of calls on all threads."""
        return sum(len(t) for t in self.threads)


@dataclass(frozen=True)
class Scenario:
    """A machine to replay on. Values that are None stay as traced."""

    latency: float | None = None  # s, from a launch to the start of its work on an idle stream
    bandwidth: float | None = None  # byte/s of the link, per direction
    lanes: int | None = None  # concurrent copies per direction of a process's link; None: unlimited
    gpus: int = 1  # loosely coupled GPUs, which share the device work and one link
    gpu_speed: float = 1.0  # relative to the traced GPU
    cpu_speed: float = 1.0  # relative to the traced CPU
    queue: int | None = None  # pieces of work that a stream can hold; a launch into a full stream waits
    kernels_at_once: int | None = None  # concurrent kernels per process
    commands_on_link: bool = False  # launches occupy the link for their latency, like AgoChart's shared resource
    message_latency: float | None = None  # s, of messages and collectives between processes
    message_bandwidth: float | None = None  # byte/s, of messages between processes
    # The process to which latencies, bandwidths and speeds apply, including those of its messages; None: all processes.
    process: int | None = None

    def __post_init__(self) -> None:
        for name in ("latency", "message_latency"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < np.inf:
                raise ModelError(f"{name} is {value}, but must be a finite number of at least zero")
        positive = {
            n: getattr(self, n)
            for n in ("bandwidth", "gpu_speed", "cpu_speed", "message_bandwidth")
            if getattr(self, n) is not None
        }
        for name, value in positive.items():
            if not value > 0:  # an infinite bandwidth is allowed
                raise ModelError(f"{name} is {value}, but must be above zero")
        for name in ("lanes", "gpus", "queue", "kernels_at_once"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ModelError(f"{name} is {value}, but must be at least 1")


AS_TRACED = Scenario()


@dataclass
class Outcome:
    """The outcome of a replay: its duration, and the work done."""

    seconds: float = 0.0
    calls: int = 0
    work: int = 0
    bytes: float = 0.0  # over links
    kernel_seconds: float = 0.0  # sum over all GPUs
    link_seconds: float = 0.0  # time during which links were occupied, both directions added
    link_wait_seconds: float = 0.0  # time spent waiting for occupied links
    waits: int = field(default=0)  # requests that found the link occupied
    messages: int = 0  # messages and collectives
    message_bytes: float = 0.0


# --- from a trace --------------------------------------------------------------------------------------------------


def direction(name: str) -> int:
    """The direction over the link of a copy with this name."""
    text = name.lower().replace(" ", "").replace("_", "").replace("-", "").replace(">", "")
    if any(t in text for t in ("dtoh", "d2h", "devicetohost", "fromdevice")):
        return DOWN
    if any(t in text for t in ("htod", "h2d", "hosttodevice", "todevice")) and "devicetodevice" not in text:
        return UP
    if any(t in text for t in ("dtod", "d2d", "devicetodevice", "ptop", "p2p", "peer", "memset", "htoh", "hosttohost")):
        return NONE
    return UP


def program(trace: Trace) -> Program:
    """A trace as a program.

    Raises ValueError if events overlap on a stream, if the clocks of host and device disagree, or if the trace has
    nothing to replay.
    """
    trace.validate()
    notes: list[str] = []
    on_stream = trace.on_stream()
    acting = ~on_stream & trace.of(Category.launch, Category.sync, Category.copy, Category.mpi)
    kinds = [messages.kind(n) for n in trace.names]
    acting &= ~messages.ranges(trace, acting, kinds)
    ways = np.array([direction(n) for n in trace.names], dtype=np.int8)
    device = np.flatnonzero(on_stream)
    if not len(device) and not acting.any():
        held = ", ".join(sorted({Category(int(c)).name for c in np.unique(trace.category)}))
        raise ModelError(f"{trace.path}: the trace has nothing to replay, neither device work nor calls that launch, "
                         f"wait, copy or communicate; it has only {held} events")  # fmt: skip
    start, end = trace.start * 1e-9, trace.end * 1e-9

    # Calls: on each thread, the outermost ones; what an inner call launches counts as launched by the outer one.
    owner = np.full(len(trace), -1, dtype=np.int64)
    threads: list[NDArray[np.int64]] = []
    for line in np.unique(trace.line[acting]):
        index = np.flatnonzero(acting & (trace.line == line))
        outer = messages.outermost(trace, index)
        owner[index] = outer[np.searchsorted(outer, index, side="right") - 1]
        threads.append(outer)

    launcher = _launchers(trace, device, acting)
    early = (launcher >= 0) & (trace.start[device] < trace.start[launcher])
    if early.any():
        if early.sum() > 0.01 * len(device):
            raise ModelError(
                f"{trace.path}: {int(early.sum())} of {len(device)} pieces of device work start before the call that "
                "launched them: the clocks of host and device disagree"
            )
        notes.append(f"{int(early.sum())} pieces of device work start before their launch, which is therefore ignored")
        launcher[early] = -1

    work, streams, stream_process, latency = _work(trace, device, launcher, ways, start, end)
    ends = end[device].tolist()
    handed: dict[int, list[tuple[int, float]]] = {}
    linked = np.flatnonzero(launcher >= 0)
    call = launcher[linked]
    offsets = start[call] - start[owner[call]]
    for k, outer, offset in zip(linked.tolist(), owner[call].tolist(), offsets.tolist(), strict=True):
        handed.setdefault(outer, []).append((k, offset))
    waited = _waits(trace, device, launcher, threads, streams, stream_process)
    met = find_meetings(trace, threads, kinds)
    notes += met.notes
    calls = []
    for thread in threads:
        begin, finish = start[thread], end[thread]
        gaps = np.maximum(0.0, begin - np.concatenate([[0.0], finish[:-1]]))
        copies = (trace.category[thread] == Category.copy) & (trace.bytes[thread] > 0)
        way = np.where(copies, ways[trace.name[thread]], NONE)
        columns = (thread, gaps, begin, finish, trace.bytes[thread], way)
        rows = zip(*(c.tolist() for c in columns), strict=True)
        calls.append(
            tuple(
                _call(handed.get(e, ()), waited.get(e, ()), ends, g, b, f, n, w, met.of(e)) for e, g, b, f, n, w in rows
            )
        )
    relevant = np.concatenate([device, *threads]) if threads else device
    outside = len(trace) - len(relevant)
    if outside:
        notes.append(
            f"{outside} of {len(trace)} events are ranges or inner calls; their time counts as that of the outer call "
            "or as a gap between calls"
        )
    found = Program(
        tuple(calls), tuple(int(trace.process[t[0]]) for t in threads), tuple(work), tuple(map(tuple, streams)),
        tuple(stream_process), float(end[relevant].max()), latency, np.inf, len(trace), tuple(notes),
        tuple(met.meetings), met.latency, met.bandwidth,
    )  # fmt: skip
    return replace(found, bandwidth=link_bandwidth(found.copies))


def _launchers(trace: Trace, device: NDArray[np.int64], acting: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The call that launched each piece of device work; -1 if the trace does not say."""
    hosts = np.flatnonzero(acting & (trace.correlation >= 0))
    found = np.full(len(device), -1, dtype=np.int64)
    if not len(hosts):
        return found
    wanted = trace.correlation[device]

    def look(keys: NDArray[np.int64], of: NDArray[np.int64]) -> NDArray[np.int64]:
        order = np.argsort(keys, kind="stable")
        place = np.clip(np.searchsorted(keys[order], of), 0, len(keys) - 1)
        return np.where(keys[order][place] == of, hosts[order][place], -1)

    # Correlations belong to a process. Files that number the processes of devices differently are matched without it.
    spread = int(trace.correlation.max()) + 1
    process = np.unique(trace.process, return_inverse=True)[1].astype(np.int64)
    found = look(process[hosts] * spread + trace.correlation[hosts], process[device] * spread + wanted)
    if len(np.unique(trace.correlation[hosts])) == len(hosts):
        found = np.where(found < 0, look(trace.correlation[hosts], wanted), found)
    found[wanted < 0] = -1
    return found


def _work(
    trace: Trace,
    device: NDArray[np.int64],
    launcher: NDArray[np.int64],
    ways: NDArray[np.int8],
    start: NDArray[np.floating],
    end: NDArray[np.floating],
) -> tuple[list[Work], list[list[int]], list[int], float]:
    begin, finish = start[device], end[device]
    handed = np.where(launcher >= 0, start[launcher], 0.0)
    lines, stream = np.unique(trace.line[device], return_inverse=True)
    order = np.lexsort((np.arange(len(device)), stream))
    before = np.zeros(len(device))  # end of the previous work on the stream
    inside = stream[order][1:] == stream[order][:-1]
    before[order[1:]] = np.where(inside, finish[order[:-1]], 0.0)
    since_launch, since_work = begin - handed, np.maximum(0.0, begin - before)
    linked = launcher >= 0
    idle = linked & (before <= handed)
    latency = float(np.quantile(since_launch[idle], 0.05)) if idle.any() else 0.0
    bound = linked & (before <= handed + latency)
    copy = trace.category[device] == Category.copy
    way = np.where(copy, ways[trace.name[device]], NONE)
    streams: list[list[int]] = [[] for _ in lines]
    for k, s in zip(order.tolist(), stream[order].tolist(), strict=True):
        streams[s].append(k)
    delay = np.where(bound, since_launch, since_work)
    floor = np.where(linked, np.minimum(since_launch, latency), 0.0)
    columns = (stream, finish - begin, linked, bound, delay, floor, trace.bytes[device].astype(float), way, ~copy)
    work = [Work(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]
    return work, streams, [trace.lines[i].process for i in lines], latency


def _waits(
    trace: Trace,
    device: NDArray[np.int64],
    launcher: NDArray[np.int64],
    threads: Sequence[NDArray[np.int64]],
    streams: Sequence[Sequence[int]],
    stream_process: Sequence[int],
) -> dict[int, list[int]]:
    """The work that each waiting call waits for: per stream, the last work launched before it and done at its return.

    A call that waits for the whole device, or that belongs to a process with one stream, waits for every stream. Other
    calls wait for the streams whose work ended during the call. A blocking copy waits for its own work.
    """
    waited: dict[int, list[int]] = {}
    calls = np.concatenate(threads) if threads else np.zeros(0, dtype=np.int64)
    syncs = calls[trace.category[calls] == Category.sync]
    whole = np.array([any(t in n.lower() for t in ("devicesync", "ctxsync", "contextsync")) for n in trace.names])
    handed = np.where(launcher >= 0, trace.start[launcher], trace.start[device])
    for process in sorted(set(stream_process)):
        mine = [s for s, p in enumerate(stream_process) if p == process]
        here = syncs[trace.process[syncs] == process] if len(set(trace.process[calls])) > 1 else syncs
        for s in mine:
            index = np.array(streams[s], dtype=np.int64)
            launched = np.maximum.accumulate(handed[index])
            last = (
                np.minimum(
                    np.searchsorted(trace.end[device[index]], trace.end[here], side="right"),
                    np.searchsorted(launched, trace.start[here], side="right"),
                )
                - 1
            )
            seen = last >= 0
            ended_inside = trace.end[device[index[np.maximum(last, 0)]]] > trace.start[here]
            everything = (whole[trace.name[here]] | (len(mine) == 1)) & (len(mine) <= MOST_STREAMS_WAITED)
            for call, k in zip(here[seen & (ended_inside | everything)], last[seen & (ended_inside | everything)],
                               strict=True):  # fmt: skip
                waited.setdefault(int(call), []).append(int(index[k]))
    blocking = set(calls[trace.category[calls] == Category.copy].tolist())
    for k in np.flatnonzero(launcher >= 0):
        call = int(launcher[k])
        if call in blocking and trace.end[device[k]] <= trace.end[call]:
            waited.setdefault(call, []).append(int(k))
    return waited


def _call(
    handed: Sequence[tuple[int, float]],
    waited: Sequence[int],
    ends: Sequence[float],
    gap: float,
    begin: float,
    finish: float,
    data: int,
    way: int,
    meetings: tuple[tuple[int, ...], tuple[tuple[int, float], ...], float | None],
) -> Call:
    seconds, tail = finish - begin, 0.0
    opens, needs, message_tail = meetings
    if message_tail is not None:  # it waited for another process, which is not time of its own
        seconds = min(seconds, max(0.0, message_tail))
    if waited:
        last = max(ends[k] for k in waited)
        if last > begin:
            tail = max(0.0, finish - last)
            seconds = min(seconds, tail)
    if handed:
        numbers, offsets = zip(*handed, strict=True)
        return Call(gap, seconds, numbers, offsets, tuple(waited), tail, opens=opens, needs=needs)
    return Call(gap, seconds, (), (), tuple(waited), tail, float(data) if way else -1.0, way, opens, needs)


# --- replaying -----------------------------------------------------------------------------------------------------


def _slower(bandwidth: float | None, traced: float) -> float:
    """Extra time (s) per byte at `bandwidth`, compared with the traced bandwidth."""
    return 1 / bandwidth - 1 / traced if bandwidth is not None and np.isfinite(traced) else 0.0


def _copy_seconds(seconds: float, data: float, slower: float) -> float:
    return max(0.0, seconds + data * slower) if data > 0 else seconds


class _Replay:
    """One simulation. Its threads, streams and dispatchers are SimPy processes with clocks of their own."""

    def __init__(self, source: Program, scenario: Scenario) -> None:
        self.source, self.scenario = source, scenario
        self.env = simpy.Environment()
        count = len(source.work)
        self.handed: list[float | None] = [None if w.launched else 0.0 for w in source.work]
        self.done: list[float | None] = [None] * count
        self.arrived: list[list[float] | None] = [None] * count  # at each GPU, if commands occupy the link
        self.waiting: dict[tuple[str, int], list[simpy.Event]] = {}
        self.outcome = Outcome()
        shared = scenario.lanes is not None or scenario.commands_on_link
        self.links: dict[tuple[int, int], simpy.Resource] = {}
        self.units: dict[int, simpy.Resource] = {}
        if scenario.process is not None and scenario.process not in source.processes:
            held = ", ".join(str(p) for p in sorted(source.processes)[:20])
            raise ModelError(f"the trace has no process {scenario.process}; its processes are {held}")
        for p in source.processes:
            if shared:
                for way in (UP, DOWN):
                    self.links[p, way] = simpy.Resource(self.env, scenario.lanes or 1)
            if scenario.kernels_at_once is not None:
                self.units[p] = simpy.Resource(self.env, scenario.kernels_at_once)
        self.place = [0] * count
        for stream in source.streams:
            for k, w in enumerate(stream):
                self.place[w] = k
        self.latency = source.latency if scenario.latency is None else scenario.latency
        self.slower = _slower(scenario.bandwidth, source.bandwidth)
        self.missing = [len(m.processes) for m in source.meetings]
        self.last = [0.0] * len(source.meetings)  # latest arrival so far
        slower = _slower(scenario.message_bandwidth, source.message_bandwidth)
        later = 0.0 if scenario.message_latency is None else scenario.message_latency - source.message_latency
        self.message = [later + slower * m.bytes for m in source.meetings]

    def run(self) -> Outcome:
        for thread, process in zip(self.source.threads, self.source.thread_process, strict=True):
            self.env.process(self._thread(thread, process))
        for stream, process in zip(self.source.streams, self.source.stream_process, strict=True):
            if self.scenario.commands_on_link:
                self.env.process(self._dispatch(stream, process))
            self.env.process(self._stream(stream, process))
        self.env.run()
        left = sum(d is None for d in self.done)
        if left:
            raise ModelError(
                f"{left} of {len(self.done)} pieces of device work never start, because the trace's waits are circular"
            )
        if self.outcome.calls < self.source.calls:
            raise ModelError(
                f"{self.source.calls - self.outcome.calls} of {self.source.calls} calls never start, because the "
                "processes wait for each other in a cycle"
            )
        return self.outcome

    # A thread, stream or dispatcher that needs something another has not reached yet waits for its (kind, number).
    def _wait(self, kind: str, number: int) -> simpy.Event:
        event = self.env.event()
        self.waiting.setdefault((kind, number), []).append(event)
        return event

    def _wake(self, kind: str, number: int) -> None:
        for event in self.waiting.pop((kind, number), ()):
            event.succeed()

    def _ended(self, when: float) -> None:
        if when > self.outcome.seconds:
            self.outcome.seconds = when

    def _come(self, meeting: int, when: float) -> None:
        self.missing[meeting] -= 1
        self.last[meeting] = max(self.last[meeting], when)
        if not self.missing[meeting]:
            self.outcome.messages += 1
            self.outcome.message_bytes += self.source.meetings[meeting].bytes
            if self.waiting:
                self._wake("met", meeting)

    def _is_meant(self, process: int) -> bool:
        """Whether the latencies, bandwidths and speeds of the scenario apply to this process."""
        return self.scenario.process is None or self.scenario.process == process

    def _hold(self, resource: simpy.Resource, ready: float, seconds: float) -> Hold:
        """Queues for the resource from `ready` on and occupies it; returns the time at which it is released."""
        if ready > self.env.now:
            yield self.env.timeout(ready - self.env.now)
        asked = self.env.now
        with resource.request() as turn:
            yield turn
            if self.env.now > asked:
                self.outcome.link_wait_seconds += self.env.now - asked
                self.outcome.waits += 1
            yield self.env.timeout(seconds)
        self.outcome.link_seconds += seconds
        return float(self.env.now)

    def _thread(self, calls: Sequence[Call], process: int) -> Steps:
        handed, done, work, queue = self.handed, self.done, self.source.work, self.scenario.queue
        mine = self._is_meant(process)
        cpu, slower = (self.scenario.cpu_speed, self.slower) if mine else (1.0, 0.0)
        now = 0.0
        for call in calls:
            now += call.gap / cpu
            for number, offset in zip(call.launches, call.offsets, strict=True):
                if queue is not None and self.place[number] >= queue:
                    full = self.source.streams[work[number].stream][self.place[number] - queue]
                    if done[full] is None:
                        yield self._wait("done", full)
                    now = max(now, done[full] or 0.0)
                handed[number] = now + offset
                if self.waiting:
                    self._wake("handed", number)
            for number in call.opens:
                self._come(number, now)
            if call.waits or call.needs:
                last = now + call.seconds
                for number in call.waits:
                    if done[number] is None:
                        yield self._wait("done", number)
                    last = max(last, (done[number] or 0.0) + call.tail)
                for number, lag in call.needs:
                    if self.missing[number]:
                        yield self._wait("met", number)
                    if mine or process in self.source.meetings[number].processes:
                        lag = max(min(lag, 0.0), lag + self.message[number])
                    last = max(last, self.last[number] + lag)
                now = last
            elif call.way != NONE:
                seconds = _copy_seconds(call.seconds, call.bytes, slower)
                if self.links:
                    now = yield from self._hold(self.links[process, call.way], now, seconds)
                else:
                    now += seconds
                self.outcome.bytes += call.bytes
            else:
                now += call.seconds
            self.outcome.calls += 1
        self._ended(now)

    def _dispatch(self, stream: Sequence[int], process: int) -> Steps:
        """Sends the commands of a stream to each GPU in turn; each occupies the link for its latency."""
        work = self.source.work
        latency = self.latency if self._is_meant(process) else self.source.latency
        for number in stream:
            one = work[number]
            if self.handed[number] is None:
                yield self._wait("handed", number)
            extra = max(0.0, one.delay - one.floor) if one.bound_by_launch else 0.0
            arrived = []
            for _ in range(self.scenario.gpus):
                ready = (self.handed[number] or 0.0) + extra
                arrived.append((yield from self._hold(self.links[process, UP], ready, latency)))
            self.arrived[number] = arrived
            self._wake("arrived", number)

    def _stream(self, stream: Sequence[int], process: int) -> Steps:
        work, handed, done, scenario, outcome = self.source.work, self.handed, self.done, self.scenario, self.outcome
        gpus, speed, change, slower = scenario.gpus, scenario.gpu_speed, self.latency - self.source.latency, self.slower
        if not self._is_meant(process):
            speed, change, slower = 1.0, 0.0, 0.0
        unit = self.units.get(process)
        free = [0.0] * gpus  # end of the previous work on each GPU
        for number in stream:
            one = work[number]
            if scenario.commands_on_link:
                if self.arrived[number] is None:
                    yield self._wait("arrived", number)
                lag = 0.0 if one.bound_by_launch else one.delay
                ready = [max(a, f + lag) for a, f in zip(self.arrived[number] or (), free, strict=True)]
            else:
                if handed[number] is None:
                    yield self._wait("handed", number)
                launch = handed[number] or 0.0
                if not one.launched:
                    ready = [f + one.delay for f in free]
                elif one.bound_by_launch:
                    ready = [max(f, launch + max(0.0, one.delay + change)) for f in free]
                else:
                    ready = [max(f + one.delay, launch + max(0.0, one.floor + change)) for f in free]
            data = one.bytes / gpus
            if one.kernel:
                seconds = one.seconds / (gpus * speed)
                outcome.kernel_seconds += seconds * gpus
            elif one.way == NONE:
                seconds = one.seconds / (gpus * speed)
            else:
                seconds = _copy_seconds(one.seconds, one.bytes, slower) / gpus
                outcome.bytes += max(0.0, one.bytes) if data > 0 else 0.0
            resource = unit if one.kernel else (self.links[process, one.way] if one.way and self.links else None)
            if resource is None:
                free = [r + seconds for r in ready]
            elif gpus == 1:
                free = [(yield from self._hold(resource, ready[0], seconds))]
            else:
                parts = [self.env.process(self._part(resource, r, seconds)) for r in ready]
                yield self.env.all_of(parts)
                free = [float(p.value or 0.0) for p in parts]
            last = max(free)
            done[number] = last
            outcome.work += 1
            if self.waiting:
                self._wake("done", number)
        self._ended(max(free))

    def _part(self, resource: simpy.Resource, ready: float, seconds: float) -> Hold:
        return (yield from self._hold(resource, ready, seconds))


def replay(source: Program, scenario: Scenario = AS_TRACED) -> Outcome:
    """Replays a program on another machine."""
    return _Replay(source, scenario).run()


# --- the report's questions ----------------------------------------------------------------------------------------


def _inputs(source: Program, scenario: Scenario) -> dict[str, object]:
    found: dict[str, object] = {
        "traced (s)": source.traced_seconds, "calls": source.calls, "pieces of device work": len(source.work),
        "traced latency (s)": source.latency, "traced bandwidth (B/s)": source.bandwidth,
    }  # fmt: skip
    if source.meetings:
        found["messages and collectives"] = len(source.meetings)
        found["traced message latency (s)"] = source.message_latency
        found["traced message bandwidth (B/s)"] = source.message_bandwidth
    for name, value in vars(scenario).items():
        if value != getattr(AS_TRACED, name):
            found[name] = value
    return found


def duration(source: Program, scenario: Scenario) -> Result:
    """The replayed duration, with the range that follows from the range of the traced bandwidth."""
    value = replay(source, scenario).seconds
    equation = "discrete-event replay, report sections 4.4, 4.7"
    inputs = _inputs(source, scenario)
    if scenario.bandwidth is None or len(source.copies) < 2:
        return exact(METHOD, "duration", value, "s", inputs, equation)
    rates = link_bandwidth_range(source.copies)
    ends = [replay(replace(source, bandwidth=b), scenario).seconds for b in rates]
    low, high = min(value, *ends), max(value, *ends)
    return Result(METHOD, "duration", value, "s", low, high, inputs, equation, "95 % bootstrap of the traced bandwidth")


def benefits(source: Program, longest: float = 50 / 3, scenario: Scenario = AS_TRACED) -> list[Result]:
    """Benefit and penalty of section 5.6: durations alpha without latency, delta with the traced latency, and omega.

    The latency of omega is `longest` times that of delta.
    """
    require_positive(longest=longest)
    base = source.latency if scenario.latency is None else scenario.latency
    alpha, delta, omega = (
        replay(source, replace(scenario, latency=base * factor)).seconds for factor in (0.0, 1.0, longest)
    )
    require_positive(alpha=alpha)
    inputs = {**_inputs(source, scenario), "alpha (s)": alpha, "delta (s)": delta, "omega (s)": omega}
    return [
        exact(METHOD, "integration benefit, delta / alpha", delta / alpha, "x", inputs, "report section 5.6"),
        exact(METHOD, f"integration penalty, omega / delta (latency x{longest:.3g})", omega / delta, "x", inputs,
              "report section 5.6"),
    ]  # fmt: skip


def loose_and_tight(
    source: Program, gpus: Sequence[int], latencies: Sequence[float]
) -> list[tuple[int, float, float, float]]:
    """The durations of section 8.5, Figs. 50 to 52: (GPUs, latency, seconds loosely coupled, seconds tightly coupled).

    Loosely coupled GPUs share one link; each receives its own commands and a share of the work. Tightly coupled GPUs
    act as one GPU that is faster by their number.
    """
    rows = []
    for count in gpus:
        for latency in latencies:
            base = Scenario(latency=latency, commands_on_link=True, lanes=1)
            loose = replay(source, replace(base, gpus=count)).seconds
            rows.append((count, latency, loose, replay(source, replace(base, gpu_speed=float(count))).seconds))
    return rows


_POOL_PROGRAM: Program | None = None


def _pool_start(source: Program) -> None:
    global _POOL_PROGRAM
    _POOL_PROGRAM = source


def _pool_run(scenario: Scenario) -> float:
    assert _POOL_PROGRAM is not None
    return replay(_POOL_PROGRAM, scenario).seconds


def many(
    source: Program,
    scenarios: Sequence[Scenario],
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[float]:
    """Durations (s) under many scenarios, computed by `processes` processes (default: one per core).

    Calls `progress(done, all)` after each scenario.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(processes or cores, len(scenarios))
    seconds: list[float] = []

    def take(results: Iterator[float]) -> list[float]:
        for value in results:
            seconds.append(value)
            if progress is not None:
                progress(len(seconds), len(scenarios))
        return seconds

    # Starting processes costs about a second, which does not pay for small programs unless asked for.
    if processes is None and len(scenarios) * (source.calls + len(source.work)) < LITTLE:
        workers = 1
    if workers <= 1:
        return take(replay(source, s).seconds for s in scenarios)
    # "spawn", because a fork would copy an initialised MPI library.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _pool_start, (source,)) as pool:
        return take(pool.map(_pool_run, scenarios))


def surface(
    source: Program,
    latencies: Sequence[float] | NDArray[np.float64],
    bandwidths: Sequence[float] | NDArray[np.float64],
    scenario: Scenario = AS_TRACED,
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float64]:
    """Durations (s) over latencies and bandwidths, of shape (latencies, bandwidths): Figs. 19 to 22 of the report."""
    if not len(latencies) or not len(bandwidths):
        raise ModelError("the surface needs at least one latency and one bandwidth")
    scenarios = [replace(scenario, latency=float(a), bandwidth=float(b)) for a in latencies for b in bandwidths]
    found = many(source, scenarios, processes, progress)
    return np.array(found).reshape(len(latencies), len(bandwidths))


def closed_loop(calls: int, kernel_seconds: float, copy_bytes: float, bandwidth: float, latency: float) -> Program:
    """SSI's workload (section 5.6): a copy to the device followed by a kernel on the data, `calls` times in sequence.

    `latency` is the traced latency, which a scenario can replace.
    """
    require_positive(calls=calls, bandwidth=bandwidth)
    copy_seconds = copy_bytes / bandwidth
    work, thread = [], []
    for k in range(calls):
        work.append(Work(0, copy_seconds, True, True, latency, latency, copy_bytes, UP, kernel=False))
        work.append(Work(0, kernel_seconds, True, False, 0.0, 0.0))
        thread.append(Call(0.0, 0.0, (2 * k, 2 * k + 1), (0.0, 0.0), (2 * k + 1,)))
    total = calls * (latency + copy_seconds + kernel_seconds)
    return Program(
        (tuple(thread),), (0,), tuple(work), (tuple(range(2 * calls)),), (0,), total, latency, bandwidth,
        3 * calls,
    )  # fmt: skip


def propagation_penalty(benefit: float, current: float = 3.0, longest: float = 50.0) -> float:
    """The penalty that follows from a published benefit (sections 5.6, 7.6), by replaying SSI's closed loop.

    `benefit` is the duration at propagation setting `current` over that at setting 0; the penalty is the duration at
    `longest` over that at `current`. The report prints only the settings (0, 3, 50), so the cost of a call is derived
    from the benefit.
    """
    require_positive(benefit=benefit, current=current, longest=longest)
    if benefit < 1:
        raise ModelError(f"benefit is {benefit}, but must be at least 1: a shorter link cannot be slower")
    source = closed_loop(100, 1.0, 0.0, 1.0, benefit - 1.0)
    return benefits(source, longest / current)[1].value


def propagation_setting(benefit: float, penalty: float, longest: float = 50.0) -> float:
    """The current setting for which a published benefit and penalty agree; the inverse of `propagation_penalty`."""
    require_positive(benefit=benefit, penalty=penalty, longest=longest)
    if penalty * benefit <= 1:
        raise ModelError(
            f"benefit {benefit:g} and penalty {penalty:g} contradict each other: a longer link would be faster"
        )
    return longest * (benefit - 1) / (penalty * benefit - 1)


def latency_penalty(benefit: float, base: float, target: float, apart: float) -> float:
    """The penalty of latency `apart` over `base` (s), from the benefit of `target` over `base` (sections 5.5, 7.5).

    Replays a closed loop whose cost per call is derived from the benefit.
    """
    require_positive(benefit=benefit, base=base, target=target, apart=apart)
    share = (1 - 1 / benefit) / (1 - target / base)  # share of latency in the time at `base`
    if not 0 <= share < 1:
        raise ModelError(f"no share of latency in the run time gives a benefit of {benefit:g}")
    if share == 0:
        return 1.0
    source = closed_loop(100, base * (1 / share - 1), 0.0, 1.0, base)
    at = {latency: replay(source, Scenario(latency=latency)).seconds for latency in (base, apart)}
    return at[apart] / at[base]
