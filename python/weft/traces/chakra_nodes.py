"""The nodes of a Chakra execution trace, in columns.

Numbers of fields: https://github.com/mlcommons/chakra, et_def.proto
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.traces import protobufs
from weft.traces.protobuf_columns import Column, Decoder, Texts, wire_types

FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "Metadata": {"version": (1, "bytes"), "attributes": (2, "*Attribute")},
    "Node": {
        "id": (1, "uint"), "name": (2, "bytes"), "type": (3, "int"), "data": (5, "*uint"), "start_micros": (6, "uint"),
        "duration_micros": (7, "uint"), "attributes": (10, "*Attribute"),
    },
    "Attribute": {
        "name": (1, "bytes"), "int32": (7, "int"), "int64": (9, "int"), "uint32": (11, "uint"), "uint64": (13, "uint"),
        "sint32": (15, "sint"), "sint64": (17, "sint"), "bool": (27, "bool"), "text": (29, "bytes"),
    },
}  # fmt: skip
METADATA, LOAD, STORE, COMPUTE, SEND, RECEIVE, COLLECTIVE = range(1, 8)  # types of nodes
NONE = np.iinfo(np.int64).min  # an attribute that a node lacks

# The attributes that are read: numbers, and the group of a collective, which is a number written as text.
NUMBERS = (
    "is_cpu_op", "tid", "stream", "comm_size", "comm_src", "comm_dst", "comm_tag", "comm_type", "tensor_size",
)  # fmt: skip
GROUP = "pg_name"
_NODE, _ATTRIBUTE = wire_types(FIELDS["Node"]), wire_types(FIELDS["Attribute"])
_VALUES = {number: type_ for number, type_ in FIELDS["Attribute"].values() if type_ != "bytes"}
_TEXT = FIELDS["Attribute"]["text"][0]

Values = NDArray[np.int64]
_COLUMNS = ("id", "type", "name", "start", "duration", "needs")


@dataclass(frozen=True)
class Nodes:
    """Columns of nodes: ids, types, numbers of their names in `Texts`, and times in µs.

    Unsigned numbers are stored as signed ones of the same bits. `needs` are pairs of a node, counted from 0, and the id
    of a node that it depends on.
    """

    id: Values
    type: Values
    name: Values
    start: Values
    duration: Values
    needs: Values
    attributes: dict[str, tuple[Values, Values]]  # by name: the nodes that have it, and the values

    def attribute(self, name: str, default: int = -1) -> Values:
        """The value of an attribute of each node."""
        found = np.full(len(self.id), default, dtype=np.int64)
        owner, value = self.attributes[name]
        found[owner] = value
        return found


def nodes(path: Path, texts: Texts, description: str) -> Nodes:
    """The nodes of a file; the first message is metadata. Raises ValueError if the file is damaged."""
    data = protobufs.content(path)
    decoder, count = Decoder(data), 0
    parts: list[Nodes] = []
    for bounds in protobufs.delimited(path, data, description):
        try:
            part = _batch(decoder, bounds if parts else bounds[1:], texts, count)
        except ValueError as error:
            raise ValueError(f"{path}: {description} that is damaged ({error})") from None
        count += len(part.id)
        parts.append(part)
    columns = {c: np.concatenate([getattr(p, c) for p in parts]) for c in _COLUMNS}
    attributes = {}
    for name in (*NUMBERS, GROUP):
        owner, value = zip(*(p.attributes[name] for p in parts), strict=True)
        attributes[name] = np.concatenate(owner), np.concatenate(value)
    return Nodes(**columns, attributes=attributes)


def _batch(decoder: Decoder, bounds: Values, texts: Texts, before: int) -> Nodes:
    """The nodes among these messages, counted from `before`."""
    count = len(bounds)
    node, _ = decoder.columns(bounds, _NODE)
    type_ = node[3].last(count)
    kept = np.flatnonzero(type_ != METADATA)
    place = np.full(count, -1, dtype=np.int64)
    place[kept] = before + np.arange(len(kept))
    needs = np.stack((place[node[5].owner], node[5].value), axis=1)
    return Nodes(
        node[1].last(count)[kept], type_[kept], texts.numbers(node[2], decoder.data, count)[kept],
        node[6].last(count)[kept], node[7].last(count)[kept], needs[needs[:, 0] >= 0],
        _attributes(decoder, node[10].bounds(), place[node[10].owner]),
    )  # fmt: skip


def _attributes(decoder: Decoder, bounds: Values, owner: Values) -> dict[str, tuple[Values, Values]]:
    """The attributes that are read, of the messages within these bounds, which belong to these nodes (-1: to none)."""
    columns, _ = decoder.columns(bounds, _ATTRIBUTE)
    value, numeric = np.zeros(len(owner), dtype=np.int64), np.zeros(len(owner), dtype=bool)
    for field, type_ in _VALUES.items():
        found = columns[field]
        value[found.owner] = _zigzag(found.value) if type_ == "sint" else found.value
        numeric[found.owner] = True
    named: Column = columns[1]
    read = {}
    for name in NUMBERS:
        mine = named.owner[decoder.equal(named, name.encode())]
        mine = mine[numeric[mine] & (owner[mine] >= 0)]
        read[name] = owner[mine], value[mine]
    group = np.zeros(len(owner), dtype=bool)
    group[named.owner[decoder.equal(named, GROUP.encode())]] = True
    text = columns[_TEXT]
    groups = {}
    for k in np.flatnonzero(group[text.owner] & (owner[text.owner] >= 0)).tolist():
        said = decoder.data[text.at[k] : text.at[k] + text.value[k]]
        if said.isdigit():
            groups[int(owner[text.owner[k]])] = int(said[:18])
    read[GROUP] = np.array([*groups], dtype=np.int64), np.array([*groups.values()], dtype=np.int64)
    return read


def _zigzag(value: Values) -> Values:
    """Signed numbers of those that protobuf stores for them: 0, -1, 1, -2, ..."""
    return (value.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(value & 1)
