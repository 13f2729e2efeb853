"""The rate that a job gets from shared links between switches: global links, uplinks of leaves, links of a torus.

A rank's share of the network is the least of three rates: its own injection, its part of the node's card, and its part
of these links for the pattern at hand. Placement of a job: on a dragonfly, evenly over all groups (over one group, if
the job is small enough to be packed); on a fat tree, on consecutive leaves; on a torus, at random in a box of routers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.model.machine import Machine, Topology


@dataclass(frozen=True)
class Fabric:
    """The rates of the shared links for a job, in byte/s per direction; infinite where they do not limit it."""

    groups: int  # number of groups of a dragonfly or leaves of a tree that contain nodes of the job
    group_rate: float  # rate of all data that leaves one of these groups
    random_rate: float  # rate of one rank whose messages go to random places in the job


def fabric(machine: Machine, ranks: int) -> Fabric:
    """The shared links of a job with this many ranks. Those of a machine without a topology are not a limit."""
    topology = machine.topology
    nodes = -(-ranks // machine.ranks_per_node)
    if topology is None or topology.kind == "full" or nodes == 1:
        return Fabric(1, math.inf, math.inf)
    link = topology.link_bytes_per_second
    rate = machine.card_bytes_per_second if link is None else link.value
    if topology.usable_share is not None:
        rate *= topology.usable_share.value
    if topology.kind == "torus":
        return Fabric(1, math.inf, _torus_rate(topology, nodes, ranks, rate))
    if topology.kind == "fat-tree":
        per_leaf, leaves, taper = (*topology.sizes, 1)[:3]
        groups, links = min(leaves, -(-nodes // per_leaf)), max(1, per_leaf // taper)
    else:
        all_groups, _, each = (*topology.sizes, 1)[:3]
        packed = topology.packed_nodes
        groups = 1 if packed is not None and nodes <= packed.value else min(all_groups, nodes)
        links = each * (all_groups - 1)  # to every other group: under detours, all of them carry the job's messages
    if groups == 1:
        return Fabric(1, math.inf, math.inf)
    leaving = (
        ranks / groups * (groups - 1) / groups
    )  # number of ranks whose whole data leaves a group if messages go anywhere
    return Fabric(groups, links * rate, links * rate / leaving)


def _torus_rate(topology: Topology, nodes: int, ranks: int, rate: float) -> float:
    """Byte/s per rank at which random traffic saturates the busiest direction of a torus, from the mean hops."""
    routers = -(-nodes // topology.nodes_per_router)
    widths = topology.widths or (1,) * len(topology.sizes)
    rates = []
    for size, extent, width in zip(topology.sizes, _box(topology.sizes, routers), widths, strict=True):
        # Mean distance of two random places: around the ring if the job fills it, else along the box.
        hops = size / 4 if extent == size else (extent**2 - 1) / (3 * extent)
        if hops > 0:
            rates.append(2 * routers * width * rate / (ranks * hops))
    return min(rates, default=math.inf)


def _box(sizes: tuple[int, ...], routers: int) -> list[float]:
    """The extents of a box of about `routers` routers in a torus of these sizes, as nearly cubic as possible."""
    extents: list[float] = [1.0] * len(sizes)
    left, open_ = float(routers), sorted(range(len(sizes)), key=lambda k: sizes[k])
    for place, k in enumerate(open_):
        extents[k] = min(float(sizes[k]), left ** (1 / (len(open_) - place)))
        left /= extents[k]
    return extents
