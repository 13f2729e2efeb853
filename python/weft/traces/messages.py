"""Which MPI calls of a trace belong together: sends with receives, calls that start with waits that end, collectives.

Readers give MPI calls names that begin with the function's ('MPI_Isend', 'isend (send)'), the other process in `peer`,
and where the file tells, communicator and tag in `group` and requests in `correlation`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.traces.table import Category, Trace

COLLECTIVES = ("allreduce", "allgather", "alltoall", "barrier", "bcast", "gather", "reduce", "scan")
_ALIASES = {"exscan": "scan", "scatter": "bcast"}  # who waits for whom is the same


def kind(name: str) -> str:
    """What an MPI function does: send, isend, recv, irecv, wait, one of `COLLECTIVES`, or one with an i before it;
    '' for what neither sends nor waits."""
    text = name.lower().removeprefix("mpi").lstrip("_").split("(")[0].split("_")[0].strip()
    if text in ("send", "ssend", "rsend", "bsend"):
        return "send"
    if text in ("isend", "issend", "irsend", "ibsend"):
        return "isend"
    if text in ("recv", "irecv"):
        return text
    if text.startswith("wait"):
        return "wait"
    for starts in ("", "i"):
        plain = text.removeprefix(starts)
        if text.startswith(starts):
            plain = plain[:-1] if plain.endswith(("v", "w")) else plain
            plain = _ALIASES.get(plain, plain)
            if plain in COLLECTIVES:
                return starts + plain
    return ""


def collective(of: str) -> str:
    """The collective that a kind is or starts, '' for others."""
    if of in COLLECTIVES:
        return of
    return of[1:] if of[1:] in COLLECTIVES and of[:1] == "i" else ""


def ranges(trace: Trace, acting: NDArray[np.bool_], kinds: Sequence[str]) -> NDArray[np.bool_]:
    """Mask of the MPI events that name a stretch of a program in which other `acting` events happen and are no function
    of MPI themselves."""
    named = np.array([k == "" for k in kinds], dtype=bool)[trace.name] & (trace.category == Category.mpi) & acting
    found = np.zeros(len(trace), dtype=bool)
    for line in np.unique(trace.line[named]):
        index = np.flatnonzero(acting & (trace.line == line))
        follows = np.searchsorted(trace.start[index], trace.start[index], side="right")  # begins later
        last = len(index) - 1
        here = named[index]
        # One that begins at the same time and is not longer comes next in the table.
        after = np.minimum(np.arange(len(index)) + 1, last)
        inside = (trace.end[index[after]] <= trace.end[index]) & (trace.start[index[after]] < trace.end[index])
        later = np.minimum(follows, last)
        inside |= (follows <= last) & (trace.start[index[later]] < trace.end[index])
        found[index[here & inside & (np.arange(len(index)) < last)]] = True
    return found


def outermost(trace: Trace, index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of events in the order of their starts those that are not inside another of them."""
    reach = np.maximum.accumulate(trace.end[index])
    outer = np.ones(len(index), dtype=bool)
    outer[1:] = trace.start[index[1:]] >= reach[:-1]
    return index[outer]


def calls(trace: Trace, kinds: Sequence[str]) -> dict[int, NDArray[np.int64]]:
    """The MPI calls of each process in order, those inside another left out."""
    mpi = trace.of(Category.mpi)
    mpi &= ~ranges(trace, mpi, kinds)
    return {int(p): outermost(trace, np.flatnonzero(mpi & (trace.process == p))) for p in np.unique(trace.process[mpi])}


@dataclass
class Joined:
    """One collective: the event of each process that takes part."""

    kind: str
    events: dict[int, int]


@dataclass
class Matched:
    """`partner`: of each send its receive and the other way round. `joined`: collectives. `alone`: what a part of the
    messages or collectives has no counterpart for, in words."""

    partner: dict[int, int] = field(default_factory=dict)
    joined: list[Joined] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)


def match(trace: Trace, rows: dict[int, NDArray[np.int64]], kinds: Sequence[str]) -> Matched:
    """Sends with receives in order within a group for every pair of processes, and the k-th collectives of a name and
    group; of a group that the file does not tell, of all processes."""
    found = Matched()
    halves: dict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    entered: dict[tuple[int, str], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for process, row in rows.items():
        columns = (row, trace.name[row], trace.peer[row], trace.group[row])
        for event, name, peer, group in zip(*(c.tolist() for c in columns), strict=True):
            of = kinds[name]
            if of in ("send", "isend"):
                halves[group, process, peer][0].append(event)
            elif of in ("recv", "irecv"):
                halves[group, peer, process][1].append(event)
            elif joins := collective(of):
                entered[group, joins][process].append(event)
    for (_, a, b), (sends, receives) in halves.items():
        if len(sends) != len(receives):
            found.alone.append(f"{len(sends)} sends and {len(receives)} receives between ranks {_rank(a, rows)} and "
                               f"{_rank(b, rows)}")  # fmt: skip
            continue
        found.partner.update(zip(sends, receives, strict=True))
        found.partner.update(zip(receives, sends, strict=True))
    members: dict[int, set[int]] = defaultdict(set)
    for (group, _), events in entered.items():
        members[group] |= set(events) if group >= 0 else set(rows)
    for (group, joins), events in entered.items():
        counts = sorted({len(events.get(p, ())) for p in members[group]})
        if len(counts) > 1:
            found.alone.append(f"processes call {joins} {counts[0]} to {counts[-1]} times")
            continue
        for k in range(counts[0]):
            found.joined.append(Joined(joins, {p: events[p][k] for p in sorted(events)}))
    return found


def _rank(process: int, rows: dict[int, NDArray[np.int64]]) -> str:
    return str(process) if process in rows else f"{process} (not in the trace)"


def ended_by(
    trace: Trace, row: NDArray[np.int64], kinds: Sequence[str], began: dict[int, int]
) -> Iterator[tuple[int, int]]:
    """(event that only starts something, wait that ends it) of one process: the next wait of its request; where the
    file tells none, the first wait that ends after the other side, `began` (ns) of a receive, had begun."""
    by_request: dict[int, list[int]] = defaultdict(list)
    open_: list[int] = []
    columns = (row, trace.name[row], trace.correlation[row], trace.end[row])
    for event, name, request, end in zip(*(c.tolist() for c in columns), strict=True):
        of = kinds[name]
        if of == "wait":
            if request >= 0:
                yield from ((e, event) for e in by_request.pop(request, ()))
            else:
                ready = [e for e in open_ if began.get(e, end) <= end]
                yield from ((e, event) for e in ready)
                open_ = [e for e in open_ if e not in set(ready)] if len(ready) < len(open_) else []
        elif of in ("isend", "irecv") or (collective(of) and of not in COLLECTIVES):
            if request >= 0:
                by_request[request].append(event)
            else:
                open_.append(event)
