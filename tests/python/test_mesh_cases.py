"""The mesh keys of cases: extrusion, region and map work in every workload on elements."""

from __future__ import annotations

import importlib
from pathlib import Path

import mesh_writers as nek
import numpy as np
import pytest
from mpi4py import MPI
from test_mesh_files import faces_named, volume

from weft.cases import FlowCase, case_model
from weft.cases.schema import load
from weft.errors import CaseError
from weft.mesh import Mesh
from weft.mpi import CollectiveError
from weft.run import elements
from weft.run.flow.problem import make_mesh

WORKLOADS = ["poisson", "maxwell", "flow"]


def made(workload: str, *assignments: str) -> Mesh:
    problem = importlib.import_module(f"weft.run.{workload}.problem")
    return problem.make_mesh(load(case_model(workload), None, {}, assignments), MPI.COMM_SELF)


def flat(folder: Path) -> Path:
    return nek.write(folder / "flat.re2", nek.re2(*nek.rectangle((3, 2), upper=(3.0, 2.0))))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_extrusion_and_map_shape_the_mesh(tmp_path, workload):
    (tmp_path / "case.py").write_text("def wide(x, y, z):\n    return 2 * x, y, z\n")
    keys = [
        f"mesh.file={flat(tmp_path)}",
        "mesh.extrude.layers=2",
        "mesh.extrude.length=4",
        'mesh.extrude.ends="named"',
    ]
    mesh = made(workload, *keys)
    assert volume(mesh, 2) == pytest.approx(24)
    assert faces_named(mesh) == {"O": 6, "SYM": 6, "W": 4, "v": 4, "z+": 6, "z-": 6}
    moved = made(workload, *keys, 'mesh.map=["x + 0.1*sin(2*pi*y)", "3*y", "z"]', "mesh.geometry_order=10")
    assert moved.geometry_order == 10
    assert volume(moved) == pytest.approx(72)
    file = f"functions.file={tmp_path / 'case.py'}"
    assert volume(made(workload, *keys, "mesh.map=python:wide", file), 3) == pytest.approx(48)
    with pytest.raises(ValueError, match=r"no function 'tall'; it has: wide"):
        made(workload, *keys, "mesh.map=python:tall", file)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_mesh_keys_that_cannot_be_used_are_refused(workload):
    for keys, text in (
        (["mesh.extrude.layers=2"], "'mesh.extrude': it is for mesh files"),
        (["mesh.region=fluid"], "'mesh.region': it is for mesh files"),
        (['mesh.map=["x", "y", "t"]'], "'t' is not known"),
        (["mesh.map=stretch"], "allowed: three expressions, or python:name"),
        (["mesh.map=python:f"], "functions.file is not set"),
        (["functions.file=a.py"], "no value of the case refers to a function in it"),
    ):
        with pytest.raises(CaseError, match=text.replace("(", r"\(")):
            load(case_model(workload), None, {}, keys)


def test_a_flow_on_a_conjugate_mesh_takes_the_fluid_alone(tmp_path):
    corners, conditions = nek.box((2, 2, 2))
    path = nek.write(tmp_path / "two.re2", nek.re2(corners, conditions, fluid=4, thermal=conditions))

    def case(*more: str) -> FlowCase:
        found = load(FlowCase, None, {}, [f"mesh.file={path}", *more])
        assert isinstance(found, FlowCase)
        return found

    with pytest.raises(CollectiveError, match=r'4 of its 8 elements are solid.*set mesh.region = "fluid"'):
        make_mesh(case(), MPI.COMM_SELF)
    assert make_mesh(case("mesh.region=fluid"), MPI.COMM_SELF).global_elements == 4


def test_a_mesh_that_user_code_moves_is_warned_of_unless_a_map_does_the_same(tmp_path):
    path = flat(tmp_path)
    (tmp_path / "flat.usr").write_text("      subroutine usrdat2\n      call rescale_x(xm1,0.,1.)\n      end\n")

    def warning(*more: str) -> str:
        case = load(case_model("poisson"), None, {}, [f"mesh.file={path}", *more])
        return elements.moved_by_user_code(case, made("poisson", f"mesh.file={path}", *more))  # type: ignore[arg-type]

    assert "flat.usr next to it moves its points (line 2); set mesh.map" in warning()
    assert warning('mesh.map=["x / 3", "y", "z"]') == ""
    (tmp_path / "flat.usr").unlink()
    assert warning() == ""


def test_points_of_a_map_are_those_of_the_function():
    mesh = Mesh.box((2, 2, 2))
    x, y, z = np.moveaxis(mesh.point_coordinates(5), -1, 0)
    moved = mesh.mapped(lambda x, y, z: (x + y * z, y, z**2), geometry_order=5).point_coordinates(5)
    assert np.allclose(moved, np.stack([x + y * z, y, z**2], axis=-1), atol=1e-15)
