"""Matching of the MPI calls of a trace: sends with receives, non-blocking calls with waits, and collectives.

Readers give MPI calls names that begin with the name of the function ('MPI_Isend', 'isend (send)') and the other
process in `peer`. If the file has them, `group` stands for communicator and tag, and `correlation` for requests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.traces import apis
from weft.traces.table import Category, Trace

COLLECTIVES = ("allreduce", "allgather", "alltoall", "barrier", "bcast", "gather", "reduce", "reducescatter", "scan")
# All processes wait for all others: they leave such a collective at about the same time.
JOINING = ("allreduce", "allgather", "alltoall", "barrier", "reducescatter")
_LIBRARIES = ("nccl", "rccl", "gloo:")
_ALIASES = {"exscan": "scan", "scatter": "bcast"}  # processes wait for each other in the same way


def kind(name: str) -> str:
    """The kind of an MPI function: send, isend, recv, irecv, wait, or a collective, prefixed by 'i' if non-blocking.

    The kind is '' for functions that neither communicate nor wait.
    """
    if name.startswith(_LIBRARIES):
        operation = apis.collective(name)
        return _ALIASES.get(operation, operation if operation in COLLECTIVES else "")
    text = name.lower().removeprefix("mpi").lstrip("_").replace("reduce_scatter", "reducescatter")
    text = text.split("(")[0].split("_")[0].strip()
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
    """The collective that a kind performs or starts; '' for other kinds."""
    if of in COLLECTIVES:
        return of
    return of[1:] if of[1:] in COLLECTIVES and of[:1] == "i" else ""


def ranges(trace: Trace, acting: NDArray[np.bool_], kinds: Sequence[str]) -> NDArray[np.bool_]:
    """Mask of the MPI events that are named ranges of the program around other `acting` events, not MPI functions."""
    named = np.array([k == "" for k in kinds], dtype=bool)[trace.name] & (trace.category == Category.mpi) & acting
    found = np.zeros(len(trace), dtype=bool)
    for line in np.unique(trace.line[named]):
        index = np.flatnonzero(acting & (trace.line == line))
        follows = np.searchsorted(trace.start[index], trace.start[index], side="right")  # begins later
        last = len(index) - 1
        here = named[index]
        # An event that begins at the same time and is not longer comes next in the table.
        after = np.minimum(np.arange(len(index)) + 1, last)
        inside = (trace.end[index[after]] <= trace.end[index]) & (trace.start[index[after]] < trace.end[index])
        later = np.minimum(follows, last)
        inside |= (follows <= last) & (trace.start[index[later]] < trace.end[index])
        found[index[here & inside & (np.arange(len(index)) < last)]] = True
    return found


def outermost(trace: Trace, index: NDArray[np.int64]) -> NDArray[np.int64]:
    """The outermost of some events, which must be in the order of their starts."""
    reach = np.maximum.accumulate(trace.end[index])
    outer = np.ones(len(index), dtype=bool)
    outer[1:] = trace.start[index[1:]] >= reach[:-1]
    return index[outer]


def calls(trace: Trace, kinds: Sequence[str]) -> dict[int, NDArray[np.int64]]:
    """The outermost MPI calls of each process and its collectives on streams, in order."""
    mpi = np.flatnonzero(trace.of(Category.mpi))
    part = trace.select(trace.of(Category.mpi)) if len(mpi) < len(trace) else trace
    keep = ~ranges(part, np.ones(len(part), dtype=bool), kinds)
    stream, process = part.on_stream(), part.process
    found = {}
    for p in np.unique(process[keep]).tolist():
        mine = keep & (process == p)
        host = outermost(part, np.flatnonzero(mine & ~stream))
        found[int(p)] = mpi[np.sort(np.concatenate([host, np.flatnonzero(mine & stream)]))]
    return found


@dataclass
class Joined:
    """A collective, with the event of each process that takes part."""

    kind: str
    events: dict[int, int]


@dataclass
class Matched:
    """The matched MPI calls of a trace."""

    partner: dict[int, int] = field(default_factory=dict)  # by send: its receive; by receive: its send
    joined: list[Joined] = field(default_factory=list)  # collectives
    alone: list[str] = field(default_factory=list)  # sentences on messages and collectives without a counterpart


def match(trace: Trace, rows: dict[int, NDArray[np.int64]], kinds: Sequence[str]) -> Matched:
    """Matches sends with receives and the calls of collectives.

    Sends and receives of two processes match in their order within a group. The k-th collectives of the same name
    within a group match; if the file has no group, all processes take part.
    """
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
    """The pairs (non-blocking call, wait that completes it) of one process.

    This is the next wait for its request. If the file has no requests, it is the first wait that ends after the other
    side had begun, which for a receive was at the time `began` (ns).
    """
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
