"""Dependencies from perturbed runs: synthetic programs run by a simulator of streams with delays."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi_run import SECONDS

from weft.model.order import common_order, order, reduction
from weft.model.result import ModelError
from weft.traces import Builder, Category, Trace, load

LAUNCH = 5  # ns between launches
LONG = 10**7


@dataclass(frozen=True)
class Launch:
    """A kernel on a stream that waits for the events of some earlier kernels; the host may wait for others first."""

    stream: int
    duration: int
    waits: tuple[int, ...] = ()
    host_waits: tuple[int, ...] = ()


def simulate(program: list[Launch], delays: dict[int, int] | None = None, jitter=None) -> Trace:
    """Simulates a run: streams are queues, streams or the host wait for events, and a delay precedes its kernel."""
    end: list[int] = []
    rows = []
    builder = Builder("simulated", "simulated")
    stream_free: dict[int, int] = {}
    host = 0
    for k, launch in enumerate(program):
        host = max([host + LAUNCH, *(end[w] for w in launch.host_waits)])
        start = max([host, stream_free.get(launch.stream, 0), *(end[w] for w in launch.waits)])
        start += (delays or {}).get(k, 0)
        end.append(start + launch.duration + (int(jitter.integers(0, 20)) if jitter else 0))
        stream_free[launch.stream] = end[-1]
        line = builder.line(0, f"stream {launch.stream}", "stream")
        rows.append((line, start, end[-1], int(Category.gpu), builder.name(f"k{k}")))
        rows.append((builder.line(0, "host", "host"), host - 1, host, int(Category.launch), builder.name("launch")))
    columns = ("line", "start", "end", "category", "name")
    builder.add(**dict(zip(columns, zip(*rows, strict=True), strict=True)))
    return builder.build()


def truth(program: list[Launch]) -> np.ndarray:
    """The transitive closure of the waits of the program."""
    n = len(program)
    before = np.zeros((n, n), dtype=bool)
    host: set[int] = set()
    last: dict[int, int] = {}
    for k, launch in enumerate(program):
        host |= set(launch.host_waits)
        direct = host | set(launch.waits) | ({last[launch.stream]} if launch.stream in last else set())
        last[launch.stream] = k
        for j in direct:
            before[:, k] |= before[:, j]
            before[j, k] = True
    return before


def found(runs: list[Trace], n: int) -> np.ndarray:
    result = order(runs)
    place = [int(k.name[1:]) for k in result.kernels]
    before = np.zeros((n, n), dtype=bool)
    before[np.ix_(place, place)] = result.before
    return before


@st.composite
def programs(draw) -> list[Launch]:
    program: list[Launch] = []
    for k in range(draw(st.integers(2, 14))):
        earlier = st.lists(st.integers(0, k - 1), max_size=2).map(tuple) if k else st.just(())
        waits = draw(earlier)
        host = draw(earlier) if draw(st.integers(0, 5)) == 0 else ()
        program.append(Launch(draw(st.integers(0, 3)), draw(st.integers(1, 60)), waits, host))
    return program


@settings(max_examples=150, deadline=None)
@given(programs())
def test_no_dependency_is_lost_and_no_accident_left_with_one_delay_per_kernel(program: list[Launch]) -> None:
    runs = [simulate(program)] + [simulate(program, {k: LONG}) for k in range(len(program))]
    assert (found(runs, len(program)) == truth(program)).all()


@settings(max_examples=100, deadline=None)
@given(programs(), st.integers(0, 2**32))
def test_no_dependency_is_lost_with_random_jitter_or_any_delays(program: list[Launch], seed: int) -> None:
    random = np.random.default_rng(seed)
    delays = [{int(k): int(random.integers(1, 300))} for k in random.integers(0, len(program), 4)]
    runs = [simulate(program, d, random) for d in [{}, *delays]]
    assert (found(runs, len(program)) | ~truth(program)).all()


PAIR = [Launch(0, 10), Launch(1, 10)] * 4  # two streams that have nothing to do with each other


def test_jitter_leaves_accidents_that_delays_break_and_the_untested_edges_tell_of_them() -> None:
    random = np.random.default_rng(7)
    shaken = order([simulate(PAIR, None, random) for _ in range(20)])
    assert shaken.across().any()
    runs = [simulate(PAIR)] + [simulate(PAIR, {k: LONG}) for k in range(len(PAIR))]
    delayed = order(runs)
    assert not delayed.across().any()
    assert delayed.tested.all()
    assert delayed.width() == 2
    single = order(runs[:1])
    assert not single.tested[single.across()].any()
    wanted = {k.name for k in single.delays()}
    assert wanted == {single.kernels[a].name for a in single.edges[single.across(), 0]}


def test_a_dependency_between_streams_is_seen_as_tested_once_its_first_kernel_was_delayed() -> None:
    program = [Launch(0, 10), Launch(1, 10, waits=(0,))]
    assert not order([simulate(program)]).tested.any()
    assert order([simulate(program), simulate(program, {0: LONG})]).tested.all()


def test_levels_width_and_critical_path_of_a_diamond() -> None:
    #      1 (30)
    # 0 (10)     3 (5)     4 (7) runs beside all of them
    #      2 (20)
    program = [Launch(0, 10), Launch(0, 30), Launch(1, 20, waits=(0,)), Launch(0, 5, waits=(2,)), Launch(2, 7)]
    runs = [simulate(program)] + [simulate(program, {k: LONG}) for k in range(5)]
    result = order(runs)
    names = [k.name for k in result.kernels]
    edges = {(names[a], names[b]) for a, b in result.edges}
    assert edges == {("k0", "k1"), ("k0", "k2"), ("k1", "k3"), ("k2", "k3")}
    assert dict(zip(names, result.levels().tolist(), strict=True)) == {"k0": 0, "k1": 1, "k2": 1, "k3": 2, "k4": 0}
    assert result.width() == 3
    path, length = result.critical_path()
    assert [names[k] for k in path] == ["k0", "k1", "k3"]
    assert length == 45
    assert result.running().sum() == pytest.approx(1)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**32))
def test_the_reduction_is_the_smallest_relation_with_the_same_closure(n: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(0, 30, n))
    end = start + random.integers(0, 12, n)
    sort = np.lexsort((end, start))
    before = common_order(start[sort][None], end[sort][None])
    edges = reduction(before)
    assert not (before & before.T).any()
    closure = np.zeros_like(before)
    closure[tuple(edges.T)] = True
    direct = closure.copy()
    for _ in range(n):
        closure |= (closure.astype(int) @ closure) > 0
    assert (closure == before).all()
    assert not (direct & ((before.astype(int) @ before) > 0)).any()


@settings(max_examples=60, deadline=None)
@given(programs())
def test_the_width_is_the_size_of_the_largest_set_of_unordered_kernels(program: list[Launch]) -> None:
    program = program[:9]
    result = order([simulate(program)])
    related = result.before | result.before.T
    n = len(program)
    sets = (np.flatnonzero([s >> k & 1 for k in range(n)]) for s in range(1, 2**n))
    assert result.width() == max(len(s) for s in sets if not related[np.ix_(s, s)].any())


def host_only() -> Trace:
    builder = Builder("test", "host.json")
    builder.add(line=builder.line(0, "host", "host"), start=0, end=5, category=0, name=builder.name("x"))
    return builder.build()


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([], "at least one run"),
        ([host_only()], "no kernels or copies on streams, only cpu events"),
        ([simulate(PAIR), simulate(PAIR[:5])], "3 kernels of the other run are missing, the first is k5#0 on stream 1"),
        ([simulate(PAIR[:5]), simulate(PAIR)], "3 kernels of the other run are missing"),
    ],
)
def test_runs_that_cannot_be_compared_are_errors(runs: list[Trace], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        order(runs)


def test_two_thousand_kernels_in_twenty_runs_are_ordered() -> None:
    """The size that the method is made for; benchmarks/trace_reading.py times it."""
    random = np.random.default_rng(1)
    program = [
        Launch(
            int(random.integers(0, 8)), int(random.integers(1, 50)), (int(random.integers(0, k)),) if k % 7 == 6 else ()
        )
        for k in range(2000)
    ]
    runs = [simulate(program, {int(random.integers(0, 2000)): LONG}, random) for _ in range(20)]
    result = order(runs)
    assert (found(runs, 2000) | ~truth(program)).all()
    assert 8 <= result.width() < 2000
    assert result.critical_path()[1] <= result.durations.sum()


def test_the_command_prints_the_figures_and_writes_the_graph(tmp_path) -> None:
    import json

    from weft.cli.model.order import order as command

    events = [{"ph": "M", "name": "thread_name", "pid": 0, "tid": t, "args": {"name": f"stream {t}"}} for t in (1, 2)]
    for t, name, ts in ((1, "a", 0), (2, "b", 20), (1, "c", 40)):
        events.append({"ph": "X", "name": name, "cat": "gpu", "pid": 0, "tid": t, "ts": ts, "dur": 10, "args": {}})
    (tmp_path / "trace.json").write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))
    done = CliRunner().invoke(command, [str(tmp_path), "--graph", str(tmp_path / "g.json")], catch_exceptions=False)
    assert done.exit_code == 0
    assert "to test more dependencies, delay a#0 on stream 1" in done.output
    graph = json.loads((tmp_path / "g.json").read_text())
    assert [(e["before"], e["after"], e["tested"]) for e in graph["edges"]] == [(0, 1, False), (1, 2, False)]
    assert [k["critical"] for k in graph["kernels"]] == [True, True, True]
    CliRunner().invoke(command, [str(tmp_path), "--graph", str(tmp_path / "g.dot")], catch_exceptions=False)
    assert "k0 -> k1 [style=dashed]" in (tmp_path / "g.dot").read_text()


BUILD = Path(__file__).parents[2] / "build"


@pytest.mark.skipif(
    not (BUILD / "tests" / "cpp" / "gpu_device_test").exists() or shutil.which("ctest") is None,
    reason="needs the C++ tests, built in build/, for the driver that stands in for a GPU's",
)
def test_delays_of_wefts_own_kernels_tell_a_stream_that_waits_from_one_that_does_not(tmp_path) -> None:
    """Two streams with 'scale' and 'set' each, run by the cuda and hip backends on the stand-in, in which the second
    stream's 'set' waits for the first stream's 'scale', or does not."""
    environment = {**os.environ, "WEFT_TEST_TRACES": str(tmp_path), "GTEST_FILTER": "*TracesForEveryDelay*"}
    command = ["ctest", "--test-dir", str(BUILD), "-R", "^gpu_device_test$"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout
    within = {("scale on stream 0", "set on stream 0"), ("scale on stream 1", "set on stream 1")}
    across = {("scale on stream 0", "set on stream 1")}
    for kind, expected in (("free", within), ("wait", within | across)):
        delayed = [tmp_path / f"{kind}{name}@{stream}=500.json" for name in ("scale", "set") for stream in (0, 1)]
        result = order([load(tmp_path / f"{kind}.json"), *map(load, delayed)])
        names = [f"{k.name} on {k.stream}" for k in result.kernels]
        assert {(names[a], names[b]) for a, b in result.edges} == expected
        assert result.tested.all()
