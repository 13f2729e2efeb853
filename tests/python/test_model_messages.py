"""Waits between processes: the matching of MPI calls in traces, and the waits in replay and network models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi_run import run_weft

from weft import traces
from weft.cli.main import weft_command
from weft.model import network as n
from weft.model import replay as r
from weft.model.meetings import MessagePath
from weft.model.replay import Scenario
from weft.model.result import ModelError
from weft.traces import messages
from weft.traces.table import Builder, Category, Trace

US = 1000


def mpi_trace(*rows: tuple) -> Trace:
    """(process, MPI function, start and end in us[, peer[, bytes[, request[, group]]]])."""
    b = Builder("synthetic", "mpi")
    for process, name, start, end, *rest in rows:
        peer, size, request, group = (*rest, *(-1, -1, -1, -1)[len(rest) :])
        b.add(line=b.line(process, "thread", "host"), start=start * US, end=end * US, category=Category.mpi,
              name=b.name(name), peer=peer, bytes=size, correlation=request, group=group)  # fmt: skip
    return b.build()


def seconds(trace: Trace, **scenario: float) -> float:
    return r.replay(r.program(trace), Scenario(**scenario)).seconds


# Rank 1 computes for 100 us, then sends; rank 0 computes for 20 us, receives until 110 us, computes for 40 us.
LATE_SEND = (
    (0, "MPI_Init", 0, 0), (1, "MPI_Init", 0, 0),
    (0, "MPI_Recv", 20, 110, 1, 8000), (0, "MPI_Barrier", 150, 155), (1, "MPI_Send", 100, 105, 0, 8000),
    (1, "MPI_Barrier", 105, 155),
)  # fmt: skip


def test_a_late_senders_speed_moves_the_wait_for_it_as_far_as_the_receivers_own_work_allows() -> None:
    trace = mpi_trace(*LATE_SEND)
    assert seconds(trace) == pytest.approx(155e-6)
    # Rank 1's 100 us become 50: the receive ends at 60 instead of 110, all else follows.
    assert seconds(trace, cpu_speed=2.0, process=1) == pytest.approx(105e-6)
    # They become 5: the receive is over as soon as rank 0 comes to it (20) and has taken its own 10 us.
    assert seconds(trace, cpu_speed=20.0, process=1) == pytest.approx(75e-6)
    assert seconds(trace, cpu_speed=0.5, process=1) == pytest.approx(255e-6)


def test_a_slower_network_delays_the_receiver_and_a_process_alone_its_own_messages() -> None:
    # The traced latency is the shorter of the two waits: 5 us of the barrier.
    trace = mpi_trace(*LATE_SEND)
    source = r.program(trace)
    assert source.message_latency == pytest.approx(5e-6, rel=0.1)
    later = 20e-6 - source.message_latency
    assert seconds(trace, message_latency=20e-6) == pytest.approx(155e-6 + 2 * later)
    four = mpi_trace(*LATE_SEND, *((p + 2, name, *rest) for p, name, *rest in LATE_SEND if name == "MPI_Barrier"))
    later = 20e-6 - r.program(four).message_latency
    assert seconds(four, message_latency=20e-6, process=3) == pytest.approx(155e-6 + 2 * later)  # the barrier of four


def test_a_faster_gpu_on_one_rank_moves_the_other_ranks_wait() -> None:
    b = Builder("synthetic", "gpus")
    host = [b.line(p, "thread", "host") for p in (0, 1)]
    for p, kernel in ((0, 100), (1, 300)):
        stream = b.line(p, "stream 7", "stream")
        b.add(line=host[p], start=0, end=5 * US, category=Category.launch, name=b.name("launch"), correlation=1)
        b.add(line=stream, start=10 * US, end=(10 + kernel) * US, category=Category.gpu, name=b.name("kernel"),
              correlation=1)  # fmt: skip
        b.add(line=host[p], start=5 * US, end=(15 + kernel) * US, category=Category.sync,
              name=b.name("cudaDeviceSynchronize"))  # fmt: skip
        b.add(line=host[p], start=(15 + kernel) * US, end=320 * US, category=Category.mpi, name=b.name("MPI_Allreduce"))
    trace = b.build()
    assert seconds(trace) == pytest.approx(320e-6)
    assert seconds(trace, gpu_speed=2.0, process=1) == pytest.approx(170e-6)
    assert seconds(trace, gpu_speed=2.0, process=0) == pytest.approx(320e-6)


def test_a_broadcast_waits_for_its_root_and_a_reduce_for_all() -> None:
    # The root (1) comes at 50 us, the others at 0 and 10: they wait; at the reduce to 0 rank 2 comes last.
    trace = mpi_trace(
        *((p, "MPI_Bcast", at, 60, 1, 8) for p, at in ((0, 0), (1, 50), (2, 10))),
        (0, "MPI_Reduce", 60, 100, 0, 8), (1, "MPI_Reduce", 60, 62, 0, 8), (2, "MPI_Reduce", 95, 97, 0, 8),
    )  # fmt: skip
    assert seconds(trace) == pytest.approx(100e-6)
    assert seconds(trace, cpu_speed=2.0, process=1) == pytest.approx(75e-6)
    assert seconds(trace, cpu_speed=5.0, process=0) == pytest.approx(100e-6)


def test_non_blocking_calls_end_with_the_wait_of_their_request() -> None:
    # Rank 0 starts an all-reduce (request 1) and a receive (request 2), and waits for the receive first.
    rows = (
        (0, "MPI_Iallreduce", 0, 1, -1, 8, 1), (0, "MPI_Irecv", 1, 2, 1, 8, 2), (0, "MPI_Wait", 2, 30, -1, -1, 2),
        (0, "MPI_Wait", 30, 85, -1, -1, 1), (1, "MPI_Isend", 20, 21, 0, 8, 5), (1, "MPI_Wait", 21, 22, -1, -1, 5),
        (1, "MPI_Iallreduce", 80, 81, -1, 8, 6), (1, "MPI_Wait", 81, 86, -1, -1, 6),
    )  # fmt: skip
    source = r.program(mpi_trace(*rows))
    needs = [[source.meetings[m].processes for m, _ in source.calls.needs.get(call, ())]
             for call in range(source.calls.first[1])]  # fmt: skip
    assert needs == [[], [], [(1,)], [(1,)]]
    graph = n.of_trace(mpi_trace(*rows), compute=False)
    assert graph.messages == 1 + 2


def test_a_message_on_its_way_before_the_wait_for_it_begins_is_the_waiting_calls_own_time() -> None:
    # Both ranks send 1 MB at 0, compute until 100 us, and wait for it until 1100 us: 100 us and 1 GB/s on the way.
    rows = [
        row
        for p in (0, 1)
        for row in (
            (p, "MPI_Isend", 0, 1, 1 - p, 1_000_000, 1), (p, "MPI_Irecv", 1, 2, 1 - p, 1_000_000, 2),
            (p, "MPI_Wait", 100, 1100, -1, -1, 2), (p, "MPI_Wait", 1100, 1101, -1, -1, 1),
        )
    ]  # fmt: skip
    trace, path = mpi_trace(*rows), r.MessagePath(100e-6, 1e9)
    source = r.program(trace, path)
    assert r.replay(source).seconds == pytest.approx(1101e-6)
    for latency, rate, expected in ((100e-6, 2e9, 600e-6), (1e-3, 1e9, 2e-3), (0.0, 1e12, 100e-6)):
        found = r.replay(source, Scenario(message_latency=latency, message_bandwidth=rate)).seconds
        assert found == pytest.approx(expected, abs=3e-6)


def test_a_processor_that_moves_messages_takes_turns_with_the_computation() -> None:
    # As above; the processor takes 0.4 ns for each byte that it receives.
    rows = [
        row
        for p in (0, 1)
        for row in (
            (p, "MPI_Isend", 0, 0, 1 - p, 1_000_000, 1), (p, "MPI_Irecv", 0, 0, 1 - p, 1_000_000, 2),
            (p, "MPI_Wait", 100, 1100, -1, -1, 2), (p, "MPI_Wait", 1100, 1100, -1, -1, 1),
        )
    ]  # fmt: skip
    trace = mpi_trace(*rows)
    source, graph = r.program(trace, r.MessagePath(100e-6, 1e9)), n.of_trace(trace, overhead=0.4e-9)
    for latency, rate, expected in ((100e-6, 1e9, 1100e-6), (0.0, 1e12, 500e-6), (0.0, 2e9, 500e-6)):
        scenario = Scenario(message_latency=latency, message_bandwidth=rate, message_overhead=0.4e-9)
        assert r.replay(source, scenario).seconds == pytest.approx(expected, abs=2e-6)
        on = n.Network(n.topology("full", (2,)), rate, latency)
        assert n.replay(graph, on).seconds == pytest.approx(expected, abs=2e-6)
    with pytest.raises(ModelError, match="message_overhead is -1"):
        Scenario(message_overhead=-1)


def test_the_last_of_two_processes_waits_for_its_own_message_in_a_collective() -> None:
    rows = ((0, "MPI_Allreduce", 0, 510, -1, 8), (1, "MPI_Allreduce", 500, 502, -1, 8))
    source = r.program(mpi_trace(*rows), r.MessagePath(10e-6, 1e9))
    slower = r.replay(source, Scenario(message_latency=200e-6, message_bandwidth=1e9))
    assert slower.seconds == pytest.approx(700e-6, abs=1e-6)
    assert slower.times is not None
    assert slower.times.returned[1] == pytest.approx(502e-6, abs=1e-6)


@pytest.mark.parametrize(("name", "latencies"), [("MPI_Allreduce", 3), ("MPI_Barrier", 3), ("MPI_Alltoall", 1)])
def test_a_collective_takes_the_latencies_of_a_tree_and_an_all_to_all_one(name: str, latencies: int) -> None:
    path = MessagePath(latency=5e-6, bandwidth=1e9)
    source = r.program(mpi_trace(*((p, name, 10 * p, 40 + 5 * latencies) for p in range(5))), path)
    traced = r.replay(source, Scenario()).seconds
    assert traced == pytest.approx((40 + 5 * latencies) * 1e-6)
    later = r.replay(source, Scenario(message_latency=25e-6)).seconds
    assert later - traced == pytest.approx(latencies * 20e-6)


def test_collectives_of_a_part_of_the_processes_match_by_group() -> None:
    rows = []
    for p in range(4):
        row, column = 10 + p // 2, 20 + p % 2
        rows += [(p, "MPI_Allreduce", 0, 10, -1, 8, -1, row), (p, "MPI_Allreduce", 10, 20, -1, 8, -1, column)]
        if p < 2:
            rows += [(p, "MPI_Allreduce", 20, 30, -1, 8, -1, row)]
    trace = mpi_trace(*rows)
    kinds = [messages.kind(name) for name in trace.names]
    joined = messages.match(trace, messages.calls(trace, kinds), kinds).joined
    assert sorted(tuple(j.events) for j in joined) == [(0, 1), (0, 1), (0, 2), (1, 3), (2, 3)]
    assert n.of_trace(trace).messages == 10


def test_messages_match_by_tag_where_their_order_differs() -> None:
    rows = (
        (0, "MPI_Isend", 0, 1, 1, 8, 1, 7), (0, "MPI_Isend", 50, 51, 1, 16, 2, 8),
        (1, "MPI_Irecv", 0, 1, 0, 16, 1, 8), (1, "MPI_Irecv", 1, 2, 0, 8, 2, 7),
        (1, "MPI_Wait", 2, 5, -1, -1, 2), (1, "MPI_Wait", 5, 60, -1, -1, 1),
    )  # fmt: skip
    trace = mpi_trace(*rows)
    kinds = [messages.kind(name) for name in trace.names]
    partner = messages.match(trace, messages.calls(trace, kinds), kinds).partner
    assert all(trace.bytes[a] == trace.bytes[b] for a, b in partner.items())
    assert len(partner) == 4


def test_a_range_round_mpi_calls_hides_none_of_them() -> None:
    trace = mpi_trace((0, "row exchange", 0, 60), (0, "MPI_Recv", 5, 55, 1, 8), (1, "row exchange", 0, 60),
                      (1, "MPI_Send", 50, 52, 0, 8))  # fmt: skip
    assert len(r.program(trace).calls) == 2
    assert n.of_trace(trace).messages == 1


def test_calls_without_a_counterpart_stay_as_traced_with_a_note() -> None:
    source = r.program(
        mpi_trace((0, "MPI_Recv", 0, 60, 1, 8), (1, "MPI_Barrier", 0, 10), (0, "MPI_Send", 70, 71, 5, 8))
    )
    assert r.replay(source).seconds == pytest.approx(71e-6)
    assert not source.meetings
    told = "; ".join(source.notes)
    assert "0 sends and 1 receives between ranks 1 and 0" in told
    assert "ranks 0 and 5 (not in the trace)" in told
    assert "barrier 0 to 1 times" in told


def test_a_process_that_is_not_in_the_trace_is_refused() -> None:
    with pytest.raises(ModelError, match="no process 7; its processes are 0, 1"):
        seconds(mpi_trace(*LATE_SEND), cpu_speed=2.0, process=7)


@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_a_random_program_replays_unchanged_and_is_never_faster_with_fewer_resources(seed: int, ranks: int) -> None:
    """Rounds of work, exchanges with random neighbours and collectives; clocks of the ranks are up to 3 us apart."""
    draw = np.random.default_rng(seed)
    now, skew = np.zeros(ranks), draw.integers(0, 4, ranks)
    rows = []
    for k in range(12):
        now += draw.integers(0, 60, ranks)
        if draw.random() < 0.4:
            begun = now.copy()
            now = np.full(ranks, now.max()) + draw.integers(1, 5, ranks)
            rows += [(p, "MPI_Allreduce", begun[p], now[p], -1, 8) for p in range(ranks)]
            continue
        pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b and draw.random() < 0.5]
        sent = {}
        for p in range(ranks):
            for a, b in pairs:
                if p in (a, b):
                    rows.append((p, "MPI_Isend" if p == a else "MPI_Irecv", now[p], now[p] + 1, b if p == a else a,
                                 1000 * (a + 1), k, k))  # fmt: skip
                    sent[p, a, b] = now[p]
                    now[p] += 1
        for p in range(ranks):
            ready = [sent[a, a, b] + 2 + a for a, b in pairs if b == p]
            end = max([now[p] + 1, *ready])
            rows.append((p, "MPI_Waitall", now[p], end, -1, -1, k))
            now[p] = end
    trace = mpi_trace(
        *((p, name, int(s + skew[p]), int(e + skew[p]), *map(int, rest)) for p, name, s, e, *rest in rows)
    )
    source = r.program(trace)
    assert not [note for note in source.notes if "stay as traced" in note]
    unchanged = r.replay(source)
    assert unchanged.seconds == pytest.approx(source.traced_seconds, rel=1e-9)
    assert unchanged.messages == len(source.meetings)
    base = source.message_latency
    for field, worse in (("message_latency", [base, 2 * base + 1e-6, 1e-4]), ("message_bandwidth", [1e12, 1e9, 1e7]),
                         ("cpu_speed", [2.0, 1.0, 0.5])):  # fmt: skip
        for process in (None, 0):
            times = [r.replay(source, Scenario(**{field: value}, process=process)).seconds for value in worse]
            assert times == sorted(times)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["MPI_Send", "MPI_Recv", "MPI_Isend", "MPI_Irecv",
       "MPI_Wait", "MPI_Bcast", "MPI_Iallreduce", "MPI_Scan", "exchange"]), st.integers(0, 50), st.integers(0, 9),
       st.integers(-1, 3), st.integers(-1, 9), st.integers(-1, 2), st.integers(-1, 2)),
       min_size=1, max_size=14))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_any_calls_of_mpi_are_replayed_or_refused_in_words(rows: list[tuple]) -> None:
    trace = mpi_trace(*((p, name, start, start + length, *rest) for p, name, start, length, *rest in rows))
    try:
        source = r.program(trace)
    except ModelError:
        return
    assert r.replay(source).seconds == pytest.approx(source.traced_seconds, rel=1e-9)
    r.replay(source, Scenario(message_latency=1e-5))


# --- weft's own traces ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_traced_run_of_weft_is_replayed_and_put_on_a_network(tmp_path: Path, ranks: int) -> None:
    done = run_weft(ranks, "run", "poisson", "--quiet", "--trace", "--set", "mesh.counts=[3,3,3]", "--order", 3,
                    "--set", "solver.iterations=5", "--output", tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    trace = traces.load(tmp_path / "trace.json")
    source = r.program(trace)
    assert not [note for note in source.notes if "stay as traced" in note]
    others = ranks if ranks > 2 else 1  # of two processes, each waits for the other one alone
    assert {len(m.processes) for m in source.meetings} >= {1, others}  # messages and collectives
    assert r.replay(source).seconds == pytest.approx(source.traced_seconds, rel=0.03)
    slow = r.replay(source, Scenario(message_latency=source.message_latency + 1e-3)).seconds
    assert slow > source.traced_seconds + 1e-3
    peers = trace.peer[(trace.category == Category.mpi) & (trace.peer >= 0)]
    assert set(peers.tolist()) == set(range(ranks))
    for options in ([], ["--no-compute", "--topology", "torus"]):
        shown = CliRunner().invoke(weft_command, ["model", "network", str(tmp_path / "trace.json"), *options],
                                   catch_exceptions=False)  # fmt: skip
        assert f"ranks = {ranks}" in shown.output
    shown = CliRunner().invoke(weft_command, ["model", "replay", str(tmp_path / "trace.json"), "--cpu-speed", "2",
                               "--process", "1", "--message-latency", "5"], catch_exceptions=False)  # fmt: skip
    assert "messages and collectives" in shown.output
    assert "no device work" in shown.output


def test_the_coarse_level_of_multigrid_gathers_in_a_collective(tmp_path: Path) -> None:
    done = run_weft(2, "run", "poisson", "--quiet", "--trace", "--preconditioner", "multigrid", "--set",
                    "solver.tolerance=1e-8", "--set", "mesh.counts=[3,3,3]", "--order", 3, "--exchange",
                    "pairwise:direct", "--output", tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = traces.load(tmp_path / "trace.json")
    gathers = [k for k, name in enumerate(found.names) if messages.kind(name) == "allgather"]
    assert [found.names[k] for k in gathers] == ["allgather (coarse all-gather)"]
    assert n.of_trace(found).messages > int((found.name == gathers[0]).sum())  # one message per rank and all-gather
