"""Reader of GOAL schedules, the input of LogGOPSim: what each rank computes, sends and receives, and in which order.

A schedule has no clock. Its events get the times that they would have on an infinitely fast network with as many cores
as the schedule can use: `calc` takes its nanoseconds, an operation starts when all operations it requires have ended,
and a receive ends with its send. T. Hoefler, C. Siebert, A. Lumsdaine: Group Operation Assembly Language, ICPP 2009.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from pathlib import Path

import numpy as np

from weft.traces.head import Head
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "a GOAL schedule of LogGOPSim (text)"

_LABEL = r"\s*(?:(\w+)\s*:)?\s*"
_MESSAGE = re.compile(
    _LABEL + r"(send|recv)\s+(\d+)b\s+(?:to|from)\s+(\d+)(?:\s+tag\s+(\d+))?(?:\s+(?:cpu|nic)\s+\d+)*$"
)
_CALC = re.compile(_LABEL + r"calc\s+(\d+)(?:\s+(?:cpu|nic)\s+\d+)*$")
_ORDER = re.compile(r"\s*(\w+)\s+(i?requires)\s+(\w+)$")
_RANK = re.compile(r"\s*rank\s+(\d+)\s*\{$")
_LONGEST = 2**50  # ns, 13 days for one calc, so that sums cannot overflow


def probe(head: Head) -> bool:
    return re.match(r"(\s|//.*\n|#.*\n|/\*.*?\*/)*num_ranks\s+\d+", head.text, re.DOTALL) is not None


def read(path: Path) -> Trace:
    """Reads every operation. `requires` has the dependencies of the schedule and the pairs (receive, send)."""
    schedule = _Schedule(path)
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            schedule.take(number, line.split("//")[0].split("#")[0].strip())
    return schedule.trace()


class _Schedule:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.ranks: int | None = None
        self.rank: int | None = None
        self.labels: dict[str, int] = {}
        self.operations: list[tuple[int, str, int, int, int]] = []  # rank, kind, bytes or ns, peer, tag
        self.pairs: list[tuple[int, int]] = []  # (operation, operation that must have ended before)
        self.starts: list[tuple[int, int]] = []  # (operation, operation that must have started before)

    def take(self, number: int, line: str) -> None:
        if not line:
            return
        if self.ranks is None:
            match = re.match(r"num_ranks\s+(\d{1,9})$", line)
            if not match:
                raise self._error(number, f"expected 'num_ranks N', found {line[:40]!r}")
            self.ranks = int(match[1])
        elif self.rank is None:
            match = _RANK.match(line)
            if not match or len(match[1]) > 9 or int(match[1]) >= self.ranks:
                raise self._error(number, f"expected 'rank R {{' with R below {self.ranks}, found {line[:40]!r}")
            self.rank, self.labels = int(match[1]), {}
        elif line == "}":
            self.rank = None
        else:
            self._operation(number, line, self.rank)

    def _operation(self, number: int, line: str, rank: int) -> None:
        message, calc, order = _MESSAGE.match(line), _CALC.match(line), _ORDER.match(line)
        if message:
            label, kind, size, peer, tag = message.groups()
            if len(peer) > 9 or int(peer) >= (self.ranks or 0):
                raise self._error(number, f"rank {peer[:20]} does not exist; the schedule has {self.ranks} ranks")
            values = kind, self._number(number, size), int(peer), self._number(number, tag or "0")
        elif calc:
            label, values = calc[1], ("calc", self._number(number, calc[2]), -1, 0)
        elif order:
            unknown = [name for name in (order[1], order[3]) if name not in self.labels]
            if unknown:
                raise self._error(number, f"operation '{unknown[0]}' of rank {rank} is not defined above this line")
            where = self.pairs if order[2] == "requires" else self.starts
            where.append((self.labels[order[1]], self.labels[order[3]]))
            return
        else:
            raise self._error(number, f"expected send, recv, calc or requires, found {line[:40]!r}")
        if label:
            if label in self.labels:
                raise self._error(number, f"operation '{label}' of rank {rank} is defined twice")
            self.labels[label] = len(self.operations)
        self.operations.append((rank, *values))

    def _number(self, number: int, text: str) -> int:
        if len(text) > 16 or int(text) > _LONGEST:
            raise self._error(number, f"the number {text[:30]} is too large")
        return int(text)

    def _error(self, number: int, reason: str) -> ValueError:
        return ValueError(f"{self.path}: line {number}: {reason}")

    def trace(self) -> Trace:
        if self.rank is not None:
            raise ValueError(f"{self.path}: the schedule of rank {self.rank} is not closed; was the file cut short?")
        pairs = self.pairs + self._messages()
        start, end = self._times(pairs)
        builder = Builder("goal", self.path)
        builder.notes.append("a schedule has no clock; the times assume an infinitely fast network")
        if self.operations:
            rank, kind, size, peer, _ = zip(*self.operations, strict=True)
            calc = np.array([k == "calc" for k in kind])
            builder.add(
                line=[builder.line(r, f"rank {r}", "host") for r in rank],
                start=start,
                end=end,
                category=np.where(calc, int(Category.cpu), int(Category.mpi)),
                name=[builder.name(k) for k in kind],
                bytes=np.where(calc, -1, size),
                peer=peer,
            )
        return builder.build(requires=np.array(pairs, dtype=np.int64).reshape(-1, 2))

    def _messages(self) -> list[tuple[int, int]]:
        """The pairs (receive, send), matched in the order in which the two ranks list them."""
        sends: dict[tuple[int, int, int, int], deque[int]] = defaultdict(deque)
        for i, (rank, kind, size, peer, tag) in enumerate(self.operations):
            if kind == "send":
                sends[rank, peer, tag, size].append(i)
        pairs = []
        for i, (rank, kind, size, peer, tag) in enumerate(self.operations):
            if kind == "recv":
                waiting = sends[peer, rank, tag, size]
                if not waiting:
                    raise ValueError(
                        f"{self.path}: rank {rank} receives {size} B from rank {peer}, which never sends them"
                    )
                pairs.append((i, waiting.popleft()))
        left = next((key for key, waiting in sends.items() if waiting), None)
        if left is not None:
            raise ValueError(
                f"{self.path}: rank {left[0]} sends {left[3]} B to rank {left[1]}, which never receives them"
            )
        return pairs

    def _times(self, pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
        after: list[list[tuple[int, bool]]] = [[] for _ in self.operations]
        waits = [0] * len(self.operations)
        for edges, ended in ((pairs, True), (self.starts, False)):
            for operation, needed in edges:
                after[needed].append((operation, ended))
                waits[operation] += 1
        start = [0] * len(self.operations)
        end = [0] * len(self.operations)
        ready = deque(i for i, w in enumerate(waits) if w == 0)
        done = 0
        while ready:
            i = ready.popleft()
            done += 1
            _, kind, size, _, _ = self.operations[i]
            end[i] = start[i] + (size if kind == "calc" else 0)
            for operation, ended in after[i]:
                start[operation] = max(start[operation], end[i] if ended else start[i])
                waits[operation] -= 1
                if waits[operation] == 0:
                    ready.append(operation)
        if done < len(self.operations):
            rank, kind, *_ = self.operations[next(i for i, w in enumerate(waits) if w)]
            raise ValueError(f"{self.path}: the dependencies have a cycle, which includes a {kind} of rank {rank}")
        return start, end
