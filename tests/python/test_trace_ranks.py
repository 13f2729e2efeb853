"""Traces of several ranks as one: ranks, clocks, collectives, and the output of the commands."""

import gzip
import json
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from protobuf_traces import rocprofv3
from rank_traces import LATENCY, RATE, write_exchanges, write_ranks
from test_replay_waits import dependencies, longest_path

from weft.cli.main import weft_command
from weft.model import network
from weft.model import replay as method
from weft.model.result import ModelError
from weft.model.unsized import unsized
from weft.report.trace import summarise
from weft.traces import Category, Trace, Window, attribute, load, transfers
from weft.traces.balance import balance, stragglers
from weft.traces.ranks import _check_each, _offsets

RING = "ncclDevKernel_AllReduce"


def nsys_report(path: Path, rank: int, late: int) -> None:
    """A report of one rank of three collectives, the last two in a group. Its session starts `late` ns later."""
    thread, names = (70 + rank) << 24, ["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "cudaLaunchKernelExC_v11060"]
    said = json.dumps([{"NCCL communicator ID": 77, "Message size [bytes]": 4096}])
    calls = [(1_000_000 * (k + 1) - late, k) for k in range(3)]
    with sqlite3.connect(path) as base:
        base.execute("create table StringIds (id integer, value text)")
        base.executemany("insert into StringIds values (?, ?)", enumerate(names))
        base.execute("create table TARGET_INFO_SESSION_START_TIME (utcEpochNs integer)")
        base.execute("insert into TARGET_INFO_SESSION_START_TIME values (?)", (10**18 + late,))
        base.execute("create table META_DATA_CAPTURE (name text, value text)")
        for name, value in (("OMPI_COMM_WORLD_RANK", rank), ("OMPI_COMM_WORLD_SIZE", 2)):
            text = f'{name}="{value}"'
            base.execute("insert into META_DATA_CAPTURE values ('PROCESS_0:ENVIRONMENT_VARIABLE', ?)", (text,))
        base.execute("create table CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId)")
        base.execute("create table CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, "
                     "correlationId, globalPid, shortName)")  # fmt: skip
        base.execute("create table NVTX_EVENTS (start, end, globalTid, eventType, text, jsonText)")
        for start, k in calls:
            base.execute("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?, ?, ?, ?, 1)",
                         (start + 500, start + 900, thread, k))  # fmt: skip
            base.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (?, ?, 0, 1, 20, ?, ?, 0)",
                         (start + 2_000 + 700 * rank, start + 50_000, k, thread))  # fmt: skip
            for earlier in range(1 + (k == 2)):
                base.execute("insert into NVTX_EVENTS values (?, ?, ?, 59, 'ncclAllReduce', ?)",
                             (start - earlier * 300, start - earlier * 300 + 200, thread, said))  # fmt: skip
    base.close()


def test_reports_of_nsight_systems_are_joined_by_environment_session_and_payload(tmp_path: Path) -> None:
    nsys_report(tmp_path / "b.sqlite", 0, 0)
    nsys_report(tmp_path / "a.sqlite", 1, 400_000)
    trace = load(tmp_path)
    mpi = trace.category == Category.mpi
    assert trace.processes == [0, 1]
    assert trace.bytes[mpi].tolist() == [4096] * 4 + [8192] * 2
    assert (trace.start[mpi & (trace.process == 1)] - trace.start[mpi & (trace.process == 0)]).tolist() == [700] * 3
    assert [r.collectives for r in balance(trace)] == [3, 3]


def starts(trace: Trace, rank: int) -> np.ndarray:
    """When the collectives of a rank start."""
    return trace.start[(trace.category == Category.mpi) & (trace.process == rank)]


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.integers(-20_000_000, 20_000_000), min_size=3, max_size=3),
    st.integers(1, 8_000),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
)
def test_known_offsets_of_clocks_are_found_to_the_stated_residual(
    tmp_path_factory: pytest.TempPathFactory, skews: list[int], jitter: int, cut: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    lost = {r: (cut[2 * r], cut[2 * r + 1]) for r in range(3)}
    write_ranks(folder, 3, 16, skews, jitter=jitter, lost=lost)
    trace = load(folder)
    exact = tmp_path_factory.mktemp("exact")
    write_ranks(exact, 3, 16, jitter=jitter, lost=lost)
    truth = [load(exact / f"rank-{r}.json") for r in range(3)]
    apart = []
    for r in range(3):
        mine = truth[r].start[truth[r].category == Category.mpi] + truth[r].origin
        apart.append(starts(trace, r) - mine)
    shift = [int(a[0]) for a in apart]
    assert all((a == s).all() for a, s in zip(apart, shift, strict=True)), "a clock is shifted as a whole"
    assert max(shift) - min(shift) <= jitter, "ends differ by at most `jitter`, so offsets cannot err more"
    assert any("clocks of 3 ranks are aligned by" in n for n in trace.notes)


def test_clocks_of_ranks_that_share_no_communicator_are_aligned_through_others() -> None:
    offset = np.array([0.0, 5e6, -2e6, 9e6])
    random = np.random.default_rng(3)
    common = random.uniform(0, 1e9, 30)[:, None] + offset
    common[:10, 2:] = np.nan  # ranks 0 and 1
    common[10:20, [0, 3]] = np.nan  # ranks 1 and 2
    common[20:, :2] = np.nan  # ranks 2 and 3
    common[3, 0] += 5e8  # a late record
    found = _offsets(common)
    np.testing.assert_allclose(found - found[0], offset, atol=1)
    assert np.isnan(_offsets(common[:20])).any(), "rank 3 alone"


def test_each_rank_keeps_the_terms_of_its_own_file(tmp_path: Path) -> None:
    files = write_ranks(tmp_path, 4, skews=(0, 10_000, -5_000, 700_000), slow=1)
    joined = attribute(load(tmp_path))
    for rank, file in enumerate(files):
        alone = attribute(load(file))
        assert (joined.nanoseconds[rank] == alone.nanoseconds[0]).all()


def test_the_slow_rank_is_the_straggler(tmp_path: Path) -> None:
    write_ranks(tmp_path, 4, skews=(0, 3_000_000, -900_000, 10_000), slow=2)
    ranks = balance(load(tmp_path))
    assert [r.last for r in ranks] == [0, 0, 12, 0]
    assert "for rank 2, which arrives last at 12 of 12" in stragglers(ranks)
    assert max(ranks, key=lambda r: r.compute_seconds).rank == 2
    assert ranks[2].waits_seconds == 0 < ranks[0].waits_seconds


def test_overlap_and_idle_shares_follow_the_definitions_of_hta(tmp_path: Path) -> None:
    events = [("kernel", "gemm", 7, 0, 100), ("kernel", "gemm", 9, 50, 100), ("kernel", RING + "_Sum", 20, 120, 80),
              ("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 7, 300, 50), ("kernel", "gemm", 7, 390, 10)]  # fmt: skip
    rows = [
        {"ph": "X", "cat": c, "name": n, "pid": 0, "tid": t, "ts": s, "dur": d, "args": {}} for c, n, t, s, d in events
    ]
    for rank in (0, 1):
        info = {"rank": rank, "world_size": 2}
        rows[-1]["ts"] += rank
        (tmp_path / f"{rank}.json").write_text(
            json.dumps({"schemaVersion": 1, "distributedInfo": info, "traceEvents": rows})
        )
    first = balance(load(tmp_path))[0]
    assert first.compute_seconds == pytest.approx(160e-6)  # 0 to 150, and 390 to 400; copies compute nothing
    assert first.communication_seconds == pytest.approx(80e-6)
    assert first.overlap_share == pytest.approx(30 / 80)  # 120 to 150
    assert first.idle_share == pytest.approx(1 - 260 / 400)


def test_the_terms_of_collectives_come_from_the_file(tmp_path: Path) -> None:
    write_ranks(tmp_path, 2, 3, sizes=(1 << 20, 1 << 22, 1 << 24))
    trace = load(tmp_path)
    mpi = trace.category == Category.mpi
    assert trace.bytes[mpi & (trace.process == 1)].tolist() == [1 << 20, 1 << 22, 1 << 24]
    assert len(np.unique(trace.group[mpi])) == 1


def test_a_replay_of_ranks_returns_the_span_and_moves_collectives(tmp_path: Path) -> None:
    write_ranks(tmp_path, 4, 12, skews=(0, 5_000_000, 7_000, -80_000), slow=1, jitter=500)
    trace = load(tmp_path)
    source = method.program(trace)
    assert method.replay(source).seconds == pytest.approx(trace.span * 1e-9, rel=1e-3)
    assert source.message_bandwidth == pytest.approx(RATE, rel=0.05)
    spans = [
        method.replay(source, method.Scenario(message_bandwidth=RATE * factor)).seconds
        for factor in (0.1, 0.5, 1.0, 4.0, np.inf)
    ]
    assert spans == sorted(spans, reverse=True)
    slower = 4 * sum(1.5 * n / RATE for n in (1 << 20, 1 << 22, 1 << 24))  # 12 collectives, 3 / 2 n over each link
    assert spans[1] - spans[2] == pytest.approx(slower, rel=0.05)
    faster = method.replay(source, method.Scenario(gpu_speed=2.0)).seconds
    assert faster < spans[2], "collectives end earlier where all ranks arrive earlier"
    one = method.replay(source, method.Scenario(gpu_speed=2.0, process=0)).seconds
    assert one == pytest.approx(spans[2], rel=0.01), "rank 1 is the one that all wait for"
    unchanged = method.replay(source)
    assert sum(method.chain(source, unchanged).values()) == pytest.approx(unchanged.seconds, rel=1e-9)


def test_collectives_of_nccl_take_the_time_of_a_ring_on_another_network(tmp_path: Path) -> None:
    write_ranks(tmp_path, 4, 6, skews=(0, 9_000, 3_000, 1_000), sizes=(1 << 22,), jitter=0)
    trace = load(tmp_path)
    graph = network.of_trace(trace, compute=False)
    on = network.Network(network.topology("full", (4,)), 1e9, 5e-6)
    assert network.replay(graph, on).seconds == pytest.approx(6 * 6 * (5e-6 + (1 << 20) / 1e9), rel=1e-9)
    same = network.Network(network.topology("full", (4,)), RATE, LATENCY * 1e-9 / 6)
    assert network.replay(network.of_trace(trace), same).seconds == pytest.approx(
        (trace.end.max() - trace.start[trace.category == Category.gpu].min()) * 1e-9, rel=0.01
    )
    tree = network.collective("allreduce-tree", 4, 1e6)
    assert network.replay(tree, on).seconds == pytest.approx(4 * (5e-6 + 1e-3), rel=1e-9)


def test_collectives_that_a_rank_did_not_record_are_left_out(tmp_path: Path) -> None:
    write_ranks(tmp_path, 3, 10, lost={1: (2, 0), 2: (0, 3)}, skews=(0, 40_000_000, 0))
    trace = load(tmp_path)
    assert any("10 collectives at the edges" in n for n in trace.notes)  # 5 on rank 0, 3 and 2 on the others
    assert balance(trace)[0].collectives == 5
    assert network.of_trace(trace).messages == 5 * 12
    waits = replace(trace, requires=np.zeros((0, 2), dtype=np.int64))  # of streams, as PyTorch may record them
    assert network.of_trace(waits).messages == 5 * 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f[1].unlink(), r"had 3 ranks, but there is no file of rank 1; .* \(--rank 0,2\)"),
        (lambda f: (f[0].parent / "again.json").write_bytes(f[0].read_bytes()), "again.json and .* the same events"),
        (lambda f: write_ranks(f[0].parent, 1, name="b{}.json", seed=1, world=3), "two files are of rank 0: b0.json"),
        (lambda f: f[2].write_bytes(f[2].read_bytes()[:-900]), "rank-2.json: the JSON ends early"),
        (lambda f: write_ranks(f[0].parent, 3, skews=(0, 0, 3600 * 10**9)), "clock of rank-2.json is .* away from"),
        (lambda f: write_ranks(f[0].parent, 1, world=8), "different runs, which had 3 and 8 ranks"),
        (lambda f: (f[0].parent / "a.pftrace").write_bytes(rocprofv3().bytes()),
         r"several formats .*: kineto \(rank-0.json\), perfetto \(a.pftrace\); give those of one"),
        (lambda f: (f[0].parent / "bomb.json.gz").write_bytes(gzip.compress(b'{"schemaVersion": 1,' + b" " * 10**8)),
         "bomb.json.gz: the gzip file expands to more than 200 times"),
        (lambda f: f[1].write_text(f[1].read_text().replace("AllReduce", "x").replace("Collective", "")), None),
    ],
)  # fmt: skip
def test_files_that_are_not_one_run_are_refused_in_one_line(tmp_path: Path, change, message: str | None) -> None:
    change(write_ranks(tmp_path, 3))
    if message is None:  # nothing in common to align by
        assert any("no collectives connect all of them" in n for n in load(tmp_path).notes)
        return
    with pytest.raises(ValueError, match=message) as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("of", [{"spread": 4_000_000}, {"sizes": (1 << 10,)}])
def test_files_of_two_runs_at_the_same_time_are_refused(tmp_path: Path, of: dict) -> None:
    write_ranks(tmp_path, 2, 20, seed=1, spread=4_000_000)
    other = tmp_path / "other"
    other.mkdir()
    wrong = write_ranks(other, 2, 20, seed=2, **of)[1]
    (tmp_path / "rank-1.json").write_bytes(wrong.read_bytes())
    wrong.unlink()
    (other / "rank-0.json").unlink()
    with pytest.raises(ValueError, match="different runs"):
        load(tmp_path)


def test_ranks_come_from_the_names_of_files_where_the_files_do_not_say_them(tmp_path: Path) -> None:
    for file in write_ranks(tmp_path, 3, name="host7_{}.json"):
        content = json.loads(file.read_text())
        del content["distributedInfo"]
        file.write_text(json.dumps(content))
    assert load(tmp_path).processes == [0, 1, 2]
    (tmp_path / "host7_1.json").rename(tmp_path / "host7_x.json")
    assert any("ranks follow the order of the names" in n for n in load(tmp_path).notes)


def test_some_ranks_can_be_read_alone_and_files_given_as_a_list(tmp_path: Path) -> None:
    files = write_ranks(tmp_path, 4)
    packed = tmp_path / "p.json.gz"
    packed.write_bytes(gzip.compress(files[3].read_bytes()))
    files[3].unlink()
    files[1].unlink()
    assert load([files[0], files[2], packed], window=Window(ranks=(0, 3))).processes == [0, 3]


@pytest.mark.parametrize("single", [False, True])
def test_messages_of_nccl_are_joined_over_files_and_replayed(single: bool, tmp_path: Path) -> None:
    write_exchanges(tmp_path, single=single)
    trace = load(tmp_path)
    carried = transfers.match(trace)
    assert not carried.alone
    processes = Counter((int(trace.process[a]), int(trace.process[b])) for a, b, _ in carried.found)
    pairs = {(r, (r + 1) % 4) for r in range(4)} | (set() if single else {((r + 1) % 4, r) for r in range(4)})
    assert processes == dict.fromkeys(pairs, 8)
    assert {size for _, _, size in carried.found} == {1 << 20, 1 << 24}
    source = method.program(trace)
    base = method.replay(source)
    assert base.seconds == pytest.approx(trace.span * 1e-9)
    assert source.message_bandwidth == pytest.approx(RATE, rel=0.02)
    one = [method.replay(source, method.Scenario(gpu_speed=2.0, process=r)).seconds for r in range(4)]
    assert min(one) == one[1] < 0.95 * base.seconds  # rank 1 computes longest, and its neighbours wait for it
    assert one[3] == pytest.approx(base.seconds)
    half = method.replay(source, method.Scenario(message_bandwidth=RATE / 2)).seconds
    assert half - base.seconds == pytest.approx(4 * ((1 << 20) + (1 << 24)) / RATE, rel=0.05)
    on = network.Network(network.topology("full", (4,)), 1e9, 5e-6)
    seconds = 4 * ((1 << 20) + (1 << 24)) / 1e9 + 8 * 5e-6
    assert network.replay(network.of_trace(trace, compute=False), on).seconds == pytest.approx(seconds)


def test_messages_of_nccl_whose_other_side_is_missing_get_a_note(tmp_path: Path) -> None:
    write_exchanges(tmp_path, 4)
    trace = load(tmp_path, window=Window(ranks=(0, 1)))
    assert len(transfers.match(trace).found) == 16
    source = method.program(trace)
    assert method.replay(source).seconds == pytest.approx(trace.span * 1e-9)
    assert any("send 8 messages from rank 0 to rank 3, of which 0 are received" in note for note in source.notes)
    with pytest.raises(ModelError, match=r"send 8 messages from rank \d to rank \d, of which 0 are received; a trace"):
        network.of_trace(trace)


def without(folder: Path, *keys: str) -> None:
    """Removes arguments from all events of all ranks."""
    for file in folder.glob("*.json"):
        content = json.loads(file.read_text())
        for event in content["traceEvents"]:
            event["args"] = {k: v for k, v in event["args"].items() if k not in keys}
        file.write_text(json.dumps(content))


def test_kernels_of_nccl_whose_messages_are_not_recorded_get_a_note(tmp_path: Path) -> None:
    write_exchanges(tmp_path, 4)
    assert unsized(load(tmp_path)) == []
    without(tmp_path, "Collective name", "Src Rank", "Dst Rank", "In msg nelems")
    trace = load(tmp_path)
    assert network.of_trace(trace).messages == 0
    (note,) = unsized(trace)
    assert note.startswith("32 kernels such as 'ncclDevKernel_SendRecv' (")
    assert "whose sizes and ranks the trace does not have" in note
    assert "PyTorch's profiler" in note
    shown = CliRunner().invoke(weft_command, ["model", "network", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "32 kernels such as" in shown.output


def test_collectives_of_nccl_without_a_size_get_a_note(tmp_path: Path) -> None:
    write_ranks(tmp_path, 4, 5)
    trace = load(tmp_path)
    assert unsized(trace) == []
    collectives = int((trace.category == Category.mpi).sum())
    without(tmp_path, "In msg nelems", "Out msg nelems")
    (note,) = unsized(load(tmp_path))
    assert note.startswith(f"{collectives} of {collectives} collectives of a rank, such as 'nccl")


def test_processes_that_the_operating_system_numbers_are_not_called_ranks(tmp_path: Path) -> None:
    write_ranks(tmp_path, 2, 5)
    shown = summarise(load(tmp_path))
    assert "\nRANK  SPAN" in shown
    assert "rank 1 computes longest" in shown or "rank 0 computes longest" in shown
    trace = load(tmp_path)
    numbered = replace(trace, process=trace.process + 4711, rank=-1, world=-1)
    shown = summarise(numbered)
    assert "\nPROCESS  SPAN" in shown
    assert "process 4712 computes longest" in shown or "process 4711 computes longest" in shown
    assert "rank 47" not in shown


def test_messages_in_the_payloads_of_nsight_systems_belong_to_the_next_kernel(tmp_path: Path) -> None:
    for rank in (0, 1):
        nsys_report(tmp_path / f"{rank}.sqlite", rank, 0)
        with sqlite3.connect(tmp_path / f"{rank}.sqlite") as base:
            base.execute("update StringIds set value = 'ncclDevKernel_SendRecv' where id = 0")
            base.execute("delete from NVTX_EVENTS")
            for k, start in enumerate((1_000_000, 2_000_000, 3_000_000)):
                for n, name in enumerate(("ncclSend", "ncclRecv")):
                    said = {"NCCL communicator ID": 77, "Message size [bytes]": 512 << k, "Peer rank": 1 - rank}
                    base.execute("insert into NVTX_EVENTS values (?, ?, ?, 59, ?, ?)",
                                 (start + 100 * n, start + 100 * n + 50, (70 + rank) << 24, name,
                                  json.dumps([said])))  # fmt: skip
        base.close()
    trace = load(tmp_path)
    found = transfers.match(trace)
    assert not found.alone
    assert sorted(size for _, _, size in found.found) == [512, 512, 1024, 1024, 2048, 2048]
    assert all(trace.start[b] - trace.start[a] in (700, -700) for a, b, _ in found.found)
    assert network.of_trace(trace).messages == 6


def test_one_file_of_another_run_of_the_same_program_is_refused_or_noted(tmp_path: Path) -> None:
    write_ranks(tmp_path, 4, 20, seed=1, spread=4_000_000)
    other = tmp_path / "other"
    other.mkdir()
    write_ranks(other, 4, 20, seed=2, spread=4_000_000)[2].replace(tmp_path / "rank-2.json")
    for file in other.iterdir():
        file.unlink()
    try:
        notes = load(tmp_path).notes
    except ValueError as error:
        notes = (str(error),)
    assert any("rank-2.json" in note and "of a different run" in note for note in notes)


def test_a_clock_that_drifts_is_no_sign_of_another_run() -> None:
    random = np.random.default_rng(5)
    files = [SimpleNamespace(path=f"rank-{r}.json") for r in range(4)]
    ends = np.cumsum(random.uniform(5e6, 7e6, 2000))[:, None] + random.normal(0, 500, (2000, 4))
    notes: list[str] = []
    drifts = ends + np.array([0, 0, 4e-5, 0]) * ends  # up to 480 us
    _check_each(files, drifts, 6e6, "run", notes)  # type: ignore[arg-type]
    assert not notes
    other = ends.copy()
    other[:, 3] += np.cumsum(random.normal(0, 2e4, 2000))
    with pytest.raises(ValueError, match=r"of rank-3.json end .* a different run"):
        _check_each(files, other, 1e6, "run", notes)  # type: ignore[arg-type]


def test_a_folder_with_one_rank_of_many_says_so(tmp_path: Path) -> None:
    (file,) = write_ranks(tmp_path, 1, world=8)
    assert any("only the trace of rank 0, but the run had 8 ranks" in note for note in load(tmp_path).notes)
    assert not any("the run had 8 ranks" in note for note in load(file).notes)


@pytest.mark.parametrize("write", [write_ranks, write_exchanges])
def test_a_replay_of_ranks_takes_as_long_as_its_longest_chain_and_is_monotone(write, tmp_path: Path) -> None:
    write(tmp_path, 4)
    source = method.program(load(tmp_path))
    for scenario in (method.Scenario(), method.Scenario(gpu_speed=3.0), method.Scenario(gpu_speed=0.5, cpu_speed=2.0)):
        graph = dependencies(source, scenario)
        seconds = method.replay(source, scenario).seconds - source.rest
        assert seconds == pytest.approx(longest_path(graph))
        assert seconds <= sum(sum(max(0.0, t) for t in e.values()) for e in graph.values())
    for field, worse in (("gpu_speed", [9.0, 1.0, 0.5]), ("message_latency", [0.0, 1e-4, 1e-3]),
                         ("message_bandwidth", [np.inf, RATE, 1e9]), ("latency", [0.0, 1e-5, 1e-4])):  # fmt: skip
        times = [method.replay(source, method.Scenario(**{field: value})).seconds for value in worse]
        assert times == sorted(times)
