"""Eqs. 3 and 4 and sections 8.1 and 8.2 of the GPU integration report."""

from __future__ import annotations

import json
import math

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from weft.cli.main import weft_command
from weft.model import integration as method
from weft.model.integration import Terms
from weft.model.result import ModelError

SECONDS = st.floats(0, 1e6, allow_nan=False)
TERMS = st.builds(Terms, st.floats(1e-6, 1e6), SECONDS, SECONDS, SECONDS, SECONDS)
FACTORS = st.floats(1e-3, 1e3)


def test_a_run_that_is_half_transfers_gains_what_amdahl_allows() -> None:
    half = Terms(5, 0, 0, 5, 0)
    assert method.benefit(half, 10, 10) == pytest.approx(10 / 5.5)
    assert method.penalty(half, 0.1, 0.1) == pytest.approx(55 / 10)


@given(TERMS, FACTORS, FACTORS)
def test_benefit_and_penalty_are_two_words_for_one_ratio(terms: Terms, data: float, control: float) -> None:
    product = method.benefit(terms, data, control) * method.penalty(terms, data, control)
    assert product == pytest.approx(1, rel=1e-12)


@given(TERMS, FACTORS, FACTORS, st.floats(1, 100))
def test_a_faster_link_never_makes_a_run_slower(terms: Terms, data: float, control: float, more: float) -> None:
    rounding = 1 + 1e-12
    assert method.integrated(terms, data * more, control) <= method.integrated(terms, data, control) * rounding
    assert method.integrated(terms, data, control * more) <= method.integrated(terms, data, control) * rounding


@given(TERMS)
def test_an_infinitely_fast_link_leaves_the_other_terms(terms: Terms) -> None:
    left = terms.t_cpu + terms.t_gpu + terms.t_mpi
    assert method.integrated(terms, 1e300, 1e300) == pytest.approx(left, rel=1e-9)
    assert method.integrated(terms, 1, 1) == pytest.approx(terms.t_total)


def test_a_negative_term_is_refused_and_says_that_calls_overlapped() -> None:
    with pytest.raises(ModelError, match=r"t_cg_control is negative \(-1\).*exclusive"):
        Terms(1, 1, 1, 1, -1)
    with pytest.raises(ModelError, match=r"exceed t_total = 10 by 2.*overlap"):
        method.terms_of_total(10, 5, 0, 3, 4)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_term_that_is_no_number_is_refused_by_name(value: float) -> None:
    with pytest.raises(ModelError, match="t_gpu is"):
        Terms(1, value, 1, 1, 1)


def test_no_time_at_all_and_no_run_at_all_are_refused() -> None:
    with pytest.raises(ModelError, match="all five terms"):
        Terms(0, 0, 0, 0, 0)
    with pytest.raises(ModelError, match="no run is given"):
        method.coupling([], 10, 10)


def test_the_rounding_of_printed_shares_bounds_the_result() -> None:
    result = method.printed_coupling({"t_cg_data": "53", "t_cg_control": "0.03"}, 10, 10, t_total=100.0)
    assert result.low < result.value < result.high
    exact = 1 / (1 - 0.9 * 0.5303)
    assert result.value == pytest.approx(exact)
    assert result.range_is == "input rounding"


def test_an_unknown_term_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ModelError, match=r"unknown term t_copy; the terms are t_cpu, t_gpu"):
        method.printed_coupling({"t_copy": 1.0}, 10, 10)


def test_runs_that_differ_give_a_range_and_one_run_none() -> None:
    runs = [Terms(5, 1, 1, 2 + 0.1 * k, 1) for k in range(5)]
    several = method.coupling(runs, 10, 10)
    assert several.low < several.value < several.high
    assert "5 runs" in several.range_is
    assert method.coupling(runs[:1], 10, 10).range_is == ""


def test_messages_between_nodes_take_the_links_of_a_merged_node() -> None:
    acceleration = method.off_node_acceleration(25, 8, 24)
    assert acceleration == pytest.approx(8.3333, rel=1e-4)
    # By hand: 0.5 x 0.8 x 0.25 = 10 % of the time gets 8.33 times faster.
    assert method.point_to_point_speedup(0.5, 0.8, 0.25, acceleration) == pytest.approx(1 / (0.9 + 0.1 / acceleration))
    with pytest.raises(ModelError, match=r"off_node is 1\.2"):
        method.point_to_point_speedup(0.5, 0.8, 1.2, 8)


def test_a_tree_keeps_the_stages_between_nodes() -> None:
    # 16 ranks on 2 nodes: one of four stages crosses; by hand 1 - 0.4 + 0.4 (1/4 + 3/4 / 2) = 0.85.
    assert method.tree_runtime(0.4, 0.0, 16, 8, 2) == pytest.approx(0.85)
    assert method.tree_runtime(0.4, 0.0, 16, 16, 2) == pytest.approx(0.8)
    with pytest.raises(ModelError, match="at least 2"):
        method.tree_runtime(0.4, 0.0, 1, 1, 2)


@given(st.floats(0, 0.5), st.floats(0, 0.5), st.integers(2, 4096), st.integers(1, 64), st.floats(1, 100))
def test_faster_links_on_a_node_never_cost_time(
    collective: float, p2p: float, ranks: int, per_node: int, factor: float
) -> None:
    left = method.tree_runtime(collective, p2p, ranks, per_node, factor)
    assert 1 - collective - p2p - 1e-12 <= left <= 1 + 1e-12


def test_the_command_reads_records_prints_equations_and_writes_json(tmp_path) -> None:
    record = {
        "case": {"workload": "poisson"},
        "timings": {
            "solve_seconds": 10.0,
            "breakdown": {
                name: {"mean_seconds": value, "max_seconds": value}
                for name, value in {"cpu": 1.0, "mpi": 1.0, "copy": 2.0, "launch": 6.0, "gpu": 5.0}.items()
            },
        },
    }
    (tmp_path / "run.json").write_text(json.dumps(record))
    out = tmp_path / "out.json"
    done = CliRunner().invoke(weft_command, ["model", "integration", str(tmp_path), "--json", str(out)])
    assert done.exit_code == 0, done.output
    assert "Eqs. 3, 4" in done.output
    assert "lower bound" in done.output
    (tight, loose) = json.loads(out.read_text())["results"]
    # By hand: t_CGdata 2, t_CGcontrol 6 - 5 = 1 of 10 s.
    assert tight["value"] == pytest.approx(10 / (7 + 0.3))
    assert loose["value"] == pytest.approx((7 + 30) / 10)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ('{"case": {}, "timings": {}}', "timings.breakdown is missing"),
        ('{"case": {}, "timings": {"breakdown": {"cpu": 3}}}', "not in the form that weft writes"),
    ],
)
def test_a_record_that_is_not_whole_is_one_clear_error(tmp_path, content: str, message: str) -> None:
    (tmp_path / "run.json").write_text(content)
    done = CliRunner().invoke(weft_command, ["model", "integration", str(tmp_path)])
    assert done.exit_code != 0
    assert message in str(done.exception)
