"""Discrete-event replay of a program on another machine.

Every thread and stream has a clock of its own and runs ahead until it needs another one. Only shared resources (links,
execution units) are served by SimPy in the order of simulated time.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np
import simpy

from weft.model.chain import Cause, Times, longest_chain
from weft.model.program import COLLECTIVE, COPY, DOWN, KERNEL, NONE, UP, Ints, Program, view
from weft.model.result import ModelError

Steps = Generator[simpy.Event, object, None]
Hold = Generator[simpy.Event, object, float]


@dataclass(frozen=True)
class Scenario:
    """A machine to replay on. Values that are None stay as traced."""

    latency: float | None = None  # s, from a launch to the start of its work on an idle stream
    bandwidth: float | None = None  # byte/s of the link, per direction
    lanes: int | None = None  # concurrent copies per direction of a process's link; None: unlimited
    gpus: int = 1  # loosely coupled GPUs, which share the device work and one link
    gpu_speed: float = 1.0  # relative to the traced GPU
    cpu_speed: float = 1.0  # relative to the traced CPU
    queue: int | None = None  # launches that a stream holds; a launch into a full stream blocks
    kernels_at_once: int | None = None  # concurrent kernels per process
    commands_on_link: bool = False  # launches occupy the link for their latency, like AgoChart's shared resource
    message_latency: float | None = None  # s, of messages and collectives between processes
    message_bandwidth: float | None = None  # byte/s, of messages between processes
    message_overhead: float = 0.0  # s per byte that a waiting process spends on its messages itself (O of LogGOPS)
    # The process to which latencies, bandwidths and speeds apply, including those of its messages; None: all processes.
    process: int | None = None

    def __post_init__(self) -> None:
        for name in ("latency", "message_latency", "message_overhead"):
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
    times: Times | None = field(default=None, repr=False, compare=False)


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
        work, calls = source.work, source.calls
        self.times = Times(
            view(np.where(work.launched, -1.0, 0.0)), view(np.full(len(work), -1.0)), view(np.full(len(work), -1.0)),
            view(np.full(len(calls), -1.0)), view(np.full(len(calls), -1.0)), bytearray(len(work)),
            [(0.0, -1)] * len(source.meetings),
        )  # fmt: skip
        self.arrived: dict[int, list[float]] = {}  # of each piece of work at each GPU, if commands occupy the link
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
        self.latency = source.latency if scenario.latency is None else scenario.latency
        self.slower = _slower(scenario.bandwidth, source.bandwidth)
        self.missing = [len(m.processes) for m in source.meetings]
        slower = _slower(scenario.message_bandwidth, source.message_bandwidth)
        later = 0.0 if scenario.message_latency is None else scenario.message_latency - source.message_latency
        self.overhead = scenario.message_overhead
        self.message = [m.latencies * later + slower * m.bytes for m in source.meetings]

        # Views give single elements as fast as lists, without copying the columns.
        self.gap, self.seconds, self.tail = view(calls.gap), view(calls.seconds), view(calls.tail)
        self.launch_first, self.launched = calls.launch_first.data, calls.launched.data
        self.wait_first, self.waited = calls.wait_first.data, calls.waited.data
        self.offset, self.room = view(calls.offset), self._room().data
        # Calls that do more than launch.
        special = np.diff(calls.wait_first) > 0
        for found in (calls.copies, calls.opens, calls.needs):
            special[list(found)] = True
        self.special = special.data

    def _room(self) -> Ints:
        """The work that must be done before a call has room in its queue; -1 if there is room anyway."""
        calls, work, queue = self.source.calls, self.source.work, self.scenario.queue
        behind = calls.entry - (calls.depth if queue is None else queue)
        room = np.full(len(calls), -1, dtype=np.int64)
        held = np.diff(work.queue_first)[calls.queue] if len(work.queue_first) > 1 else np.zeros(len(calls))
        full = np.flatnonzero((calls.entry >= 0) & (behind >= 0) & (behind < held))
        room[full] = work.last[work.queue_first[calls.queue[full]] + behind[full]]
        return room

    def run(self) -> Outcome:
        first = self.source.calls.first.tolist()
        for begin, end, process in zip(first[:-1], first[1:], self.source.thread_process, strict=True):
            self.env.process(self._thread(begin, end, process))
        first = self.source.work.first.tolist()
        for begin, end, process in zip(first[:-1], first[1:], self.source.stream_process, strict=True):
            stream = self.source.work.order[begin:end]
            if self.scenario.commands_on_link:
                self.env.process(self._dispatch(stream, process))
            self.env.process(self._stream(stream, process))
        self.env.run()
        work, calls = len(self.source.work), len(self.source.calls)
        if self.outcome.work < work:
            raise ModelError(
                f"{work - self.outcome.work} of {work} pieces of device work never start, because the trace's waits "
                "are circular"
            )
        if self.outcome.calls < calls:
            raise ModelError(
                f"{calls - self.outcome.calls} of {calls} calls never start, because the processes wait for each other "
                "in a cycle"
            )
        self.outcome.seconds += self.source.rest
        self.outcome.times = self.times
        return self.outcome

    # A thread, stream or dispatcher waits under (kind, number) for an event that another one has not reached yet.
    def _wait(self, kind: str, number: int) -> simpy.Event:
        event = self.env.event()
        self.waiting.setdefault((kind, number), []).append(event)
        return event

    def _wake(self, kind: str, number: int) -> None:
        for event in self.waiting.pop((kind, number), ()):
            event.succeed()

    def _ended(self, when: float, by: Cause) -> None:
        if when > self.outcome.seconds:
            self.outcome.seconds, self.times.ended = when, by

    def _come(self, meeting: int, when: float, call: int) -> None:
        """A call, or the work -1 - `call`, enters a meeting."""
        self.missing[meeting] -= 1
        self.times.arrived[meeting] = max(self.times.arrived[meeting], (when, call))
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

    def _thread(self, begin: int, end: int, process: int) -> Steps:
        gap, seconds, room, special = self.gap, self.seconds, self.room, self.special
        handed, done, waiting = self.times.handed, self.times.done, self.waiting
        began, returned, began_by = self.times.began, self.times.returned, self.times.began_by
        launch_first, launched, offset = self.launch_first, self.launched, self.offset
        hand_overs = self.source.calls.hand_overs
        mine = self._is_meant(process)
        cpu = self.scenario.cpu_speed if mine else 1.0
        now = 0.0
        for call in range(begin, end):
            now += gap[call] / cpu
            if call in hand_overs:
                by, lag = hand_overs[call]
                if returned[by] < 0:
                    yield self._wait("returned", by)
                if (then := returned[by] + lag / cpu) > now:
                    now, began_by[call] = then, ("call", by)
            if (full := room[call]) >= 0:
                if done[full] < 0:
                    yield self._wait("done", full)
                if (then := done[full]) > now:
                    now, began_by[call] = then, ("work", full)
            began[call] = now
            for k in range(launch_first[call], launch_first[call + 1]):
                number = launched[k]
                handed[number] = now + offset[k]
                if waiting:
                    self._wake("handed", number)
            if special[call]:
                now = yield from self._special(call, now, process, mine)
            else:
                now += seconds[call]
            returned[call] = now
            if waiting:
                self._wake("returned", call)
            self.outcome.calls += 1
        self._ended(now, ("call", end - 1))

    def _special(self, call: int, now: float, process: int, mine: bool) -> Hold:
        """The return of a call that waits, communicates or copies."""
        calls, done, seconds = self.source.calls, self.times.done, self.seconds[call]
        for number in calls.opens.get(call, ()):
            self._come(number, now, call)
        if call in calls.copies:
            size, way = calls.copies[call]
            self.outcome.bytes += size
        first, end = self.wait_first[call], self.wait_first[call + 1]
        needs = calls.needs.get(call, ())
        if first == end and not needs:
            if call not in calls.copies:
                return now + seconds
            seconds = _copy_seconds(seconds, size, self.slower if mine else 0.0)
            return (yield from self._hold(self.links[process, way], now, seconds)) if self.links else now + seconds
        last, tail = now + seconds, self.tail[call]
        for number in self.waited[first:end]:
            if done[number] < 0:
                yield self._wait("done", number)
            if (then := done[number] + tail) > last:
                last, self.times.returned_by[call] = then, ("work", number)
        if needs and self.overhead and mine:
            own = now + self.overhead * sum(self.source.meetings[number].bytes for number, _ in needs)
            if own > last:
                last = own
        for number, lag in needs:
            if self.missing[number]:
                yield self._wait("met", number)
            if mine or process in self.source.meetings[number].processes:
                lag = max(min(lag, 0.0), lag + self.message[number])
            if (then := self.times.arrived[number][0] + lag) > last:
                last, self.times.returned_by[call] = then, ("meeting", number)
        return last

    def _dispatch(self, stream: Ints, process: int) -> Steps:
        """Sends the commands of a stream to each GPU in turn; each occupies the link for its latency."""
        work = self.source.work
        latency = self.latency if self._is_meant(process) else self.source.latency
        for number in stream.tolist():
            if self.times.handed[number] < 0:
                yield self._wait("handed", number)
            extra = max(0.0, float(work.after_launch[number] - work.latency[number]))
            arrived = []
            for _ in range(self.scenario.gpus):
                ready = self.times.handed[number] + extra
                arrived.append((yield from self._hold(self.links[process, UP], ready, latency)))
            self.arrived[number] = arrived
            self._wake("arrived", number)

    def _stream(self, stream: Ints, process: int) -> Steps:
        work, times, scenario, outcome = self.source.work, self.times, self.scenario, self.outcome
        handed, done = times.handed, times.done
        gpus, speed, change, slower = scenario.gpus, scenario.gpu_speed, self.latency - self.source.latency, self.slower
        if not self._is_meant(process):
            speed, change, slower = 1.0, 0.0, 0.0
        unit, waiting, waits = self.units.get(process), self.waiting, work.waits
        rows = (work.after_work, work.after_launch, work.launched, work.seconds, work.bytes, work.way, work.kind)
        free = [0.0] * gpus  # end of the previous work on each GPU
        for number, lag, since, launched, seconds, size, way, kind in zip(
            stream.data, *(row[stream].data for row in rows), strict=True
        ):
            ready = [f + lag for f in free]
            if scenario.commands_on_link:
                if number not in self.arrived:
                    yield self._wait("arrived", number)
                launches = self.arrived.pop(number)
            else:
                if handed[number] < 0:
                    yield self._wait("handed", number)
                launches = [handed[number] + max(0.0, since + change)] * gpus if launched else ready
            if max(launches) > max(ready):
                times.by_launch[number] = 1
            ready = list(map(max, ready, launches))
            for other, later in waits.get(number, ()):
                if done[other] < 0:
                    yield self._wait("done", other)
                if (then := done[other] + later) > max(ready):
                    times.by_work[number] = other
                ready = [max(r, then) for r in ready]
            for meeting in work.opens.get(number, ()):
                self._come(meeting, max(ready), -1 - number)
            if number in work.needs:
                meeting, tail = work.needs[number]
                if self.missing[meeting]:
                    yield self._wait("met", meeting)
                tail = max(min(tail, 0.0), tail + (self.message[meeting] if self._is_meant(process) else 0.0))
                seconds = max(0.0, times.arrived[meeting][0] + tail - max(ready))
                times.met[number] = meeting
            if kind == COPY and way != NONE:
                seconds = _copy_seconds(seconds, size, slower) / gpus
                outcome.bytes += max(0.0, size)
            elif kind != COLLECTIVE:
                seconds /= gpus * speed
            if kind == KERNEL:
                outcome.kernel_seconds += seconds * gpus
            resource = unit if kind == KERNEL else (self.links[process, way] if way and self.links else None)
            if resource is None:
                free = [r + seconds for r in ready]
            elif gpus == 1:
                free = [(yield from self._hold(resource, ready[0], seconds))]
            else:
                parts = [self.env.process(self._part(resource, r, seconds)) for r in ready]
                yield self.env.all_of(parts)
                free = [float(p.value or 0.0) for p in parts]
            done[number] = end = max(free)
            times.started[number] = end - seconds
            outcome.work += 1
            if waiting:
                self._wake("done", number)
        self._ended(max(free), ("work", int(stream[-1])) if len(stream) else ("none", 0))

    def _part(self, resource: simpy.Resource, ready: float, seconds: float) -> Hold:
        return (yield from self._hold(resource, ready, seconds))


def replay(source: Program, scenario: Scenario = AS_TRACED) -> Outcome:
    """Replays a program on another machine."""
    return _Replay(source, scenario).run()


def chain(source: Program, outcome: Outcome) -> dict[str, float]:
    """The parts of the duration of a replay: seconds of the longest chain, which add up to the duration."""
    assert outcome.times is not None, "the outcome is that of a replay"
    parts = longest_chain(source, outcome.times, outcome.seconds - source.rest)
    return {**parts, "after the last call and work": source.rest}
