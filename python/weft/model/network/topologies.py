"""Topologies: nodes, directed links, and the static route between any two nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.model.machine import SIZES
from weft.model.project.boxes import near_cube
from weft.model.result import ModelError

Floats = NDArray[np.float64]


@dataclass
class Topology:
    """Nodes and directed links. `route` gives the links on the way from one node to another, in order."""

    kind: str
    sizes: tuple[int, ...]
    nodes: int
    route: Callable[[int, int], tuple[int, ...]]
    capacity: Floats  # of each link, relative to a single link


def full(nodes: int) -> Topology:
    """A separate link from every node to every other node."""
    return Topology("full", (nodes,), nodes, lambda a, b: (a * nodes + b,), np.ones(nodes * nodes))


def torus(*sizes: int, per_router: int | None = None, widths: Sequence[int] = (), between: float = 1.0) -> Topology:
    """A periodic grid of routers with dimension-ordered routes, the shorter way around (upwards if both are as short).

    By default routers are nodes. With `per_router`, that many consecutive nodes share a router, each with a link to it.
    `widths` are the links side by side per direction, and `between` is the rate of one relative to a node's.
    """
    routers, each = math.prod(sizes), per_router or 1
    nodes = routers * each
    strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    first_own = 2 * routers * len(sizes)  # of the links of nodes, after those between routers

    def route(a: int, b: int) -> tuple[int, ...]:
        links, here, there = [], a // each, b // each
        for k, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
            x, y = here // stride % size, there // stride % size
            up = (y - x) % size
            steps, way = (up, 0) if up <= size - up else (size - up, 1)
            for _ in range(steps):
                links.append((here * len(sizes) + k) * 2 + way)
                at = here // stride % size
                here += ((at + (1 if way == 0 else -1)) % size - at) * stride
        return tuple(links) if per_router is None else (first_own + a, *links, first_own + nodes + b)

    capacity = np.tile(np.repeat(between * np.array(widths or (1,) * len(sizes), np.float64), 2), routers)
    own = np.ones(0 if per_router is None else 2 * nodes)
    return Topology("torus", sizes, nodes, route, np.concatenate([capacity, own]))


def fat_tree(per_leaf: int, leaves: int, taper: int = 1, *, between: float = 1.0) -> Topology:
    """Two levels: `per_leaf` nodes per leaf switch, and per_leaf / taper links from each leaf to the spines.

    `between` is the rate of a link between switches relative to a node's. The destination determines the spine
    (D-mod-k, Zahavi 2010), so that a shift of all nodes causes no conflicts.
    """
    spines = max(1, per_leaf // taper)
    nodes = per_leaf * leaves
    up = 2 * nodes

    def route(a: int, b: int) -> tuple[int, ...]:
        first, last = a // per_leaf, b // per_leaf
        if first == last:
            return (a, nodes + b)
        spine = b % spines
        return (a, up + first * spines + spine, up + (leaves + last) * spines + spine, nodes + b)

    capacity = np.concatenate([np.ones(up), np.full(2 * leaves * spines, between)])
    return Topology("fat-tree", (per_leaf, leaves, taper), nodes, route, capacity)


def dragonfly(groups: int, per_group: int, links: int = 1, *, between: float = 1.0) -> Topology:
    """Groups of fully connected nodes, with `links` shared links from each group to every other group.

    `between` is the rate of one of these links relative to a node's. Routes are minimal: to the link between the
    groups, over it, and to the node (Kim, Dally, Scott, Abts 2008).
    """
    nodes = groups * per_group

    def route(a: int, b: int) -> tuple[int, ...]:
        first, last = a // per_group, b // per_group
        across = () if first == last else (2 * nodes + first * groups + last,)
        return (a, *across, nodes + b)

    capacity = np.concatenate([np.ones(2 * nodes), np.full(groups * groups, links * between)])
    return Topology("dragonfly", (groups, per_group, links), nodes, route, capacity)


KINDS: dict[str, Callable[..., Topology]] = {
    "full": full,
    "torus": torus,
    "fat-tree": fat_tree,
    "dragonfly": dragonfly,
}


def topology(kind: str, sizes: Sequence[int], between: float = 1.0) -> Topology:
    """A topology by name. `between` is the rate of a link between switches relative to a node's (tree, dragonfly).

    Raises ModelError for unknown names and invalid sizes.
    """
    if kind not in KINDS:
        raise ModelError(f"unknown topology '{kind}'; known: {', '.join(KINDS)}")
    fewest, most, meaning = SIZES[kind]
    text = "x".join(map(str, sizes))
    if not fewest <= len(sizes) <= most or any(s < 1 for s in sizes):
        raise ModelError(f"sizes '{text}' do not fit topology {kind}, which takes {meaning} (whole numbers above zero)")
    if math.prod(sizes[:2] if kind in ("fat-tree", "dragonfly") else sizes) > 10_000_000:
        raise ModelError(f"topology {kind} {text} has more than 10 million nodes; give smaller sizes")
    if kind == "full" and sizes[0] > 4096:
        raise ModelError(
            f"topology full with {sizes[0]} nodes is too large: it has a link per pair of nodes, so at most 4096 nodes "
            "are supported"
        )
    return KINDS[kind](*sizes, between=between) if kind in ("fat-tree", "dragonfly") else KINDS[kind](*sizes)


def default_sizes(kind: str, nodes: int) -> tuple[int, ...]:
    """Sizes for at least `nodes` nodes: a nearly cubic torus, leaves of 16 nodes, groups of 16 nodes."""
    if kind == "torus":
        return near_cube(nodes)
    if kind in ("fat-tree", "dragonfly"):
        inside = min(16, nodes)
        outside = -(-nodes // inside)
        return (inside, outside, 1) if kind == "fat-tree" else (outside, inside, 1)
    return (nodes,)
