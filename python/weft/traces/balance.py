"""The load balance of the ranks of a run.

It consists of idle and overlap shares as Holistic Trace Analysis defines them, the load imbalance, and the ranks for
which the others wait in collectives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.format import seconds
from weft.traces import messages
from weft.traces.table import Category, Trace, per_process

_MEMORY = re.compile(r"\[?(CUDA |HIP )?mem(cpy|set)|(Mem)?Copy", re.IGNORECASE)
Ints = NDArray[np.int64]


@dataclass
class Rank:
    """One process of a trace.

    compute_seconds        time in which kernels run that do not communicate; without a device, time outside of MPI
    communication_seconds  time in which MPI calls, or kernels of NCCL or RCCL, are open
    overlap_share          share of the communication that overlaps such kernels; None without kernels or communication
    idle_share             share of the time from the first to the last device work in which none runs; None without it
    collectives, last      collectives in which all wait for all, and those in which this rank was the last to arrive
    delays_seconds         time that the others would have saved if this rank had arrived with the next to last
    waits_seconds          time from its arrivals to those of the last rank
    """

    rank: int
    span_seconds: float
    compute_seconds: float
    communication_seconds: float
    overlap_share: float | None
    idle_share: float | None
    collectives: int = 0
    last: int = 0
    delays_seconds: float = 0.0
    waits_seconds: float = 0.0


def balance(trace: Trace) -> list[Rank]:
    """The ranks of a trace, in ascending order."""
    stream, kernel = trace.on_stream(), trace.category == Category.gpu
    kernel &= ~np.array([_MEMORY.match(n) is not None for n in trace.names], dtype=bool)[trace.name]
    found = {}
    for process, events in zip(trace.processes, per_process(trace), strict=True):
        device = events[stream[events]]
        compute = union(trace, events[kernel[events]])
        talk = union(trace, events[trace.category[events] == Category.mpi])
        span = int(trace.end[events].max() - trace.start[events].min())
        both = length(compute) + length(talk) - length(_merged(np.concatenate([compute, talk])))
        busy = union(trace, device)
        idle = 1 - length(busy) / max(1, int(busy[-1, 1] - busy[0, 0])) if len(device) else None
        hidden = both / length(talk) if len(compute) and length(talk) else None
        work = length(compute) if len(device) else span - length(talk)
        found[process] = Rank(process, span * 1e-9, work * 1e-9, length(talk) * 1e-9, hidden, idle)
    _arrivals(trace, found)
    return list(found.values())


def imbalance(ranks: list[Rank], noun: str = "rank") -> str:
    """A sentence on the load imbalance: by how much the longest computation exceeds the mean.

    `noun`: name of a rank.
    """
    work = np.array([r.compute_seconds for r in ranks])
    if not work.any():
        return ""
    more, most = work.max() / work.mean() - 1, ranks[int(work.argmax())].rank
    return f"load imbalance {100 * more:.1f} %: {noun} {most} computes longest ({seconds(work.max())}, max / mean - 1)"


def stragglers(ranks: list[Rank], noun: str = "rank") -> str:
    """A sentence on the rank that delays the others most; '' if the ranks share no collectives.

    `noun`: name of a rank.
    """
    slowest = max(ranks, key=lambda r: r.delays_seconds)
    if not slowest.delays_seconds:
        return ""
    return (
        f"straggler: the others wait {seconds(slowest.delays_seconds)} for {noun} {slowest.rank}, which arrives last "
        f"at {slowest.last} of {slowest.collectives} collectives"
    )


def union(trace: Trace, events: Ints) -> Ints:
    """The times (start, end) in which any of some events is open, of shape (intervals, 2)."""
    return _merged(np.stack([trace.start[events], trace.end[events]], axis=1))


def length(intervals: Ints) -> int:
    """The sum of the lengths of intervals."""
    return int((intervals[:, 1] - intervals[:, 0]).sum())


def _merged(intervals: Ints) -> Ints:
    """The union of intervals."""
    if not len(intervals):
        return intervals
    intervals = intervals[np.argsort(intervals[:, 0], kind="stable")]
    reach = np.maximum.accumulate(intervals[:, 1])
    begins = np.flatnonzero(np.concatenate([[True], intervals[1:, 0] > reach[:-1]]))
    return np.stack([intervals[begins, 0], reach[np.append(begins[1:], len(reach)) - 1]], axis=1)


def _arrivals(trace: Trace, ranks: dict[int, Rank]) -> None:
    """Counts which rank arrives last at the collectives in which all wait for all."""
    kinds = [messages.kind(n) for n in trace.names]
    if not set(kinds) & set(messages.JOINING):
        return
    for joined in messages.match(trace, messages.calls(trace, kinds), kinds).joined:
        if joined.kind not in messages.JOINING or len(joined.events) < 2:
            continue
        starts = {process: int(trace.start[event]) for process, event in joined.events.items()}
        *_, second, latest = sorted(starts.values())
        for process, start in starts.items():
            rank = ranks[process]
            rank.collectives += 1
            rank.waits_seconds += (latest - start) * 1e-9
        last = ranks[max(starts, key=lambda p: starts[p])]
        last.last += 1
        last.delays_seconds += (latest - second) * 1e-9
