"""Reader of Chakra execution traces of MLCommons (`.et`): a graph of computation, copies and communication of one rank.

A file is a sequence of messages, each after its length: metadata, then nodes with dependencies and durations. Most
files have no times. Events then get the times that they would have if every node started as soon as all nodes it
depends on have ended and its thread or stream is free. https://github.com/mlcommons/chakra, et_def.proto
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.traces import apis, protobufs
from weft.traces.head import Head
from weft.traces.protobufs import text
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "a Chakra execution trace (.et)"

_FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "Metadata": {"version": (1, "bytes"), "attributes": (2, "*Attribute")},
    "Node": {
        "id": (1, "uint"), "name": (2, "bytes"), "type": (3, "int"), "control": (4, "*uint"), "data": (5, "*uint"),
        "start_micros": (6, "uint"), "duration_micros": (7, "uint"), "attributes": (10, "*Attribute"),
    },
    "Attribute": {
        "name": (1, "bytes"), "int32": (7, "int"), "int64": (9, "int"), "uint32": (11, "uint"), "uint64": (13, "uint"),
        "sint32": (15, "sint"), "sint64": (17, "sint"), "bool": (27, "bool"), "text": (29, "bytes"),
    },
}  # fmt: skip
_NUMBERS = ("int64", "int32", "uint64", "uint32", "sint64", "sint32", "bool")
_METADATA, _LOAD, _STORE, _COMPUTE, _SEND, _RECEIVE, _COLLECTIVE = range(1, 8)
_COLLECTIVES = (
    "allreduce", "reduce", "allgather", "gather", "scatter", "bcast", "alltoall", "reduce_scatter", "reduce_scatter",
    "barrier",
)  # fmt: skip
_RANK = re.compile(r"\.(\d{1,7})\.et(?:\.gz)?$")
_LONGEST = 2**50  # ns, 13 days for one node


def probe(head: Head) -> bool:
    """The first message is metadata: a version, or attributes with names. A node with an id and a name follows."""
    try:
        length, at = protobufs.varint(head.data, 0)
        first = list(protobufs.fields(head.data[at : at + length]))
        if length == 0 or not first or any((n, t) not in ((1, 2), (2, 2)) for n, t, _ in first):
            return False
        for number, _, value in first:
            assert isinstance(value, bytes)
            if number == 1 and not re.fullmatch(rb"[\w.+-]{1,40}", value):
                return False
            if number == 2 and next(protobufs.fields(value), (0,))[:2] != (1, 2):
                return False
        size, at = protobufs.varint(head.data, at + length)
        node = list(protobufs.fields(head.data[at : at + size]))
    except (ValueError, IndexError):
        return False
    return (2, protobufs.BYTES) in [field[:2] for field in node] and all(n <= 10 for n, _, _ in node)


def read(path: Path) -> Trace:
    """Reads every node, and its data dependencies as `requires`; control dependencies only order calls.

    The rank is the number in the file's name (`NAME.RANK.et`). Nodes that run on a device are on the stream that the
    file gives, other nodes on its threads.
    """
    name = _RANK.search(path.name)
    rank = int(name[1]) if name else 0
    builder = Builder("chakra", path)
    index: dict[int, int] = {}
    needs: list[tuple[int, int]] = []  # a node, and the id of one that it depends on
    rows, lines, length, start = [], [], [], []
    for i, node in enumerate(_nodes(path)):
        if node.duration_micros * 1000 > _LONGEST:
            raise ValueError(f"{path}: node {node.id} lasts {node.duration_micros} µs, which is too long")
        of = _attributes(node)
        host = of.get("is_cpu_op", 0) == 1
        place = of.get("tid", 0) if host else of.get("stream", of.get("tid", 0))
        line = builder.line(rank, f"{'thread' if host else 'stream'} {place}", "host" if host else "stream")
        lines.append(line)
        rows.append((line, *_row(builder, node, of, host)))
        length.append(int(node.duration_micros) * 1000)
        start.append(int(node.start_micros) * 1000)
        index[node.id] = i
        needs += [(i, d) for d in node.data]
    if not rows:
        raise ValueError(f"{path}: the Chakra trace has no nodes")
    if len(index) < len(rows):
        raise ValueError(f"{path}: {len(rows) - len(index)} nodes have the id of another node")
    pairs = [(i, index[d]) for i, d in needs if d in index]
    missing = len(needs) - len(pairs)
    if not any(start):
        order = [index[number] for number in sorted(index)]
        start = _schedule(path, order, lines, length, pairs)
        builder.notes.append(
            "the trace has no times; nodes start when the nodes they depend on have ended and their thread or stream "
            "is free"
        )
    if missing:
        builder.notes.append(f"{missing} dependencies on nodes that are not in the file are ignored")
    names = ("line", "category", "name", "bytes", "peer", "correlation", "group")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    builder.add(start=start, end=[s + n for s, n in zip(start, length, strict=True)], **columns)
    return builder.build(requires=np.array(sorted(set(pairs)), dtype=np.int64).reshape(-1, 2))


def _nodes(path: Path) -> Any:
    classes = protobufs.schema("weft.chakra", _FIELDS)
    data = protobufs.content(path)
    at, count = 0, 0
    while at < len(data):
        try:
            length, at = protobufs.varint(data, at)
        except IndexError:
            length = len(data)
        except ValueError as error:
            raise ValueError(f"{path}: {DESCRIPTION} that is damaged after message {count} ({error})") from None
        if at + length > len(data):
            raise ValueError(f"{path}: {DESCRIPTION} that ends within message {count}; was the file cut short?")
        kind = "Node" if count else "Metadata"
        message = protobufs.parse(path, classes[kind], data[at : at + length], DESCRIPTION)
        at, count = at + length, count + 1
        if kind == "Node" and message.type != _METADATA:
            yield message


def _attributes(node: Any) -> dict[str, Any]:
    """The attributes of a node: numbers as int, text as str."""
    found: dict[str, Any] = {}
    for attribute in node.attributes:
        if attribute.HasField("text"):
            found[text(attribute.name)] = text(attribute.text)
        else:
            number = next((f for f in _NUMBERS if attribute.HasField(f)), None)
            found |= {text(attribute.name): int(getattr(attribute, number))} if number else {}
    return found


def _row(builder: Builder, node: Any, of: dict[str, Any], host: bool) -> tuple[int, ...]:
    """Category, name, bytes, peer, correlation and group of a node."""
    name = text(node.name) or f"node {node.id}"
    moved, peer, group = -1, -1, -1
    if node.type in (_SEND, _RECEIVE):
        send = node.type == _SEND
        category, name = Category.mpi, f"{'isend' if send else 'recv'} ({name})"
        moved, peer, group = (
            of.get("comm_size", -1),
            of.get("comm_dst" if send else "comm_src", -1),
            of.get("comm_tag", -1),
        )
    elif node.type == _COLLECTIVE and "comm_type" in of:
        which = of["comm_type"]
        joins = _COLLECTIVES[which] if 0 <= which < len(_COLLECTIVES) else "collective"
        category, name, moved = Category.mpi, f"{joins} ({name})", of.get("comm_size", -1)
        if str(of.get("pg_name", "")).isdigit():
            group = int(of["pg_name"][:18])
    elif node.type in (_LOAD, _STORE):
        category, moved = Category.copy, of.get("tensor_size", -1)
    else:
        category = Category.cpu if host else apis.kernel(name)
    # A device node is launched by the host node it depends on first; a host node launches under its own id.
    link = int(node.id) if host else next((int(d) for d in node.data), -1)
    link = link if link < 2**63 else -1
    peer = peer if 0 <= peer < 2**31 else -1
    return int(category), builder.name(name), max(-1, min(moved, 2**62)), peer, link, group


@dataclass
class _Queue:
    """The nodes of a line that nothing holds up but the line itself."""

    free: int = 0
    ready: list[int] = field(default_factory=list)  # places of the nodes that are ready when the line is free
    coming: list[tuple[int, int]] = field(default_factory=list)  # time at which a node is ready, and its place

    def next(self) -> tuple[int, int] | None:
        """When the next node starts, and its place; None if no node is left."""
        if not self.ready and self.coming:
            self.free = max(self.free, self.coming[0][0])
        while self.coming and self.coming[0][0] <= self.free:
            heapq.heappush(self.ready, heapq.heappop(self.coming)[1])
        return (self.free, self.ready[0]) if self.ready else None


def _schedule(
    path: Path, order: list[int], lines: list[int], length: list[int], pairs: list[tuple[int, int]]
) -> list[int]:
    """Start times: of the nodes that could start next on a free line, the one ready longest goes first."""
    after: dict[int, list[int]] = defaultdict(list)
    waits = [0] * len(order)
    for node, needed in pairs:
        after[needed].append(node)
        waits[node] += 1
    place = {node: k for k, node in enumerate(order)}
    start, earliest = [0] * len(order), [0] * len(order)
    queues: dict[int, _Queue] = defaultdict(_Queue)
    turns: list[tuple[int, int, int]] = []  # start of the next node of a line, its place, and the line

    def offer(line: int) -> None:
        if (turn := queues[line].next()) is not None:
            heapq.heappush(turns, (*turn, line))

    for node in order:
        if waits[node] == 0:
            heapq.heappush(queues[lines[node]].ready, place[node])
    for line in list(queues):
        offer(line)
    done = 0
    while turns:
        time, k, line = heapq.heappop(turns)
        queue = queues[line]
        if queue.next() != (time, k):
            continue  # since then, another node became ready or started
        heapq.heappop(queue.ready)
        node = order[k]
        start[node] = time
        end = queue.free = time + length[node]
        done += 1
        changed = {line}
        for later in after[node]:
            earliest[later] = max(earliest[later], end)
            waits[later] -= 1
            if waits[later] == 0:
                heapq.heappush(queues[lines[later]].coming, (earliest[later], place[later]))
                changed.add(lines[later])
        for one in changed:
            offer(one)
    if done < len(order):
        raise ValueError(f"{path}: the dependencies of {len(order) - done} nodes have a cycle")
    return start
