"""The examples run as their pages say, at a small size, and come near what they compare with."""

from __future__ import annotations

import runpy
from pathlib import Path

from mpi4py import MPI
from test_mesh_files import real

from weft.cases import FlowCase
from weft.cases.schema import load
from weft.run.flow.problem import Problem, make_mesh

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def errors_of_eddies(order: int, *assignments: str) -> dict[str, float]:
    """The errors of Walsh's eddies after 5 steps."""
    case = load(FlowCase, str(EXAMPLES / "eddies" / "case.toml"), {"order": order}, ["device=host", *assignments])
    assert isinstance(case, FlowCase)
    problem = Problem(case, make_mesh(case, MPI.COMM_SELF))
    problem.begin()
    for _ in range(5):
        problem.solver.step(1, problem.next_dt())
    return problem.errors()


def test_the_error_of_eddies_falls_exponentially_with_the_order(tmp_path):
    make = runpy.run_path(str(EXAMPLES / "eddies" / "make_mesh.py"))["main"]
    make(8, str(tmp_path / "eddies.msh"))
    found = [errors_of_eddies(order, f"mesh.file={tmp_path / 'eddies.msh'}")["velocity"] for order in (3, 5, 7)]
    assert found[0] > 8 * found[1], found
    assert found[1] > 8 * found[2], found


def test_the_error_of_eddies_on_nek5000s_mesh_falls_exponentially_with_the_order():
    mesh = (f"mesh.file={real('eddy_uv.rea')}", 'mesh.map=["2*pi*x", "2*pi*y", "z"]', "mesh.geometry_order=1")
    found = [errors_of_eddies(order, *mesh)["velocity"] for order in (3, 5, 7)]
    assert found[0] > 50 * found[1], found
    assert found[1] > 50 * found[2], found
    # The unit square itself is not the domain.
    assert errors_of_eddies(3, *mesh[:1])["velocity"] > 0.1
