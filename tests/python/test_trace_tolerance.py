"""Files that readers accept with a note, notes on what a trace lacks, and the messages of refused files."""

import gzip
import json
import shutil
import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_trace_readers import NSYS, NVPROF, ROCPROFV3, database, event, kineto

from weft.model import table13
from weft.model.replay import program
from weft.model.result import ModelError
from weft.model.sources import coupling, ratio_runs, read
from weft.traces import Builder, Category, attribute, load
from weft.traces.overlaps import clip

CALLS = [event("cuda_runtime", "cudaLaunchKernel", 50, 50, k, 1, correlation=k) for k in range(200)]


def kernels(*late: int) -> list[dict]:
    """200 kernels of 10 us, one after another; the `late` ones last 1 us longer, into the next."""
    return [event("kernel", f"k{k}", 0, 7, 300 + 10 * k, 11 if k in late else 10, correlation=k) for k in range(200)]


def test_a_few_overlapping_kernels_are_clipped_with_a_note_and_keep_the_busy_time(tmp_path) -> None:
    trace = load(kineto(tmp_path / "t.json.gz", CALLS + kernels(3, 7)))
    trace.validate()
    assert attribute(trace).t_gpu[0] == pytest.approx(2e-3)
    assert trace.notes[0] == ("2 of 200 events on streams start before an earlier one on the same stream has ended and "
                              "are clipped, by 2 us in all (0.1 % of the streams' busy time)")  # fmt: skip
    assert program(trace).traced_seconds == pytest.approx(2.3e-3)


@pytest.mark.parametrize("late", [range(0, 40), range(199)])
def test_a_stream_of_many_overlaps_is_refused_by_the_models(tmp_path, late: range) -> None:
    trace = load(kineto(tmp_path / "t.json.gz", CALLS + kernels(*late)))
    assert trace.notes == ()
    with pytest.raises(ValueError, match=f"{len(late)} of 200 events on streams start before an earlier event"):
        program(trace)


def test_overlaps_that_take_much_of_the_time_are_not_clipped(tmp_path) -> None:
    long = event("kernel", "long", 0, 7, 300, 500, correlation=300)
    trace = load(kineto(tmp_path / "t.json.gz", [*CALLS, *kernels()[:5], long]))
    assert len(trace.overlaps()) == 5


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=30),
       st.integers(1, 5))  # fmt: skip
def test_clipping_removes_every_overlap_and_no_busy_time_or_dependency(rows: list[tuple], seed: int) -> None:
    builder = Builder("test", "test")
    for stream, start, length in [*rows, (3, 0, 10**6)]:  # long enough that the lost time is small
        line = builder.line(0, f"stream {stream}", "stream")
        builder.add(line=line, start=start, end=start + length, category=int(Category.gpu), name=builder.name(""),
                    bytes=start * 100 + length)  # fmt: skip
    many = np.arange(20 * len(rows))  # so that few of the events overlap
    builder.add(line=builder.line(0, "stream 4", "stream"), start=many, end=many, category=1, name=0)
    pairs = np.random.default_rng(seed).integers(0, len(rows), (4, 2))
    trace = builder.build(requires=pairs)
    found = clip(trace)
    assert len(found.overlaps()) == 0
    assert (np.diff(found.start) >= 0).all()
    assert attribute(found).nanoseconds.tolist() == attribute(trace).nanoseconds.tolist()
    assert found.bytes[found.requires].tolist() == trace.bytes[trace.requires].tolist()


GPU_ONLY = NVPROF.replace("412.130000", "413.630000")


def gpu_only(path) -> str:
    path.write_text(GPU_ONLY)
    return str(path)


def test_a_trace_without_calls_of_the_host_does_not_claim_that_a_tighter_coupling_gains_nothing(tmp_path) -> None:
    source = read(gpu_only(tmp_path / "gpu.csv"))
    with pytest.raises(ModelError, match=r"not the host's calls, so t_CPU and t_CGcontrol are not evaluated \(N/E\)"):
        coupling([source], 10, 10)
    assert coupling([source], 10, 1).value > 1  # its copies are recorded
    (row,) = table13.rows([source.path], acceleration=2)
    assert row.cells["CPU-GPU integration"].text == row.cells["disaggregation penalty"].text == "N/E"


def test_a_trace_without_calls_and_copies_does_not_evaluate_a_faster_link(tmp_path) -> None:
    path = tmp_path / "gpu.csv"
    path.write_text(GPU_ONLY.replace("[CUDA memcpy HtoD]", "kernel"))
    with pytest.raises(ModelError, match="record the calls as well"):
        coupling([read(path)], 10, 1)


def test_calls_without_device_work_do_not_count_waits_for_kernels_as_control(tmp_path) -> None:
    script = NSYS.split("create table CUPTI_ACTIVITY_KIND_KERNEL")[0]
    with pytest.raises(ModelError, match="waits for kernels look like control"):
        coupling([read(database(tmp_path / "r.sqlite", script))], 10, 10)


def test_a_sparse_trace_says_how_much_of_its_time_has_no_events(tmp_path) -> None:
    apart = [event("cpu_op", "a", 50, 50, 0, 30), event("cpu_op", "b", 50, 50, 90, 10),
             event("user_annotation", "step", 50, 50, 0, 100), event("python_function", "<built-in method sleep>", 50,
                                                                     51, 20, 50)]  # fmt: skip
    (note,) = load(kineto(tmp_path / "t.json.gz", apart)).notes
    assert note.startswith("60 % of the time (6e-05 of 0.0001 s over all processes) has no event")
    assert load(kineto(tmp_path / "t.json.gz", [event("cpu_op", "a", 50, 50, 0, 91), *apart])).notes == ()


def test_communication_inside_kernels_of_nccl_is_named(tmp_path) -> None:
    launch = event("cuda_runtime", "cudaLaunchKernel", 50, 50, 0, 1, correlation=1)
    kernel = event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 7, 1, 20, correlation=1)
    path = kineto(tmp_path / "t.json.gz", [launch, kernel])
    assert any("communication is inside 1 kernels of NCCL or RCCL (2e-05 s in all" in n for n in load(path).notes)
    (row,) = table13.rows([path], acceleration=2)
    assert "inside kernels of NCCL" in row.cells["GPU-GPU integration"].why


def test_collectives_of_gloo_are_communication(tmp_path) -> None:
    events = [event("user_annotation", "gloo:all_reduce", 50, 51, 0, 90), event("cpu_op", "a", 50, 50, 0, 100)]
    assert attribute(load(kineto(tmp_path / "t.json.gz", events))).t_mpi.tolist() == pytest.approx([90e-6])


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t.trace"])
def test_json_is_read_whether_compressed_or_not_and_whatever_its_name(tmp_path, name: str) -> None:
    for content in (ROCPROFV3, {"schemaVersion": 1, "traceEvents": [event("cpu_op", "a", 50, 50, 0, 1)]}):
        text = json.dumps(content).encode()
        counts = []
        for data in (text, gzip.compress(text)):
            (tmp_path / name).write_bytes(data)
            counts.append(len(load(tmp_path / name)))
        assert counts[0] == counts[1] > 0


def test_events_that_had_not_ended_are_left_out_with_a_note(tmp_path) -> None:
    open_ = event("cpu_op", "b", 50, 50, 5, -1)
    never = {k: v for k, v in event("cpu_op", "c", 50, 50, 6, 0).items() if k != "dur"}
    trace = load(kineto(tmp_path / "t.json.gz", [event("cpu_op", "a", 50, 50, 0, 1), open_, never]))
    assert len(trace) == 1
    assert trace.notes == ("2 events have no end and are ignored",)


def refusal(path) -> str:
    """The message with which a file is refused; '' if it is read."""
    try:
        load(path)
    except ValueError as error:
        return str(error).removeprefix(str(path))
    return ""


WRONG = (None, [], {}, "x", True, 1e400, "absent")


@pytest.mark.parametrize("key", ["name", "pid", "tid", "ts", "dur", "args", "cat"])
@pytest.mark.parametrize("value", WRONG)
def test_an_event_of_the_wrong_form_is_refused_in_plain_words(tmp_path, key: str, value: object) -> None:
    wrong = event("kernel", "k", 0, 7, 1, 2, correlation=1)
    if value == "absent":
        del wrong[key]
    else:
        wrong[key] = value
    said = refusal(kineto(tmp_path / "t.json.gz", [event("cpu_op", "a", 50, 50, 0, 1), wrong]))
    assert not any(w in said for w in ("Error", "None", "<class", "int(", "unhashable", "process -"))


@pytest.mark.parametrize(("column", "value"), [("start", "abc"), ("end", b"\x00\xff"), ("nameId", None),
                                               ("globalTid", None), ("correlationId", 1.5)])  # fmt: skip
def test_a_column_of_a_report_with_other_values_is_refused_in_plain_words(tmp_path, column: str, value) -> None:
    path = database(tmp_path / "r.sqlite", NSYS)
    with sqlite3.connect(path) as file:
        file.execute(f"update CUPTI_ACTIVITY_KIND_RUNTIME set {column} = ? where correlationId = 5", [value])
    said = refusal(path)
    assert not any(w in said for w in ("Error", "None", "<class", "int("))
    assert value is not None or "text" not in said


def test_a_missing_start_is_not_taken_as_the_time_zero_of_the_clock(tmp_path) -> None:
    path = database(tmp_path / "r.sqlite", NSYS)
    with sqlite3.connect(path) as file:
        file.execute("update CUPTI_ACTIVITY_KIND_RUNTIME set start = null where correlationId = 5")
    assert load(path).origin > 0


def test_a_folder_stands_for_the_trace_in_it(tmp_path) -> None:
    (tmp_path / "node1").mkdir()
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(ValueError, match=r"no trace in a format that weft reads; it contains notes\.txt"):
        load(tmp_path)
    one = kineto(tmp_path / "node1" / "t.json.gz", [event("cpu_op", "a", 50, 50, 0, 1)])
    assert len(load(tmp_path)) == len(load(one)) == 1
    assert read(tmp_path).terms.t_cpu == pytest.approx(1e-6)
    shutil.copy(one, tmp_path / "node1" / "u.json.gz")
    with pytest.raises(ValueError, match=r"node1/t\.json\.gz and \S+u\.json\.gz have the same events"):
        load(tmp_path)
    (tmp_path / "trace.json").write_text('{"displayTimeUnit":"ns","traceEvents":[{"ph":"X","name":"cg","cat":"cpu",'
                                         '"pid":0,"tid":0,"ts":1.5,"dur":20.25}]}')  # fmt: skip
    assert load(tmp_path).format == "weft"


@pytest.mark.parametrize("packed", [True, False])
def test_a_trace_given_as_a_record_of_a_run_is_told_from_it(tmp_path, packed: bool) -> None:
    path = kineto(tmp_path / "t.json.gz", [event("cpu_op", "a", 50, 50, 0, 1)])
    if not packed:
        path = tmp_path / "t.json"
        path.write_text('{"traceEvents": []}')
    with pytest.raises(ModelError, match=r"not a record, but a trace( \(kineto\))?; Eqs\. 5 and 6 compare runs"):
        ratio_runs(path)
