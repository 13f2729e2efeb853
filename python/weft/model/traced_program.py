"""Converts a trace to a program to replay: its calls and device work, the times between them, and their waits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from weft.model import waits
from weft.model.meetings import Meetings, MessagePath, find_meetings
from weft.model.program import (
    COLLECTIVE,
    COPY,
    DOWN,
    KERNEL,
    NONE,
    UP,
    Calls,
    DeviceWork,
    HandOver,
    Ints,
    Program,
    offsets_of,
    queues,
)
from weft.model.rate import link_bandwidth
from weft.model.result import ModelError
from weft.traces import messages
from weft.traces.table import Category, Trace, distinct


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


def program(trace: Trace, path: MessagePath | None = None) -> Program:
    """Makes a program of a trace. ``path``: latency and rate of the messages between processes, if measured.

    Raises ValueError if events overlap on a stream, if the clocks of host and device disagree, or if the trace has
    nothing to replay.
    """
    trace.validate()
    first_start = int(trace.start.min())
    if first_start:  # a window of a trace keeps the clock of the whole
        trace = replace(trace, start=trace.start - first_start, end=trace.end - first_start)
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
    launcher = _launchers(trace, device, acting, notes)
    acting = _without_idle_threads(trace, acting, launcher, notes)

    # Calls: on each thread, the outermost ones; what an inner call launches counts as launched by the outer one.
    owner = np.full(len(trace), -1, dtype=np.int64)  # call of an event, by number
    rows: list[tuple[Ints, Ints, Ints]] = []
    counted = 0
    for line in np.unique(trace.line[acting]):
        index = np.flatnonzero(acting & (trace.line == line))
        outer = messages.outermost(trace, index)
        rows.append(waits.polls(trace, outer))
        place = np.searchsorted(outer, index, side="right") - 1
        owner[index] = counted + np.searchsorted(rows[-1][0], outer[place], side="left")
        counted += len(rows[-1][0])
    last, first_poll, next_to_last = (
        np.concatenate([row[k] for row in rows] + [np.zeros(0, np.int64)]) for k in range(3)
    )
    first = offsets_of([len(row[0]) for row in rows])
    lines, stream = np.unique(trace.line[device], return_inverse=True)
    order = np.lexsort((np.arange(len(device)), stream))
    stream_first = offsets_of(np.bincount(stream, minlength=len(lines)))
    linked = launcher >= 0
    caller = np.where(linked, owner[launcher], -1)
    start, end = trace.start[device], trace.end[device]
    streams = [order[a:b] for a, b in pairwise(stream_first)]
    handed = start.copy()
    handed[linked] = trace.start[launcher[linked]]
    for index in streams:
        # Work without a launch in the trace was launched before that behind it on its stream. Before the first launch
        # into a stream, that was before the trace began.
        handed[index] = np.minimum.accumulate(handed[index][::-1])[::-1]
        handed[index[: np.argmax(linked[index])]] = 0
    scene = waits.Scene(
        trace, last, first, trace.start[first_poll], trace.end[last], device, caller,
        handed, start, end, streams,
        [trace.lines[i].process for i in lines], last != first_poll, trace.start[next_to_last],
    )  # fmt: skip

    queue_first, last_work, queue, entry = queues(stream_first, order, caller, len(last))
    full = waits.full_queues(scene, queue_first, last_work, queue, entry)
    launched = _launched(scene, full.room)
    collectives = device[trace.category[device] == Category.mpi]
    met = find_meetings(trace, [last[a:b] for a, b in pairwise(first)], kinds, collectives, path)
    work, latency = _work(scene, launched, stream, stream_first, order, ways, queue_first, last_work, met, notes)
    calls = _calls(scene, launched, full, met, ways, notes)
    if full.depths:
        held = ", ".join(str(d) for d in sorted(set(full.depths.values())))
        notes.append(f"{int((full.room >= 0).sum())} calls blocked on a full launch queue ({held} launches)")
    if met.notes:
        notes += met.notes
    relevant = np.concatenate([device, last])
    if len(trace) > len(relevant):
        notes.append(
            f"{len(trace) - len(relevant)} of {len(trace)} events are ranges or inner calls; their time counts as that "
            "of the outer call or as a gap between calls"
        )
    rest = int(trace.end.max() - trace.end[relevant].max()) * 1e-9
    if rest > 0.001 * trace.span * 1e-9:
        notes.append(f"the last {rest:.3g} s of the trace, after the last call and work, are kept as they are")
    names = [trace.lines[trace.line[last[k]]].label for k in first[:-1]]
    found = Program(
        calls, tuple(int(trace.process[last[k]]) for k in first[:-1]), tuple(names), work,
        tuple(scene.stream_process), tuple(trace.lines[i].label for i in lines), int(trace.end.max()) * 1e-9, latency,
        np.inf, len(trace), tuple(notes), tuple(met.meetings), met.latency, met.bandwidth, rest,
    )  # fmt: skip
    return replace(found, bandwidth=link_bandwidth(found.copies))


def _launchers(trace: Trace, device: Ints, acting: NDArray[np.bool_], notes: list[str]) -> Ints:
    """The event of the call that launched each piece of device work; -1 if the trace does not say."""
    hosts = np.flatnonzero(acting & (trace.correlation >= 0))
    found = np.full(len(device), -1, dtype=np.int64)
    if not len(hosts):
        return found
    wanted = trace.correlation[device]

    def look(keys: Ints, of: Ints) -> Ints:
        order = np.argsort(keys, kind="stable")
        place = np.clip(np.searchsorted(keys[order], of), 0, len(keys) - 1)
        return np.where(keys[order][place] == of, hosts[order][place], -1)

    # Correlations belong to a process. Files that number the processes of devices differently are matched without it.
    spread = int(trace.correlation.max()) + 1
    process = np.unique(trace.process, return_inverse=True)[1].astype(np.int64)
    found = look(process[hosts] * spread + trace.correlation[hosts], process[device] * spread + wanted)
    if len(distinct(trace.correlation[hosts])) == len(hosts):
        found = np.where(found < 0, look(trace.correlation[hosts], wanted), found)
    found[wanted < 0] = -1
    early = (found >= 0) & (trace.start[device] < trace.start[found])
    if early.any():
        if early.sum() > 0.01 * len(device):
            raise ModelError(
                f"{trace.path}: {int(early.sum())} of {len(device)} pieces of device work start before the call that "
                "launched them: the clocks of host and device disagree"
            )
        notes.append(f"{int(early.sum())} pieces of device work start before their launch, which is therefore ignored")
        found[early] = -1
    return found


def _without_idle_threads(
    trace: Trace, acting: NDArray[np.bool_], launcher: Ints, notes: list[str]
) -> NDArray[np.bool_]:
    """The acting events without those of threads that only poll.

    Such threads launch nothing, wait for nothing and send nothing, while other threads of their process launch. An
    example is a watchdog that polls events until the end.
    """
    acts = acting & ~trace.of(Category.launch)
    acts[launcher[launcher >= 0]] = True
    busy, launching = np.unique(trace.line[acts]), np.unique(trace.process[launcher[launcher >= 0]])
    idle = acting & ~np.isin(trace.line, busy) & np.isin(trace.process, launching)
    if idle.any():
        labels = ", ".join(trace.lines[i].label for i in np.unique(trace.line[idle])[:3].tolist())
        notes.append(f"threads that only poll are not replayed: {labels} ({int(idle.sum())} calls)")
    return acting & ~idle


def _launched(scene: waits.Scene, room: Ints) -> Ints:
    """The time (ns) at which each piece of work was launched; a call that blocked launched it when there was room."""
    launched = scene.handed.copy()
    linked = np.flatnonzero(scene.caller >= 0)
    blocked = linked[room[scene.caller[linked]] >= 0]
    freed = scene.end[room[scene.caller[blocked]]]
    launched[blocked] = np.minimum(np.maximum(launched[blocked], freed), scene.start[blocked])
    return launched


def _work(
    scene: waits.Scene,
    handed: Ints,
    stream: Ints,
    first: Ints,
    order: Ints,
    ways: NDArray[np.int8],
    queue_first: Ints,
    last: Ints,
    met: Meetings,
    notes: list[str],
) -> tuple[DeviceWork, float]:
    trace, device = scene.trace, scene.device
    begin, finish, linked = scene.start * 1e-9, scene.end * 1e-9, scene.caller >= 0
    launched = np.where(linked, handed, 0) * 1e-9
    before = scene.before * 1e-9
    since_launch, since_work = begin - launched, np.maximum(0.0, begin - before)
    idle = linked & (before <= launched)
    latency = float(np.quantile(since_launch[idle], 0.05)) if idle.any() else 0.0
    bound = linked & (before <= launched + latency)
    floor = np.where(linked, np.minimum(since_launch, latency), 0.0)
    after_launch = np.where(bound, since_launch, floor)
    after_work = np.where(bound, 0.0, since_work)
    held: dict[int, tuple[tuple[int, float], ...]] = {}
    explained = np.maximum(before, np.where(linked, launched + latency, 0.0))
    for k, others in waits.event_waits(scene, round(latency * 1e9), notes).items():
        ended = max(finish[o] for o in others)
        lag = 0.0
        if ended > explained[k]:
            lag, after_work[k], after_launch[k], explained[k] = begin[k] - ended, 0.0, floor[k], ended
        held[k] = tuple((o, lag if finish[o] == ended else 0.0) for o in others)
    stalled = linked & (begin - explained > waits.SILENCE * 1e-9)
    lost = float((begin - explained)[stalled].sum())
    if lost > 0.01 * trace.span * 1e-9:
        notes.append(
            f"{int(stalled.sum())} pieces of device work start {lost:.3g} s in all later than launches, streams and "
            "waits in the trace explain; these times are kept"
        )
    if len(device) and not linked.any():
        notes.append("no piece of device work has a launch in the trace: the times between them are kept")
    category = trace.category[device]
    copy = category == Category.copy
    kind = np.select([copy, category == Category.mpi], [COPY, COLLECTIVE], KERNEL).astype(np.int8)
    opens = {k: met.opens[e] for k, e in enumerate(device.tolist()) if e in met.opens}
    needs = {k: met.needs[device[k]][0] for k in opens if int(device[k]) in met.needs}
    seconds = finish - begin
    seconds[list(needs)] = 0.0  # these end by their meeting
    lone = (kind == COLLECTIVE) & ~np.isin(np.arange(len(kind)), list(opens))
    if lone.any():
        share = (finish - begin)[lone].sum() / max(1e-9, trace.span * 1e-9)
        notes.append(f"collectives on streams ({share:.0%} of the span) keep their traced time on faster GPUs")
    return DeviceWork(
        first, order, stream.astype(np.int64), seconds, linked, after_work, after_launch, floor,
        trace.bytes[device].astype(float), np.where(copy, ways[trace.name[device]], NONE).astype(np.int8), kind,
        queue_first, last, held, opens, needs,
    ), latency  # fmt: skip


def _calls(
    scene: waits.Scene, launched: Ints, full: waits.Queues, met: Meetings, ways: NDArray[np.int8], notes: list[str]
) -> Calls:
    trace, begin, finish = scene.trace, scene.begin * 1e-9, scene.finish * 1e-9
    count = len(begin)
    gap = np.maximum(0.0, begin - np.concatenate([[0.0], finish[:-1]])) if count else np.zeros(0)
    heads = scene.first[:-1]
    gap[heads] = begin[heads]
    hand_overs: dict[int, HandOver] = {}
    for call, (by, worked) in waits.hand_overs(scene).items():
        hand_overs[call], gap[call] = by, worked * 1e-9
    if hand_overs:
        notes.append(f"{len(hand_overs)} calls begin when another thread of their process has handed over to theirs")
    waiting, waited = waits.device_waits(scene, notes)

    # A call that waited for device work, for room or for another process spent only the time after that itself.
    seconds, tail = finish - begin, np.zeros(count)
    host = ~trace.on_stream()
    for event, found in met.tails.items():
        if not host[event]:
            continue
        call = int(scene.number[event])
        seconds[call] = min(seconds[call], max(0.0, found))
    done = np.full(count, -np.inf)
    np.maximum.at(done, waiting, scene.end[waited] * 1e-9)
    late = done > begin
    tail[late] = np.maximum(0.0, finish - done)[late]
    seconds[late] = np.minimum(seconds, tail)[late]
    freed = np.flatnonzero(full.room >= 0)
    ready = begin.copy()  # when a call that blocked had room
    ready[freed] = np.maximum(begin[freed], scene.end[full.room[freed]] * 1e-9)
    seconds[freed] = np.minimum(seconds, finish - ready)[freed]

    launching = np.flatnonzero(scene.caller >= 0)
    launching = launching[np.argsort(scene.caller[launching], kind="stable")]
    caller = scene.caller[launching]
    offset = np.maximum(0.0, launched[launching] * 1e-9 - ready[caller])
    launches = np.bincount(caller, minlength=count)
    copies = (scene.category == Category.copy) & (trace.bytes[scene.call] > 0) & (launches == 0)
    way = np.where(copies, ways[trace.name[scene.call]], NONE)
    numbers = np.flatnonzero(way != NONE).tolist()
    meetings = [(int(scene.number[e]), e) for e in {*met.opens, *met.needs} if host[e]]
    return Calls(
        scene.first, gap, seconds, tail, offsets_of(launches), launching, offset,
        offsets_of(np.bincount(waiting, minlength=count)), waited, full.depth, full.queue, full.entry,
        {c: (float(trace.bytes[scene.call[c]]), int(way[c])) for c in numbers},
        {c: met.opens[e] for c, e in meetings if e in met.opens},
        {c: met.needs[e] for c, e in meetings if e in met.needs},
        hand_overs,
    )  # fmt: skip
