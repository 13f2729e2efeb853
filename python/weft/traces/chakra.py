"""Reader of Chakra execution traces of MLCommons: a graph of computation, copies and communication of one rank.

A file (`.et`) is a sequence of messages, each after its length: metadata, then nodes with dependencies and durations.
The same nodes may be in JSON. Most files have no times. Events then get the times that they would have if every node
started as soon as all nodes it depends on have ended and its thread or stream is free.
https://github.com/mlcommons/chakra, et_def.proto
"""

from __future__ import annotations

import heapq
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.traces import apis, chakra_json, protobufs
from weft.traces.chakra_nodes import COLLECTIVE, LOAD, NONE, RECEIVE, SEND, STORE, Nodes, Values, nodes
from weft.traces.head import Head, look
from weft.traces.protobuf_columns import Texts, combinations
from weft.traces.protobufs import text
from weft.traces.table import Builder, Category, Kind, Trace, distinct

DESCRIPTION = "a Chakra execution trace (.et, or JSON)"

_COLLECTIVES = (
    "allreduce", "reduce", "allgather", "gather", "scatter", "bcast", "alltoall", "reduce_scatter", "reduce_scatter",
    "barrier",
)  # fmt: skip
_RANK = re.compile(r"\.(\d{1,7})\.(?:et|json)(?:\.gz)?$")
_LONGEST = 2**50 // 1000  # µs, 13 days for one node
_LAST = 2**62  # ns, 146 years


def probe(head: Head) -> bool:
    """Whether the first message is metadata (a version, or attributes with names) and a node with id and name follows.

    A file in JSON begins with the name of its array.
    """
    if head.is_json():
        return head.text.lstrip("{ \t\r\n").startswith(f'"{chakra_json.KEY}"')
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

    The rank is the number in the file's name (`NAME.RANK.et`, `NAME.RANK.json`). Nodes that run on a device are on the
    stream that the file gives, other nodes on its threads.
    """
    named = _RANK.search(path.name)
    builder, texts = Builder("chakra", path), Texts()
    written = look(path).is_json()
    found = chakra_json.nodes(path, texts) if written else nodes(path, texts, DESCRIPTION)
    if len(found.id) == 0:
        raise ValueError(f"{path}: the Chakra trace has no nodes")
    _check_times(path, found)
    order = np.argsort(found.id.view(np.uint64), kind="stable")
    again = int(np.count_nonzero(np.diff(found.id[order]) == 0))
    if again:
        raise ValueError(f"{path}: {again} nodes have the id of another node")
    pairs, missing = _pairs(found, order)
    host = found.attribute("is_cpu_op", 0) == 1
    line = _lines(builder, found, host, int(named[1]) if named else 0)
    start, length = found.start * 1000, found.duration * 1000
    if not np.any(start):
        start = _schedule(path, order, line, length, pairs)
        builder.notes.append(
            "the trace has no times; nodes start when the nodes they depend on have ended and their thread or stream "
            "is free"
        )
    if missing:
        builder.notes.append(f"{missing} dependencies on nodes that are not in the file are ignored")
    builder.add(line=line, start=start, end=start + length, **_columns(builder, found, texts, host))
    return builder.build(requires=pairs)


def _check_times(path: Path, found: Nodes) -> None:
    """Raises ValueError if a node starts too late or lasts too long."""
    for said, micros, most in (("lasts", found.duration, _LONGEST), ("starts after", found.start, _LAST // 1000)):
        wrong = np.flatnonzero(micros.view(np.uint64) > most)
        if len(wrong):
            number, time = (int(column.view(np.uint64)[wrong[0]]) for column in (found.id, micros))
            raise ValueError(f"{path}: node {number} {said} {time} µs, which is too long")


def _pairs(found: Nodes, order: Values) -> tuple[Values, int]:
    """The distinct pairs of a node and one that it depends on, sorted.

    And the number of dependencies without a node.
    """
    known = found.id.view(np.uint64)[order]
    node, wanted = found.needs[:, 0], np.ascontiguousarray(found.needs[:, 1]).view(np.uint64)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    here = known[at] == wanted
    code = distinct(node[here] * len(known) + order[at[here]])
    return np.stack((code // len(known), code % len(known)), axis=1), int(np.count_nonzero(~here))


def _lines(builder: Builder, found: Nodes, host: NDArray[np.bool_], rank: int) -> Values:
    """The line of each node: a thread of the host, or a stream, numbered like its thread if it has no own number."""
    thread, stream = found.attribute("tid", 0), found.attribute("stream", NONE)
    place = np.where(host | (stream == NONE), thread, stream)
    first, which = combinations(place, host)
    number = np.empty(len(first), dtype=np.int64)
    for k in np.argsort(first).tolist():  # in the order in which they first occur
        kind: Kind = "host" if host[first[k]] else "stream"
        number[k] = builder.line(rank, f"{'thread' if kind == 'host' else 'stream'} {place[first[k]]}", kind)
    return number[which]


def _columns(builder: Builder, found: Nodes, texts: Texts, host: NDArray[np.bool_]) -> dict[str, Values]:
    """Category, name, bytes, peer, correlation and group of nodes."""
    send, receive = found.type == SEND, found.type == RECEIVE
    which = found.attribute("comm_type", NONE)
    collective = (found.type == COLLECTIVE) & (which != NONE)
    which[(which < 0) | (which >= len(_COLLECTIVES))] = len(_COLLECTIVES)
    copy = (found.type == LOAD) | (found.type == STORE)
    does = np.select([send, receive, collective, copy, host], [3, 4, 5 + which, 0, 1], 2)
    names = found.name.copy()
    for k in np.flatnonzero(names == 0).tolist():
        names[k] = texts.number(f"node {found.id.view(np.uint64)[k]}".encode())
    # The name and category for each kind of node and each text, and the index of each node's pair.
    first, which = combinations(does, names)
    said = [_named(_DOES[d], text(texts.all[n])) for d, n in np.stack((does, names))[:, first].T.tolist()]
    moved = np.select([send | receive | collective, copy],
                      [found.attribute("comm_size"), found.attribute("tensor_size")], -1)  # fmt: skip
    peer = np.select([send, receive], [found.attribute("comm_dst"), found.attribute("comm_src")], -1)
    # A device node is launched by the host node it depends on first; a host node launches under its own id.
    link, launcher = np.full(len(host), -1, dtype=np.int64), found.needs[::-1]
    link[launcher[:, 0]] = launcher[:, 1]
    return {
        "category": np.array([int(category) for category, _ in said])[which],
        "name": np.array([builder.name(name) for _, name in said])[which],
        "bytes": np.clip(moved, -1, 2**62),
        "peer": np.where((peer >= 0) & (peer < 2**31), peer, -1),
        "correlation": np.maximum(np.where(host, found.id, link), -1),
        "group": np.select([send | receive, collective], [found.attribute("comm_tag"), found.attribute("pg_name")], -1),
    }


_DOES = ("copy", "host", "device", "isend", "recv", *_COLLECTIVES, "collective")


def _named(does: str, name: str) -> tuple[Category, str]:
    """The category, and the name in the table, of nodes with this name and this kind of work."""
    if does in ("copy", "host"):
        return Category.copy if does == "copy" else Category.cpu, name
    return (apis.kernel(name), name) if does == "device" else (Category.mpi, f"{does} ({name})")


def _schedule(path: Path, order: Values, line: Values, length: Values, pairs: Values) -> Values:
    """Start times: of the nodes that could start next on a free line, the first in `order` goes first."""
    count = len(order)
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    node, needed = place[pairs[:, 0]], place[pairs[:, 1]]
    by = np.argsort(needed, kind="stable")
    after, first = node[by].tolist(), np.searchsorted(needed[by], np.arange(count + 1)).tolist()
    needs = np.bincount(node, minlength=count)
    waits, lines, lasts, start = needs.tolist(), line[order].tolist(), length[order].tolist(), [0] * count
    # Nodes that could start on each line: those without dependencies, in descending order of places; others in a heap.
    ready: list[tuple[list[int], list[int]]] = [([], []) for _ in range(max(lines) + 1)]
    for k in np.flatnonzero(needs == 0)[::-1].tolist():
        ready[lines[k]][0].append(k)
    busy = [False] * len(ready)
    ends: list[tuple[int, int]] = []  # ends and places of the nodes that run
    time, done, changed = 0, 0, list(range(len(ready)))
    while True:
        for one in changed:
            if busy[one]:
                continue
            least, heap = ready[one]
            if least or heap:
                k = least.pop() if least and not (heap and heap[0] < least[-1]) else heapq.heappop(heap)
                start[k], busy[one] = time, True
                heapq.heappush(ends, (time + lasts[k], k))
        if not ends:
            break
        time, changed = ends[0][0], []
        while ends and ends[0][0] == time:
            k = heapq.heappop(ends)[1]
            done += 1
            busy[lines[k]] = False
            changed.append(lines[k])
            for later in after[first[k] : first[k + 1]]:
                waits[later] -= 1
                if waits[later] == 0:
                    heapq.heappush(ready[lines[later]][1], later)
                    changed.append(lines[later])
    if done < count:
        raise ValueError(f"{path}: the dependencies of {count - done} nodes have a cycle")
    if time > _LAST:
        raise ValueError(f"{path}: its nodes take more than 146 years one after another")
    return np.array(start, dtype=np.int64)[place]
