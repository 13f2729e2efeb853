"""Statistics of flows whose energy, dissipation, divergence, extrema and forces are known."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import flow
from weft.exact.flow import Channel, EthierSteinman
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
    # A flow of Beltrami's kind: the vorticity is d times the velocity.
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


def test_the_force_on_what_is_no_boundary_names_those_that_are():
    with pytest.raises(
        CollectiveError, match=r"force on \"lid\", which is no boundary of .*; it has: x-, x\+, y-, y\+"
    ):
        channel().statistics(forces=("lid",))
