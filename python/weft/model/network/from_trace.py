"""The communication graph of a trace: its MPI calls, its collectives on streams, or its schedule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.model.network.collectives import COLLECTIVES
from weft.model.network.graph import Graph
from weft.model.result import ModelError
from weft.traces import messages, transfers
from weft.traces.table import Category, Trace

Ints = NDArray[np.int64]


def of_trace(trace: Trace, compute: bool = True, overhead: float = 0.0) -> Graph:
    """The messages of a trace's MPI events, with the time between them as delays if `compute` is set.

    A GOAL schedule has an order of its own. Otherwise each process executes its events in order: a blocking send or
    receive ends with its message, a non-blocking one after its traced time (without `compute` immediately), and a wait
    with the operations it completes (if the file does not say which, with all before it). Collectives become the
    messages of `COLLECTIVES`. `weft.traces.messages` matches the calls. The collectives of NCCL and RCCL on a stream
    follow one another like calls of a thread, with the algorithm that the kernel's name says (TREE), else a ring. The
    messages of a kernel that sends and receives are on their way at the same time.

    `overhead`: seconds per byte that a waiting process spends on the messages that it receives (O of LogGOPS; Hoefler,
    Schneider, Lumsdaine 2010), while they arrive or afterwards.
    """
    if trace.format == "goal":
        return _of_schedule(trace, compute)
    kinds = [messages.kind(n) for n in trace.names]
    rows = messages.calls(trace, kinds)
    if not rows:
        held = ", ".join(sorted({Category(int(c)).name for c in np.unique(trace.category)}))
        raise ModelError(f"{trace.path}: the trace has no MPI events to replay on a network, only {held} events")
    matched, carried = messages.match(trace, rows, kinds), transfers.match(trace)
    if alone := matched.alone + carried.alone:
        raise ModelError(f"{trace.path}: {alone[0]}; a trace that was cut short, has only one side of its "
                         "messages, or holds several runs cannot be replayed")  # fmt: skip
    return _Calls(trace, compute, kinds, rows, matched, carried.found, overhead).graph()


class _Calls:
    """Steps through the calls of all processes and the collectives of all streams concurrently, each as far as it can
    get."""

    def __init__(
        self, trace: Trace, compute: bool, kinds: list[str], rows: dict[int, Ints], matched: messages.Matched,
        carried: list[transfers.Transfer], overhead: float,
    ) -> None:  # fmt: skip
        self.overhead = overhead
        self.trace, self.compute, self.kinds, self.partner = trace, compute, kinds, matched.partner
        stream = trace.on_stream()
        self.rows = [line.tolist() for row in rows.values() for line in _in_sequence(trace, row, stream[row])]
        self.rank = {p: k for k, p in enumerate(rows)}
        self.made = Graph(len(rows))
        self.joined = {e: j for j in matched.joined for e in j.events.values()}
        self.entered: dict[int, int] = defaultdict(int)  # by identity of a collective: processes that entered it
        self.result: dict[int, tuple[int, ...]] = {}  # by event of a collective: entries that complete it
        self.message: dict[int, int] = {}  # by send: the number of its message
        self.carried: dict[int, list[transfers.Transfer]] = defaultdict(list)  # by kernel: its messages
        for transfer in carried:
            self.carried[transfer.sender].append(transfer)
            self.carried[transfer.receiver].append(transfer)
        self.sent: dict[int, int] = {}  # by identity of a kernel's message: its number
        self.arrived: dict[int, tuple[int, ...]] = {}  # by event: entries that its process had finished before it
        self.ends: list[tuple[int, ...]] = [() for _ in self.rows]
        self.open: list[dict[int, list[int]]] = [defaultdict(list) for _ in self.rows]  # by request: open operations
        self.clock = [0] * len(self.rows)

    def graph(self) -> Graph:
        place = [0] * len(self.rows)
        active = list(range(len(self.rows)))
        while active:
            moved = False
            for r in active:
                row = self.rows[r]
                while place[r] < len(row) and self._step(r, row[place[r]]):
                    self.clock[r] = int(self.trace.end[row[place[r]]])
                    place[r] += 1
                    moved = True
            active = [r for r in active if place[r] < len(self.rows[r])]
            if active and not moved:
                event = self.rows[active[0]][place[active[0]]]
                raise ModelError(
                    f"{self.trace.path}: the replay is stuck: process {int(self.trace.process[event])} waits in "
                    f"'{self.trace.names[self.trace.name[event]]}' for a call that no other process makes"
                )
        return self.made

    def _step(self, r: int, event: int) -> bool:
        """Executes one call of row r; False if it must wait for another process."""
        trace = self.trace
        kind = self.kinds[trace.name[event]]
        if event not in self.arrived:
            gap = max(0, int(trace.start[event]) - self.clock[r]) * 1e-9
            if self.compute and gap > 0:
                self.ends[r] = (self.made.delay(gap, self.ends[r]),)
            self.arrived[event] = self.ends[r]
            if event in self.joined:
                self._enter(self.joined[event])
        if kind in ("send", "recv", "isend", "irecv"):
            sender = self._send(event)
            if kind in ("isend", "irecv"):
                self.open[r][int(trace.correlation[event])].append(event)
                own = int(trace.end[event] - trace.start[event]) * 1e-9
                if self.compute and own > 0:  # it waits for nobody, so that its time is the process's own
                    self.ends[r] = (self.made.delay(own, self.ends[r]),)
            elif sender in self.message:
                self.ends[r] = (self.message[sender], *self._own_work(r, [sender] if kind == "recv" else []))
            else:
                return False
        elif event in self.joined:
            if kind not in COLLECTIVES:
                self.open[r][int(trace.correlation[event])].append(event)
            elif event in self.result:
                self.ends[r] = self.result[event]
            else:
                return False
        elif event in self.carried:
            return self._exchange(r, event)
        elif kind == "wait":
            return self._wait(r, int(trace.correlation[event]))
        return True

    def _exchange(self, r: int, kernel: int) -> bool:
        """Sends the messages of a kernel to and from kernels that have arrived; False if others have not."""
        mine = self.carried[kernel]
        for one in mine:
            if id(one) not in self.sent and one.sender in self.arrived and one.receiver in self.arrived:
                a, b = (self.rank[int(self.trace.process[e])] for e in (one.sender, one.receiver))
                after = (*self.arrived[one.sender], *self.arrived[one.receiver])
                self.sent[id(one)] = self.made.message(a, b, float(one.bytes), after)
        if any(id(one) not in self.sent for one in mine):
            return False
        self.ends[r] = tuple(self.sent[id(one)] for one in mine)
        return True

    def _send(self, event: int) -> int:
        """The send of a message, which is added to the graph when both sides have arrived."""
        trace, half = self.trace, self.partner[event]
        sender, receiver = (event, half) if self.kinds[trace.name[event]] in ("send", "isend") else (half, event)
        if sender not in self.message and half in self.arrived:
            a, b = self.rank[int(trace.process[sender])], self.rank[int(trace.process[receiver])]
            size = float(max(trace.bytes[sender], trace.bytes[receiver], 0))
            after = (*self.arrived[sender], *self.arrived[receiver])
            self.message[sender] = self.made.message(a, b, size, after)
        return sender

    def _enter(self, joined: messages.Joined) -> None:
        self.entered[id(joined)] += 1
        if self.entered[id(joined)] < len(joined.events):
            return
        trace = self.trace
        size = float(max(0, max(int(trace.bytes[e]) for e in joined.events.values())))
        ranks = [self.rank[p] for p in joined.events]
        roots = {int(trace.peer[e]) for e in joined.events.values()}
        root = next((k for k, p in enumerate(joined.events) if p in roots), 0)
        if joined.kind == "alltoall":
            size /= len(ranks)  # a trace gives the total that a rank sends
        before = {r: self.arrived[e] for r, e in zip(ranks, joined.events.values(), strict=True)}
        kind = joined.kind
        name = trace.names[trace.name[next(iter(joined.events.values()))]]
        if kind == "allreduce" and name.startswith(("nccl", "rccl")):
            kind = "allreduce-tree" if "TREE" in name.upper() else "allreduce-ring"
        after = COLLECTIVES[kind](self.made, ranks, size, before, root)
        for r, event in zip(ranks, joined.events.values(), strict=True):
            self.result[event] = after[r]

    def _wait(self, r: int, request: int) -> bool:
        requests = [request] if request >= 0 else list(self.open[r])
        done: list[int] = []
        received: list[int] = []
        for event in (e for q in requests for e in self.open[r][q]):
            if event in self.joined:
                if event not in self.result:
                    return False
                done += self.result[event]
                continue
            sender = event if self.kinds[self.trace.name[event]] == "isend" else self.partner[event]
            if sender not in self.message:
                return False
            done.append(self.message[sender])
            if sender != event:
                received.append(sender)
        self.ends[r] = (*self.ends[r], *done, *self._own_work(r, received))
        for q in requests:
            del self.open[r][q]
        return True

    def _own_work(self, r: int, sends: Sequence[int]) -> tuple[int, ...]:
        """What the process of row r does itself with the messages of these sends, from now on."""
        size = sum(self.made.bytes[self.message[send]] for send in sends)
        return (self.made.delay(self.overhead * size, self.ends[r]),) if self.overhead and size else ()


def _in_sequence(trace: Trace, row: Ints, stream: NDArray[np.bool_]) -> list[Ints]:
    """The events of a process that follow one another: the calls of its host, and those of each stream."""
    on = row[stream]
    found = [row[~stream], *(on[trace.line[on] == line] for line in np.unique(trace.line[on]))]
    return [part for part in found if len(part)]


def _of_schedule(trace: Trace, compute: bool) -> Graph:
    processes = np.unique(trace.process)
    peers = trace.peer[trace.peer >= 0]
    graph = Graph(int(max(processes.max(), peers.max(initial=0))) + 1)
    needs: list[list[int]] = [[] for _ in range(len(trace))]
    assert trace.requires is not None
    for event, needed in trace.requires.tolist():
        needs[event].append(needed)
    number: dict[int, int] = {}
    waiting = [len(n) for n in needs]
    after: list[list[int]] = [[] for _ in needs]
    for event, n in enumerate(needs):
        for needed in n:
            after[needed].append(event)
    ready = [e for e, w in enumerate(waiting) if w == 0]
    while ready:
        event = ready.pop()
        before = [number[n] for n in needs[event]]
        if trace.category[event] == Category.mpi and trace.names[trace.name[event]] == "send":
            number[event] = graph.message(
                int(trace.process[event]), int(trace.peer[event]), float(trace.bytes[event]), before
            )
        else:
            calc = trace.category[event] != Category.mpi and compute
            number[event] = graph.delay(float(trace.end[event] - trace.start[event]) * 1e-9 if calc else 0.0, before)
        for other in after[event]:
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    if len(number) < len(trace):
        raise ModelError(f"{trace.path}: the schedule has a cycle: some of its operations wait for themselves")
    return graph
