"""Projections of weft's workloads: the papers' scaling tables, the machine descriptions, and what must not come out."""

from __future__ import annotations

import contextlib
import statistics
import tomllib
from importlib.resources import files
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.cli.main import weft_command
from weft.model import calibration, machine, project, published
from weft.model.result import ModelError

TEMPLATE = (files("weft.model") / "machines" / "template.toml").read_text()


def test_hipbone_table_2_is_projected_within_5_percent() -> None:
    for name in published.HIPBONE_TABLE_2:
        assert max(calibration.errors(calibration.hipbone_rows(name))) < 0.05


def test_gests_tables_2_and_3_are_projected_within_15_percent_and_7_in_the_median() -> None:
    rows = calibration.gests_rows(2) + calibration.gests_rows(3)
    others = calibration.errors(rows)
    assert len(others) == 23  # one row of 24 gives all three constants
    assert max(others) < 0.15
    assert statistics.median(others) < 0.07


def test_the_sums_of_gests_columns_are_its_totals() -> None:
    for table in range(2, 8):
        for row in getattr(published, f"GESTS_TABLE_{table}"):
            if (table, row.case) in ((4, "5"), (6, "5")):
                continue  # printed so: columns of 110.9 s for a total of 109.7 s, and of 6.65 s for 6.57 s
            parts = row.fft + row.pack + row.row_mpi + row.column_mpi + row.other
            assert parts == pytest.approx(row.total, abs=0.031), row


def test_the_described_constants_follow_from_the_stated_rows() -> None:
    for name, calibrate in calibration.calibrations().items():
        described = machine.load(name).constants
        assert len(described) <= machine.MOST_CONSTANTS
        found = calibrate()
        assert set(found) == set(described)
        for constant, value in found.items():
            assert described[constant].value == pytest.approx(value, rel=1e-4), (name, constant)


def test_the_stated_errors_cover_every_published_row() -> None:
    stated = {"hipBone": "poisson", "GESTS": "turbulence"}
    for title, rows in {
        **{n: calibration.hipbone_rows(n) for n in published.HIPBONE_TABLE_2},
        "frontier": [r for t in (2, 3, 5, 6, 7) for r in calibration.gests_rows(t)],
        "frontier-cpu": calibration.gests_rows(4),
    }.items():
        error = machine.load(title).errors[stated[rows[0].table.split()[0]]].value
        assert max(calibration.errors(rows)) <= error < 1.1 * max(calibration.errors(rows)) + 0.001


def test_calibrated_rows_come_out_as_printed() -> None:
    for row in calibration.published_rows():
        if row.calibrated and "n_1/2" not in row.row and row.table != "GESTS Table 4":
            # A GESTS row has its phases as printed; its total is their sum, rounded.
            assert row.projected == pytest.approx(row.published, rel=1e-3), row


def test_eq_9_is_the_printed_memory() -> None:
    assert project.turbulence_memory_gib(2048, 8) == 42
    assert project.turbulence_memory_gib(32768, 32768) == 42


@given(st.integers(1, 5000))
def test_a_grid_of_ranks_has_as_many_ranks(count: int) -> None:
    a, b, c = project.near_cube(count)
    assert a * b * c == count
    assert a >= b >= c


@given(st.integers(1, 400), st.integers(1, 8), st.booleans())
@settings(deadline=None)
def test_no_rank_sends_more_than_its_26_neighbours_or_6_faces_take(ranks: int, per_node: int, corners: bool) -> None:
    sent = project.halo(ranks, (3, 2, 4), 2, per_node, corners=corners, periodic=not corners)
    assert sent.node_messages + sent.network_messages <= (26 if corners else 6)
    if ranks <= per_node:
        assert sent.network_messages == 0
    if ranks == 1:
        assert sent.node_points == sent.network_points == 0


def test_a_box_of_2_by_1_by_1_ranks_shares_one_face() -> None:
    sent = project.halo(2, (3, 2, 4), 2, 1, corners=True, periodic=False)
    assert (sent.network_points, sent.network_messages) == ((2 * 2 + 1) * (4 * 2 + 1), 1)


def test_a_machine_with_faster_links_is_never_slower() -> None:
    slow = machine.parse(TEMPLATE, "template")
    text = TEMPLATE.replace("bytes_per_second = { value = 25e9", "bytes_per_second = { value = 50e9")
    fast = machine.parse(text, "faster")
    for ranks in (1, 4, 8, 64):
        for function in (project.poisson, project.maxwell, project.flow):
            assert function(fast, ranks).seconds <= function(slow, ranks).seconds
        assert project.turbulence(fast, ranks, grid=512).seconds <= project.turbulence(slow, ranks, grid=512).seconds


def test_staging_through_the_host_costs() -> None:
    titan = machine.load("titan")
    for function in (project.poisson, project.maxwell, project.flow):
        assert function(titan, 64, path="staged").seconds > function(titan, 64).seconds


def test_an_uncalibrated_machine_says_so_and_gives_a_range() -> None:
    alvis = machine.load("alvis")
    found = project.results(alvis, lambda m: project.poisson(m, 128))
    assert found[0].low < found[0].value < found[0].high
    assert "not calibrated" in project.notes(alvis, "poisson")[0]


def test_one_run_gives_the_machine_its_time_back() -> None:
    def record(elements: int, seconds: float, ranks: int = 1) -> dict[str, Any]:
        return {
            "case": {"workload": "poisson"},
            "figures": {
                "ranks": ranks, "order": 7, "elements": elements, "bandwidth_bytes_per_second": 1e10,
                "peak_flops_per_second": 1e11,
            },
            "machine": {"ranks_per_node": ranks, "device": {"memory_bytes": 1e10, "name": "a CPU"}},
            "timings": {"seconds_per_iteration": seconds},
        }  # fmt: skip

    local = calibration.machine_of_runs([record(216, 0.01)])
    assert project.poisson(local, 1, order=7, elements_per_rank=216).seconds == pytest.approx(0.01)
    local = calibration.machine_of_runs([record(216, 0.01), record(1000, 0.04)])
    for elements, seconds in ((216, 0.01), (1000, 0.04)):
        assert project.poisson(local, 1, order=7, elements_per_rank=elements).seconds == pytest.approx(seconds)
    assert local.device.kernel_seconds.value > 0
    local = calibration.machine_of_runs([record(216, 0.01), record(432, 0.011, ranks=2)])
    assert project.poisson(local, 2, order=7, elements_per_rank=216).seconds == pytest.approx(0.011, rel=1e-3)
    with pytest.raises(ModelError, match="no run on 1 rank"):
        calibration.machine_of_runs([record(432, 0.011, ranks=2)])
    with pytest.raises(ModelError, match="not a record"):
        calibration.machine_of_runs([{"figures": {}}])


# --- machine descriptions ------------------------------------------------------------------------------------------


def test_every_described_machine_loads_and_the_template_too() -> None:
    assert set(machine.names()) >= {"summit", "spock", "crusher", "frontier", "titan", "alvis"}
    for name in machine.names():
        assert machine.load(name).title
    machine.parse(TEMPLATE, "template")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ranks_per_node = 4", "ranks_per_node = 0", "ranks_per_node"),
        ("ranks_per_node = 4", "ranks_pr_node = 4", "ranks_p"),
        ("ranks_per_package = 1", "ranks_per_package = 3", "must be a multiple"),
        ("value = 1.0e12", "value = -1.0e12", "stream_bytes_per_second"),
        ("value = 1.0e12", "value = inf", "stream_bytes_per_second"),
        ('source = "its data sheet"', 'source = ""', "source"),
        ("stream_efficiency = ", "stream_efficincy = ", "unknown constant"),
        ("[device]", "[device", "not valid TOML"),
        ('kind = "fat-tree"', 'kind = "hypercube"', "topology.kind"),
        ("[links.network]", "[links.nearby]", "links"),
    ],
)
def test_a_wrong_description_names_what_is_wrong(old: str, new: str, said: str) -> None:
    assert old in TEMPLATE
    with pytest.raises(ModelError, match=said):
        machine.parse(TEMPLATE.replace(old, new), "mine.toml")


def test_four_constants_are_one_too_many() -> None:
    names = list(machine.CONSTANTS)[:4]
    with pytest.raises(ValueError, match="at most 3"):
        machine.with_constants(machine.load("summit"), dict.fromkeys(names, 0.5), "test")


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda b: b.decode("latin-1")))
def test_text_that_is_no_machine_is_refused_in_words(text: str) -> None:
    with pytest.raises(ModelError):
        machine.parse(text, "noise")


@given(st.data())
@settings(max_examples=200)
def test_a_damaged_description_loads_or_is_refused_in_words(data: st.DataObject) -> None:
    lines = TEMPLATE.splitlines()
    start = data.draw(st.integers(0, len(lines) - 1))
    count = data.draw(st.integers(1, 5))
    filler = data.draw(st.sampled_from(["", "x = 1", "[links]", "value = nan", '"', "= 3", "[[device]]"]))
    text = "\n".join([*lines[:start], filler, *lines[start + count :]])
    with contextlib.suppress(ModelError):
        loaded = machine.parse(text, "damaged")
        assert tomllib.loads(text)["title"] == loaded.title


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["poisson", "--machine", "sumit"], "did you mean 'summit'"),
        (["poisson", "--machine", "absent.toml"], "absent.toml"),
        (["poisson"], "--machine or --run"),
        (["turbulence", "--machine", "frontier"], "needs --grid"),
        (["turbulence", "--machine", "frontier", "--grid", "64", "--order", "3"], "does not apply to turbulence"),
        (["turbulence", "--machine", "frontier", "--grid", "32768", "--ranks", "8"], "GiB"),
        (["turbulence", "--machine", "frontier", "--grid", "64", "--ranks", "128"], "at most 64"),
        (["turbulence", "--machine", "frontier", "--grid", "512", "--ranks", "64", "--rows", "7"], "must divide"),
        (["poisson", "--machine", "titan", "--ranks", "99999"], "which has 18688 nodes"),
        (["maxwell", "--machine", "alvis", "--path", "staged", "--ranks", "1-"], "integers"),
    ],
)
def test_a_projection_that_makes_no_sense_says_why(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(weft_command, ["model", "project", *arguments])
    assert done.exit_code != 0
    assert said in (done.output + str(done.exception))


def test_the_command_prints_times_with_ranges_and_writes_json(tmp_path: object) -> None:
    file = f"{tmp_path}/out.json"
    command = ["model", "project", "turbulence", "--machine", "frontier", "--grid", "32768", "--ranks", "32768"]
    done = CliRunner().invoke(weft_command, [*command, "--rows", "2", "--json", file], catch_exceptions=False)
    assert "time per step" in done.output
    assert "column MPI" in done.output
    with open(file) as text:
        assert "GESTS Eqs. 9 and 13" in text.read()


def test_published_tables_are_printed_with_their_errors() -> None:
    done = CliRunner().invoke(weft_command, ["model", "published"], catch_exceptions=False)
    assert "GESTS Table 7" in done.output
    assert "rows not used for calibration" in done.output
