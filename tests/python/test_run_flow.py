"""`weft run flow` and `weft bench scaling flow`: records, files, restarts, signals, and bad input."""

import csv
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI
from mpi_run import PLOTS, finish, interrupt, messages, run_weft, start, wait_until, weft_command

import weft
from weft.bench import scaling_flow
from weft.cases import CaseError, FlowCase, load
from weft.run.flow.figures import iterations, summary
from weft.run.flow.problem import Problem, make_mesh
from weft.run.stepping import Goal

BOX = ["--set", "mesh.counts=[2,2,2]", "--order", 4, "--device", "host", "--set", "exchange=pairwise:staged"]


def run(*words: object, ranks: int = 1, **environment: str):
    return run_weft(ranks, "run", "flow", *words, **environment)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def said(done) -> list[str]:
    """The lines of weft in stderr."""
    return messages(done.stderr)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> dict[int, tuple[Path, str]]:
    """The folder and the output of one case on 1 and on 2 ranks."""
    found = {}
    for ranks in (1, 2):
        folder = tmp_path_factory.mktemp("flow")
        words = ["--case", "taylor-green", *BOX, "--steps", 8, "--dt", 0.02, "--set", "statistics.every=2",
                 "--set", "output.fields=true", "--set", "checkpoint.at_end=true", "--set", "parameters.Re=100",
                 "--set", "output.compare_paths=true", "--set", "output.slice=vorticity",
                 "--output", folder, *PLOTS]  # fmt: skip
        done = run(*words, ranks=ranks)
        assert done.returncode == 0, done.stderr
        found[ranks] = folder, done.stdout
    return found


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_leaves_a_record_tables_fields_and_a_page_that_agree(finished, ranks: int) -> None:
    folder, output = finished[ranks]
    for words in (
        "BDF3/EXT3",
        "pressure",
        "iterations per step",
        "phase",
        "convection",
        "numbers per point",
        "checkpoint",
    ):
        assert words in output, words
    assert all(len(line) <= 100 for line in output.splitlines() if str(folder) not in line)
    record = json.loads((folder / "run.json").read_text())
    figures, timings, found = record["figures"], record["timings"], record["statistics"]
    assert figures["points"] == 8 * 125
    assert figures["ranks"] == ranks
    assert figures["steps_done"] == 8
    assert figures["final_time"] == pytest.approx(0.16)
    assert figures["viscosity"] == pytest.approx(0.01)
    assert figures["points_per_second"] == pytest.approx(1000 / timings["seconds_per_step"])
    assert figures["memory_words_per_point"] == pytest.approx(sum(figures["memory_bytes"].values()) / 8 / 1000)
    spent = {name: found["mean_seconds"] for name, found in timings["breakdown"].items()}
    communication = (spent["mpi"] + spent["copy"]) / timings["profiled_seconds"]
    assert figures["communication_share"] == pytest.approx(communication)
    # Neither includes the other: all-reduces are not an exchange, and packing is not communication.
    for share in ("communication_share", "exchange_share"):
        assert (0 < figures[share] < 1) if ranks > 1 else (0 <= figures[share] < 1), share
    assert timings["best_step_seconds"] <= timings["seconds_per_step"]
    assert set(timings["phases"]) >= {"convection", "pressure", "velocity"}
    whole = sum(sum(spent.values()) for spent in timings["phases"].values())
    assert whole <= 1.001 * timings["profiled_seconds"]

    assert "velocity: bandwidth binds" in output or "velocity: arithmetic binds" in output
    for phase, limits in figures["limits_by_phase"].items():
        spent = sum(timings["phases"][phase].values()) / figures["profiled_steps"]
        assert {limit["name"] for limit in limits} == {"bandwidth", "arithmetic"}
        assert all(limit["share"] == pytest.approx(limit["seconds"] / spent) for limit in limits)
        assert limits[0]["share"] >= limits[1]["share"] > 0
    assert set(figures["limits_by_phase"]) == {"convection", "velocity"}

    steps = found["steps"]
    assert [s["step"] for s in steps] == list(range(1, 9))
    assert figures["iterations"]["pressure"]["largest"] == max(s["pressure_iterations"] for s in steps[2:])
    assert 0 < sum(s["recorded"] for s in steps) == figures["profiled_steps"]
    table = rows_of(folder / "statistics.csv")
    assert [int(r["step"]) for r in table] == [0, 2, 4, 6, 8]
    assert [float(r["energy"]) for r in table] == [h["energy"] for h in found["history"]]
    assert float(table[0]["energy"]) == pytest.approx(0.125, rel=3e-3)
    assert float(table[-1]["energy"]) < float(table[0]["energy"])

    assert ("staged" in figures["paths"]) == (ranks > 1)
    if ranks > 1:
        assert figures["paths"]["staged"]["speed_up"] == 1.0
    assert (folder / "flow.pvd").exists()
    assert figures["checkpoint"].endswith("checkpoint-00000008")
    for name in ("history", "steps", "phases", "slice"):
        assert (folder / f"{name}.png").stat().st_size > 5000, name
    page = run_weft(1, "report", folder)
    assert page.returncode == 0, page.stderr
    for heading in ("Vorticity", "History", "Result", "Steps", "Phases", "Where the time went", "Choices"):
        assert f"<h2>{heading}</h2>" in (folder / "run.html").read_text()


def test_one_and_two_ranks_take_the_same_trajectory(finished) -> None:
    first, second = (rows_of(folder / "statistics.csv") for folder, _ in finished.values())
    for a, b in zip(first, second, strict=True):
        assert float(a["energy"]) == pytest.approx(float(b["energy"]), rel=1e-9)
        assert float(a["enstrophy"]) == pytest.approx(float(b["enstrophy"]), rel=1e-6)


def test_an_exact_solution_is_compared_with_and_a_python_file_may_give_it(tmp_path) -> None:
    (tmp_path / "user.py").write_text("def flow(x, y, z):\n    return 1 - y**2, 0 * x, 0 * x\n")
    words = ["--case", "channel", "--order", 3, "--steps", 5, "--set", "mesh.counts=[2,2,1]", "--output", tmp_path,
             "--set", f"functions.file={tmp_path}/user.py", "--set", "initial.velocity=python:flow", "--quiet",
             "--set", "boundaries.x-.velocity=python:flow", "--device", "host"]  # fmt: skip
    done = run(*words, ranks=2)
    assert done.returncode == 0, done.stderr
    errors = json.loads((tmp_path / "run.json").read_text())["figures"]["errors"]
    assert errors["velocity"] < 1e-6
    assert errors["pressure"] < 1e-5


def test_a_restart_is_the_run_that_was_not_stopped(tmp_path) -> None:
    words = ["--case", "taylor-green", *BOX, "--set", "time.courant=0.3", "--dt", 0, "--set", "checkpoint.every=3",
             "--set", "statistics.every=1", "--set", "output.slice=none", "--quiet"]  # fmt: skip
    whole, part = tmp_path / "whole", tmp_path / "part"
    assert run(*words, "--steps", 6, "--output", whole, ranks=2).returncode == 0
    begin = ["--restart", whole / "checkpoints" / "checkpoint-00000003", "--steps", 3]
    done = run(*words, *begin, "--output", part, ranks=2)
    assert done.returncode == 0, done.stderr
    expected = (whole / "statistics.csv").read_text().splitlines()
    assert (part / "statistics.csv").read_text().splitlines() == [expected[0], *expected[4:]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_leaves_a_checkpoint_to_continue_from(tmp_path, number: signal.Signals) -> None:
    words = weft_command("run", "flow", "--case", "taylor-green", *BOX, "--steps", 10**6, "--dt", "1e-5",
                         "--set", "statistics.every=1", "--output", tmp_path)  # fmt: skip
    process = start(words, ranks=2 if number == signal.SIGINT else None)
    table = tmp_path / "statistics.csv"
    wait_until(lambda: table.exists() and len(table.read_text().splitlines()) > 3, process)
    if number == signal.SIGINT:
        interrupt(process)
    else:
        os.kill(process.pid, number)
    done = finish(process)
    checkpoints = list((tmp_path / "checkpoints").iterdir())
    assert len(checkpoints) == 1, done.stderr
    found = weft.flow_output.describe(tmp_path / "checkpoints")
    assert found.step == int(checkpoints[0].name.partition("-")[2]) > 0
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["figures"]["checkpoint"] == str(checkpoints[0])
    if number == signal.SIGINT:
        assert done.returncode != 0
    else:
        word = "terminated" if number == signal.SIGTERM else "told to stop (SIGUSR1)"
        assert done.returncode == 128 + number
        assert any(f"{word}; continue with --restart" in line for line in said(done))


def test_a_run_that_blows_up_says_the_step_the_field_and_what_to_go_on_from(tmp_path) -> None:
    words = ["--case", "taylor-green", *BOX, "--dt", 3, "--steps", 400, "--set", "checkpoint.every=1"]
    (tmp_path / "run.json").write_text('{"case": {"workload": "flow"}}')  # an earlier run's, which this one replaces
    done = run(*words, "--output", tmp_path, ranks=2)
    assert done.returncode == 1
    assert len(said(done)) == 1, done.stderr
    line = said(done)[0]
    for part in ("step", "checkpoint-0000"):
        assert part in line
    assert not (tmp_path / "run.json").exists()
    assert len(list((tmp_path / "checkpoints").iterdir())) <= 2


@pytest.mark.parametrize(
    ("words", "ranks", "parts"),
    [
        (["--set", "mesh.periodic=[false,true,true]"], 2, ["'boundaries.x-'", "no condition for 2 of its 2", "wall"]),
        (["--set", "initial.velocity=[1,0,0]"], 1, ["'boundaries.x-'", "no condition for 6 of its 6 boundaries"]),
        (["--case", "taylor-green", "--set", "boundaries.lid.condition=wall"], 1, ["'boundaries.lid'", "no such"]),
        (["--case", "taylor-green", "--restart", "nowhere"], 2, ["nowhere"]),
        (["--case", "taylor-green", "--set", "statistics.reference=nowhere.dat"], 2, ["nowhere.dat"]),
        (["--case", "cavity", "--dt", "0", "--set", "boundaries.y+.velocity=['t', 0, 0]"], 1, ["'time.dt'", "at rest"]),
        (["--case", "taylor-green", "--set", "functions.file=none.py", "--set", "initial.velocity=python:f"], 2,
         ["'functions.file'", "none.py"]),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_refused_in_one_line_on_every_rank(tmp_path, words, ranks: int, parts) -> None:
    done = run(
        *words, "--device", "host", "--set", "mesh.counts=[2,2,1]", "--order", 2, "--output", tmp_path, ranks=ranks
    )
    assert done.returncode != 0
    assert len(said(done)) == 1, done.stderr
    for part in parts:
        assert part in said(done)[0]


def test_a_python_file_that_fails_is_an_error_with_the_key_and_its_functions(tmp_path) -> None:
    (tmp_path / "user.py").write_text("def other(x, y, z, t):\n    return x\n")
    words = ["--case", "taylor-green", *BOX, "--set", f"functions.file={tmp_path}/user.py",
             "--set", "initial.velocity=python:flow", "--output", tmp_path / "out"]  # fmt: skip
    done = run(*words)
    assert done.returncode != 0
    assert "has no function 'flow'; it has: other" in said(done)[0]
    (tmp_path / "user.py").write_text("def flow(x, y, z, t):\n    return x, y\n")
    done = run(*words)
    assert done.returncode != 0
    assert "returned 2 values, 3 are needed" in said(done)[0]
    (tmp_path / "user.py").write_text("def flow(x, y):\n    return x, y, x\n")
    done = run(*words)
    assert done.returncode != 0
    assert "flow(x, y) must be a function of x, y, z and t" in said(done)[0]


@pytest.mark.parametrize(
    ("assignment", "parts"),
    [("output.slice=warp", ["'output.slice'", "vorticity"]), ("output.every=2", ["'output.every'", "output.fields"])],
)
def test_output_that_makes_no_sense_names_its_key(assignment: str, parts: list[str]) -> None:
    with pytest.raises(CaseError) as caught:
        load(FlowCase, "taylor-green", {}, [assignment])
    for part in parts:
        assert part in str(caught.value)


def steps_of(*assignments: str) -> tuple[float, float]:
    """The longest step of a case of 2 x 2 x 2 elements of side pi, and the one that comes first."""
    keys = ["mesh.counts=[2,2,2]", "time.dt=0", *assignments]
    case = load(FlowCase, "taylor-green", {"device": "host", "order": 3}, keys)
    assert isinstance(case, FlowCase)
    problem = Problem(case, make_mesh(case, MPI.COMM_WORLD))
    problem.begin()
    return problem.longest_dt, problem.next_dt()


def test_the_first_step_of_a_flow_at_rest_has_the_courant_number_of_its_boundaries() -> None:
    keys = ["mesh.counts=[2,2,1]", "boundaries.y+.velocity=[3,0,0]", "time.dt=0", "time.courant=0.5"]
    case = load(FlowCase, "cavity", {"device": "host", "order": 2}, keys)
    assert isinstance(case, FlowCase)
    problem = Problem(case, make_mesh(case, MPI.COMM_WORLD))
    problem.begin()
    assert problem.next_dt() == pytest.approx(0.5 * 0.25 / 3)  # points are 0.25 apart
    assert problem.solver.statistics()["energy"] == 0  # the flow itself stays at rest


def test_a_variable_step_of_a_flow_that_has_died_out_is_what_diffusion_takes_across_an_element() -> None:
    still = ['initial.velocity=["1e-9*sin(x)",0,0]', "viscosity=0.25"]
    assert steps_of(*still) == pytest.approx((np.pi**2 / 0.25,) * 2)
    assert steps_of(*still, "scalars.heat.diffusivity=0.5") == pytest.approx((np.pi**2 / 0.5,) * 2)
    assert steps_of(*still, "time.max_dt=0.7") == (0.7, 0.7)
    longest, first = steps_of("viscosity=0.25")
    assert first < 0.1 * longest, "a flow that moves has the steps of its Courant number"
    with pytest.raises(CaseError, match=r"'time\.max_dt'"):
        load(FlowCase, "taylor-green", {}, ["time.dt=0.1", "time.max_dt=0.7"])


# --- figures -------------------------------------------------------------------------------------------------------


def test_iterations_are_those_of_the_slowest_component() -> None:
    figures = {"pressure_iterations": 4, "velocity_iterations": [2, 5, 3], "scalar_iterations": []}
    found = iterations(figures)
    assert found == {"pressure_iterations": 4, "velocity_iterations": 5}
    assert summary([found, {**found, "pressure_iterations": 2}])["pressure"] == {"mean": 3.0, "largest": 4}


@pytest.mark.parametrize("workload", ["flow", "turbulence"])
def test_an_end_before_the_checkpoint_is_refused_and_leaves_the_folder_as_it_is(tmp_path, workload: str) -> None:
    box = BOX if workload == "flow" else ["--grid", 16, "--device", "host"]
    words = ["run", workload, *box, "--set", "time.dt=0.01", "--output", tmp_path]
    assert run_weft(1, *words, "--steps", 2, "--set", "checkpoint.at_end=true").returncode == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    done = run_weft(1, *words, "--restart", tmp_path / "checkpoints", "--end", 0.01)
    assert done.returncode == 1
    assert "'time.end': found 0.01, but the checkpoint is at time 0.02; allowed: not before that" in done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    # A run that was stopped in its last step continues, to write what it writes at the end.
    assert run_weft(1, *words, "--restart", tmp_path / "checkpoints", "--end", 0.02).returncode == 0


def test_tolerances_that_are_large_in_the_units_of_a_case_are_told(tmp_path) -> None:
    # Poiseuille flow from rest, in a channel of 1 or of 1e-6 units: the tolerances of the first are those of residuals.
    def words(size: float, tolerance: float, steps: int) -> list[object]:
        keys = [f"mesh.lower=[0, {-size}, 0]", f"mesh.upper=[{4 * size}, {size}, {size}]", "mesh.counts=[2,2,1]",
                f"viscosity={0.1 * size}", f'exact.velocity=["1 - (y / {size})**2", 0, 0]', 'exact.pressure=""',
                "initial.velocity=[0, 0, 0]", f"time.dt={0.02 * size}", "statistics.every=1",
                f"solver.pressure_tolerance={tolerance}", f"solver.velocity_tolerance={tolerance}"]  # fmt: skip
        return ["--case", "channel", "--order", 4, "--device", "host", "--set", "exchange=pairwise:direct", "--steps",
                steps, "--quiet", "--output", tmp_path, *(word for key in keys for word in ("--set", key))]  # fmt: skip

    assert run(*words(1, 1e-7, 4), ranks=2).stderr == ""
    done = run(*words(1e-6, 1e-2, 4), ranks=2)
    assert sum("tolerance are not relative" in line for line in said(done)) == 1, done.stderr
    assert run(*words(1e-6, 1e-10, 4)).stderr == ""
    done = run(*words(1e-6, 1e-2, 200), "--set", "statistics.every=1000")
    assert done.returncode == 1  # the flow blows up
    assert len(said(done)) == 1
    assert "tolerance are not relative" in said(done)[0]


def test_a_run_ends_at_its_steps_or_its_time() -> None:
    goal = Goal(10, 0.0, 5, 1.0)
    assert (goal.reached(14, 9.0), goal.reached(15, 9.0), goal.fraction(10, 9.0)) == (False, True, 0.5)
    goal = Goal(0, 3.0, 5, 1.0)
    assert (goal.reached(10**6, 2.9), goal.reached(6, 3.0 - 1e-13), goal.fraction(6, 2.0)) == (False, True, 0.5)


# --- scaling -------------------------------------------------------------------------------------------------------


def row(elements: int, ranks: int, seconds: float) -> dict:
    return {"order": 7, "elements": elements, "ranks": ranks, "seconds_per_step": seconds}


def test_efficiencies_compare_with_the_fewest_ranks() -> None:
    rows = [row(8, 1, 1.0), row(8, 2, 0.625), row(16, 2, 1.25), row(16, 4, 0.625)]
    found = scaling_flow.efficiencies(rows)
    assert [(f["elements"], f["ranks"], f["strong"], f["weak"]) for f in found] == [
        (8, 2, 0.8, None), (16, 2, None, 0.8), (16, 4, 1.0, 1.0),
    ]  # fmt: skip


def test_boxes_of_vortices_have_cubic_elements_and_whole_periods() -> None:
    keys = scaling_flow.vortices([4, 2, 1])
    assert np.allclose(np.array(keys["mesh.upper"]) / [4, 2, 1], scaling_flow.SIDE)
    assert keys["parameters.kx"] * keys["mesh.upper"][0] == pytest.approx(2 * np.pi)


def test_a_sweep_leaves_rows_efficiencies_and_a_plot(tmp_path) -> None:
    words = ["--ranks", "1,2", "--orders", 3, "--elements", "4-4", "--steps", 5, "--output", tmp_path]
    words += ["--set", "exchange=pairwise:staged", "--set", "device=host"]
    words += ["--set", "solver.pressure_tolerance=1e-12"]  # which no step meets from its start
    done = run_weft(1, "bench", "scaling", "flow", *words)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "scaling.json").read_text())
    assert [(r["ranks"], r["elements"], r["points"]) for r in found["rows"]] == [(1, 4, 256), (2, 4, 256)]
    assert all(r["iterations"]["pressure"] > 0 for r in found["rows"])
    assert "STRONG" in done.stdout
    assert (tmp_path / "scaling-flow.png").stat().st_size > 5000
