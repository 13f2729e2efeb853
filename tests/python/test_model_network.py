"""Networks: routes, max-min fairness, closed forms of patterns and collectives, real traces, and SimGrid."""

from __future__ import annotations

import itertools
import json
import math
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi_run import SECONDS

from weft import traces
from weft.cli.main import weft_command
from weft.model import machine
from weft.model import network as n
from weft.model.result import ModelError
from weft.traces.table import Builder, Category, Trace

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "traces"
L, B = 2e-6, 1e9
TOPOLOGIES = [n.full(12), n.torus(12), n.torus(3, 4), n.torus(2, 3, 2), n.fat_tree(4, 3), n.fat_tree(4, 3, 2)]
TOPOLOGIES += [n.dragonfly(3, 4), n.dragonfly(4, 3, 2)]


def on(topology: n.Topology, **more: float) -> n.Network:
    return n.Network(topology, B, L, **more)  # type: ignore[arg-type]


# --- routes and shares ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda t: f"{t.kind} {t.sizes}")
def test_every_pair_has_a_route_of_links_that_exist_each_once(topology: n.Topology) -> None:
    for a, b in itertools.permutations(range(topology.nodes), 2):
        route = topology.route(a, b)
        assert route
        assert len(set(route)) == len(route)
        assert 0 <= min(route) <= max(route) < len(topology.capacity)


def test_a_torus_goes_the_shorter_way_round_in_every_dimension() -> None:
    sizes = (4, 5, 3)
    torus = n.torus(*sizes)
    for a, b in itertools.product(range(torus.nodes), repeat=2):
        x, y = np.unravel_index(a, sizes), np.unravel_index(b, sizes)
        steps = sum(min((q - p) % s, (p - q) % s) for p, q, s in zip(x, y, sizes, strict=True))
        assert len(torus.route(a, b)) == steps


@given(st.integers(1, 12), st.integers(1, 8), st.data())
@settings(max_examples=100, deadline=None)
def test_max_min_rates_fill_a_link_of_every_flow_and_overfill_none(flows: int, links: int, data: st.DataObject) -> None:
    chosen = st.lists(st.integers(0, links - 1), min_size=1, max_size=4, unique=True).map(tuple)
    paths = data.draw(st.lists(chosen, min_size=flows, max_size=flows))
    capacity = np.array(data.draw(st.lists(st.floats(0.1, 100), min_size=links, max_size=links)))
    rates = n.max_min(paths, capacity)
    load = np.zeros(links)
    for path, rate in zip(paths, rates, strict=True):
        load[list(path)] += rate
    assert (load <= capacity * (1 + 1e-9)).all()
    for path, rate in zip(paths, rates, strict=True):
        # A link of its path is full, and no flow on that link has more: no rate can grow without a smaller one falling.
        assert any(
            load[k] >= capacity[k] * (1 - 1e-9)
            and rate >= max(r for p, r in zip(paths, rates, strict=True) if k in p) * (1 - 1e-9)
            for k in path
        )


# --- closed forms --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda t: f"{t.kind} {t.sizes}")
def test_a_ping_pong_takes_latency_and_bytes_over_bandwidth_each_way(topology: n.Topology) -> None:
    found = n.replay(n.ping_pong(12, 3e6, rounds=4), on(topology))
    assert found.seconds == pytest.approx(8 * (L + 3e6 / B))
    hops = len(topology.route(0, 11)), len(topology.route(11, 0))
    assert n.replay(n.ping_pong(12, 3e6), on(topology, hop=1e-6)).seconds == pytest.approx(
        2 * (L + 3e6 / B) + sum(hops) * 1e-6
    )


@pytest.mark.parametrize("topology", [n.full(12), n.torus(12), n.fat_tree(4, 3)], ids=lambda t: t.kind)
def test_a_ring_where_no_two_messages_meet_takes_one_message_per_round(topology: n.Topology) -> None:
    assert n.replay(n.ring(12, 1e6, rounds=3), on(topology)).seconds == pytest.approx(3 * (L + 1e6 / B))


def test_flows_shorter_than_the_clocks_last_digit_end_too() -> None:
    graph = n.Graph(3)
    late = graph.delay(1e6)
    for target in (1, 2):
        graph.message(0, target, 1.0, (late,))
        graph.message(0, target, 1.7, (late,))
    assert n.replay(graph, n.Network(n.torus(3), 1e12)).messages == 4


def test_two_flows_on_a_link_halve_and_the_longer_one_gets_all_when_the_shorter_is_done() -> None:
    tapered = on(n.fat_tree(2, 2, 2))  # two nodes per leaf, one link up
    graph = n.Graph(4)
    short, long = graph.message(0, 2, 1e6), graph.message(1, 3, 3e6)
    found = n.replay(graph, tapered)
    assert found.finish[short] == pytest.approx(L + 2e6 / B)
    assert found.finish[long] == pytest.approx(L + 4e6 / B)


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8, 12])
def test_collectives_take_the_steps_of_their_algorithms(ranks: int) -> None:
    network = on(n.full(12))
    one = L + 1e6 / B
    rounds = math.ceil(math.log2(ranks))
    assert n.replay(n.collective("bcast", ranks, 1e6), network).seconds == pytest.approx(rounds * one)
    assert n.replay(n.collective("reduce", ranks, 1e6), network).seconds == pytest.approx(rounds * one)
    assert n.replay(n.collective("alltoall", ranks, 1e6), network).seconds == pytest.approx((ranks - 1) * one)
    assert n.replay(n.collective("allgather", ranks, 1e6), network).seconds == pytest.approx((ranks - 1) * one)
    assert n.replay(n.collective("barrier", ranks, 1e6), network).seconds == pytest.approx(rounds * L)
    folded = math.floor(math.log2(ranks)) + (2 if ranks & (ranks - 1) else 0)
    assert n.replay(n.collective("allreduce", ranks, 1e6), network).seconds == pytest.approx(folded * one)
    messages = {"bcast": ranks - 1, "reduce": ranks - 1, "gather": ranks - 1, "alltoall": ranks * (ranks - 1)}
    for name, count in messages.items():
        assert n.collective(name, ranks, 1.0).messages == count
    # A gather's root gets every other rank's part.
    gathered = n.collective("gather", ranks, 10.0)
    at_root = sum(s for t, s in zip(gathered.target, gathered.bytes, strict=True) if t == 0)
    assert at_root == 10.0 * (ranks - 1)


@given(st.sampled_from(TOPOLOGIES), st.sampled_from([*n.COLLECTIVES]), st.integers(1, 12), st.floats(1, 1e7))
@settings(max_examples=60, deadline=None)
def test_no_replay_is_faster_than_its_busiest_link_and_all_bytes_arrive(
    topology: n.Topology, name: str, ranks: int, size: float
) -> None:
    graph = n.collective(name, ranks, size)
    network = on(topology)
    found = n.replay(graph, network)
    assert found.seconds >= n.bound(graph, network) * (1 - 1e-9)
    assert found.messages == graph.messages
    assert found.bytes == pytest.approx(sum(graph.bytes))
    expected = sum(
        size * len(network.path(a, b)) for a, b, size in zip(graph.source, graph.target, graph.bytes, strict=True)
    )
    assert found.link_bytes.sum() == pytest.approx(expected)


def test_an_all_to_all_at_once_takes_the_bisection_of_a_tapered_tree() -> None:
    network = on(n.fat_tree(4, 2, 4))  # 8 nodes, one link up from each four
    graph = n.Graph(8)
    for a, b in itertools.permutations(range(8), 2):
        graph.message(a, b, 1e6)
    across = 4 * 4 * 1e6 / B
    assert n.bound(graph, network) == pytest.approx(across)
    assert n.replay(graph, network).seconds == pytest.approx(L + across, rel=1e-6)


def test_a_slab_transpose_moves_all_but_each_ranks_own_part_and_pencils_more() -> None:
    slabs, pencils = n.transpose(8, 64), n.transpose(8, 64, rows=4)
    volume = 4 * 64**3 / 8
    assert sum(slabs.bytes) == pytest.approx(8 * volume * 7 / 8)
    assert sum(pencils.bytes) == pytest.approx(8 * volume * (3 / 4 + 1 / 2))


def test_a_gather_scatter_sends_each_shared_face_edge_and_corner_both_ways() -> None:
    graph = n.gather_scatter(8, (2, 2, 2), 3)  # 2 x 2 x 2 ranks: 7 neighbours each
    assert graph.messages == 8 * 7
    assert sum(graph.bytes) == 8 * 8.0 * (3 * 7 * 7 + 3 * 7 + 1)


def test_messages_inside_a_node_do_not_use_the_network() -> None:
    network = n.Network(n.full(2), B, L, ranks_per_node=2, node_rate=4 * B, node_latency=1e-7)
    graph = n.Graph(4)
    graph.message(0, 1, 4e6)
    found = n.replay(graph, network)
    assert found.seconds == pytest.approx(1e-7 + 1e6 / B)
    assert found.link_bytes[: len(network.topology.capacity)].sum() == 0


@pytest.mark.parametrize(("ranks", "latencies"), [(2, 1), (3, 2), (4, 2), (5, 3), (6, 3), (7, 4), (8, 3), (12, 4)])
def test_an_all_reduce_of_a_number_waits_for_no_receiver(ranks: int, latencies: int) -> None:
    # On three ranks, the second sends its own number before the first has that of the third, which is folded in.
    network = on(n.full(12))
    assert n.replay(n.collective("allreduce", ranks, 8.0), network).seconds == pytest.approx(latencies * L, rel=0.02)
    assert n.replay(n.collective("barrier", ranks, 0.0), network).seconds == pytest.approx((ranks - 1).bit_length() * L)
    deep = max(rank.bit_count() for rank in range(ranks))  # messages one after another in a binomial tree
    for name in ("bcast", "reduce", "gather"):
        assert n.replay(n.collective(name, ranks, 8.0), network).seconds == pytest.approx(deep * L, rel=0.05)


def filled_anew(graph: n.Graph, network: n.Network) -> list[float]:
    """When each message ends if all rates are computed anew whenever a message begins or ends."""
    capacity, now = network.capacities(), 0.0
    ends: dict[int, float] = {}
    flowing: dict[int, float] = {}  # bytes left
    begins: dict[int, float] = {}
    while len(ends) < graph.messages:
        for k in range(graph.messages):
            if k not in begins and all(b in ends for b in graph.after[k]):
                begins[k] = now + network.wait(graph.source[k], graph.target[k])
            if k in begins and k not in flowing and k not in ends and begins[k] <= now:
                flowing[k] = graph.bytes[k]
        current = list(flowing)
        paths = [network.path(graph.source[k], graph.target[k]) for k in current]
        rates = dict(zip(current, n.max_min(paths, capacity), strict=True))
        last = [now + flowing[k] / rates[k] for k in current]
        later = min([*last, *(b for b in begins.values() if b > now)])
        flowing = {k: left - rates[k] * (later - now) for k, left in flowing.items()}
        for k, end in zip(current, last, strict=True):
            if end <= later * (1 + 1e-12):
                ends[k] = later
                del flowing[k]
        now = later
    return [ends[k] for k in range(graph.messages)]


@given(st.sampled_from(TOPOLOGIES), st.integers(1, 40), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_rates_that_are_changed_where_they_must_be_are_those_of_filling_anew(
    topology: n.Topology, messages: int, chance: random.Random
) -> None:
    graph, network = n.Graph(12), on(topology)
    for k in range(messages):
        a, b = chance.sample(range(12), 2)
        after = chance.sample(range(k), min(k, chance.randrange(3)))
        graph.message(a, b, chance.choice([1e3, 1e5, 1e6, 3e6]), after)
    assert n.replay(graph, network).finish == pytest.approx(filled_anew(graph, network), rel=1e-7)


# --- traces --------------------------------------------------------------------------------------------------------


def load(name: str) -> Trace:
    if not (DATA / name.split(".tgz/")[0]).exists() and ".tgz" not in name:
        pytest.skip(f"needs {name} of ../shared/data/traces, absent here")
    if ".tgz" in name and not (DATA / (name.split(".tgz")[0] + ".tgz")).exists():
        pytest.skip(f"needs {name} of ../shared/data/traces, absent here")
    return traces.load(DATA / name)


def test_a_goal_tree_of_32_ranks_takes_five_messages_after_each_other() -> None:
    graph = n.of_trace(load("loggopsim/binary_tree_32.goal"))
    assert graph.messages == 31
    found = n.replay(graph, on(n.full(32)))
    assert found.seconds == pytest.approx(5 * (L + 1 / B), rel=1e-6)
    assert found.bytes == 31


def test_an_otf2_ping_pong_keeps_its_messages_and_slows_with_the_network() -> None:
    graph = n.of_trace(load("pipit/ping-pong-otf2/traces.otf2"))
    assert graph.ranks == 2
    assert graph.messages > 0
    fast, slow = (n.replay(graph, n.Network(n.full(2), rate, L)).seconds for rate in (1e10, 1e6))
    assert slow > fast
    alone = n.of_trace(load("pipit/ping-pong-otf2/traces.otf2"), compute=False)
    assert alone.messages == 16  # eight sizes, there and back
    assert n.replay(alone, on(n.full(2))).seconds == pytest.approx(16 * L + 2 * sum(2**k for k in range(14, 22)) / B)


def test_fenates_sw4lite_collectives_on_256_ranks_become_their_trees() -> None:
    trace = load("fenate/sw4lite_256_2k_data.tgz/resPP_256")
    graph = n.of_trace(trace, compute=False)
    assert graph.ranks == 256
    calls = {trace.names[k]: int((trace.name == k).sum()) // 256 for k in np.unique(trace.name)}
    expected = calls["MPI_Allreduce"] * 256 * 8 + (calls["MPI_Gather"] + calls["MPI_Reduce"]) * 255
    assert graph.messages == expected
    times = [n.replay(graph, n.Network(t, 1e10, L)).seconds for t in (n.full(256), n.fat_tree(16, 16, 16))]
    assert 0 < times[0] <= times[1]


def mpi_trace(rows: list[tuple[int, str, int, int, int, int]]) -> Trace:
    """(process, function, start, end, bytes, peer)."""
    b = Builder("synthetic", "mpi")
    for process, name, start, end, size, peer in rows:
        b.add(line=b.line(process, "thread", "host"), start=start, end=end, category=Category.mpi, name=b.name(name),
              bytes=size, peer=peer)  # fmt: skip
    return b.build()


def test_non_blocking_messages_overlap_and_waits_wait_for_them() -> None:
    rows = []
    for p in (0, 1):
        rows += [(p, "MPI_Isend", 0, 1, 1_000_000, 1 - p), (p, "MPI_Irecv", 1, 2, 1_000_000, 1 - p)]
        rows += [(p, "MPI_Waitall", 2, 3, -1, -1), (p, "MPI_Barrier", 1000, 1001, -1, -1)]
    graph = n.of_trace(mpi_trace(rows), compute=False)
    assert graph.messages == 2 + 2
    assert n.replay(graph, on(n.full(2))).seconds == pytest.approx(L + 1e6 / B + L)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(0, "MPI_Send", 0, 1, 8, 1), (1, "MPI_Barrier", 0, 1, -1, -1)], "1 sends and 0 receives"),
        ([(0, "MPI_Bcast", 0, 1, 8, 0), (1, "MPI_Bcast", 0, 1, 8, 0), (1, "MPI_Bcast", 2, 3, 8, 0)], "1 to 2 times"),
        (
            [(0, "MPI_Recv", 0, 1, 8, 1), (0, "MPI_Send", 2, 3, 8, 1), (1, "MPI_Recv", 0, 1, 8, 0),
             (1, "MPI_Send", 2, 3, 8, 0)],
            "is stuck",
        ),
    ],
)  # fmt: skip
def test_a_trace_that_cannot_be_replayed_says_why(rows: list[tuple[int, str, int, int, int, int]], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        n.of_trace(mpi_trace(rows))


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["MPI_Send", "MPI_Recv", "MPI_Isend", "MPI_Irecv",
       "MPI_Wait", "MPI_Bcast", "MPI_Allreduce", "MPI_Comm_rank"]), st.integers(0, 50), st.integers(-1, 9),
       st.integers(-1, 3)), min_size=1, max_size=12))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_any_order_of_mpi_calls_is_replayed_or_refused_in_words(rows: list[tuple[int, str, int, int, int]]) -> None:
    trace = mpi_trace([(p, name, start, start + 1, size, peer) for p, name, start, size, peer in rows])
    try:
        graph = n.of_trace(trace)
    except ModelError:
        return
    found = n.replay(graph, on(n.full(4)))
    assert found.messages == graph.messages


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "sizes", "said"),
    [("hypercube", [4], "known: full, torus"), ("torus", [], "routers per direction"), ("full", [0], "above zero"),
     ("fat-tree", [4], "nodes per leaf"), ("full", [100_000], "at most 4096"), ("torus", [9999, 9999], "10 million")],
)  # fmt: skip
def test_a_topology_that_cannot_be_is_refused(kind: str, sizes: list[int], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        n.topology(kind, sizes)


@given(st.text(max_size=12), st.lists(st.integers(-5, 12), max_size=6))
@settings(deadline=None)
def test_any_topology_holds_its_nodes_or_is_refused_in_words(kind: str, sizes: list[int]) -> None:
    for name in (kind, *n.KINDS):
        try:
            made = n.topology(name, sizes)
        except ModelError:
            continue
        assert made.route(0, made.nodes - 1) is not None


@pytest.mark.parametrize("pattern", ["ring", "gather-scatter", "transpose", "alltoall", "ping-pong", "allreduce"])
def test_a_pattern_of_absurdly_many_ranks_is_refused_at_once(pattern: str) -> None:
    done = CliRunner().invoke(weft_command, ["model", "network", "--pattern", pattern, "--ranks", "1" + "0" * 20])
    assert done.exit_code != 0
    assert "more than the 300,000 messages" in done.output + str(done.exception)


def test_a_graph_too_large_for_its_network_or_that_waits_for_itself_is_refused() -> None:
    with pytest.raises(ModelError, match="has room for 12"):
        n.replay(n.ring(13, 1.0), on(n.full(12)))
    circle = n.Graph(2)
    circle.delay(0.0, (1,))
    circle.delay(0.0, (0,))
    with pytest.raises(ModelError, match="has a cycle: 2 of its 2"):
        n.replay(circle, on(n.full(2)))
    with pytest.raises(ModelError, match="ranks are numbered 0 to 1"):
        n.Graph(2).message(0, 2, 1.0)
    with pytest.raises(ModelError, match="unknown collective"):
        n.collective("sort", 4, 1.0)


def test_every_machine_with_a_topology_is_a_network_that_replays() -> None:
    for name in machine.names():
        described = machine.load(name)
        if described.topology is None:
            with pytest.raises(ModelError, match="no topology"):
                n.Network.of(described)
            continue
        network = n.Network.of(described)
        assert n.replay(n.ping_pong(2 * described.ranks_per_node + 1, 1e6), network).seconds > 0


def test_the_command_replays_patterns_and_refuses_what_it_does_not_know() -> None:
    run = CliRunner()
    base = ["model", "network", "--ranks", "8"]
    for pattern in ("ping-pong", "ring", "gather-scatter", "transpose", "allreduce"):
        done = run.invoke(weft_command, [*base, "--pattern", pattern, "--topology", "torus"], catch_exceptions=False)
        assert "busiest link" in done.output
    done = run.invoke(weft_command, [*base, "--pattern", "alltoall", "--machine", "frontier"], catch_exceptions=False)
    assert "dragonfly" in done.output
    done = run.invoke(weft_command, [*base, "--pattern", "sort"])
    assert "known: ping-pong" in done.output
    done = run.invoke(weft_command, [*base, "--pattern", "ring", "--topology", "cube"])
    assert "unknown topology 'cube'" in str(done.exception)


# --- SimGrid -------------------------------------------------------------------------------------------------------

SIMGRID = """
import json, sys
from simgrid import Engine, NetZone, Mailbox, LinkInRoute, Host, Actor, this_actor
case = json.load(open(sys.argv[1]))
e = Engine(["x", "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0", "--cfg=network/TCP-gamma:0",
            "--cfg=network/weight-S:0", "--cfg=network/bandwidth-factor:1", "--cfg=network/latency-factor:1",
            "--log=root.thresh:critical"])
zone = NetZone.create_full_zone("zone")
hosts = [zone.create_host(f"h{i}", 1e9) for i in range(case["ranks"])]
links = [zone.create_link(f"l{k}", r).set_latency(0).seal() for k, r in enumerate(case["capacity"])]
for a, b, path in case["routes"]:
    zone.add_route(hosts[a].netpoint, hosts[b].netpoint, None, None,
                   [LinkInRoute(links[k]) for k in path], False)
zone.seal()
done = {}
def send(k, a, b, size):
    Mailbox.by_name(f"m{k}").put("x", int(size))
def receive(k):
    Mailbox.by_name(f"m{k}").get()
    done[k] = Engine.clock if not callable(Engine.clock) else Engine.clock()
for k, (a, b, size) in enumerate(case["messages"]):
    Actor.create(f"s{k}", hosts[a], send, k, a, b, size)
    Actor.create(f"r{k}", hosts[b], receive, k)
e.run()
print(json.dumps([done[k] for k in range(len(case["messages"]))]))
"""


@pytest.mark.parametrize("topology", [n.torus(3, 4), n.fat_tree(4, 3, 2), n.dragonfly(3, 4)], ids=lambda t: t.kind)
def test_flows_that_share_links_end_when_simgrid_says(topology: n.Topology, tmp_path: Path) -> None:
    python = "/usr/bin/python3"  # SimGrid's bindings are the distribution's, for its own Python
    if not Path(python).exists() or subprocess.run([python, "-c", "import simgrid"], capture_output=True).returncode:
        pytest.skip("needs SimGrid's Python bindings (Debian: python3-simgrid), absent here")
    draw = random.Random(5)
    network, graph = n.Network(topology, B), n.Graph(12)
    messages = []
    pairs = draw.sample(list(itertools.permutations(range(12), 2)), 25)
    for a, b in pairs:
        size = draw.randrange(100_000, 10_000_000)
        graph.message(a, b, size)
        messages.append((a, b, size))
    routes = [(a, b, list(network.path(a, b))) for a, b in pairs]
    case = {"ranks": 12, "capacity": network.capacities()[: len(topology.capacity)].tolist()}
    (tmp_path / "case.json").write_text(json.dumps({**case, "routes": routes, "messages": messages}))
    (tmp_path / "run.py").write_text(SIMGRID)
    command = [python, str(tmp_path / "run.py"), str(tmp_path / "case.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = np.array(json.loads(done.stdout.strip().splitlines()[-1]))
    ours = n.replay(graph, network).finish
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_global_links_of_frontier_have_100_gigabytes_per_second_in_all() -> None:
    network = n.Network.of(machine.load("frontier"))
    (across,) = [link for link in network.path(0, 8 * 128) if link not in (0, network.topology.nodes + 128)]
    assert network.capacities()[across] == pytest.approx(4 * 25e9)
    assert network.capacities()[0] == pytest.approx(100e9)  # a node's four cards


def test_a_described_torus_has_room_for_all_its_nodes() -> None:
    titan = n.Network.of(machine.load("titan"))
    assert titan.topology.nodes == 25 * 16 * 24 * 2
    assert titan.ranks >= 18688
    # Two nodes of a router meet there; the next router in z is two links away, over both links of that direction.
    assert len(titan.path(0, 1)) == 2
    assert len(titan.path(0, 2)) == 3
    rates = titan.capacities()[list(titan.path(0, 2))]
    assert rates[1] == pytest.approx(2 * 4.6875e9)
    assert rates[0] == rates[2] == titan.rate
