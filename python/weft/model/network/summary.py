"""The results of `weft model network`."""

from __future__ import annotations

from weft.model.network.flows import bound, replay
from weft.model.network.graph import Graph
from weft.model.network.network import Network
from weft.model.result import Result, exact

METHOD = "network"


def results(graph: Graph, network: Network, name: str) -> list[Result]:
    """The replayed time of a graph, and the lower bound by its busiest link."""
    found = replay(graph, network)
    sizes = "x".join(map(str, network.topology.sizes))
    inputs = {
        "topology": f"{network.topology.kind} {sizes}", "ranks": graph.ranks, "ranks per node": network.ranks_per_node,
        "link (B/s)": network.rate, "latency (s)": network.latency, "messages": found.messages, "bytes": found.bytes,
    }  # fmt: skip
    equation = "max-min fair flows, static routes"
    least = min(bound(graph, network), found.seconds)
    return [
        exact(METHOD, f"time, {name}", found.seconds, "s", inputs, equation),
        exact(METHOD, "lower bound by the busiest link", least, "s", inputs, "bytes over a link / its rate"),
        exact(METHOD, "lower bound / time", least / found.seconds if found.seconds else 0.0, "", inputs, "their ratio"),
    ]
