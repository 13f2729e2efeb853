"""Projections of weft's workloads: the papers' scaling tables, the machine descriptions, and what must not come out."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import statistics
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.cli.main import weft_command
from weft.model import calibration, comparison, comparison_tables, machine, project, published, sensitivity
from weft.model.fabric import fabric
from weft.model.project.boxes import crystal_points, halo, near_cube
from weft.model.project.grids import all_to_all_rate, all_to_all_seconds, turbulence_memory_gib
from weft.model.result import ModelError

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TEMPLATE = (files("weft.model") / "machines" / "template.toml").read_text()
TESTED = '[errors.{}]\nvalue = 0.1\nsource = "runs"\ntested = {{ {} }}\n\n[constants]'


def test_published_rows_are_projected_within_2_7_percent_in_the_mean() -> None:
    errors = comparison.errors(comparison.published_rows())
    assert len(errors) == 76
    assert statistics.mean(errors) < 0.027
    assert sorted(errors)[-2] < 0.088  # all but GESTS Table 5, case 16
    assert max(errors) < 0.115


def test_runs_printed_in_two_tables_are_compared_once() -> None:
    rows = comparison.gests_rows("frontier")
    assert len(rows) == 6 + 18 + 12 + 8 + 6 + 6
    assert len({(row.row.partition(": ")[2], row.low) for row in rows if row.phases}) == 6 + 18 + 12 + 8 + 6


def test_the_phases_of_the_published_steps_are_right_by_themselves() -> None:
    found = comparison.phase_errors(comparison.gests_rows("frontier"))
    means = {name: statistics.mean(map(abs, errors)) for name, errors in found.items()}
    assert means["row MPI"] < 0.05
    assert means["column MPI"] < 0.05
    assert means["FFT"] < 0.07
    assert means["pack and unpack"] < 0.2
    assert means["other"] < 0.2


def test_at_least_90_percent_of_held_out_rows_are_in_their_ranges() -> None:
    for by in ("row", "size"):
        held = comparison.held_out(by)  # type: ignore[arg-type]
        assert len(held) == 88
        assert comparison.coverage(held) >= 0.9


def test_a_held_out_row_does_not_calibrate_its_own_projection() -> None:
    rows = {h.row.row: h.row for h in comparison.held_out("row")}
    for row in comparison.published_rows():
        if row.calibrated and row.machine in ("summit", "spock", "crusher"):
            assert rows[row.row].projected != row.projected


def test_8192_nodes_of_frontier_are_limited_by_the_global_links() -> None:
    frontier = machine.load("frontier")
    # 73 x 4 links of 25 GB/s, half of them detours, for the ranks of a 74th of the nodes, 73/74 of whose data leaves.
    assert all_to_all_rate(frontier, 65536) == pytest.approx(73 * 4 * 25e9 / 2 * 74 / 73 / (65536 / 74))
    own = frontier.links.network.all_to_all_bytes_per_second
    assert own is not None
    assert all_to_all_rate(frontier, 32768) == own.value
    group = frontier.links.group
    assert group is not None
    assert group.all_to_all_bytes_per_second is not None
    assert all_to_all_rate(frontier, 64) == group.all_to_all_bytes_per_second.value


def test_a_tapered_tree_and_a_torus_limit_large_jobs_and_no_small_ones() -> None:
    plain = TEMPLATE.replace("sizes = [16, 1, 1]", "sizes = [2, 8, {taper}]").replace("node_bytes_per_second", "# ")
    full, half = (machine.parse(plain.replace("{taper}", taper), taper) for taper in "12")
    assert all_to_all_rate(half, 8) == all_to_all_rate(full, 8)
    # A leaf of two nodes with 4 ranks each has one link of 4 x 25 GB/s; 7 of 8 bytes leave it.
    assert fabric(half, 64).random_rate == pytest.approx(100e9 / (8 * 7 / 8))
    assert fabric(full, 64).random_rate == pytest.approx(200e9 / (8 * 7 / 8))
    torus = machine.parse(plain.replace('kind = "fat-tree"', 'kind = "torus"').replace("{taper}", "2"), "torus")
    # Eight hops' worth of ring in y, so two on average: 2 x 32 directed links of 100 GB/s for 128 ranks.
    assert fabric(torus, 128).random_rate == pytest.approx(2 * 32 * 100e9 / (128 * 2))


def test_more_nodes_per_group_of_a_job_never_raise_its_rate() -> None:
    frontier = machine.load("frontier")
    rates = [fabric(frontier, 8 * nodes).random_rate for nodes in (128, 512, 1024, 4096, 8192, 9408)]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize(("ranks", "neighbors"), [(2, 1), (3, 2), (4, 2), (8, 3), (12, 4), (27, 6)])
def test_a_periodic_neighbour_on_both_sides_gets_one_message(ranks: int, neighbors: int) -> None:
    found = halo(ranks, (4, 4, 4), 7, 1, corners=False, periodic=True)
    assert found.network_messages == neighbors
    faces = 2 * sum(side > 1 for side in near_cube(ranks))
    assert found.network_points == faces * 32**2  # of all faces


def test_the_messages_of_an_all_to_all_share_the_latency_of_the_network() -> None:
    frontier = machine.load("frontier")
    node, network = (frontier.link(level).latency_seconds.value for level in ("node", "network"))
    far = machine.with_number(frontier, "links.network.latency_seconds", 5e-3)

    def seconds(described: machine.Machine, volume: float) -> float:
        return all_to_all_seconds(described, 512, 512, 1, volume, 1)

    for volume in (512.0, 512e6):
        assert seconds(far, volume) - seconds(frontier, volume) == pytest.approx(5e-3 - network, rel=1e-6)
    assert seconds(frontier, 512.0) == pytest.approx(511 * min(node, network) + network)  # what the software takes


def test_a_node_card_limits_all_to_alls() -> None:
    summit = machine.load("summit")
    efficiency = summit.constant("network_efficiency")
    assert all_to_all_rate(summit, 60) == pytest.approx(25e9 / 6 * efficiency)


def test_one_rank_per_column_packs_and_copies_to_itself() -> None:
    cpus = machine.load("frontier-cpu")
    alone = project.turbulence(cpus, 64, grid=2048, rows=64)
    several = project.turbulence(cpus, 64, grid=2048, rows=8)
    assert alone.phases["pack and unpack"] == several.phases["pack and unpack"]
    assert alone.phases["column MPI"] > 0
    slabs = project.turbulence(machine.load("frontier"), 512, grid=8192)
    assert slabs.phases["row MPI"] == 0


def test_the_rates_of_frontier_are_those_of_the_lightweight_programs() -> None:
    device = machine.load("frontier").device.transforms
    assert device is not None
    assert device.points == tuple(published.GESTS_TABLE_1)
    for name, rates in calibration.transform_rates().items():
        assert getattr(device, name) == pytest.approx(rates, rel=1e-5)
    for name, host in (("frontier", False), ("frontier-cpu", True)):
        rate = calibration.all_to_all_rate(published.GESTS_ALL_TO_ALLS, host=host)
        described = machine.load(name)
        link = described.links.network.all_to_all_bytes_per_second
        assert link is not None
        assert link.value == pytest.approx(rate * 8 / described.ranks_per_node, rel=1e-5)


@given(st.integers(2, 10**6))
def test_rates_of_transforms_stay_between_the_measured_ones(points: int) -> None:
    transforms = machine.load("frontier").device.transforms
    assert transforms is not None
    for rate, measured in zip(
        transforms.rates(points),
        (transforms.contiguous_bytes_per_second, transforms.strided_bytes_per_second),
        strict=True,
    ):
        assert min(measured) <= rate <= max(measured)


@given(st.integers(1, 10**6))
def test_a_transform_of_a_length_with_other_prime_factors_does_not_count(points: int) -> None:
    transforms = machine.Transforms(
        points=(64, 96), contiguous_bytes_per_second=(4.0, 3.0), strided_bytes_per_second=(2.0, 1.0), source="made up"
    )
    prime = machine.largest_prime(points)
    assert points % prime == 0
    assert all(prime % n for n in range(2, math.isqrt(prime) + 1))
    assert transforms.has_prime(points) == (prime in (2, 3))
    assert transforms.rates(points) == pytest.approx((4.0, 2.0) if prime <= 2 else (3.0, 1.0))


def test_a_range_widens_with_each_doubling_outside_the_published_rows() -> None:
    frontier = machine.load("frontier")

    def width(nodes: int, grid: int) -> float:
        found = project.results(frontier, lambda m: project.turbulence(m, 8 * nodes, grid=grid))[0]
        return math.log(found.high / found.value)

    inside = width(512, 8192)
    assert width(512, 4096) == pytest.approx(inside)
    assert width(128, 1024) == pytest.approx(2 * inside)
    sizes = [project.turbulence(frontier, 1024, grid=1024).size]
    assert "grid: published rows cover 2,048 to 32,768" in project.notes(frontier, "turbulence", sizes)[0]
    assert not project.notes(frontier, "turbulence", [project.turbulence(frontier, 1024, grid=2048).size])


def test_a_range_widens_for_a_precision_that_no_published_row_has() -> None:
    frontier = machine.load("frontier")
    for precision, times in (("single", 1), ("double", 2)):
        made = project.turbulence(frontier, 1024, grid=2048, precision=precision)
        found = project.results(frontier, lambda m, p=precision: project.turbulence(m, 1024, grid=2048, precision=p))[0]
        assert found.high / found.value == pytest.approx((1 + frontier.errors["turbulence"].value) ** times)
        said = project.notes(frontier, "turbulence", [made.size], [precision])
        assert said == [] if times == 1 else "published rows are in single precision" in said[0]
        assert ("widened" in found.range_is) is (times == 2)


def test_the_page_has_the_tables_of_today() -> None:
    spec = importlib.util.spec_from_file_location("published_tables", BENCHMARKS / "published_tables.py")
    assert spec is not None
    assert spec.loader is not None
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    text = written.PAGE.read_text()
    assert text == written.page(text), "run: python benchmarks/published_tables.py"


def test_the_page_has_the_times_on_a_gpu_beside_projections_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    written = importlib.import_module("gpu_projections")
    text = written.PAGE.read_text()
    assert text == written.page(text), "run: python benchmarks/gpu_projections.py"
    assert {row.workload for row in written.rows()} == {"poisson", "maxwell", "turbulence"}


def test_readings_of_the_all_to_alls_project_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    readings = importlib.import_module("all_to_all_readings")
    used, *others = readings.READINGS.values()
    rows = readings.projected(used(readings.measured()))
    made = comparison.predicted(comparison.gests_rows("frontier"))
    assert [r.projected for r in rows] == pytest.approx([r.projected for r in made], rel=1e-5)
    assert all(0 < readings.held_out(reading) < 0.5 for reading in others)
    laws = json.loads((BENCHMARKS / "results" / "all_to_all_readings.json").read_text())
    assert laws[next(iter(laws))]["case_16"] == pytest.approx(
        next(r.error for r in made if r.row == readings.OUTLIER), abs=1e-4
    )


def test_assumed_numbers_are_halved_and_doubled() -> None:
    found = [c for c in sensitivity.changes("spock") if c.key == "device.kernel_seconds"]
    assert [c.to / c.value for c in found] == [0.5, 2.0]
    assert all(c.published is not None and 0 < c.published < 0.01 and c.default > c.published for c in found)
    done = CliRunner().invoke(weft_command, ["model", "machines", "--sensitivity", "titan"], catch_exceptions=False)
    assert "ASSUMED NUMBER" in done.output


def test_start_values_and_an_assumed_zero_are_changed_too() -> None:
    found = {(c.key, c.to): c for c in sensitivity.changes("frontier-cpu")}
    assert found["constants.brick_overhead", 1.6].published
    assert found["poisson.stream_efficiency (start value)", 0.8].default > 0
    assert not any(key.startswith("turbulence.") for key, _ in found)  # all of its constants are calibrated


def test_every_number_of_a_machine_can_be_named_and_changed() -> None:
    frontier = machine.load("frontier")
    numbers = machine.numbers_of(frontier)
    assert {"links.group.latency_seconds", "topology.sizes.2", "device.transforms.strided_bytes_per_second.4"} <= set(
        numbers
    )
    for key, (value, source) in numbers.items():
        assert source
        factor = 0.5 if key.endswith("share") else 2.0
        changed = machine.with_number(frontier, key, factor * value)
        assert machine.numbers_of(changed)[key][0] == pytest.approx(factor * value)


def test_a_machine_is_listed_with_its_numbers_and_half_bandwidth_sizes() -> None:
    done = CliRunner().invoke(weft_command, ["model", "machines", "summit"], catch_exceptions=False)
    assert "HALF-BANDWIDTH SIZE" in done.output
    assert "162,500 B" in done.output  # 6.5 us x 25 GB/s


@pytest.mark.parametrize("workload", ["poisson", "maxwell", "flow"])
def test_elements_without_three_similar_factors_count_in_full(workload: str) -> None:
    """780 = 13 x 10 x 6 has no nearly cubic box; the box of its halo has 810 elements."""
    summit = machine.load("summit")
    made = {count: getattr(project, workload)(summit, 1, order=7, elements_per_rank=count) for count in (779, 780, 781)}
    assert [made[count].size["points per rank"] / 512 for count in made] == list(made)
    assert made[779].seconds < made[780].seconds < made[781].seconds < 1.002 * made[779].seconds


def test_a_step_of_the_flow_costs_its_iterations_and_a_part_without_them() -> None:
    """Iterations are means over steps: fractions count, and with none the rest of the step remains."""
    summit = machine.load("summit")

    def seconds(pressure: float, velocity: float) -> float:
        return project.flow(summit, 6, pressure_iterations=pressure, velocity_iterations=velocity).seconds

    none, one = seconds(0, 0), seconds(1, 0)
    assert 0 < none < one
    assert seconds(0.25, 0) == pytest.approx(none + (one - none) / 4)
    assert seconds(0, 1.5) > seconds(0, 1)
    for wrong in (-1.0, math.nan, math.inf, 1e9):
        with pytest.raises(ModelError, match="pressure iterations"):
            seconds(wrong, 1)


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


def test_the_stated_errors_and_sizes_follow_from_the_published_rows() -> None:
    rows = comparison.published_rows()
    for name in comparison.MACHINES:
        ((workload, accuracy),) = machine.load(name).errors.items()
        width = comparison.half_width([r for r in rows if r.workload == workload])
        assert accuracy.value == pytest.approx(math.expm1(width), abs=1e-4)
        assert accuracy.tested == project.tested(r.size for r in rows if r.machine == name)


def test_a_printed_range_is_met_by_every_value_in_it() -> None:
    def row(projected: float, measure: str) -> comparison.Row:
        return comparison.Row("", "", "", "", "", 0.1, 0.2, projected, "", False, measure)  # type: ignore[arg-type]

    assert row(0.15, "value").error == 0
    assert row(0.3, "value").error == pytest.approx(0.5)
    assert row(0.3, "gain").error == pytest.approx(1.3 / 1.2 - 1)
    assert row(0.05, "share").error == pytest.approx(-0.05)


def test_eq_9_is_the_printed_memory() -> None:
    assert turbulence_memory_gib(2048, 8) == 42
    assert turbulence_memory_gib(32768, 32768) == 42


@given(st.integers(1, 5000))
def test_a_grid_of_ranks_has_as_many_ranks(count: int) -> None:
    a, b, c = near_cube(count)
    assert a * b * c == count
    assert a >= b >= c


@given(st.integers(1, 400), st.integers(1, 8), st.booleans())
@settings(deadline=None)
def test_no_rank_sends_more_than_its_26_neighbours_or_6_faces_take(ranks: int, per_node: int, corners: bool) -> None:
    sent = halo(ranks, (3, 2, 4), 2, per_node, corners=corners, periodic=not corners)
    assert sent.node_messages + sent.network_messages <= (26 if corners else 6)
    if ranks <= per_node:
        assert sent.network_messages == 0
    if ranks == 1:
        assert sent.node_points == sent.network_points == 0


def test_a_box_of_2_by_1_by_1_ranks_shares_one_face() -> None:
    sent = halo(2, (3, 2, 4), 2, 1, corners=True, periodic=False)
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


# --- machine descriptions ------------------------------------------------------------------------------------------


def test_the_range_of_a_constant_holds_all_machines_that_are_calibrated() -> None:
    for name in comparison.MACHINES:
        described = machine.load(name)
        workload = comparison.rows_of(name)[0].workload
        bare = described.model_copy(update={"constants": {}})
        for key, share in described.constants.items():
            constant = key.rpartition(".")[2]
            low, high = bare.constant_range(constant, workload)
            assert low <= share.value <= high, (name, constant)
            low, high = machine.CONSTANTS[constant][1:]
            assert low <= machine.CONSTANTS[constant][0] <= high


def test_a_constant_that_one_workload_was_calibrated_on_leaves_the_others_their_range() -> None:
    jobs = {"summit": lambda m: project.maxwell(m, 1), "titan": lambda m: project.poisson(m, 1, elements_per_rank=1000)}
    for name, job in jobs.items():
        described = machine.load(name)
        found = project.results(described, job)[0]
        assert found.low < found.value < found.high
        assert "stream_efficiency" in project.notes(described, job(described).workload)[0]


def test_the_processors_of_frontier_share_its_global_links() -> None:
    gpus, processors = machine.load("frontier"), machine.load("frontier-cpu")
    own = processors.links.network.all_to_all_bytes_per_second
    assert own is not None
    assert all_to_all_rate(processors, 64 * 64) == own.value
    assert 64 * all_to_all_rate(processors, 64 * 8192) == pytest.approx(8 * all_to_all_rate(gpus, 8 * 8192))


def test_links_from_the_same_paper_count_as_calibrated() -> None:
    keys = comparison_tables.measured(machine.load("frontier"), "GESTS")
    own = {"links.network.all_to_all_bytes_per_second", "topology.link_bytes_per_second", "topology.packed_nodes"}
    assert own <= set(keys)


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
        ("value = 0.9,", "value = 90,", "write 90 % as 0.9"),
        ("value = 16,", "value = 0.5,", "'nodes' is 0.5"),
        ("[constants]", TESTED.format("poisson", "grid = [1, 2]"), "'grid', which is no size of poisson"),
        ("[constants]", TESTED.format("turbulence", "order = [1, 2]"), "'order', which is no size of turbulence"),
        ("[constants]", TESTED.format("poisson", "ranks = [2, 1]"), "largest ranks first"),
        ("[constants]", TESTED.format("heat", "ranks = [1, 2]"), "errors.heat"),
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
        (["poisson"], "give --machine, --run or both"),
        (["turbulence", "--machine", "frontier"], "needs --grid"),
        (["poisson", "--machine", "titan", "--pressure-iterations", "3"], "--pressure-iterations does not apply"),
        (["turbulence", "--machine", "frontier", "--grid", "64", "--order", "3"], "does not apply to turbulence"),
        (["turbulence", "--machine", "frontier", "--grid", "32768", "--ranks", "8"], "GiB"),
        (["turbulence", "--machine", "frontier", "--grid", "64", "--ranks", "128"], "at most 64"),
        (["turbulence", "--machine", "frontier", "--grid", "512", "--ranks", "64", "--rows", "7"], "must divide"),
        (["poisson", "--machine", "titan", "--ranks", "99999"], "which has 18688 nodes"),
        (["poisson", "--machine", "titan", "--elements", "1" + "0" * 20], "use at most 172,334 elements per rank"),
        (["maxwell", "--machine", "titan", "--elements", "1" + "0" * 20], "GiB"),
        (["maxwell", "--machine", "titan", "--elements", "1" + "0" * 400], "a number of 401 digits"),
        (["turbulence", "--machine", "titan", "--grid", "1" + "0" * 400], "a number of 401 digits"),
        (["flow", "--machine", "titan", "--elements", "1" + "0" * 20], "GiB"),
        (["turbulence", "--machine", "titan", "--grid", "1" + "0" * 20], "GiB"),
        (["poisson", "--machine", "titan", "--ranks", "1" + "0" * 20], "which has 18688 nodes"),
        (["maxwell", "--machine", "alvis", "--path", "staged", "--ranks", "1-"], "integers"),
    ],
)
def test_a_projection_that_makes_no_sense_says_why(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(weft_command, ["model", "project", *arguments])
    assert done.exit_code != 0
    assert said in (done.output + str(done.exception))


def test_more_ranks_than_can_be_looked_at_are_refused() -> None:
    large = machine.with_number(machine.load("summit"), "nodes", 1e7)
    with pytest.raises(ModelError, match="at most 10,000,000"):
        project.poisson(large, 10_000_002)
    assert project.turbulence(large, 12_000_000, grid=2**17, rows=96).seconds > 0


def test_elements_that_only_an_absurd_memory_holds_are_projected_at_once() -> None:
    large = machine.with_number(machine.load("summit"), "device.memory_bytes", 1e300)
    assert project.poisson(large, 6, elements_per_rank=10**20 + 39).seconds > 1e9


def test_a_huge_error_gives_a_range_that_says_nothing() -> None:
    content = machine.load("summit").model_dump()
    content["errors"]["poisson"]["value"] = 1e300
    (first, *_) = project.results(machine.Machine.model_validate(content), lambda m: project.poisson(m, 6))
    assert first.low < 1e-8 * first.value < 1e8 * first.value < first.high


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
    assert "ROWS PREDICTED" in done.output
    assert "column MPI" in done.output


def test_counts_of_ranks_that_fit_are_printed_beside_one_that_is_refused() -> None:
    command = ["model", "project", "turbulence", "--machine", "frontier", "--grid", "8192", "--ranks", "8,512"]
    done = CliRunner().invoke(weft_command, command)
    assert "512 ranks: time per step" in done.output
    assert done.exit_code != 0


def test_the_crystal_router_is_projected_from_the_messages_it_sends() -> None:
    steps = crystal_points(64, (2, 2, 2), 3, 1, corners=True, periodic=True)
    assert len(steps) == 6
    sent = sum(outside for _, outside in steps)
    spec = importlib.util.spec_from_file_location("schedule_traffic", BENCHMARKS / "schedule_traffic.py")
    assert spec is not None
    assert spec.loader is not None
    counted = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(counted)
    bytes_ = [size for _, size in counted.crystal(counted.traffic((4, 4, 4), 7))]
    assert math.isclose(8 * sent, statistics.mean(bytes_))
    machine_ = machine.load("titan")
    few = project.maxwell(machine_, 4096, order=1, elements_per_rank=1, schedule="crystal")
    assert few.phases["exchange"] != project.maxwell(machine_, 4096, order=1, elements_per_rank=1).phases["exchange"]
