"""weft.flow.Solver and exact solutions: orders in space and time, boundaries, scalars, forces, and bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
from weft.exact.flow import Channel, EthierSteinman, Kovasznay, TaylorGreen2D
from weft.flow import Buoyancy, Filter, FlowRate, Pressure, Scalar, Solver
from weft.mpi import CollectiveError

MESHES = Path(__file__).resolve().parents[3] / "shared" / "data" / "meshes"
SIDES = ("x-", "x+", "y-", "y+", "z-", "z+")


def solver_of(mesh, order, tolerance=1e-10, **options):
    return Solver(
        mesh,
        order,
        device="host",
        exchange="pairwise:direct",
        pressure=Pressure(single=False),
        pressure_tolerance=tolerance,
        velocity_tolerance=tolerance,
        scalar_tolerance=tolerance,
        **options,
    )


def error_of(solver, exact):
    """The largest difference of the velocity, and of the pressure up to a constant."""
    places = solver.coordinates()
    velocity = np.stack(np.broadcast_arrays(*exact.velocity(*places, solver.time)))
    pressure = solver.pressure() - np.broadcast_to(exact.pressure(*places, solver.time), solver.pressure().shape)
    return np.abs(solver.velocity() - velocity).max(), np.ptp(pressure) / 2


def advanced(mesh, exact, order, dts, boundaries, time_order=3, **options):
    """The solver after steps of the given lengths, started from the exact solution at earlier times."""
    solver = solver_of(mesh, order, viscosity=exact.viscosity, boundaries=boundaries, time_order=time_order, **options)
    solver.start_from(exact.velocity, [-level * dts[0] for level in range(time_order)])
    for dt in dts:
        solver.step(1, dt)
    return solver


def ethier_box():
    exact = EthierSteinman(viscosity=0.05)
    mesh = weft.Mesh.box(2, lower=-1.0, upper=1.0)
    return mesh, exact, dict.fromkeys(SIDES, ("velocity", exact.velocity))


@pytest.mark.parametrize(("time_order", "dt"), [(1, 0.02), (2, 0.04), (3, 0.1)])
def test_errors_fall_with_the_order_in_time(time_order, dt):
    mesh, exact, boundaries = ethier_box()
    errors = [
        error_of(advanced(mesh, exact, 9, [size] * round(0.2 / size), boundaries, time_order), exact)
        for size in (dt, dt / 2)
    ]
    velocity, pressure = np.log2(np.divide(*errors))
    assert velocity > time_order - 0.2
    assert pressure > time_order - 0.5


def test_steps_of_varying_lengths_keep_the_order_in_time():
    mesh, exact, boundaries = ethier_box()
    pattern = np.array([1.0, 0.7, 1.4, 0.9])
    errors = []
    for size in (0.05, 0.025):
        dts = list(pattern * size) * round(0.2 / (pattern.sum() * size))
        errors.append(error_of(advanced(mesh, exact, 9, dts, boundaries), exact)[0])
    assert np.log2(errors[0] / errors[1]) > 2.5


def test_the_first_step_leaves_no_error_of_its_low_order():
    exact = TaylorGreen2D(viscosity=0.05)
    mesh = weft.Mesh.box((4, 4, 1), upper=(2 * np.pi, 2 * np.pi, 1), periodic=True)
    errors = []
    for halvings in (0, 6):
        solver = solver_of(mesh, 7, viscosity=exact.viscosity, first_step_halvings=halvings)
        solver.set_velocity(exact.velocity)
        solver.step(4, 0.1)
        assert (solver.steps, solver.time) == (4, pytest.approx(0.4, abs=1e-15))
        errors.append(error_of(solver, exact)[0])
    assert errors[0] > 3e-5  # (2 nu dt)^2 / 2
    assert errors[1] < errors[0] / 100


def test_a_function_without_time_is_called_once():
    calls = dict.fromkeys(("steady", "varying", "force"), 0)

    def steady(x, y, z):
        calls["steady"] += 1
        return 1 - y**2, 0 * x, 0 * x

    def varying(x, y, z, t):
        calls["varying"] += 1
        return steady(x, y, z)

    def force(x, y, z):
        calls["force"] += 1
        return 0 * x, 0 * x, 0 * x

    mesh = weft.Mesh.box((2, 2, 1), lower=(0, -1, 0), upper=(2, 1, 1), periodic=(False, False, True))
    boundaries = {"x-": ("velocity", steady), "x+": ("velocity", varying), "y-": "wall", "y+": "wall"}
    solver = solver_of(mesh, 3, viscosity=0.1, boundaries=boundaries, force=force, first_step_halvings=0)
    solver.set_velocity(steady)
    calls["steady"] = 0
    solver.step(5, 0.01)
    assert calls == {"steady": 6, "varying": 5, "force": 1}
    with pytest.raises(ValueError, match=r"must be a function of x, y, z and t, or of x, y and z"):
        solver.set_velocity(lambda x: x)


def test_ethier_converges_exponentially_on_a_curved_mesh():
    if not (MESHES / "ethier.re2").exists():
        pytest.skip("needs ../shared/data/meshes/ethier.re2")
    exact = EthierSteinman(viscosity=0.05)
    mesh = weft.Mesh.read(MESHES / "ethier.re2")
    errors = [
        error_of(advanced(mesh, exact, order, [0.005] * 2, {"EXO 1": ("velocity", exact.velocity)}), exact)[0]
        for order in (3, 5, 7)
    ]
    assert errors[1] < errors[0] / 30
    assert errors[2] < errors[1] / 30
    assert errors[2] < 1e-5


def test_kovasznay_converges_exponentially():
    exact = Kovasznay()
    mesh = weft.Mesh.box((3, 2, 1), lower=(-0.5, -0.5, 0), upper=(1, 0.5, 0.5), periodic=(False, True, True))
    boundaries = dict.fromkeys(("x-", "x+"), ("velocity", exact.velocity))
    errors = [error_of(advanced(mesh, exact, order, [0.004] * 10, boundaries), exact)[0] for order in (5, 7, 9)]
    assert errors[1] < errors[0] / 20
    assert errors[2] < errors[1] / 20


@pytest.mark.parametrize("convection", ["overintegrated", "skew-symmetric"])
def test_the_taylor_green_vortex_decays_as_it_must(convection):
    exact = TaylorGreen2D(viscosity=0.05)
    mesh = weft.Mesh.box((4, 4, 1), upper=(2 * np.pi, 2 * np.pi, 1), periodic=True)
    solver = advanced(mesh, exact, 9, [0.01] * 10, {}, convection=convection)
    assert solver.pressure_singular
    velocity, pressure = error_of(solver, exact)
    assert velocity < 1e-8
    assert pressure < 1e-7


def test_energy_falls_by_what_viscosity_takes_of_it():
    mesh = weft.Mesh.box(2, upper=2 * np.pi, periodic=True)
    solver = solver_of(mesh, 6, viscosity=0.02, convection="skew-symmetric")
    solver.set_velocity(("sin(x) * cos(y) * cos(z) + sin(z)", "-cos(x) * sin(y) * cos(z) + cos(x)", "sin(y)"))
    solver.step(3, 0.01)
    before = solver.statistics()
    solver.step(20, 0.01)
    after = solver.statistics()
    lost = (before["energy"] - after["energy"]) / 0.2
    assert lost > 0
    assert lost == pytest.approx((before["dissipation"] + after["dissipation"]) / 2, rel=0.05)
    assert after["divergence"] < 0.05 * np.sqrt(after["enstrophy"])


CHANNEL = {"y-": "wall", "y+": "wall"}


def channel(periodic):
    return weft.Mesh.box((2, 2, 1), lower=(0, -1, 0), upper=(2, 1, 1), periodic=(periodic, False, True))


def test_poiseuille_flow_through_inflow_and_outflow_is_exact():
    exact = Channel()
    boundaries = {**CHANNEL, "x-": ("velocity", ("1 - y**2", 0, 0)), "x+": "outflow"}
    solver = advanced(channel(False), exact, 4, [0.05] * 20, boundaries, tolerance=1e-12)
    assert not solver.pressure_singular
    velocity, pressure = error_of(solver, exact)
    assert velocity < 1e-11
    assert pressure < 1e-10


def test_poiseuille_flow_driven_by_a_force_or_a_flow_rate_is_exact():
    exact = Channel(driven_by_force=True)
    solver = advanced(channel(True), exact, 4, [0.05] * 10, CHANNEL, force=(0.2, 0, 0), tolerance=1e-12)
    assert error_of(solver, exact)[0] < 1e-11
    solver = solver_of(channel(True), 4, 1e-12, viscosity=0.1, boundaries=CHANNEL, flow_rate=FlowRate(2 / 3))
    solver.set_velocity((2 / 3, 0, 0))  # plug flow with the mean of the parabola
    solver.step(120, 0.1)
    assert error_of(solver, exact)[0] < 1e-8
    assert solver.figures["flow_rate_forcing"] == pytest.approx(0.2, rel=1e-7)


def free_stream(mesh, order):
    boundaries = {name: ("velocity", (1, 0.5, -0.3)) for name in mesh.boundary_names}
    solver = solver_of(mesh, order, 1e-9, viscosity=0.1, boundaries=boundaries)
    solver.set_velocity((1, 0.5, -0.3))
    solver.step(2, 0.01)
    return np.abs(solver.velocity() - np.array([1, 0.5, -0.3]).reshape(3, 1, 1, 1, 1)).max()


def test_a_uniform_flow_stays_uniform_on_curved_and_skewed_elements():
    assert free_stream(weft.Mesh.box((3, 2, 2), deformation="smooth"), 5) < 1e-12
    assert free_stream(weft.Mesh.box((3, 2, 2), deformation="kershaw"), 4) < 1e-12


def test_a_uniform_flow_stays_uniform_on_the_kershaw_mesh():
    if not (MESHES / "kershaw.re2").exists():
        pytest.skip("needs ../shared/data/meshes/kershaw.re2")
    assert free_stream(weft.Mesh.read(MESHES / "kershaw.re2"), 1) < 1e-12


def test_half_a_channel_with_a_symmetry_plane_equals_the_whole():
    """A half of the channel between a wall and a plane of symmetry, and its mirror image."""
    half = weft.Mesh.box((2, 1, 1), lower=(0, -1, 0), upper=(2, 0, 1), periodic=(True, False, True))
    exact = Channel(driven_by_force=True)
    boundaries = {"y-": "wall", "y+": "symmetry"}
    solver = advanced(half, exact, 4, [0.05] * 10, boundaries, force=(0.2, 0, 0), tolerance=1e-12)
    assert error_of(solver, exact)[0] < 1e-11


def test_backflow_through_an_outflow_does_not_blow_up():
    """A strong vortex leaves through the outflow, which lets fluid in and out."""
    mesh = weft.Mesh.box((4, 2, 1), lower=(0, -1, 0), upper=(4, 1, 1), periodic=(False, False, True))
    boundaries = {"x-": ("velocity", (1, 0, 0)), "x+": "outflow", "y-": "symmetry", "y+": "symmetry"}
    solver = solver_of(mesh, 5, 1e-6, viscosity=0.005, boundaries=boundaries, filter=Filter(0.05))
    bell = "12 * exp(-8 * ((x - 3)**2 + y**2))"
    solver.set_velocity((f"1 - y * {bell}", f"(x - 3) * {bell}", 0))
    solver.step(1, 0.01)
    first = solver.statistics()
    smallest = 1.0
    for _ in range(15):
        solver.step(10, 0.01)
        outlet = solver.velocity()[0][np.isclose(solver.coordinates()[0], 4)]
        smallest = min(smallest, outlet.min())
    assert smallest < -0.1  # fluid came back in
    last = solver.statistics()
    assert last["energy"] < first["energy"]
    assert np.abs(solver.velocity()[0] - 1).max() < 1.5


def test_a_scalar_diffuses_and_travels_exactly():
    mesh = weft.Mesh.box((4, 1, 1), upper=(2 * np.pi, 1, 1), periodic=True)
    kappa, speed = 0.05, 0.7

    def wave(x, y, z, t):
        return np.sin(x - speed * t) * np.exp(-kappa * t)

    solver = solver_of(mesh, 9, viscosity=1.0, scalars={"dye": Scalar(kappa)})
    solver.start_from((speed, 0, 0), [0, -0.01, -0.02], scalars={"dye": wave})
    solver.step(20, 0.01)
    assert np.abs(solver.scalar("dye") - wave(*solver.coordinates(), solver.time)).max() < 2e-7


def test_a_scalar_between_a_value_and_a_flux_becomes_linear():
    mesh = weft.Mesh.box((2, 1, 1), periodic=(False, True, True))
    boundaries = {"x-": ("value", "2 + t - t"), "x+": ("flux", 0.3)}
    solver = solver_of(
        mesh,
        3,
        viscosity=1.0,
        boundaries={"x-": "wall", "x+": "wall"},
        scalars={"heat": Scalar(0.6, boundaries), "source": Scalar(0.5, {"x-": ("value", 0), "x+": ("value", 0)}, 1.0)},
    )
    solver.step(40, 1.0)
    x = solver.coordinates()[0]
    assert np.abs(solver.scalar("heat") - (2 + 0.5 * x)).max() < 1e-8
    assert np.abs(solver.scalar("source") - x * (1 - x)).max() < 1e-8


def test_buoyancy_of_a_linear_temperature_is_balanced_by_the_pressure():
    mesh = weft.Mesh.box((2, 1, 2), periodic=(False, True, False))
    walls = dict.fromkeys(("x-", "x+", "z-", "z+"), "wall")
    heat = Scalar(0.1, {"z-": ("value", 1), "z+": ("value", 0)})
    solver = solver_of(
        mesh, 4, viscosity=0.1, boundaries=walls, scalars={"T": heat}, buoyancy=[Buoyancy("T", (0, 0, 3.0), 0.5)]
    )
    solver.set_scalar("T", "1 - z")
    solver.step(10, 0.05)
    z = solver.coordinates()[2]
    hydrostatic = 3 * (0.5 * z - z**2 / 2)
    assert np.abs(solver.velocity()).max() < 1e-8
    assert np.ptp(solver.pressure() - hydrostatic) < 1e-6


def test_the_filter_takes_the_highest_mode_only_and_keeps_fields_continuous():
    mesh = weft.Mesh.box((2, 2, 2), periodic=True, upper=2 * np.pi)
    plain, filtered = (solver_of(mesh, 6, viscosity=1e-3, filter=given) for given in (None, Filter(strength=1.0)))
    for solver in (plain, filtered):
        solver.set_velocity(("sin(y)", "sin(z)", "sin(x)"))
        solver.step(1, 1e-4)
    difference = np.abs(plain.velocity() - filtered.velocity()).max()
    assert 1e-7 < difference < 1e-3  # sin(x) has little in its mode 6
    u = filtered.velocity()[0].reshape(-1)
    places = np.round(np.mod(filtered.coordinates(), 2 * np.pi - 1e-9), 6).reshape(3, -1).T
    _, inverse = np.unique(places, axis=0, return_inverse=True)
    inverse = inverse.ravel()
    low, high = np.full(inverse.max() + 1, np.inf), np.full(inverse.max() + 1, -np.inf)
    np.minimum.at(low, inverse, u)
    np.maximum.at(high, inverse, u)
    assert (high - low).max() == 0


def test_single_precision_follows_double():
    exact = TaylorGreen2D(viscosity=0.05)
    mesh = weft.Mesh.box((4, 4, 1), upper=(2 * np.pi, 2 * np.pi, 1), periodic=True)
    solver = Solver(mesh, 7, viscosity=0.05, device="host", exchange="pairwise:direct", precision="single")
    solver.set_velocity(exact.velocity)
    solver.step(10, 0.01)
    assert solver.velocity().dtype == np.float32
    assert error_of(solver, exact)[0] < 2e-4


def test_memory_is_within_50_doubles_per_point_on_straight_elements():
    mesh = weft.Mesh.box(4, upper=2 * np.pi, periodic=True)
    solver = Solver(mesh, 7, viscosity=0.01, device="host", exchange="pairwise:direct")
    solver.set_velocity(("sin(x)", 0, 0))
    solver.step(1, 0.01)
    assert sum(solver.memory_bytes.values()) / 8 / solver.points < 50


def test_what_makes_no_sense_is_refused_with_the_remedy():
    mesh = weft.Mesh.box((2, 1, 1), periodic=(False, True, True))

    def made(**options):
        return Solver(mesh, 3, device="host", exchange="pairwise:direct", **{"viscosity": 0.1, **options})

    walls = {"x-": "wall", "x+": "wall"}
    with pytest.raises(CollectiveError, match=r'no condition is given for the boundary "x\+"'):
        made(boundaries={"x-": "wall"})
    with pytest.raises(CollectiveError, match=r'"lid", which box'):
        made(boundaries={**walls, "lid": "wall"})
    with pytest.raises(ValueError, match="is not one of: wall, velocity, outflow, symmetry"):
        made(boundaries={"x-": "wal", "x+": "wall"})
    with pytest.raises(ValueError, match="needs values"):
        made(boundaries={"x-": "velocity", "x+": "wall"})
    with pytest.raises(ValueError, match="takes no values"):
        made(boundaries={"x-": ("wall", (1, 0, 0)), "x+": "wall"})
    with pytest.raises(CollectiveError, match="the viscosity must be positive"):
        made(boundaries=walls, viscosity=0.0)
    with pytest.raises(CollectiveError, match="scalar 'T', which is not defined; defined: none"):
        made(boundaries=walls, buoyancy=[Buoyancy("T", (0, 0, 1))])
    solver = made(boundaries={"x-": ("velocity", (1, 0, 0)), "x+": "wall"})
    with pytest.raises(CollectiveError, match="no boundary is an outflow"):
        solver.step(1, 0.1)
    with pytest.raises(ValueError, match="no time step is given"):
        made(boundaries=walls).step()
    solver = made(boundaries=walls)
    with pytest.raises(ValueError, match="scalar 'heat' is not defined"):
        solver.scalar("heat")
    solver.set_velocity(("x / 0", 0, 0))
    with pytest.raises(weft.flow.BlownUp, match="the velocity is no longer finite in step 1") as caught:
        solver.step(1, 0.1)
    assert (caught.value.step, caught.value.field) == (1, "the velocity")


def vortex(x, y, z, t=0.0):
    return np.sin(x) * np.cos(y) * np.cos(z), -np.cos(x) * np.sin(y) * np.cos(z), 0 * x


def small(**options):
    mesh = weft.Mesh.box((2, 2, 2), upper=2 * np.pi, periodic=True)
    given = {"order": 3, "viscosity": 0.01, "dt": 0.01, "device": "host", "exchange": "pairwise:direct"}
    return weft.flow.Solver(mesh, **(given | options))


def test_a_flow_that_has_blown_up_starts_anew_from_fields_that_are_finite():
    solver, other = small(), small()
    solver.set_velocity(vortex)
    solver.step(4)
    solver.set_velocity(np.nan * solver.velocity())
    with pytest.raises(weft.flow.BlownUp):
        solver.step()
    for flow in (solver, other):
        flow.set_velocity(vortex)
        flow.set_pressure(0.0)
        flow.step(3)
    assert np.isfinite(solver.velocity()).all()
    assert np.abs(solver.velocity() - other.velocity()).max() < 1e-6


def test_values_may_be_numpys_numbers_and_others_are_refused_by_what_they_are():
    solver = small(viscosity=np.float32(0.01), force=(np.float32(0.5), np.int8(0), "0"))
    for values in (np.array([1, 0, 0], "f4"), (np.float32(1), np.int64(0), 0.0), (np.array(1.0), 0, "0")):
        solver.set_velocity(values)
        assert solver.velocity()[0] == pytest.approx(1.0)
    field = solver.velocity()
    for values, error, text in (
        (field.reshape(3, -1), ValueError, r"values are \[3\]\[8\]\[4\]\[4\]\[4\]"),
        (field.ravel(), ValueError, "1536 values are given, 3 are needed"),
        (1.0, ValueError, "1 values are given, 3 are needed"),
        ((1, 0, None), TypeError, "not None"),
        ((1, 0, 1j), TypeError, "not 1j"),
        (field + 1j, TypeError, "complex128"),
    ):
        with pytest.raises(error, match=text):
            solver.set_velocity(values)
    with pytest.raises(ValueError, match="-1 steps"):
        solver.step(-1)
