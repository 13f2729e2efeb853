"""The terms of the flow on the curved elements of hemi.re2, compared with exact values and between the two kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
from weft import flow

HEMI = Path(__file__).parents[3] / "shared" / "data" / "meshes" / "hemi.re2"
ORDER = 4
BOUNDARIES = {"v": "outflow", "O": "outflow", "W": "outflow", "SYM": "outflow"}


@pytest.fixture(scope="module")
def mesh() -> weft.Mesh:
    if not HEMI.exists():
        pytest.skip(f"no {HEMI}")
    return weft.Mesh.read(HEMI)


def velocity(x, y, z, t):
    return np.sin(x) * np.cos(y) + z, np.cos(x - z) * y, np.sin(x + y) - 0.5 * z


def exact(x, y, z):
    """(u . grad) u, grad p, curl u, div u."""
    u = velocity(x, y, z, 0)
    zero, one = 0 * x, 1 + 0 * x
    du = [
        [np.cos(x) * np.cos(y), -np.sin(x) * np.sin(y), one],
        [-np.sin(x - z) * y, np.cos(x - z), np.sin(x - z) * y],
        [np.cos(x + y), np.cos(x + y), -0.5 * one],
    ]
    return {
        "convection": [sum(u[j] * du[i][j] for j in range(3)) for i in range(3)],
        "pressure gradient": [np.cos(x) * z, -np.sin(y), np.sin(x) + zero],
        "vorticity": [du[2][1] - du[1][2], du[0][2] - du[2][0], du[1][0] - du[0][1]],
        "divergence": [du[0][0] + du[1][1] + du[2][2]],
    }


def solver(mesh: weft.Mesh, kernels: str, convection: str = "overintegrated") -> flow.Solver:
    found = flow.Solver(
        mesh, ORDER, viscosity=0.01, boundaries=BOUNDARIES, kernels=kernels, convection=convection, device="host"
    )
    found.set_velocity(velocity)
    found.set_pressure(lambda x, y, z, t: np.sin(x) * z + np.cos(y))
    return found


def test_terms_on_real_curved_elements_are_what_they_are_in_both_kernels(mesh):
    simd, portable = solver(mesh, "simd"), solver(mesh, "portable")
    mass = np.asarray(mesh.mass_matrix(ORDER)).reshape(simd.velocity()[0].shape)
    for name, values in exact(*simd.coordinates()).items():
        found = simd.term(name)
        assert np.abs(found - portable.term(name)).max() < 1e-10 * np.abs(found).max(), name
        error = np.sqrt((mass * (found - np.array(values)) ** 2).sum() / (mass * np.array(values) ** 2).sum())
        assert error < 4e-3, name
    # Gauss's theorem: the two sides differ only by the quadrature on curved elements.
    forces = simd.statistics(forces=list(BOUNDARIES))
    inside = [(mass * part).sum() for part in simd.term("pressure gradient")]
    outside = [sum(forces[f"force_{name}_pressure_{axis}"] for name in BOUNDARIES) for axis in "xyz"]
    assert inside == pytest.approx(outside, abs=1e-9 * (mass * np.abs(simd.pressure())).sum())


def test_the_skew_symmetric_form_is_the_same_in_both_kernels_on_real_curved_elements(mesh):
    simd, portable = (solver(mesh, kernels, "skew-symmetric").term("convection") for kernels in ("simd", "portable"))
    assert np.abs(simd - portable).max() < 1e-10 * np.abs(simd).max()


def test_an_unknown_term_is_an_error_that_lists_them():
    small = flow.Solver(weft.Mesh.box((2, 2, 2), periodic=True), 2, viscosity=1.0)
    with pytest.raises(ValueError, match="is not one of: convection, pressure gradient"):
        small.term("gradient")
