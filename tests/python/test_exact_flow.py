"""Exact solutions fulfil the Navier-Stokes equations, and the cases that come with weft give the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft import program
from weft.cases import FlowCase, load
from weft.exact.flow import Channel, EthierSteinman, Kovasznay, Solution, TaylorGreen2D, Womersley

PLACES = np.random.default_rng(11).uniform(-1, 1, (3, 40))
FIRST = {-3: -1 / 60, -2: 3 / 20, -1: -3 / 4, 1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
SECOND = {-3: 1 / 90, -2: -3 / 20, -1: 3 / 2, 0: -49 / 18, 1: 3 / 2, 2: -3 / 20, 3: 1 / 90}
STEP = 0.01


def differences(f, axis: int, weights: dict[int, float], order: int) -> np.ndarray:
    """Finite differences of order 6 of f(place, t) along x, y, z or (axis 3) t."""
    moves = np.eye(4)[axis] * STEP
    return sum(w * f(*(PLACES + k * moves[:3, None]), 0.3 + k * moves[3]) for k, w in weights.items()) / STEP**order


def assert_solves(solution: Solution, within: float = 2e-8) -> None:
    def velocity(x, y, z, t):
        return np.stack(solution.velocity(x, y, z, t))

    u = velocity(*PLACES, 0.3)
    slopes = np.stack([differences(velocity, axis, FIRST, 1) for axis in range(3)])  # [axis][component][point]
    pressure = np.stack([differences(solution.pressure, axis, FIRST, 1) for axis in range(3)])
    diffusion = sum(differences(velocity, axis, SECOND, 2) for axis in range(3))
    rate = differences(velocity, 3, FIRST, 1)
    convection = np.einsum("ap,acp->cp", u, slopes)
    force = np.stack(solution.force(*PLACES, 0.3))
    scale = max(np.abs(part).max() for part in (convection, pressure, rate, force, solution.viscosity * diffusion))
    assert scale > 0
    assert np.abs(rate + convection + pressure - solution.viscosity * diffusion - force).max() < within * scale
    assert np.abs(np.einsum("aap->p", slopes)).max() < within * np.abs(slopes).max()


@pytest.mark.parametrize(
    "solution",
    [
        EthierSteinman(viscosity=0.05),
        TaylorGreen2D(viscosity=0.2),
        Kovasznay(40.0),
        Channel(0.1),
        Channel(0.3, driven_by_force=True),
        Womersley(0.1, 2.0),
    ],
    ids=lambda s: type(s).__name__,
)
def test_an_exact_solution_fulfils_the_navier_stokes_equations(solution):
    assert_solves(solution)


@settings(max_examples=20, deadline=None)
@given(a=st.floats(0.2, 1.0), d=st.floats(0.2, 1.6), viscosity=st.floats(0.001, 2.0))
def test_ethiers_solution_holds_for_any_of_its_parameters(a, d, viscosity):
    assert_solves(EthierSteinman(viscosity, a, d), within=1e-6)


def test_walls_of_the_channel_solutions_are_at_rest():
    for solution in (Channel(), Womersley()):
        for y in (-1.0, 1.0):
            assert np.abs(np.stack(solution.velocity(np.zeros(1), np.full(1, y), np.zeros(1), 0.7))).max() < 1e-15


@pytest.mark.parametrize(
    ("name", "solution"),
    [
        ("ethier", EthierSteinman(viscosity=0.01)),
        ("kovasznay", Kovasznay(40.0)),
        ("channel", Channel(0.1)),
    ],
)
def test_the_solution_a_case_gives_is_the_exact_one(name, solution):
    case = load(FlowCase, name)
    assert isinstance(case, FlowCase)
    assert case.constants["nu"] == pytest.approx(solution.viscosity, rel=1e-15)

    def value(given, t: float):
        x, y, z = PLACES
        return program.values(program.compiled(given, case.constants), x, y, z, t)

    for t in (0.0, 0.7):
        for text, expected in zip(case.exact.velocity, solution.velocity(*PLACES, t), strict=True):
            np.testing.assert_allclose(value(text, t), expected, atol=1e-14)
        difference = value(case.exact.pressure, t) - solution.pressure(*PLACES, t)
        assert np.ptp(difference) < 1e-13
