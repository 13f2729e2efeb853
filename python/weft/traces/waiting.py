"""Finds events in which a thread of the host only waits, by their names or by the activity of their thread.

- Calls into the system or into Python's libraries that block until time passes or another thread acts (`nanosleep`,
  `threading.py: wait`), and PyTorch's `run_backward`, for which autograd's threads work. They may contain further calls
  of Python, but neither operators nor calls into the device's runtime.
- Queries of events or streams (`cudaEventQuery`) on a thread that makes no other call into the device's runtime, such
  as the watchdogs of NCCL.
- An event without others inside that fills a thread without device work, while another thread of the process drives the
  device: monitors and workers of profilers.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.traces.table import Category, Trace, per_line

FILLS_THREAD = 0.9  # share of the time between the first start and the last end of its thread
FILLS_PROCESS = 0.5  # share of the same time of its process

_SYSTEM = re.compile(
    r"(poll|ppoll|select|pselect6?|epoll_p?wait\d?|(clock_)?nanosleep|u?sleep|sem_(timed|clock)?wait|futex|pause|"
    r"pthread_(cond_(timed|clock)?wait|join|mutex_(timed)?lock|rwlock_(timed)?(rd|wr)lock|barrier_wait)|"
    r"sig(timed)?wait(info)?|wait(pid|id|3|4))(@.*)?$"
)
_PYTHON = re.compile(
    r"(.*/)?(threading|queues?|selectors|subprocess|_base|base_events|connection|popen_\w+|synchronize)\.py\(\d+\): "
    r"(_?wait\w*|_?acquire\w*|_?join|_?poll|select|get|result|_run_once|_wait_for_tstate_lock)$|"
    r"<(built-in )?(method|function) '?(sleep|acquire|poll|epoll_wait|select|wait|waitpid|run_backward|get of _queue)\b"
)
_PYTHON_CALL = re.compile(r".*\.pyx?\(\d+\): |<(built-in |method |function )")
_QUERY = re.compile(r"(cuda|cu|hip)(Event|Stream)Query")


def recognise(trace: Trace) -> Trace:
    """The trace with the category `wait` on events that only wait, and a note on those found by their activity."""
    host = ~trace.on_stream()
    acting = host & trace.of(Category.launch, Category.sync, Category.copy, Category.mpi)
    idle = host & trace.of(Category.cpu, Category.other)
    system, python = (_named(trace, p) & idle for p in (_SYSTEM, _PYTHON))
    queries = _named(trace, _QUERY) & acting
    if not (system.any() or python.any() or queries.any() or (idle & (trace.category == Category.cpu)).any()):
        return trace
    calls = np.bincount(trace.line[acting], minlength=len(trace.lines))
    asked = np.bincount(trace.line[queries], minlength=len(trace.lines))
    polls = queries & ((calls == asked) & (asked > 1))[trace.line]
    acting &= ~polls
    python &= ~_contains(trace, python, acting | (idle & ~_named(trace, _PYTHON_CALL) & ~trace.of(Category.other)))
    filling = _filling(trace, acting)
    found = system | python | polls | filling
    if not found.any():
        return trace
    category = trace.category.copy()
    category[found] = Category.wait
    notes = [
        f"{int(events.sum())} calls count as waiting, not as work, because {why}: {_words(trace, events)}"
        for events, why in (
            (polls, "their threads only query events"),
            (filling & ~python & ~system, "each fills a thread that does nothing else"),
        )
        if events.any()
    ]
    return replace(trace, category=category, notes=(*trace.notes, *notes))


def _named(trace: Trace, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    return np.array([pattern.match(n) is not None for n in trace.names], dtype=bool)[trace.name]


def _contains(trace: Trace, outer: NDArray[np.bool_], inner: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of the `outer` events during which an `inner` event starts on their line."""
    found = np.zeros(len(trace), dtype=bool)
    lines = np.bincount(trace.line[outer], minlength=len(trace.lines)) > 0
    for events in per_line(trace, np.flatnonzero(lines[trace.line])):
        before = np.concatenate([[0], np.cumsum(inner[events])])
        mine = np.flatnonzero(outer[events])
        until = np.searchsorted(trace.start[events], trace.end[events[mine]])
        found[events[mine]] = before[np.maximum(until, mine + 1)] > before[mine + 1]
    return found


def _filling(trace: Trace, acting: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of the events without others inside that fill a thread without calls, while another drives the device."""
    driving = acting & ~trace.of(Category.mpi)
    timed = ~trace.of(Category.other)
    long = timed & trace.of(Category.cpu)
    place = np.searchsorted(trace.processes, trace.process)  # numbers of processes may be of any size
    for number, share in ((trace.line, FILLS_THREAD), (place, FILLS_PROCESS)):
        first = np.full(int(number.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(first, number[timed], trace.start[timed])
        last = np.zeros(len(first), dtype=np.int64)
        np.maximum.at(last, number[timed], trace.end[timed])
        long &= trace.end - trace.start >= share * (last - first)[number]
    long &= np.isin(trace.process, np.unique(trace.process[driving]))
    long &= (np.bincount(trace.line[acting], minlength=len(trace.lines)) == 0)[trace.line]
    return long & ~_contains(trace, long, np.ones(len(trace), dtype=bool))


def _words(trace: Trace, events: NDArray[np.bool_]) -> str:
    names, calls = np.unique(trace.name[events], return_counts=True)
    shown = [f"'{trace.names[names[i]][:60]}'" for i in np.argsort(-calls, kind="stable")[:3]]
    return ", ".join(shown) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
