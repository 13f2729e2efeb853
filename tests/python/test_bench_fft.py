"""`weft bench fft`: its formulas, real runs on real ranks, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mpi_run import run_weft

from weft.bench import fft

QUICK = ["--rounds", "2", "--seconds", "0.001"]


def test_operations_and_bytes_are_those_of_the_formulas() -> None:
    assert fft.pair_flops(256) == 2 * 2.5 * 2**24 * 24
    assert fft.line_flops(1024, 10) == 5 * 1024 * 10 * 10
    # x: 8 N^3 read, 16 N^2 (N/2 + 1) written; y and z: twice that; and back.
    assert fft.pair_bytes(4, 8) == 2 * (8 * 64 + 5 * 16 * 16 * 3)
    assert fft.pair_bytes(4, 4) * 2 == fft.pair_bytes(4, 8)


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_size_precision_and_grid_has_a_row_and_a_line_and_files_are_written(ranks: int, tmp_path: Path) -> None:
    done = run_weft(ranks, "bench", "fft", "--sizes", "8,12", "--output", tmp_path, *QUICK)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "fft.json").read_text())
    grids = fft.grids_of(ranks)
    rows = [(r["points"], r["precision"], r["process_grid"]) for r in record["transforms"]]
    assert rows == [(n, p, g) for n in (8, 12) for p in ("double", "single") for g in grids]
    for row in record["transforms"]:
        assert row["seconds"] > 0
        assert row["flops_per_second"] == pytest.approx(fft.pair_flops(row["points"]) / row["seconds"])
        limit = record["limits"]["bandwidth_bytes_per_second"]
        assert row["bandwidth_share"] == pytest.approx(row["bytes"] / row["seconds"] / limit)
        shares = {limit["name"]: limit["share"] for limit in row["limits"]}
        assert shares["bandwidth"] == pytest.approx(row["bandwidth_share"])
        assert shares["arithmetic"] == pytest.approx(row["flops_per_second"] / record["peaks"][row["precision"]])
    for row in record["lines"]:
        steps, totals = row["steps"], row["total_seconds"]
        assert set(steps) == {"strided", "unpack", "contiguous", "pack", "panels"}
        parts = [steps[way]["seconds"] for way in ("unpack", "contiguous", "pack")]
        assert totals["non-strided"] == pytest.approx(sum(parts))
        assert totals[row["fastest"]] == min(totals.values())
    assert record["versions"]["fft"].split()[0] in ("mkl", "fftw")
    assert (tmp_path / "fft.png").stat().st_size > 1000
    printed = [line for line in done.stdout.splitlines() if line.strip().startswith(("8 ", "12 "))]
    assert len(printed) == len(record["transforms"]) + len(record["lines"])
    assert "GFLOP/s" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--process-grids", "2x2"], "2x2 is not a process grid of 1 ranks; possible grids: 1x1"),
        (["--precisions", "half"], "found 'half', allowed: double, single"),
        (["--sizes", "1"], "integers of at least 2"),
        (["--sizes", "100000"], "use smaller --sizes"),
    ],
)
def test_what_cannot_be_measured_is_one_error_that_says_what_can(arguments: list[str], words: str) -> None:
    done = run_weft(1, "bench", "fft", *arguments, *QUICK)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())
