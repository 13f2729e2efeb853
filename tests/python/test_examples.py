"""The examples run as their pages say, at a small size, and come close to their references."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

import pytest
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


GALLERY = runpy.run_path(str(EXAMPLES.parent / "benchmarks" / "gallery.py"))
SMALL = {  # what makes the runs of a page short, and the scripts that make or solve something
    "cavity": "--order 3 --steps 20 --set output.pixels=32",
    "channel": "--order 2 --set mesh.counts=[2,4,2] --set parameters.Re=200 --set time.courant=1",
    "cylinder": "--order 2 --steps 12 --set output.pixels=32 --set output.movie=6",
    "eddies": "--order 3 --steps 5 --set output.pixels=32",
    "forced": "--set grid=16 --steps 20",
    "heated_cavity": "--order 3 --steps 20 --set output.pixels=32",
    "mie": "--order 2 --set time.end=0.5 --set output.pixels=32",
    "own_exchange": "16",
    "own_poisson": "2 5",
    "taylor_green": "--set grid=16 --steps 30 --set statistics.every=2",
    "waveguide": "--order 3 --set output.pixels=32",
    "wing": "--order 2 --set output.pixels=32",
}


def test_every_example_has_a_page_and_a_small_size():
    assert sorted(SMALL) == sorted(page.parent.name for page in EXAMPLES.glob("*/README.md"))


@pytest.mark.parametrize("name", SMALL)
def test_the_commands_of_the_page_of_an_example_run_and_make_its_picture(name, tmp_path):
    folder = tmp_path / name
    keep = shutil.ignore_patterns("result", "start", "jacobi", "*.msh", "*.png")
    shutil.copytree(EXAMPLES / name, folder, ignore=keep)
    shutil.copy(EXAMPLES / "quadrangles.py", tmp_path)
    for command in GALLERY["commands"]((EXAMPLES / name / "README.md").read_text()):
        long = command.startswith("weft run") or name.startswith("own")
        printed, _ = GALLERY["run"](f"{command} {SMALL[name]}" if long else command, folder)
    assert printed.strip()
    if name in GALLERY["PICTURES"]:
        GALLERY["picture"](name, folder)
        assert (folder / f"{name}.png").stat().st_size > 3000


def test_the_figures_of_every_page_are_those_of_the_results_file():
    results = json.loads((EXAMPLES.parent / "benchmarks" / "results" / "gallery.json").read_text())
    for name in SMALL:
        page = (EXAMPLES / name / "README.md").read_text()
        assert [line for line in results[name]["prints"] if line not in page] == [], name
        if name in GALLERY["PICTURES"]:
            assert (EXAMPLES / name / f"{name}.png").stat().st_size < 150_000, name
