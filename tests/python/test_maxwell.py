"""weft.maxwell.Solver: plane waves, energy, free stream and the errors a user can make."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.maxwell import Solver

PAIRWISE = "pairwise:direct"


def plane_wave(direction, angle, time):
    """Fields of a plane wave of period 1 / ``direction`` in a unit box, in vacuum, polarised at ``angle``."""
    k = 2 * np.pi * np.asarray(direction, float)
    size = np.linalg.norm(k)
    first = np.cross(k, [0.3, -0.7, 0.5])
    first /= np.linalg.norm(first)
    e = np.cos(angle) * first + np.sin(angle) * np.cross(k / size, first)
    h = np.cross(k / size, e)

    def fields(x, y, z):
        phase = np.sin(k[0] * x + k[1] * y + k[2] * z - size * time)
        return [value * phase for value in (*e, *h)]

    return fields


def error_after(solver, direction, angle, time, courant=0.5):
    steps = int(np.ceil(time / (courant * solver.dt_limit)))
    solver.set_fields(plane_wave(direction, angle, 0.0))
    solver.time = 0.0
    solver.step(steps, time / steps)
    return np.abs(np.asarray(solver.fields) - solver.interpolate(plane_wave(direction, angle, time))).max()


@pytest.mark.parametrize("flux", ["upwind", "central"])
@pytest.mark.parametrize("direction", [(1, 0, 0), (0, -1, 0), (0, 1, 1), (1, -1, 1)])
def test_plane_waves_of_every_direction_and_polarisation_converge_exponentially(flux, direction):
    mesh = weft.Mesh.box(2, periodic=True)
    for angle in (0.0, 1.1):
        errors = [error_after(Solver(mesh, n, flux=flux, exchange=PAIRWISE), direction, angle, 0.1) for n in (4, 7)]
        assert errors[1] < 3e-3
        assert errors[1] < errors[0] / 12


def test_a_time_step_above_the_limit_is_warned_of():
    solver = Solver(weft.Mesh.box(1, periodic=True), 2, exchange=PAIRWISE)
    with pytest.warns(RuntimeWarning, match=r"dt = .* is above the limit"):
        solver.step(1, 2 * solver.dt_limit)


def test_a_boundary_without_a_condition_is_named():
    with pytest.raises(weft.mpi.CollectiveError, match=r'"z-", "z\+".*pec, pmc, absorbing'):
        Solver(weft.Mesh.box(1), 2, boundaries={name: "pec" for name in ("x-", "x+", "y-", "y+")})


def test_a_condition_for_a_boundary_the_mesh_has_not_is_named():
    with pytest.raises(weft.mpi.CollectiveError, match=r'"wall", which box .* has not'):
        Solver(weft.Mesh.box(1, periodic=True), 2, boundaries={"wall": "pec"})


def test_an_unknown_condition_is_named():
    with pytest.raises(ValueError, match="'magic' is not one of: pec, pmc, absorbing"):
        Solver(weft.Mesh.box(1), 2, boundaries={"x-": "magic"})


def test_a_region_without_a_material_is_named():
    with pytest.raises(weft.mpi.CollectiveError, match="region 2 has no material"):
        Solver(weft.Mesh.box(1, periodic=True), 2, regions=[2])


@pytest.mark.parametrize(("values", "text"), [((0, 1, 0), "eps = 0"), ((1, -2, 0), "mu = -2"), ((1, 1, -1), "sigma")])
def test_materials_that_cannot_be_are_named(values, text):
    with pytest.raises(weft.mpi.CollectiveError, match=f'region "glass" has {text}'):
        Solver(weft.Mesh.box(1, periodic=True), 2, materials={"glass": values})
