"""`weft trace diff`: what changed, by how much, why, and whether it exceeds the noise."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.cli.main import weft_command
from weft.report.trace_diff import Change, because, compare, figures, probabilities, show, steps_of
from weft.traces import Builder, Category, Trace, attribute

KINETO = Path(__file__).parents[3] / "shared" / "data" / "traces" / "kineto"
sample = pytest.mark.skipif(not KINETO.is_dir(), reason=f"the sample traces are not at {KINETO}")


def run(lengths: list[int], kernels: int = 2, extra: int = 0, processes: int = 1) -> Trace:
    """A run of steps, each with `kernels` kernels of a length in ns, and a copy of `extra` ns."""
    builder = Builder("test", "run.json")
    for process in range(processes):
        host = builder.line(process, "thread 1", "host")
        stream = builder.line(process, "device 0 stream 7", "stream")
        t = 0
        for k, length in enumerate(lengths):
            end = t + 100 + kernels * length + extra
            builder.add(line=host, start=[t], end=[end], category=int(Category.other), name=builder.name(f"step {k}"))
            builder.add(line=host, start=[t], end=[t + 50], category=int(Category.cpu), name=builder.name("prepare"))
            begin = t + 100 + length * np.arange(kernels)
            builder.add(line=stream, start=begin, end=begin + length, category=int(Category.gpu),
                        name=builder.name("kernel"))  # fmt: skip
            if extra:
                builder.add(line=stream, start=[end - extra], end=[end], category=int(Category.copy),
                            name=builder.name("copy"), bytes=8)  # fmt: skip
            t = end
    return builder.build()


NOISY = [1000, 1010, 990, 1005, 995, 1002]


def row(rows: list[Change], name: str) -> Change:
    (found,) = (r for r in rows if r.name == name)
    return found


def test_a_slower_kernel_is_named_with_its_cause_and_is_no_chance() -> None:
    a, b = run(NOISY), run([2 * n for n in NOISY])
    assert steps_of(a, b) == "step *"
    found = compare(a, b, "step *")
    kernel = found["names"][0]
    assert (kernel.name, kernel.because) == ("kernel", "2 times as long each")
    assert kernel.seconds == pytest.approx(2 * np.mean(NOISY) * 1e-9)
    assert kernel.p is not None
    assert kernel.p < 1e-6
    assert row(found["terms"], "t_gpu").seconds == pytest.approx(kernel.seconds)
    assert row(found["terms"], "t_cpu").seconds == 0
    assert row(found["names"], "prepare").p == 1.0


def test_more_calls_and_new_names_are_told_from_slower_ones() -> None:
    found = compare(run(NOISY), run(NOISY, kernels=3, extra=500), "step *")
    assert row(found["names"], "kernel").because == "50.0% more calls"
    assert row(found["names"], "copy").because == "only in B"
    assert row(found["categories"], "copy").a_seconds == 0
    assert row(compare(run(NOISY, extra=500), run(NOISY), "step *")["names"], "copy").because == "only in A"


def test_noise_is_not_significant() -> None:
    shuffled = [NOISY[i] for i in (3, 1, 5, 0, 2, 4)]
    assert all(r.p is None or r.p > 0.9 for rows in compare(run(NOISY), run(shuffled), "step *").values() for r in rows)
    found = compare(run(NOISY), run([n + d for n, d in zip(NOISY, (9, -12, 4, -7, 5, 2), strict=True)]), "step *")
    assert row(found["names"], "kernel").p > 0.5


def test_figures_of_several_processes_are_means() -> None:
    one, two = (compare(run(NOISY, processes=n), run([3 * n for n in NOISY]), "step *") for n in (1, 2))
    assert row(one["names"], "kernel").a_seconds == pytest.approx(row(two["names"], "kernel").a_seconds)
    assert any("A has 2 processes" in n for n in figures(run(NOISY, processes=2), run(NOISY))["notes"])


def test_without_repeated_steps_whole_traces_are_compared_and_nothing_is_called_significant() -> None:
    a, b = run([1000]), run([1500])
    found = figures(a, b)
    assert found["steps"] is None
    assert found["a_steps"] is None
    assert any("--steps" in n for n in found["notes"])
    assert all(r["p"] is None for r in found["names"] + found["terms"])
    total = next(r for r in found["terms"] if r["name"] == "t_total")
    assert total["change_seconds"] == pytest.approx(attribute(b).mean().t_total - attribute(a).mean().t_total)
    assert "CHANCE" in show(found)


times = st.lists(st.integers(1, 10**6), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(times, times, st.integers(0, 3), st.integers(0, 3), st.integers(0, 50))
def test_differences_change_sign_with_the_order_and_add_up(a: list, b: list, m: int, n: int, extra: int) -> None:
    first, second = run(a, m), run(b, n, extra)
    for steps in (None, "step*"):
        there, back = compare(first, second, steps), compare(second, first, steps)
        for of in there:
            mine = {(r.name, r.category): r.seconds for r in there[of]}
            assert mine == {(r.name, r.category): -r.seconds for r in back[of]}
        by_category = {r.name: r.seconds for r in there["categories"]}
        for category, change in by_category.items():
            parts = sum(r.seconds for r in there["names"] if r.category == category)
            assert parts == pytest.approx(change, abs=1e-12)


def test_probabilities_are_corrected_for_the_number_of_rows() -> None:
    near = np.array([1.0, 1.1, 0.9, 1.05]), np.array([1.2, 1.3, 1.1, 1.25])
    noise = np.array([1.0, 1.1, 0.9, 1.05]), np.array([1.0, 1.12, 0.88, 1.06])
    (alone,) = probabilities([near])
    among = probabilities([near, *[noise] * 9])[0]
    assert among == pytest.approx(10 * alone)
    assert probabilities([(np.ones(3), np.ones(3)), (np.ones(3), 2 * np.ones(3)), (np.ones(1), np.ones(3))]) == [
        1,
        0,
        None,
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [((1.0, 2.0, 4, 8), "100.0% more calls"), ((1.0, 0.5, 4, 2), "50.0% fewer calls"), ((1.0, 3.0, 4, 4), "3 times as"),
     ((0.0, 3.0, 4, 4), "inf times"), ((1.0, 1.0, 4, 4), ""), ((0.0, 1.0, 0, 0), "")],
)  # fmt: skip
def test_the_cause_is_the_number_of_calls_or_their_length(given: tuple, said: str) -> None:
    assert because(*given).startswith(said)
    assert bool(because(*given)) == bool(said)


@sample
def test_two_real_traces_differ_by_what_their_json_says() -> None:
    """jq: three steps of 696 ms in all against five of 579 ms; 10 all-reduces of NCCL per step in one alone."""
    files = [str(KINETO / f) for f in ("nccl_data.json.gz", "ns_resolution_rank0.json.gz")]
    result = CliRunner().invoke(weft_command, ["trace", "diff", *files, "--json", "--top", "2000"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert (found["steps"], found["a_steps"], found["b_steps"]) == ("ProfilerStep#*", 3, 5)
    forward = next(r for r in found["ranges"] if r["name"] == "## forward ##")
    assert (forward["a_calls"], forward["b_calls"]) == (3, 5)
    nccl = [r for r in found["names"] if r["name"].startswith("ncclKernel_AllReduce")]
    assert [(r["a_calls"], r["b_calls"], r["because"]) for r in nccl] == [(5, 0, "only in A")]
    assert "* " in CliRunner().invoke(weft_command, ["trace", "diff", *files]).output


def test_a_wrong_name_of_the_steps_says_which_there_are(tmp_path) -> None:
    with pytest.raises(ValueError, match="no range 'epoch'; the ranges are 'step 0'"):
        figures(run(NOISY), run(NOISY), "epoch")


def test_numbered_operators_of_pytorch_are_one_range_and_no_step() -> None:
    """NVTX ranges of emit_nvtx number each operator; their many names took minutes, and one passed for the step."""
    builder = Builder("test", "run.sqlite")
    line = builder.line(0, "thread 1", "host")
    for k in range(8):
        name = builder.name(f"aten::copy_, seq = {40 + k}, op_id = {k}")
        builder.add(line=line, start=[100 * k], end=[100 * k + 90], category=int(Category.other), name=name)
    trace = builder.build()
    assert steps_of(trace, trace) is None
    (row,) = figures(trace, trace, None, 5)["ranges"]
    assert (row["name"], row["a_calls"]) == ("aten::copy_, seq = *, op_id = *", 8)
