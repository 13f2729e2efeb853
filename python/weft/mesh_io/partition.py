"""Which rank gets which element: METIS on the graph of elements and faces, or recursive coordinate bisection."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

PARTITIONERS = ("metis", "rcb")


def partition(whole: Any, parts: int, method: str) -> npt.NDArray[np.int32]:
    """Part [E] of each element of a ``_weft.mesh.WholeMesh``; no part is empty. ``parts`` is at most E."""
    if method not in PARTITIONERS:
        raise ValueError(f"unknown partitioner {method!r}; known: {', '.join(PARTITIONERS)}")
    if parts == 1:
        return np.zeros(len(whole.neighbors), np.int32)
    if method == "rcb":
        return whole.recursive_bisection(parts)
    part = _metis(np.asarray(whole.neighbors) // 6, parts)
    # With few elements a part METIS misses its own tolerance, and a slow rank costs more than a longer cut.
    fair = -(-len(part) // parts)
    if np.bincount(part, minlength=parts).max() > 1.03 * fair or len(np.unique(part)) < parts:
        return whole.recursive_bisection(parts)
    return part


def _metis(neighbors: npt.NDArray[np.int64], parts: int) -> npt.NDArray[np.int32]:
    """``neighbors`` [E][6]: the element across each face, negative where there is none."""
    import pymetis

    own = np.arange(len(neighbors))[:, None]
    graph = np.sort(np.where(neighbors == own, -1, neighbors), axis=1)
    edge = graph >= 0
    edge[:, 1:] &= graph[:, 1:] != graph[:, :-1]  # periodic neighbours may meet in two faces
    starts = np.concatenate([[0], np.cumsum(edge.sum(axis=1))])
    # Recursive bisection: balanced to the element, where METIS's k-way cut allows itself 3 %.
    cut = pymetis.part_graph(parts, pymetis.CSRAdjacency(starts, graph[edge]), recursive=True)
    return np.array(cut.vertex_part, np.int32)
