"""Probes of flows: interpolation at points, lines and planes, series of a run on several ranks and after a restart."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi4py import MPI
from mpi_run import messages, run_weft

import weft
from weft import flow
from weft.cases import CaseError, FlowCase, load
from weft.flow_probes import Probes, line, plane
from weft.mesh import MeshError
from weft.mesh_io.probes import Places

COMM = MPI.COMM_SELF


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 7), st.integers(0, 2**31))
def test_polynomials_up_to_the_order_of_a_deformed_element_are_interpolated_exactly(order: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    mesh = weft.Mesh.box((2, 2, 2), upper=(1, 2, 1.5), deformation="smooth", deformation_parameter=0.08, comm=COMM)
    n = order + 1
    nodes = np.asarray(weft._weft.mesh.gll(order)[0])
    r, s, t = np.meshgrid(nodes, nodes, nodes, indexing="ij")  # of [k][j][i]: t, s, r in turn
    powers = random.integers(0, n, (3, 3))
    reference = np.stack([r ** p[0] * s ** p[1] * t ** p[2] for p in powers], axis=-1)
    fields = reference * random.uniform(-1, 1, (8, 1, 1, 1, 3))
    coordinates = np.asarray(mesh.point_coordinates(order)).reshape(8, n, n, n, 3)
    # Places known by element and reference coordinates; the elements' polynomials say where they are.
    element, at = random.integers(0, 8, 5), random.uniform(-0.999, 0.999, (5, 3))
    from weft.mesh_io.locate import lagrange, tensor

    basis = [lagrange(order, at[:, d])[0] for d in range(3)]  # along t, s, r
    where = np.stack(
        [tensor(coordinates[e], *(b[p : p + 1] for b in reversed(basis)))[0] for p, e in enumerate(element)]
    )
    found = Places(mesh, order, {"all": where})
    values = found.gather(found.of_rank(fields))
    factor = fields[element, 0, 0, 0] / reference[0, 0, 0]
    exact = np.prod(at[:, None, :] ** powers, axis=-1) * factor
    np.testing.assert_allclose(values, exact, atol=1e-9)


def test_values_at_probes_converge_exponentially_with_the_order() -> None:
    mesh = weft.Mesh.box((2, 2, 1), upper=(2, 2, 1), deformation="smooth", comm=COMM)
    sets = {"p": (0.3, 1.7, 0.2), "line": line((0, 0, 0.1), (2, 2, 0.9), 7), "plane": plane((0, 0, 0), (2, 0, 0),
            (0, 2, 1), (4, 3))}  # fmt: skip
    errors = []
    for order in (4, 8):
        x, y, z = np.asarray(mesh.point_coordinates(order)).reshape(4, order + 1, order + 1, order + 1, 3).T
        fields = (np.sin(2 * x) * np.exp(y) + z).T[..., None]
        places = Places(mesh, order, sets)
        assert places.rows == {"p": slice(0, 1), "line": slice(1, 8), "plane": slice(8, 20)}
        values = places.gather(places.of_rank(fields))
        x, y, z = places.where.T
        errors.append(np.abs(values[:, 0] - np.sin(2 * x) * np.exp(y) - z).max())
        of_line = places.part("line")
        np.testing.assert_allclose(of_line.gather(of_line.of_rank(fields)), values[1:8], rtol=1e-14)
    assert errors[0] < 0.1
    assert errors[1] < errors[0] / 50


def test_probes_of_a_solver_have_the_columns_of_their_fields() -> None:
    mesh = weft.Mesh.box((2, 2, 1), lower=(0, -1, 0), upper=(3, 1, 0.5), periodic=(False, False, True), comm=COMM)
    boundaries = {"x-": ("velocity", ("1 - y**2", 0, 0)), "x+": "outflow", "y-": "wall", "y+": "wall"}
    solver = flow.Solver(mesh, 4, viscosity=0.1, boundaries=boundaries, scalars={"heat": flow.Scalar(1.0)})
    solver.set_velocity(lambda x, y, z, t: (1 - y**2, 0 * x, 0 * x))
    solver.set_scalar("heat", lambda x, y, z, t: x * y)
    probes = Probes(solver, {"p": (1, 0.3, 0.1), "q": line((0, -1, 0), (3, 1, 0), 3)}, {"p": ["heat", "velocity"],
                    "q": ["vorticity"]})  # fmt: skip
    assert probes.columns == {"p": ["heat", "u", "v", "w"], "q": ["vorticity_x", "vorticity_y", "vorticity_z"]}
    values = probes.values()
    np.testing.assert_allclose(values["p"], [[0.3, 0.91, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(values["q"], [[0, 0, -2], [0, 0, 0], [0, 0, 2]], atol=1e-10)
    assert list(probes.values(["q"])) == ["q"]
    with pytest.raises(ValueError, match="probe 'p': field 'salt' is not one of: velocity, pressure, vorticity, heat"):
        Probes(solver, {"p": (1, 0.3, 0.1)}, ["salt"])


def test_every_probe_outside_the_mesh_is_named_in_one_error() -> None:
    places = {"in": (0.5, 0.5, 0.5), "out": (2, 0, 0), "line": line((0.5, 0.5, 0.5), (0.5, 1.5, 0.5), 3)}
    text = r"probes outside box.*: 'out' at \[2.0, 0.0, 0.0\]; 'line' at \[0.5, 1.5, 0.5\]$"
    with pytest.raises(MeshError, match=text):
        Places(weft.Mesh.box(1, comm=COMM), 3, places)


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


CASE = """
workload = "flow"
order = 4
viscosity = 0.1
device = "host"
exchange = "pairwise:staged"
output.slice = "none"
checkpoint.every = 2
time = { dt = 0.01, steps = 4 }
initial.velocity = ["1 - y**2", "0.1 * sin(x) * (1 - y**2)", 0]
[mesh]
counts = [3, 2, 1]
lower = [0, -1, 0]
upper = [3, 1, 1]
periodic = [false, false, true]
[boundaries]
"x-" = { condition = "velocity", velocity = ["1 - y**2", 0, 0] }
"x+" = { condition = "outflow" }
"*" = { condition = "wall" }
[probes]
p = { at = [1, 0.25, 0.5], fields = ["vorticity", "pressure"] }
across = { at = [1.5, -1, 0.5], to = [1.5, 1, 0.5], counts = [5, 2], every = 2 }
"""


def test_series_on_ranks_and_after_a_restart_are_those_of_one_run(tmp_path) -> None:
    case = tmp_path / "case.toml"
    case.write_text(CASE)
    for ranks, folder in ((1, "one"), (2, "two")):
        done = run_weft(ranks, "run", "flow", "--case", case, "--quiet", "--output", tmp_path / folder)
        assert done.returncode == 0, done.stderr
    one, two = (rows(tmp_path / folder / "probe-p.csv") for folder in ("one", "two"))
    assert one[0] == ["step", "time", "x", "y", "z", "vorticity_x", "vorticity_y", "vorticity_z", "pressure"]
    assert [row[0] for row in one[1:]] == ["0", "1", "2", "3", "4"]
    np.testing.assert_allclose(np.array(one[1:], float), np.array(two[1:], float), atol=1e-6)
    across = np.array(rows(tmp_path / "one" / "probe-across.csv")[1:], float)
    assert across[:, 0].tolist() == [0] * 5 + [2] * 5 + [4] * 5
    np.testing.assert_allclose(across[:5, 5], 1 - across[:5, 3] ** 2, atol=1e-12)

    # Continued in the same folder from step 2: steps 3 and 4 are written again, in place of the old rows.
    before = (tmp_path / "two" / "probe-p.csv").read_text(), (tmp_path / "two" / "probe-across.csv").read_text()
    start = tmp_path / "two" / "checkpoints" / "checkpoint-00000002"
    words = ["--case", case, "--quiet", "--output", tmp_path / "two", "--restart", start, "--steps", 2]
    done = run_weft(2, "run", "flow", *words)
    assert done.returncode == 0, done.stderr
    after = (tmp_path / "two" / "probe-p.csv").read_text(), (tmp_path / "two" / "probe-across.csv").read_text()
    assert before == after

    case.write_text(CASE + "out = { at = [4, 0, 0.5] }\nlow = { at = [1, 0, 0.5], to = [1, -2, 0.5], counts = [3] }")
    done = run_weft(2, "run", "flow", "--case", case, "--output", tmp_path / "bad")
    assert done.returncode == 1
    assert len(messages(done.stderr)) == 1
    assert "case key 'probes': probes outside box" in done.stderr
    assert "'out' at [4.0, 0.0, 0.5]; 'low' at [1.0, -2.0, 0.5]" in done.stderr.replace("\n", " ")
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (["probes.p.fields=['velocity']"], "at = \\[\\]; allowed: three coordinates"),
        (["probes.p.at=[0,0,0]", "probes.p.fields=['heat']"], "'probes.p.fields': found 'heat'; allowed: velocity"),
        (["probes.p.at=[0,0,0]", "probes.p.to=[0,0,0]"], "has no length; give two different ends"),
        (["probes.p.at=[0,0,0]", "probes.p.to=[1,0,0]", "probes.p.across=[2,0,0]"], "lie on one line"),
        (["probes.p.at=[0,0,0]", "probes.p.across=[2,0,0]"], "'across' is given without 'to'"),
        (["probes.p.at=[0,0,0]", "probes.p.to=[1,0,0]", "probes.p.counts=[1,5]"], "at least 2 points"),
        (
            ["probes.p.at=[0,0,0]", "probes.p.to=[1,0,0]", "probes.p.across=[0,1,0]", "probes.p.counts=[5]"],
            "at least 2 points along each side",
        ),
        (["probes.a/b.at=[0,0,0]"], "cannot be the name of a probe"),
        (["output.average_over=['x']"], "set output.averages_every"),
        (["output.average_over=['x','x']", "output.averages_every=1"], "one or two different directions"),
    ],
)
def test_probes_and_averages_that_cannot_be_are_one_line_that_names_the_key(keys: list[str], text: str) -> None:
    with pytest.raises(CaseError, match=text) as caught:
        load(FlowCase, "channel", {}, keys)
    assert "\n" not in str(caught.value)
