"""Meshes from arrays and meshio objects agree with their input, and maps move points as they say."""

from __future__ import annotations

import math

import mesh_writers as nek
import meshio
import numpy as np
import pytest
from mpi_run import mpi_prints
from test_mesh_files import check_numbering, euler, faces_named, real, volume

from weft import Mesh
from weft.mesh import MeshError

VTK = [0, 1, 3, 2, 4, 5, 7, 6]


def box(counts, upper=(1.0, 1.0, 1.0)):
    """Points, hexahedra in VTK's order, and the faces on x = 0 and at the other end."""
    corners, _ = nek.box(counts, upper=upper)
    points, ids = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    cells = ids.reshape(-1, 8)
    low = cells[points[cells][:, 0, 0] == 0][:, [0, 2, 6, 4]]
    high = cells[points[cells][:, 1, 0] == upper[0]][:, [1, 3, 7, 5]]
    return points, cells[:, VTK], {"left": low, "right": high}


def test_arrays_become_a_mesh_with_named_and_unnamed_faces():
    points, cells, faces = box((3, 2, 2), upper=(3.0, 1.0, 1.0))
    mesh = Mesh.from_arrays(points, cells, faces, regions=np.arange(12) % 2)
    assert faces_named(mesh) == {"left": 4, "right": 4, "unnamed": 24}
    assert np.bincount(mesh.element_tags).tolist() == [6, 6]
    assert volume(mesh, 2) == pytest.approx(3)
    check_numbering(mesh)
    loop = Mesh.from_arrays(points, cells, faces, periodic=[("left", "right")])
    assert faces_named(loop) == {"left": 0, "right": 0, "unnamed": 24}
    assert euler(loop) == 0
    check_numbering(loop)


def test_arrays_of_20_and_27_nodes_are_curved():
    # A cube whose lower front edge bulges down by 1/4: the volume grows by a third of a parabola's segment.
    at = np.array([[i, j, k] for k in range(3) for j in range(3) for i in range(3)]) / 2.0
    between = [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4], [0, 4], [1, 5], [2, 6], [3, 7]]
    corner = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]], float)
    twenty = np.concatenate([corner, [corner[pair].mean(axis=0) for pair in between]])
    twenty[8, 2] -= 0.25
    mesh = Mesh.from_arrays(twenty, np.arange(20)[None])
    assert mesh.geometry_order == 2
    assert volume(mesh) == pytest.approx(1 + 2 / 3 * 0.25 / 2)
    faces = [[0, 3, 7, 4], [1, 2, 6, 5], [0, 1, 5, 4], [2, 3, 7, 6], [0, 1, 2, 3], [4, 5, 6, 7]]
    full = np.concatenate([twenty, [corner[face].mean(axis=0) for face in faces], [[0.5, 0.5, 0.5]]])
    full[8, 2] += 0.25
    straight = Mesh.from_arrays(full, np.arange(27)[None])
    assert volume(straight) == pytest.approx(1)
    assert np.allclose(np.sort(straight.point_coordinates(2)[0], axis=0), np.sort(at, axis=0))


def test_a_meshio_mesh_is_the_mesh_of_its_file():
    path = real("pipe.msh")
    ours, theirs = Mesh.read(path), Mesh.from_meshio(meshio.read(path))
    assert faces_named(ours) == faces_named(theirs)
    assert volume(theirs) == pytest.approx(volume(ours))
    assert theirs.tag_names == ours.tag_names


# The nodes of Exodus in VTK's numbers: corners, edges of the bottom, risers, edges of the top, the centre, then the
# faces t-, t+, r-, r+, s-, s+.
EXODUS = [*range(12), *range(16, 20), *range(12, 16), 26, 24, 25, 20, 21, 22, 23]


@pytest.mark.parametrize("count", [20, 27])
@pytest.mark.parametrize("mirrored", [False, True])
def test_meshio_meshes_in_the_order_of_other_formats_are_the_same_mesh(count, mirrored):
    corners = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)]
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4), (0, 4), (1, 5), (2, 6), (3, 7)]
    between = [*edges, (0, 3, 7, 4), (1, 2, 6, 5), (0, 1, 5, 4), (2, 3, 7, 6), (0, 1, 2, 3), (4, 5, 6, 7), range(8)]
    at = np.array([*corners, *(np.mean([corners[c] for c in ends], axis=0) for ends in between)])[:count]
    at[:, 2] += 0.2 * at[:, 0] ** 2 + 0.1 * at[:, 1]
    cells = np.arange(count)[None]
    vtk = Mesh.from_meshio(meshio.Mesh(at, [(f"hexahedron{count}", cells)]))
    other = cells[:, EXODUS[:count]]
    if mirrored:
        other = np.concatenate([other[:, 4:8], other[:, :4], other[:, 8:]], axis=1)
    mesh = Mesh.from_meshio(meshio.Mesh(at, [(f"hexahedron{count}", other)]))
    assert np.allclose(mesh.point_coordinates(2), vtk.point_coordinates(2), atol=1e-14)
    assert volume(mesh) == pytest.approx(volume(vtk))


def test_meshio_cell_sets_name_boundaries():
    points, cells, faces = box((2, 1, 1))
    quads = np.concatenate(list(faces.values()))
    sets = {"in": [np.array([0]), np.array([], int)]}
    source = meshio.Mesh(points, [("quad", quads), ("hexahedron", cells)], cell_sets=sets)
    assert faces_named(Mesh.from_meshio(source)) == {"in": 1, "unnamed": 9}
    with pytest.raises(MeshError, match=r"needs hexahedra of one kind .*; it has: quad"):
        Mesh.from_meshio(meshio.Mesh(points, [("quad", quads)]))


def test_a_boundary_may_have_no_faces_and_regions_are_whole_numbers():
    points, cells, _ = box((1, 1, 1))
    for none in ([], np.empty((0, 4), int)):
        assert Mesh.from_arrays(points, cells, {"inlet": none}).boundary_names == ["inlet", "unnamed"]
    assert Mesh.from_arrays(points, cells, regions=np.array([7], np.uint8)).element_tags.tolist() == [7]
    for tag in (7.5, 2**70):
        with pytest.raises(MeshError, match="whole numbers"):
            Mesh.from_arrays(points, cells, regions=[tag])


def test_bad_arrays_are_refused():
    points, cells, faces = box((2, 1, 1))
    with pytest.raises(MeshError, match=r"points have the shape \(12, 2\)"):
        Mesh.from_arrays(points[:, :2], cells)
    with pytest.raises(MeshError, match=r"hexahedra have the shape \(2, 4\)"):
        Mesh.from_arrays(points, cells[:, :4])
    with pytest.raises(MeshError, match="refer to points 1 to 12, but there are points 0 to 11"):
        Mesh.from_arrays(points, cells + 1)
    with pytest.raises(MeshError, match="left-handed"):
        Mesh.from_arrays(points, cells[:, [4, 5, 6, 7, 0, 1, 2, 3]])
    with pytest.raises(MeshError, match=r"face 0 .* of 'left' is not a face of any hexahedron"):
        Mesh.from_arrays(points, cells, {"left": [cells[0, [0, 1, 6, 7]]]})
    with pytest.raises(MeshError, match="in two boundaries, 'left' and 'also'"):
        Mesh.from_arrays(points, cells, {**faces, "also": faces["left"]})
    with pytest.raises(MeshError, match="periodic boundary 'top' is not defined; defined: left, right"):
        Mesh.from_arrays(points, cells, faces, periodic=[("left", "top")])
    pushed = points.copy()
    pushed[points[:, 0] == 1, 1] *= 1.5
    with pytest.raises(MeshError, match="not the same up to a shift"):
        Mesh.from_arrays(pushed, cells, faces, periodic=[("left", "right")])
    apart = np.concatenate([points[cells[0]], points[cells[1]]])
    with pytest.raises(MeshError, match="torn face"):
        Mesh.from_arrays(apart, np.arange(16).reshape(2, 8))


def test_arrays_and_maps_work_on_several_ranks():
    code = """
        import numpy as np, weft
        from mpi4py import MPI
        mesh = weft.Mesh.box((4, 2, 2), periodic=(True, False, False))
        moved = mesh.mapped(lambda x, y, z: (x, y + 0.1 * np.sin(2 * np.pi * x) * (1 - y), 2 * z), geometry_order=9)
        total = MPI.COMM_WORLD.allreduce(moved.mass_matrix(9).sum())
        try:
            mesh.mapped(lambda x, y, z: (x, y, np.where(x > 0.9, np.nan, z)))  # on one rank only
        except weft.mesh.MeshError as error:
            found = MPI.COMM_WORLD.allgather(str(error)[-38:])
        if MPI.COMM_WORLD.rank == 0:
            print(round(total, 9), found[0] == found[1], found[0])
    """
    assert mpi_prints(2, code).strip() == "2.0 True is moved to a place that is not finite"


def test_a_map_bends_a_box_into_a_quarter_ring():
    mesh = Mesh.box((2, 3, 1)).mapped(
        lambda x, y, z: ((1 + x) * np.cos(math.pi / 2 * (1 - y)), (1 + x) * np.sin(math.pi / 2 * (1 - y)), -z)
    )
    assert mesh.geometry_order == 7
    assert volume(mesh) == pytest.approx(math.pi / 4 * 3, rel=1e-8)
    assert faces_named(mesh) == faces_named(Mesh.box((2, 3, 1)))
    for function, text in [
        (lambda x, y, z: (x, y), "returned 2 values, but 3 are needed"),
        (lambda x, y, z: (x, y, x[:1] / 0), "not finite|failed"),
        (lambda x, y, z: (x, y, undefined), "the function failed: NameError"),  # noqa: F821
    ]:
        with pytest.raises(MeshError, match=text), np.errstate(all="ignore"):
            mesh.mapped(function)
    with pytest.raises(MeshError, match="has Jacobian -"):
        mesh.mapped(lambda x, y, z: (-x, y, z)).mass_matrix(3)
