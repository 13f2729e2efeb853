"""Eqs. 5 and 6, and the decaying exponential, of the GPU integration report."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.cli.main import weft_command
from weft.model import ratio as method
from weft.model.ratio import Decay, Run, Scaling
from weft.model.result import ModelError
from weft.model.sources import ratio_runs

GRID = [(p, t) for p in (1, 2, 4) for t in (1, 2, 4)]
SECONDS = st.floats(0, 100)


def runs_of(scaling: Scaling, points=GRID, noise: float = 0.0, seed: int = 0) -> list[Run]:
    generator = np.random.default_rng(seed)
    times = [scaling.time(p, t) * (1 + noise * generator.standard_normal()) for p, t in points]
    return [Run(p, t, time, scaling.t_mpi) for (p, t), time in zip(points, times, strict=True)]


@given(st.floats(1, 100), SECONDS, SECONDS, SECONDS, st.floats(0, 10))
def test_exact_times_give_back_the_terms(seq: float, mpi: float, omp: float, hybrid: float, t_mpi: float) -> None:
    true = Scaling(t_mpi, seq, mpi, omp, hybrid)
    found = method.fit(runs_of(true))
    for name in ("t_mpi", *method.TERMS):
        assert getattr(found, name) == pytest.approx(getattr(true, name), rel=1e-6, abs=1e-6)


@given(st.floats(1, 100), SECONDS, SECONDS, SECONDS, st.floats(0.5, 0.95))
@settings(max_examples=60)
def test_no_combination_with_fewer_cores_reaches_the_efficiency(
    seq: float, mpi: float, omp: float, hybrid: float, efficiency: float
) -> None:
    scaling = Scaling(0, seq, mpi, omp, hybrid)
    best = method.cores_needed(scaling, efficiency)
    reached = scaling.limit / scaling.time(best.processes, best.threads)
    assert reached >= efficiency * (1 - 1e-9)
    assert min(best.processes, best.threads) >= 1
    counts = np.geomspace(1, 1e4, 100)
    processes, threads = np.meshgrid(counts, counts)
    times = seq + mpi / processes + omp / threads + hybrid / (processes * threads)
    enough = scaling.limit / times >= efficiency
    if enough.any():
        assert best.count <= (processes * threads)[enough].min() * (1 + 1e-9)


def test_threads_alone_need_nine_times_their_share_for_90_percent() -> None:
    # By hand: c_OMP / t = (t_mpi + c_seq) / 9.
    best = method.cores_needed(Scaling(1, 9, c_OMP=4), 0.9)
    assert (best.processes, best.threads) == (1, pytest.approx(3.6))
    assert method.cores_needed(Scaling(1, 9, c_OMP=1), 0.9, least_threads=2).count == 2


def test_the_range_holds_the_truth_about_as_often_as_it_says() -> None:
    true = Scaling(1, 20, 8, 30, 60)
    held = 0
    for seed in range(8):
        results = {r.quantity: r for r in method.scaling_results(runs_of(true, noise=0.005, seed=seed))}
        held += sum(results[name].low <= getattr(true, name) <= results[name].high for name in method.TERMS)
    assert held >= 0.8 * 8 * len(method.TERMS)


@pytest.mark.parametrize(
    ("points", "terms", "message"),
    [
        ([], None, "no run is given"),
        ([(2, 2)] * 5, None, "same number of processes and of threads"),
        ([(1, 1), (1, 2), (2, 1)], None, "3 combination"),
        ([(1, 1), (2, 2), (4, 4), (8, 8)], None, "cannot tell"),
        ([(1, 1), (2, 1)], ["c_seq", "c_GPU"], "unknown term c_GPU; the terms are"),
    ],
)
def test_data_that_do_not_determine_the_terms_are_refused(points, terms, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        method.fit(runs_of(Scaling(0, 5, 1, 1, 1), points), terms)


def test_what_was_not_varied_is_not_fitted() -> None:
    found = method.fit(runs_of(Scaling(0, 5, 0, 3, 0), [(1, t) for t in (1, 2, 4)]))
    assert found == Scaling(0.0, pytest.approx(5), 0.0, pytest.approx(3), 0.0)


def test_the_three_combinations_of_two_cores_are_fitted_by_the_terms_that_the_error_names() -> None:
    runs = runs_of(Scaling(0.5, 20, 0, 0, 40), [(1, 1), (1, 2), (2, 1)])
    with pytest.raises(ModelError, match="--terms c_seq,c_hybrid"):
        method.fit(runs)
    points = [a for r in runs for a in ("--point", f"{r.processes},{r.threads},{r.t_total},{r.t_mpi}")]
    done = CliRunner().invoke(weft_command, ["model", "ratio", *points, "--terms", "c_seq,c_hybrid"])
    assert done.exit_code == 0, done.output
    assert re.search(r"c_seq +20 s ", done.output)
    assert re.search(r"c_hybrid +40 s ", done.output)
    assert "note" not in done.output


def test_residuals_longer_than_a_run_leave_the_fit_its_range() -> None:
    times = [(1, 1, 1.1), (1, 1, 1.4), (1, 2, 3.8), (1, 2, 6.0), (2, 1, 1.0), (2, 1, 0.7)]
    results = method.scaling_results([Run(*time) for time in times], terms=["c_seq", "c_hybrid"])
    assert all(result.low < result.high for result in results if result.quantity == "c_seq")


@pytest.mark.parametrize("bad", [(0, 1, 1.0), (1, 1, math.nan), (1, 1, -1.0), (1, 1, 1.0, 2.0), (1, 1, 1.0, -0.5)])
def test_a_run_that_cannot_be_is_refused(bad) -> None:
    with pytest.raises(ModelError):
        Run(*bad)


def test_noise_that_makes_some_resamples_scale_perfectly_does_not_end_the_fit() -> None:
    results = method.scaling_results(runs_of(Scaling(0, 0.05, 8, 30, 60), noise=0.02, seed=1))
    assert "cores per GPU" in results[-1].quantity


def test_perfect_scaling_has_no_90_percent() -> None:
    with pytest.raises(ModelError, match="no limit"):
        method.cores_needed(Scaling(0, 0, 1, 1, 1))


@given(st.floats(1, 200), st.floats(0.2, 5), st.floats(0.3, 2))
@settings(max_examples=30)
def test_the_exponential_is_found_again(alpha: float, share: float, decay: float) -> None:
    true = Decay(alpha, share * alpha, decay)
    found = method.fit_decay([(c, true.time(c)) for c in (1, 2, 3, 4, 6, 8)])
    assert found.alpha == pytest.approx(true.alpha, rel=1e-4)
    assert found.decay == pytest.approx(true.decay, rel=1e-3)


@given(st.floats(1, 200), st.floats(0.2, 50), st.floats(0.1, 2), st.floats(0.5, 0.99))
def test_the_cores_of_the_exponential_reach_the_efficiency(
    alpha: float, share: float, decay: float, efficiency: float
) -> None:
    fit = Decay(alpha, share * alpha, decay)
    cores = method.decay_cores(fit, efficiency)
    assert fit.efficiency(cores) >= efficiency - 1e-9
    if cores > 0:
        assert fit.efficiency(cores) == pytest.approx(efficiency)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([(1, 10), (2, 5)], "at least 3 different numbers of cores"),
        ([(1, 40), (2, 30), (3, 20), (4, 10)], "do not level off"),
        ([(1, 10), (2, 11), (3, 13), (4, 17)], "do not"),
        ([(1, 10), (2, math.nan), (3, 3)], "seconds is nan"),
    ],
)
def test_times_that_determine_no_limit_are_refused(points, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        method.fit_decay(points)


def test_the_command_fits_points_and_names_its_equations() -> None:
    points = [f"{p},{t},{Scaling(0, 20, 8, 30, 60).time(p, t)}" for p, t in GRID]
    done = CliRunner().invoke(weft_command, ["model", "ratio", *(a for p in points for a in ("--point", p))])
    assert done.exit_code == 0, done.exception
    assert "Eq. 5" in done.output
    assert "cores" in done.output


def test_records_of_other_kinds_and_empty_ones_are_refused(tmp_path) -> None:
    for content, message in [
        ("[]", "neither"),
        ('{"rows": []}', "the list of runs is empty"),
        ('{"rows": [{"processes": 1}]}', "neither"),
        ("{", "not a record"),
        ('{"rows": [{"processes": 0, "threads": 1, "t_total": 1, "t_mpi": 0}]}', "processes is 0"),
    ]:
        path = tmp_path / "ratio.json"
        path.write_text(content)
        with pytest.raises(ModelError, match=message):
            ratio_runs(path)
    path.write_text(json.dumps({"rows": [{"processes": 1, "threads": 2, "t_total": 3, "t_mpi": 1}]}))
    assert ratio_runs(path) == [Run(1, 2, 3.0, 1.0)]


@pytest.mark.parametrize(
    ("name", "text", "format"),
    [
        ("a.csv", "Name,Start (ns),Duration (ns)\nx,1,2\n", "tables"),
        ("a.json", '{"schemaVersion": 1, "traceEvents": []}', "kineto"),
    ],
)
def test_a_trace_of_any_format_is_not_a_record(name: str, text: str, format: str, tmp_path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ModelError, match=rf"not a record, but a trace \({format}"):
        ratio_runs(tmp_path / name)
