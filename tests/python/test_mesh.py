"""weft.Mesh: the box generator and the public attributes, on one rank and on several."""

from __future__ import annotations

import numpy as np
import pytest
from mpi_run import mpi_run

import weft
from weft import Mesh


def test_box_takes_one_number_or_three():
    cube, box = Mesh.box(2), Mesh.box((1, 2, 3), lower=(-1, 0, 0), upper=(1, 2, 3), periodic=(False, True, False))
    assert (cube.elements, cube.global_elements, cube.source) == (8, 8, "box 2 x 2 x 2")
    assert box.point_coordinates(3).shape == (6, 64, 3)
    x = box.point_coordinates(2).reshape(-1, 3)
    assert np.array_equal(x.min(axis=0), [-1, 0, 0])
    assert np.array_equal(x.max(axis=0), [1, 2, 3])
    assert box.global_points(2) == 3 * 4 * 7
    assert box.boundary_names == ["x-", "x+", "y-", "y+", "z-", "z+"]
    assert np.array_equal(np.bincount(box.boundaries.ravel(), minlength=7), [36 - 12 - 4, 6, 6, 0, 0, 2, 2])
    assert repr(box) == "Mesh(box 1 x 2 x 3: 6 of 6 elements)"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"counts": 0}, "every count must be at least 1"),
        ({"counts": (2, 2)}, "counts must be one value or three, found 2"),
        ({"counts": (2, 2.5, 2)}, "counts must be whole numbers"),
        ({"counts": 2, "upper": (1, 1, 0)}, "direction z goes from"),
        ({"counts": 2, "deformation": "kershw"}, 'unknown deformation "kershw"; known: none, smooth, kershaw'),
        ({"counts": 2, "deformation": "kershaw", "deformation_parameter": 1.5}, "must be in (0, 1]"),
        ({"counts": 2, "deformation": "kershaw", "periodic": True}, "cannot be periodic in x"),
    ],
)
def test_bad_boxes_are_refused_with_the_remedy(options, text):
    with pytest.raises(ValueError, match="box") as error:
        Mesh.box(**options)
    assert text in str(error.value)


@pytest.mark.parametrize("order", [0, 16, -3])
def test_orders_outside_1_to_15_are_refused_by_every_method(order):
    mesh = Mesh.box(1)
    for method in (mesh.point_ids, mesh.point_coordinates, mesh.global_points, mesh.geometric_factors):
        with pytest.raises(ValueError, match=f"order {order} .* between 1 and 15"):
            method(order)


def test_smooth_deformation_leaves_the_volume_and_the_surface():
    mesh = Mesh.box((4, 3, 3), upper=(2, 1, 1), deformation="smooth")
    assert not mesh.straight
    _, mass = mesh.geometric_factors(8)
    assert mass.sum() == pytest.approx(2, rel=1e-12)
    moved = abs(mesh.point_coordinates(8) - Mesh.box((4, 3, 3), upper=(2, 1, 1)).point_coordinates(8))
    assert moved.max() > 0.05
    assert moved[mesh.points_on_boundary(8).astype(bool)].max() < 1e-14
    with pytest.raises(weft.mesh.MeshError, match=r"box 4 x 3 x 3: element \d+ \(counting from 0\) has Jacobian -"):
        Mesh.box((4, 3, 3), deformation="smooth", deformation_parameter=0.3).geometric_factors(8)


def test_kershaw_planes_are_those_of_the_published_map():
    # eps = 0.3: at x = 0 the lower half of y takes 0.15 of the width, at x = 1 the upper half; from x = 1/3 to 2/3 it
    # swings back, so that x = 1/2 is the plain average.
    x = Mesh.box((12, 4, 4), deformation="kershaw").point_coordinates(1).reshape(-1, 3)

    def planes(at: float) -> np.ndarray:
        return np.unique(x[abs(x[:, 0] - at) < 1e-12, 1].round(12))

    left, right = np.array([0, 0.075, 0.15, 0.575, 1]), np.array([0, 0.425, 0.85, 0.925, 1])
    assert planes(0) == pytest.approx(left)
    assert planes(1 / 6) == pytest.approx(left)
    assert planes(1 / 3) == pytest.approx(right)
    assert planes(1 / 2) == pytest.approx((left + right) / 2)
    assert planes(2 / 3) == pytest.approx(left)
    assert planes(5 / 6) == pytest.approx(right)
    assert planes(1) == pytest.approx(right)


def test_ids_of_a_mesh_and_of_its_neighbour_rank_agree():
    code = """
        import numpy as np, weft
        from mpi4py import MPI
        world = MPI.COMM_WORLD
        for sub in (world, MPI.COMM_SELF):
            mesh = weft.Mesh.box((5, 4, 3), periodic=(True, False, False), deformation="smooth", comm=sub)
            assert mesh.comm.size == sub.size
            ids, x = mesh.point_ids(4).ravel(), mesh.point_coordinates(4).reshape(-1, 3).round(9) % [1, 2, 2]
            place = {}
            for share in sub.allgather(list(zip(ids.tolist(), map(tuple, x.tolist())))):
                for i, p in share:
                    assert place.setdefault(i, p) == p
            assert len(place) == mesh.global_points(4) == 20 * 17 * 13
        world.Barrier()
        if world.rank == 0: print("fine")
    """
    for ranks in (1, 2, 3, 4):
        result = mpi_run(ranks, code)
        assert result.returncode == 0, result.stderr
        assert "fine" in result.stdout


def test_more_ranks_than_elements_fails_on_every_rank_with_one_message():
    code = "import weft, weft.mpi\nweft.mpi.install_excepthook()\nweft.Mesh.box(1)"
    result = mpi_run(2, code)
    assert result.returncode != 0
    assert (
        result.stderr.strip() == "weft: box: 2 ranks, but the box has only 1 elements; use fewer ranks or a finer box"
    )
