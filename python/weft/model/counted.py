"""The messages of a run, counted in its trace: their number, their size, and the work that hides them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft import traces
from weft.model.evidence import Evidence
from weft.model.result import ModelError
from weft.traces import messages
from weft.traces.table import Category, Trace

# The span of weft's own traces (docs/trace.md) that holds iterations or steps, and its occurrences that are used: the
# solve after the warm-up, the profiled steps, or every step.
SPANS = {
    "poisson": ("conjugate gradients", slice(1, 2)),
    "maxwell": ("step", slice(1, 2)),
    "flow": ("step", slice(None)),
}


@dataclass(frozen=True)
class Counted:
    """Messages of a run per iteration or step on the rank with most of them; `overlap` is the mean over all ranks."""

    messages: float  # sent to other ranks
    bytes: float  # in these messages
    reductions: float  # collectives
    overlap: float  # share of a rank's time outside MPI that passes between sending messages and waiting for others


def counted(evidence: Evidence, workload: str) -> Counted | None:
    """The messages in the `trace.json` next to a run's record; None without such a file, or on a single rank."""
    file = evidence.path.parent / "trace.json"
    if workload not in SPANS or evidence.ranks == 1 or not file.exists():
        return None
    figures = evidence.content["figures"]
    times = {"poisson": figures.get("iterations"), "maxwell": figures.get("profiled_steps"), "flow": 1}[workload]
    return _counted(file, file.stat().st_mtime_ns, workload, times)


@lru_cache(maxsize=256)  # runs are held out of a calibration in turn, and each time the other traces are read
def _counted(file: Path, written: int, workload: str, times: int) -> Counted:
    try:
        trace, (name, which) = traces.load(file), SPANS[workload]
    except ValueError as error:
        raise ModelError(str(error)) from None
    named = trace.name == (trace.names.index(name) if name in trace.names else -1)
    ranks = []
    for rank in trace.processes:
        spans = np.sort(np.flatnonzero(named & (trace.process == rank)))[which]
        if not len(spans):
            raise ModelError(f"{file}: rank {rank} has no span '{name}' of the iterations or steps of {workload}")
        # The median step, as in the record: the first ones take more iterations.
        ranks.append(np.median([_within(trace, rank, span) for span in spans], axis=0))
    sent, data, reductions = np.max(ranks, axis=0)[:3].tolist()
    overlap = float(np.mean([r[3] for r in ranks]))
    return Counted(sent / times, data / times, reductions / times, overlap)


def _within(trace: Trace, rank: int, span: int) -> tuple[int, int, int, float]:
    """Messages, bytes and collectives of a rank in a span, and the share of its own time that hides messages."""
    kinds = np.array([messages.kind(name) for name in trace.names], dtype=object)[trace.name]
    inside = (trace.process == rank) & (trace.start >= trace.start[span]) & (trace.end <= trace.end[span])
    calls: NDArray[np.int64] = np.flatnonzero(inside & (trace.category == Category.mpi) & (kinds != ""))
    calls = calls[np.argsort(trace.start[calls], kind="stable")]
    sent = np.isin(kinds[calls], ("send", "isend"))
    collectives = sum(messages.collective(str(k)) != "" for k in kinds[calls])
    own = int(trace.end[span] - trace.start[span] - (trace.end[calls] - trace.start[calls]).sum())
    hidden, since = 0, None
    for call, is_send in zip(calls, sent, strict=True):
        if since is not None:
            hidden += max(0, int(trace.start[call]) - since)
        # From a call that sends on, messages are on their way until the next wait.
        on_way = is_send or (since is not None and kinds[call] != "wait")
        since = int(trace.end[call]) if on_way else None
    return int(sent.sum()), int(trace.bytes[calls[sent]].sum()), collectives, hidden / max(own, 1)
