"""Transfers, pipelines and memory divergence: Eqs. 7 and 9 to 13 of the GPU integration report."""

from __future__ import annotations

import math

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.cli.main import weft_command
from weft.model import divergence, link, pipeline
from weft.model.link import ConstantLink, PcieLink
from weft.model.result import ModelError

SIZES = st.floats(1, 1e12)
LINKS = st.builds(ConstantLink, st.floats(1e6, 1e12)) | st.builds(
    PcieLink, st.sampled_from(sorted(link.LANE_RATE)), st.sampled_from(link.LANES), st.sampled_from(link.PAYLOADS)
)


def test_a_slots_wire_carries_what_its_standard_says() -> None:
    # By hand: 8 GT/s x 16 lanes x 128/130 / 8 bits; a 256-byte write takes 24 of header, a request of 512 24 more.
    slot = PcieLink(3, 16, 256, 512)
    assert slot.physical == pytest.approx(8e9 * 16 * 128 / 130 / 8)
    assert slot.bandwidth(512) == pytest.approx(slot.packets * 512 / (512 + 2 * 24 + 24))
    assert 0.9 * slot.physical < slot.packets < slot.physical


def test_times_by_hand() -> None:
    wire = ConstantLink(1e9)
    assert link.pcie_time(1e6, wire, 1e-6) == pytest.approx(1.001e-3)
    assert link.cxl_line_time(640, 40e-9) == pytest.approx(400e-9)
    assert link.cxl_bandwidth_time(1e6, wire, 0.5, 40e-9) == pytest.approx(2e-3 + 40e-9)


@given(SIZES, st.floats(1e6, 1e11), st.floats(1, 10), st.floats(1e-9, 1e-5))
def test_a_faster_link_never_takes_longer(size: float, rate: float, more: float, startup: float) -> None:
    slow, fast = ConstantLink(rate), ConstantLink(rate * more)
    assert link.pcie_time(size, fast, startup) <= link.pcie_time(size, slow, startup)
    assert link.pcie_time(size, slow, startup) <= link.pcie_time(size, slow, startup * more)


@given(LINKS, st.floats(0.1, 1))
def test_large_transfers_tend_to_the_ratio_of_bandwidths(wire: link.Link, penalty: float) -> None:
    size = 2.0**50
    ratio = link.cxl_bandwidth_time(size, wire, penalty) / link.pcie_time(size, wire, 1e-6)
    assert ratio == pytest.approx(1 / penalty, rel=1e-3)


@given(st.floats(1e9, 1e11), st.floats(50e-9, 1e-5), st.floats(0.1, 0.9))
def test_crossovers_are_where_the_times_meet(rate: float, startup: float, penalty: float) -> None:
    wire = ConstantLink(rate)
    size = link.crossover(
        lambda n: link.cxl_bandwidth_time(n, wire, penalty), lambda n: link.pcie_time(n, wire, startup)
    )
    # By hand: n (1/penalty - 1) / b = t_s - access.
    exact = (startup - link.CACHE_ACCESS) * rate / (1 / penalty - 1)
    assert size == pytest.approx(math.ceil(exact), abs=1.5, rel=1e-9)


def test_a_link_that_always_wins_has_no_crossover() -> None:
    assert link.crossover(lambda n: n, lambda n: 2 * n) == math.inf
    assert link.crossover(lambda n: 2 * n, lambda n: n) == 1


@given(st.floats(1e9, 1e11), st.floats(100e-9, 1e-5))
def test_constants_are_recovered_from_their_crossovers(rate: float, startup: float) -> None:
    lines = startup / (link.CACHE_ACCESS / 64 - 1 / rate)
    if lines <= 64:
        return
    bandwidth = (startup - link.CACHE_ACCESS) * rate / (1 / 0.6 - 1)
    wire, found = link.from_crossovers(lines, bandwidth)
    assert (wire.bytes_per_second, found) == (pytest.approx(rate), pytest.approx(startup))


def test_the_startup_that_gives_a_ratio_gives_it() -> None:
    wire = PcieLink()
    startup = link.report_startup(wire)
    size = link.REPORT_RATIO_BYTES
    ratio = link.cxl_bandwidth_time(size, wire) / link.pcie_time(size, wire, startup)
    assert ratio == pytest.approx(link.REPORT_RATIO)
    with pytest.raises(ModelError, match="no start-up time t_s gives"):
        link.startup_from_ratio(2.0, size, wire)


@pytest.mark.parametrize("size", [0, -1, math.nan, math.inf])
def test_sizes_that_cannot_be_are_refused(size: float) -> None:
    for function in (lambda: link.pcie_time(size, PcieLink(), 1e-6), lambda: link.cxl_line_time(size)):
        with pytest.raises(ModelError, match="size is"):
            function()


def test_slots_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ModelError, match=r"lanes is 3, but must be one of 1, 2, 4, 8, 16"):
        PcieLink(3, 3)


# --- pipelines -----------------------------------------------------------------------------------------------------


@given(st.floats(1e-6, 10), st.integers(1, 10), st.integers(1, 1000), st.floats(0, 10))
def test_a_balanced_pipeline_is_equation_12(stage: float, depth: int, tasks: int, startup: float) -> None:
    expected = depth * stage + (tasks - 1) * stage + startup
    assert pipeline.balanced_time(stage, depth, tasks, startup) == pytest.approx(expected)


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=4), st.integers(1, 30), st.sampled_from([1, 2, math.inf]))
@settings(max_examples=40, deadline=None)
def test_unbalanced_stages_agree_with_their_simulation(stages: list[float], tasks: int, room: float) -> None:
    _, left = pipeline.simulate(stages, [0.0] * tasks, room)
    assert left[-1] == pytest.approx(pipeline.pipeline_time(stages, tasks), rel=1e-9)
    assert np.all(np.diff(left) >= -1e-9)


def test_tasks_that_come_at_random_wait_as_in_a_queue_with_constant_service() -> None:
    """M/D/1: the mean wait is rho s / (2 (1 - rho)) (Pollaczek and Khinchine)."""
    generator = np.random.default_rng(0)
    service, load, tasks = 1.0, 0.6, 40_000
    arrivals = np.cumsum(generator.exponential(service / load, tasks))
    entered, left = pipeline.simulate([service], arrivals.tolist())
    assert np.mean(entered - arrivals) == pytest.approx(load * service / (2 * (1 - load)), rel=0.05)
    np.testing.assert_allclose(left - entered, service)


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=5), st.integers(1, 100))
def test_a_pipeline_is_between_its_slowest_stage_and_no_pipeline(stages: list[float], tasks: int) -> None:
    time = pipeline.pipeline_time(stages, tasks)
    assert tasks * max(stages) <= time * (1 + 1e-12)
    assert time <= pipeline.serial_time(stages, tasks) * (1 + 1e-12)


def test_the_penalty_of_moving_data_is_total_over_kernels() -> None:
    assert pipeline.disaggregation_penalty(10, [3, 5]) == pytest.approx(1.25)
    assert pipeline.implied_total(1.25, [3, 5]) == pytest.approx(10)
    with pytest.raises(ModelError, match="one of the kernels alone takes"):
        pipeline.disaggregation_penalty(1, [3])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pipeline.pipeline_time([], 1), "at least one stage"),
        (lambda: pipeline.pipeline_time([1.0, -1.0], 1), "stage 2 is -1"),
        (lambda: pipeline.pipeline_time([math.nan], 1), "stage 1 is nan"),
        (lambda: pipeline.pipeline_time([1.0], 0), "tasks is 0"),
        (lambda: pipeline.balanced_time(1.0, 2, 2, -1.0), "startup is -1"),
        (lambda: pipeline.disaggregation_penalty(1, []), "no kernel time"),
        (lambda: pipeline.simulate([1.0], [2.0, 1.0]), "not in order"),
    ],
)
def test_pipelines_that_cannot_be_are_refused(call, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        call()


# --- memory divergence ---------------------------------------------------------------------------------------------


def test_ipc_by_hand() -> None:
    # By hand: 8 warps x 30 instructions in 20 + 10 + 5 + 5 + 20 cycles.
    intervals = [divergence.Interval(10, 20, 10, 5, 5), divergence.Interval(20, 20)]
    assert divergence.ipc(8, intervals) == pytest.approx(8 * 30 / 60)
    assert divergence.kernel_time(1e9, 2.0, 80, 1e9) == pytest.approx(1 / 160)


@given(st.floats(1, 64), st.floats(1, 100), st.floats(1, 100), st.floats(0, 100), st.floats(0, 100))
def test_more_stalls_never_raise_ipc(warps: float, count: float, cycles: float, stall: float, more: float) -> None:
    less = divergence.ipc(warps, [divergence.Interval(count, cycles, dram=stall)])
    assert divergence.ipc(warps, [divergence.Interval(count, cycles, dram=stall + more)]) <= less


def test_the_clock_and_the_time_are_each_others_inverse() -> None:
    clock = divergence.implied_clock(1e9, 0.5, 80, 0.02)
    assert divergence.kernel_time(1e9, 0.5, 80, clock) == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("instructions,cycles\n", "no interval"),
        ("instructions\n1\n", "column 'cycles' is missing"),
        ("instructions,cycles,l2\n1,2,3\n", "unknown column 'l2'"),
        ("instructions,cycles\n1,x\n", "line 2"),
        ("instructions,cycles\n1,-2\n", "line 2: cycles is negative"),
        ("instructions,cycles\n1\n", "line 2"),
    ],
)
def test_interval_files_that_make_no_sense_are_one_clear_error(tmp_path, text: str, message: str) -> None:
    path = tmp_path / "i.csv"
    path.write_text(text)
    with pytest.raises(ModelError, match=message):
        divergence.read_intervals(path)


def test_the_commands_print_their_equations(tmp_path) -> None:
    path = tmp_path / "i.csv"
    path.write_text("instructions,cycles,dram\n10,20,30\n")
    for arguments, words in [
        (["link", "16MiB", "64"], ["Eq. 9", "Eq. 10", "Eq. 11", "t_s", "overtakes"]),
        (["pipeline", "--stage", "1", "--stage", "2", "--tasks", "9", "--now", "30"], ["Eq. 12", "19 s", "1.579x"]),
        (["pipeline", "--kernel", "4", "--now", "8"], ["Eq. 13", "2x"]),
        (["pipeline", "--total", "1MiB", "--chunk", "1KiB"], ["Eqs. 9, 12"]),
        (["divergence", str(path), "--warps", "10"], ["Eq. 7", "2 instructions/cycle", "60 %"]),
    ]:
        done = CliRunner().invoke(weft_command, ["model", *arguments])
        assert done.exit_code == 0, done.exception
        assert all(w in done.output for w in words), done.output


@pytest.mark.parametrize("size", ["0", "-3", "1.3QiB", "many"])
def test_a_size_that_is_none_is_a_usage_error(size: str) -> None:
    done = CliRunner().invoke(weft_command, ["model", "link", "--", size])
    assert done.exit_code == 2
    assert "not a size such as" in done.output
