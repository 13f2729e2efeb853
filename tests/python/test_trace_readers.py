"""Readers of traces: the sample files, with counts taken by other means, and small files of every format."""

import gzip
import json
import sqlite3
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from weft.model.replay import AS_TRACED, Scenario, duration, program, replay
from weft.traces import Category, Trace, attribute, formats, load
from weft.traces.launches import Launches

DATA = Path(__file__).parents[3] / "shared" / "data" / "traces"
otf2 = pytest.mark.skipif(find_spec("otf2") is None, reason="PyPI has no otf2 for this Python: nothing to read with")
sample = pytest.mark.skipif(not DATA.is_dir(), reason=f"the sample traces are not at {DATA}")


def count(trace: Trace) -> dict[str, int]:
    return {Category(int(c)).name: int(n) for c, n in zip(*np.unique(trace.category, return_counts=True), strict=True)}


def names(trace: Trace, category: Category | None = None) -> dict[str, int]:
    mask = np.ones(len(trace), bool) if category is None else trace.category == category
    return dict(Counter(trace.names[n] for n in trace.name[mask]))


def moved(trace: Trace, name: str) -> int:
    return int(trace.bytes[trace.name == trace.names.index(name)].sum())


def length(trace: Trace, name: str) -> int:
    mask = trace.name == trace.names.index(name)
    return int((trace.end - trace.start)[mask].sum())


def sane(trace: Trace) -> None:
    """Checks that every loaded trace must pass, including the terms of Eq. 3."""
    trace.validate()
    assert (np.diff(trace.start) >= 0).all()
    assert trace.start[0] == 0
    terms = attribute(trace).nanoseconds
    assert terms.min() >= 0
    _, process = np.unique(trace.process, return_inverse=True)
    first, last = np.full(len(terms), trace.span), np.zeros(len(terms), int)
    np.minimum.at(first, process, trace.start)
    np.maximum.at(last, process, trace.end)
    assert (terms.sum(axis=1) == last - first).all()


# sqlite3 FILE "select count(*), sum(end - start) from ..." gave the figures of both reports.
@sample
def test_nsight_systems_report_of_cloverleaf() -> None:
    trace = load(DATA / "pipit" / "perlmutter-cloverleaf-cuda.sqlite")
    sane(trace)
    assert trace.format == "nsys"
    assert len(trace) == 3048 + 1312 + 279 + 1312 + 1831  # calls, kernels, copies, waits, system calls
    assert names(trace, Category.copy) == {"cudaMemcpy": 279, "[CUDA memcpy HtoD]": 254, "[CUDA memcpy DtoH]": 25}
    calls = names(trace, Category.launch)
    assert calls == {"cuModuleGetLoadingMode": 1, "cudaFree": 68, "cudaLaunchKernel": 1312, "cudaMalloc": 76}
    assert moved(trace, "[CUDA memcpy HtoD]") == 225065752
    assert length(trace, "[CUDA memcpy HtoD]") == 9346285
    assert length(trace, "cudaDeviceSynchronize") == 301652956
    assert [line.kind for line in trace.lines].count("stream") == 1
    assert trace.processes == [1701896]


@sample
def test_summed_calls_of_cloverleaf_exceed_the_run_but_attributed_terms_do_not() -> None:
    """Eq. 3 by the report's rule: t_CPU = t_total - the sums of kernels, copies and calls that do not copy."""
    trace = load(DATA / "pipit" / "perlmutter-cloverleaf-cuda.sqlite")
    calls = trace.select(trace.of(Category.gpu, Category.launch, Category.sync, Category.copy))
    calls = calls.select(~np.array([n.startswith("[") and "sync" in n for n in calls.names])[calls.name])
    times = calls.end - calls.start
    on_stream = calls.on_stream()
    control = times[~on_stream & (calls.category != Category.copy)].sum()
    assert calls.span - times[on_stream].sum() - control < 0
    terms = attribute(calls)
    assert terms.t_cpu[0] > 0
    kernels = trace.category == Category.gpu
    # One stream: kernels do not overlap, so their sum is their union.
    assert round(terms.t_gpu[0] * 1e9) == (trace.end - trace.start)[kernels].sum()
    # The waits' 302 ms are nearly all kernels' time: what is left of them is under 15 ms.
    assert terms.t_cg_control[0] < 1e-9 * (length(trace, "cudaMalloc") + length(trace, "cudaFree")) + 0.015


@sample
def test_nsight_systems_report_with_mpi_in_nvtx_ranges() -> None:
    trace = load(DATA / "pipit" / "saxpy-mpi-cuda_nsys_perlmutter0.sqlite")
    sane(trace)
    assert len(trace) == 95 + 5 + 15 + 22
    mpi = names(trace, Category.mpi)
    assert mpi == {"MPI_Init": 1, "MPI_Send": 10, "MPI_Recv": 5, "MPI_Finalize": 1}
    assert names(trace, Category.other) == {"saxpy": 5}
    assert names(trace, Category.gpu) == {"saxpy": 5}
    assert moved(trace, "[CUDA memcpy DtoH]") == 1310720000


HTA = {  # zcat FILE | jq '[.traceEvents[] | select(.ph == "X") | .cat] | group_by(.) ...'
    "critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz": (868, 79, 16, 3, 361, 41),
    "critical_path/cuda_event_sync/event_sync_trace.json.gz": (33, 4, 1, 0, 12, 4),
    "critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz": (57, 3, 0, 3, 39, 5),
    "critical_path/end_to_end/simple_add/input/trace.json.gz": (838, 79, 16, 3, 331, 41),
    "critical_path/end_to_end/simple_add/output/overlaid_critical_path_trace.json.gz": (838, 79, 16, 3, 331, 41),
    "critical_path/simple_add/benchmark_result_493459_1694039959_trace.json.gz": (838, 79, 16, 3, 331, 41),
    "nccl_data.json.gz": (26933, 2700, 960, 114, 8740, 0),
}


@sample
@pytest.mark.parametrize("file", HTA)
def test_kineto_sample(file: str) -> None:
    events, kernels, copies, sets, calls, waits = HTA[file]
    trace = load(DATA / "hta" / file)
    sane(trace)
    assert trace.format == "kineto"
    assert len(trace) == events
    assert trace.processes == [0]  # distributedInfo says rank 0
    assert trace.on_stream().sum() == kernels + copies + sets
    runtime = np.array([n.startswith("cuda") for n in trace.names])[trace.name] & ~trace.on_stream()
    assert runtime.sum() == calls
    on_thread = np.array([n.endswith(" Sync") or n.endswith(" Event") for n in trace.names])[trace.name]
    assert on_thread.sum() == waits


@sample
def test_kernels_of_nccl_are_communication() -> None:
    trace = load(DATA / "hta" / "nccl_data.json.gz")
    found = names(trace, Category.mpi)
    assert sum(found.values()) == 21  # zcat FILE | grep -c '"name": "ncclKernel'
    assert all(n.startswith("ncclKernel") for n in found)
    assert count(trace)["gpu"] == 2700 - 21 + 114 + 960  # all its copies are from device to device


@sample
@otf2
@pytest.mark.parametrize("folder", ["ping-pong-otf2", "ping-pong-otf2-papi"])
def test_otf2_archive(folder: str) -> None:
    """Counts as the library's own Python reader gives them: 42 regions entered and left, 16 sends and 16 receives."""
    trace = load(DATA / "pipit" / folder / "traces.otf2")
    sane(trace)
    assert trace.format == "otf2"
    assert len(trace) == 42
    assert trace.processes == [0, 1]
    found = names(trace)
    assert found.pop("int main(int, char**)") == 2
    assert found == {
        "MPI_Init": 2, "MPI_Comm_size": 2, "MPI_Comm_rank": 2, "MPI_Send": 16, "MPI_Recv": 16, "MPI_Finalize": 2,
    }  # fmt: skip
    assert count(trace) == {"cpu": 2, "mpi": 40}
    assert moved(trace, "MPI_Send") + moved(trace, "MPI_Recv") == 16711680
    sends = trace.name == trace.names.index("MPI_Send")
    assert (trace.peer[sends] == 1 - trace.process[sends]).all()


@sample
def test_archive_of_collectives_holds_four_runs() -> None:
    """tar xOf FILE 'resPP_256/trace_MPIAllreduce*' | wc -l and so on."""
    archive = DATA / "fenate" / "sw4lite_256_2k_data.tgz"
    trace = load(archive)
    sane(trace)
    assert len(trace.processes) == 256 + 512 + 1024 + 2048
    assert names(trace) == {"MPI_Allreduce": 53760, "MPI_Gather": 3840, "MPI_Reduce": 15360}
    assert moved(trace, "MPI_Allreduce") == 40960 + 81920 + 163840 + 327680
    one = load(archive / "resPP_512")
    assert len(one.processes) == 512
    assert len(one) == 7168 + 512 + 2048
    with pytest.raises(ValueError, match="has no run 'resPP_3k'; its runs are resPP_256, resPP_512"):
        load(archive / "resPP_3k")


@sample
def test_goal_schedule() -> None:
    trace = load(DATA / "loggopsim" / "binary_tree_32.goal")
    sane(trace)
    assert names(trace) == {"send": 31, "recv": 31}  # grep -c send, grep -c recv
    assert len(trace.requires) == 26 + 31  # grep -c requires, and a pair for each message
    assert trace.processes == list(range(32))


@sample
@pytest.mark.parametrize(
    ("file", "events", "streams"),
    [("cloverleaf-cuda_api_trace.csv", 3048, 0), ("cloverleaf_gpu_trace.csv", 1591, 1), ("trace.csv", 131, 0)],
)  # grep -c ,Enter, FILE
def test_tables_of_pipit(file: str, events: int, streams: int) -> None:
    trace = load(DATA / "pipit" / file)
    sane(trace)
    assert len(trace) == events
    assert [line.kind for line in trace.lines].count("stream") == streams


@sample
def test_a_report_and_the_tables_exported_from_it_give_the_same_times() -> None:
    report = load(DATA / "pipit" / "perlmutter-cloverleaf-cuda.sqlite")
    work, calls = (
        load(DATA / "pipit" / "cloverleaf_gpu_trace.csv"),
        load(DATA / "pipit" / "cloverleaf-cuda_api_trace.csv"),
    )
    mine = report.select(report.on_stream())
    assert (work.start + work.origin == mine.start + mine.origin).all()
    assert (work.end + work.origin == mine.end + mine.origin).all()
    assert (np.maximum(work.bytes, -1) == mine.bytes).all()
    assert length(calls, "cudaMalloc") == length(report, "cudaMalloc")


def database(path: Path, script: str) -> Path:
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
    connection.close()
    return path


THREAD = (77 << 24) + 78
NSYS = f"""
create table StringIds (id integer primary key, value text);
insert into StringIds values (1, 'cudaLaunchKernel_v7000'), (2, 'k'), (3, 'MPI_Isend'), (4, 'MPI_Allreduce'),
    (5, 'MPI_Waitall'), (6, 'MPI_Comm_dup'), (7, 'cuMemcpyHtoD_v2'), (8, 'ncclDevKernel_AllReduce'), (9, 'phase');
create table MPI_RANKS (globalTid integer, rank integer);
insert into MPI_RANKS values ({THREAD}, 3);
create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, globalTid integer, correlationId integer,
    nameId integer);
insert into CUPTI_ACTIVITY_KIND_RUNTIME values (1000, 1100, {THREAD}, 5, 1), (1200, 1400, {THREAD}, 6, 7),
    (1500, null, {THREAD}, 9, 1);
create table CUPTI_ACTIVITY_KIND_KERNEL_V3 (start integer, end integer, deviceId integer, streamId integer,
    contextId integer, globalPid integer, correlationId integer, shortName integer);
insert into CUPTI_ACTIVITY_KIND_KERNEL_V3 values (1050, 1250, 0, 13, 1, {77 << 24}, 5, 2),
    (1060, 1090, 0, 14, 1, {77 << 24}, 7, 8);
create table CUPTI_ACTIVITY_KIND_MEMSET (start integer, end integer, deviceId integer, streamId integer,
    globalPid integer, bytes integer);
insert into CUPTI_ACTIVITY_KIND_MEMSET values (1260, 1270, 0, 13, {77 << 24}, 64);
create table MPI_P2P_EVENTS (start integer, end integer, globalTid integer, textId integer, remoteRank integer,
    size integer);
insert into MPI_P2P_EVENTS values (2000, 2010, {THREAD}, 3, 1, 800);
create table MPI_COLLECTIVES_EVENTS (start integer, end integer, globalTid integer, textId integer, rootRank integer,
    size integer);
insert into MPI_COLLECTIVES_EVENTS values (2020, 2030, {THREAD}, 4, null, 8);
create table MPI_START_WAIT_EVENTS (start integer, end integer, globalTid integer, textId integer);
insert into MPI_START_WAIT_EVENTS values (2040, 2060, {THREAD}, 5);
create table MPI_OTHER_EVENTS (start integer, end integer, globalTid integer, textId integer);
insert into MPI_OTHER_EVENTS values (2070, 2080, {THREAD}, 6);
create table NVTX_EVENTS (start integer, end integer, eventType integer, globalTid integer, textId integer, text text);
insert into NVTX_EVENTS values (900, 2500, 59, {THREAD}, 9, null), (950, 2600, 60, {THREAD}, null, 'loose'),
    (960, null, 34, {THREAD}, null, 'mark');
"""


def cuda_events(path: Path, number: str = "eventSyncId integer") -> Path:
    """A report, with the columns of schema 3.13, in which stream 14 waits for an event of stream 13, and then the host
    for the same event, which was recorded again."""
    calls = [(1_000, "cudaLaunchKernel"), (2_000, "cudaEventRecord"), (3_000, "cudaLaunchKernel"),
             (4_000, "cudaStreamWaitEvent"), (5_000, "cudaLaunchKernel"), (6_000, "cudaEventRecord"),
             (7_000, "cudaEventSynchronize"), (60_000, "cudaStreamSynchronize"),
             (80_000, "cudaCtxSynchronize")]  # fmt: skip
    work = [(1, 13, 10_000, 20_000), (3, 13, 20_000, 50_000), (5, 14, 20_500, 70_000)]
    with sqlite3.connect(path) as base:
        base.executescript(f"""
            create table StringIds (id integer primary key, value text);
            create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, globalTid integer,
                correlationId integer, nameId integer);
            create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, deviceId integer, contextId integer,
                streamId integer, correlationId integer, globalPid integer, shortName integer);
            create table CUPTI_ACTIVITY_KIND_CUDA_EVENT (timestamp integer, deviceId integer, contextId integer,
                streamId integer, correlationId integer, globalPid integer, eventId integer, {number});
            create table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start integer, end integer, deviceId integer,
                contextId integer, streamId integer, correlationId integer, globalPid integer, syncType integer,
                eventId integer, {number});
        """)
        names = list(dict.fromkeys(name for _, name in calls))
        base.executemany("insert into StringIds values (?, ?)", enumerate([*names, "k"]))
        ends = {7: 51_000, 8: 71_000, 9: 80_500}
        for k, (start, name) in enumerate(calls, 1):
            base.execute("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?, ?, ?, ?, ?)",
                         (start, ends.get(k, start + 500), THREAD, k, names.index(name)))  # fmt: skip
        for link, stream, start, end in work:
            base.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (?, ?, 0, 1, ?, ?, ?, ?)",
                         (start, end, stream, link, 77 << 24, len(names)))  # fmt: skip
        for link, n in ((2, 700), (6, 701)):
            base.execute("insert into CUPTI_ACTIVITY_KIND_CUDA_EVENT values (0, 0, 1, 13, ?, ?, 42, ?)",
                         (link, 77 << 24, n))  # fmt: skip
        none = 2**32 - 1
        for link, kind, stream, event, n in ((4, 2, 14, 42, 700), (7, 1, none, 42, 701), (8, 3, 14, none, none),
                                             (9, 4, none, none, none)):  # fmt: skip
            start, end = calls[link - 1][0] + 10, ends.get(link, calls[link - 1][0] + 500) - 10
            base.execute("insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (?, ?, 0, 1, ?, ?, ?, ?, ?, ?)",
                         (start, end, stream, link, 77 << 24, kind, event, n))  # fmt: skip
    base.close()
    return path


@pytest.mark.parametrize("number", ["eventSyncId integer", "reserved integer"])
def test_the_records_of_cuda_events_say_what_calls_and_streams_wait_for(number: str, tmp_path) -> None:
    trace = load(cuda_events(tmp_path / "r.sqlite", number))
    sane(trace)
    work = {int(trace.correlation[i]): i for i in np.flatnonzero(trace.on_stream()).tolist()}
    call = {int(trace.correlation[i]): i for i in range(len(trace))
            if not trace.on_stream()[i] and not trace.names[trace.name[i]].startswith("[")}  # fmt: skip
    assert trace.requires is not None
    assert {tuple(pair) for pair in trace.requires.tolist()} == {
        (work[5], work[1]), (call[7], work[3]), (call[8], work[5]), (call[9], work[3]), (call[9], work[5])
    }  # fmt: skip
    source = program(trace)
    assert any("1 waits of streams for events: 1 resolved by event ids" in note for note in source.notes)
    assert replay(source).seconds == pytest.approx(trace.span * 1e-9)
    half = replay(
        source, Scenario(gpu_speed=0.5)
    ).seconds  # kernel 5 begins after kernel 1, and both last twice as long
    assert half == pytest.approx(trace.span * 1e-9 + 10e-6 + 49.5e-6)


def test_a_report_with_every_mpi_table_and_numbered_tables(tmp_path) -> None:
    trace = load(database(tmp_path / "r.sqlite", NSYS))
    sane(trace)
    assert names(trace) == {"cudaLaunchKernel": 1, "cuMemcpyHtoD": 1, "k": 1, "ncclDevKernel_AllReduce": 1,
                            "[CUDA memset]": 1, "MPI_Isend": 1, "MPI_Allreduce": 1, "MPI_Waitall": 1,
                            "MPI_Comm_dup": 1, "phase": 1, "loose": 1}  # fmt: skip
    assert names(trace, Category.mpi).keys() == {"MPI_Isend", "MPI_Allreduce", "MPI_Waitall", "MPI_Comm_dup",
                                                 "ncclDevKernel_AllReduce"}  # fmt: skip
    assert names(trace, Category.copy) == {"cuMemcpyHtoD": 1}
    assert trace.processes == [3]
    send = int(np.flatnonzero(trace.name == trace.names.index("MPI_Isend"))[0])
    assert (int(trace.bytes[send]), int(trace.peer[send])) == (800, 1)
    kernel = int(np.flatnonzero(trace.name == trace.names.index("k"))[0])
    launch = int(np.flatnonzero(trace.name == trace.names.index("cudaLaunchKernel"))[0])
    assert trace.correlation[kernel] == trace.correlation[launch] == 5
    assert trace.lines[trace.line[kernel]].label == "device 0 context 1 stream 13"
    assert any("1 events had not ended" in n for n in trace.notes)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("create table plants (name text); insert into plants values ('fern');", r"tables with rows: plants \(1\)"),
        (NSYS.replace("start integer, end integer, globalTid integer, correlationId", "begin integer, till integer, "
                      "globalTid integer, correlationId").split("create table CUPTI_ACTIVITY_KIND_KERNEL")[0],
         "CUPTI_ACTIVITY_KIND_RUNTIME has no columns 'start' and 'end', but begin, till"),
        ("create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer);", "has no events of Nsight Systems"),
        ("create table CUPTI_ACTIVITY_KIND_RUNTIME (start, end); "
         "insert into CUPTI_ACTIVITY_KIND_RUNTIME values ('x', 3);", "has text instead of numbers"),
        ("create table CUPTI_ACTIVITY_KIND_RUNTIME (start, end); "
         "insert into CUPTI_ACTIVITY_KIND_RUNTIME values (7, 3);", "clock runs backwards"),
    ],
)  # fmt: skip
def test_a_foreign_database_says_what_it_holds(tmp_path, script: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(database(tmp_path / "r.sqlite", script))


def test_kernels_that_name_no_process_belong_to_the_only_one_that_calls(tmp_path) -> None:
    script = (f"create table CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId); "
              f"insert into CUPTI_ACTIVITY_KIND_RUNTIME values (1, 3, {THREAD}, 5);"
              "create table CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId);"
              "insert into CUPTI_ACTIVITY_KIND_KERNEL values (4, 9, 0, 7, 5);")  # fmt: skip
    trace = load(database(tmp_path / "r.sqlite", script))
    assert len(trace.processes) == 1
    assert attribute(trace).nanoseconds.tolist() == [[1, 5, 0, 0, 2]]


def test_a_report_without_device_work_says_so(tmp_path) -> None:
    script = NSYS.split("create table CUPTI_ACTIVITY_KIND_KERNEL")[0]
    assert any("no device work; tables with rows" in n for n in load(database(tmp_path / "r.sqlite", script)).notes)


def kineto(path: Path, events: list[dict], **header) -> Path:
    with gzip.open(path, "wt") as file:
        json.dump({"schemaVersion": 1, "traceEvents": events, **header}, file)
    return path


def event(cat: str, name: str, pid, tid, ts, dur, **args) -> dict:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def test_waits_for_cuda_events_become_requirements_between_streams(tmp_path) -> None:
    events = [
        event("cuda_runtime", "cudaLaunchKernel", 50, 50, 0, 1, correlation=1),
        event("kernel", "first", 0, 7, 10, 5, correlation=1, stream=7),
        event("cuda_runtime", "cudaEventRecord", 50, 50, 2, 1, correlation=2),
        event("cuda_runtime", "cudaLaunchKernel", 50, 50, 4, 1, correlation=3),
        event("kernel", "not waited for", 0, 7, 20, 50, correlation=3, stream=7),
        event("cuda_runtime", "cudaStreamWaitEvent", 50, 50, 6, 1, correlation=4),
        event("cuda_sync", "Stream Wait Event", 0, 8, 6, 1, correlation=4, stream=8, wait_on_stream=7,
              wait_on_cuda_event_record_corr_id=2, cuda_sync_kind="Stream Wait Event"),
        event("cuda_runtime", "cudaLaunchKernel", 50, 50, 8, 1, correlation=5),
        event("kernel", "waits", 0, 8, 16, 4, correlation=5, stream=8),
        event("cuda_runtime", "cudaDeviceSynchronize", 50, 50, 10, 62, correlation=6),
        event("cuda_sync", "Context Sync", 0, -1, 10.5, 61, correlation=6, stream=-1, cuda_sync_kind="Context Sync"),
    ]  # fmt: skip
    trace = load(kineto(tmp_path / "t.json.gz", events, distributedInfo={"rank": 4}))
    sane(trace)
    assert trace.processes == [4]
    pairs = {(trace.names[trace.name[a]], trace.names[trace.name[b]]) for a, b in trace.requires}
    assert pairs == {
        ("waits", "first"),
        ("cudaDeviceSynchronize", "waits"),
        ("cudaDeviceSynchronize", "not waited for"),
    }
    wait = int(np.flatnonzero(trace.name == trace.names.index("Context Sync"))[0])
    assert trace.lines[trace.line[wait]].label == "thread 50"


def test_categories_of_old_versions_are_known(tmp_path) -> None:
    events = [
        event("Operator", "aten::add", 50, 50, 0, 9),
        event("Runtime", "cudaLaunchKernel", 50, 50, 1, 2, correlation=1),
        event("Kernel", "k", 0, 7, 4, 5, correlation=1),
        event("Memcpy", "Memcpy DtoH", 0, 7, 9, 2, bytes=8),
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}, indent=1))
    trace = load(path)
    assert trace.format == "kineto"
    assert count(trace) == {"cpu": 1, "launch": 1, "gpu": 1, "copy": 1}
    assert trace.processes == [50]


def python_threads(events: list[dict]) -> list[dict]:
    return [*events, event("python_function", "threading.py(1): wait", 0, 0, 0, 100),
            event("gpu_user_annotation", "step", 0, 7, 0, 100),
            event("Trace", "PyTorch Profiler (0)", "Spans", "x", 0, 99)]  # fmt: skip


@pytest.mark.parametrize("pid", [50, 0, 1])  # in a container, a process may have the number of a GPU
def test_python_threads_and_spans_under_the_number_of_a_gpu_belong_to_the_process_that_launched(tmp_path, pid) -> None:
    events = [event("cuda_runtime", "cudaLaunchKernel", pid, 50, 0, 1, correlation=1),
              event("kernel", "k", 0, 7, 10, 80, correlation=1)]  # fmt: skip
    trace = load(kineto(tmp_path / "t.json.gz", python_threads(events)))
    assert trace.processes == [pid]
    assert attribute(trace).t_gpu.tolist() == pytest.approx([80e-6])
    assert attribute(trace).t_total.tolist() == pytest.approx([100e-6])


def test_two_hosts_that_share_a_gpu_and_number_their_calls_alike_keep_apart(tmp_path) -> None:
    events = []
    for pid, late in ((50, 0), (60, 20)):
        for k in range(3):
            start = 100 * k + late
            events += [event("cuda_runtime", "cudaLaunchKernel", pid, pid, start, 1, correlation=k),
                       event("kernel", f"of {pid}", 0, 7, start + 5, 10 + late, correlation=k)]  # fmt: skip
    events += [event("cuda_runtime", "cudaDeviceSynchronize", 60, 60, 222, 30, correlation=9),
               event("cuda_sync", "Context Sync", 0, -1, 223, 29, correlation=9, stream=-1,
                     cuda_sync_kind="Context Sync"),
               event("gpu_memset", "nobody launched this", 0, 7, 300, 5)]  # fmt: skip
    trace = load(kineto(tmp_path / "t.json.gz", python_threads(events), distributedInfo={"rank": 4}))
    assert trace.processes == [50, 60]
    for pid in (50, 60):
        kernels = trace.select(trace.name == trace.names.index(f"of {pid}"))
        assert kernels.processes == [pid]
        assert {line.process for line in (trace.lines[i] for i in kernels.line)} == {pid}
    assert attribute(trace).t_gpu.tolist() == pytest.approx([35e-6, 90e-6])
    last = {(trace.names[trace.name[a]], trace.names[trace.name[b]], int(trace.start[b])) for a, b in trace.requires}
    assert last == {("cudaDeviceSynchronize", "of 60", 225000)}


def test_a_rank_that_is_no_number_of_a_process_is_not_taken(tmp_path) -> None:
    events = [event("cpu_op", "a", 50, 50, 0, 1)]
    for rank in (10**30, -3, "x", 2**31):
        assert load(kineto(tmp_path / "t.json.gz", events, distributedInfo={"rank": rank})).processes == [50]


def test_times_beyond_the_precision_of_doubles_keep_their_nanoseconds(tmp_path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"schemaVersion": 1, "traceEvents": [{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,'
                    '"ts":1694039968956739.123,"dur":1.001},{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,'
                    '"ts":1694039968956739.124,"dur":2e-3}]}')  # fmt: skip
    trace = load(path)
    assert trace.origin == 1694039968956739123
    assert trace.start.tolist() == [0, 1]
    assert trace.end.tolist() == [1001, 3]


NVPROF = """==8017== NVPROF is profiling process 8017, command: ./a.out
==8017== Profiling result:
"Start","Duration","Grid X","Size","Throughput","Device","Context","Stream","Name","Correlation_ID"
ms,us,,MB,GB/s,,,,,
412.125000,1.500000,,0.5,10,"Tesla V100 (0)","1","7","[CUDA memcpy HtoD]",101
412.130000,2.250000,10,,,"Tesla V100 (0)","1","7","kernel(int, float*)",102
"""


def test_nvprofs_row_of_units_is_obeyed(tmp_path) -> None:
    path = tmp_path / "gpu.csv"
    path.write_text(NVPROF)
    trace = load(path)
    sane(trace)
    assert trace.origin == 412125000
    assert trace.start.tolist() == [0, 5000]
    assert trace.end.tolist() == [1500, 7250]
    assert trace.bytes.tolist() == [500000, -1]
    assert trace.category.tolist() == [Category.copy, Category.gpu]
    assert trace.correlation.tolist() == [101, 102]
    assert trace.lines[0].label == "device Tesla V100 (0) context 1 stream 7"


def test_tables_of_rocprofv3(tmp_path) -> None:
    """The columns are those of AMD's documentation; times are nanoseconds, and a marker may be named as a call is."""
    call = "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp"
    (tmp_path / "api.csv").write_text(
        f'{call}\n"HIP_RUNTIME_API_EXT","hipLaunchKernel",15,16,2,1055015439953054,1055015439953154\n'
        '"MARKER_CORE_RANGE_API","hipMemcpy",15,16,1,1055015439953000,1055015439954000\n'
        '"RCCL_API","ncclAllReduce",15,16,3,1055015439953200,1055015439953300\n'
    )
    trace = load(tmp_path / "api.csv")
    assert count(trace) == {"launch": 1, "other": 1, "mpi": 1}
    assert (trace.span, list(trace.processes), trace.lines[0].label) == (1000, [15], "thread 16")
    (tmp_path / "kernels.csv").write_text(
        "Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\n"
        '"KERNEL_DISPATCH","Agent 4",1,7,834304,"void add<float>(float*, int)",1,1550151853029637,1550151853042437\n'
    )
    trace = load(tmp_path / "kernels.csv")
    assert count(trace) == {"gpu": 1}
    assert trace.lines[0].label == "device Agent 4 stream 1"
    (tmp_path / "copies.csv").write_text(
        "Kind,Direction,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n"
        '"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE","Agent 0","Agent 4",1,1057963336487172,1057963336564212\n'
        '"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_DEVICE","Agent 4","Agent 4",2,1057963336587172,1057963336664212\n'
    )
    assert count(load(tmp_path / "copies.csv")) == {"copy": 1, "gpu": 1}


# The columns of each kind of table, by the documentation of rocprofv3, and rows of one process.
CALLS = "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n"
TABLES = {
    "hip_api": CALLS + "HIP_RUNTIME_API_EXT,hipMemcpyAsync,77,78,1,1000,1400\n"
                       "HIP_RUNTIME_API_EXT,hipLaunchKernel,77,78,2,1500,1600\n"
                       "HIP_RUNTIME_API_EXT,hipDeviceSynchronize,77,78,3,1700,2500\n",
    "hsa_api": CALLS + "HSA_CORE_API,hsa_signal_store_screlease,77,78,4,1550,1560\n",
    "marker_api": CALLS + "MARKER_CORE_RANGE_API,step,77,78,5,900,2600\n",
    "kernel": "Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,Correlation_Id,"
              "Start_Timestamp,End_Timestamp\nKERNEL_DISPATCH,2,1,1,78,1,11,axpy(double*),2,1800,2400\n",
    "memory_copy": "Kind,Direction,Stream_Id,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,"
                   "End_Timestamp\nMEMORY_COPY,MEMORY_COPY_HOST_TO_DEVICE,1,0,2,1,1100,1900\n",
    "memory_allocation": "Kind,Operation,Agent_Id,Allocation_Size,Address,Correlation_Id,Start_Timestamp,"
                         "End_Timestamp\nMEMORY_ALLOCATION,MEMORY_ALLOCATION_FREE,2,0,0x1,9,1,2\n",
}  # fmt: skip


def write_tables(folder: Path, prefix: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for kind, text in TABLES.items():
        (folder / f"{prefix}{kind}_trace.csv").write_text(text)
    # Every dispatch once more, with a counter; and statistics without times.
    (folder / f"{prefix}counter_collection.csv").write_text(
        "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Kernel_Name,Counter_Name,Counter_Value,"
        "Start_Timestamp,End_Timestamp\n2,1,2,1,77,78,axpy(double*),SQ_WAVES,64,1800,2400\n"
    )
    (folder / f"{prefix}kernel_stats.csv").write_text('"Name","Calls","TotalDurationNs"\n"axpy(double*)",1,600\n')


@pytest.mark.parametrize("prefix", ["77_", "", "my_run_"])
def test_tables_of_rocprofv3_of_one_process_are_one_trace(prefix: str, tmp_path) -> None:
    write_tables(tmp_path / "host", prefix)
    trace = load(tmp_path)
    sane(trace)
    assert count(trace) == {"launch": 3, "sync": 1, "other": 1, "gpu": 1, "copy": 1}
    assert trace.processes == [77]
    assert {(line.label, line.kind) for line in trace.lines} == {
        ("thread 78", "host"), ("device 2 stream 1", "stream"), ("copies, device 0 stream 1", "stream"),
    }  # fmt: skip
    assert (trace.origin, trace.span) == (900, 1700)
    call = Launches(trace).call[trace.on_stream()]
    assert [trace.names[n] for n in trace.name[call]] == ["hipMemcpyAsync", "hipLaunchKernel"]
    assert duration(program(trace), AS_TRACED).value == pytest.approx(trace.span * 1e-9, rel=1e-3)
    some = [tmp_path / "host" / f"{prefix}{kind}_trace.csv" for kind in ("kernel", "hip_api")]
    assert (load(some).processes, count(load(some))) == ([77], {"launch": 2, "sync": 1, "gpu": 1})
    assert load(some[0]).processes == [77 if prefix == "77_" else 0]


def test_tables_of_rocprofv3_of_several_processes_are_those_of_ranks(tmp_path) -> None:
    for prefix in ("rank0_", "rank1_"):
        write_tables(tmp_path, prefix)
    (tmp_path / "rank1_hip_api_trace.csv").write_text(TABLES["hip_api"].replace("1700,2500", "1705,2500"))
    trace = load(tmp_path)
    assert trace.processes == [0, 1]
    assert count(trace) == {"launch": 6, "sync": 2, "other": 2, "gpu": 2, "copy": 2}


def test_a_damaged_table_of_a_process_is_named(tmp_path) -> None:
    write_tables(tmp_path, "77_")
    (tmp_path / "77_kernel_trace.csv").write_text(TABLES["kernel"][:-9] + "\n")
    with pytest.raises(ValueError, match=r"77_kernel_trace\.csv: row 1 has 10 of 11 columns"):
        load(tmp_path)


def test_nsys_stats_api_table(tmp_path) -> None:
    path = tmp_path / "api.csv"
    path.write_text(
        "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n"
        "100,50,cudaMemcpyAsync_v3020,0,7,21,22,20,main\n"
        "160,40,cudaStreamSynchronize,0,8,21,22,20,main\n"
    )
    trace = load(path)
    assert names(trace) == {"cudaMemcpyAsync": 1, "cudaStreamSynchronize": 1}
    assert trace.category.tolist() == [Category.launch, Category.sync]
    assert trace.processes == [21]


ROCPROF = [
    {"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "0 CPU HIP API"}},
    {"ph": "M", "name": "process_name", "pid": 6, "args": {"name": "1 GPU0"}},
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "2 COPY"}},
    {"ph": "X", "name": "hipMalloc", "pid": 2, "tid": 2385, "ts": "1201478076", "dur": "470125",
     "args": {"BeginNs": "1201478076289", "EndNs": "1201948202129", "pid": "2385", "tid": "2385", "Name": "hipMalloc",
              "args": "( ptr(0x7d2933000000) size(8589934592))", "Data": "", "DurationNs": "470125840"}},
    {"ph": "X", "name": "hipMemcpy", "pid": 2, "tid": 2385, "ts": "1201949000", "dur": "1000",
     "args": {"BeginNs": "1201949000000", "EndNs": "1201950000000", "pid": "2385", "tid": "2385",
              "args": "( dst(0x1) src(0x2) sizeBytes(4096) kind(1))"}},
    {"ph": "X", "name": "add(float*)", "pid": 6, "tid": 1, "ts": "1201950", "dur": "1",
     "args": {"BeginNs": "1201950000100", "EndNs": "1201950001100", "pid": "2385", "tid": "2385", "queue-id": "0"}},
    {"ph": "X", "name": "CopyHostToDevice", "pid": 1, "tid": 0, "ts": "1201949", "dur": "1",
     "args": {"BeginNs": "1201949500000", "EndNs": "1201949600000", "pid": "2385", "tid": "2385"}},
]  # fmt: skip


def test_rocprof_events_have_the_nanoseconds_of_their_arguments(tmp_path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"traceEvents": ROCPROF}))
    trace = load(path)
    sane(trace)
    assert trace.format == "rocprof"
    assert trace.processes == [2385]
    assert length(trace, "hipMalloc") == 470125840
    assert {trace.names[n]: Category(int(c)).name for n, c in zip(trace.name, trace.category, strict=True)} == {
        "hipMalloc": "launch", "hipMemcpy": "copy", "add(float*)": "gpu", "CopyHostToDevice": "copy"}  # fmt: skip
    assert moved(trace, "hipMemcpy") == 4096
    assert attribute(trace).t_gpu[0] == pytest.approx(1e-6)


ROCPROFV3 = {
    "rocprofiler-sdk-tool": [
        {
            "metadata": {"pid": 99},
            "agents": [{"id": {"handle": 1}, "type": 1, "name": "EPYC"}, {"id": {"handle": 2}, "type": 2,
                                                                          "name": "gfx90a"}],
            "kernel_symbols": [{"kernel_id": 12, "formatted_kernel_name": "axpy(double)"}],
            "strings": {"buffer_records": [{"kind": "NONE", "operations": []},
                                           {"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel",
                                                                                      "hipStreamSynchronize"]},
                                           {"kind": "MEMORY_COPY", "operations": ["NONE", "HOST_TO_DEVICE",
                                                                                  "DEVICE_TO_DEVICE"]}]},
            "buffer_records": {
                "hip_api": [{"kind": 1, "operation": 0, "thread_id": 99, "correlation_id": {"internal": 4},
                             "start_timestamp": 1000, "end_timestamp": 1010},
                            {"kind": 1, "operation": 1, "thread_id": 99, "correlation_id": {"internal": 5},
                             "start_timestamp": 1020, "end_timestamp": 1100}],
                "kernel_dispatch": [{"kind": 3, "operation": 1, "thread_id": 99, "correlation_id": {"internal": 4},
                                     "start_timestamp": 1030, "end_timestamp": 1090, "dispatch_info":
                                     {"agent_id": {"handle": 2}, "queue_id": {"handle": 7}, "kernel_id": 12}}],
                "memory_copy": [{"kind": 2, "operation": 1, "thread_id": 99, "correlation_id": {"internal": 6},
                                 "start_timestamp": 990, "end_timestamp": 999, "bytes": 512,
                                 "src_agent_id": {"handle": 1}, "dst_agent_id": {"handle": 2}},
                                {"kind": 2, "operation": 2, "thread_id": 99, "correlation_id": {"internal": 8},
                                 "start_timestamp": 1110, "end_timestamp": 1111, "bytes": 64,
                                 "src_agent_id": {"handle": 2}, "dst_agent_id": {"handle": 2}}],
            },
        }
    ]
}  # fmt: skip


def test_rocprofv3_records_are_joined_with_their_kinds_kernels_and_agents(tmp_path) -> None:
    path = tmp_path / "out_results.json"
    path.write_text(json.dumps(ROCPROFV3))
    trace = load(path)
    sane(trace)
    assert trace.processes == [99]
    assert names(trace) == {"HOST_TO_DEVICE": 1, "hipLaunchKernel": 1, "hipStreamSynchronize": 1, "axpy(double)": 1,
                            "DEVICE_TO_DEVICE": 1}  # fmt: skip
    assert count(trace) == {"copy": 1, "launch": 1, "sync": 1, "gpu": 2}
    assert moved(trace, "HOST_TO_DEVICE") == 512
    terms = attribute(trace)
    assert round(terms.t_gpu[0] * 1e9) == 61
    assert round(terms.t_cg_control[0] * 1e9) == 10 + 20


def test_queues_of_two_gpus_of_one_name_are_two_streams(tmp_path) -> None:
    tool = json.loads(json.dumps(ROCPROFV3["rocprofiler-sdk-tool"][0]))
    tool["agents"].append({"id": {"handle": 3}, "type": 2, "name": "gfx90a"})
    queue = 2**64 - 16  # handles are unsigned
    for agent, start in ((2, 1030), (3, 1040)):
        info = {"agent_id": {"handle": agent}, "queue_id": {"handle": queue}, "kernel_id": 12}
        tool["buffer_records"]["kernel_dispatch"].append(
            {"kind": 3, "operation": 1, "thread_id": 99, "correlation_id": {"internal": 4, "external": 0},
             "start_timestamp": start, "end_timestamp": start + 50, "dispatch_info": info})  # fmt: skip
    path = tmp_path / "out_results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [tool]}))
    labels = [line.label for line in load(path).lines]
    assert {f"gfx90a #0 queue {queue}", f"gfx90a #1 queue {queue}", "gfx90a #0 queue 7"} <= set(labels)


GOAL = """num_ranks 2
rank 0 {
a: calc 100
b: send 8b to 1 tag 3
b requires a
c: calc 50 cpu 1
c irequires b
}
rank 1 {
r: recv 8b from 0 tag 3
d: calc 7
d requires r
}
"""


def test_goal_operations_get_the_times_of_a_network_that_takes_none(tmp_path) -> None:
    path = tmp_path / "s.goal"
    path.write_text(GOAL)
    trace = load(path)
    columns = zip(trace.name, trace.process, trace.start, trace.end, strict=True)
    rows = {(trace.names[n], int(p)): (int(s), int(e)) for n, p, s, e in columns if trace.names[n] != "calc"}
    assert rows == {("send", 0): (100, 100), ("recv", 1): (100, 100)}
    assert sorted((trace.end - trace.start).tolist()) == [0, 0, 7, 50, 100]
    assert trace.span == 150
    assert len(trace.requires) == 3
    assert any("no clock" in n for n in trace.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOAL.replace("r: recv 8b from 0 tag 3", "r: calc 1"), "never receives them"),
        (GOAL.replace("b: send 8b to 1 tag 3", "b: calc 1"), "never sends them"),
        (GOAL.replace("b requires a", "b requires z"), "line 5: operation 'z' of rank 0 is not defined"),
        (GOAL.replace("b requires a", "b requires a\na requires b"), "have a cycle"),
        (GOAL[:-3], "not closed; was the file cut short"),
        (GOAL.replace("calc 7", "jump 7"), "line 11: expected send, recv, calc or requires"),
        (GOAL.replace("rank 1 {", "rank 2 {"), "with R below 2, found"),
    ],
)
def test_a_schedule_that_cannot_run_is_an_error_that_names_the_line_or_rank(tmp_path, text: str, message: str) -> None:
    path = tmp_path / "s.goal"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load(path)


def test_every_format_describes_itself() -> None:
    assert list(formats()) == [
        "weft", "rocpd", "nsys", "otf2", "rocprof", "kineto", "xplane", "perfetto", "chakra", "collectives", "goal",
        "tables",
    ]  # fmt: skip
    assert all(formats().values())


def test_an_unknown_format_names_those_there_are(tmp_path) -> None:
    (tmp_path / "x").write_text("x")
    with pytest.raises(ValueError, match="unknown trace format 'pdf'; known: weft, rocpd, nsys"):
        load(tmp_path / "x", "pdf")


def test_an_archive_of_other_things_says_what_it_holds(tmp_path) -> None:
    import tarfile

    (tmp_path / "letter.txt").write_text("dear")
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as archive:
        archive.add(tmp_path / "letter.txt", "letter.txt")
    with pytest.raises(ValueError, match=r"has no trace_MPI\*.ct files, but letter.txt"):
        load(tmp_path / "a.tgz")


@otf2
def test_an_otf2_archive_that_lacks_its_parts_is_an_error(tmp_path) -> None:
    (tmp_path / "traces.otf2").write_bytes(b"\x03\x42OTF2\x00\x03\x02\x02\x03\x00")
    with pytest.raises(ValueError, match="OTF2 archive is damaged or incomplete"):
        load(tmp_path / "traces.otf2")
