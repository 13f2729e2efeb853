"""A network: a topology with the rates and latencies of its links."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from weft.model.machine import Machine
from weft.model.network.topologies import Floats, Topology, topology, torus
from weft.model.result import ModelError, require_positive


@dataclass
class Network:
    """A topology with rates and latencies. Consecutive ranks share a node."""

    topology: Topology
    rate: float  # byte/s per link
    latency: float = 0.0  # s per message
    hop: float = 0.0  # extra latency per link, s
    ranks_per_node: int = 1
    node_rate: float = math.inf  # byte/s per rank, inside a node
    node_latency: float = 0.0
    _routes: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        require_positive(rate=self.rate, ranks_per_node=self.ranks_per_node)
        if min(self.latency, self.hop, self.node_latency) < 0 or not self.node_rate > 0:
            raise ModelError("the latencies of a network must not be negative, and its rates must be above zero")

    @property
    def ranks(self) -> int:
        """The number of ranks that fit on the network."""
        return self.topology.nodes * self.ranks_per_node

    def capacities(self) -> Floats:
        """The rates of all links (byte/s): the topology's, then one per rank for messages inside its node."""
        inside = np.full(self.ranks, min(self.node_rate, 1e300))
        return np.concatenate([self.topology.capacity * self.rate, inside])

    def path(self, a: int, b: int) -> tuple[int, ...]:
        """The links on the way from rank a to rank b; empty if they are the same rank."""
        if a == b:
            return ()
        first, last = a // self.ranks_per_node, b // self.ranks_per_node
        if first == last:
            return (len(self.topology.capacity) + a,)
        key = (first, last)
        if key not in self._routes:
            self._routes[key] = self.topology.route(first, last)
        return self._routes[key]

    def wait(self, a: int, b: int) -> float:
        """The latency (s) of a message from rank a to rank b."""
        if a == b:
            return 0.0
        if a // self.ranks_per_node == b // self.ranks_per_node:
            return self.node_latency
        return self.latency + self.hop * len(self.path(a, b))

    @classmethod
    def of(cls, machine: Machine) -> Network:
        """The network of a described machine. Raises ModelError if the description has no topology."""
        if machine.topology is None:
            raise ModelError(
                f"{machine.title}: the description has no topology; give --topology and --sizes instead of --machine"
            )
        network, node = machine.links.network, machine.link("node")
        rate = machine.card_bytes_per_second
        link = machine.topology.link_bytes_per_second
        between = 1.0 if link is None else link.value / rate
        kind, sizes = machine.topology.kind, machine.topology.sizes
        made = topology(kind, sizes, between)
        if kind == "torus":
            per_router, widths = machine.topology.nodes_per_router, machine.topology.widths
            made = torus(*sizes, per_router=per_router, widths=widths, between=between)
        return cls(
            made, rate, network.latency_seconds.value, 0.0, machine.ranks_per_node, node.bytes_per_second.value,
            node.latency_seconds.value,
        )  # fmt: skip
