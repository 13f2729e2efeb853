"""The work for which calls and streams wait, from the records of waits and of CUDA events that profilers write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.traces.launches import Launches
from weft.traces.table import Trace


class Wait(NamedTuple):
    """A wait for all work launched on `lines` before a call began: `since`, which recorded an event, or else `call`.

    Either `call` itself waits or, if `stream` is a line, the work that is launched there next.
    """

    call: int
    lines: tuple[int, ...]
    since: int = -1
    stream: int = -1


def requirements(trace: Trace, waits: Iterable[Wait]) -> NDArray[np.int64]:
    """The pairs (event, what it waits for) of some waits, of shape (m, 2), by the order of launches."""
    launches = Launches(trace)
    pairs = set()
    for wait in waits:
        event = wait.call
        if wait.stream >= 0:
            event = launches.first_after(wait.stream, int(trace.start[wait.call]))
        time = int(trace.start[wait.call if wait.since < 0 else wait.since])
        sources = (launches.last_before(line, time) for line in wait.lines)
        pairs |= {(event, source) for source in sources if event >= 0 and source >= 0}
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
