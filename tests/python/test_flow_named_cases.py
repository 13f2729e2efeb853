"""The cases that come with weft, and those in the documentation, run and stay close to known results."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from weft.cases import FlowCase
from weft.cases.schema import load
from weft.run.flow.problem import Problem, make_mesh

ROOT = Path(__file__).resolve().parents[2]
MESHES = ROOT.parent / "shared" / "data" / "meshes"


def ran(source: str, steps: int, *assignments: str) -> Problem:
    """A case after some steps."""
    case = load(FlowCase, source, {}, ["device=host", *assignments])
    assert isinstance(case, FlowCase)
    problem = Problem(case, make_mesh(case, MPI.COMM_SELF))
    problem.begin()
    for _ in range(steps):
        problem.solver.step(1, problem.next_dt())
    return problem


@pytest.mark.parametrize(
    ("name", "velocity", "pressure"),
    [
        ("ethier", 2e-7, 5e-6),
        ("kovasznay", 5e-6, 2e-4),
        ("channel", 1e-10, 1e-6),
    ],
)
def test_a_case_with_an_exact_solution_stays_near_it(name, velocity, pressure):
    found = ran(name, 10).errors()
    assert found["velocity"] < velocity
    assert found["pressure"] < pressure


def test_ethiers_flow_on_nek5000s_mesh_stays_near_the_exact_one():
    mesh = MESHES / "ethier.re2"
    if not mesh.exists():
        pytest.skip(f"the mesh is not there: {mesh}")
    assert ran("ethier", 5, f"mesh.file={mesh}").errors()["velocity"] < 2e-6


def test_the_lid_of_a_cavity_sets_the_fluid_in_motion_and_feels_its_drag():
    problem = ran("cavity", 10, "order=5")
    found = problem.solver.statistics(forces=("y+", "y-"))
    assert 0 < found["energy"] < 0.05
    assert found["u_largest"] == pytest.approx(1.0, abs=1e-3)
    assert found["force_y+_x"] < -10 * abs(found["force_y-_x"])  # the flow exerts drag on the lid
    assert abs(found["w_largest"]) < 1e-6  # the symmetry planes keep the flow plane


def test_a_layer_heated_from_below_is_lighter_there_and_begins_to_turn():
    problem = ran("rayleigh-benard", 10, "order=4")
    solver = problem.solver
    found = solver.statistics()
    assert found["temperature_smallest"] == pytest.approx(0, abs=2e-3)
    assert found["temperature_largest"] == pytest.approx(1, abs=2e-3)
    assert found["temperature_mean"] == pytest.approx(0.5, abs=1e-3)
    x, _, z = solver.coordinates()
    w = solver.velocity()[2]
    inside = (np.abs(z - 0.5) < 0.3) & (np.abs(np.cos(np.pi * x)) > 0.5)
    assert np.all(w[inside] * np.cos(np.pi * x[inside]) > 0)  # up where it was disturbed to be warmer


def test_the_hemisphere_of_nek5000_is_pushed_along_by_the_flow():
    mesh = MESHES / "hemi.re2"
    if not mesh.exists():
        pytest.skip(f"the mesh is not there: {mesh}")
    problem = ran("hemi", 3, f"mesh.file={mesh}", "order=3", "time.dt=0.002")
    assert problem.boundaries["SYM"].condition == "symmetry"
    found = problem.solver.statistics(forces=("W",))
    assert found["force_W_x"] > 0
    assert found["energy"] == pytest.approx(0.5, abs=0.1)


BLOCKS = re.findall(r"```(toml|python)\n(.*?)```", (ROOT / "docs" / "flow-cases.md").read_text(), re.DOTALL)
SHOWN = [text for kind, text in BLOCKS if kind == "toml"]


@pytest.mark.parametrize("number", range(len(SHOWN)))
def test_a_case_the_documentation_shows_runs(tmp_path, monkeypatch, number):
    (tmp_path / "case.toml").write_text(SHOWN[number])
    (tmp_path / "profile.py").write_text(next(text for kind, text in BLOCKS if kind == "python"))
    monkeypatch.chdir(tmp_path)
    problem = ran("case.toml", 5)
    found = problem.solver.statistics(forces=problem.case.statistics.forces)
    assert np.isfinite(list(found.values())).all()
    assert found["energy"] > 0
    errors = problem.errors()
    if problem.case.exact.velocity:
        assert errors["velocity"] < 1e-4
