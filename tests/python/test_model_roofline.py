"""hipBone's Eq. 4 and the extended roofline of Eq. 8, and Table 13 for records and traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from weft.bench.ratio import combinations, row
from weft.cli.main import weft_command
from weft.model import formulas, table13
from weft.model import roofline as method
from weft.model.result import ModelError
from weft.model.roofline import Constants, Pattern

POSITIVE = st.floats(1e-12, 1e-3)
COUNT = st.floats(0, 1e12)
MACHINES = st.builds(Constants, POSITIVE, POSITIVE, POSITIVE, POSITIVE, POSITIVE)
PATTERNS = st.builds(Pattern, st.floats(1, 1e12), COUNT, COUNT, COUNT, COUNT)


def test_equation_8_by_hand() -> None:
    machine = Constants(flop=1e-9, regular=2e-9, irregular=5e-8, h2d=1e-8, d2h=2e-8)
    # By hand: 1 s of operations; 0.2 + 0.05 + 0.1 + 0.4 s of memory and copies.
    assert method.gpu_time(Pattern(1e9, 1e8, 1e6, 1e7, 2e7), machine) == pytest.approx(1.0)
    assert method.gpu_time(Pattern(1e8, 1e8, 1e6, 1e7, 2e7), machine) == pytest.approx(0.75)


def test_equation_4_by_hand() -> None:
    # N = 1: (12 x 16 + 18 x 8) / (8 + 68 x 8) = 336 / 552 operations per byte.
    assert method.eq4(1, 1e15, 552e9).value == pytest.approx(336e9)
    assert method.eq4(1, 1e9, 552e9).value == 1e9


@given(PATTERNS, MACHINES, st.floats(1, 100))
def test_a_slower_memory_never_saves_time(pattern: Pattern, machine: Constants, factor: float) -> None:
    slower = Constants(machine.flop, machine.regular * factor, machine.irregular * factor, machine.h2d, machine.d2h)
    assert method.gpu_time(pattern, slower) >= method.gpu_time(pattern, machine)
    assert method.relative_performance(pattern, slower, machine) <= 1


@given(PATTERNS, MACHINES)
def test_without_irregular_reads_and_copies_it_is_the_plain_roofline(pattern: Pattern, machine: Constants) -> None:
    plain = Pattern(pattern.flops, max(1.0, pattern.regular_bytes))
    rate = plain.flops / method.gpu_time(plain, machine)
    expected = formulas.roofline(plain.flops, plain.regular_bytes, 1 / machine.flop, 1 / machine.regular)
    assert rate == pytest.approx(expected)


@pytest.mark.parametrize("values", [(0, 1e-9), (1e-9, -1), (1e-9, float("nan")), (1e-9, 1e-9, -1)])
def test_constants_that_cannot_be_are_refused_by_name(values) -> None:
    with pytest.raises(ModelError, match="t_"):
        Constants(*values)


@pytest.mark.parametrize(("values", "message"), [((0, 0), "all counts are zero"), ((-1, 0), "flops is negative")])
def test_counts_that_cannot_be_are_refused(values, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Pattern(*values)


@given(st.integers(1, 15), st.integers(1, 1000))
def test_irregular_reads_are_a_part_of_the_bytes_an_iteration_moves(order: int, elements: int) -> None:
    size = formulas.large_mesh(order, elements)
    for kernels in ("portable", "simd"):
        ways = formulas.Method(geometry="stored", kernels=kernels)
        packed = method.poisson_iteration(size, ways, lines=True)
        spread = method.poisson_iteration(size, ways, lines=False)
        moved = formulas.weft_iteration_bytes(size, ways).value
        assert packed.regular_bytes + packed.irregular_reads * method.LINE == pytest.approx(moved)
        assert 0 < packed.irregular_reads <= spread.irregular_reads == method.surface_dofs(size)


def test_constants_are_kept_and_read_again_and_foreign_files_refused(tmp_path) -> None:
    path = tmp_path / "machine.json"
    machine = Constants(1e-12, 2e-12, 3e-9)
    method.write(path, machine, "measured here")
    assert method.read(path) == machine
    for text, message in [
        ("{", "not a file of roofline constants"),
        ('{"seconds": {"flop": 1}}', "'regular' is missing"),
        ('{"seconds": {"flop": 1, "regular": 1, "cache": 1}}', "unknown constant 'cache'"),
        ('{"seconds": {"flop": 1, "regular": "fast"}}', "not a file of roofline constants"),
    ]:
        path.write_text(text)
        with pytest.raises(ModelError, match=message):
            method.read(path)


# --- Table 13 ------------------------------------------------------------------------------------------------------


def record(backend: str = "cuda", ranks: int = 1, **seconds: float) -> dict:
    """A run record as weft writes it, with the parts that models read."""
    breakdown = {"cpu": 1.0, "gpu": 5.0, "mpi": 1.0, "copy": 2.0, "launch": 6.0} | seconds
    return {
        "case": {
            "workload": "poisson", "precision": "double", "storage": "assembled", "boundary": "natural",
            "solver": {"preconditioner": "none"},
        },
        "choices": {"geometry": "stored: requested", "kernels": "portable", "algorithm": "classic"},
        "machine": {"ranks": ranks, "ranks_per_node": 1, "threads_per_rank": 1, "device": {"backend": backend}},
        "timings": {
            "solve_seconds": 10.0, "seconds_per_iteration": 0.1,
            "breakdown": {k: {"mean_seconds": v, "max_seconds": v} for k, v in breakdown.items()},
        },
        "figures": {
            "mesh": "box", "elements": 8, "order": 3, "dofs": 343, "iterations": 100,
            "peak_flops_per_second": 1e12, "bandwidth_bytes_per_second": 1e11,
        },
    }  # fmt: skip


def write(folder: Path, name: str, content: dict) -> Path:
    path = folder / name
    path.mkdir()
    (path / "run.json").write_text(json.dumps(content))
    return path


def test_table_13_has_a_row_per_application_and_says_what_is_missing(tmp_path) -> None:
    runs = [write(tmp_path, f"gpu{k}", record(copy=2.0 + 0.1 * k)) for k in range(3)]
    runs.append(write(tmp_path, "host", record(backend="host", gpu=0.0)))
    sweep = tmp_path / "ratio.json"
    jobs = [(p, t) for p in (1, 2, 4) for t in (1, 2, 4)]
    rows = [{"processes": p, "threads": t, "t_total": 10 + 4 / p + 2 / t + 1 / (p * t), "t_mpi": 0.0} for p, t in jobs]
    sweep.write_text(json.dumps({"case": {"workload": "poisson"}, "rows": rows}))
    page, data = tmp_path / "t.html", tmp_path / "t.json"
    arguments = ["model", "table13", *map(str, runs), str(sweep), "--html", str(page), "--json", str(data)]
    done = CliRunner().invoke(weft_command, arguments)
    assert done.exit_code == 0, done.exception
    gpu, host = json.loads(data.read_text())
    assert gpu["runs"] == 3
    tight = gpu["cells"]["CPU-GPU integration"]
    assert tight["low"] < tight["value"] < tight["high"]
    assert gpu["cells"]["CPU:GPU ratio"]["unit"] == "cores"
    assert gpu["cells"]["GPU-GPU integration"]["value"] == 1
    assert "--memory" in gpu["cells"]["unified memory"]["why"]
    assert "host only" in host["cells"]["CPU-GPU integration"]["why"]
    text = page.read_text()
    assert text.count("data:image/svg+xml") == 2
    assert "N/E" in text
    assert "<script" not in text


def test_what_a_record_cannot_tell_is_not_guessed(tmp_path) -> None:
    path = write(tmp_path, "two-nodes", record(ranks=2))
    (found,) = table13.rows([path], acceleration=8.0)
    assert "give a trace" in found.cells["GPU-GPU integration"].why
    machine = Constants(1e-12, 1e-11)
    (found,) = table13.rows([path], acceleration=8.0, here=machine, there=Constants(1e-12, 4e-11))
    unified = found.cells["unified memory"].result
    assert unified is not None
    assert unified.value == pytest.approx(0.25)


def test_table_13_of_no_run_is_refused(tmp_path) -> None:
    with pytest.raises(ModelError, match="no run is named"):
        table13.rows([], acceleration=8.0)
    with pytest.raises(ModelError, match="no such file"):
        table13.rows([tmp_path / "nothing.json"], acceleration=8.0)


def test_a_run_is_held_against_its_own_roofline(tmp_path) -> None:
    path = write(tmp_path, "run", record())
    done = CliRunner().invoke(weft_command, ["model", "roofline", str(path)])
    assert done.exit_code == 0, done.exception
    assert "hipBone Eq. 4" in done.output
    assert "Eq. 8" in done.output
    broken = record()
    del broken["figures"]["elements"]
    done = CliRunner().invoke(weft_command, ["model", "roofline", str(write(tmp_path, "broken", broken))])
    assert "'elements' is missing" in str(done.exception)


# --- weft bench ratio ----------------------------------------------------------------------------------------------


def test_combinations_fit_the_cores_and_rows_hold_what_the_fit_reads() -> None:
    assert combinations([1, 2, 4], [1, 2], 4) == [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1)]
    found = row(record(), 2, 3)
    assert (found["processes"], found["threads"], found["t_total"], found["t_mpi"]) == (2, 3, 10.0, 1.0)


def test_a_sweep_writes_what_the_model_reads(tmp_path, monkeypatch, capsys) -> None:
    from weft.bench import ratio
    from weft.model.sources import ratio_runs

    asked = []

    def run(workload: str, ranks: int, arguments: list[str], time_limit: int, threads: int) -> dict:
        asked.append((ranks, threads, arguments))
        content = record()
        content["timings"]["solve_seconds"] = 20 + 8 / ranks + 4 / threads
        return content

    monkeypatch.setattr(ratio, "run", run)
    ratio.sweep([1, 2], [1, 2], tmp_path, repeats=2, oversubscribe=True, assignments=["order=3"], time_limit=60)
    assert [a[:2] for a in asked] == [(1, 1), (1, 2), (2, 1), (2, 2)] * 2
    assert asked[0][2] == ["order=3"]
    assert len(ratio_runs(tmp_path / "ratio.json")) == 8
    assert "cores per GPU" in capsys.readouterr().out
