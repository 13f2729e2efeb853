"""Extrapolation: laws come back from noisy data, ranges hold what was held out, and too few runs are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.cli.main import weft_command
from weft.model import extrapolate, published, scaling_laws
from weft.model.extrapolate import Run
from weft.model.result import ModelError

TRACES = Path(__file__).parents[3] / "shared/data/traces/fenate/sw4lite_256_2k_data.tgz"
RANKS = np.array([1, 2, 4, 8, 16, 32, 64])


@pytest.mark.parametrize("coefficient", [1e-6, 1e3])
@pytest.mark.parametrize("term", scaling_laws.TERMS)
def test_a_law_of_one_term_comes_back_from_data_with_2_percent_noise(term: str, coefficient: float) -> None:
    law, close = scaling_laws.TERMS[term], []
    ranks = np.repeat(RANKS[1:], 2).astype(float)
    size = np.tile([1e4, 8e4], 6) * 64 / ranks
    truth = coefficient * float(law(np.array([512.0]), np.array([1e3]))[0])
    for seed in range(10):
        noise = np.exp(0.02 * np.random.default_rng(seed).standard_normal(len(ranks)))
        fitted = scaling_laws.fit(ranks, size, coefficient * law(ranks, size) * noise)
        value, low, high = fitted.at(512.0, 1e3)
        assert low <= value <= high
        assert low < truth < high
        # Three doublings of ranks and one and a half of sizes outside: a second term that noise suggests may decide.
        close.append(abs(value / truth - 1) < 0.25)
    assert sum(close) >= 9, f"{10 - sum(close)} of 10 are far off"


@settings(max_examples=6, deadline=None)
@given(constant=st.floats(0.1, 10), slope=st.floats(0.05, 5), seed=st.integers(0, 2**32 - 1))
def test_a_constant_plus_log_p_comes_back(constant: float, slope: float, seed: int) -> None:
    noise = np.exp(0.005 * np.random.default_rng(seed).standard_normal(len(RANKS)))
    fitted = scaling_laws.fit(RANKS, np.ones(len(RANKS)), (constant + slope * np.log2(RANKS)) * noise)
    truth = constant + 10 * slope
    value, low, high = fitted.at(1024, 1.0)
    assert low <= truth <= high
    assert abs(value / truth - 1) < 0.1


def test_a_range_widens_outside_what_was_measured() -> None:
    noise = np.array([1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 0.99])
    fitted = scaling_laws.fit(RANKS, np.ones(len(RANKS)), 3 * noise)
    widths = [np.log(high / low) for _, low, high in (fitted.at(p, 1.0) for p in (64, 256, 4096))]
    assert widths[0] < widths[1] < widths[2]


def test_fewer_than_three_distinct_runs_are_refused_however_often_repeated() -> None:
    with pytest.raises(ModelError, match="known at 2 distinct numbers"):
        scaling_laws.fit([1, 1, 2, 2], [1, 1, 1, 1], [1.0, 1.1, 0.6, 0.5])


def test_published_rows_are_predicted_from_the_smaller_ones() -> None:
    inside, errors = [], []
    for table in published.HIPBONE_TABLE_2.values():
        rows = [Run("", p, 45e6 * p, {"total": p / fom}) for p, fom in table.items()]
        made = extrapolate.program(rows[:4])
        for run in rows[4:]:
            value, low, high = made.at(run.ranks, run.points or 0)["total"]
            inside.append(low <= run.terms["total"] <= high)
            errors.append(abs(value / run.terms["total"] - 1))
    assert max(errors) < 0.04
    assert sum(inside) >= 0.8 * len(inside)


def test_each_term_gets_its_own_law() -> None:
    runs = [Run("", p, 1e6, {"compute": 1e6 / p * 1e-7, "reduce": 1e-4 * np.log2(p)}) for p in (2, 4, 8, 16, 32)]
    made = extrapolate.program(runs)
    laws = {term.name: term.law.candidates[0].law for term in made.terms}  # type: ignore[union-attr]
    assert laws == {"compute": ("n",), "reduce": ("log2 P",)}
    at = made.at(1024, made.points_at(1024))
    assert at["compute"][0] == pytest.approx(1e-1 / 1024)
    assert at["reduce"][0] == pytest.approx(1e-3)


def test_communication_follows_messages_where_their_cost_does() -> None:
    # Messages and bytes with laws of two terms each; their cost has four terms, which no law of two describes.
    runs = []
    for p in (4, 8, 16, 32, 64, 128):
        messages, data = 6 + 3 * np.log2(p), 8e5 * p ** (-2 / 3) + 400 * p
        runs.append(Run("", p, 1e6, {"t_cpu": 1.0 / p, "t_mpi": 2e-6 * messages + 1e-9 * data}, messages, data))
    made = extrapolate.program(runs)
    (mpi,) = [term for term in made.terms if term.name == "t_mpi"]
    assert isinstance(mpi.law, extrapolate.ByMessages)
    assert mpi.law.latency == pytest.approx(2e-6, rel=1e-6)
    assert mpi.law.per_byte == pytest.approx(1e-9, rel=1e-6)


def test_the_messages_of_traces_are_extrapolated() -> None:
    if not TRACES.exists():
        pytest.skip("needs ../shared/data/traces/fenate")
    runs = extrapolate.read([TRACES / "resPP_256", TRACES / "resPP_512", TRACES / "resPP_1k"])
    made = extrapolate.program(extrapolate.with_sizes(runs, "weak"))
    law = made.traffic["messages"].candidates[0]
    assert law.law == ("1", "log2 P")  # trees and recursive doubling
    assert law.at(2048, 1.0) == pytest.approx(159, abs=0.1)  # 14 more for each doubling
    assert any("follow no law" in note for note in made.notes)  # the times of these four jobs are unrelated


def test_a_table_is_extrapolated_from_the_command_line(tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    table.write_text("# strong scaling\nranks,points,solve\n" + "".join(f"{p},1e6,{8 / p}\n" for p in (1, 2, 4, 8)))
    done = CliRunner().invoke(weft_command, ["model", "extrapolate", str(table), "--ranks", "16"])
    assert done.exit_code == 0, done.output
    assert "16 ranks: time" in done.output
    assert "(volume)" in done.output


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("ranks,solve\n1,2\n2,1\n4,0.5\n", "--scaling strong"),
        ("ranks,points,solve\n1,10,2\n2,10,1\n", "at least 3 are needed"),
        ("ranks,points,solve\n1,10,2\n2,10\n", "line 3: 2 values"),
        ("ranks,points,solve\n1,10,2\n2,10,x\n", "not a row of numbers"),
        ("ranks,points,solve\n1,10,2\n2,30,1\n4,20,1\n", "give --points"),
        ("ranks,points\n1,10\n2,10\n4,10\n", "a column of seconds"),
        ("ranks,points,solve\n1,10,2\n2.5,10,1\n4,10,1\n", "line 3: ranks is 2.5"),
        ("ranks,points,solve\n1,10,2\nnan,10,1\n4,10,1\n", "ranks is nan"),
        ("ranks,points,solve\n1,10,2\n2,nan,1\n4,10,1\n", "a finite problem"),
        ("ranks,points,solve\n1,inf,2\n2,inf,1\n4,inf,1\n", "a finite problem"),
        ("ranks,points,solve,solve\n1,10,2,2\n2,10,1,2\n4,10,1,2\n", "'solve' more than once"),
        ("ranks,points,a,b\n2,10,2,0\n4,10,1,1\n8,10,1,1\n", "'b' is not above zero"),
    ],
)
def test_tables_that_cannot_be_extrapolated_say_what_is_wrong(tmp_path: Path, text: str, wrong: str) -> None:
    table = tmp_path / "runs.csv"
    table.write_text(text)
    done = CliRunner().invoke(weft_command, ["model", "extrapolate", str(table), "--ranks", "16"])
    assert done.exit_code != 0
    assert wrong in str(done.exception) + done.output


def test_a_table_that_is_no_text_is_refused_in_words(tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    table.write_bytes(b"ranks,solve\n1,\xff\xfe\n")
    with pytest.raises(ModelError, match="not a table in text"):
        extrapolate.read([table])


@pytest.mark.parametrize("what", ["workload", "precision", "device"])
def test_runs_of_several_programs_follow_no_common_law(what: str) -> None:
    of = {"workload": "poisson", "precision": "double", "device": "a GPU"}
    runs = [extrapolate.Run("", p, 1e6, {"solve": 8 / p}, of=of) for p in (1, 2, 4)]
    assert extrapolate.program(runs).terms
    with pytest.raises(ModelError, match=f"more than one {what}"):
        extrapolate.program([*runs, extrapolate.Run("", 8, 1e6, {"solve": 1.0}, of=of | {what: "another"})])


def test_more_ranks_than_points_are_refused() -> None:
    runs = [extrapolate.Run("", p, 1000.0, {"solve": 8 / p}) for p in (1, 2, 4)]
    made = extrapolate.program(runs)
    assert extrapolate.results(made, 1000, 1000.0)
    with pytest.raises(ModelError, match="less than one point for each of 1,001 ranks"):
        extrapolate.results(made, 1001, 1000.0)
    unknown = extrapolate.program(
        extrapolate.with_sizes([extrapolate.Run("", p, None, {"t": 8 / p}) for p in (1, 2, 4)], "strong")
    )
    assert extrapolate.results(unknown, 4096, unknown.points_at(4096))
