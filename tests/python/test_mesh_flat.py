"""2-D and conjugate meshes: files of other programs have the right boundaries and areas.

Extrusions close their ends.
"""

from __future__ import annotations

import math

import mesh_writers as nek
import numpy as np
import pytest
from test_mesh_files import check_numbering, euler, faces_named, msh2, real, refusal, volume

from weft import Mesh
from weft.mesh import MeshError
from weft.mesh_io import Extrusion


def area(mesh: Mesh) -> float:
    return volume(mesh) / np.ptp(mesh.point_coordinates(1)[..., 2])


def test_eddy_uv_rea_is_a_doubly_periodic_square():
    mesh = Mesh.read(real("eddy_uv.rea"))
    assert (mesh.global_elements, mesh.straight, mesh.boundary_names) == (256, True, [])
    assert area(mesh) == pytest.approx(1)
    assert np.ptp(mesh.point_coordinates(1)[..., 2]) == pytest.approx(1 / 16)  # as wide as the elements
    assert euler(mesh) == 0
    check_numbering(mesh, tolerance=1e-5)


def test_benard_2d_rea_has_its_walls_and_its_area():
    mesh = Mesh.read(real("benard_2d.rea"))
    assert mesh.global_elements == 9
    assert faces_named(mesh) == {"W": 18}
    assert area(mesh) == pytest.approx(1)


def test_mv_cyl_2d_re2_has_its_conditions():
    mesh = Mesh.read(real("mv_cyl_2d.re2"))
    assert mesh.global_elements == 150
    assert faces_named(mesh) == {"SYM": 30, "W": 10, "v": 10}
    x = mesh.point_coordinates(1).reshape(-1, 3)
    assert area(mesh) == pytest.approx(np.prod(np.ptp(x, axis=0)[:2]), rel=1e-6)
    check_numbering(mesh)


def test_ktauchannel_re2_keeps_the_faces_that_its_case_names_later():
    mesh = Mesh.read(real("ktauChannel.re2"))
    assert faces_named(mesh) == {"SYM": 5, "W": 5, "unnamed": 120}


def test_conj_ht_re2_is_96_elements_of_fluid_and_96_of_solid():
    mesh = Mesh.read(real("conj_ht.re2"))
    assert (mesh.global_elements, mesh.tag_names) == (192, {"fluid": 0, "solid": 1})
    assert np.bincount(mesh.element_tags).tolist() == [96, 96]
    assert {name: count for name, count in faces_named(mesh).items() if count} == {"I": 72, "O": 12, "v": 12}
    fluid = Mesh.read(real("conj_ht.re2"), region="fluid")
    assert fluid.global_elements == 96
    assert {name: count for name, count in faces_named(fluid).items() if count} == {"W": 48, "O": 12, "v": 12}
    assert volume(fluid, 3) == pytest.approx(0.5 * volume(mesh, 3))


def test_a_conjugate_mesh_keeps_its_wall_for_the_fluid_and_its_temperature_for_the_solid(tmp_path):
    corners, conditions = nek.rectangle((2, 2))
    wall = (0, nek.SIDES[3]), (1, nek.SIDES[3])
    fluid = {key: value for key, value in conditions.items() if key[0] < 2} | {key: ("W", [0.0] * 5) for key in wall}
    thermal = {key: ("t" if key[0] >= 2 else "I", [0.0] * 5) for key in conditions}
    data = nek.re2(corners, fluid, fluid=2, thermal=thermal)
    path = nek.write(tmp_path / "conjugate.re2", data)
    whole, part = Mesh.read(path), Mesh.read(path, region="fluid")
    assert faces_named(whole) == {"O": 2, "W": 1, "t": 4, "v": 1}
    assert faces_named(part) == {"O": 2, "W": 3, "t": 0, "v": 1}
    assert faces_named(Mesh.read(path, region=1)) == {"O": 0, "W": 0, "t": 4, "v": 0, "unnamed": 2}
    with pytest.raises(MeshError, match="no region 'gas'; it has: fluid, solid"):
        Mesh.read(path, region="gas")


@pytest.mark.parametrize("suffix", ["re2", "rea"])
def test_a_2d_nek_mesh_with_curved_sides_has_the_area_of_its_arcs(tmp_path, suffix):
    # A square of side 2, whose four sides bulge as arcs of radius 3.
    corners = np.array([[[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]]])
    arcs = [(0, side, [3.0], "C") for side in range(4)]
    angle = 2 * math.asin(1 / 3)
    exact = 4 + 4 * 9 / 2 * (angle - math.sin(angle))
    conditions = {(0, side): ("W", [0.0] * 5) for side in range(4)}
    path = nek.write(tmp_path / f"disc.{suffix}", getattr(nek, suffix)(corners, conditions, arcs))
    disc = Mesh.read(path, extrude=Extrusion(layers=3, length=2.0), geometry_order=12)
    assert volume(disc, 13) == pytest.approx(2 * exact, rel=1e-10)
    assert faces_named(disc) == {"W": 12}
    middle = [(0, 0, [0.0, -1.5], "m")]
    path = nek.write(tmp_path / f"parabola.{suffix}", getattr(nek, suffix)(corners, conditions, middle))
    segment = 2 / 3 * 2 * 0.5
    assert volume(Mesh.read(path, extrude=Extrusion(2, 3.0))) == pytest.approx(3 * (4 + segment))


@pytest.mark.parametrize(
    ("ends", "names", "characteristic"),
    [("periodic", {}, 0), ("symmetry", {"SYM": 12}, 0), ("named", {"z-": 6, "z+": 6}, 0)],
)
def test_an_extrusion_closes_its_ends_as_asked(tmp_path, ends, names, characteristic):
    corners, conditions = nek.rectangle((3, 2), periodic=(True, False), upper=(3.0, 2.0))
    path = nek.write(tmp_path / "flat.re2", nek.re2(corners, conditions))
    mesh = Mesh.read(path, extrude=Extrusion(4, 8.0, ends))
    sides = {"SYM": 12, "O": 12}
    if ends == "symmetry":
        names = {"SYM": 24}
    assert faces_named(mesh) == sides | names
    assert mesh.global_elements == 24
    assert volume(mesh, 2) == pytest.approx(48)
    assert euler(mesh) == characteristic
    check_numbering(mesh)


def test_one_periodic_layer_is_the_default_and_3d_meshes_are_not_extruded(tmp_path):
    corners, conditions = nek.rectangle((4, 2), upper=(8.0, 1.0))
    mesh = Mesh.read(nek.write(tmp_path / "flat.rea", nek.rea(corners, conditions)))
    assert np.ptp(mesh.point_coordinates(1)[..., 2]) == pytest.approx(1.0)  # elements of 2 x 1/2
    assert faces_named(mesh) == {"O": 4, "SYM": 4, "W": 2, "v": 2}
    solid = nek.write(tmp_path / "solid.re2", nek.re2(*nek.box((2, 2, 2))))
    with pytest.raises(MeshError, match="3-D already, and cannot be extruded"):
        Mesh.read(solid, extrude=Extrusion())
    with pytest.raises(MeshError, match="left-handed"):
        Mesh.read(nek.write(tmp_path / "left.re2", nek.re2(corners[:, [1, 0, 3, 2]], conditions)))
    assert "outside 1..4" in refusal(tmp_path / "side.re2", nek.re2(corners, {(0, 5): ("W", [0.0] * 5)}))


SQUARE = [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 0), (1, 1, 0), (2, 1, 0)]


def test_gmsh_quadrangles_in_either_direction_are_extruded_with_named_and_periodic_lines(tmp_path):
    lines = [(1, 2, [1, 4]), (1, 1, [1, 2]), (1, 1, [2, 3])]
    cells = [(3, [1, 2, 5, 4]), (3, [2, 5, 6, 3])]  # counterclockwise, clockwise
    text = msh2(SQUARE, cells).replace('2 1 "one"', '1 1 "one"').replace('2 2 "two"', '1 2 "two"')
    text = text.replace("$Elements\n2\n", "$Elements\n5\n" + "".join(
        f"{10 + k} {kind} 2 {tag} {tag} {a} {b}\n" for k, (kind, tag, (a, b)) in enumerate(lines)
    ))  # fmt: skip
    mesh = Mesh.read(nek.write(tmp_path / "flat.msh", text), extrude=Extrusion(2, 3.0))
    assert faces_named(mesh) == {"two": 2, "one": 4, "unnamed": 6}
    assert volume(mesh, 2) == pytest.approx(6)
    check_numbering(mesh)
    pairs = "$Periodic\n1\n1 2 3\n2\n1 3\n4 6\n$EndPeriodic\n"
    torus = Mesh.read(nek.write(tmp_path / "periodic.msh", text + pairs), extrude=Extrusion(2, 3.0))
    assert faces_named(torus) == {"one": 4, "unnamed": 4}
    assert euler(torus) == 0
    check_numbering(torus)


@pytest.mark.parametrize("kind", [10, 16])
def test_gmsh_quadrangles_of_second_order_are_curved_in_the_plane(tmp_path, kind):
    # One quadrangle whose lower side is a parabola through (1/2, -1/4); quadrangles of 8 and 9 nodes.
    points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0.5, -0.25, 0), (1, 0.5, 0), (0.5, 1, 0), (0, 0.5, 0)]
    points += [(0.5, 0.375, 0)] * (kind == 10)
    nodes = list(range(1, len(points) + 1))
    for mirrored in (False, True):
        order = np.array([0, 3, 2, 1, 7, 6, 5, 4, 8])[: len(nodes)] if mirrored else np.arange(len(nodes))
        path = nek.write(tmp_path / "curved.msh", msh2(points, [(kind, [nodes[k] for k in order])]))
        mesh = Mesh.read(path, extrude=Extrusion(2, 6.0, "named"))
        assert mesh.geometry_order == 2
        assert volume(mesh) == pytest.approx(6 * (1 + 2 / 3 * 0.25))
        check_numbering(mesh)
