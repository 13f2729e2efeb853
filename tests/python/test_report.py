"""Trace summaries, formatted numbers, and plots."""

import json
import struct

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import trace
from weft.format import rate, seconds, size_text, table
from weft.report import plots
from weft.report.trace import figures, summarise
from weft.traces import load


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


def test_a_summary_gives_means_over_processes_and_bytes_per_call(tmp_path) -> None:
    path = write(
        tmp_path / "t.json",
        [span("send", "mpi", 0, 40, rank=r, moved=m) for r, m in ((0, 3000), (1, 1000))] + [span("cg", "cpu", 40, 60)],
    )
    lines = [line.split() for line in summarise(load(path)).splitlines()]
    assert ["mpi", "2", "40", "µs", "40.0", "%", "4", "kB"] in lines
    assert ["cpu", "1", "30", "µs", "30.0", "%", "-"] in lines
    assert ["send", "mpi", "40", "µs", "40.0", "%", "2", "40", "µs", "40", "µs", "2", "kB"] in lines
    assert ["t_MPI", "40", "µs", "57.1", "%"] in lines  # the processes last 100 and 40 µs, 70 on average
    assert ["t_total", "70", "µs", "100.0", "%"] in lines


def test_names_that_differ_at_the_end_stay_apart_in_a_narrow_summary(tmp_path) -> None:
    kernels = [f"void elementwise_kernel<128, {'gpu_kernel_impl_nocast, ' * 6}{which}>" for which in ("Add", "Mul")]
    path = write(tmp_path / "t.json", [span(k, "gpu", 40 * i, 30 + i) for i, k in enumerate(kernels)])
    table = summarise(load(path), width=90).split("\n\n")[3].splitlines()
    assert table[0].startswith("NAME")
    assert max(map(len, table)) <= 90
    assert [line.split("…")[1].split(">")[0][-3:] for line in table[1:]] == ["Mul", "Add"]


def test_the_summary_agrees_with_the_recorder_on_a_trace_that_weft_wrote(tmp_path) -> None:
    trace.start()
    with trace.span("outer"):
        for _ in range(3):
            with trace.span("inner", "copy"):
                sum(range(20000))
    trace.stop()
    expected = trace.names()
    trace.write(tmp_path / "trace.json")
    mine = {n["name"]: n["exclusive_seconds"] for n in figures(load(tmp_path / "trace.json"))["names"]}
    assert set(mine) == {"outer", "inner"}
    for name, value in expected.items():
        assert mine[name] == pytest.approx(value, abs=1e-8)


def test_numbers_are_printed_with_the_right_prefix() -> None:
    assert rate(35.12e9, "B/s") == "35.1 GB/s"
    assert rate(12.0, "B") == "12 B"
    assert seconds(3.21e-3) == "3.21 ms"
    assert seconds(2.0) == "2 s"
    assert seconds(5e-9) == "5 ns"


@given(st.floats(1e-12, 1e17))
def test_every_printed_number_has_three_digits_or_more_and_no_exponent(value: float) -> None:
    for text in (rate(value * 1e12, "FLOP/s"), seconds(value * 1e3), size_text(1e12 * value)):
        number = text.split()[0]
        assert "e" not in number
        assert len(number.replace(".", "").lstrip("0")) >= 3 or float(number) == round(float(number), 1)
    assert rate(2.03e7, "FLOP/s") == "20.3 MFLOP/s"
    assert (rate(999.7e6, "B/s"), size_text(1023 * 1024), seconds(2000)) == ("1000 MB/s", "1023 KiB", "2000 s")


def test_columns_are_aligned() -> None:
    assert table([("a", "b"), ("long", "c")]) == "a     b\nlong  c"


@given(st.lists(st.lists(st.text("ab-, ", max_size=200), min_size=2, max_size=2), min_size=1), st.integers(40, 120))
def test_a_table_of_a_width_keeps_to_it_and_loses_no_word(rows: list[list[str]], width: int) -> None:
    rows = [[head[:10], text] for head, text in rows]
    lines = table(rows, width).splitlines()
    longest = max([len(word) for _, text in rows for word in text.split()], default=0)
    assert max(map(len, lines), default=0) <= max(width, 12 + longest)
    assert "".join(lines).replace(" ", "") == "".join(h + t for h, t in rows).replace(" ", "")


def plotted() -> dict[str, plt.Figure]:
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
    figure = plotted()[name]
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


def test_a_plot_is_cropped_where_its_layout_has_put_it(tmp_path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for one in axes:
        one.set_ylabel("y")
    plots.save(figure, tmp_path / "plot.png")
    drawn = plt.imread(tmp_path / "plot.png")[..., :3].min(axis=2) < 0.9
    frames = np.flatnonzero(drawn.mean(axis=0) > 0.7)  # the columns of pixels along the sides of the axes
    assert len(frames) >= 4
    assert frames[-1] < drawn.shape[1] - 2  # with a margin


def test_a_plot_in_a_page_needs_no_other_file() -> None:
    text = plots.as_html(plots.residuals([1.0, 0.5]), "residual history")
    assert text.startswith('<img alt="residual history" src="data:image/svg+xml;base64,')


@pytest.mark.parametrize(
    ("low", "labels"),
    [(1e-3, ["10⁻³", "10⁻²", "10⁻¹", "10⁰"]), (0.3, ["3×10⁻¹", "4×10⁻¹", "6×10⁻¹", "10⁰"])],
)
def test_logarithmic_axes_are_labelled_in_plain_text(low: float, labels: list[str]) -> None:
    figure = plots.residuals([1.0, low])
    axes = figure.axes[0]
    axes.set_ylim(0.9 * low, 1.1)
    found = [(at, text.get_text()) for minor in (False, True) for at, text in zip(
        axes.get_yticks(minor=minor), axes.get_yticklabels(minor=minor), strict=True)]  # fmt: skip
    assert [text for at, text in sorted(found) if text and 0.9 * low <= at <= 1.1] == labels
    plt.close(figure)
