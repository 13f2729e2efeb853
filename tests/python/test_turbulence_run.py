"""`weft run turbulence` and `weft bench scaling turbulence`: records, files, restarts, signals, and bad input."""

import csv
import json
import math
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from mpi_run import PLOTS, finish, interrupt, messages, mpi_run, run_weft, start, wait_until, weft_command

import weft
from weft import turbulence_output
from weft.bench import scaling_turbulence as scaling
from weft.bench.scaling import strong_scaling
from weft.cases import CaseError, TurbulenceCase, load
from weft.cases.schema import named_cases, options, to_toml
from weft.model import sources, turbulence_formulas

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "data" / "tgv" / "spectral_Re1600_512.gdiag"
LEDGER = Path(__file__).resolve().parents[3] / "shared" / "ledger" / "scaling.json"


def run(*words: object, ranks: int = 1, **environment: str):
    return run_weft(ranks, "run", "turbulence", *words, **environment)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def said(done) -> list[str]:
    """The lines of weft in stderr."""
    return messages(done.stderr)


def test_a_run_leaves_a_record_tables_and_plots_that_agree(tmp_path) -> None:
    done = run("--grid", 24, "--steps", 6, "--set", "viscosity=0.02", "--set", "statistics.every=2",
               "--set", "scalars.schmidt=[1.0, 0.5]", "--set", "scalars.gradient=[1.0, 0.0, 0.0]",
               "--set", "statistics.hdf5=true", "--set", "output.fields=true", "--set", "checkpoint.every=3",
               "--output", tmp_path, *PLOTS, ranks=2)  # fmt: skip
    assert done.returncode == 0, done.stderr
    for words in ("Re_lambda", "row MPI", "Eq. 9", "points/s", "divergence", "checkpoint-00000006"):
        assert words in done.stdout
    record = json.loads((tmp_path / "run.json").read_text())
    figures, timings, found = record["figures"], record["timings"], record["statistics"]
    assert figures["grid_points"] == 24**3
    assert figures["grid_points_per_second"] == pytest.approx(24**3 / timings["seconds_per_step"])
    assert timings["best_step_seconds"] <= timings["seconds_per_step"]
    assert list(timings["parts"]) == sorted(["FFT", "pack and unpack", "row MPI", "column MPI", "other"])
    for parts in (timings["parts"], timings["breakdown"]):
        assert sum(p["mean_seconds"] for p in parts.values()) <= 1.001 * timings["profiled_seconds"]
    assert sources.read(tmp_path).terms.t_mpi == timings["breakdown"]["mpi"]["mean_seconds"]
    moved = turbulence_formulas.step_bytes((24, 24, 24), "phase-shift", "rk2", 2, 8).value
    shares = {limit["name"]: limit["share"] for limit in figures["limits"]}
    step_bytes = shares["bandwidth"] * figures["bandwidth_bytes_per_second"] * timings["seconds_per_step"]
    assert step_bytes == pytest.approx(moved)
    assert shares["arithmetic"] == pytest.approx(
        figures["step_flops_done"] / figures["peak_flops_per_second"] / timings["seconds_per_step"]
    )
    assert "binds" in done.stdout
    q = figures["batch"]
    assert figures["equation_9_bytes_per_rank"] == (8.5 + 2 * q) * 24**3 / 4 * 16
    assert 0.2 < figures["memory_bytes_per_rank"] / figures["equation_9_bytes_per_rank"] < 3  # two scalars more

    table = rows_of(tmp_path / "statistics.csv")
    assert [int(r["step"]) for r in table] == [0, 2, 4, 6]
    assert float(table[0]["energy"]) == pytest.approx(0.125)
    assert float(table[0]["enstrophy"]) == pytest.approx(0.75)
    assert float(table[-1]["scalar_2_variance"]) > 0
    assert [h["energy"] for h in found["history"]] == [float(r["energy"]) for r in table]
    spectrum = rows_of(tmp_path / "spectra.csv")
    for column in ("energy", "dissipation"):  # Parseval
        assert sum(float(r[column]) for r in spectrum) == pytest.approx(float(table[-1][column]))
    moments = {r["quantity"]: r for r in rows_of(tmp_path / "moments.csv")}
    assert float(moments["dissipation"]["scale"]) == pytest.approx(float(table[-1]["dissipation"]))
    assert float(moments["enstrophy"]["moment_1"]) == pytest.approx(1)
    for quantity in moments:
        density = [r for r in rows_of(tmp_path / "pdf.csv") if r["quantity"] == quantity]
        width = [float(r["upper"]) - float(r["lower"]) for r in density]
        if quantity in ("dissipation", "enstrophy"):
            width = [math.log10(float(r["upper"]) / float(r["lower"])) for r in density]
        assert sum(float(r["density"]) * w for r, w in zip(density, width, strict=True)) == pytest.approx(1)

    import h5py

    with h5py.File(tmp_path / "statistics.h5") as file:
        energy = file["step_00000006/spectra/energy"][:]
        assert energy.sum() == pytest.approx(float(table[-1]["energy"]))
        assert "du_dx" in file["step_00000006/distributions"]
    with h5py.File(tmp_path / "fields.vtkhdf") as file:
        fields = {name: values[:] for name, values in file["VTKHDF/PointData"].items()}
    for values in fields.values():  # the last planes are the periodic images of the first
        for axis in range(3):
            np.testing.assert_array_equal(np.take(values, 0, axis), np.take(values, -1, axis))
    own = {name: values[:-1, :-1, :-1] for name, values in fields.items()}
    mean = {name: np.mean(np.sum(np.square(own[name]), axis=-1)) for name in ("velocity", "vorticity")}
    assert mean["velocity"] / 2 == pytest.approx(float(table[-1]["energy"]))
    assert mean["vorticity"] == pytest.approx(float(table[-1]["enstrophy"]))
    assert np.sqrt(np.mean(own["pressure"] ** 2)) == pytest.approx(float(moments["pressure"]["scale"]))
    for name in fields:
        assert f"fields.vtkhdf:/VTKHDF/PointData/{name}" in (tmp_path / "fields.xdmf").read_text()
    for name in ("history", "spectrum", "transfer", "distributions", "enstrophy"):
        assert (tmp_path / f"{name}.png").stat().st_size > 8000, name

    done = run_weft(1, "report", tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "run.html").read_text()
    for heading in ("Spectrum", "Transfer", "Distributions", "Enstrophy", "Where the time went"):
        assert f"<h2>{heading}</h2>" in page


def modes_of(checkpoint: Path) -> np.ndarray:
    """All modes of the velocity and of the scalar of a checkpoint, on this process alone."""
    found = turbulence_output.describe(checkpoint)
    solver = weft.turbulence.Solver(
        found.sizes, viscosity=0.02, dt=0.01, scalars=[weft.turbulence.Scalar()], precision=found.precision
    )
    solver.restore(checkpoint)
    return np.concatenate([solver.velocity_modes(), solver.scalar_modes()[None]])


def test_a_restart_is_the_run_that_was_not_stopped(tmp_path) -> None:
    words = ["--grid", 20, "--set", "viscosity=0.02", "--set", "initial.field=random", "--set", "statistics.every=1",
             "--set", "forcing.kind=stochastic", "--set", "scalars.schmidt=[1.0]",
             "--set", "scalars.gradient=[1.0, 0.0, 0.0]", "--set", "checkpoint.every=3", "--quiet",
             "--exchange", "pairwise:direct"]  # fmt: skip
    whole, same, other, single = (tmp_path / n for n in ("whole", "same", "other", "single"))
    done = run(*words, "--steps", 6, "--process-grid", "1x2", "--output", whole, ranks=2)
    assert done.returncode == 0, done.stderr
    shutil.copytree(whole, same)
    begin = ["--restart", whole / "checkpoints" / "checkpoint-00000003", "--steps", 3]
    done = run(*words, *begin, "--process-grid", "1x2", "--output", same, ranks=2)
    assert done.returncode == 0, done.stderr
    assert (same / "statistics.csv").read_text() == (whole / "statistics.csv").read_text()
    last = Path("checkpoints") / "checkpoint-00000006"
    expected = modes_of(whole / last)
    assert np.array_equal(modes_of(same / last), expected)
    # Other process grids and precisions agree to rounding.
    done = run(*words, *begin, "--process-grid", "3x1", "--output", other, ranks=3)
    assert done.returncode == 0, done.stderr
    scale = np.abs(expected).max()
    assert np.abs(modes_of(other / last) - expected).max() < 1e-13 * scale
    done = run(*words, *begin, "--precision", "single", "--output", single)
    assert done.returncode == 0, done.stderr
    assert np.abs(modes_of(single / last) - expected).max() < 1e-5 * scale


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_checkpoint_to_continue_from(tmp_path, number: signal.Signals) -> None:
    words = weft_command("run", "turbulence", "--grid", 16, "--steps", 10**6, "--set", "time.dt=1e-5",
                         "--set", "statistics.every=1000", "--output", tmp_path)  # fmt: skip
    process = start(words, ranks=None if number == signal.SIGTERM else 2)
    wait_until((tmp_path / "statistics.csv").exists, process)
    if number == signal.SIGTERM:
        os.kill(process.pid, number)
        os.kill(process.pid, number)  # as if the terminal and the launcher both signal a rank
    else:
        interrupt(process)
    done = finish(process)
    checkpoints = list((tmp_path / "checkpoints").iterdir())
    assert len(checkpoints) == 1, done.stderr
    assert not checkpoints[0].name.endswith(".tmp")
    found = turbulence_output.describe(tmp_path / "checkpoints")
    assert found.step == int(checkpoints[0].name.partition("-")[2]) > 0
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["figures"]["checkpoint"] == str(checkpoints[0])
    if number == signal.SIGTERM:
        assert done.returncode == 128 + number
        assert any("terminated; continue with --restart" in line for line in said(done))
    else:
        assert done.returncode != 0


def test_a_run_that_blows_up_says_where_and_what_to_go_on_from(tmp_path) -> None:
    done = run("--grid", 16, "--set", "time.dt=0.45", "--set", "viscosity=0", "--set", "checkpoint.every=1",
               "--set", "initial.field=random", "--steps", 50, "--output", tmp_path, ranks=2)  # fmt: skip
    assert done.returncode == 1
    assert len(said(done)) == 1
    line = said(done)[0]
    assert "step" in line
    assert "Courant" in line
    assert "the last checkpoint is" in line or "there is no checkpoint" in line


def test_a_plot_that_cannot_be_written_is_told_and_the_numbers_are_safe(tmp_path) -> None:
    (tmp_path / "history.png").mkdir()
    done = run("--grid", 12, "--steps", 2, "--output", tmp_path, *PLOTS)
    assert done.returncode == 1
    assert said(done)[-1].startswith(f"weft: {tmp_path / 'history.png'}: ")
    assert json.loads((tmp_path / "run.json").read_text())["timings"]


def refused(*assignments: str) -> str:
    with pytest.raises(CaseError) as caught:
        load(TurbulenceCase, None, {}, assignments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("assignments", "parts"),
    [
        (["grid=62"], ["'grid'", "found 62", "2^a 3^b 5^c 7^d", "60, 63"]),
        (["grid=11"], ["'grid'", "10, 12"]),
        (["sizes=[32, 0, 32]"], ["'sizes'", "found [32, 0, 32]"]),
        (["sizes=[32, 32, 13]"], ["'sizes'", "12, 14"]),
        (["time.courant=1.0"], ["'time.courant'", "found 1.0", "below 1.0"]),
        (["time.steps=0"], ["'time.steps'", "'time.end'"]),
        (["process_grid=4x"], ["'process_grid'", "2x4"]),
        (["process_grid=0x4"], ["'process_grid'"]),
        (["lengths=[1, 1, -1]"], ["'lengths'"]),
        (["lengths=[1, 1, 2]", "initial.field=abc"], ["'initial.field'", "equal sides"]),
        (["scalars.schmidt=[1.0, 0.0]"], ["'scalars.schmidt'", "above 0"]),
        (["checkpoint.files=some"], ["'checkpoint.files'", "node, one"]),
        (["viscosity=-1"], ["'viscosity'", "at least 0"]),
    ],
)
def test_a_case_that_makes_no_sense_names_its_key(assignments: list[str], parts: list[str]) -> None:
    text = refused(*assignments)
    assert "\n" not in text
    for part in parts:
        assert part in text


def test_cases_that_come_with_weft_are_valid_and_a_written_one_reads_back(tmp_path) -> None:
    assert set(named_cases("turbulence")) >= {"taylor-green", "forced", "decaying", "abc"}
    for name in named_cases("turbulence"):
        assert load(TurbulenceCase, name).workload == "turbulence"
    assert all(leaf.help and leaf.allowed for leaf in options(TurbulenceCase))
    (tmp_path / "all.toml").write_text(to_toml(TurbulenceCase))
    assert load(TurbulenceCase, str(tmp_path / "all.toml")) == load(TurbulenceCase)


@pytest.mark.parametrize(
    ("words", "ranks", "parts"),
    [
        (["--grid", "65536"], 2, ["65536 x 65536 x 65536", "GiB per rank on 2 rank(s)", "Eq. 9"]),
        (["--grid", "16", "--process-grid", "3x1"], 2, ["3x1"]),
        (["--grid", "16", "--restart", "nowhere"], 2, ["nowhere: no such checkpoint"]),
        (["--grid", "16", "--set", "reference=nowhere.dat"], 1, ["'reference'", "nowhere.dat"]),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line_on_every_rank(tmp_path, words, ranks: int, parts) -> None:
    done = run(*words, "--output", tmp_path, ranks=ranks)
    assert done.returncode != 0
    assert len(said(done)) == 1, done.stderr
    for part in parts:
        assert part in said(done)[0]


def test_a_checkpoint_of_another_size_or_truncated_is_refused(tmp_path) -> None:
    assert run("--grid", 16, "--steps", 1, "--set", "checkpoint.at_end=true", "--output", tmp_path).returncode == 0
    folder = tmp_path / "checkpoints"
    done = run("--grid", 20, "--restart", folder, "--output", tmp_path / "b")
    assert done.returncode == 1
    assert "16 x 16 x 16 points, the run has 20 x 20 x 20" in said(done)[0]
    part = next(folder.glob("*/part-00000.bin"))
    part.write_bytes(part.read_bytes()[:-8])
    done = run("--grid", 16, "--restart", folder, "--output", tmp_path / "b", ranks=2)
    assert done.returncode == 1
    assert len(said(done)) == 1
    assert "truncated" in said(done)[0]


@pytest.mark.skipif(not REFERENCE.exists(), reason="the data ../shared/data/tgv is not beside this checkout")
def test_the_taylor_green_vortex_follows_its_reference(tmp_path) -> None:
    done = run("--grid", 32, "--set", "viscosity=0.000625", "--steps", 0, "--set", "time.end=1.5",
               "--set", "time.courant=0.7", "--set", "statistics.every=2", "--set", f"reference={REFERENCE}",
               "--output", tmp_path, "--quiet")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "run.json").read_text())["statistics"]["reference"]
    assert 0 < found["largest_energy_error"] < 1e-4
    assert 0 < found["largest_dissipation_error"] < 3e-3


# --- scaling -------------------------------------------------------------------------------------------------------


def row(grid: int, ranks: int, seconds: float) -> dict:
    return {"grid": grid, "grid_points": grid**3, "ranks": ranks, "seconds_per_step": seconds, "points_per_second": 1.0}


@pytest.mark.parametrize(
    ("small", "large", "percent"),
    [  # GESTS, Table 3: N, nodes, seconds; WS1 or WS2
        ((4096, 8, 11.98), (8192, 64, 13.03), 99.6),
        ((4096, 8, 9.62), (32768, 4096, 13.10), 91.7),
        ((8192, 64, 10.52), (16384, 512, 11.71), 96.7),
        ((16384, 512, 11.71), (32768, 4096, 13.10), 95.8),
    ],
)
def test_weak_scaling_is_the_papers(small, large, percent: float) -> None:
    assert 100 * scaling.weak_scaling(row(*small), row(*large)) == pytest.approx(percent, abs=0.1)


def test_strong_scaling_is_the_papers() -> None:
    rows = [row(8192, 128, 6.96), row(8192, 256, 3.46), row(8192, 512, 1.63)]  # GESTS, Table 5
    assert 100 * strong_scaling(rows[0], rows[1]) == pytest.approx(100.6, abs=0.1)
    assert 100 * strong_scaling(rows[1], rows[2]) == pytest.approx(106.1, abs=0.1)
    text = scaling.strong_table(rows)
    assert [line[1] for line in text[1:]] == ["128", "256", "512"]
    assert text[1][4:] == ("-", "-")


def test_a_sweep_runs_every_grid_on_every_number_of_ranks(tmp_path) -> None:
    done = run_weft(1, "bench", "scaling", "turbulence", "--ranks", "1,2", "--grids", "16,20", "--steps", 3,
                    "--set", "viscosity=0.05", "--output", tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "scaling.json").read_text())["rows"]
    assert [(r["grid"], r["ranks"]) for r in rows] == [(16, 1), (16, 2), (20, 1), (20, 2)]
    for found in rows:
        assert found["points_per_second"] == pytest.approx(found["grid"] ** 3 / found["seconds_per_step"])
        assert list(found["parts"]) == ["FFT", "column MPI", "other", "pack and unpack", "row MPI"]
    assert "STRONG SCALING" in done.stdout
    assert "WEAK SCALING" in done.stdout  # 20^3 on 2 ranks has about as many points per rank as 16^3 on one
    for name in ("scaling", "table3-16", "table3-20"):
        assert (tmp_path / f"{name}.png").stat().st_size > 8000


# A limit to the size of files stands for a full disk, where HDF5 ends in a segmentation fault. MPI's files are larger.
LIMITED = """
    import resource
    import sys

    from mpi4py import MPI

    from weft.cli.main import main

    MPI.COMM_WORLD.Barrier()
    resource.setrlimit(resource.RLIMIT_FSIZE, (768_000, resource.RLIM_INFINITY))
    main()
"""


@pytest.mark.parametrize("ranks", [1, 3])
def test_fields_that_do_not_fit_are_one_line_and_leave_no_file(tmp_path, ranks: int) -> None:
    words = ["run", "turbulence", "--set", "grid=32", "--steps", "2", "--set", "exchange=pairwise:direct",
             "--set", "output.fields=true", "--output", str(tmp_path)]  # fmt: skip
    done = mpi_run(ranks, LIMITED, *words)
    assert done.returncode == 1, done.stderr
    assert len(messages(done.stderr)) == 1
    assert "fields.vtkhdf: File too large" in messages(done.stderr)[0]
    assert not list(tmp_path.glob("fields*"))
