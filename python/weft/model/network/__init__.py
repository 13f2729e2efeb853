"""Replay of communication graphs on network topologies with static routes and max-min fair sharing of links.

A graph consists of delays (computation) and messages, with dependencies between them. A message first waits for its
latency and then flows at the rate that progressive filling assigns to it among all current flows (Bertsekas and
Gallager, Data Networks, section 6.5.2). The replay of MPI traces follows FENATE (ECP-HIHE01-35, section 4.5.1).
"""

from __future__ import annotations

from weft.model.network.collectives import COLLECTIVES
from weft.model.network.flows import Outcome, bound, max_min, replay
from weft.model.network.from_trace import of_trace
from weft.model.network.graph import Graph
from weft.model.network.network import Network
from weft.model.network.patterns import collective, gather_scatter, ping_pong, ring, transpose
from weft.model.network.summary import results
from weft.model.network.topologies import KINDS, Topology, default_sizes, dragonfly, fat_tree, full, topology, torus

__all__ = [
    "COLLECTIVES", "KINDS", "Graph", "Network", "Outcome", "Topology", "bound", "collective", "default_sizes",
    "dragonfly", "fat_tree", "full", "gather_scatter", "max_min", "of_trace", "ping_pong", "replay", "results", "ring",
    "topology", "torus", "transpose",
]  # fmt: skip
