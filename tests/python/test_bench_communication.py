"""`weft bench pingpong`, `exchange` and `alltoall`: formulas compared with the papers, and runs on several ranks."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpi_run import messages, mpi_run, run_weft

from weft import mpi
from weft.bench.alltoall import default_grids, effective_bandwidth, message_bytes, transposes
from weft.bench.link import Point, crossovers, fit, lower_bound
from weft.bench.pingpong import Scope, scopes
from weft.bench.timing import RefusedError, Samples, require
from weft.cli.communication import message_sizes
from weft.model.ledger import ledgers
from weft.run.machine import last_level_caches, spans

QUICK = ["--rounds", "2", "--seconds", "0.0002"]

# GESTS, Tables 10, 11, 12 and 14 (Q = 1): N, P, R, P2P in MiB, MPI seconds from the GPU, GB/s; numbers as printed.
TABLES = {
    "10": [(2048, 8, 8, "512", "0.131", "32.90"), (4096, 64, 64, "64", "0.494", "8.71"),
           (8192, 512, 512, "8", "0.530", "8.10"), (16384, 4096, 4096, "1", "0.590", "7.28"),
           (32768, 32768, 32768, "0.125", "0.771", "5.58")],
    "11": [(2048, 8, 2, "2048", "0.046", "92.98"), (4096, 64, 2, "2048", "0.046", "92.97"),
           (8192, 512, 2, "2048", "0.046", "93.05"), (16384, 4096, 2, "2048", "0.046", "93.13"),
           (32768, 32768, 2, "2048", "0.046", "92.88")],
    "12": [(2048, 8, 4, "1024", "0.092", "46.93"), (4096, 64, 32, "128", "0.539", "7.97"),
           (8192, 512, 256, "16", "0.580", "7.41"), (16384, 4096, 2048, "2", "0.626", "6.87"),
           (32768, 32768, 16384, "0.25", "0.705", "6.09")],
    "14": [(2048, 8, 8, "512", "0.118", "36.55"), (4096, 64, 64, "64", "0.494", "8.695"),
           (8192, 512, 512, "8", "0.582", "7.380"), (16384, 4096, 4096, "1", "0.595", "7.225"),
           (32768, 32768, 32768, "0.125", "0.651", "6.595")],
}  # fmt: skip
# Table 13: N, P, R, Q, P2P in MiB, seconds, GB/s; the row and the column communicators.
TABLE_13 = [
    (16384, 16384, 8, 1, "128", "0.0298", "36.04"), (16384, 16384, 8, 4, "512", "0.1175", "36.57"),
    (16384, 16384, 4, 1, "256", "0.0225", "47.64"), (16384, 16384, 4, 4, "1024", "0.0896", "47.94"),
    (16384, 16384, 2, 1, "512", "0.0115", "93.04"), (16384, 16384, 2, 4, "2048", "0.0462", "92.91"),
    (32768, 65536, 8, 1, "256", "0.0592", "36.27"), (32768, 65536, 8, 4, "1024", "0.2339", "36.72"),
    (32768, 65536, 4, 1, "512", "0.0450", "47.73"), (32768, 65536, 4, 4, "2048", "0.1789", "48.03"),
    (32768, 65536, 2, 1, "1024", "0.0232", "92.50"), (32768, 65536, 2, 4, "4096", "0.0924", "92.94"),
    (16384, 16384, 2048, 1, "0.500", "0.171", "6.275"), (16384, 16384, 2048, 4, "2.000", "0.652", "6.590"),
    (16384, 16384, 4096, 1, "0.250", "0.167", "6.450"), (16384, 16384, 4096, 4, "1.000", "0.660", "6.505"),
    (16384, 16384, 8192, 1, "0.125", "0.275", "3.901"), (16384, 16384, 8192, 4, "0.500", "0.684", "6.275"),
    (32768, 65536, 8192, 1, "0.250", "0.536", "4.006"), (32768, 65536, 8192, 4, "1.000", "1.959", "4.385"),
    (32768, 65536, 16384, 1, "0.125", "0.491", "4.371"), (32768, 65536, 16384, 4, "0.500", "1.848", "4.648"),
    (32768, 65536, 32768, 1, "0.0625", "0.725", "2.960"), (32768, 65536, 32768, 4, "0.250", "2.212", "3.884"),
]  # fmt: skip
ROWS = [(t, n, p, r, 1, *rest) for t, rows in TABLES.items() for n, p, r, *rest in rows]
ROWS += [("13", *row) for row in TABLE_13]


def half_unit(text: str) -> float:
    """Half of the last printed digit."""
    return 0.5 * 10.0 ** -len(text.partition(".")[2])


def verdict(row: tuple) -> str:
    """Whether Eq. 13 gives the printed bandwidth from the printed time, up to the rounding of both."""
    _, n, p, r, q, _, time, printed = row
    message, t = message_bytes(n, p, r, q), float(time)
    if abs(effective_bandwidth(message, r, t) / 1e9 - float(printed)) <= half_unit(printed):
        return "REPRODUCES"
    low = effective_bandwidth(message, r, t + half_unit(time)) / 1e9 - half_unit(printed)
    high = effective_bandwidth(message, r, t - half_unit(time)) / 1e9 + half_unit(printed)
    return "WITHIN-INPUT-ROUNDING" if low <= float(printed) <= high else "MISMATCH"


# --- formulas ------------------------------------------------------------------------------------------------------


def test_message_sizes_are_those_of_every_row_of_the_gests_tables() -> None:
    assert len(ROWS) == 44
    for _, n, p, r, q, printed, _, _ in ROWS:
        assert message_bytes(n, p, r, q) == float(printed) * 2**20


def test_the_effective_bandwidth_is_that_of_the_gests_tables_but_for_three_rows_the_ledger_names() -> None:
    verdicts = [verdict(row) for row in ROWS]
    counts = {v: verdicts.count(v) for v in set(verdicts)}
    assert sum(counts.values()) == 44
    off = {(t, n, q) for (t, n, _, _, q, *_), v in zip(ROWS, verdicts, strict=True) if v == "MISMATCH"}
    assert off == {("10", 4096, 1), ("10", 32768, 1), ("13", 16384, 1)}
    entry = next(e for e in ledgers() if e.key == "G-BW")
    assert counts == eval(entry.computed, {"__builtins__": {}})


@given(st.floats(1e-7, 1e-3), st.floats(1e6, 1e12))
def test_the_fit_finds_the_latency_and_bandwidth_that_made_the_times(alpha: float, beta: float) -> None:
    sizes = [2**k for k in range(31)]
    link = fit(sizes, [alpha + n / beta for n in sizes])
    assert link.error < 1e-6
    for n in sizes:
        assert link.seconds(n) == pytest.approx(alpha + n / beta, rel=1e-6)
    half = alpha * beta
    if 10 < half < 2**29:  # both are seen in these sizes
        assert link.half == pytest.approx(half, rel=1e-3)
        rate = link.half / link.seconds(link.half)
        assert rate == pytest.approx(link.beta / 2)


def test_the_fit_of_latency_counts_relative_errors_so_that_large_messages_do_not_drown_it() -> None:
    sizes = np.array([2.0**k for k in range(27)])
    times = 1e-6 + sizes / 1e10
    times[-1] *= 1.3  # 2 ms off, two thousand latencies
    assert fit(sizes, times).alpha == pytest.approx(1e-6, rel=0.05)


@pytest.mark.parametrize(("sizes", "times"), [([8], [1e-6]), ([8, 8], [1e-6, 1e-6]), ([1, 8], [1e-6, 0.0])])
def test_a_fit_of_too_little_is_an_error(sizes, times) -> None:
    with pytest.raises(ValueError, match="two sizes"):
        fit(sizes, times)


def curve(function, spread: float = 0.01) -> list[Point]:
    return [
        Point(2**k, (1 - spread) * function(2**k), function(2**k), (1 + spread) * function(2**k)) for k in range(27)
    ]


def test_crossovers_are_where_the_curves_meet() -> None:
    curves = {
        "low latency": curve(lambda n: 1e-6 + n / 1e9),
        "high bandwidth": curve(lambda n: 1e-5 + n / 1e10),
        "never": curve(lambda n: 1e-3 + n / 1e8),
    }
    first, [change] = crossovers(curves)
    assert (first, change.slower, change.faster) == ("low latency", "low latency", "high bandwidth")
    assert change.size == pytest.approx(
        9e-6 / 0.9e-9, rel=0.2
    )  # alpha + n / beta meet there; measured twice a doubling


def test_a_path_does_not_take_over_within_the_noise() -> None:
    wobble = {n: 1 + 0.02 * (-1) ** n.bit_length() for n in (2**k for k in range(27))}
    curves = {"a": curve(lambda n: 1e-6, 0.05), "b": curve(lambda n: 1e-6 * wobble[n], 0.05)}
    assert crossovers(curves)[1] == []


def test_the_lower_bound_is_one_latency_and_all_bytes_of_the_slowest_kind_of_link() -> None:
    links = {"within": (1e-6, 1e10), "between": (5e-6, 1e9)}
    assert lower_bound({"within": 1e6}, links) == pytest.approx(1.01e-4)
    assert lower_bound({"within": 1e6, "between": 1e6}, links) == pytest.approx(1.005e-3)
    assert lower_bound({"within": 0, "between": 0}, links) == 0.0


# --- pairs of ranks ------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 4), min_size=1, max_size=17))
def test_pairs_are_disjoint_and_where_their_scope_says(node_of: list[int]) -> None:
    for scope in scopes(node_of):
        ranks = [r for pair in scope.pairs for r in pair]
        assert len(set(ranks)) == len(ranks)
        for a, b in scope.pairs:
            assert (node_of[a] == node_of[b]) == (scope.where == "within")


def test_every_kind_of_pair_of_two_nodes_is_found() -> None:
    assert scopes([0, 0, 0, 0, 1, 1, 1, 1]) == [
        Scope("within", ((0, 2),)),
        Scope("within", ((0, 2), (1, 3), (4, 6), (5, 7))),
        Scope("between", ((0, 4),)),
        Scope("between", ((0, 4), (1, 5), (2, 6), (3, 7))),
    ]
    assert scopes([0, 0]) == [Scope("within", ((0, 1),))]
    assert scopes([0, 1]) == [Scope("between", ((0, 1),))]
    assert scopes([0]) == []


@given(st.sets(st.integers(0, 300)))
def test_spans_name_exactly_the_numbers(numbers: set[int]) -> None:
    found: set[int] = set()
    for part in filter(None, spans(numbers).split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    assert found == numbers


# --- options -------------------------------------------------------------------------------------------------------


def test_sizes_are_read_as_people_write_them() -> None:
    assert message_sizes("1-8") == [1, 2, 4, 8]
    assert message_sizes("64k,3000,1-2") == [1, 2, 3000, 65536]
    assert message_sizes("1K-4KiB,1MB") == [1024, 2048, 4096, 2**20]
    assert message_sizes("1-64M")[-1] == 2**26
    assert len(message_sizes("1-64M")) == 27


@given(st.one_of(st.text(max_size=12), st.from_regex(r"[0-9kKmMgGiB,. -]{0,12}", fullmatch=True)))
def test_any_text_for_sizes_gives_sizes_or_one_error(text: str) -> None:
    try:
        sizes = message_sizes(text)
    except click.BadParameter as error:
        assert "--sizes" in str(error) or "allowed" in str(error)  # noqa: PT017
    else:
        assert sizes == sorted(set(sizes))
        assert sizes[0] >= 1
        assert sizes[-1] <= 2**30


def test_transposes_of_a_grid_have_the_messages_of_the_paper() -> None:
    found = transposes([2048], 8, 8, [1, 2], [1, 4])
    assert [(t.communicator, t.ranks, t.variables, t.message / 2**20) for t in found] == [
        ("all", 8, 1, 512), ("all", 8, 4, 2048), ("row", 2, 1, 2048), ("column", 4, 1, 1024), ("row", 2, 4, 8192),
        ("column", 4, 4, 4096),
    ]  # fmt: skip
    [small] = transposes([32768], 2, 32768, [1], [1])  # two ranks with the messages of 32 768
    assert (small.ranks, small.message) == (2, 2**17)


def test_transposes_that_do_not_divide_are_refused() -> None:
    with pytest.raises(RefusedError, match="rows of 4 ranks do not divide 6 ranks"):
        transposes([64], 6, 12, [4], [1])
    with pytest.raises(RefusedError, match="multiple of 14"):
        transposes([64], 7, 7, [1], [1])


@given(st.integers(2, 300), st.integers(1, 2**32), st.booleans())
def test_default_grids_divide_and_keep_to_the_limit_where_they_can(processes: int, limit: int, gpu: bool) -> None:
    grids = default_grids(processes, limit, gpu)
    assert transposes(grids, processes, processes, [1], [1, 4])
    assert len(grids) == 1 or 4 * grids[-1] ** 3 / processes <= limit


def test_what_does_not_fit_is_refused_with_both_numbers_and_what_to_do() -> None:
    require("it", (100 << 20, 0), (100 << 20, 0), "shrink")
    with pytest.raises(RefusedError, match=r"101 MiB of host memory per rank, but 100 MiB are available: shrink"):
        require("it", (101 << 20, 0), (100 << 20, 0), "shrink")
    with pytest.raises(RefusedError, match="device memory"):
        require("it", (1, 11 << 20), (100 << 20, 10 << 20), "shrink")


def test_samples_are_those_of_the_slowest_rank_and_leave_out_ranks_that_took_no_part() -> None:
    samples = Samples(np.array([[1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 2.0, 9.0, 9.0, 9.0], [0.0] * 5]), 7)
    record = samples.record(0.5)
    assert record == {"seconds": 4.5, "seconds_low": 1.0, "seconds_high": 4.5, "rounds": 5, "repetitions": 7}
    assert samples.fastest() == 3.0


def read(path: Path) -> dict:
    """A record; NaN and Infinity, which are not valid JSON, fail."""

    def refuse(word: str) -> float:
        raise AssertionError(f"{path} holds {word}")

    return json.loads(path.read_text(), parse_constant=refuse)


# --- real runs -----------------------------------------------------------------------------------------------------


def check_head(record: dict, ranks: int) -> None:
    """Checks what every record says about the machine."""
    assert record["versions"]["mpi"] == mpi.library_version()
    assert record["machine"]["ranks"] == ranks
    assert [p["rank"] for p in record["placement"]] == list(range(ranks))
    for place in record["placement"]:
        assert set(place) == {"rank", "node", "host", "cores", "device"}
        assert all(place[k] not in ("", None) for k in place)


def check_times(row: dict) -> None:
    assert 0 < row["seconds_low"] <= row["seconds"] <= row["seconds_high"]
    assert row["rounds"] == 2
    assert row["repetitions"] >= 1


@pytest.mark.parametrize("ranks", [2, 3])
def test_pingpong_measures_every_size_and_path(ranks: int, tmp_path) -> None:
    done = run_weft(ranks, "bench", "pingpong", "--sizes", "1,100,64k", *QUICK, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines() if str(tmp_path) not in line) <= 80
    record = read(tmp_path / "pingpong.json")
    check_head(record, ranks)
    paths = {r["path"] for r in record["rows"]}
    assert {"mpi", "direct"} <= paths
    for path in paths:
        mine = [r for r in record["rows"] if r["path"] == path]
        assert [r["bytes"] for r in mine] == [1, 100, 65536]
        for row in mine:
            check_times(row)
            assert (row["where"], row["pairs"], row["memory"]) == ("within", 1, "host")
            assert row["bandwidth_bytes_per_second"] == pytest.approx(row["bytes"] / row["seconds"])
            assert row["fastest_pair_seconds"] <= row["seconds"]
    assert {f["path"] for f in record["fits"]} == paths
    for f in record["fits"]:
        if f["beta_bytes_per_second"] is not None:
            assert f["half_bytes"] == pytest.approx(f["alpha_seconds"] * f["beta_bytes_per_second"])
    assert record["crossovers"][0]["first"] in paths
    assert (tmp_path / "pingpong-within-one.png").stat().st_size > 10000
    for text in ("GB/s", "n1/2 = alpha beta", "rank"):
        assert text in done.stdout


def test_pingpong_finds_pairs_within_and_between_nodes_and_plays_them_at_once(tmp_path) -> None:
    done = run_weft(
        4, "bench", "pingpong", "--sizes", "64", "--paths", "mpi,direct", *QUICK, "--output", tmp_path,
        WEFT_RANKS_PER_NODE="2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = read(tmp_path / "pingpong.json")
    assert [p["node"] for p in record["placement"]] == [0, 0, 1, 1]
    crowded = len(os.sched_getaffinity(0)) < 4
    assert ("4 ranks share" in record["warning"]) == ("4 ranks share" in done.stderr) == crowded
    seen = {(r["where"], r["pairs"], r["path"]) for r in record["rows"]}
    assert seen == {(w, n, p) for w in ("within", "between") for n in (1, 2) for p in ("mpi", "direct")}
    assert len(list(tmp_path.glob("pingpong-*.png"))) == 4


def check_exchange(run: dict, ranks: int, orders: list[int], fields: list[int]) -> None:
    check_head(run, ranks)
    assert "alpha + bytes / beta" in run["bound"]
    rows = run["rows"]
    choices = {r["choice"] for r in rows}
    assert "pairwise:direct" in choices
    keys = [(r["order"], r["fields"], r["operation"], r["choice"]) for r in rows]
    operations = ("halo", "gather", "gather-scatter")
    assert sorted(keys) == sorted((n, f, o, c) for n in orders for f in fields for o in operations for c in choices)
    for row in rows:
        check_times(row)
        assert row["bandwidth_bytes_per_second"] == pytest.approx(row["bytes"] / row["seconds"])
        assert 0 < row["smallest_message_bytes"] <= row["median_message_bytes"] <= row["largest_message_bytes"]
        assert row["largest_message_bytes"] <= row["bytes"] <= row["total_bytes"]
        assert row["bytes"] <= row["messages"] * row["largest_message_bytes"]
        links = [(k["alpha_seconds"], k["beta_bytes_per_second"]) for k in run["links"].values()]
        [(alpha, beta)] = links
        assert row["bound_seconds"] == pytest.approx(alpha + row["bytes"] / beta)
        assert row["times_bound"] == pytest.approx(row["seconds"] / row["bound_seconds"])
    for key in {(r["order"], r["fields"], r["operation"]) for r in rows}:
        taken = [r["choice"] for r in rows if r["tuned"] and (r["order"], r["fields"], r["operation"]) == key]
        # One of those that were measured, unless --choices left it out.
        assert len(taken) == 1 or (len(taken) == 0 and {r["schedule"] for r in rows} == {"pairwise"}), key
    by = {(r["order"], r["fields"], r["operation"]): r for r in rows}
    for n in orders:
        for f in fields:
            halo, gather = by[n, f, "halo"], by[n, f, "gather"]
            assert halo["total_bytes"] == gather["total_bytes"] == f * by[n, 1, "halo"]["total_bytes"]
            if ranks == 2:  # each sends its part of every shared point to the one other
                shared = (4 * n + 1) * (4 * n + 1)  # the face between the halves of the box
                assert halo["total_bytes"] == 8 * f * shared
                assert by[n, f, "gather-scatter"]["total_bytes"] == 2 * 8 * f * shared


@pytest.mark.parametrize(("ranks", "orders", "fields"), [(2, [1, 3], [1, 2]), (3, [2], [1])])
def test_exchange_measures_every_choice_on_the_patterns_of_a_mesh(ranks, orders, fields, tmp_path) -> None:
    done = run_weft(
        ranks, "bench", "exchange", "--orders", ",".join(map(str, orders)), "--fields", ",".join(map(str, fields)),
        "--box", "4,4,4", *QUICK, "--output", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [run] = read(tmp_path / "exchange.json")["runs"]
    check_exchange(run, ranks, orders, fields)
    assert (tmp_path / f"exchange-ranks-{ranks}.png").stat().st_size > 10000
    assert max(len(line) for line in done.stdout.splitlines() if str(tmp_path) not in line) <= 80


def test_exchange_starts_mpiexec_itself_on_each_number_of_ranks(tmp_path) -> None:
    done = run_weft(
        1, "bench", "exchange", "--ranks", "2,3", "--orders", "2", "--fields", "1", "--box", "4,4,4", *QUICK,
        "--choices", "pairwise", "--output", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    runs = read(tmp_path / "exchange.json")["runs"]
    assert [r["machine"]["ranks"] for r in runs] == [2, 3]
    for run in runs:
        check_exchange(run, run["machine"]["ranks"], [2], [1])
        assert {r["schedule"] for r in run["rows"]} == {"pairwise"}
    assert done.stdout.count("order 2, 1 field") == 2
    assert len(list(tmp_path.glob("exchange-ranks-*.png"))) == 2


@pytest.mark.parametrize("ranks", [2, 3])
def test_alltoall_measures_every_method_with_the_papers_message_sizes(ranks: int, tmp_path) -> None:
    done = run_weft(ranks, "bench", "alltoall", "--grids", "12,24", "--variables", "1,4", *QUICK, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    record = read(tmp_path / "alltoall.json")
    check_head(record, ranks)
    methods = {r["method"] for r in record["rows"]}
    assert {"alltoall", "alltoallv", "ialltoall", "pairwise:direct"} <= methods
    keys = {(r["grid"], r["variables"], r["method"]) for r in record["rows"]}
    assert keys == {(n, q, m) for n in (12, 24) for q in (1, 4) for m in methods}
    for row in record["rows"]:
        check_times(row)
        assert (row["communicator"], row["ranks"], row["memory"]) == ("all", ranks, "host")
        assert row["message_bytes"] == 4 * row["variables"] * row["grid"] ** 3 / ranks**2
        eq_13 = row["message_bytes"] * ranks / row["seconds"]
        assert row["bandwidth_bytes_per_second"] == pytest.approx(eq_13)
        assert row["total_seconds"] == row["seconds"]  # nothing to copy without a GPU
    assert (tmp_path / "alltoall.png").stat().st_size > 10000
    assert max(len(line) for line in done.stdout.splitlines() if str(tmp_path) not in line) <= 80


def test_alltoall_of_pencils_uses_rows_and_columns_with_the_messages_of_a_larger_run(tmp_path) -> None:
    done = run_weft(
        4, "bench", "alltoall", "--grids", "64", "--processes", "64", "--row-ranks", "2", *QUICK, "--output", tmp_path
    )
    assert done.returncode == 0, done.stderr
    rows = read(tmp_path / "alltoall.json")["rows"]
    found = {(r["communicator"], r["ranks"], r["message_bytes"]) for r in rows}
    assert found == {("row", 2, 4 * 64**3 // (64 * 2)), ("column", 2, 4 * 64**3 // (64 * 32))}


REFUSED = [
    (["pingpong", "--sizes", "0-3"], "found '0-3'"),
    (["pingpong", "--sizes", "2G"], "sizes from 1 to 1G"),
    (["pingpong", "--paths", "pigeon"], "pigeon"),
    (["exchange", "--choices", "pairwise:pigeon"], "pairwise:pigeon"),
    (["exchange", "--box", "4,4"], "three integers"),
    (["exchange", "--ranks", "1,2"], "integers of at least 2"),
    (["exchange", "--box", "4000,4000,4000"], "MiB are available"),
    (["alltoall", "--methods", "pigeon"], "pigeon"),
    (["alltoall", "--grids", "7"], "multiple of 4"),
    (["alltoall", "--grids", "65536"], "MiB are available"),
    (["alltoall", "--row-ranks", "3"], "rows of 3 ranks"),
    (["alltoall", "--processes", "1"], "1"),
    (["alltoall", "--methods", ","], "no --methods"),
    (["alltoall", "--grids", "1-1000000000000"], "found '1-1000000000000'"),
    (["pingpong", "--seconds", "nan"], "nan is not a finite number"),
    (["exchange", "--seconds", "inf"], "inf is not a finite number"),
]


def test_what_cannot_be_measured_is_refused_by_every_rank_with_the_same_words(tmp_path) -> None:
    code = """
    import json, sys
    import click
    from mpi4py import MPI
    from weft.cli.main import weft_command
    said = []
    for words in json.loads(sys.argv[1]):
        try:
            weft_command.main(["bench", *words, "--output", sys.argv[2]], standalone_mode=False)
            said.append("nothing")
        except click.UsageError as error:
            said.append(error.format_message())
    all_said = MPI.COMM_WORLD.gather(said)
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(all_said))
    """
    done = mpi_run(2, code, json.dumps([words for words, _ in REFUSED]), str(tmp_path / "results"))
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout.splitlines()[-1])
    assert first == second
    for (words, text), said in zip(REFUSED, first, strict=True):
        assert text in said, f"{words}: {said}"
        assert "\n" not in said
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("ranks", "words", "text"),
    [
        (1, ["pingpong"], "at least 2 ranks"),
        (1, ["exchange"], "at least 2 ranks"),
        (1, ["alltoall"], "at least 2 ranks"),
        (2, ["alltoall", "--grids", "65536"], "MiB are available"),
    ],
)
def test_a_refusal_is_one_line_and_exit_code_2(ranks: int, words: list[str], text: str, tmp_path) -> None:
    done = run_weft(ranks, "bench", *words, "--output", tmp_path / "results")
    assert done.returncode == 2, done.stdout + done.stderr
    lines = messages(done.stderr)
    assert len(lines) == 1, done.stderr
    assert text in lines[0]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "words",
    [["pingpong", "--sizes", "8"], ["exchange", "--box", "2,2,2", "--orders", "1"], ["alltoall", "--grids", "32"]],
)
def test_results_that_cannot_be_written_are_one_error_and_leave_no_rank_waiting(words: list[str], tmp_path) -> None:
    (tmp_path / f"{words[0]}.tmp.json").mkdir()  # where it is written before it gets its name
    done = run_weft(2, "bench", *words, *QUICK, "--output", tmp_path, timeout=50)  # the ranks of an error wait for 60
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = messages(done.stderr)
    assert "Is a directory" in line
    assert f"{words[0]}.json" in line


def test_last_level_caches_count_once_for_the_processors_that_share_them(tmp_path: Path) -> None:
    for processor, shared in enumerate(("0-1", "0-1", "2-3", "2-3")):
        for index, size in enumerate(("48K", "2048K", "32768K")):
            folder = tmp_path / f"cpu{processor}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            (folder / "size").write_text(f"{size}\n")
            (folder / "shared_cpu_list").write_text(f"{shared if index == 2 else processor}\n")
    assert last_level_caches(tmp_path) == {"count": 2, "bytes": 2**25}
    assert last_level_caches(tmp_path / "none") == {"count": 0, "bytes": 0}
