"""`weft mesh` describes the mesh correctly, and files that it writes read back as the same mesh."""

from __future__ import annotations

import math
from pathlib import Path

import mesh_writers as nek
import numpy as np
import pytest
from click.testing import CliRunner, Result
from matplotlib.image import imread
from test_mesh_files import OWN, faces_named, volume

from weft import Mesh
from weft.cli.mesh import mesh as command
from weft.mesh_io import Extrusion, read_raw
from weft.mesh_io.quality import quality
from weft.mesh_io.re2 import write_re2


def weft_mesh(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="weft mesh")


def disc(folder: Path) -> Path:
    """A square of side 2 whose sides are arcs of radius 3; one side is not named."""
    corners = np.array([[[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]]])
    arcs = [(0, side, [3.0], "C") for side in range(4)]
    conditions = {(0, side): ("W", [0.0] * 5) for side in range(3)}
    return nek.write(folder / "disc.re2", nek.re2(corners, conditions, arcs))


def test_it_shows_elements_boundaries_area_and_quality(tmp_path):
    picture = tmp_path / "disc.png"
    result = weft_mesh(disc(tmp_path), "--layers", 2, "--length", 3, "--picture", picture)
    assert result.exit_code == 0, result.output
    angle = 2 * math.asin(1 / 3)
    area = 4 + 4 * 9 / 2 * (angle - math.sin(angle))
    for text in (
        "disc.re2: 2-D, quadrilaterals", "curved sides (geometry of order 7), 4 arcs", "2 layers, 3 in all along z",
        "1 pairs of faces, shift (0, 0, 3)", f"{area:.7g}", "boundaries.unnamed",
    ):  # fmt: skip
        assert text in result.output
    rows = [line.split() for line in result.output.splitlines()]
    length = 3 * angle
    assert ["W", "6", f"{3 * 3 * length:.6g}"] in rows
    assert ["unnamed", "2", f"{3 * length:.6g}"] in rows
    assert imread(picture).std() > 0.01


def test_it_shows_regions_periodic_pairs_and_a_picture_in_space(tmp_path):
    corners, conditions = nek.box((2, 2, 2), periodic=(True, False, False))
    walls = {key: value for key, value in conditions.items() if key[0] < 4}
    path = nek.write(tmp_path / "two.re2", nek.re2(corners, walls, fluid=4, thermal=conditions))
    result = weft_mesh(path, "--picture", tmp_path / "two.png")
    assert result.exit_code == 0, result.output
    assert "fluid (4 elements), solid (4 elements)" in result.output
    assert "4 pairs of faces, shift (1, 0, 0)" in result.output
    assert "mesh.region" in result.output
    assert imread(tmp_path / "two.png").std() > 0.01
    part = weft_mesh(path, "--region", "solid")
    assert "4, straight sides" in part.output
    assert "volume    0.5" in part.output


def test_quality_of_a_sheared_and_stretched_box_is_known():
    # x = r + s: columns (1, 0, 0), (1, 1, 0), (0, 0, 4): scaled Jacobian 1 / sqrt(2), longest edge 4.
    mesh = Mesh.box((2, 1, 1), upper=(2, 1, 1)).mapped(lambda x, y, z: (x + y, y, 4 * z), geometry_order=1)
    found = quality(mesh)
    assert found.scaled_jacobian == pytest.approx([math.sqrt(0.5)] * 2)
    assert found.jacobian_ratio == pytest.approx([1, 1])
    assert found.edge_ratio == pytest.approx([4, 4])
    assert found.volumes == pytest.approx([4, 4])


def test_a_folded_mesh_is_shown_and_exits_with_1(tmp_path):
    corners, conditions = nek.box((3, 1, 1), upper=(3.0, 1.0, 1.0))
    pushed = [(1, 8, [2.6, 0.5, 0.5], "m"), (0, 9, [2.6, 0.5, 0.5], "m")]
    result = weft_mesh(nek.write(tmp_path / "fold.re2", nek.re2(corners, conditions, pushed)))
    assert result.exit_code == 1
    assert "1 elements have a Jacobian of 0 or less" in result.output
    assert "element 1 at (" in result.output


@pytest.mark.parametrize(
    "code", ["      ym1(i,1,1,1) = 2*ym1(i,1,1,1)", "      call rescale_x(zm1,0.,1.)", "", "c     xm1(i) = 0"]
)
def test_user_code_that_moves_the_mesh_is_named(tmp_path, code):
    path = disc(tmp_path)
    (tmp_path / "case.usr").write_text(
        "      subroutine usrdat2\n" + code + "\n      if (xm1(i,1,1,1).eq.0) return\n      end\n"
    )
    found = weft_mesh(path).output
    assert ("case.usr next to it moves its points (line 2)" in found) == code.startswith(" ")


@pytest.mark.parametrize("name", ["quarter_41_binary.msh", "quarter_22_serendipity.msh", "quarter_41_order1.msh"])
def test_a_gmsh_mesh_is_the_same_as_re2(tmp_path, name):
    result = weft_mesh("convert", OWN / name, tmp_path / "quarter.re2")
    assert result.exit_code == 0, result.output
    assert "boundary 'inner' is MSH" in result.output
    ours, theirs = Mesh.read(OWN / name), Mesh.read(tmp_path / "quarter.re2")
    assert sorted(faces_named(ours).values()) == sorted(faces_named(theirs).values())
    assert volume(theirs) == pytest.approx(volume(ours), rel=1e-6)
    assert theirs.global_points(4) == ours.global_points(4)


@pytest.mark.parametrize("flat", [False, True])
def test_what_it_writes_as_re2_reads_back_as_it_was(tmp_path, flat):
    if flat:
        corners, conditions = nek.rectangle((3, 2), periodic=(True, False))
        curves = [(0, side, [2.0], "C") for side in range(4)] + [(2, 2, [0.8, 0.52], "m")]
    else:
        corners, conditions = nek.box((3, 2, 2), periodic=(False, True, False))
        curves = [(0, side, [2.0], "C") for side in range(8)] + [
            (2, side, [0.9, 0.2, 0.2 + 0.01 * side], "m") for side in range(12)
        ]
        curves += [(3, 5, [0.2, 0.8, 0.0, 0.6], "s")]
    thermal = {key: ("t", value[1]) if value[0] != "P" else value for key, value in conditions.items()}
    walls = {key: value for key, value in conditions.items() if key[0] < 3}
    data = nek.re2(corners, walls | {(2, nek.SIDES[3]): ("W", [0.0] * 5)}, curves, fluid=3, thermal=thermal)
    raw = read_raw(nek.write(tmp_path / "a.re2", data))
    write_re2(tmp_path / "b.re2", raw)
    back = read_raw(tmp_path / "b.re2")
    for name in ("vertices", "nodes", "tags"):
        assert np.array_equal(getattr(raw, name), getattr(back, name)), name

    def marks(mesh):
        return np.array([*mesh.boundary_names, "-"])[mesh.boundaries - 1]

    assert np.array_equal(marks(raw), marks(back))
    assert sorted(map(tuple, raw.periodic.tolist())) == sorted(map(tuple, back.periodic.tolist()))
    assert raw.interfaces[:, :2].tolist() == back.interfaces[:, :2].tolist()

    def bends(mesh):
        return sorted(
            (*side, *values) for side, values in zip(mesh.curve_sides.tolist(), mesh.curve_values.tolist(), strict=True)
        )

    assert bends(raw) == bends(back)


def test_extrude_writes_a_3d_mesh_and_convert_keeps_2d(tmp_path):
    flat = disc(tmp_path)
    assert "1 elements, 2-D" in weft_mesh("convert", flat, tmp_path / "flat.re2").output
    assert read_raw(tmp_path / "flat.re2").flat
    result = weft_mesh("extrude", flat, tmp_path / "solid.re2", "--layers", 3, "--length", 2, "--ends", "named")
    assert result.exit_code == 0, result.output
    solid = Mesh.read(tmp_path / "solid.re2")
    assert faces_named(solid) == {"W": 9, "z+": 1, "z-": 1, "unnamed": 3}
    assert volume(solid) == pytest.approx(volume(Mesh.read(flat, extrude=Extrusion(3, 2.0))), rel=1e-12)
    assert weft_mesh("convert", flat, tmp_path / "flat.vtu").exit_code == 0
    assert (tmp_path / "flat.vtu").stat().st_size > 10_000


def test_wrong_use_is_one_line(tmp_path):
    path = disc(tmp_path)
    solid = nek.write(tmp_path / "solid.re2", nek.re2(*nek.box((1, 1, 1))))
    for arguments, text in (
        ([path, "--picture", "mesh.jpeg"], "allowed: a name that ends in .png, .pdf or .svg"),
        ([path, "--layers", 0], "at least 1 layer"),
        (["convert", path, tmp_path / "mesh.stl"], "weft writes .re2 and .vtu"),
        ([solid, "--layers", 2], "3-D already"),
        (["extrude", solid, tmp_path / "b.re2"], "3-D already"),
        ([path, "--region", "gas"], "no region 'gas'"),
        ([tmp_path / "absent.re2"], "absent.re2"),
    ):
        result = weft_mesh(*arguments)
        assert result.exit_code != 0
        assert text in result.output + str(result.exception), arguments
