"""Waits in a traced run: calls wait for device work and for room in a queue, work for other streams, threads for
each other.

A trace rarely records waits. Those that follow from correlations and event ids (`Trace.requires`) are used; the others
are inferred from times: a waiting call is long, and continues within microseconds of the event that it waited for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.model.program import UNLIMITED, HandOver
from weft.traces.table import Category, Trace

Ints = NDArray[np.int64]

PROMPT = 20_000  # ns within which a waiting call continues after the event that it waited for
LONG = 5  # times the median of its kind: a call that takes longer may have waited
SHALLOWEST = 16  # launches; runtimes have queues of hundreds
ROOM = 0.05  # variation of the launches in a full queue, as a share of its depth: events take room, too
SILENCE = 50_000  # ns: threads that hand over to each other are silent for longer
MOST_STREAMS_WAITED = (
    64  # streams per process; with more, a device-wide wait covers only streams that were seen to be waited for
)

_POLL = re.compile(r"(cuda|cu|hip)(Event|Stream)Query")
_EVENT_WAIT = re.compile(r"(cuda|cu|hip)StreamWaitEvent")
_WHOLE_DEVICE = re.compile(r"devicesync|ctxsync|contextsync", re.IGNORECASE)


@dataclass(frozen=True)
class Scene:
    """The calls and the device work of a trace that are replayed, with their times in ns.

    Calls are numbered thread after thread, work k is the event device[k]. `caller` is the call that launched a piece of
    work, or -1, and `handed` the time at which it did so, or else the start of the work.
    """

    trace: Trace
    call: Ints  # event of each call; of a loop of polls, the last
    first: Ints  # of the calls of each thread
    begin: Ints
    finish: Ints
    device: Ints
    caller: Ints
    handed: Ints
    start: Ints
    end: Ints
    streams: Sequence[Ints]  # work of each stream, in order
    stream_process: Sequence[int]
    polls: NDArray[np.bool_]  # whether a call is a loop of polls
    last_poll: Ints  # begin of the last but one poll of a loop

    @cached_property
    def number(self) -> Ints:
        """The number of the call of each event of the trace, or -1."""
        return _inverse(self.call, len(self.trace))

    @cached_property
    def place(self) -> Ints:
        """The number of the work of each event of the trace, or -1."""
        return _inverse(self.device, len(self.trace))

    @cached_property
    def before(self) -> Ints:
        """The end of the previous work on the stream of each piece of work, or 0."""
        found = np.zeros(len(self.device), dtype=np.int64)
        for index in self.streams:
            found[index[1:]] = self.end[index[:-1]]
        return found

    @cached_property
    def process(self) -> Ints:
        """The process of each call."""
        return self.trace.process[self.call].astype(np.int64)

    @cached_property
    def thread(self) -> Ints:
        """The thread of each call."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @cached_property
    def category(self) -> NDArray[np.int8]:
        """The category of each call."""
        return self.trace.category[self.call]

    def named(self, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
        """Mask of the calls whose name begins with a pattern."""
        return matching(self.trace, pattern)[self.trace.name[self.call]]


@dataclass
class Pairs:
    """Pairs of a call and device work that it waits for."""

    calls: list[Ints] = field(default_factory=list)
    work: list[Ints] = field(default_factory=list)

    def add(self, calls: Iterable[int] | Ints, work: Iterable[int] | Ints) -> None:
        self.calls.append(np.asarray(calls, dtype=np.int64))
        self.work.append(np.asarray(work, dtype=np.int64))

    def arrays(self) -> tuple[Ints, Ints]:
        """The distinct pairs, in the order of their calls."""
        none = [np.zeros(0, dtype=np.int64)]
        pairs = np.stack([np.concatenate(self.calls + none), np.concatenate(self.work + none)])
        calls, work = np.unique(pairs, axis=1)
        return calls, work


def _inverse(events: Ints, count: int) -> Ints:
    found = np.full(count, -1, dtype=np.int64)
    found[events] = np.arange(len(events))
    return found


def matching(trace: Trace, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    """Mask of the names of a trace that contain a pattern."""
    return np.array([pattern.search(n) is not None for n in trace.names], dtype=bool)


def polls(trace: Trace, thread: Ints) -> tuple[Ints, Ints, Ints]:
    """The calls of a thread, each loop of polls as one: the last event of each call, the first, and the last but one.

    A poll asks for the state of an event or a stream and changes nothing.
    """
    poll = matching(trace, _POLL)[trace.name[thread]]
    follows = np.zeros(len(thread), dtype=bool)
    follows[1:] = poll[1:] & poll[:-1] & (trace.name[thread[1:]] == trace.name[thread[:-1]])
    begins = np.flatnonzero(~follows)
    ends = np.append(begins[1:], len(thread)) - 1
    return thread[ends], thread[begins], thread[np.maximum(ends - 1, begins)]


# --- calls that wait for the device --------------------------------------------------------------------------------


def device_waits(scene: Scene, notes: list[str]) -> tuple[Ints, Ints]:
    """The pairs (call, work) in which the call does not return before the work is done."""
    pairs = Pairs()
    syncs = np.flatnonzero(scene.category == Category.sync)
    known = _required(scene, pairs)
    _by_times(scene, syncs[~known[syncs]], pairs)
    _own_copies(scene, pairs)
    _polled(scene, pairs)
    _implied(scene, pairs)
    calls, work = pairs.arrays()
    last = np.zeros(len(scene.call), dtype=np.int64)
    np.maximum.at(last, calls, scene.end[work])
    unresolved = syncs[(last <= scene.begin)[syncs] & (scene.finish - scene.begin > PROMPT)[syncs]]
    if len(unresolved):
        share = (scene.finish - scene.begin)[unresolved].sum() / max(1, scene.trace.span)
        notes.append(
            f"{len(unresolved)} of {len(syncs)} waiting calls wait for something that the trace does not show "
            f"({share:.1%} of its span); they keep their traced time"
        )
    return calls, work


def _required(scene: Scene, pairs: Pairs) -> NDArray[np.bool_]:
    """Adds waits that the file gives by event ids and correlations. Returns the mask of the calls this explains."""
    known = np.zeros(len(scene.call), dtype=bool)
    if scene.trace.requires is None or not len(scene.trace.requires):
        return known
    call, work = scene.number[scene.trace.requires[:, 0]], scene.place[scene.trace.requires[:, 1]]
    sure = (call >= 0) & (work >= 0)
    call, work = call[sure], work[sure]
    sure = scene.end[work] <= scene.finish[call]
    call, work = call[sure], work[sure]
    pairs.add(call, work)
    # A call that continues long after all this work is done waits for something else, too.
    last = np.full(len(scene.call), -1, dtype=np.int64)
    np.maximum.at(last, call, scene.end[work])
    known[call] = True
    return known & (scene.finish - np.maximum(last, scene.begin) <= PROMPT)


def _by_times(scene: Scene, syncs: Ints, pairs: Pairs) -> None:
    """Infers the work that calls wait for from times.

    This is, on each stream, the last work launched before the call and done at its return, if it ended during the call.
    A call that waits for the whole device, or whose process has one stream, waits in any case, because a slower device
    would make it wait.
    """
    whole = scene.named(_WHOLE_DEVICE)
    process = scene.process
    several = len(np.unique(process)) > 1
    for of in sorted(set(scene.stream_process)):
        mine = [s for s, p in zip(scene.streams, scene.stream_process, strict=True) if p == of]
        here = syncs[process[syncs] == of] if several else syncs
        everything = (whole[here] | (len(mine) == 1)) & (len(mine) <= MOST_STREAMS_WAITED)
        for index in mine:
            launched = np.maximum.accumulate(scene.handed[index])
            done = np.searchsorted(scene.end[index], scene.finish[here], side="right")
            last = np.minimum(done, np.searchsorted(launched, scene.begin[here], side="right")) - 1
            ended_inside = scene.end[index[np.maximum(last, 0)]] > scene.begin[here]
            take = (last >= 0) & (ended_inside | everything)
            pairs.add(here[take], index[last[take]])


def _own_copies(scene: Scene, pairs: Pairs) -> None:
    """Adds copies that were done when the call that made them returned: blocking ones, and those of pageable memory."""
    work = np.flatnonzero(scene.caller >= 0)
    copies = scene.trace.category[scene.device[work]] == Category.copy
    work = work[copies | (scene.category[scene.caller[work]] == Category.copy)]
    work = work[scene.end[work] <= scene.finish[scene.caller[work]]]
    pairs.add(scene.caller[work], work)


def _polled(scene: Scene, pairs: Pairs) -> None:
    """Adds, for each loop of polls, the work that ended between its last two polls, so that the loop ended."""
    for process in sorted(set(scene.stream_process)):
        ends, work = _ends(scene, process)
        loops = np.flatnonzero(scene.polls & (scene.process == process))
        last = np.searchsorted(ends, scene.finish[loops], side="right") - 1
        loops, last = loops[last >= 0], last[last >= 0]
        take = (ends[last] > scene.last_poll[loops]) & (scene.handed[work[last]] <= scene.begin[loops])
        pairs.add(loops[take], work[last[take]])


def _implied(scene: Scene, pairs: Pairs) -> None:
    """Adds the last work of the device for calls, such as cudaFree, that wait for the device without being named so.

    These are long calls that launch nothing, and return promptly after the device has become idle.
    """
    launches = np.zeros(len(scene.call), dtype=bool)
    launches[scene.caller[scene.caller >= 0]] = True
    seconds = scene.finish - scene.begin
    long = (scene.category == Category.launch) & ~launches & ~scene.polls & (seconds > 2 * PROMPT)
    for process in sorted(set(scene.stream_process)):
        ends, work = _ends(scene, process)
        launched = np.sort(scene.handed[work])
        calls = np.flatnonzero(long & (scene.process == process))
        done = np.searchsorted(ends, scene.finish[calls], side="right")
        idle = done >= np.searchsorted(launched, scene.finish[calls], side="left")
        take = idle & (done > 0)
        calls, last = calls[take], done[take] - 1
        prompt = (scene.finish[calls] - ends[last] <= PROMPT) & (ends[last] > scene.begin[calls])
        pairs.add(calls[prompt], work[last[prompt]])


def _ends(scene: Scene, process: int) -> tuple[Ints, Ints]:
    """The ends of the work of a process in ascending order, and the work that ends then."""
    mine = [s for s, p in zip(scene.streams, scene.stream_process, strict=True) if p == process]
    work = np.concatenate(mine)
    work = work[np.argsort(scene.end[work], kind="stable")]
    return scene.end[work], work


# --- launches into a full queue ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Queues:
    """The number of launches that the queue of a stream holds before a call blocks.

    Per call: `depth`, `queue` (its stream) and `entry` as in `program.Calls`, and `room`, the work that made room for a
    call that blocked, or -1. `depths` has the depth of each stream that was seen full.
    """

    depth: Ints
    queue: Ints
    entry: Ints
    room: Ints
    depths: dict[int, int]


def full_queues(scene: Scene, queue_first: Ints, last: Ints, queue: Ints, entry: Ints) -> Queues:
    """The depth of each queue, found from the calls that took long while it was full.

    A queue is full when the launches in it that are not done are about as many as there ever are. Its depth is believed
    if at least three calls took long then, and if they took most of the time of all long calls that launch into it. A
    call that blocked returned when the last work done by then had made room. As events and copies also take room, each
    such call has its own depth. All others have the largest number that was seen when a call did not block.
    """
    queue, entry = queue.copy(), entry.copy()
    depth = np.full(len(scene.call), UNLIMITED, dtype=np.int64)
    room = np.full(len(scene.call), -1, dtype=np.int64)
    depths: dict[int, int] = {}
    seconds = scene.finish - scene.begin
    recent = _next_entry(scene, queue, entry)
    late = _launch_after_the_end(scene, entry)
    queue[late], entry[late] = recent[0][late], recent[1][late] + _counts(scene.thread[late])
    launching = np.flatnonzero(entry >= 0)
    launching = launching[np.argsort(queue[launching], kind="stable")]
    bounds = np.searchsorted(queue[launching], np.arange(len(queue_first)))
    for s in range(len(queue_first) - 1):
        mine = last[queue_first[s] : queue_first[s + 1]]
        calls = launching[bounds[s] : bounds[s + 1]]
        if len(calls) < SHALLOWEST:
            continue
        ends = np.maximum.accumulate(scene.end[mine])
        left = entry[calls] + 1 - np.searchsorted(ends, scene.finish[calls], side="right")  # when the call returns
        deepest = int(left.max())
        nearly = deepest - max(2, int(ROOM * deepest))
        near = left >= nearly
        usual = float(np.median(seconds[calls[~near]])) if (~near).any() else 0.0
        long = seconds[calls] > max(PROMPT, LONG * usual)
        if deepest < SHALLOWEST or (long & near).sum() < 3:
            continue
        if 2 * seconds[calls[long & near]].sum() < seconds[calls[long]].sum():
            continue
        blocked = near & (seconds[calls] > 2 * usual)
        # Calls that launch nothing, such as records of events, take room in the queue last launched into.
        others = np.flatnonzero((recent[0] == s) & (entry < 0) & (scene.category == Category.launch))
        others = others[seconds[others] > PROMPT]
        left = recent[1][others] + 1 - np.searchsorted(ends, scene.finish[others], side="right")
        others = others[left >= nearly]
        queue[others] = s
        entry[others] = recent[1][others]
        waiting = np.concatenate([calls[blocked], others])
        done = np.searchsorted(ends, scene.finish[waiting], side="right") - 1
        waiting, done = waiting[done >= 0], done[done >= 0]
        waiting, done = (a[ends[done] > scene.begin[waiting]] for a in (waiting, done))
        depth[waiting] = np.maximum(1, entry[waiting] - done)
        room[waiting] = mine[entry[waiting] - depth[waiting]]
        free = np.setdiff1d(calls, waiting)
        seen = entry[free] + 1 - np.searchsorted(ends, scene.begin[free], side="right")
        depths[s] = int(max(depth[waiting].max(initial=1), seen.max(initial=1)))
        depth[free] = depths[s]
    return Queues(depth, queue, entry, room, depths)


def _launch_after_the_end(scene: Scene, entry: Ints) -> Ints:
    """The last calls of each thread that launch work which is missing because the trace ends before it starts."""
    launching = np.zeros(len(scene.trace.names), dtype=bool)
    name = scene.trace.name[scene.call]
    launching[name[entry >= 0]] = True
    number = np.arange(len(entry))
    last = np.full(len(scene.first) - 1, len(entry))  # no call comes after it if a thread launches nothing
    last[np.unique(scene.thread[entry >= 0])] = -1
    np.maximum.at(last, scene.thread[entry >= 0], number[entry >= 0])
    return np.flatnonzero((entry < 0) & launching[name] & (number > last[scene.thread]))


def _counts(groups: Ints) -> Ints:
    """How many equal values precede each value; equal values must be adjacent."""
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.arange(len(groups)) - np.repeat(first, np.diff(np.append(first, len(groups))))


def _next_entry(scene: Scene, queue: Ints, entry: Ints) -> tuple[Ints, Ints]:
    """For each call, the queue that its thread last launched into, and the number of launches into it so far; or -1."""
    number = np.arange(len(entry))
    latest = np.maximum.accumulate(np.where(entry >= 0, number, -1))
    latest[latest < scene.first[scene.thread]] = -1
    seen = latest >= 0
    return np.where(seen, queue[latest], -1), np.where(seen, entry[latest] + 1, -1)


# --- work that waits for work of other streams ---------------------------------------------------------------------


def event_waits(scene: Scene, latency: int, notes: list[str]) -> dict[int, list[int]]:
    """The work for which each piece of work that was made to wait for other streams waits.

    Without event ids, work that starts promptly after the end of work on another stream waited for it, if neither its
    launch nor the work before it on its stream explains the start. Candidates are the next work that a thread launches
    after it made a stream wait, and work that started long after its launch. Any other wait is taken to be one of the
    next work that its thread launches for the most recent launch into another stream, because a program records an
    event just before it waits for it, unless the times contradict this.
    """
    found: dict[int, list[int]] = {}
    waits = np.flatnonzero(matching(scene.trace, _EVENT_WAIT)[scene.trace.name] & ~scene.trace.on_stream())
    if scene.trace.requires is not None and len(scene.trace.requires):
        work, source = scene.place[scene.trace.requires].T
        sure = (work >= 0) & (source >= 0)
        sure[sure] &= scene.end[source[sure]] <= scene.start[work[sure]]
        _put(found, work[sure], source[sure])
    if not len(waits):
        return found
    outcomes = [(min(len(found), len(waits)), "resolved by event ids")]
    if not found:
        target = _next_work(scene, waits)
        linked = np.flatnonzero(scene.caller >= 0)
        explained = np.maximum(scene.before, scene.handed + latency)
        stalled = linked[(scene.start - explained)[linked] > SILENCE]
        work = np.union1d(target[target >= 0], stalled)
        source = _latest(scene, work, scene.handed[work], scene.start[work])
        seen = (source >= 0) & (scene.end[source] > explained[work]) & (scene.start[work] - scene.end[source] <= PROMPT)
        _put(found, work[seen], source[seen])
        by_times = np.isin(target, work[seen])
        left = np.flatnonzero((target >= 0) & ~by_times)
        recent = _latest(scene, target[left], scene.trace.start[waits[left]])
        agrees = (recent >= 0) & (scene.end[recent] <= scene.start[target[left]])
        _put(found, target[left[agrees]], recent[agrees])
        outcomes += [
            (int(by_times.sum()), "resolved by times"),
            (int(agrees.sum()), "resolved by the order of launches"),
            (int((target < 0).sum() + (recent < 0).sum()), "without work of another stream in the trace"),
        ]
        more = int((~np.isin(work[seen], target)).sum())
        if more:
            notes.append(
                f"{more} further pieces of work started when work on another stream had ended, and wait for it"
            )
    outcomes.append((len(waits) - sum(n for n, _ in outcomes), "unresolved and not replayed"))
    notes.append(f"{len(waits)} waits of streams for events: {', '.join(f'{n} {how}' for n, how in outcomes if n)}")
    return found


def _put(found: dict[int, list[int]], work: Ints, source: Ints) -> None:
    for k, other in zip(work.tolist(), source.tolist(), strict=True):
        others = found.setdefault(k, [])
        if other not in others:
            others.append(other)


def _next_work(scene: Scene, waits: Ints) -> Ints:
    """The next work that the thread of each wait launches; -1 if there is none."""
    trace, found = scene.trace, np.full(len(waits), -1, dtype=np.int64)
    linked = np.flatnonzero(scene.caller >= 0)
    linked = linked[np.argsort(scene.handed[linked], kind="stable")]
    line = trace.line[scene.call[scene.caller[linked]]]
    for of in np.unique(trace.line[waits]):
        mine, here = linked[line == of], np.flatnonzero(trace.line[waits] == of)
        place = np.searchsorted(scene.handed[mine], trace.end[waits[here]], side="left")
        inside = place < len(mine)
        found[here[inside]] = mine[place[inside]]
    return found


def _latest(scene: Scene, work: Ints, since: Ints, until: Ints | None = None) -> Ints:
    """For each piece of work, the last work that was launched on another stream of its process by the time `since`.

    With `until`, it must have ended by then, and the one that ended last is taken. -1 if there is none.
    """
    found, latest = np.full(len(work), -1, dtype=np.int64), np.full(len(work), -1, dtype=np.int64)
    own, process = scene.trace.line[scene.device[work]], scene.trace.process[scene.device[work]]
    for of, index in zip(scene.stream_process, scene.streams, strict=True):
        others = np.flatnonzero((process == of) & (own != scene.trace.line[scene.device[index[0]]]))
        last = np.searchsorted(np.maximum.accumulate(scene.handed[index]), since[others], side="right")
        if until is not None:
            last = np.minimum(last, np.searchsorted(scene.end[index], until[others], side="right"))
        others, candidate = others[last > 0], index[last[last > 0] - 1]
        time = scene.handed[candidate] if until is None else scene.end[candidate]
        later = time > latest[others]
        found[others[later]], latest[others[later]] = candidate[later], time[later]
    return found


# --- threads that wait for each other ------------------------------------------------------------------------------


def hand_overs(scene: Scene) -> dict[int, tuple[HandOver, int]]:
    """The calls that began because another thread of the process had finished.

    Each comes with the time (ns) that its thread worked meanwhile. One thread hands over to another if both are silent
    for long: the second until shortly after the last call of the first, and the first from then on. An example is
    PyTorch, whose main thread waits for the thread of backward passes.
    """
    found: dict[int, tuple[HandOver, int]] = {}
    thread, never = scene.thread, np.iinfo(np.int64).max // 2
    heads = np.isin(np.arange(len(thread)), scene.first[:-1])
    before = np.where(heads, 0, np.roll(scene.finish, 1))  # return of the previous call on the thread
    resumes = np.where(np.roll(heads, -1), never, np.roll(scene.begin, -1))  # begin of the next one
    for process in np.unique(scene.process):
        calls = np.flatnonzero(scene.process == process)
        if len(np.unique(thread[calls])) < 2:
            continue
        ended = calls[np.argsort(scene.finish[calls], kind="stable")]
        last = np.searchsorted(scene.finish[ended], scene.begin[calls], side="right") - 1
        calls, by = calls[last >= 0], ended[last[last >= 0]]
        lag = scene.begin[calls] - scene.finish[by]
        silence = np.minimum(scene.begin[calls] - before[calls], resumes[by] - scene.finish[by])
        take = (thread[by] != thread[calls]) & (scene.begin[by] < scene.begin[calls])
        take &= (scene.finish[by] > before[calls]) & (resumes[by] > scene.begin[calls])
        take &= silence >= np.maximum(SILENCE, 4 * lag)
        for call, other, late in zip(*(a[take].tolist() for a in (calls, by, lag)), strict=True):
            worked = _worked(scene, call, int(before[call]), int(scene.finish[other]))
            found[call] = HandOver(other, late * 1e-9), worked
    return found


def _worked(scene: Scene, call: int, begin: int, end: int) -> int:
    """The time (ns) that operators of a call's thread took that began and ended between two times."""
    trace, line = scene.trace, scene.trace.line[scene.call[call]]
    low, high = np.searchsorted(trace.start, [begin, end])
    inside = np.arange(low, high)
    inside = inside[(trace.line[inside] == line) & (trace.category[inside] == Category.cpu)]
    inside = inside[trace.end[inside] <= end]
    reach = np.maximum.accumulate(np.concatenate([[begin], trace.end[inside]]))
    return int(np.maximum(0, trace.end[inside] - np.maximum(reach[:-1], trace.start[inside])).sum())
