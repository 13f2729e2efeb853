"""Times of halo exchanges and all-reduces on a machine's links."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from weft.model.fabric import fabric
from weft.model.machine import Machine
from weft.model.project.boxes import Halo, crystal_points, halo
from weft.model.result import ModelError

MOST_RANKS = 10_000_000  # the neighbours of each rank are looked at: with these, it takes a quarter of a minute

Path = Literal["direct", "staged"]
Schedule = Literal["pairwise", "crystal"]


def halo_of(
    machine: Machine, ranks: int, box: tuple[int, int, int], order: int, *, corners: bool, periodic: bool
) -> Halo:
    """The halo of a job on a machine, with the groups that its nodes are placed on.

    Raises ModelError for more than MOST_RANKS ranks.
    """
    if ranks > MOST_RANKS:
        raise ModelError(f"{ranks:,} ranks, but workloads on elements are projected on at most {MOST_RANKS:,}")
    groups = fabric(machine, ranks).groups
    return halo(ranks, box, order, machine.ranks_per_node, corners=corners, periodic=periodic, groups=groups)


def waiting_seconds(machine: Machine, near: float, far: float) -> float:
    """Time (s) that messages of no size take which a rank sends at once, inside its node and over the network.

    All are on their way at the same time, so the longer latency counts once. For each further message the software
    takes the gap of LogGP (Alexandrov et al. 1995), which is the latency inside a node.
    """
    inside, between = machine.link("node").latency_seconds.value, machine.link("network").latency_seconds.value
    longer = max(inside * (near > 0), between * (far > 0))
    return longer + min(inside, between) * max(near + far - 1, 0.0)


def moving_seconds(
    machine: Machine,
    ranks: int,
    sent: Halo,
    bytes_per_point: float,
    path: Path = "direct",
    *,
    shared: bool = True,
) -> float:
    """Time (s) that the bytes of an exchange take: inside the node, over the network, and through the host if staged.

    On the network they take the longest of three times: of the rank's own link, of the node's card, and, if `shared`,
    of the links that switches or routers share.
    """
    far = machine.link("network")
    leaving = max(
        sent.network_points * bytes_per_point / far.bytes_per_second.value,
        sent.busiest_node_points * bytes_per_point / machine.card_bytes_per_second,
    )
    if shared:
        links = fabric(machine, ranks)
        leaving = max(leaving, sent.busiest_group_points * bytes_per_point / links.group_rate)
        if links.groups == 1:  # a torus, where neighbours are at random places
            leaving = max(leaving, sent.network_points * bytes_per_point / links.random_rate)
    seconds = sent.node_points * bytes_per_point / machine.link("node").bytes_per_second.value + leaving
    return seconds + (staging_seconds(machine, sent, bytes_per_point) if path == "staged" else 0.0)


def transfer_seconds(
    machine: Machine,
    ranks: int,
    sent: Halo,
    bytes_per_point: float,
    path: Path = "direct",
    *,
    shared: bool = True,
) -> float:
    """Time (s) of an exchange: of its messages, whatever their size, and of their bytes."""
    waiting = waiting_seconds(machine, sent.node_messages, sent.network_messages)
    return waiting + moving_seconds(machine, ranks, sent, bytes_per_point, path, shared=shared)


def staging_seconds(machine: Machine, sent: Halo, bytes_per_point: float) -> float:
    """Time (s) of one copy out of the device and one back into it."""
    return machine.link("host").seconds(2, 2 * (sent.node_points + sent.network_points) * bytes_per_point)


def crystal_seconds(
    machine: Machine,
    ranks: int,
    box: tuple[int, int, int],
    order: int,
    bytes_per_point: float,
    *,
    corners: bool,
    periodic: bool,
) -> float:
    """Time (s) of an exchange by the crystal router: per step one message, packed and unpacked by a kernel each.

    The partners of most steps are far apart, so the bytes that leave a node move at the rate of random traffic.
    """
    near, far = machine.link("node"), machine.link("network")
    card = machine.card_bytes_per_second / min(ranks, machine.ranks_per_node)
    rate = min(far.bytes_per_second.value, card, fabric(machine, ranks).random_rate)
    seconds = 0.0
    for inside, outside_ in crystal_points(
        ranks, box, order, machine.ranks_per_node, corners=corners, periodic=periodic
    ):
        seconds += far.latency_seconds.value if outside_ > 0 else near.latency_seconds.value
        seconds += bytes_per_point * (inside / near.bytes_per_second.value + outside_ / rate)
        packing = 4 * bytes_per_point * (inside + outside_) / machine.device.stream_bytes_per_second.value
        seconds += packing + 2 * machine.device.kernel_seconds.value
    return seconds


def counted_exchange(
    machine: Machine, ranks: int, workload: str, sent: Halo, bytes_per_point: float, path: Path, hiding: float
) -> dict[str, float]:
    """Phases of exchanges and all-reduces by their counted number, of which `hiding` seconds of work hide a part.

    The messages of an exchange travel at the same time, so each level has one latency per exchange. The work takes
    turns with what the processor does for messages itself, so that much of an exchange always shows.
    """
    traffic = machine.traffic[workload]  # type: ignore[index]
    counted = replace(
        sent,
        node_points=sent.node_points * traffic.volume,
        network_points=sent.network_points * traffic.volume,
        busiest_node_points=sent.busiest_node_points * traffic.volume,
        busiest_group_points=sent.busiest_group_points * traffic.volume,
    )
    latencies = min(sent.node_messages, 1) * machine.link("node").latency_seconds.value
    latencies += min(sent.network_messages, 1) * machine.link("network").latency_seconds.value
    travel = traffic.exchanges * latencies + moving_seconds(machine, ranks, counted, bytes_per_point, path)
    data = counted.network_points * bytes_per_point
    fixed = traffic.exchanges * machine.constant("exchange_seconds", workload)
    return {
        "exchange": fixed + max(machine.link("network").busy(data), travel - traffic.overlap * hiding),
        "reductions": traffic.reductions * reduction_seconds(machine, ranks),
    }


def reduction_seconds(machine: Machine, ranks: int) -> float:
    """Time (s) of an all-reduce of one number by recursive doubling: log2 P messages, the first inside the node."""
    if ranks == 1:
        return 0.0
    inside = min(ranks, machine.ranks_per_node)
    stages, near = math.ceil(math.log2(ranks)), math.ceil(math.log2(inside))
    network = machine.link("network").latency_seconds.value
    return near * machine.link("node").latency_seconds.value + (stages - near) * network
