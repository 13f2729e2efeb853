"""Windows of traces: what is kept, what is clipped, and that every command takes the same window."""

import gzip
import json
import re
from itertools import pairwise
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from test_trace_readers import event

from weft.cli.main import weft_command
from weft.model.network import of_trace
from weft.model.replay import AS_TRACED, duration, program
from weft.traces import Builder, Category, Trace, Window, attribute, load

KINETO = Path(__file__).parents[3] / "shared" / "data" / "traces" / "kineto"
sample = pytest.mark.skipif(not KINETO.is_dir(), reason=f"the sample traces are not at {KINETO}")


def table(*rows: tuple) -> Trace:
    """A trace of rows (process, line, kind, start, end, category, name, bytes, peer, correlation)."""
    builder = Builder("test", "test.json")
    for process, label, kind_, start, end, category, name, moved, peer, correlation in rows:
        builder.add(
            line=builder.line(process, label, kind_), start=[start], end=[end], category=int(category),
            name=builder.name(name), bytes=moved, peer=peer, correlation=correlation,
        )  # fmt: skip
    return builder.build()


def steps(process: int = 0, at: int = 0) -> list[tuple]:
    """Two training steps of 100 ns, whose kernel and copy run on after their step has ended."""
    rows: list[tuple] = []
    for k in range(2):
        t = at + 100 * k
        rows += [
            (process, "thread 1", "host", t, t + 100, Category.other, f"ProfilerStep#{k + 3}", -1, -1, -1),
            (process, "thread 1", "host", t + 10, t + 20, Category.launch, "cudaLaunchKernel", -1, -1, 10 * k + 1),
            (process, "thread 2", "host", t + 30, t + 40, Category.launch, "cudaMemcpyAsync", -1, -1, 10 * k + 2),
            (process, "device 0 stream 7", "stream", t + 50, t + 90, Category.gpu, "k", -1, -1, 10 * k + 1),
            (process, "device 0 stream 8", "stream", t + 80, t + 120, Category.copy, "HtoD", 400, -1, 10 * k + 2),
        ]
    return rows


def names(trace: Trace) -> list[str]:
    return [trace.names[i] for i in trace.name]


def test_a_range_keeps_its_time_and_clips_what_crosses_its_end() -> None:
    cut = Window(range="ProfilerStep#3").cut(table(*steps()))
    assert names(cut) == ["ProfilerStep#3", "cudaLaunchKernel", "cudaMemcpyAsync", "k", "HtoD"]
    assert cut.span == 100
    copy = names(cut).index("HtoD")
    assert (cut.start[copy], cut.end[copy], cut.bytes[copy]) == (80, 100, 200)
    assert "keeps 5 of 10 events" in cut.notes[0]
    assert "1 event across its edges clipped" in cut.notes[0]


@pytest.mark.parametrize("text", ["4", "ProfilerStep#4", "ProfilerStep*#1", "Profiler?tep#4"])
def test_a_step_is_found_by_number_name_occurrence_and_pattern(text: str) -> None:
    cut = Window(range=text).cut(table(*steps()))
    assert cut.origin == 100
    assert [n for n in names(cut) if n.startswith("Profiler")] == ["ProfilerStep#4"]
    assert any("1 pieces of device work in the window were launched outside" in n for n in cut.notes)


def test_several_steps_reach_from_the_first_to_the_last() -> None:
    assert len(Window(range="3-4").cut(table(*steps()))) == 10
    assert any("occurs 2 times" in n for n in Window(range="ProfilerStep*").cut(table(*steps())).notes)


def test_every_process_is_cut_to_its_own_range() -> None:
    cut = Window(range="4").cut(table(*steps(0), *steps(1, at=1000)))
    terms = attribute(cut)
    assert terms.nanoseconds.sum(axis=1).tolist() == [120 - 20, 120 - 20]


def test_threads_keep_the_work_they_launched_and_streams_all_threads() -> None:
    trace = table(*steps())
    assert set(names(Window(threads=("2",)).cut(trace))) == {"cudaMemcpyAsync", "HtoD"}
    assert set(names(Window(streams=("7",)).cut(trace))) >= {"cudaMemcpyAsync", "cudaLaunchKernel", "k"}
    assert "HtoD" not in names(Window(streams=("7",)).cut(trace))
    assert names(Window(threads=("thread 1",), streams=("device 0 stream 8",)).cut(trace)).count("k") == 0


def exchange() -> Trace:
    """Two ranks that send one message each way and meet in two barriers."""
    rows: list[tuple] = []
    for p, (first, second) in enumerate((("MPI_Send", "MPI_Recv"), ("MPI_Recv", "MPI_Send"))):
        for t, name, peer in (
            (0, first, 1 - p),
            (100, "MPI_Barrier", -1),
            (200, second, 1 - p),
            (300, "MPI_Barrier", -1),
        ):
            rows.append((p, "main", "host", t + 30 * p, t + 30 * p + 40, Category.mpi, name, 8, peer, -1))
    return table(*rows)


@pytest.mark.parametrize("window", [Window(ranks=(0,)), Window(start=50), Window(end=320), Window(start=120, end=220)])
def test_a_message_whose_other_side_is_cut_is_no_message_of_the_models(window: Window) -> None:
    whole = exchange()
    assert of_trace(whole).ranks == 2
    cut = window.cut(whole)
    of_trace(cut)  # raises an error for a message that has one side only
    assert duration(program(cut), AS_TRACED).value == pytest.approx(cut.span * 1e-9, rel=1e-3)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 260), st.integers(0, 260), st.sampled_from(["", "1", "2"]), st.sampled_from(["", "7", "8"]))
def test_windows_side_by_side_add_up_to_the_whole(a: int, b: int, thread: str, stream: str) -> None:
    """Busy times of every category are additive over windows that do not overlap."""
    lines = {"threads": (thread,) * bool(thread), "streams": (stream,) * bool(stream)}
    trace = table(*steps(), *steps(1, at=40))
    total = np.zeros(len(Category), dtype=np.int64)
    moved = 0
    edges = [None, *sorted({a, b} - {0}), None]
    for low, high in pairwise(edges):
        try:
            part = Window(start=low, end=high, **lines).cut(trace)
        except ValueError:  # nothing in this part; the sums tell if there was
            continue
        np.add.at(total, part.category, part.end - part.start)
        moved += int(part.bytes[part.category == Category.copy].sum())
    whole = Window(start=0, **lines).cut(trace)
    assert total.tolist() == np.bincount(whole.category, whole.end - whole.start, len(Category)).tolist()
    assert abs(moved - int(whole.bytes[whole.category == Category.copy].sum())) <= 4


def test_no_window_changes_nothing() -> None:
    trace = table(*steps())
    assert Window().cut(trace) is trace


@pytest.mark.parametrize(
    ("window", "said"),
    [
        (Window(range="ProfilerStep#5"), "did you mean 'ProfilerStep#"),
        (Window(range="9"), "the ranges are 'ProfilerStep#3', 'ProfilerStep#4'"),
        (Window(range="3", start=150), "no range '3' in this part"),
        (Window(ranks=(7,)), "no rank 7; its ranks or processes are 0"),
        (Window(threads=("7",)), "no thread '7'; it has thread 1, thread 2"),
        (Window(streams=("1",)), "no stream '1'; it has device 0 stream 7"),
        (Window(start=10**9), "the window has no events; the trace spans 0 to 2.2e-07 s"),
        (Window(start=20, end=20), "before it begins"),
    ],
)
def test_a_window_that_is_not_in_the_trace_says_what_is(window: Window, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        window.cut(table(*steps()))


def taking_traces() -> list[tuple[str, ...]]:
    return [
        ("trace", "summary"), ("model", "integration"), ("model", "table13"), ("model", "replay"),
        ("model", "critical-path"), ("model", "network"), ("model", "order"),
    ]  # fmt: skip


@pytest.mark.parametrize("verb", taking_traces(), ids=" ".join)
def test_every_verb_that_takes_a_trace_cuts_the_same_window_and_says_so(verb: tuple[str, ...], tmp_path) -> None:
    rows = [event("cpu_op", "## step ##", 50, 50, 100, 50), event("cpu_op", "late", 50, 50, 300, 50)]
    rows += [
        event("cuda_runtime", "cudaLaunchKernel", 50, 50, 110, 5, correlation=1),
        event("kernel", "k", 0, 7, 120, 20, correlation=1),
        event("kernel", "ncclKernel_AllReduce", 0, 8, 120, 20),
    ]
    file = tmp_path / "t.json"
    file.write_text(json.dumps({"schemaVersion": 1, "traceEvents": rows}))
    for window in (["--range", "## step ##"], ["--from", "0.000000s", "--to", "50us"]):
        result = CliRunner().invoke(weft_command, [*verb, str(file), *window])
        assert result.exit_code == 0, result.output
        assert "keeps 4 of 5 events" in result.output
    wrong = CliRunner().invoke(weft_command, [*verb, str(file), "--to", "5 furlongs"])
    assert "not a time such as 1.5s" in wrong.output


def test_no_verb_that_takes_a_trace_lacks_the_window() -> None:
    """A command with an argument called trace, run or runs takes --range, unless its runs are records alone."""
    found = set()

    def visit(command: click.Command, path: tuple[str, ...]) -> None:
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                visit(command.get_command(click.Context(command), name), (*path, name))
        elif any("--range" in p.opts for p in command.params):
            found.add(path)

    visit(weft_command, ())
    assert found >= set(taking_traces())


@sample
def test_a_step_of_a_real_trace_agrees_with_its_json() -> None:
    file = KINETO / "nccl_data.json.gz"
    with gzip.open(file) as content:
        rows = [e for e in json.load(content)["traceEvents"] if e.get("ph") == "X"]
    (step,) = (e for e in rows if e["name"] == "ProfilerStep#5" and e["cat"] == "user_annotation")
    low, high = step["ts"], step["ts"] + step["dur"]
    inside = [e for e in rows if e["ts"] < high and e["ts"] + max(e["dur"], 1e-6) > low]
    work = [(max(low, e["ts"]), min(high, e["ts"] + e["dur"])) for e in inside
            if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset") and "nccl" not in e["name"]]  # fmt: skip
    busy, reach = 0.0, 0.0
    for start, end in sorted(work):
        busy += max(0.0, end - max(start, reach))
        reach = max(reach, end)
    trace = load(file, window=Window(range="5"))
    assert len(trace) == len(inside)
    assert attribute(trace).t_gpu[0] * 1e6 == pytest.approx(busy, rel=1e-3)
    assert trace.span / 1000 == pytest.approx(step["dur"], rel=1e-6)
