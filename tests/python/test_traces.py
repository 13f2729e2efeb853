"""The event table, its attribution to the terms of Eq. 3, and the reader of weft's own traces."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.traces import Builder, Category, Trace, attribute, exclusive, load

HOST, STREAM = "host", "stream"


def build(*events: tuple) -> Trace:
    """A trace of (process, line label, kind, start, end, category, name) in nanoseconds."""
    builder = Builder("test", "test")
    for process, label, kind, start, end, category, name in events:
        line = builder.line(process, label, kind)
        builder.add(line=line, start=start, end=end, category=int(category), name=builder.name(name))
    return builder.build()


def terms(trace: Trace) -> dict[str, int]:
    names = ("cpu", "gpu", "mpi", "cg_data", "cg_control")
    return dict(zip(names, attribute(trace).nanoseconds.sum(axis=0).tolist(), strict=True))


def test_time_inside_an_inner_span_is_not_counted_for_the_outer_one() -> None:
    trace = build(
        (0, "host", HOST, 0, 100, Category.cpu, "cg"),
        (0, "host", HOST, 10, 40, Category.mpi, "allreduce"),
        (0, "host", HOST, 20, 25, Category.launch, "wait"),
        (0, "host", HOST, 50, 60, Category.mpi, "send"),
        (0, "stream", STREAM, 0, 80, Category.gpu, "kernel"),
        (1, "host", HOST, 0, 50, Category.cpu, "other rank"),
    )
    own = {trace.names[n]: int(t) for n, t in zip(trace.name, exclusive(trace), strict=True)}
    assert own == {"cg": 60, "allreduce": 25, "wait": 5, "send": 10, "kernel": 80, "other rank": 50}


def test_a_synchronise_that_waits_for_a_kernel_is_not_control_time() -> None:
    trace = build(
        (0, "host", HOST, 0, 10, Category.launch, "launch"),
        (0, "host", HOST, 10, 100, Category.sync, "synchronise"),
        (0, "7", STREAM, 5, 90, Category.gpu, "kernel"),
        (0, "host", HOST, 120, 130, Category.cpu, "work"),
    )
    assert terms(trace) == {"cpu": 30, "gpu": 85, "mpi": 0, "cg_data": 0, "cg_control": 15}


def test_each_instant_counts_once_where_streams_copies_and_messages_overlap() -> None:
    trace = build(
        (0, "1", STREAM, 0, 50, Category.gpu, "a"),
        (0, "2", STREAM, 30, 80, Category.gpu, "b"),
        (0, "3", STREAM, 60, 100, Category.copy, "device to host"),
        (0, "host", HOST, 90, 120, Category.mpi, "wait"),
        (0, "host", HOST, 110, 140, Category.launch, "launch"),
        (1, "host", HOST, 50, 60, Category.launch, "launch"),  # under the other process's kernels: its own control
    )
    assert terms(trace) == {"cpu": 0, "gpu": 80, "mpi": 30, "cg_data": 10, "cg_control": 30}
    assert attribute(trace).processes == (0, 1)
    assert attribute(trace).mean().t_total == pytest.approx(75e-9)
    assert attribute(trace).total().t_cg_control == pytest.approx(30e-9)


EVENT = st.tuples(
    st.integers(0, 2), st.sampled_from(["x", "y"]), st.sampled_from([HOST, STREAM]),
    st.integers(-40, 40), st.integers(0, 30), st.sampled_from(list(Category)),
).map(lambda e: (*e[:4], e[3] + e[4], e[5], f"{e[5].name}"))  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(EVENT, min_size=1, max_size=25))
def test_terms_agree_with_an_instant_by_instant_count_and_add_up_to_the_total(events: list[tuple]) -> None:
    trace = build(*events)
    result = attribute(trace)
    order = ((Category.gpu,), (Category.mpi,), (Category.copy,), (Category.launch, Category.sync))
    for process, row in zip(result.processes, result.nanoseconds, strict=True):
        mine = trace.select(trace.process == process)
        counted = [0] * 5
        for t in range(int(mine.start.min()), int(mine.end.max())):
            open_ = set(mine.category[(mine.start <= t) & (t < mine.end)].tolist())
            counted[next((k for k, c in enumerate(order, 1) if open_ & set(c)), 0)] += 1
        assert row.tolist() == counted
        assert row.min() >= 0
        assert row.sum() == mine.end.max() - mine.start.min()


@settings(max_examples=200, deadline=None)
@given(st.lists(EVENT, min_size=1, max_size=25))
def test_exclusive_time_goes_to_the_event_that_began_last(events: list[tuple]) -> None:
    trace = build(*events)
    expected = np.zeros(len(trace), dtype=np.int64)
    for line in range(len(trace.lines)):
        for t in range(int(trace.end.max())):
            open_ = np.flatnonzero((trace.line == line) & (trace.start <= t) & (t < trace.end))
            if len(open_):
                expected[open_[-1]] += 1
    assert exclusive(trace).tolist() == expected.tolist()


def test_selecting_keeps_dependencies_between_the_events_that_stay() -> None:
    builder = Builder("test", "test")
    line = builder.line(0, "host", HOST)
    builder.add(line=line, start=[30, 20, 10], end=[35, 25, 15], category=0, name=builder.name("x"))
    trace = builder.build(requires=np.array([[0, 1], [1, 2]]))  # the last added starts first
    assert trace.requires.tolist() == [[2, 1], [1, 0]]
    assert trace.select([False, True, True]).requires.tolist() == [[1, 0]]


def test_overlapping_events_on_one_stream_are_an_error_that_names_the_first() -> None:
    good = (0, "7", STREAM, 0, 10, Category.gpu, "a"), (0, "7", STREAM, 10, 20, Category.gpu, "b")
    build(*good, (0, "8", STREAM, 5, 15, Category.gpu, "c")).validate()
    late = build(*good, (0, "7", STREAM, 15, 16, Category.gpu, "late"), (0, "h", HOST, 1, 2, Category.cpu, "x"))
    with pytest.raises(ValueError, match=r"1 of 3 events on streams .* 'late' on 7 of process 0"):
        late.validate()


def test_a_clock_that_runs_backwards_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"clock runs backwards: 1 of 2 .* 'b'"):
        build((0, "h", HOST, 0, 10, Category.cpu, "a"), (0, "h", HOST, 10, 9, Category.cpu, "b"))


def test_no_events_are_an_error() -> None:
    with pytest.raises(ValueError, match="no events"):
        Builder("test", "test").build()


def weft_json(path, events: list[dict]) -> str:
    path.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))
    return str(path)


def test_every_column_of_wefts_own_trace_is_read(tmp_path) -> None:
    label = {"ph": "M", "name": "thread_name", "pid": 3, "tid": 1, "args": {"name": "device"}}
    copy = {"ph": "X", "name": "copy", "cat": "copy", "pid": 3, "tid": 1, "ts": 10.001, "dur": 0.5}
    wait = {"ph": "X", "name": "synchronize", "cat": "launch", "pid": 3, "tid": 0, "ts": 2.25, "dur": 9}
    trace = load(weft_json(tmp_path / "t.json", [label, copy | {"args": {"bytes": 80}}, wait | {"args": {"bytes": 0}}]))
    assert trace.format == "weft"
    assert [(line.process, line.label, line.kind) for line in trace.lines] == [(3, "device", STREAM), (3, "host", HOST)]
    assert [trace.names[n] for n in trace.name] == ["synchronize", "copy"]
    assert trace.start.tolist() == [0, 7751]
    assert trace.end.tolist() == [9000, 8251]
    assert trace.category.tolist() == [Category.sync, Category.copy]
    assert trace.bytes.tolist() == [-1, 80]
    assert trace.process.tolist() == [3, 3]


def test_a_span_of_several_messages_becomes_as_many_calls_of_mpi(tmp_path) -> None:
    def call(name: str, start: int, **arguments: object) -> dict:
        return {"ph": "X", "name": name, "cat": "mpi", "pid": 0, "tid": 0, "ts": start, "dur": 3.0, "args": arguments}

    both = call("start collective", 0, bytes=24, group=9, request=4, sends=[[1, 8], [2, 16]], receives=[[5, 32]])
    rest = [call("wait", 4, bytes=0, request=4), call("receive", 8, group=9, receives=[[1, 8]]),
            call("agree", 12, bytes=8, group=7, collective="allreduce"),
            call("all-reduce", 16, bytes=8, request=5, collective="allreduce")]  # fmt: skip
    trace = load(weft_json(tmp_path / "t.json", [both, *rest]))
    assert [trace.names[i] for i in trace.name] == [
        "irecv (start collective)", "isend (start collective)", "isend (start collective)", "wait", "recv (receive)",
        "allreduce (agree)", "iallreduce (all-reduce)"]  # fmt: skip
    assert trace.peer.tolist() == [5, 1, 2, -1, 1, -1, -1]
    assert trace.bytes.tolist() == [32, 8, 16, -1, 8, 8, 8]
    assert trace.correlation.tolist() == [4, 4, 4, 4, -1, -1, 5]
    assert trace.group.tolist() == [9, 9, 9, -1, 9, 7, -1]
    assert trace.end[:3].tolist() == [*trace.start[1:3].tolist(), 3000]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("{}", "not in a trace format that weft reads"),
        ("\x00", "binary and begins with 00"),
        ('{"displayTimeUnit":"ns","traceEvents":[]}', "no events"),
        ('{"displayTimeUnit":"ns","traceEvents":[{"ph":"X"}]}', "event 0"),
        ('{"displayTimeUnit":"ns","traceEvents":[{"ph":"M","name":"x"},', "ends early"),
        ('{"displayTimeUnit":"ns","traceEvents":[1]}', "not an object"),
    ],
)
def test_a_file_that_is_no_trace_says_what_it_is(tmp_path, content: str, message: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        load(path)
