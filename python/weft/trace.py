"""How time is spent: spans of host and device work in five categories, exclusive times, and a trace for Perfetto.

The categories are ``cpu`` (host computation), ``gpu`` (kernels), ``mpi`` (inside MPI calls), ``copy`` (between host and
device) and ``launch`` (the host's time in enqueueing work and in waiting for the device).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from weft import _weft
from weft.files import whole

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["categories", "enabled", "names", "phases", "span", "start", "stop", "unmet_delays", "write"]

_TAG = 4711
_ROUND_TRIPS = 10  # per node; the shortest is used
_SKEW_NS = 1_000_000_000  # longer than a barrier ever takes to release all ranks

enabled = _weft.trace.enabled


def start(comm: MPI.Intracomm | None = None) -> None:
    """Clear the recorded spans and start recording.

    With an mpi4py communicator the ranks start together, at a barrier, so that their timelines can be compared: time
    zero is the same instant on all ranks of a node, which share a clock. Between nodes it is the same to within half
    of the shortest round trip of a message, because each node asks rank 0 for its time (Cristian 1989): a barrier
    releases its ranks up to one latency of the network apart, or later if one of them loses its core.
    """
    if comm is not None:
        comm.Barrier()
    _weft.trace.enable(True)
    if comm is not None:
        from mpi4py import MPI

        node = comm.Split_type(MPI.COMM_TYPE_SHARED)
        mine = _weft.trace.zero_ns()
        last = node.allreduce(mine, op=MPI.MAX)
        if last - mine < _SKEW_NS:  # otherwise the processes of a node do not share a clock
            _weft.trace.set_zero_ns(last)
        first = cast("MPI.Intracomm", comm.Split(0 if node.rank == 0 else MPI.UNDEFINED, comm.rank))
        behind = node.bcast(0 if first == MPI.COMM_NULL else _behind(first))
        _weft.trace.set_zero_ns(_weft.trace.zero_ns() - behind)
        for made in (node, first):
            if made != MPI.COMM_NULL:
                made.Free()


def _behind(comm: MPI.Intracomm) -> int:
    """By how much (ns) this rank's timeline is behind that of rank 0. (collective)"""
    if comm.rank == 0:
        for other in range(1, comm.size):
            for _ in range(_ROUND_TRIPS):
                comm.recv(source=other, tag=_TAG)
                comm.send(_weft.trace.now_ns(), dest=other, tag=_TAG)
        return 0
    found = []
    for _ in range(_ROUND_TRIPS):
        sent = _weft.trace.now_ns()
        comm.send(None, dest=0, tag=_TAG)
        there = comm.recv(source=0, tag=_TAG)
        back = _weft.trace.now_ns()
        found.append((back - sent, there - (sent + back) // 2))
    return int(min(found)[1])  # of the shortest round trip, whose two directions differ least


def stop() -> None:
    """Stop recording; the recorded spans are kept."""
    _weft.trace.enable(False)


def unmet_delays() -> list[str]:
    """Kernels named in WEFT_TRACE_DELAY that this rank has not launched since `start`.

    Delays apply to launches on streams of a GPU, outside captured graphs; see docs/model-order.md.
    """
    return list(_weft.trace.unmet_delays())


@contextlib.contextmanager
def span(name: str, category: str = "cpu") -> Iterator[None]:
    """Record the time of a ``with`` block on the host's timeline."""
    if not enabled():
        yield
        return
    begin = _weft.trace.now_ns()
    try:
        yield
    finally:
        _weft.trace.record(name, category, begin, _weft.trace.now_ns())


def categories() -> dict[str, float]:
    """Exclusive seconds of this rank by category: a span's time less that of the spans opened inside it.

    ``gpu`` and copies on the device run concurrently with the host's categories; within each timeline the values add up
    to the time that its spans cover.
    """
    return dict(_weft.trace.exclusive_seconds())


def names() -> dict[str, float]:
    """Exclusive seconds of this rank by the name of the span."""
    return dict(_weft.trace.exclusive_seconds_by_name())


def phases(names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Exclusive seconds of this rank's host by phase and category.

    A phase is a span with one of these names, including the spans inside it except other phases; time outside all
    phases counts as ``""``. A kernel on a device counts as the host's wait for it.
    """
    return {name: dict(found) for name, found in _weft.trace.exclusive_seconds_by_phase(list(names)).items()}


def write(path: str | Path, comm: MPI.Intracomm | None = None) -> None:
    """Write the recorded spans as a Chrome trace, which Perfetto (https://ui.perfetto.dev) opens.

    One process per rank (``pid``), thread 0 for the host and 1, 2 … for the device's streams. With an mpi4py
    communicator (collective) rank 0 writes the events of all ranks to one file, one rank after the other.
    Raises ``CollectiveError`` on all ranks if the file cannot be opened.
    """
    rank, size = (0, 1) if comm is None else (comm.rank, comm.size)
    events = _weft.trace.chrome_trace_events(rank)
    file, failure = None, None
    with contextlib.ExitStack() as stack:
        if rank == 0:
            try:
                file = stack.enter_context(stack.enter_context(whole(path)).open("w", encoding="utf-8"))
            except OSError as error:
                failure = f"cannot write the trace: {error}"
        if comm is not None:
            failure = comm.bcast(failure, root=0)
        if failure is not None:
            raise _weft.mpi.CollectiveError(failure)
        if file is None and comm is not None:
            comm.send(events, dest=0, tag=_TAG)
            return
        assert file is not None
        file.write('{"displayTimeUnit":"ns","traceEvents":[\n' + events)
        if comm is not None:
            for source in range(1, size):
                file.write(",\n" + comm.recv(source=source, tag=_TAG))
        file.write("\n]}\n")
