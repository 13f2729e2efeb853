"""Notes on what a trace does not record: a model of it is only as good as the recording."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.traces.table import Category, Trace

SPARSE = 0.1  # share of a run without recorded events above which a note says so


def caveats(trace: Trace) -> list[str]:
    """Notes on time without events, on parts of the run that are not recorded, and on communication inside kernels."""
    found = []
    empty, whole = unexplained(trace)
    if empty > SPARSE * whole:
        found.append(
            f"{100 * empty / whole:.0f} % of the time ({empty * 1e-9:.4g} of {whole * 1e-9:.4g} s over all processes) "
            "has no event besides annotations and waits: what ran then is not recorded, and counts as t_CPU"
        )
    missing = unrecorded(trace)
    found += [missing] if missing else []
    stream, mpi = trace.on_stream(), trace.of(Category.mpi)
    inside = stream & mpi & (trace.peer < 0)  # graphs have messages themselves
    if inside.any() and not (mpi & ~stream).any():
        seconds = int((trace.end - trace.start)[inside].sum()) * 1e-9
        found.append(
            f"communication is inside {int(inside.sum())} kernels of NCCL or RCCL ({seconds:.4g} s in all, waits for "
            "other processes included), not in MPI calls; t_MPI is their time"
        )
    return found


def unrecorded(trace: Trace) -> str:
    """A sentence on terms of Eq. 3 that the trace lacks, and the remedy; '' if the trace has host and device."""
    stream = trace.on_stream()
    calls = ~stream & trace.of(Category.launch, Category.sync, Category.copy)
    if stream.any() and not calls.any():
        return (
            "the trace has work of a device but not the host's calls, so t_CPU and t_CGcontrol are not evaluated "
            "(N/E); record the calls as well (nsys --trace=cuda, rocprofv3 --runtime-trace, nvprof --print-api-trace)"
        )
    if calls.any() and not stream.any():
        return (
            "the trace has calls to a device but not the device's work, so t_GPU, t_CGdata and t_CGcontrol are not "
            "evaluated (N/E), because waits for kernels look like control; record kernels and copies as well"
        )
    return ""


def unexplained(trace: Trace) -> tuple[int, int]:
    """The time (ns) without events other than annotations and waits, and the run time, both summed over processes."""
    empty = whole = 0
    explains = ~trace.of(Category.other, Category.wait)
    order = np.argsort(trace.process, kind="stable")  # starts ascend within a process
    for events in np.split(order, np.flatnonzero(np.diff(trace.process[order])) + 1):
        length = int(trace.end[events].max() - trace.start[events].min())
        whole += length
        empty += length - _covered(trace, events[explains[events]])
    return empty, whole


def _covered(trace: Trace, events: NDArray[np.int64]) -> int:
    """The length of the union of some events in the table's order, in ns."""
    if not len(events):
        return 0
    start, reach = trace.start[events], np.maximum.accumulate(trace.end[events])
    gaps = np.maximum(start[1:] - reach[:-1], 0)
    return int(reach[-1] - start[0] - gaps.sum())
