"""The search over machines, nodes and process grids: it is brute force, and no published choice beats it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from weft.cli.main import weft_command
from weft.model import machine, project, published, search
from weft.model.result import ModelError


def test_the_search_is_brute_force_over_a_small_space() -> None:
    frontier = machine.load("frontier")
    found = search.search("turbulence", [frontier], grid=1536, most_nodes=6)
    every = {}
    too_large = 0
    for rows in range(1, 49):
        for columns in range(1, 48 // rows + 1):
            for batch in search.BATCHES:
                if 1536 % rows == 0 and 1536 % columns == 0:
                    try:
                        made = project.turbulence(frontier, rows * columns, grid=1536, rows=rows, batch=batch)
                        every[rows, columns, batch] = made.seconds
                    except project.OutOfMemoryError:
                        too_large += 1
    assert too_large > 0
    assert found.too_large == too_large
    got = {(int(c.options["rows"]), c.ranks // int(c.options["rows"]), int(c.options["batch"])): c.seconds
           for c in found.fitting}  # fmt: skip
    assert got == every
    assert found.fastest(1)[0].seconds == min(every.values())
    cheapest = min(c.node_hours for c in found.fitting)
    assert found.front()[-1].node_hours == cheapest


def test_no_published_process_grid_is_projected_faster_than_the_best_found() -> None:
    frontier = machine.load("frontier")
    rows = [*published.GESTS_TABLE_3, *published.GESTS_TABLE_5, *published.GESTS_TABLE_6, *published.GESTS_TABLE_7]
    for row in rows[::3]:
        best = search.search("turbulence", [frontier], grid=row.grid, most_nodes=row.nodes).fastest(1)[0]
        theirs = project.turbulence(frontier, 8 * row.nodes, grid=row.grid, rows=row.rows, batch=row.batch)
        assert best.seconds <= theirs.seconds


def test_no_configuration_beats_one_of_the_front() -> None:
    machines = [machine.load("frontier"), machine.load("summit")]
    found = search.search("poisson", machines, elements=200_000, order=7, most_nodes=48)
    for c in found.front():
        assert not any(o.seconds < c.seconds and o.node_hours < c.node_hours for o in found.fitting)
    assert {c.options["path"] for c in found.fitting} == {"direct", "staged"}
    assert {c.options["schedule"] for c in found.fitting} == {"pairwise", "crystal"}


def test_the_limiting_resource_is_the_one_whose_doubling_saves_most() -> None:
    found = search.search("poisson", [machine.load("frontier")], elements=2_000_000, order=7)
    few, many = min(found.fitting, key=lambda c: c.ranks), max(found.fitting, key=lambda c: c.ranks)
    assert [name for name, _ in search.limits([few, many])] == ["memory bandwidth", "latency, network"]


def test_a_problem_that_fits_nowhere_is_refused() -> None:
    with pytest.raises(ModelError, match="none of the 4 configurations fits"):
        search.search("turbulence", [machine.load("summit")], grid=8192, most_ranks=1)


def test_an_absurd_grid_is_refused_without_looking_for_its_divisors() -> None:
    with pytest.raises(ModelError, match="none of the 36 configurations fits"):
        search.search("turbulence", [machine.load("frontier")], grid=99999999999999999)
    with pytest.raises(ModelError, match="grid is a number of 401 digits"):
        search.search("turbulence", [machine.load("frontier")], grid=10**400)


def test_more_ranks_than_can_be_looked_at_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_RANKS", 100)
    found = search.search("poisson", [machine.load("summit")], elements=10_000, order=3)
    assert 50 < max(c.ranks for c in found.fitting) <= 100


def test_all_process_grids_with_equal_bricks_are_tried() -> None:
    for grid, most in ((96, 40), (97, 200), (36, 10_000)):
        sides = [n for n in range(1, min(grid, most) + 1) if grid % n == 0]
        assert list(search.process_grids(grid, most)) == [(a, b) for a in sides for b in sides if a * b <= most]
    assert len(list(search.process_grids(10**9, 10**10))) > 5000  # at once


def test_the_command_searches_as_typed(tmp_path: Path) -> None:
    words = ["model", "search", "turbulence", "--grid", "32768", "--machines", "frontier,summit"]
    words += ["--at-most", "40000", "nodes"]
    out = tmp_path / "all.json"
    done = CliRunner().invoke(weft_command, [*words, "--plot", str(tmp_path / "s.png"), "--json", str(out)])
    assert done.exit_code == 0, done.output
    assert "2 x 32768" in done.output
    assert "976 do not" in done.output
    assert (tmp_path / "s.png").stat().st_size > 10_000
    assert len(json.loads(out.read_text())) == 108


def test_an_option_of_another_workload_is_refused() -> None:
    done = CliRunner().invoke(weft_command, ["model", "search", "poisson", "--elements", "8", "--grid", "8"])
    assert done.exit_code == 2
    assert "--grid does not apply to poisson" in done.output
