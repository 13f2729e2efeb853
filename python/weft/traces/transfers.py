"""Messages of NCCL and RCCL between processes: which kernels carry them.

A kernel carries one message or a group of them. Readers add an event of the host for each, named 'nccl send (…)' or
'nccl recv (…)', with the other process in `peer`, `bytes`, the communicator in `group`, and the kernel's `correlation`.
A kernel that carries a single message may have these values itself.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.traces import apis
from weft.traces.launches import Launches
from weft.traces.table import Category, Trace

SENDS = ("send", "recv")


class Transfer(NamedTuple):
    """A message from one kernel to another, by their events."""

    sender: int
    receiver: int
    bytes: int


@dataclass
class Transfers:
    """The messages of all kernels, and sentences on those whose other side is missing in the trace."""

    found: list[Transfer] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)

    def partners(self) -> dict[int, tuple[tuple[int, ...], int]]:
        """By kernel: the kernels that it exchanges messages with, and the largest message in bytes."""
        with_: dict[int, list[int]] = defaultdict(list)
        most: dict[int, int] = defaultdict(int)
        for a, b, size in self.found:
            for one, other in ((a, b), (b, a)):
                with_[one].append(other)
                most[one] = max(most[one], size)
        return {kernel: (tuple(dict.fromkeys(others)), most[kernel]) for kernel, others in with_.items()}


def operations(trace: Trace) -> list[str]:
    """For each name: 'send', 'recv' or 'sendrecv' if it names a message or a kernel that carries messages; or ''."""
    found = [apis.collective(n) if n.startswith(("nccl", "rccl")) else "" for n in trace.names]
    return [f if f in (*SENDS, "sendrecv") else "" for f in found]


def _rows(trace: Trace, kinds: list[str]) -> NDArray[np.bool_]:
    """Mask of the events of the host that are messages of kernels."""
    named = np.array([k in SENDS for k in kinds], dtype=bool)[trace.name]
    return named & (trace.peer >= 0) & ~trace.on_stream() & (trace.category != Category.mpi)


def _kernels(trace: Trace, kinds: list[str]) -> NDArray[np.bool_]:
    """Mask of the kernels that carry messages."""
    return np.array([k != "" for k in kinds], dtype=bool)[trace.name] & trace.on_stream()


def tied(trace: Trace) -> Trace:
    """The trace with each message tied to its kernel: the first that its thread launches after the message began."""
    kinds = operations(trace)
    rows = _rows(trace, kinds)
    if not rows.any():
        return trace
    call = Launches(trace).call
    kernels = np.flatnonzero(_kernels(trace, kinds) & (call >= 0))
    correlation = trace.correlation.copy()
    for line in np.unique(trace.line[rows]).tolist():
        mine = kernels[trace.line[call[kernels]] == line]
        mine = mine[np.argsort(trace.start[call[mine]], kind="stable")]
        here = np.flatnonzero(rows & (trace.line == line))
        place = np.searchsorted(trace.start[call[mine]], trace.start[here], side="left")
        known = place < len(mine)
        correlation[here[known]] = trace.correlation[mine[place[known]]]
    return replace(trace, correlation=correlation)


def match(trace: Trace) -> Transfers:
    """Matches the messages that kernels send and receive: between two processes, in order within a communicator."""
    kinds = operations(trace)
    kernels = np.flatnonzero(_kernels(trace, kinds))
    transfers = Transfers()
    if not len(kernels):
        return transfers
    where = dict(zip(zip(trace.process[kernels].tolist(), trace.correlation[kernels].tolist(), strict=True),
                     kernels.tolist(), strict=True))  # fmt: skip
    rows = np.flatnonzero(_rows(trace, kinds) & (trace.correlation >= 0))
    said = [(row, where.get((int(trace.process[row]), int(trace.correlation[row])), -1)) for row in rows.tolist()]
    told = {kernel for _, kernel in said}
    alone = kernels[(trace.peer[kernels] >= 0) & [kinds[n] in SENDS for n in trace.name[kernels]]]
    said += [(kernel, kernel) for kernel in alone.tolist() if kernel not in told]
    sides: dict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    kernel_of = dict(said)
    for row in sorted(row for row, kernel in said if kernel >= 0):
        sends, mine, other = kinds[trace.name[row]] == "send", int(trace.process[row]), int(trace.peer[row])
        ends = (mine, other) if sends else (other, mine)
        sides[int(trace.group[row]), *ends][0 if sends else 1].append(row)
    for (_, a, b), (sent, received) in sides.items():
        if len(sent) != len(received):
            transfers.alone.append(f"kernels of NCCL send {len(sent)} messages from rank {a} to rank {b}, of which "
                                   f"{len(received)} are received")  # fmt: skip
            continue
        transfers.found += [
            Transfer(kernel_of[s], kernel_of[r], max(int(trace.bytes[s]), int(trace.bytes[r]), 0))
            for s, r in zip(sent, received, strict=True)
        ]
    return transfers
