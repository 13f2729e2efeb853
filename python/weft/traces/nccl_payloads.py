"""Details of NCCL calls in the payloads of NVTX ranges (nvtx_payload_schemas.h), as Nsight Systems exports them."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import numpy as np

from weft.traces import apis
from weft.traces.launches import Launches
from weft.traces.table import Category, Trace
from weft.traces.transfers import SENDS, tied

_SIZES, _COMMUNICATOR, _PEER = ("Message size [bytes]", "Bytes"), "NCCL communicator ID", "Peer rank"


def payload(text: object) -> tuple[int, int, int]:
    """The bytes, the communicator and the other rank in the payload of a range of NCCL, given as JSON; -1 without."""
    if not isinstance(text, str) or not any(f'"{name}"' in text for name in _SIZES):
        return -1, -1, -1
    found: dict[str, object] = {}

    def keep(pairs: list[tuple[str, object]]) -> None:
        found.update((k, v) for k, v in pairs if k in (*_SIZES, _COMMUNICATOR, _PEER))

    try:
        json.loads(text, object_pairs_hook=keep)
    except (ValueError, RecursionError):
        return -1, -1, -1
    size, peer = (str(next((found[n] for n in names if n in found), "")) for names in (_SIZES, (_PEER,)))
    group = zlib.crc32(str(found[_COMMUNICATOR]).encode()) if _COMMUNICATOR in found else -1
    moved, other = (int(t) if t.isdecimal() and len(t) < limit else -1 for t, limit in ((size, 19), (peer, 9)))
    return moved, group, other


def message(text: str) -> str:
    """The name of a range of NCCL that sends or receives."""
    operation = apis.collective(text)
    return f"nccl {operation} ({text})" if operation in SENDS else text


def with_payloads(trace: Trace) -> Trace:
    """The trace with the details of NCCL kernels from the ranges on the threads that launched them.

    A collective gets the bytes and the communicator of the ranges that began since its thread launched the previous
    kernel; the bytes of a group add up. Messages are tied to the kernel that carries them.
    """
    ranges = (trace.category == Category.other) & (trace.bytes >= 0)
    if not ranges.any():
        return trace
    trace = tied(trace)
    ranges &= trace.peer < 0
    moved, group = trace.bytes.copy(), trace.group.copy()
    call = Launches(trace).call
    kernels = np.flatnonzero(trace.on_stream() & (trace.category == Category.mpi) & (call >= 0))
    for line in np.unique(trace.line[ranges]).tolist():
        mine = kernels[trace.line[call[kernels]] == line]
        mine = mine[np.argsort(trace.start[call[mine]], kind="stable")]
        said = np.flatnonzero(ranges & (trace.line == line))
        place = np.searchsorted(trace.start[said], trace.start[call[mine]], side="right")
        for kernel, begin, end in zip(mine.tolist(), [0, *place[:-1].tolist()], place.tolist(), strict=True):
            if begin < end:
                moved[kernel], group[kernel] = int(trace.bytes[said[begin:end]].sum()), trace.group[said[end - 1]]
    moved[ranges], group[ranges] = -1, -1
    return replace(trace, bytes=moved, group=group)
