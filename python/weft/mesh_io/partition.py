"""Partitioning of a mesh: METIS on the graph of elements and faces, or recursive coordinate bisection."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

PARTITIONERS = ("metis", "rcb")


class WholeMesh(Protocol):
    """The part of ``_weft.mesh.WholeMesh`` that partitioning needs."""

    @property
    def neighbors(self) -> npt.NDArray[np.int64]:
        """The neighbour across each face [E][6], as 6 x element + face; negative if there is none."""

    def recursive_bisection(self, parts: int) -> npt.NDArray[np.int32]:
        """The part of each element [E] by recursive coordinate bisection."""


def partition(whole: WholeMesh, parts: int, method: str) -> npt.NDArray[np.int32]:
    """The part of each element [E]. No part is empty; ``parts`` must be at most E."""
    if method not in PARTITIONERS:
        raise ValueError(f"unknown partitioner {method!r}; known: {', '.join(PARTITIONERS)}")
    if parts == 1:
        return np.zeros(len(whole.neighbors), np.int32)
    if method == "rcb":
        return whole.recursive_bisection(parts)
    part = _metis(np.asarray(whole.neighbors) // 6, parts)
    # With few elements per part, METIS misses its own tolerance, and imbalance costs more than a longer cut.
    fair = -(-len(part) // parts)
    if np.bincount(part, minlength=parts).max() > 1.03 * fair or len(np.unique(part)) < parts:
        return whole.recursive_bisection(parts)
    return part


def _metis(neighbors: npt.NDArray[np.int64], parts: int) -> npt.NDArray[np.int32]:
    """The parts by METIS. ``neighbors`` [E][6] is the element across each face, negative if there is none."""
    import pymetis

    own = np.arange(len(neighbors))[:, None]
    graph = np.sort(np.where(neighbors == own, -1, neighbors), axis=1)
    edge = graph >= 0
    edge[:, 1:] &= graph[:, 1:] != graph[:, :-1]  # periodic neighbours may share two faces
    starts = np.concatenate([[0], np.cumsum(edge.sum(axis=1))])
    # Recursive bisection balances to the element, while METIS's k-way cut allows an imbalance of 3 %.
    cut = pymetis.part_graph(parts, pymetis.CSRAdjacency(starts, graph[edge]), recursive=True)
    return np.array(cut.vertex_part, np.int32)
