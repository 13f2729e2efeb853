"""The meshes of concentric spheres and of cylinders, and the regions of elements that mesh files name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mpi_run import mpi_run

from weft import Mesh
from weft.mesh import MeshError

HERE = Path(__file__).parent
SHARED_MESHES = HERE.resolve().parents[2] / "shared" / "data" / "meshes"


def ball(radius: float) -> float:
    return 4 / 3 * np.pi * radius**3


def test_regions_of_the_sphere_have_the_volumes_of_balls_shells_cube_and_box() -> None:
    mesh = Mesh.sphere([0.5, 0.8], side=2, layers=[2, 1], half_width=1.2, box_layers=[0.2, 0.3])
    mass = mesh.mass_matrix(8)
    volume = [mass[mesh.element_tags == tag].sum() for tag in (1, 2, 3, 4)]
    expected = [ball(0.5), ball(0.8) - ball(0.5), 2.4**3 - ball(0.8), 3.4**3 - 2.4**3]
    assert volume == pytest.approx(expected, abs=1e-9)
    assert mesh.elements == 8 + 4 * 24 + (6**3 - 2**3)


def test_the_outer_boundary_of_a_sphere_is_its_surface_and_nothing_else() -> None:
    mesh = Mesh.sphere([1.0], side=2)
    assert mesh.boundary_names == ["outer"]
    at = mesh.points_on_boundary(7).astype(bool)
    assert np.linalg.norm(mesh.point_coordinates(7)[at], axis=1) == pytest.approx(1.0, abs=1e-7)
    assert (mesh.boundaries > 0).sum() == 24


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"radii": []}, "radii"),
        ({"radii": [1.0, 0.5]}, "must be above 0 and ascend"),
        ({"radii": [1.0], "layers": [0]}, "at least 1 layer"),
        ({"radii": [1.0], "half_width": 0.9}, "is too small"),
        ({"radii": [1.0], "box_layers": [0.1]}, "need a cube"),
    ],
)
def test_numbers_that_make_no_sphere_are_one_error(options, text) -> None:
    with pytest.raises(MeshError, match=text):
        Mesh.sphere(**options)


@pytest.mark.parametrize(("layers", "periodic"), [(1, True), (3, False)])
def test_a_cylinder_has_its_volume_its_wall_and_its_ends(layers, periodic) -> None:
    mesh = Mesh.cylinder(1.5, 2.0, side=2, layers=layers, slices=2, periodic=periodic)
    assert mesh.mass_matrix(8).sum() == pytest.approx(np.pi * 1.5**2 * 2.0, abs=1e-7)
    assert mesh.boundary_names == (["wall"] if periodic else ["wall", "z-", "z+"])
    assert [(mesh.boundaries == b).sum() for b in (1, 2, 3)] == [16, *(2 * [0 if periodic else 4 + 8 * layers])]
    wall = Mesh.cylinder(1.5, 2.0, layers=layers, periodic=True)
    at = wall.points_on_boundary(7).astype(bool)
    assert np.hypot(*wall.point_coordinates(7)[at][:, :2].T) == pytest.approx(1.5, abs=1e-7)


def test_numbers_that_make_no_cylinder_are_one_error() -> None:
    with pytest.raises(MeshError, match="a cylinder needs"):
        Mesh.cylinder(1.0, 1.0, slices=0)


def test_tags_go_with_their_elements_on_every_rank() -> None:
    done = mpi_run(
        3,
        """
        import numpy as np
        from mpi4py import MPI
        from weft import Mesh

        mesh = Mesh.sphere([0.5, 0.8], side=2, comm=MPI.COMM_WORLD)
        mass = mesh.mass_matrix(6)
        inside = mesh.comm.allreduce(mass[mesh.element_tags == 1].sum())
        if mesh.comm.rank == 0:
            assert abs(inside - 4 / 3 * np.pi * 0.125) < 1e-7, inside
        """,
    )
    assert done.returncode == 0, done.stderr


def test_a_gmsh_volume_is_a_region_with_its_name() -> None:
    mesh = Mesh.read(HERE / "meshes" / "quarter_41_ascii.msh")
    assert set(mesh.element_tags.tolist()) == set(mesh.tag_names.values())
    assert len(mesh.tag_names) == 1


@pytest.mark.skipif(not SHARED_MESHES.is_dir(), reason=f"no {SHARED_MESHES}")
@pytest.mark.parametrize("name", ["cylwave.rea", "3dboxper.re2"])
def test_elements_of_a_nek_mesh_have_the_groups_of_the_file(name) -> None:
    mesh = Mesh.read(SHARED_MESHES / name)
    assert mesh.element_tags.tolist() == [0] * mesh.elements
