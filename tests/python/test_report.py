"""Trace summaries, numbers for people, and plots."""

import json
import struct

import matplotlib.pyplot as plt
import pytest

from weft import trace
from weft.report import plots
from weft.report.format import rate, seconds, table
from weft.report.trace import exclusive, read, summarise


def span(name: str, category: str, begin: float, length: float, rank: int = 0, line: int = 0, moved: int = 0) -> dict:
    args = {"bytes": moved}
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": rank,
        "tid": line,
        "ts": begin,
        "dur": length,
        "args": args,
    }


def write(path, events: list[dict]) -> str:
    path.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))
    return str(path)


def test_time_inside_an_inner_span_is_not_counted_for_the_outer_one(tmp_path) -> None:
    events = read(
        write(
            tmp_path / "t.json",
            [
                {"ph": "M", "name": "process_name", "pid": 0},
                span("cg", "cpu", 0, 100),
                span("allreduce", "mpi", 10, 30),
                span("wait", "launch", 20, 5),
                span("send", "mpi", 50, 10),
                span("kernel", "gpu", 0, 80, line=1),
                span("cg", "cpu", 0, 50, rank=1),
            ],
        )
    )
    own = {(e.name, e.rank, e.begin): round(1e6 * s, 6) for e, s in exclusive(events)}
    assert own == {
        ("cg", 0, 0.0): 60.0,
        ("allreduce", 0, 1e-5): 25.0,
        ("wait", 0, 2e-5): 5.0,
        ("send", 0, 5e-5): 10.0,
        ("kernel", 0, 0.0): 80.0,
        ("cg", 1, 0.0): 50.0,
    }


def test_a_summary_gives_means_over_ranks_and_bytes_a_call(tmp_path) -> None:
    path = write(
        tmp_path / "t.json",
        [span("send", "mpi", 0, 40, rank=r, moved=m) for r, m in ((0, 3000), (1, 1000))] + [span("cg", "cpu", 40, 60)],
    )
    lines = [line.split() for line in summarise(read(path)).splitlines()]
    assert ["mpi", "40", "µs", "40.0", "%"] in lines
    assert ["cpu", "30", "µs", "30.0", "%"] in lines
    assert ["send", "mpi", "40", "µs", "40.0", "%", "2", "2", "kB"] in lines


def test_the_summary_agrees_with_the_recorder_on_a_trace_that_weft_wrote(tmp_path) -> None:
    trace.start()
    with trace.span("outer"):
        for _ in range(3):
            with trace.span("inner", "copy"):
                sum(range(20000))
    trace.stop()
    expected = trace.names()
    trace.write(tmp_path / "trace.json")
    mine: dict[str, float] = {}
    for event, own in exclusive(read(tmp_path / "trace.json")):
        mine[event.name] = mine.get(event.name, 0.0) + own
    assert set(mine) == {"outer", "inner"}
    for name, value in expected.items():
        assert mine[name] == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("content", ["", "{}", "[1, 2]", '{"traceEvents": [{"ph": "X"}]}', "\x00"])
def test_a_file_that_is_no_trace_says_so(tmp_path, content: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(content)
    with pytest.raises(ValueError, match="not a trace that weft wrote"):
        read(path)


def test_numbers_are_printed_with_the_right_prefix() -> None:
    assert rate(35.12e9, "B/s") == "35.1 GB/s"
    assert rate(12.0, "B") == "12 B"
    assert seconds(3.21e-3) == "3.21 ms"
    assert seconds(2.0) == "2 s"
    assert seconds(5e-9) == "5 ns"


def test_columns_are_aligned() -> None:
    assert table([("a", "b"), ("long", "c")]) == "a     b\nlong  c"


def figures() -> dict[str, plt.Figure]:
    operator = [
        {"geometry": v, "kernels": "simd", "order": n, "gflops": f * n, "roofline_gflops": 2.0 * n}
        for v, f in (("stored", 1.0), ("trilinear", 3.0))
        for n in range(1, 16)
    ]
    scaling = [
        {"order": 7, "ranks": p, "dofs": d * p, "fom_gflops": p * d / 1e6, "throughput_dofs_per_second_per_rank": 1e8}
        for p in (1, 2)
        for d in (10**4, 10**6)
    ]
    return {
        "operator": plots.operator(operator, "a machine", 35e9),
        "scaling": plots.scaling(scaling, 7, "a machine"),
        "residuals": plots.residuals([1.0, 0.1, 0.01]),
        "breakdown": plots.breakdown({"cpu": 0.5, "mpi": 0.2, "gpu": 0.9}, 1.0),
    }


@pytest.mark.parametrize("name", ["operator", "scaling", "residuals", "breakdown"])
def test_every_axis_of_a_plot_is_labelled_and_lines_differ_in_colour_and_marker(name: str, tmp_path) -> None:
    figure = figures()[name]
    for axes in figure.axes:
        assert axes.get_xlabel()
        assert axes.get_ylabel() or name == "breakdown"  # whose bars are named instead
        lines = [line for line in axes.get_lines() if line.get_linestyle() == "-"]
        assert len({line.get_color() for line in lines}) == len(lines)
        if len(lines) > 1:
            assert len({line.get_marker() for line in lines}) == len(lines)
            assert axes.get_legend() is not None
    plots.save(figure, tmp_path / "plot.png")
    header = (tmp_path / "plot.png").read_bytes()[:24]
    width, height = struct.unpack(">II", header[16:24])
    assert width > 600
    assert height > 150


def test_a_plot_in_a_page_needs_no_other_file() -> None:
    text = plots.as_html(plots.residuals([1.0, 0.5]), "residual history")
    assert text.startswith('<img alt="residual history" src="data:image/svg+xml;base64,')
