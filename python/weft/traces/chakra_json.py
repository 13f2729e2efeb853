"""The nodes of a Chakra execution trace in JSON, as Chakra's feeder reads it: an array `workload_graph`.

Names of keys: https://github.com/mlcommons/chakra, src/feeder/json_node.cpp
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from weft.traces import chrome
from weft.traces.chakra_nodes import GROUP, NUMBERS, Nodes
from weft.traces.protobuf_columns import Texts

KEY = "workload_graph"
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[int, msgspec.Meta(ge=1 - 2**63, le=2**63 - 1)]


class _Node(msgspec.Struct, gc=False):
    id: _Count = msgspec.field(name="Id")
    name: str = msgspec.field(name="Name", default="")
    type: _Count = msgspec.field(name="NodeType", default=0)
    data_deps: list[_Count] = []
    runtime: _Count = 0
    is_cpu_op: bool = False
    comm_size: _Number | None = None
    comm_src: _Number | None = None
    comm_dst: _Number | None = None
    comm_tag: _Number | None = None
    comm_type: _Number | None = None
    tensor_size: _Number | None = None


def nodes(path: Path, texts: Texts) -> Nodes:
    """The nodes of a file, which have no start times. Raises ValueError if the file is damaged."""
    found: list[_Node] = list(chrome.Events(path, _Node, KEY))
    needs = [(k, needed) for k, node in enumerate(found) for needed in node.data_deps]

    def column(values: list[Any]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    attributes = {}
    for name in (*NUMBERS, GROUP):
        given = [(k, int(value)) for k, n in enumerate(found) if (value := getattr(n, name, None)) is not None]
        attributes[name] = column([k for k, _ in given]), column([value for _, value in given])
    return Nodes(
        column([n.id for n in found]), column([n.type for n in found]),
        column([texts.number(n.name.encode()) for n in found]), np.zeros(len(found), dtype=np.int64),
        column([n.runtime for n in found]), column(needs).reshape(-1, 2), attributes,
    )  # fmt: skip
