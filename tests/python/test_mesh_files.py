"""Meshes from files: every format and every real file loads with the right counts; errors say where a file is bad."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mesh_writers as nek
import meshio
import numpy as np
import pytest
from mpi_run import mpi_prints, mpi_run

from weft import Mesh
from weft.mesh import MeshError

OWN = Path(__file__).parent / "meshes"
REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "meshes"


def real(name: str) -> Path:
    if not (REAL / name).exists():
        pytest.skip(f"../shared/data/meshes/{name} is not beside this checkout")
    return REAL / name


def check_numbering(mesh: Mesh, order: int = 3, tolerance: float = 1e-9) -> None:
    """Ids are 1..global_points; points of one id coincide, up to whole extents of the mesh in periodic directions."""
    ids, x = mesh.point_ids(order).ravel(), mesh.point_coordinates(order).reshape(-1, 3)
    assert np.array_equal(np.unique(ids), np.arange(1, mesh.global_points(order) + 1))
    extent = np.ptp(x, axis=0)
    low, high = np.full((ids.max() + 1, 3), np.inf), np.full((ids.max() + 1, 3), -np.inf)
    for d in range(3):
        np.minimum.at(low[:, d], ids, x[:, d])
        np.maximum.at(high[:, d], ids, x[:, d])
    gap = (high - low)[1:]
    assert np.minimum(gap, abs(gap - extent)).max() < tolerance


def euler(mesh: Mesh) -> int:
    core = mesh._core
    return core.global_vertices - core.global_edges + core.global_faces - core.global_elements


def faces_named(mesh: Mesh) -> dict[str, int]:
    return {name: int((mesh.boundaries == k + 1).sum()) for k, name in enumerate(mesh.boundary_names)}


def volume(mesh: Mesh, order: int = 9) -> float:
    return mesh.mass_matrix(order).sum()


# The files that weft's authors did not write.


def test_kershaw_re2_is_a_cube_of_8000_elements_with_one_outer_boundary():
    mesh = Mesh.read(real("kershaw.re2"))
    assert (mesh.global_elements, mesh.straight) == (8000, True)
    assert faces_named(mesh) == {"O": 2400}
    assert volume(mesh, 2) == pytest.approx(6.0**3, rel=1e-12)
    assert euler(mesh) == 1
    assert mesh.global_points(7) == 141**3
    check_numbering(mesh)


def test_hemi_re2_has_the_volume_of_its_box_less_hemisphere_and_step():
    mesh = Mesh.read(real("hemi.re2"))
    assert (mesh.global_elements, mesh.straight, mesh.geometry_order) == (2042, False, 7)
    assert faces_named(mesh) == {"O": 38, "SYM": 736, "W": 428, "v": 30}
    x = mesh.point_coordinates(1).reshape(-1, 3)
    box = np.prod(np.ptp(x, axis=0))
    missing = 2 / 3 * math.pi * 0.5**3 + 0.05 * math.pi * 0.5**2
    assert volume(mesh) == pytest.approx(box - missing, abs=2e-6)
    assert euler(mesh) == 1
    check_numbering(mesh, tolerance=5e-7)  # single precision: arcs and spheres meet to that


def test_ethier_re2_is_a_ball_with_midside_nodes_on_the_unit_sphere():
    mesh = Mesh.read(real("ethier.re2"))
    assert (mesh.global_elements, mesh.geometry_order) == (32, 2)
    assert faces_named(mesh) == {"EXO 1": 24}
    assert euler(mesh) == 1
    check_numbering(mesh)
    # The corners and the midside nodes of the outer faces are on the sphere; the middles of the faces are inside.
    x, outer = mesh.point_coordinates(2), mesh.points_on_boundary(2).astype(bool)
    radius = np.linalg.norm(x[outer], axis=1)
    assert radius.max() == pytest.approx(1, abs=1e-6)
    assert (abs(radius - 1) < 1e-6).mean() == pytest.approx(8 / 9)
    assert 0.98 * 4 / 3 * math.pi < volume(mesh) < 4 / 3 * math.pi


def test_3dboxper_re2_is_a_torus_of_128_elements():
    mesh = Mesh.read(real("3dboxper.re2"))
    assert (mesh.global_elements, mesh.boundary_names, mesh.straight) == (128, [], True)
    assert (mesh.boundaries == 0).all()
    assert volume(mesh, 2) == pytest.approx(8)
    assert (mesh._core.global_vertices, mesh._core.global_faces, euler(mesh)) == (128, 3 * 128, 0)
    check_numbering(mesh)


def test_cylwave_rea_is_a_periodic_cylinder_with_circular_sides():
    mesh = Mesh.read(real("cylwave.rea"))
    assert (mesh.global_elements, mesh.geometry_order) == (50, 7)
    assert faces_named(mesh) == {"PEC": 40}
    assert euler(mesh) == 0  # a solid torus: the ends are one
    check_numbering(mesh)
    exact = math.pi * 8**2 * 10
    errors = [abs(volume(Mesh.read(real("cylwave.rea"), geometry_order=q), 10) - exact) for q in (1, 2, 3, 5)]
    assert errors[1] < 0.05 * errors[0]
    assert errors[2] < 0.2 * errors[1]
    assert errors[3] < 5e-6 * exact  # the file's corners have six digits


def test_cubehex_msh_has_the_default_boundary_name_of_its_physical_surface():
    mesh = Mesh.read(real("cubeHex.msh"))
    assert (mesh.global_elements, mesh.straight) == (216, True)
    assert faces_named(mesh) == {"Inflow": 216}
    assert volume(mesh, 2) == pytest.approx(8)
    assert euler(mesh) == 1
    check_numbering(mesh)


def test_pipe_msh_is_binary_second_order_with_named_boundaries():
    mesh = Mesh.read(real("pipe.msh"))
    assert (mesh.global_elements, mesh.geometry_order) == (960, 2)
    assert faces_named(mesh) == {"Wall": 320, "Inlet": 48, "Outlet": 48}
    assert volume(mesh) == pytest.approx(math.pi * 0.5**2 * 7, rel=1e-4)
    assert euler(mesh) == 1
    check_numbering(mesh)


NUMBERED = ["hemi.re2", "cylwave.rea", "pipe.msh", "3dboxper.re2"]


@pytest.fixture(scope="module")
def figures_by_ranks():
    """For 1 to 4 ranks, the figures of each real mesh by its path and the partitioner."""
    code = """
        import json, sys, numpy as np, weft
        from mpi4py import MPI
        world = MPI.COMM_WORLD
        found = {}
        for path in sys.argv[1:]:
            for partitioner in ("metis", "rcb"):
                mesh = weft.Mesh.read(path, partitioner=partitioner)
                # Sums over points of a hash of id and place: the same for any distribution.
                ids, x = mesh.point_ids(3).ravel(), mesh.point_coordinates(3).reshape(-1, 3)
                key = (ids * 2654435761 % 1000003) * (1 + x @ [0.3, 0.7, 1.1])
                counts = (mesh.global_points(3), world.allreduce(mesh.elements),
                          world.allreduce(int((mesh.boundaries > 0).sum())))
                fair = -(-mesh.global_elements // world.size)
                fair_everywhere = world.allreduce(1 <= mesh.elements <= 1.03 * fair + 1, MPI.LAND)
                found[path + partitioner] = (counts, world.allreduce(key.sum()), fair_everywhere)
        if world.rank == 0:
            print(json.dumps(found))
    """
    paths = [str(REAL / name) for name in NUMBERED if (REAL / name).exists()]
    return [json.loads(mpi_prints(ranks, code, *paths)) for ranks in (1, 2, 3, 4)]


@pytest.mark.parametrize("name", NUMBERED)
@pytest.mark.parametrize("partitioner", ["metis", "rcb"])
def test_numbering_of_real_meshes_does_not_depend_on_the_number_of_ranks(figures_by_ranks, name, partitioner):
    path = str(real(name))
    counts, totals, fair = zip(*(found[path + partitioner] for found in figures_by_ranks), strict=True)
    assert counts == (counts[0],) * 4
    assert totals == pytest.approx([totals[0]] * 4, rel=1e-11)
    assert all(fair), "every rank has its share of the elements"


# Nek files that the tests write themselves.


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_re2_of_every_version_and_byte_order(tmp_path, version, order):
    corners, conditions = nek.box((3, 2, 4), upper=(3, 1, 2))
    mesh = Mesh.read(nek.write(tmp_path / "box.re2", nek.re2(corners, conditions, version=version, order=order)))
    assert mesh.global_elements == 24
    assert faces_named(mesh) == {"O": 12, "SYM": 12, "W": 8 + 6 + 6, "v": 8}
    assert volume(mesh, 2) == pytest.approx(6, rel=1e-6)
    check_numbering(mesh, tolerance=1e-6)
    assert sorted(mesh.element_ids) == list(range(24))
    by_id = mesh.point_coordinates(1)[np.argsort(mesh.element_ids)]
    assert np.allclose(by_id, corners, atol=1e-6)


def test_rea_and_re2_of_one_mesh_are_one_mesh(tmp_path):
    corners, conditions = nek.box((3, 3, 2), periodic=(True, False, True))
    curves = [(4, 0, [0.9], "C"), (4, 4, [0.9], "C"), (2, 10, [1.02, 0.4, 0.3], "m")]
    one = Mesh.read(nek.write(tmp_path / "a.re2", nek.re2(corners, conditions, curves)))
    two = Mesh.read(nek.write(tmp_path / "a.rea", nek.rea(corners, conditions, curves)))
    a, b = np.argsort(one.element_ids), np.argsort(two.element_ids)
    assert np.array_equal(one.point_ids(4)[a], two.point_ids(4)[b])
    assert np.allclose(one.point_coordinates(4)[a], two.point_coordinates(4)[b], atol=1e-6)
    assert np.array_equal(one.boundaries[a], two.boundaries[b])
    assert one.boundary_names == two.boundary_names


@pytest.mark.parametrize("flat", [False, True])
def test_nmsh_and_re2_of_one_mesh_are_one_mesh(tmp_path, flat):
    if flat:
        corners, conditions = nek.rectangle((3, 3), periodic=(True, False))
        curves = [(4, 0, [0.9], "C"), (1, 0, [0.5, -0.02], "m")]
    else:
        corners, conditions = nek.box((3, 3, 2), periodic=(True, False, True))
        curves = [(4, 0, [0.9], "C"), (4, 4, [0.9], "C"), (2, 10, [1.02, 0.4, 0.3], "m")]
    one = Mesh.read(nek.write(tmp_path / "a.re2", nek.re2(corners, conditions, curves)))
    two = Mesh.read(nek.write(tmp_path / "a.nmsh", nek.nmsh(corners, conditions, curves)))
    a, b = np.argsort(one.element_ids), np.argsort(two.element_ids)
    assert np.array_equal(one.point_ids(4)[a], two.point_ids(4)[b])
    assert np.array_equal(one.point_coordinates(4)[a], two.point_coordinates(4)[b])
    assert np.array_equal(one.boundaries[a], two.boundaries[b])
    assert one.boundary_names == two.boundary_names


def test_labelled_zones_of_nmsh_are_boundaries_by_number(tmp_path):
    corners, conditions = nek.box((3, 2, 4), upper=(3, 1, 2))
    for key, (code, _) in conditions.items():
        label = {"W": 12, "v": 3}.get(code)
        if label:
            conditions[key] = ("zone", [0.0, 0.0, 0.0, 0.0, float(label)])
    mesh = Mesh.read(nek.write(tmp_path / "box.nmsh", nek.nmsh(corners, conditions)))
    assert faces_named(mesh) == {"O": 12, "SYM": 12, "zone 12": 8 + 6 + 6, "zone 3": 8}
    assert volume(mesh, 2) == pytest.approx(6, rel=1e-12)


def test_bad_nmsh_meshes_are_refused(tmp_path):
    corners, conditions = nek.box((2, 1, 1))
    path, good = tmp_path / "bad.nmsh", nek.nmsh(corners, conditions, [(0, 0, [0.9], "C")])
    zones = 8 + 2 * (4 + 8 * 28)
    assert "it says that the mesh is 5-D" in refusal(path, good[:4] + b"\5" + good[5:])
    assert "is truncated or damaged: 200 elements need" in refusal(path, b"\xc8" + good[1:])
    assert "zones have types" in refusal(path, good[: zones + 36] + b"\x09" + good[zones + 37 :])
    assert "zones refer to a face outside 1..6" in refusal(path, good[: zones + 8] + b"\7" + good[zones + 9 :])
    assert "zones refer to an element outside 1..2" in refusal(path, good[: zones + 4] + b"\3" + good[zones + 5 :])
    assert "is truncated or damaged: 1 curved elements need 532 bytes" in refusal(path, good[:-1])
    one_way = {**conditions, (0, 3): ("P", [2.0, 2.0])}
    assert "inconsistent periodic boundary: face r- of element 0" in refusal(path, nek.nmsh(corners, one_way))
    assert "has curve type 'e'" in refusal(path, nek.nmsh(corners, conditions, [(0, 0, [0.9], "e")]))


@pytest.mark.parametrize("counts", [(1, 1, 1), (2, 1, 3), (1, 2, 2), (3, 3, 3)])
def test_periodic_re2_with_few_elements_is_a_torus(tmp_path, counts):
    corners, conditions = nek.box(counts, periodic=(True, True, True))
    mesh = Mesh.read(nek.write(tmp_path / "torus.re2", nek.re2(corners, conditions)))
    assert mesh._core.global_vertices == np.prod(counts)
    assert euler(mesh) == 0
    assert mesh.global_points(3) == 27 * np.prod(counts)
    check_numbering(mesh)


@pytest.mark.parametrize("side", range(8))
@pytest.mark.parametrize("sign", [1, -1])
def test_every_circular_side_of_nek_bulges_outwards_for_a_positive_radius(tmp_path, side, sign):
    corners, conditions = nek.box((1, 1, 1))
    pair = side % 4
    curves = [(0, pair, [0.7 * sign], "C"), (0, pair + 4, [0.7 * sign], "C")]
    both = Mesh.read(nek.write(tmp_path / "c.re2", nek.re2(corners, conditions, curves)))
    angle = 2 * math.asin(0.5 / 0.7)
    segment = 0.5 * 0.7**2 * (angle - math.sin(angle))
    assert volume(both, 12) == pytest.approx(1 + sign * segment, abs=1e-6)
    alone = Mesh.read(nek.write(tmp_path / "d.re2", nek.re2(corners, conditions, [(0, side, [0.7 * sign], "C")])))
    assert volume(alone, 12) == pytest.approx(1 + sign * segment / 2, abs=2e-3)


def test_midside_nodes_of_all_twelve_nek_edges_land_on_their_edges(tmp_path):
    # Nek's corners are numbered round the bottom, then round the top; edges 1-4, 5-8 follow them, 9-12 rise.
    corners, conditions = nek.box((1, 1, 1))
    nek_corners = corners[0][nek.CORNERS]
    ends = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4), (0, 4), (1, 5), (2, 6), (3, 7)]
    for side, (a, b) in enumerate(ends):
        middle = (nek_corners[a] + nek_corners[b]) / 2 + [0.03, 0.02, 0.01]
        mesh = Mesh.read(nek.write(tmp_path / "m.re2", nek.re2(corners, conditions, [(0, side, middle, "m")])))
        assert mesh.geometry_order == 2
        nodes = mesh.point_coordinates(2)[0]
        assert np.linalg.norm(nodes - middle, axis=1).min() < 1e-12, side
        moved = np.linalg.norm(nodes - Mesh.box(1).point_coordinates(2)[0], axis=1) > 1e-9
        assert moved.sum() == 4  # the edge's middle, two faces' and the element's


@pytest.mark.parametrize("side", range(6))
def test_every_spherical_side_of_nek_is_on_its_sphere(tmp_path, side):
    corners, conditions = nek.box((1, 1, 1))
    centre, radius = [0.5, 0.5, 0.5], math.sqrt(0.75)
    sphere = [(0, side, [*centre, radius], "s")]
    mesh = Mesh.read(nek.write(tmp_path / "s.re2", nek.re2(corners, conditions, sphere)))
    on_sphere = abs(np.linalg.norm(mesh.point_coordinates(7)[0] - centre, axis=1) - radius) < 1e-14
    assert on_sphere.sum() == 64 + 4  # the face, and the corners across


def refusal(path: Path, content: bytes | str | None = None) -> str:
    if content is not None:
        nek.write(path, content)
    with pytest.raises(MeshError) as error:
        Mesh.read(path)
    assert path.name in str(error.value).split(":")[0]
    return str(error.value)


def test_bad_nek_meshes_are_refused_by_element_and_face(tmp_path):
    path = tmp_path / "bad.re2"
    corners, conditions = nek.box((3, 1, 1))

    torn = corners.copy()
    torn[1, 7] += [0.1, 0.0, 0.0]
    assert "torn face: face r+ of element 1 and face r- of element 2" in refusal(path, nek.re2(torn, conditions))

    mirrored = corners.copy()
    mirrored[2] = mirrored[2][[1, 0, 3, 2, 5, 4, 7, 6]]
    text = refusal(path, nek.re2(mirrored, conditions))
    assert "element 2 (counting from 0) is left-handed" in text

    nan = corners.copy()
    nan[1, 3, 2] = np.nan
    assert "element 1 (counting from 0) has coordinates that are not finite" in refusal(path, nek.re2(nan, conditions))

    collapsed = corners.copy()
    collapsed[0, 3] = collapsed[0, 2]
    assert "element 0 (counting from 0) has the same vertex at two corners" in refusal(
        path, nek.re2(collapsed, conditions)
    )

    inside = {**conditions, (1, nek.SIDES[0]): ("W", [0.0] * 5)}
    text = refusal(path, nek.re2(corners, inside))
    assert "face r- of element 1" in text
    assert "(W)" in text

    loop, periodic = nek.box((3, 1, 1), periodic=(True, False, False))
    one_way = {**periodic, (0, nek.SIDES[0]): ("P", [2.0, 2.0, 0, 0, 0])}
    assert "inconsistent periodic boundary: face r- of element 0" in refusal(path, nek.re2(loop, one_way))

    shifted = loop.copy()
    shifted[2, [1, 3, 5, 7], 1] += [0.0, 0.3, 0.0, 0.3]
    assert "corners do not match after a shift" in refusal(path, nek.re2(shifted, periodic))

    nowhere = {**periodic, (0, nek.SIDES[0]): ("P", [9.0, 2.0, 0, 0, 0])}
    assert "which does not exist" in refusal(path, nek.re2(loop, nowhere))

    assert "too small for its chord" in refusal(path, nek.re2(corners, conditions, [(1, 0, [0.1], "C")]))
    assert "has curve type 'e'" in refusal(path, nek.re2(corners, conditions, [(1, 0, [0.1], "e")]))


def test_faces_without_a_condition_are_a_boundary_of_their_own(tmp_path):
    corners, conditions = nek.box((3, 1, 1))
    bare = {k: v for k, v in conditions.items() if k != (2, nek.SIDES[1])}
    mesh = Mesh.read(nek.write(tmp_path / "bare.re2", nek.re2(corners, bare)))
    assert faces_named(mesh) == {"O": 3, "SYM": 3, "W": 7, "unnamed": 1}
    at = np.flatnonzero(mesh.element_ids == 2)[0]
    assert mesh.boundary_names[mesh.boundaries[at, 1] - 1] == "unnamed"


def test_a_mesh_with_hanging_nodes_is_refused(tmp_path):
    fine, _ = nek.box((2, 2, 2))
    coarse, _ = nek.box((1, 1, 1))
    text = refusal(tmp_path / "hanging.re2", nek.re2(np.concatenate([coarse + np.array([1.0, 0.0, 0.0]), fine]), {}))
    assert "not conforming: a corner of element" in text
    assert "is in the middle of face r- of element 0" in text


def test_single_precision_noise_and_thin_elements_do_not_tear_or_glue(tmp_path):
    # 1e-3 thin layers far from the origin, in single precision with noise of its own size.
    corners, conditions = nek.box((4, 40, 2), upper=(1.0, 0.04, 1.0))
    rng = np.random.default_rng(1)
    noisy = corners + np.array([0.0, 5.0, 0.0])
    noisy = noisy * (1 + 1e-7 * rng.uniform(-1, 1, noisy.shape))
    mesh = Mesh.read(nek.write(tmp_path / "thin.re2", nek.re2(noisy, conditions, version=1)))
    assert mesh._core.global_vertices == 5 * 41 * 3
    check_numbering(mesh)


def test_jacobian_that_is_negative_at_some_order_names_the_element(tmp_path):
    corners, conditions = nek.box((3, 1, 1))
    corners[:, :, 0] *= 3
    pushed = [(1, 8, [2.6, 0.5, 0.5], "m")]  # the edge r-, s- of element 1 goes through its other side
    conforming = [*pushed, (0, 9, [2.6, 0.5, 0.5], "m")]
    mesh = Mesh.read(nek.write(tmp_path / "fold.re2", nek.re2(corners, conditions, conforming)))
    with pytest.raises(MeshError, match=r"fold.re2: element 1 \(counting from 0\) has Jacobian -"):
        mesh.geometric_factors(5)


def test_rea_with_its_columns_full_is_read_by_columns(tmp_path):
    # Below 1000 elements edge and element take three columns each, from there on two and six: " 12125", "12  1331".
    for n in (5, 11):
        corners, conditions = nek.box((n, n, n))
        last = n**3 - 1  # its edge 11 rises at the outer corner of the box
        middle = (corners[last, 3] + corners[last, 7]) / 2 + np.array([0.01, 0.01, 0])
        path = nek.write(tmp_path / "box.rea", nek.rea(corners, conditions, [(last, 10, middle, "m")]))
        mesh = Mesh.read(path)
        assert mesh.geometry_order == 2
        nodes = mesh.point_coordinates(2)[mesh.element_ids == last][0]
        assert np.linalg.norm(nodes - middle, axis=1).min() < 1e-6


# Gmsh.


@pytest.mark.parametrize(
    "name",
    [
        *("22_ascii", "22_binary", "40_ascii", "41_ascii", "41_binary", "22_serendipity", "41_order1"),
        *("40_partitioned", "41_partitioned"),
    ],
)
def test_gmsh_files_of_every_flavour_are_the_same_quarter_pipe(name):
    mesh = Mesh.read(OWN / f"quarter_{name}.msh")
    assert mesh.global_elements == 12
    assert faces_named(mesh) == {"inner": 6, "ends": 8, "outer": 6}
    assert euler(mesh) == 0  # periodic along the axis
    assert mesh.tag_names == {"fluid": 1}
    assert (mesh.element_tags == 1).all()
    check_numbering(mesh)
    exact, straight = 3 * math.pi * (4 - 1) / 4, 3 * 3 * math.sin(math.pi / 6) * (4 - 1) / 2
    order = 1 if name.endswith("1") else 2
    assert mesh.geometry_order == order
    assert volume(mesh) == pytest.approx(straight if order == 1 else exact, rel=1e-9 if order == 1 else 2e-4)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("version", ["2.2", "4.0", "4.1"])
def test_gmsh_files_written_by_meshio(tmp_path, version, binary):
    corners, _ = nek.box((2, 2, 2), upper=(1, 2, 3))
    points, ids = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    cells = ids.reshape(-1, 8)[:, [0, 1, 3, 2, 4, 5, 7, 6]]
    low = cells[(points[cells][:, :, 2].min(axis=1) == 0)][:, [0, 1, 2, 3]]
    source = meshio.Mesh(
        points,
        [("quad", low), ("hexahedron", cells)],
        cell_data={
            "gmsh:physical": [np.full(4, 7), np.full(8, 9)],
            "gmsh:geometrical": [np.full(4, 1), np.full(8, 1)],
        },
        field_data={"floor": np.array([7, 2]), "fluid": np.array([9, 3])},
    )
    if version == "4.1":  # meshio takes entities from the nodes: give the floor's nodes to a surface
        source.point_data["gmsh:dim_tags"] = np.where(points[:, 2:] == 0, [2, 1], [3, 1])
    meshio.gmsh.write(tmp_path / "box.msh", source, version, binary)
    mesh = Mesh.read(tmp_path / "box.msh")
    assert mesh.global_elements == 8
    assert volume(mesh, 2) == pytest.approx(6)
    floor = "surface 1" if version == "4.0" else "floor"  # meshio writes no physical groups in 4.0
    assert faces_named(mesh) == {floor: 4, "unnamed": 20}
    check_numbering(mesh)


def msh2(points, cells, quads=(), periodic="") -> str:
    """An ASCII file of version 2.2: ``quads`` are (nodes from 1, physical tag); ``cells`` are (type, nodes from 1)."""
    lines = [
        "$MeshFormat",
        "2.2 0 8",
        "$EndMeshFormat",
        "$PhysicalNames",
        "2",
        '2 1 "one"',
        '2 2 "two"',
        "$EndPhysicalNames",
    ]
    lines += ["$Nodes", str(len(points)), *(f"{k + 1} {x} {y} {z}" for k, (x, y, z) in enumerate(points)), "$EndNodes"]
    elements = [(3, tag, nodes) for nodes, tag in quads] + [(kind, 0, nodes) for kind, nodes in cells]
    lines += ["$Elements", str(len(elements))]
    lines += [f"{k + 1} {kind} 2 {tag} 1 {' '.join(map(str, nodes))}" for k, (kind, tag, nodes) in enumerate(elements)]
    return "\n".join([*lines, "$EndElements", periodic, ""])


CUBE = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)]
HEX = (5, [1, 2, 3, 4, 5, 6, 7, 8])


def test_bad_gmsh_meshes_are_refused(tmp_path):
    path = tmp_path / "bad.msh"
    nek.write(path, msh2(CUBE, [HEX]))
    assert faces_named(Mesh.read(path)) == {"unnamed": 6}

    assert "1 tetrahedra, but weft reads hexahedra only" in refusal(path, msh2(CUBE, [HEX, (4, [1, 2, 3, 5])]))
    assert "neither hexahedra nor quadrangles" in refusal(path, msh2(CUBE, [(1, [1, 2])]))
    assert "not in a plane of constant z" in refusal(path, msh2(CUBE, [], [([1, 2, 6, 5], 1)]))
    assert "1 triangles, but weft reads" in refusal(path, msh2(CUBE, [(2, [1, 2, 3])], [([1, 2, 3, 4], 1)]))
    assert "refer to node 9, which does not exist" in refusal(path, msh2(CUBE, [], [([1, 2, 3, 9], 1)]))
    assert "refer to node 9, which does not exist" in refusal(path, msh2(CUBE, [(5, [1, 2, 3, 4, 5, 6, 7, 9])]))
    assert "left-handed" in refusal(path, msh2(CUBE, [(5, [5, 6, 7, 8, 1, 2, 3, 4])]))
    twice = [([1, 2, 3, 4], 1), ([4, 3, 2, 1], 2)]
    assert "in two boundaries, 'one' and 'two'" in refusal(path, msh2(CUBE, [HEX], twice))
    assert "is not a face of any hexahedron" in refusal(path, msh2(CUBE, [HEX], [([1, 2, 7, 8], 1)]))
    assert "has coordinates that are not finite" in refusal(path, msh2([*CUBE[:7], ("nan", 0, 0)], [HEX]))

    # Two cubes on each other whose nodes were not merged.
    upper = [(x, y, z + 1) for x, y, z in CUBE]
    stacked = [HEX, (5, list(range(9, 17)))]
    text = refusal(path, msh2(CUBE + upper, stacked))
    assert "torn face: face t+ of element 0 and face t- of element 1" in text
    crack = [([5, 6, 7, 8], 1), ([9, 10, 11, 12], 2)]  # both sides have a name: meant so
    nek.write(path, msh2(CUBE + upper, stacked, crack))
    assert faces_named(Mesh.read(path)) == {"one": 1, "two": 1, "unnamed": 10}

    pairs = "$Periodic\n1\n2 1 2\n4\n5 1\n6 2\n7 3\n8 4\n$EndPeriodic"
    nek.write(path, msh2(CUBE, [HEX], [([5, 6, 7, 8], 1)], pairs))
    torus = Mesh.read(path)
    assert faces_named(torus) == {"unnamed": 4}
    assert euler(torus) == 0
    broken = pairs.replace("4\n5 1", "3\n5 1").replace("\n8 4", "")
    assert "inconsistent periodic boundary: face t+ of element 0" in refusal(
        path, msh2(CUBE, [HEX], [([5, 6, 7, 8], 1)], broken)
    )


def test_an_element_in_several_physical_volumes_is_read_once_in_the_first(tmp_path):
    # Version 2 repeats an element for each of its groups; two elements would have no outer face.
    points = CUBE + [(x, y, 2) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1))]
    cells = [HEX, (5, [5, 6, 7, 8, 9, 10, 11, 12]), HEX]
    text = msh2(points, cells).replace(" 5 2 0 1 1 2", " 5 2 7 1 1 2", 1).replace(" 5 2 0 1 5 6", " 5 2 8 1 5 6")
    mesh = Mesh.read(nek.write(tmp_path / "twice.msh", text))
    assert faces_named(mesh) == {"unnamed": 10}
    assert mesh.element_tags.tolist() == [7, 8]
    assert volume(mesh, 1) == pytest.approx(2)
    flat = msh2(CUBE, [(3, [1, 2, 3, 4]), (3, [1, 2, 3, 4])])
    assert Mesh.read(nek.write(tmp_path / "flat.msh", flat)).global_elements == 1


def test_repeated_elements_are_refused(tmp_path):
    corners, conditions = nek.box((2, 1, 1))
    for both in ([0, 1, 1], [1, 0, 1]):
        text = refusal(tmp_path / "twice.re2", nek.re2(corners[both], conditions))
        assert f"element 2 (counting from 0) has the corners of element {both.index(1)} (1 of 3 elements" in text


def test_surfaces_inside_the_mesh_are_no_boundaries(tmp_path):
    points = CUBE + [(x, y, 2) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1))]
    cells = [HEX, (5, [5, 6, 7, 8, 9, 10, 11, 12])]
    mesh = Mesh.read(nek.write(tmp_path / "two.msh", msh2(points, cells, [([5, 6, 7, 8], 1), ([1, 2, 3, 4], 2)])))
    assert faces_named(mesh) == {"two": 1, "unnamed": 9}
    assert mesh._core.global_vertices == 12


# Whatever the format.


def test_absent_empty_and_foreign_files_are_refused(tmp_path):
    assert "No such file" in refusal(tmp_path / "absent.re2")
    for suffix in (".re2", ".rea", ".nmsh", ".msh"):
        refusal(tmp_path / f"empty{suffix}", b"")
        refusal(tmp_path / f"noise{suffix}", bytes(range(256)) * 40)
    assert "unknown mesh format '.stl'; weft reads .re2, .rea, .nmsh, .msh" in refusal(tmp_path / "part.stl", b"solid")
    corners, conditions = nek.box((1, 1, 1))
    line = nek.re2(corners, conditions).replace(b"  3        1", b"  1        1")
    assert "the mesh is 1-D, but it must be 2-D or 3-D" in refusal(tmp_path / "line.re2", line)
    solid = nek.re2(corners, conditions).replace(b"  3        1", b"  3        0")
    assert "0 of 1 elements are fluid" in refusal(tmp_path / "solid.re2", solid)
    nek.write(tmp_path / "ok.re2", nek.re2(corners, conditions))
    with pytest.raises(MeshError, match="unknown partitioner 'scotch'; known: metis, rcb"):
        Mesh.read(tmp_path / "ok.re2", partitioner="scotch")
    with pytest.raises(MeshError, match="order 16"):
        Mesh.read(tmp_path / "ok.re2", geometry_order=16)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_bad_file_is_one_message_and_an_exit_code_on_every_rank(tmp_path, ranks):
    corners, conditions = nek.box((3, 2, 2))
    data = nek.re2(corners, conditions)
    path = nek.write(tmp_path / "cut.re2", data[: len(data) // 2])
    code = """
        import sys
        from mpi4py import MPI
        import weft, weft.mpi
        weft.mpi.install_excepthook()
        weft.Mesh.read(sys.argv[1])
    """
    result = mpi_run(ranks, code, str(path))
    assert result.returncode != 0
    assert result.stderr.count("truncated") == 1
    assert "Traceback" not in result.stderr


def test_more_ranks_than_elements_is_one_message_on_every_rank(tmp_path):
    corners, conditions = nek.box((2, 1, 1))
    path = nek.write(tmp_path / "two.re2", nek.re2(corners, conditions))
    code = "import sys, weft, weft.mpi\nweft.mpi.install_excepthook()\nweft.Mesh.read(sys.argv[1])"
    result = mpi_run(3, code, str(path))
    assert result.returncode != 0
    assert result.stderr.count("3 ranks, but the mesh has only 2 elements") == 1
    assert mpi_run(2, code, str(path)).returncode == 0


def test_an_unforeseen_error_of_the_reading_rank_leaves_no_rank_waiting(tmp_path):
    path = nek.write(tmp_path / "two.re2", nek.re2(*nek.box((2, 1, 1))))
    code = """
        import sys, weft, weft.mpi, weft.mesh_io
        weft.mpi.install_excepthook()
        weft.mesh_io.read_raw = lambda path: 1 / 0
        weft.Mesh.read(sys.argv[1])
    """
    result = mpi_run(2, code, str(path))
    assert result.returncode != 0
    assert result.stderr.count("unexpected ZeroDivisionError while reading") == 1
