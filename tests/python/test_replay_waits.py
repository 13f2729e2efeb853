"""Replay infers the waits in a trace, and moves them as the machine would."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_checks import dependencies, longest_path

from weft import traces
from weft.cli.main import weft_command
from weft.model import replay as r
from weft.model.program import COLLECTIVE, COPY, NONE, UP, Call, HandOver, Program, Work, program_of
from weft.model.replaying import Scenario
from weft.traces.attribution import Terms
from weft.traces.table import Builder, Category, Trace

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "traces"
US = 1000  # ns
REAL = [
    *("kineto/h100_qwen.json.gz", "kineto/multi_stream_event_sync.json.gz", "kineto/nccl_data.json.gz"),
    *("kineto/ns_resolution_rank0.json.gz", "kineto/negative_queue_rank0.json.gz"),
    *("kineto/cpu_only_gloo_rank34.json.gz", "rocprof/rocprofv3.json.gz", "nsys/h100_2gpu_1s.sqlite"),
    *("pipit/trace.csv", "pipit/ping-pong-otf2/traces.otf2", "pipit/ping-pong-otf2-papi/traces.otf2"),
    *("pipit/perlmutter-cloverleaf-cuda.sqlite", "pipit/saxpy-mpi-cuda_nsys_perlmutter0.sqlite"),
    *("pipit/cloverleaf-cuda_api_trace.csv", "pipit/cloverleaf_gpu_trace.csv"),
    *(f"hta/critical_path/{name}" for name in (
        "alexnet/benchmark_result_2869224_1695835535_trace.json.gz", "cuda_event_sync/event_sync_trace.json.gz",
        "simple_add/benchmark_result_493459_1694039959_trace.json.gz",
    )),
]  # fmt: skip


@cache
def load(name: str) -> Trace:
    if not (DATA / name).exists():
        pytest.skip(f"needs {name} of ../shared/data/traces, absent here")
    return traces.load(DATA / name)


# --- real traces ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REAL)
def test_a_real_trace_replayed_unchanged_takes_its_span_and_a_better_machine_no_longer(name: str) -> None:
    trace = load(name)
    source = r.program(trace)
    assert r.replay(source).seconds == pytest.approx(trace.span * 1e-9, rel=1e-3)
    for field, worse in (("gpu_speed", [1e9, 2.0, 1.0, 0.5]), ("bandwidth", [np.inf, 1e11, 1e9]),
                         ("latency", [0.0, 1e-5, 1e-3]), ("cpu_speed", [10.0, 1.0, 0.5]),
                         ("message_latency", [0.0, 1e-6, 1e-3]),
                         ("message_bandwidth", [np.inf, 1e9, 1e7])):  # fmt: skip
        times = [r.replay(source, Scenario(**{field: value})).seconds for value in worse]  # type: ignore[arg-type]
        assert times == sorted(times)
    assert sum(r.chain(source, r.replay(source)).values()) == pytest.approx(trace.span * 1e-9)


def test_a_run_of_which_the_gpu_takes_80_percent_moves_with_its_speed() -> None:
    source = r.program(load("kineto/ns_resolution_rank0.json.gz"))
    assert any("1023 launches" in note for note in source.notes)
    assert source.traced_seconds / r.replay(source, Scenario(gpu_speed=2.0)).seconds == pytest.approx(1.67, abs=0.05)


def test_a_run_that_copies_95_percent_of_its_time_gains_from_bandwidth_what_eq_4_expects() -> None:
    trace = load("nsys/h100_2gpu_1s.sqlite")
    source, terms = r.program(trace), traces.attribute(trace).mean()
    faster = Scenario(bandwidth=10 * source.bandwidth)
    found = r.replay(source, faster)
    assert source.traced_seconds / found.seconds == pytest.approx(r.expected_gain(source, terms, faster), rel=0.15)
    assert r.contradiction(source, terms, faster, found) is None


# --- full queues ---------------------------------------------------------------------------------------------------


def queued(depth: int, kernels: Sequence[int], gap: int, copies: bool = False) -> Trace:
    """A thread that launches into a queue of `depth` every `gap` ns, and blocks if it is full.

    Each launch takes 3 us. The thread waits for the device at its end."""
    b = Builder("synthetic", "queued")
    host, stream = b.line(0, "thread", "host"), b.line(0, "stream", "stream")
    now, free, done = 0, 0, []
    for k, length in enumerate(kernels):
        begin = now + gap
        ready = max(begin, done[k - depth] if k >= depth else 0)
        b.add(line=host, start=begin, end=ready + 3 * US, category=Category.launch, name=b.name("cudaLaunchKernel"),
              correlation=k)  # fmt: skip
        start = max(ready + 5 * US, free + 1 * US)
        kind = {"category": Category.copy, "bytes": length} if copies else {"category": Category.gpu}
        b.add(line=stream, start=start, end=start + length, name=b.name("memcpy HtoD" if copies else "kernel"),
              correlation=k, **kind)  # fmt: skip
        free = start + length
        done.append(free)
        now = ready + 3 * US
    end = max(now, free) + 2 * US
    b.add(line=host, start=now, end=end, category=Category.sync, name=b.name("cudaDeviceSynchronize"))
    return b.build()


@pytest.mark.parametrize("depth", [32, 200])
@pytest.mark.parametrize("speed", [0.5, 3.0, 1000.0])
def test_launches_into_a_full_queue_move_with_the_device(depth: int, speed: float) -> None:
    kernels = np.random.default_rng(depth).integers(40 * US, 120 * US, 600)
    trace = queued(depth, kernels.tolist(), 10 * US)
    source = r.program(trace)
    assert any(f"({depth} launches)" in note or f"({depth - 1} launches)" in note for note in source.notes)
    assert r.replay(source).seconds == pytest.approx(trace.span * 1e-9, rel=1e-9)
    other = queued(depth, (kernels / speed).astype(int).tolist(), 10 * US)
    assert r.replay(source, Scenario(gpu_speed=speed)).seconds == pytest.approx(other.span * 1e-9, rel=0.01)


def test_copies_behind_a_full_queue_gain_from_bandwidth() -> None:
    lengths = np.random.default_rng(3).integers(40 * US, 120 * US, 400)  # bytes at 1 GB/s, and ns
    source = r.program(queued(64, lengths.tolist(), 10 * US, copies=True))
    other = queued(64, (lengths / 10).astype(int).tolist(), 10 * US, copies=True)
    found = r.replay(source, Scenario(bandwidth=10 * source.bandwidth)).seconds
    assert found == pytest.approx(other.span * 1e-9, rel=0.01)


def test_a_window_of_a_trace_takes_its_own_span() -> None:
    whole = queued(64, [100 * US] * 300, 10 * US)
    window = whole.select(whole.start > whole.span // 3)
    assert r.replay(r.program(window)).seconds == pytest.approx(window.span * 1e-9)


def test_a_given_queue_replaces_the_one_of_the_trace() -> None:
    kernels = [100 * US] * 300
    source = r.program(queued(64, kernels, 10 * US))
    for depth in (16, 128):
        found = r.replay(source, Scenario(queue=depth)).seconds
        assert found == pytest.approx(queued(depth, kernels, 10 * US).span * 1e-9, rel=0.01)
    # If nothing blocks, the host runs ahead.
    assert r.replay(source, Scenario(queue=10_000, gpu_speed=1e9)).seconds == pytest.approx(300 * 13e-6, rel=0.05)


def test_a_queue_that_never_fills_is_not_found() -> None:
    draw = np.random.default_rng(1)
    source = r.program(queued(10_000, draw.integers(40 * US, 120 * US, 400).tolist(), 10 * US))
    assert not any("full launch queue" in note for note in source.notes)


# --- polls, hand-overs, implied waits, event waits -------------------------------------------------------------------


def kernel_and(*rows: tuple[str, int, int, str], watchdog: Sequence[int] = ()) -> Trace:
    """A kernel of 1 ms launched at 0, calls of the main thread (name, begin, end in us, category), and polls."""
    b = Builder("synthetic", "waits")
    host, stream = b.line(0, "main", "host"), b.line(0, "stream", "stream")
    b.add(line=host, start=0, end=5 * US, category=Category.launch, name=b.name("cudaLaunchKernel"), correlation=1)
    b.add(line=stream, start=10 * US, end=1010 * US, category=Category.gpu, name=b.name("kernel"), correlation=1)
    for name, begin, end, category in rows:
        b.add(line=host, start=begin * US, end=end * US, category=Category[category], name=b.name(name))
    for at in watchdog:
        b.add(line=b.line(0, "watchdog", "host"), start=at * US, end=(at + 2) * US, category=Category.launch,
              name=b.name("cudaEventQuery"))  # fmt: skip
    return b.build()


def test_a_watchdog_that_polls_to_the_end_does_not_hold_the_run() -> None:
    trace = kernel_and(("cudaDeviceSynchronize", 5, 1012, "sync"), watchdog=range(50, 1100, 100))
    source = r.program(trace)
    assert r.replay(source).seconds == pytest.approx(trace.span * 1e-9)
    assert r.replay(source, Scenario(gpu_speed=2.0)).seconds == pytest.approx(trace.span * 1e-9 - 500e-6)


def test_a_loop_of_polls_ends_with_the_work_that_it_asks_for() -> None:
    polls = [("cudaEventQuery", at, at + 2, "launch") for at in range(10, 1013, 3)]
    trace = kernel_and(*polls, ("cudaFree", 1100, 1101, "launch"))
    source = r.program(trace)
    assert r.replay(source).seconds == pytest.approx(1101e-6)
    assert r.replay(source, Scenario(gpu_speed=2.0)).seconds == pytest.approx(601e-6)


def test_a_call_that_returns_when_the_device_is_idle_waited_for_it() -> None:
    source = r.program(kernel_and(("cudaFree", 20, 1015, "launch"), ("cudaFree", 1020, 1080, "launch")))
    assert r.replay(source, Scenario(gpu_speed=2.0)).seconds == pytest.approx(580e-6)


def test_a_long_wait_for_nothing_that_the_trace_shows_is_counted() -> None:
    source = r.program(
        kernel_and(("cudaDeviceSynchronize", 5, 1012, "sync"), ("cudaStreamSynchronize", 3000, 3400, "sync"))
    )
    (note,) = [n for n in source.notes if "does not show" in n]
    assert note.startswith("1 of 2 waiting calls")
    assert "11.8%" in note


def test_threads_that_take_turns_hand_over_to_each_other() -> None:
    # The main thread launches and hands over to a worker, which launches, waits for its kernel and hands back.
    b = Builder("synthetic", "turns")
    lines, stream = [b.line(0, n, "host") for n in ("main", "worker")], b.line(0, "stream", "stream")
    at = 0
    for k in range(20):
        line = lines[k % 2]
        b.add(line=line, start=at, end=at + 5 * US, category=Category.launch, name=b.name("launch"), correlation=k)
        b.add(line=stream, start=at + 8 * US, end=at + 308 * US, category=Category.gpu, name=b.name("k"), correlation=k)
        end = at + 310 * US
        b.add(line=line, start=at + 5 * US, end=end, category=Category.sync, name=b.name("cudaStreamSynchronize"))
        at = end + 20 * US
    trace = b.build()
    source = r.program(trace)
    assert any("handed over" in note for note in source.notes)
    assert r.replay(source).seconds == pytest.approx(trace.span * 1e-9)
    assert r.replay(source, Scenario(gpu_speed=3.0)).seconds == pytest.approx(trace.span * 1e-9 - 20 * 200e-6)


def two_streams(wait: str, source_end: int, ids: bool) -> Trace:
    """Kernel 1 on stream A until `source_end` us, and kernel 2 on stream B, launched after a wait, from 500 us on."""
    b = Builder("synthetic", "streams")
    host, first, second = b.line(0, "main", "host"), b.line(0, "A", "stream"), b.line(0, "B", "stream")
    b.add(line=host, start=0, end=5 * US, category=Category.launch, name=b.name("launch"), correlation=1)
    b.add(line=host, start=10 * US, end=12 * US, category=Category.launch, name=b.name(wait), correlation=2)
    b.add(line=host, start=20 * US, end=25 * US, category=Category.launch, name=b.name("launch"), correlation=3)
    b.add(line=first, start=8 * US, end=source_end * US, category=Category.gpu, name=b.name("k1"), correlation=1)
    b.add(line=second, start=500 * US, end=600 * US, category=Category.gpu, name=b.name("k2"), correlation=3)
    b.add(line=host, start=25 * US, end=602 * US, category=Category.sync, name=b.name("cudaDeviceSynchronize"))
    if not ids:
        return b.build()
    return b.build(requires=np.array([[4, 3]]))


@pytest.mark.parametrize("wait", ["cudaStreamWaitEvent", "hipStreamWaitEvent", "cuStreamWaitEvent"])
@pytest.mark.parametrize(("source_end", "ids", "how"), [
    (498, False, "1 resolved by times"), (450, False, "1 resolved by the order of launches"),
    (450, True, "1 resolved by event ids"), (550, False, "1 unresolved"),
])  # fmt: skip
def test_work_waits_for_the_event_of_another_stream(wait: str, source_end: int, ids: bool, how: str) -> None:
    trace = two_streams(wait, source_end, ids)
    source = r.program(trace)
    (note,) = [n for n in source.notes if "waits of streams for events" in n]
    assert how in note
    assert r.replay(source).seconds == pytest.approx(602e-6)
    assert set(source.work.waits) == (set() if "unresolved" in how else {1})
    if source_end < 500:  # kernel 1 begins at 8 us; the time from its end to the start of kernel 2 stays
        slower = 8 + 2 * (source_end - 8) + (500 - source_end) + 200 + 2
        assert r.replay(source, Scenario(gpu_speed=0.5)).seconds == pytest.approx(slower * 1e-6)


def test_collectives_on_streams_keep_their_time_on_a_faster_gpu() -> None:
    work = [Work(0, 10e-6), Work(0, 20e-6, kind=COLLECTIVE)]
    source = program_of([[Call(0.0, 0.0, (0, 1), (0.0, 0.0))]], work, [(0, 1)], 30e-6)
    assert r.replay(source, Scenario(gpu_speed=2.0)).seconds == pytest.approx(25e-6)


# --- Eq. 4 ---------------------------------------------------------------------------------------------------------


def test_a_benefit_that_contradicts_eq_4_gets_a_note_with_the_reason() -> None:
    # 10 ms of work of the host, during which 9 ms of copies run on a stream that it never waits for.
    b = Builder("synthetic", "hidden")
    host, stream = b.line(0, "main", "host"), b.line(0, "stream", "stream")
    for k in range(2):
        at = 10_000 * US * k
        b.add(line=host, start=at, end=at + 5 * US, category=Category.launch, name=b.name("launch"), correlation=k)
        if k == 0:
            b.add(line=stream, start=8 * US, end=9008 * US, category=Category.copy, name=b.name("HtoD"),
                  bytes=9_000_000, correlation=k)  # fmt: skip
    trace = b.build()
    source, terms = r.program(trace), traces.attribute(trace).mean()
    faster = Scenario(bandwidth=10 * source.bandwidth)
    found = r.replay(source, faster)
    assert found.seconds == pytest.approx(10005e-6)
    note = r.contradiction(source, terms, faster, found)
    assert note is not None
    assert "speed-up of 1 contradicts the 5.25 of Eq. 4" in note
    assert "host between calls (100%)" in note
    assert r.contradiction(source, terms, Scenario(bandwidth=faster.bandwidth, lanes=1), found) is None
    assert r.contradiction(source, Terms(1.0, 0.0, 0.0, 0.0, 0.0), faster, found) is None


# --- bounds --------------------------------------------------------------------------------------------------------


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Threads that launch work on streams, wait, block on queues, hand over and copy; work that waits for work."""
    seconds = st.floats(0, 1e-3, allow_subnormal=False)
    threads, streams = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rows: list[list[Call]] = [[] for _ in range(threads)]
    work: list[Work] = []
    on_stream: list[list[int]] = [[] for _ in range(streams)]
    for _ in range(draw(st.integers(1, 25))):
        launches = []
        for _ in range(draw(st.integers(0, 2))):
            stream, before = draw(st.integers(0, streams - 1)), len(work)
            others = [k for k in range(before) if work[k].stream != stream]
            waits = ((draw(st.sampled_from(others)), draw(seconds)),) if others and draw(st.booleans()) else ()
            copy = draw(st.booleans())
            work.append(Work(stream, draw(seconds), after_work=draw(seconds), after_launch=draw(seconds),
                             bytes=1e3 if copy else -1.0, way=UP if copy else NONE, kind=COPY if copy else 0,
                             waits=waits))  # fmt: skip
            launches.append(before)
            on_stream[stream].append(before)
        waited = tuple({draw(st.integers(0, len(work) - 1))}) if work and draw(st.booleans()) else ()
        offsets = tuple(draw(seconds) for _ in launches)
        call = Call(draw(seconds), draw(seconds), tuple(launches), offsets, waited, draw(seconds))
        rows[draw(st.integers(0, threads - 1))].append(call._replace(depth=draw(st.integers(1, 4))))
    rows = [row for row in rows if row]
    return program_of(rows, work, on_stream, 1.0, 1e-6, 1e9)


@pytest.mark.parametrize("name", REAL)
def test_a_real_trace_is_never_faster_than_its_longest_chain_nor_slower_than_the_sum(name: str) -> None:
    source = r.program(load(name))
    for scenario in (Scenario(), Scenario(gpu_speed=2.0, cpu_speed=0.5, latency=5e-5)):
        graph = dependencies(source, scenario)
        seconds, longest = r.replay(source, scenario).seconds - source.rest, longest_path(graph)
        assert seconds == pytest.approx(longest)
        assert seconds <= sum(sum(max(0.0, t) for t in e.values()) for e in graph.values()) * (1 + 1e-9)


@given(programs(), st.floats(0.3, 3), st.floats(0.3, 3), st.floats(1e-6, 1e-3))
@settings(max_examples=80, deadline=None)
def test_a_replay_is_never_faster_than_its_longest_chain_nor_slower_than_the_sum(
    source: Program, gpu: float, cpu: float, latency: float
) -> None:
    scenario = Scenario(gpu_speed=gpu, cpu_speed=cpu, latency=latency)
    try:
        found = r.replay(source, scenario)
    except ValueError as error:  # a launch may wait for work that is launched later
        assert "circular" in str(error) or "cycle" in str(error)  # noqa: PT017
        return
    graph = dependencies(source, scenario)
    longest = longest_path(graph)
    assert found.seconds == pytest.approx(longest)
    assert sum(r.chain(source, found).values()) == pytest.approx(longest)
    shared = r.replay(source, Scenario(gpu_speed=gpu, cpu_speed=cpu, latency=latency, lanes=1, kernels_at_once=1))
    assert longest * (1 - 1e-9) <= shared.seconds <= sum(sum(e.values()) for e in graph.values()) * (1 + 1e-9)


@given(programs())
@settings(max_examples=50, deadline=None)
def test_a_better_machine_is_never_slower(source: Program) -> None:
    try:
        base = r.replay(source).seconds
    except ValueError:
        return
    for worse in (
        [Scenario(bandwidth=b) for b in (np.inf, 1e10, 1e9, 1e8)], [Scenario(latency=s) for s in (0.0, 1e-6, 1e-3)],
        [Scenario(gpu_speed=s) for s in (1e9, 2.0, 1.0, 0.5, 0.01)], [Scenario(cpu_speed=s) for s in (1e9, 1.0, 0.1)],
    ):  # fmt: skip
        times = [r.replay(source, s).seconds for s in worse]
        assert times == sorted(times)
    assert base > 0 or not source.calls.gap.any()


def test_a_call_that_another_thread_hands_over_to_begins_after_its_return() -> None:
    rows = [[Call(1e-3, 1e-3)], [Call(0.2e-3, 1e-3)]]
    source = program_of(rows, [], [], 1.0, hand_overs={1: HandOver(0, 0.5e-3)})
    assert r.replay(source).seconds == pytest.approx(3.5e-3)
    assert r.chain(source, r.replay(source)) == pytest.approx(
        {"host between calls": 1e-3, "calls": 2e-3, "between threads": 0.5e-3, "after the last call and work": 0.0}
    )


def test_the_command_says_what_the_replayed_run_is_bound_by() -> None:
    name = DATA / "hta/critical_path/simple_add/benchmark_result_493459_1694039959_trace.json.gz"
    if not name.exists():
        pytest.skip("needs ../shared/data/traces, absent here")
    done = CliRunner().invoke(weft_command, ["model", "replay", str(name), "--gpu-speed", "2"], catch_exceptions=False)
    assert "the longest chain of this run: calls (9" in done.output
