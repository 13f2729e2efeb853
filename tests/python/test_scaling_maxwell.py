"""`weft bench scaling maxwell`: its runs, its fits, and its files."""

from __future__ import annotations

import json

import pytest
from mpi_run import run_weft

from weft.bench.scaling_elements import box_of, plan
from weft.bench.scaling_maxwell import STUDY, fits


def test_boxes_of_powers_of_two_are_as_cubic_as_can_be() -> None:
    assert [box_of(2**k) for k in (0, 1, 2, 3, 7, 12)] == [
        [1, 1, 1], [2, 1, 1], [2, 2, 1], [2, 2, 2], [8, 4, 4], [16, 16, 16],
    ]  # fmt: skip


def test_every_size_runs_on_all_ranks_that_have_an_element_each() -> None:
    planned = [(p.row["order"], p.ranks, p.keys["mesh.counts"]) for p in plan(STUDY.keys, [1, 4], [7], (2, 8), 5)]
    assert planned == [
        (7, 1, [2, 1, 1]), (7, 1, [2, 2, 1]), (7, 1, [2, 2, 2]), (7, 4, [2, 2, 1]), (7, 4, [2, 2, 2]),
    ]  # fmt: skip


def row(ranks: int, points: int, seconds: float) -> dict:
    gflops = (180 * 8 + 420) * points / seconds / 1e9
    return {"order": 7, "ranks": ranks, "points": points, "seconds_per_step": seconds, "gflops": gflops}


def test_fits_find_n_half_the_strong_scale_limit_and_weak_efficiency() -> None:
    # A rank needs 1e-4 s and 1e-7 s per point: n_1/2 = 1000 per rank.
    rows = [row(p, p * n, 1e-4 + 1e-7 * n) for p in (1, 2) for n in (500, 2000, 8000, 32000)]
    one, two = fits(rows)
    assert one["half_rate_points"] == pytest.approx(1000)
    assert two["half_rate_points"] == pytest.approx(2000)
    assert two["half_rate_points_per_rank"] == pytest.approx(1000)
    assert one["saturated_gflops"] == pytest.approx(1860 / 1e-7 / 1e9)
    # 80 % of the best measured rate (1 / (1 + 1000 / 32000)): n >= 3450
    assert one["strong_scale_limit_points_per_rank"] == two["strong_scale_limit_points_per_rank"] == 8000
    assert two["weak_efficiency"] == pytest.approx(1.0)


def test_a_limit_that_is_not_reached_is_none() -> None:
    rows = [row(1, n, 1e-7 * n) for n in (100, 1000)] + [row(2, n, 1e-7 * n) for n in (100, 1000)]
    assert fits(rows)[1]["strong_scale_limit_points_per_rank"] is None


def test_a_sweep_leaves_rows_fits_and_a_plot(tmp_path) -> None:
    words = ["--ranks", "1,2", "--orders", 2, "--elements", "1-2", "--steps", 2, "--output", tmp_path]
    words += ["--set", "exchange=pairwise:staged"]
    done = run_weft(1, "bench", "scaling", "maxwell", *words)  # three runs of their own
    assert done.returncode == 0, done.stderr
    assert "STRONG-SCALING LIMIT" in done.stdout
    found = json.loads((tmp_path / "scaling.json").read_text())
    assert [(r["ranks"], r["elements"]) for r in found["rows"]] == [(1, 1), (1, 2), (2, 2)]
    assert {f["ranks"] for f in found["fits"]} == {1}, "a fit needs two sizes"
    assert all(r["points"] == 27 * r["elements"] for r in found["rows"])
    assert (tmp_path / "scaling-maxwell.png").stat().st_size > 5000


def test_elements_that_are_no_powers_of_two_are_refused() -> None:
    done = run_weft(1, "bench", "scaling", "maxwell", "--elements", "1-100")
    assert done.returncode == 2
    assert "two powers of 2" in done.stderr
