"""Statistics of flows whose energy, dissipation, divergence, extrema and forces are known."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import flow
from weft.exact.flow import Channel, EthierSteinman
from weft.flow_output import wall_units
from weft.flow_statistics import loads
from weft.mpi import CollectiveError


def channel(**options) -> flow.Solver:
    mesh = weft.Mesh.box((2, 2, 1), lower=(0, -1, 0), upper=(3, 1, 0.5), periodic=(False, False, True))
    boundaries = {"x-": ("velocity", ("1 - y**2", 0, 0)), "x+": "outflow", "y-": "wall", "y+": "wall"}
    return flow.Solver(mesh, 4, viscosity=0.1, boundaries=boundaries, dt=0.01, **options)


@pytest.mark.parametrize("precision", ["double", "single"])
def test_forces_on_the_walls_of_a_channel_balance_its_pressure_drop(precision):
    solver, exact = channel(precision=precision), Channel(0.1)
    solver.set_velocity(exact.velocity)
    solver.set_pressure(lambda x, y, z, t: exact.pressure(x, y, z, t) + 0.6)
    found = solver.statistics(forces=("y-", "y+", "x-", "x+"))
    near = pytest.approx
    within = 1e-12 if precision == "double" else 2e-6
    for wall, side in (("y-", -1), ("y+", 1)):
        assert found[f"force_{wall}_x"] == near(2 * 0.1 * 3 * 0.5, abs=within)
        assert found[f"force_{wall}_pressure_x"] == near(0, abs=within)
        assert found[f"force_{wall}_y"] == near(side * 0.3 * 3 * 0.5, abs=within)
    assert found["force_x-_pressure_x"] == near(-0.6 * 2 * 0.5, abs=within)
    assert found["force_x+_x"] == near(0, abs=within)
    whole = sum(found[f"force_{name}_pressure_x"] for name in ("x-", "x+")) + sum(
        found[f"force_{name}_x"] for name in ("y-", "y+")
    )
    assert whole == near(0, abs=within)
    assert found["dissipation"] == near(0.1 * 4 / 3, abs=within)
    assert found["vorticity_dissipation"] == near(0.1 * 4 / 3, abs=within)
    assert found["energy"] == near(0.5 * 8 / 15, abs=within)
    assert (found["u_smallest"], found["u_largest"]) == near((0, 1), abs=within)
    assert (found["pressure_smallest"], found["pressure_largest"]) == near((0, 0.6), abs=within)
    # Between the nodes 0.17267 from the ends of elements 1.5 long, at u = 1: in the middle of the channel.
    spacing = (1 - np.sqrt(3 / 7)) / 2 * 1.5
    assert found["courant_rate"] == near(1 / spacing, rel=1e-12 if precision == "double" else 1e-6)
    assert solver.courant_rate() == found["courant_rate"]


def test_forces_on_a_closed_curved_surface_are_those_of_gauss_theorem():
    mesh = weft.Mesh.sphere((1.0,), side=2, layers=1)
    solver = flow.Solver(mesh, 6, viscosity=0.3, boundaries={"outer": "wall"})
    solver.set_velocity(lambda x, y, z, t: (y + z, 2 * x - z, 3 * x))  # a constant stress
    solver.set_pressure(lambda x, y, z, t: z + 2)
    found = solver.statistics(forces=("outer",))
    assert found["force_outer_pressure_z"] == pytest.approx(4 / 3 * np.pi, rel=1e-5)
    for axis in "xy":
        assert found[f"force_outer_{axis}"] == pytest.approx(0, abs=1e-6)
    assert found["force_outer_z"] == pytest.approx(found["force_outer_pressure_z"], abs=1e-6)
    assert found["divergence"] < 1e-8


def test_statistics_of_ethiers_flow_are_its_integrals_and_scalars_are_among_them():
    mesh, exact = weft.Mesh.box((2, 2, 2), lower=(-1, -1, -1), upper=(1, 1, 1)), EthierSteinman(viscosity=0.05)
    sides = {name: ("velocity", exact.velocity) for name in mesh.boundary_names}
    solver = flow.Solver(
        mesh, 9, viscosity=0.05, boundaries=sides, scalars={"heat": flow.Scalar(0.1), "salt": flow.Scalar(0.2)}
    )
    solver.set_velocity(exact.velocity)
    solver.set_scalar("heat", lambda x, y, z, t: x + 2 * y)
    found = solver.statistics()
    nodes, weights = np.polynomial.legendre.leggauss(30)
    x, y, z = np.meshgrid(nodes, nodes, nodes, indexing="ij")
    mass = np.einsum("i,j,k->ijk", weights, weights, weights) / 8
    u = np.stack(exact.velocity(x, y, z, 0.0))
    assert found["energy"] == pytest.approx(float((u**2 * mass).sum()) / 2, rel=1e-9)
    # A Beltrami flow: the vorticity is d times the velocity.
    assert found["enstrophy"] == pytest.approx(exact.d**2 * float((u**2 * mass).sum()), rel=1e-7)
    assert found["divergence"] < 1e-6
    assert (found["heat_mean"], found["heat_smallest"], found["heat_largest"]) == pytest.approx((0, -3, 3), abs=1e-12)
    assert (found["salt_mean"], found["salt_largest"]) == (0, 0)


def test_sampling_changes_no_bit_of_a_run():
    plain, sampled = channel(), channel()
    for solver in (plain, sampled):
        solver.set_velocity(("1 - y**2 + 0.1 * sin(x) * (1 - y**2)", 0, 0))
    for _ in range(4):
        plain.step()
        sampled.step()
        sampled.statistics(forces=("y+",))
        sampled.courant_rate()
    np.testing.assert_array_equal(plain.velocity(), sampled.velocity())
    np.testing.assert_array_equal(plain.pressure(), sampled.pressure())
    held = sampled.memory_bytes["statistics"]
    assert sum(sampled.memory_bytes.values()) - sum(plain.memory_bytes.values()) == held
    assert held < 10 * 8 * sampled.points  # little more than the index


def test_moments_wall_shear_and_y_plus_of_a_channel_are_exact() -> None:
    solver, exact = channel(), Channel(0.1)
    solver.set_velocity(exact.velocity)
    solver.set_pressure(exact.pressure)
    found = solver.statistics(forces=("y+",), centre=(1, 0, 0))
    near = lambda value: pytest.approx(value, abs=1e-12)  # noqa: E731
    # p = -0.2 x pulls downwards at y = 1, the shear 0.2 along x; the wall is 3 x 0.5.
    assert found["moment_y+_z"] == near(-0.2 * 1.5 + moment_of_pressure())
    assert found["moment_y+_pressure_z"] == near(moment_of_pressure())
    assert (found["shear_y+"], found["shear_y+_largest"]) == near((0.2, 0.2))
    height = (1 - np.sqrt(3 / 7)) / 2
    assert (found["y_plus_y+"], found["y_plus_y+_largest"]) == near((height * np.sqrt(0.2) / 0.1,) * 2)


def moment_of_pressure() -> float:
    """The moment of -0.2 x n on y = 1, n = (0, 1, 0), about x = 1: 0.5 times the integral of (x - 1) (-0.2 x)."""
    x = np.polynomial.Polynomial([0, 1])
    integral = ((x - 1) * -0.2 * x).integ()
    return 0.5 * float(integral(3) - integral(0))


def test_the_torque_of_a_flow_between_cylinders_is_that_of_couette() -> None:
    mesh = weft.Mesh.box((2, 16, 1), upper=(1, 1, 1), periodic=(False, True, True)).mapped(
        lambda x, y, z: ((1 + x) * np.cos(2 * np.pi * y), (1 + x) * np.sin(2 * np.pi * y), 0.5 * z), geometry_order=9
    )
    solver = flow.Solver(mesh, 4, viscosity=0.3, boundaries=dict.fromkeys(("x-", "x+"), "wall"))
    # u_theta = a r + b / r, 0 at r = 2 and 1 at r = 1: b = 4 / 3, a = -1 / 3.
    solver.set_velocity(lambda x, y, z, t: [c * (-1 / 3 + 4 / 3 / (x**2 + y**2)) for c in (-y, x)] + [0 * x])
    found = solver.statistics(forces=("x-", "x+"))
    torque = 4 * np.pi * 0.3 * 4 / 3 * 0.5  # on the outer cylinder; the torque on the inner one is opposite
    assert found["moment_x+_z"] == pytest.approx(torque, rel=1e-3)
    assert found["moment_x-_z"] == pytest.approx(-torque, rel=1e-3)
    assert found["shear_x-"] == pytest.approx(0.3 * 2 * 4 / 3, rel=1e-2)


def test_means_coefficients_and_strouhal_number_of_a_known_oscillation() -> None:
    time = np.concatenate([np.arange(0, 30, 0.1), np.arange(30, 60, 0.07)])
    noise = 0.02 * np.sin(171 * time)
    names = [f"{kind}_b_{axis}" for kind in ("force", "moment") for axis in "xyz"]
    rows = [
        dict.fromkeys([*names, "shear_b", "y_plus_b", "y_plus_b_largest"], 0.5)
        | {"time": t, "force_b_x": 3.0, "force_b_y": 0.4 * np.sin(2 * np.pi * 0.3 * t) + n + 7}
        for t, n in zip(time, noise, strict=True)
    ]
    found = loads(rows, "b", since=20, velocity=2, length=0.5, area=0.25)
    assert found["drag_coefficient_mean"] == pytest.approx(6.0)
    assert found["drag_coefficient_rms"] == pytest.approx(0, abs=1e-12)
    assert found["force_y_mean"] == pytest.approx(7, abs=1e-2)
    assert found["lift_coefficient_rms"] == pytest.approx(2 * 0.4 / np.sqrt(2), rel=1e-2)
    assert found["strouhal"] == pytest.approx(0.3 * 0.5 / 2, rel=2e-3)
    assert "strouhal" not in loads([row | {"force_b_y": 7.0} for row in rows], "b", velocity=2, length=0.5)
    assert loads(rows[:1], "b") == {}


def test_profiles_over_homogeneous_directions_hold_the_fluctuations_along_them() -> None:
    mesh = weft.Mesh.box((4, 2, 4), lower=(0, -1, 0), upper=(2 * np.pi, 1, 2 * np.pi), periodic=(True, False, True))
    solver = flow.Solver(mesh, 4, viscosity=1e-8, boundaries={"y-": "wall", "y+": "wall"}, dt=1e-7)
    solver.set_velocity(lambda x, y, z, t: ((1 - y**2) * (1 + 0.5 * np.sin(z)), 0 * x, 0.25 * np.sin(x) * (1 - y**2)))
    solver.start_averages()
    solver.step()
    found = solver.profile("xz")
    y = found["y"]
    assert len(y) == 9
    near = lambda values: pytest.approx(values, abs=1e-6)  # noqa: E731
    assert found["u"] == near(1 - y**2)
    assert found["uu"] == near((1 - y**2) ** 2 / 8)
    assert found["ww"] == near((1 - y**2) ** 2 / 32)
    assert found["uw"] == near(0 * y)
    scales, columns = wall_units(found, 4, 0.5)
    assert scales == near([1, 1])  # nu dU/dy = 0.5 * 2
    assert columns["distance_plus"] == near(2 * (1 - np.abs(y)))
    assert columns["velocity_plus"] == near(1 - y**2)
    assert columns["uu_plus"] == near(found["uu"])
    over_z = solver.profile("z")
    assert len(over_z["x"]) == 17 * 9
    assert over_z["w"] == near(0.25 * np.sin(over_z["x"]) * (1 - over_z["y"] ** 2))


def test_the_force_on_what_is_no_boundary_names_those_that_are():
    with pytest.raises(
        CollectiveError, match=r"force on \"lid\", which is not a boundary of .*; it has: x-, x\+, y-, y\+"
    ):
        channel().statistics(forces=("lid",))
