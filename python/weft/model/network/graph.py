"""Communication graphs: delays and messages, with dependencies between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.model.result import ModelError

MOST_MESSAGES = 300_000


@dataclass
class Graph:
    """Delays and messages, and the entries that each depends on. `delay` and `message` add to it."""

    ranks: int
    seconds: list[float] = field(default_factory=list)  # of a delay; 0 for messages
    source: list[int] = field(default_factory=list)  # rank; -1 for delays
    target: list[int] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)
    after: list[tuple[int, ...]] = field(default_factory=list)
    messages: int = 0

    def _add(self, seconds: float, source: int, target: int, size: float, after: Sequence[int]) -> int:
        self.seconds.append(seconds)
        self.source.append(source)
        self.target.append(target)
        self.bytes.append(size)
        self.after.append(tuple(after))
        return len(self.seconds) - 1

    def delay(self, seconds: float, after: Sequence[int] = ()) -> int:
        """Adds computation, or with 0 s a synchronisation point, and returns its number."""
        if not 0 <= seconds < math.inf:
            raise ModelError(f"a delay is {seconds} s, but must be a finite number of at least zero")
        return self._add(seconds, -1, -1, 0.0, after)

    def message(self, source: int, target: int, size: float, after: Sequence[int] = ()) -> int:
        """Adds a message of `size` bytes from one rank to another and returns its number."""
        if not (0 <= source < self.ranks and 0 <= target < self.ranks):
            raise ModelError(
                f"a message goes from rank {source} to rank {target}, but ranks are numbered 0 to {self.ranks - 1}"
            )
        if not 0 <= size < math.inf:
            raise ModelError(f"a message has {size} bytes, but must have a finite number of at least zero")
        if self.messages >= MOST_MESSAGES:
            raise ModelError(
                f"the graph has more than {MOST_MESSAGES} messages, the most that can be replayed; use fewer ranks or "
                "a shorter run"
            )
        self.messages += 1
        return self._add(0.0, source, target, size, after)
