"""Communication in a trace that `weft model network` cannot replay, because sizes or the other ranks are missing."""

from __future__ import annotations

import numpy as np

from weft.traces import Category, Trace, messages, transfers

_RECORD = (
    "record the arguments of NCCL's calls: newer versions of PyTorch's profiler do, and nsys with --trace=cuda,nvtx if "
    "the NVTX ranges of this NCCL have payloads"
)


def unsized(trace: Trace) -> list[str]:
    """Notes on kernels whose messages the trace does not name, and on collectives without a size."""
    kinds = [messages.kind(name) for name in trace.names]
    collective = np.array([bool(messages.collective(kind)) for kind in kinds])[trace.name]
    sized = np.array([messages.collective(kind) not in ("", "barrier") for kind in kinds])[trace.name]
    mpi, stream = trace.category == Category.mpi, trace.on_stream()
    carried = np.zeros(len(trace), dtype=bool)
    for one in transfers.match(trace).found:
        carried[[one.sender, one.receiver]] = True
    found = []
    silent = np.flatnonzero(mpi & stream & ~collective & ~carried & (trace.peer < 0))
    if len(silent):
        seconds = float((trace.end[silent] - trace.start[silent]).sum()) * 1e-9
        name = trace.names[trace.name[silent[0]]].split("(")[0]
        found.append(
            f"{len(silent)} kernels such as '{name}' ({seconds:.4g} s in all) send or receive messages whose sizes and "
            f"ranks the trace does not have: they are left out, with their time; {_RECORD}"
        )
    empty = np.flatnonzero(mpi & sized & (trace.bytes < 0))
    if len(empty):
        name = trace.names[trace.name[empty[0]]].split("(")[0].strip()
        found.append(
            f"{len(empty)} of {int((mpi & sized).sum())} collectives of a rank, such as '{name}', have no size in the "
            "trace: where no rank has one, their messages are empty" + (f"; {_RECORD}" if stream[empty].any() else "")
        )
    return found
