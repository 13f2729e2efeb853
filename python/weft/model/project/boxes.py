"""Boxes of elements on a nearly cubic grid of ranks: the points and messages of their halos."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from weft.model import crystal


@lru_cache(maxsize=4096)
def near_cube(count: int) -> tuple[int, int, int]:
    """The three factors of `count` whose box has the smallest surface, in descending order."""
    best = (count, 1, 1)
    for c in range(1, round(count ** (1 / 3)) + 2):
        if count % c:
            continue
        rest = count // c
        for b in range(c, math.isqrt(rest) + 1):
            if rest % b == 0:
                best = min(best, (rest // b, b, c), key=lambda f: f[0] * f[1] + f[1] * f[2] + f[0] * f[2])
    return best


MOST_FACTORED = 10**9  # elements whose factors are looked for; of more, every box is about the same


def box_of(elements: int) -> tuple[int, int, int]:
    """A box of `elements` elements if they have three similar factors, else a nearly cubic box of about this size."""
    if elements <= MOST_FACTORED and (exact := near_cube(elements))[0] <= 2 * exact[2]:
        return exact
    side = max(1, round(elements ** (1 / 3)))
    return (side, side, max(1, round(elements / side**2)))


@dataclass(frozen=True)
class Halo:
    """Points and messages that the slowest rank sends in one exchange, inside its node and over the network."""

    node_points: float
    node_messages: float
    network_points: float
    network_messages: float
    busiest_node_points: float  # sent over the network by the node that sends most
    busiest_group_points: float = 0.0  # sent out of the group of nodes that sends most


def neighbors(
    chosen: NDArray[np.int64], ranks: int, box: tuple[int, int, int], order: int, corners: bool, periodic: bool
) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.int64], float, float]]:
    """For each direction: which of the chosen ranks have a neighbour there, its rank, their points, and the messages.

    The messages are less than one where other directions lead to the same rank, which gets a single message. The ranks
    form a nearly cubic grid, and each has a box of elements; `halo` says what `corners` means.
    """
    grid = np.array(near_cube(ranks))
    place = np.stack(np.unravel_index(chosen, tuple(grid)), axis=1)
    side = np.array(box) * order + 1 if corners else np.array(box) * (order + 1)
    for direction in itertools.product((-1, 0, 1), repeat=3):
        d = np.array(direction)
        if not d.any() or (not corners and np.abs(d).sum() > 1):
            continue
        there = place + d
        inside = ((there >= 0) & (there < grid)).all(axis=1)
        if periodic:
            there, inside = there % grid, ((there % grid) != place).any(axis=1)
        other = np.ravel_multi_index(tuple(np.clip(there, 0, grid - 1).T), tuple(grid))
        alike = 2 ** np.count_nonzero(d[grid == 2]) if periodic else 1  # both ways round a ring of two
        yield inside, other, float(np.prod(np.where(d == 0, side, 1))), 1 / alike


@lru_cache(maxsize=1024)
def halo(
    ranks: int,
    box: tuple[int, int, int],
    order: int,
    ranks_per_node: int,
    *,
    corners: bool,
    periodic: bool,
    groups: int = 1,
) -> Halo:
    """The halo of a nearly cubic grid of ranks with `box` elements each, in which consecutive ranks share a node.

    Consecutive nodes form `groups` groups of about the same size: groups of a dragonfly, or leaves of a tree.

    With `corners`, as for continuous elements, ranks exchange shared points on faces, edges and corners (order x
    elements + 1 points per direction). Without, as for discontinuous elements, they exchange all points of faces
    ((order + 1) x elements points per direction).
    """
    points = np.zeros((2, ranks))
    messages = np.zeros((2, ranks))
    node = np.arange(ranks) // ranks_per_node
    group = node * groups // (node[-1] + 1)
    out_of_group = np.zeros(ranks)
    for inside, other, size, count in neighbors(np.arange(ranks), ranks, box, order, corners, periodic):
        for level, here in enumerate((inside & (node[other] == node), inside & (node[other] != node))):
            points[level] += size * here
            messages[level] += count * here
        out_of_group += size * (inside & (group[other] != group))
    # The rank with the most traffic, where network traffic counts ten times as much as traffic inside the node.
    worst = int(np.argmax(points[0] + 10 * points[1]))
    leaving = np.bincount(node, weights=points[1])
    return Halo(
        points[0, worst], messages[0, worst], points[1, worst], messages[1, worst], float(leaving.max(initial=0.0)),
        float(np.bincount(group, weights=out_of_group).max(initial=0.0)),
    )  # fmt: skip


CRYSTAL_SAMPLE = 512  # ranks whose messages are followed, spread over all


@lru_cache(maxsize=1024)
def crystal_points(
    ranks: int, box: tuple[int, int, int], order: int, ranks_per_node: int, *, corners: bool, periodic: bool
) -> tuple[tuple[float, float], ...]:
    """For each step of the crystal router, the points that a rank sends inside its node and out of it, in the mean."""
    chosen = np.unique(np.linspace(0, ranks - 1, min(ranks, CRYSTAL_SAMPLE)).astype(np.int64))
    source, target, size = [], [], []
    for inside, other, points, _ in neighbors(chosen, ranks, box, order, corners, periodic):
        source.append(chosen[inside])
        target.append(other[inside])
        size.append(np.full(int(inside.sum()), points))
    found = []
    ends = np.concatenate(source), np.concatenate(target), np.concatenate(size)
    for holder, partner, moved in crystal.steps(*ends, ranks):
        near = holder // ranks_per_node == partner // ranks_per_node
        found.append((float(moved[near].sum()) / len(chosen), float(moved[~near].sum()) / len(chosen)))
    return tuple(found)
