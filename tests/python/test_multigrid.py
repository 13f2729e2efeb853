"""Multigrid for the Poisson operator: levels, the algebraic coarse problem, and the command line."""

import itertools
import json

import numpy as np
import pytest
from mpi_run import run_weft

import weft
from weft.multigrid import coarsen
from weft.poisson import multigrid_orders


class Alone:
    """A communicator of one."""

    rank, size = 0, 1

    def gather(self, value):
        return [value]

    def bcast(self, value):
        return value


def test_levels_fall_to_one():
    for order in range(1, 16):
        levels = multigrid_orders(order)
        assert levels[0] == order
        assert levels[-1] == 1
        assert all(a > b for a, b in itertools.pairwise(levels))


@pytest.mark.parametrize("singular", [False, True])
def test_a_hierarchy_has_the_matrix_first_and_ends_with_its_inverse(singular):
    n = 400
    shift = 0.0 if singular else 0.1
    i = np.arange(n)
    degree = np.where((i == 0) | (i == n - 1), 1.0, 2.0) + shift
    rows, columns = np.concatenate([i, i[1:], i[:-1]]), np.concatenate([i, i[:-1], i[1:]])
    values = np.concatenate([degree, -np.ones(2 * n - 2)])
    (levels, inverse), sizes = coarsen(rows, columns, values, n, singular, Alone())
    assert sizes[0] == n
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == inverse.shape[0] < n
    assert levels[-1][1] is None
    assert levels[0][1][3] == sizes[1]
    ones = np.ones(sizes[-1])
    if singular:
        assert np.abs(inverse @ ones).max() < 1e-8 * np.abs(inverse).max()


def test_a_coarse_matrix_that_cannot_be_coarsened_is_an_error_and_no_hang():
    with pytest.raises(weft.mpi.CollectiveError, match="coarse level of 3 unknowns"):
        coarsen(np.array([0, 9]), np.array([0, 9]), np.ones(2), 3, False, Alone())


@pytest.mark.parametrize("deformation", ["none", "smooth"])
def test_multigrid_finds_what_conjugate_gradients_find_in_far_fewer_iterations(deformation):
    mesh = weft.Mesh.box((4, 4, 4), deformation=deformation)
    op = weft.Poisson(mesh, order=6, lam=0.0, dirichlet=True)
    b = op.random_rhs(3)
    slow = op.cg(b, tolerance=1e-10, preconditioner="jacobi")
    for options in ({}, {"precision": "double", "degree": 3}, {"method": "gmres", "restart": 5}, {"orders": (6, 2, 1)}):
        fast = op.multigrid(b, tolerance=1e-10, **options)
        assert fast.converged
        assert fast.iterations < slow.iterations / 5
        assert np.linalg.norm(fast.x - slow.x) < 1e-8 * np.linalg.norm(slow.x)
    assert op.choices["multigrid"]["orders"] == [6, 2, 1]
    assert any("order 2" in use for use in op.choices["multigrid"]["exchange"])


def test_iterations_do_not_grow_with_the_number_of_elements():
    counts = []
    for n in (2, 4, 8):
        op = weft.Poisson(weft.Mesh.box((n, n, n)), order=4, lam=0.0, dirichlet=True)
        counts.append(op.multigrid(op.random_rhs(1), tolerance=1e-8, degree=3).iterations)
    assert counts[2] <= counts[1] + 1
    assert max(counts) <= 12


def test_the_constants_are_taken_out_where_they_are_the_null_space():
    op = weft.Poisson(weft.Mesh.box((3, 3, 3), periodic=(True, True, True)), order=5, lam=0.0)
    result = op.multigrid(op.random_rhs(2) + 1.0, tolerance=1e-9)
    assert result.converged
    assert result.iterations < 20
    assert abs(np.mean(result.x)) < 1e-12
    residual = op.apply(result.x) - op.random_rhs(2)
    assert np.abs(residual - residual.mean()).max() < 1e-6


@pytest.mark.parametrize("method", ["cg", "gmres"])
def test_a_periodic_mesh_of_one_element_is_solved_though_its_coarse_level_is_the_constant_alone(method):
    mesh = weft.Mesh.box((1, 1, 1), upper=(2 * np.pi,) * 3, periodic=True)
    operator = weft.Poisson(mesh, order=11, lam=0.0, device="host")
    b = operator.project(lambda x, y, z: np.sin(x) * np.cos(y))
    result = operator.multigrid(b, tolerance=1e-10, max_iterations=60, method=method)
    assert result.converged
    assert operator.error(result.x, lambda x, y, z: np.sin(x) * np.cos(y) / 2) < 1e-4
    constant = weft.Poisson(mesh, order=1, lam=0.0, device="host")
    assert list(constant.multigrid(constant.random_rhs(1), tolerance=1e-10, method=method).x) == [0.0]
    with pytest.raises(weft.mpi.CollectiveError, match="use a higher order or more elements"):
        constant.multigrid(constant.random_rhs(1), tolerance=1e-10, orders=(1,), method=method)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"orders": (5, 3)}, "levels must be decreasing orders"),
        ({"orders": (4, 1)}, "levels must be decreasing orders"),
        ({"degree": 5}, "degree 5 is outside"),
        ({"restart": 0, "method": "gmres"}, "restart = 0"),
        ({"method": "bicg"}, "not one of: cg, gmres"),
    ],
)
def test_levels_and_methods_that_do_not_exist_are_named(options, message):
    op = weft.Poisson(weft.Mesh.box((2, 2, 2)), order=5, dirichlet=True)
    with pytest.raises(ValueError, match=message):
        op.multigrid(op.random_rhs(), **options)
    with pytest.raises(ValueError, match="assembled"):
        weft.Poisson(weft.Mesh.box((2, 2, 2)), order=2, storage="scattered").multigrid(np.zeros(216))


@pytest.mark.parametrize("preconditioner", ["multigrid", "chebyshev"])
def test_the_command_solves_and_describes_the_cycle(preconditioner, tmp_path):
    words = ["--case", "solve", "--preconditioner", preconditioner, "--order", "5", "--set", "mesh.counts=[3,3,3]"]
    done = run_weft(2, "run", "poisson", *words, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "converged" in done.stdout
    assert ("schwarz of degree 1" if preconditioner == "multigrid" else "chebyshev-jacobi of degree 3") in done.stdout
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["figures"]["converged"]
    assert record["figures"]["l2_error"] < 1e-4
    choices = record["choices"]["multigrid"]
    assert choices["orders"] == ([5, 2, 1] if preconditioner == "multigrid" else [5])
    tuned = {use for use, tuning in choices["exchange"].items() if tuning["timings"]}
    assert tuned == {
        f"order {order} {use}"
        for order in choices["orders"]
        for use in ("halo", "gather", "smoother's halo")
        if use != "smoother's halo" or (preconditioner == "multigrid" and order > 1)
    }


def test_the_benchmark_has_no_multigrid():
    done = run_weft(1, "run", "poisson", "--preconditioner", "multigrid")
    assert done.returncode == 2
    assert "solver.tolerance above 0" in done.stderr


@pytest.mark.parametrize(("cut", "most"), [(0.5, 1e6), (0.55, 1e4)])  # between elements, and inside them
def test_a_screening_that_jumps_costs_few_iterations(cut, most):
    def solve(screening):
        operator = weft.Poisson(weft.Mesh.box(4), 5, 0.0, device="host", screening=screening, dirichlet=True)
        b = operator.project(lambda x, y, z: 1 + x * y)
        result = operator.multigrid(b, tolerance=1e-8, max_iterations=60)
        assert result.converged
        return result.iterations, operator.choices["multigrid"]["smoother"]

    uniform, _ = solve(lambda x, y, z: np.full_like(x, 100.0))
    for high in (1e2, 1e4, most):
        iterations, smoother = solve(lambda x, y, z, high=high: np.where(x < cut, 1.0, high))
        assert iterations <= 2 * uniform
        assert smoother == ("schwarz" if high == 1e2 else "chebyshev-jacobi")


@pytest.mark.parametrize("dirichlet", [True, False])
def test_order_one_is_solved_by_algebraic_multigrid(dirichlet):
    operator = weft.Poisson(weft.Mesh.box(12), 1, 0.0, device="host", dirichlet=dirichlet)
    b = operator.project(lambda x, y, z: np.sin(3 * x) + y)
    result = operator.multigrid(b, tolerance=1e-8, max_iterations=60)
    assert result.converged
    assert result.iterations < 25
    assert operator.choices["multigrid"]["algebraic_level_unknowns"][0] == operator.dofs


@pytest.mark.parametrize("smoother", ["chebyshev-jacobi", "schwarz", "chebyshev-schwarz"])
def test_the_unit_of_length_does_not_change_the_iterations(smoother):
    counts = []
    for side in (1e-9, 1.0, 1e9):
        mesh = weft.Mesh.box((3, 2, 3), upper=side, deformation="smooth")
        op = weft.Poisson(mesh, order=5, lam=0.0, dirichlet=True, device="host", exchange="pairwise:direct")
        b = op.project(lambda x, y, z, side=side: np.sin(3 * x / side) * np.cos(y / side) / side**2)
        result = op.multigrid(b, smoother=smoother)
        assert result.converged
        counts.append(result.iterations)
    assert max(counts) - min(counts) <= 1, counts
