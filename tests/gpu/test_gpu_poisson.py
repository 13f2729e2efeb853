"""Poisson on a device against the host: the operator in all its variants, CG, several ranks on one device."""

from __future__ import annotations

import numpy as np
import pytest
from mpi_run import mpi_run

import weft


def host_values(x):
    """A vector as NumPy's, wherever it is."""
    return x.get() if hasattr(x, "get") else np.asarray(x)


def operators(gpu, mesh, **options):
    on_device = weft.Poisson(mesh, device=gpu, kernels="portable", **options)
    on_host = weft.Poisson(mesh, device="host", kernels="portable", **{**options, "threads": "auto"})
    return on_device, on_host


@pytest.fixture(scope="module")
def mesh():
    # Not a multiple of any tile of elements.
    return weft.Mesh.box((5, 3, 3), periodic=(True, False, False))


@pytest.mark.parametrize("order", range(1, 16))
@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("geometry", ["stored", "trilinear"])
def test_the_operator_agrees_with_the_host(gpu, mesh, order, precision, geometry):
    tolerance = 1e-12 if precision == "double" else 1e-4
    for threads in ["columns"] + (["points"] if order <= 9 else []):
        found, expected = operators(gpu, mesh, order=order, precision=precision, geometry=geometry, threads=threads)
        y = host_values(expected.apply(expected.random_rhs(1)))
        x = host_values(found.apply(found.random_rhs(1)))
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * np.abs(y).max(), err_msg=threads)


@pytest.mark.parametrize("storage", ["assembled", "scattered"])
@pytest.mark.parametrize("dirichlet", [False, True])
@pytest.mark.parametrize("preconditioner", ["none", "jacobi"])
def test_cg_takes_the_steps_of_the_host(gpu, mesh, storage, dirichlet, preconditioner):
    found, expected = operators(gpu, mesh, order=7, storage=storage, dirichlet=dirichlet)
    results = [
        op.cg(op.random_rhs(2), iterations=30, preconditioner=preconditioner, algorithm="classic")
        for op in (found, expected)
    ]
    np.testing.assert_allclose(results[0].residuals, results[1].residuals, rtol=1e-8)
    x, y = (host_values(result.x) for result in results)
    np.testing.assert_allclose(x, y, rtol=0, atol=1e-9 * np.abs(y).max())


def test_a_solve_on_a_device_is_the_same_bits_every_time(gpu, mesh):
    op = weft.Poisson(mesh, order=7, device=gpu)
    b = op.random_rhs(3)
    histories = {tuple(op.cg(b, iterations=50).residuals) for _ in range(3)}
    assert len(histories) == 1


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_that_share_a_device_solve_the_same_problem(gpu, ranks):
    code = """
    import sys
    import weft
    mesh = weft.Mesh.box((5, 3, 3), periodic=(True, False, False))
    op = weft.Poisson(mesh, order=5, device=sys.argv[1], kernels="portable")
    r = op.cg(op.random_rhs(4), iterations=20, algorithm="classic").residuals
    if mesh.comm.rank == 0:
        print(*[f"{value:.17g}" for value in r])
    """
    residuals = []
    for count in (1, ranks):
        result = mpi_run(count, code, gpu.backend)
        assert result.returncode == 0, result.stderr
        residuals.append([float(value) for value in result.stdout.split()])
    np.testing.assert_allclose(residuals[1], residuals[0], rtol=1e-9)
