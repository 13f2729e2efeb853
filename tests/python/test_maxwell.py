"""weft.maxwell.Solver: plane waves, energy, uniform fields and errors of the user."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.maxwell import Dipole, PlaneWave, Pulse, Solver, matched_layer

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


def test_a_condition_for_a_boundary_that_the_mesh_lacks_is_named():
    with pytest.raises(weft.mpi.CollectiveError, match=r'"wall", which box .* does not have'):
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


SIDES = ("x-", "x+", "y-", "y+", "z-", "z+")
RAMPED = Pulse(frequency=3.0, ramp=0.5)


def column_of_elements():
    """Eight elements along z, periodic across; and the z of their middles."""
    mesh = weft.Mesh.box((1, 1, 8), upper=(0.125, 0.125, 1.0), periodic=(True, True, False))
    return mesh, np.asarray(mesh.point_coordinates(1)).reshape(mesh.elements, -1, 3).mean(axis=1)[:, 2]


def ramped_sine(t):
    rise = np.where(t < RAMPED.ramp, np.sin(np.pi / 2 * np.clip(t, 0, None) / RAMPED.ramp) ** 2, 1.0)
    return rise * np.sin(2 * np.pi * RAMPED.frequency * t)


def test_a_plane_wave_is_inside_the_total_field_and_nowhere_else():
    mesh, middle = column_of_elements()
    total = (middle > 0.25) & (middle < 0.75)
    wave = PlaneWave((0, 0, 2), (0.5, 0, 0), (0, 0, 0.25), eps=4.0, mu=1.0, pulse=RAMPED)
    solver = Solver(
        mesh,
        7,
        materials={"glass": (4.0, 1.0)},
        boundaries={"z-": "absorbing", "z+": "absorbing"},
        waves=[wave],
        total_field=total,
        exchange=PAIRWISE,
    )
    solver.step(int(3.0 / solver.dt))
    z = solver.coordinates()[2]
    expected = 0.5 * ramped_sine(solver.time - 2 * (z - 0.25)) * total[:, None, None, None]
    fields = np.asarray(solver.fields)
    assert np.abs(fields[:, 0] - expected).max() < 2e-3
    assert np.abs(fields[:, 4] - 2 * expected).max() < 4e-3  # H = E over the impedance
    assert np.abs(fields[:, [1, 2, 3, 5]]).max() < 1e-12


def test_a_plane_wave_comes_in_through_an_absorbing_boundary_and_goes_out():
    mesh, _ = column_of_elements()
    solver = Solver(
        mesh,
        6,
        boundaries={"z-": "absorbing", "z+": "absorbing"},
        waves=[PlaneWave((0, 0, 1), (0, 1, 0), pulse=RAMPED)],
        total_field=np.ones(mesh.elements),
        exchange=PAIRWISE,
    )
    solver.step(int(2.0 / solver.dt))
    expected = ramped_sine(solver.time - solver.coordinates()[2])
    assert np.abs(np.asarray(solver.fields)[:, 1] - expected).max() < 1e-3


def test_a_matched_layer_takes_up_what_a_dipole_sends_out():
    mesh = weft.Mesh.box(5, lower=-1, upper=1)
    damping = matched_layer(mesh, 3, 0.4, lower=(-1, -1, -1), upper=(1, 1, 1))
    pulse = Pulse(frequency=1.5, delay=0.8, width=0.25)
    solver = Solver(
        mesh,
        3,
        boundaries=dict.fromkeys(SIDES, "pec"),
        damping=damping,
        dipoles=[Dipole((0.01, 0.02, 0.0), (0, 0, 1), pulse)],
        exchange=PAIRWISE,
    )
    solver.step(int(1.2 / solver.dt))
    largest = solver.energy()
    solver.step(int(2.8 / solver.dt))
    assert solver.energy() < 1e-3 * largest
    assert solver.memory_bytes["matched layer"] < 15 * solver.dtype.itemsize * 4**3 * len(damping) + 1000


def test_a_dipole_has_the_dipole_moment_it_was_given():
    """The integral of E at a moment just after a short pulse is minus that of the current (no flux has left)."""
    mesh = weft.Mesh.box(3, lower=-1, upper=1, deformation="smooth", deformation_parameter=0.02)
    pulse = Pulse(frequency=0.0, phase=np.pi / 2, delay=0.0)
    solver = Solver(
        mesh,
        5,
        boundaries=dict.fromkeys(SIDES, "pec"),
        dipoles=[Dipole((0.1, -0.2, 0.05), (1.0, 2.0, 3.0), pulse)],
        exchange=PAIRWISE,
    )
    rates = solver.rates(np.zeros_like(solver.fields))
    mass = np.asarray(mesh.mass_matrix(5)).reshape(rates[:, 0].shape)
    total = [(rates[:, c] * mass).sum() for c in range(3)]
    np.testing.assert_allclose(total, [-1, -2, -3], rtol=1e-10)
    first = [(rates[:, 2] * mass * x).sum() for x in solver.coordinates()]
    np.testing.assert_allclose(first, -3 * np.array([0.1, -0.2, 0.05]), rtol=1e-8, atol=1e-10)


def test_a_dipole_outside_the_mesh_is_named():
    with pytest.raises(weft.mpi.CollectiveError, match=r"dipole at \(2, 0, 0\) is not inside any element"):
        Solver(weft.Mesh.box(1, periodic=True), 2, dipoles=[Dipole((2, 0, 0), (1, 0, 0))])


def test_a_wave_that_is_not_transverse_is_refused():
    with pytest.raises(weft.mpi.CollectiveError, match="field normal to it"):
        Solver(weft.Mesh.box(1, periodic=True), 2, waves=[PlaneWave((0, 0, 1), (1, 0, 1))], total_field=[True])


def test_energy_beyond_the_bound_stops_the_run_and_says_why():
    solver = Solver(weft.Mesh.box(2, periodic=True), 4, exchange=PAIRWISE)
    solver.set_fields(plane_wave((1, 0, 0), 0.0, 0.0))
    solver.dt = 1.4 * solver.dt_limit
    with (
        pytest.warns(RuntimeWarning, match="above the limit"),
        pytest.raises(weft.mpi.CollectiveError, match=r"beyond the bound of the scheme.*use a smaller time step"),
    ):
        solver.step(400)


def l2_error(solver, expected):
    """The L2 norm of the difference, by quadrature at the solver's own points."""
    mass = np.asarray(solver.mesh.mass_matrix(solver.order)).reshape(-1, 1, *(solver.order + 1,) * 3)
    return np.sqrt((mass * (np.asarray(solver.fields) - solver.interpolate(expected)) ** 2).sum())


@pytest.mark.parametrize("deformation", ["none", "smooth"])
def test_the_order_in_h_is_at_least_half_above_that_of_the_polynomials(deformation):
    errors = []
    for elements in (5, 8):
        mesh = weft.Mesh.box(elements, periodic=True, deformation=deformation, deformation_parameter=0.02)
        solver = Solver(mesh, 3, exchange=PAIRWISE)
        error_after(solver, (1, 0, 1), 0.3, 0.1, courant=0.4)
        errors.append(l2_error(solver, plane_wave((1, 0, 1), 0.3, 0.1)))
    assert np.log(errors[0] / errors[1]) / np.log(8 / 5) > 3.5


def test_the_order_in_time_is_four():
    mesh = weft.Mesh.box(2, periodic=True)
    solver = Solver(mesh, 4, flux="central", exchange=PAIRWISE)
    results = []
    for steps in (32, 64, 512):
        solver.set_fields(plane_wave((1, 1, 0), 0.3, 0.0))
        solver.step(steps, 8 * solver.dt_limit / steps)
        results.append(np.array(solver.fields))
    coarse, fine = (np.abs(r - results[2]).max() for r in results[:2])
    assert 3.8 < np.log2(coarse / fine) < 4.3


def cavity_mode(kind, time):
    """TM110 of the unit cube between perfect electric walls; TE101; and their duals between magnetic walls."""
    w = np.sqrt(2) * np.pi
    cos, sin = np.cos(w * time), np.sin(w * time)

    def tm(x, y, z):
        return [
            0 * x,
            0 * x,
            np.sin(np.pi * x) * np.sin(np.pi * y) * cos,
            -np.pi / w * np.sin(np.pi * x) * np.cos(np.pi * y) * sin,
            np.pi / w * np.cos(np.pi * x) * np.sin(np.pi * y) * sin,
            0 * x,
        ]

    def te(x, y, z):
        return [
            0 * x,
            np.sin(np.pi * x) * np.sin(np.pi * z) * cos,
            0 * x,
            np.pi / w * np.sin(np.pi * x) * np.cos(np.pi * z) * sin,
            0 * x,
            -np.pi / w * np.cos(np.pi * x) * np.sin(np.pi * z) * sin,
        ]

    def dual(x, y, z):  # E -> H, H -> -E
        fields = tm(x, y, z)
        return [-v for v in fields[3:]] + fields[:3]

    return {"tm": tm, "te": te, "dual": dual}[kind]


@pytest.mark.parametrize("flux", ["upwind", "central"])
@pytest.mark.parametrize("kind", ["tm", "te", "dual"])
def test_modes_of_a_cavity_keep_their_frequency_and_shape(kind, flux):
    errors = []
    for order in (4, 7):
        solver = Solver(
            weft.Mesh.box(2),
            order,
            flux=flux,
            boundaries=dict.fromkeys(SIDES, "pmc" if kind == "dual" else "pec"),
            exchange=PAIRWISE,
        )
        solver.set_fields(cavity_mode(kind, 0.0))
        steps = int(np.ceil(1.0 / (0.4 * solver.dt)))
        solver.step(steps, 1.0 / steps)
        errors.append(l2_error(solver, cavity_mode(kind, 1.0)))
    assert errors[1] < 2e-6
    assert errors[1] < errors[0] / 50


def test_energy_is_constant_with_central_flux_and_falls_with_upwind():
    mesh = weft.Mesh.box(2, periodic=True, deformation="smooth", deformation_parameter=0.03)
    random = np.random.default_rng(5).standard_normal((8, 6, 4, 4, 4))
    for flux in ("central", "upwind"):
        solver = Solver(mesh, 3, flux=flux, exchange=PAIRWISE)
        solver.set_fields(random)
        energies = [solver.energy()]
        for _ in range(5):
            solver.step(10, 0.02 * solver.dt_limit)
            energies.append(solver.energy())
        change = np.diff(energies) / energies[0]
        if flux == "central":
            assert np.abs(change).max() < 1e-7
        else:
            assert change.max() < -1e-3


def test_the_divergence_stays_what_the_initial_field_had():
    mesh = weft.Mesh.box(2, periodic=True)
    solver = Solver(mesh, 6, exchange=PAIRWISE)
    solver.set_fields(plane_wave((1, 1, 0), 0.3, 0.0))
    first = max(solver.divergence())
    for _ in range(8):
        solver.step(40)
        assert max(solver.divergence()) < 5 * first


def test_the_exponential_integrator_takes_large_steps_to_its_tolerance():
    mesh = weft.Mesh.box(2, periodic=True)
    reference = Solver(mesh, 4, exchange=PAIRWISE)
    solver = Solver(mesh, 4, integrator="exponential", krylov_dimension=30, krylov_tolerance=1e-8, exchange=PAIRWISE)
    for each in (reference, solver):
        each.set_fields(plane_wave((1, 1, 0), 0.3, 0.0))
    span = 8 * solver.dt_limit
    reference.step(160, span / 160)
    solver.step(2, span / 2)
    assert np.abs(np.asarray(solver.fields) - np.asarray(reference.fields)).max() < 1e-6
    assert solver.applications <= 90
    assert solver.memory_bytes["Krylov space"] >= 31 * solver.fields.nbytes


def test_the_exponential_integrator_refuses_sources():
    with pytest.raises(ValueError, match="does not support waves, dipoles or matched layers"):
        Solver(
            weft.Mesh.box(1, periodic=True),
            2,
            dipoles=[Dipole((0.5, 0.5, 0.5), (1, 0, 0))],
            integrator="exponential",
            exchange=PAIRWISE,
        )
