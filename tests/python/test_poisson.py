"""weft.Poisson on one rank and, in separate processes, on several."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from mpi_run import mpi_run

import weft
from weft.mpi import CollectiveError

MESHES = Path(__file__).parents[3] / "shared" / "data" / "meshes"


def wave(x, y, z):
    """A smooth function that is not zero on boundaries, and minus its Laplacian below."""
    return np.sin(2 * x) * np.cos(y + 0.3) * np.exp(z)


def minus_laplacian(x, y, z):
    return (4 + 1 - 1) * wave(x, y, z)


def error_of_solve(mesh, order, lam=0.7, u=wave, f=minus_laplacian, **options):
    """The L2 error against u of -Laplacian u + screening = f, u given on the boundary."""
    op = weft.Poisson(mesh, order=order, lam=lam, dirichlet=True, device="host", **options)
    # lam multiplies the identity, so it adds lam u to the right-hand side, not lam M u.
    b = op.project(f) + lam * op.interpolate(u) + op.lift(u)
    result = op.cg(b, tolerance=1e-13, preconditioner="jacobi")
    assert result.converged
    return op.error(result.x, u)


def test_error_falls_exponentially_with_the_order_on_a_box():
    errors = [error_of_solve(weft.Mesh.box((2, 2, 2)), order) for order in range(2, 8)]
    ratios = [a / b for a, b in pairwise(errors)]
    assert min(ratios) > 10, errors


def test_error_falls_exponentially_on_curved_elements():
    mesh = weft.Mesh.box((2, 2, 2), deformation="smooth")
    assert not mesh.straight
    errors = [error_of_solve(mesh, order) for order in (3, 5, 7, 9, 11)]
    assert all(b < a / 5 for a, b in pairwise(errors)), errors
    assert errors[-1] < 1e-7


@pytest.mark.parametrize("merged", [True, False])
def test_iterations_beyond_a_residual_of_zero_are_not_made(merged):
    op = weft.Poisson(weft.Mesh.box((2, 2, 1)), order=3, lam=1.0, device="host")
    result = op.cg(op.random_rhs(1), iterations=5000, algorithm="merged" if merged else "classic")
    assert result.converged
    assert result.iterations < 5000
    assert result.residuals[-1] < 1e-150 * result.residuals[0]


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_order_in_the_element_size_is_one_more_than_the_polynomial_order(order):
    counts = (4, 8) if order > 1 else (8, 16)
    coarse, fine = (error_of_solve(weft.Mesh.box((n, n, n)), order, lam=0.0) for n in counts)
    assert np.log2(coarse / fine) == pytest.approx(order + 1, abs=0.25)


@pytest.mark.skipif(not MESHES.is_dir(), reason=f"no mesh files at {MESHES}")
def test_error_falls_exponentially_on_the_kershaw_mesh():
    mesh = weft.Mesh.read(MESHES / "kershaw.re2")
    errors = [error_of_solve(mesh, order) for order in (2, 3, 4)]
    assert all(b < a / 2.5 for a, b in pairwise(errors)), errors


@pytest.mark.skipif(not MESHES.is_dir(), reason=f"no mesh files at {MESHES}")
def test_error_falls_exponentially_on_a_mesh_file_with_curved_sides():
    mesh = weft.Mesh.read(MESHES / "hemi.re2")
    assert not mesh.straight
    errors = [error_of_solve(mesh, order) for order in (2, 4, 6)]
    assert all(b < a / 2.5 for a, b in pairwise(errors)), errors


@pytest.mark.skipif(not MESHES.is_dir(), reason=f"no mesh files at {MESHES}")
@pytest.mark.parametrize("names", [["O"], ["W", "v"]])
def test_boundaries_by_name_hold_zero_and_the_others_do_not(names):
    mesh = weft.Mesh.read(MESHES / "hemi.re2")
    op = weft.Poisson(mesh, order=2, lam=0.0, device="host", dirichlet=names)
    values = op.at_points(op.cg(op.project(lambda x, y, z: 1 + x + z * z), iterations=20).x)
    ids = mesh.point_ids(2).ravel()
    tags = [1 + mesh.boundary_names.index(name) for name in names]
    held = set()
    for side, at in enumerate([np.s_[:, :, 0], np.s_[:, :, 2], np.s_[:, 0], np.s_[:, 2], np.s_[0], np.s_[2]]):
        for element in np.flatnonzero(np.isin(mesh.boundaries[:, side], tags)):
            held.update(ids.reshape(-1, 3, 3, 3)[element][at].ravel())
    on_boundary = np.isin(ids, list(held))
    assert op.dofs == len(np.unique(ids)) - len(held)
    assert (values.ravel()[on_boundary] == 0).all()
    assert (values.ravel()[~on_boundary] != 0).all()


def dense_operator(mesh, order, lam):
    """A by ids, from G and D by NumPy, element by element."""
    points, _, d = weft._weft.mesh.gll(order)
    n = len(points)
    g, _ = mesh.geometric_factors(order)
    ids = np.asarray(mesh.point_ids(order)).reshape(mesh.elements, -1)
    eye = np.eye(n)
    gradient = np.stack([np.kron(np.kron(eye, eye), d), np.kron(np.kron(eye, d), eye), np.kron(np.kron(d, eye), eye)])
    pairs = {(0, 0): 0, (0, 1): 1, (0, 2): 2, (1, 1): 3, (1, 2): 4, (2, 2): 5}
    size = ids.max()
    a = lam * np.eye(size)
    for e in range(mesh.elements):
        factors = np.asarray(g).reshape(mesh.elements, -1, 6)[e]
        s = sum(
            gradient[p].T @ (factors[:, pairs[min(p, q), max(p, q)], None] * gradient[q])
            for p in range(3)
            for q in range(3)
        )
        np.add.at(a, (ids[e][:, None] - 1, ids[e][None, :] - 1), s)
    return a


@pytest.mark.parametrize(
    ("storage", "kernels"), [("assembled", "portable"), ("scattered", "portable"), ("assembled", "simd")]
)
@pytest.mark.parametrize("deformation", ["kershaw", "smooth"])
@pytest.mark.parametrize("order", [1, 3, 4])
def test_operator_is_the_dense_matrix(order, deformation, storage, kernels):
    mesh = weft.Mesh.box((2, 2, 1), deformation=deformation)
    op = weft.Poisson(mesh, order=order, lam=0.4, device="host", storage=storage, kernels=kernels)
    a = dense_operator(mesh, order, 0.4)
    assert op.dofs == len(a)
    x = np.asarray(op.random_rhs(3))
    ids = np.asarray(op._core.unknown_ids()) - 1
    by_id = np.zeros(len(a))
    by_id[ids] = x
    np.testing.assert_allclose(op.apply(x), (a @ by_id)[ids], atol=1e-11 * abs(a).max())


@pytest.mark.parametrize("precision", ["double", "single"])
def test_vectors_keep_their_type_and_device(precision):
    op = weft.Poisson(weft.Mesh.box((2, 2, 2)), order=2, device="host", precision=precision)
    assert op.vector().shape == (op.unknowns,)
    for vector in (op.vector(), op.random_rhs(), op.interpolate(wave), op.project(wave), op.apply(op.vector(1.0))):
        assert vector.dtype == op.dtype
    result = op.cg(op.random_rhs(), iterations=3)
    assert result.x.dtype == op.dtype
    assert len(result.residuals) == 4
    assert result.iterations == 3
    assert set(result.breakdown) == {"cpu", "gpu", "mpi", "copy", "launch"}


def test_sizes_and_memory_are_those_of_the_formulas():
    order, counts = 4, (3, 2, 2)
    op = weft.Poisson(weft.Mesh.box(counts), order=order, device="host", geometry="stored", kernels="portable")
    assert op.elements == 12
    assert op.points == 12 * 125
    assert op.dofs == np.prod([c * order + 1 for c in counts])
    memory = op.memory_bytes
    assert memory["geometric factors and inverse degrees"] == 56 * op.points
    assert memory["index"] == 4 * op.points
    assert memory["y_L"] == 8 * op.points


def test_random_right_hand_side_is_spread_over_its_interval():
    op = weft.Poisson(weft.Mesh.box((4, 4, 4)), order=5, device="host")
    b = op.random_rhs(1)
    assert abs(b.mean()) < 0.03
    assert b.min() < -0.99
    assert b.max() > 0.99
    assert b.std() == pytest.approx(1 / np.sqrt(3), abs=0.02)
    assert (b == op.random_rhs(1)).all()
    assert abs(np.corrcoef(b, op.random_rhs(2))[0, 1]) < 0.05


def test_solution_is_written_for_paraview(tmp_path):
    op = weft.Poisson(weft.Mesh.box((2, 1, 1)), order=2, device="host", dirichlet=True)
    x = op.interpolate(wave)
    assert len(x) == op.dofs == 3
    given = op.at_points(x, boundary=wave)
    x_of_points, y_of_points, z_of_points = np.moveaxis(op.mesh.point_coordinates(2), -1, 0)
    np.testing.assert_allclose(given.ravel(), wave(x_of_points, y_of_points, z_of_points).ravel(), atol=1e-12)
    assert np.count_nonzero(op.at_points(x)) == 4  # the point between the elements is in both
    header = op.write_fields(tmp_path / "u", {"u": x, "given": given}).read_bytes().split(b"<AppendedData")[0]
    assert b'NumberOfPoints="54"' in header
    assert b'Name="u"' in header
    assert b'Name="given"' in header


def test_solve_that_runs_out_of_iterations_says_so():
    op = weft.Poisson(weft.Mesh.box((3, 3, 3)), order=4, device="host")
    assert not op.cg(op.random_rhs(), tolerance=1e-12, max_iterations=3).converged


def test_nan_in_the_right_hand_side_is_an_error():
    op = weft.Poisson(weft.Mesh.box((2, 2, 2)), order=3, device="host")
    b = op.random_rhs()
    b[5] = np.nan
    with pytest.raises(CollectiveError, match=r"right-hand side.*NaN"):
        op.cg(b, iterations=5)


def test_progress_sees_every_iteration_and_may_stop_the_solve():
    op = weft.Poisson(weft.Mesh.box((2, 2, 2)), order=3, device="host")
    seen = []
    result = op.cg(op.random_rhs(), iterations=4, progress=lambda i, r: seen.append((i, r)))
    assert [i for i, _ in seen] == [1, 2, 3, 4]
    assert [r for _, r in seen] == result.residuals[1:]

    def stop(iteration, norm):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        op.cg(op.random_rhs(), iterations=4, progress=stop)
    assert not weft.trace.enabled()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 0}, "order 0 is not available: it must be between 1 and 15"),
        ({"order": 16}, "order 16 is not available: it must be between 1 and 15"),
        ({"lam": -1.0}, "lambda must be at least 0, not -1"),
        ({"lam": float("nan")}, "lambda must be at least 0, not nan"),
        ({"storage": "packed"}, "storage = 'packed' is not one of: assembled, scattered"),
        ({"geometry": "affine"}, "geometry = 'affine'"),
        ({"kernels": "fast"}, "kernels = 'fast'"),
        ({"precision": "half"}, "precision = 'half'"),
        ({"kernels": "simd", "storage": "scattered"}, "'simd' support only the host and assembled storage"),
        ({"dirichlet": ["x-", "lid"]}, r'unknown boundary "lid"; it has: x-, x\+, y-, y\+, z-, z\+'),
        ({"dirichlet": "x-"}, "dirichlet = 'x-' is not True, False or a list"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        weft.Poisson(weft.Mesh.box((2, 2, 2)), device="host", **options)


def test_trilinear_geometry_on_a_curved_mesh_is_an_error():
    mesh = weft.Mesh.box((2, 2, 2), deformation="smooth")
    with pytest.raises(ValueError, match="straight edges"):
        weft.Poisson(mesh, order=3, device="host", geometry="trilinear")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"iterations": 3, "tolerance": 1e-3}, "not both"),
        ({"max_iterations": 3}, "goes with tolerance"),
        ({"tolerance": 2.0}, "between 0 and 1"),
        ({"iterations": 0}, "at least 1"),
        ({"preconditioner": "ilu"}, "none, jacobi"),
        ({"algorithm": "gmres"}, "algorithm = 'gmres'"),
        ({"algorithm": "merged"}, "needs kernels = 'simd'"),
    ],
)
def test_bad_arguments_of_a_solve_are_named(arguments, message):
    op = weft.Poisson(weft.Mesh.box((2, 2, 2)), order=2, device="host", kernels="portable")
    with pytest.raises(ValueError, match=message):
        op.cg(op.random_rhs(), **arguments)


def test_vector_of_another_length_is_an_error():
    op = weft.Poisson(weft.Mesh.box((2, 2, 2)), order=2, device="host")
    with pytest.raises(ValueError, match=f"{op.unknowns} values on this rank, not 3"):
        op.apply(np.zeros(3))


# --- several ranks ---------------------------------------------------------------------------------------------------

HISTORIES = """
    import json, sys
    import weft
    from mpi4py import MPI
    mesh = weft.Mesh.box((4, 3, 3), deformation="kershaw")
    found = {}
    for name, options in json.loads(sys.argv[1]).items():
        op = weft.Poisson(mesh, order=4, device="host", **options)
        for algorithm in ("classic", "merged") if op.kernels == "simd" else ("classic",):
            result, again = (op.cg(op.random_rhs(7), iterations=20, algorithm=algorithm) for _ in range(2))
            assert again.residuals == result.residuals, "a rerun differs"
            assert (again.x == result.x).all(), "a rerun differs"
            found[f"{name}, {algorithm}"] = result.residuals
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(found))
"""
VARIANTS = {
    f"{storage}, {geometry}, {path}": {"storage": storage, "geometry": geometry, "exchange": f"pairwise:{path}"}
    for storage in ("assembled", "scattered")
    for geometry in ("stored", "trilinear")
    for path in ("direct", "staged")
} | {
    name: {**options, "exchange": "pairwise:direct"}  # none is timed
    for name, options in {
        "portable": {"kernels": "portable"},
        "stored SIMD": {"kernels": "simd", "geometry": "stored"},
    }.items()
}


@pytest.fixture(scope="module")
def expected_history():
    return json.loads(mpi_run(1, HISTORIES, json.dumps({"x": VARIANTS["portable"]})).stdout)["x, classic"]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_residuals_are_the_same_on_any_ranks_in_every_variant(ranks, expected_history):
    run = mpi_run(ranks, HISTORIES, json.dumps(VARIANTS))
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert len(found) > len(VARIANTS)
    for name, residuals in found.items():
        np.testing.assert_allclose(residuals, expected_history, rtol=1e-10, err_msg=name)


def test_solve_has_the_same_error_on_three_ranks():
    code = """
        import numpy as np, weft
        from mpi4py import MPI
        u = lambda x, y, z: np.sin(2 * x) * np.cos(y + 0.3) * np.exp(z)
        mesh = weft.Mesh.box((3, 2, 2), deformation="smooth")
        op = weft.Poisson(mesh, order=5, lam=0.7, dirichlet=True, device="host", exchange="pairwise:direct")
        b = op.project(lambda x, y, z: 4 * u(x, y, z)) + 0.7 * op.interpolate(u) + op.lift(u)
        error = op.error(op.cg(b, tolerance=1e-13, preconditioner="jacobi").x, u)
        if MPI.COMM_WORLD.rank == 0:
            print(error)
    """
    one, three = (mpi_run(ranks, code) for ranks in (1, 3))
    assert three.returncode == 0, three.stderr
    assert float(three.stdout) == pytest.approx(float(one.stdout), rel=1e-6)


def test_nan_on_one_rank_is_one_error_on_all():
    code = """
        import numpy as np, weft
        from weft.mpi import install_excepthook
        install_excepthook()
        op = weft.Poisson(weft.Mesh.box((3, 2, 2)), order=3, device="host", exchange="pairwise:direct")
        b = op.random_rhs()
        if op.comm.rank == 1:
            b[0] = np.nan
        op.cg(b, iterations=5)
    """
    run = mpi_run(3, code)
    assert run.returncode != 0
    assert run.stderr.count("holds NaN or Inf") == 1


def test_a_multigrid_solve_after_one_whose_options_were_refused_starts_anew():
    op = weft.Poisson(weft.Mesh.box((2, 2, 1)), order=3, lam=0.0, dirichlet=True, device="host")
    b = op.random_rhs(1)
    first = op.multigrid(b)
    for wrong, text in (
        ({"degree": 9}, "degree 9"),
        ({"orders": (2, 1)}, "decreasing orders"),
        ({"method": "gmres", "restart": 0}, "restart = 0"),
    ):
        with pytest.raises(ValueError, match=text):
            op.multigrid(b, **wrong)
        again = op.multigrid(b)  # had no levels: a segmentation fault
        assert again.converged
        assert again.residuals == first.residuals


def test_whole_numbers_may_be_numpys_and_others_are_refused():
    op = weft.Poisson(weft.Mesh.box((2, 2, 1)), order=np.int64(3), lam=0.0, dirichlet=True, device="host")
    b = op.random_rhs(1)
    assert op.multigrid(b, orders=np.array([3, 1]), max_iterations=np.int32(50), degree=np.int8(2)).converged
    for wrong in ({"max_iterations": 1.5}, {"orders": "31"}, {"degree": 2.0}):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            op.multigrid(b, **wrong)


def test_complex_values_are_refused_rather_than_cut():
    op = weft.Poisson(weft.Mesh.box((2, 2, 1)), order=3, lam=0.0, dirichlet=True, device="host")
    b = op.random_rhs(1)
    for use in (op.apply, op.cg, op.at_points, op.multigrid, op.vector, lambda v: op.cg(b, guess=v)):
        with pytest.raises(TypeError, match="complex128"):
            use(b + 1j)


def test_a_flux_through_a_boundary_that_does_not_exist_names_those_that_do():
    op = weft.Poisson(weft.Mesh.box((2, 2, 1)), order=3, lam=0.1, device="host")
    with pytest.raises(ValueError, match=r"no boundary 'left'; it has x-, x\+, y-"):
        op.flux(lambda x, y, z: x, ["x+", "left"])
    assert np.array_equal(op.flux(lambda x, y, z: x, "x+"), op.flux(lambda x, y, z: x, ["x+"]))
