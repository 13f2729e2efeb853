"""The turbulence solver compared with exact solutions, conservation laws and an independent reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpi_run import mpi_prints
from turbulence_reference import Reference, energy

from weft import trace, turbulence
from weft.mpi import CollectiveError

SCHEMES = ["rk2", "rk4"]
ORDERS = {"rk2": 2, "rk4": 4}
DEALIASINGS = ["two-thirds", "phase-shift"]


def make(n=16, **options):
    options = {"viscosity": 0.05, "dt": 0.02, "device": "host", **options}
    return turbulence.Solver(n, **options)


def low_spectrum(k):
    return 0.05 * k**4 * np.exp(-2 * (k / 3) ** 2)


def order_of(error) -> float:
    """The order of convergence, from the errors with a step and with half of it."""
    return math.log2(error(1) / error(2))


@pytest.mark.parametrize("dealiasing", DEALIASINGS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_abc_flow_decays_exactly(scheme, dealiasing):
    solver = make(scheme=scheme, dealiasing=dealiasing)
    solver.set_abc((1.0, 0.7, 0.4))
    x, y, z = solver.coordinates()
    start = solver.velocity()
    np.testing.assert_allclose(start[0], np.broadcast_to(np.sin(z) + 0.4 * np.cos(y), start[0].shape), atol=3e-15)
    np.testing.assert_allclose(start[2], np.broadcast_to(0.4 * np.sin(y) + 0.7 * np.cos(x), start[0].shape), atol=3e-15)
    solver.step(20)
    np.testing.assert_allclose(solver.velocity(), start * math.exp(-0.05 * 0.4), atol=1e-14)


def test_taylor_green_in_two_dimensions_decays_exactly_in_a_box_of_three_different_sides():
    lengths, viscosity = (3.0, 4.0, 5.0), 0.05
    solver = make((20, 24, 18), lengths=lengths, viscosity=viscosity)
    solver.set_taylor_green(two_dimensional=True)
    x, y, _ = solver.coordinates()
    a, b = 2 * math.pi / lengths[0], 2 * math.pi / lengths[1]
    solver.step(10)
    decay = math.exp(-viscosity * (a**2 + b**2) * solver.time)
    u, v, w = solver.velocity()
    np.testing.assert_allclose(u, np.broadcast_to(decay * np.sin(a * x) * np.cos(b * y), u.shape), atol=1e-14)
    np.testing.assert_allclose(v, np.broadcast_to(-decay * a / b * np.cos(a * x) * np.sin(b * y), v.shape), atol=1e-14)
    np.testing.assert_allclose(w, 0, atol=1e-14)


@pytest.mark.parametrize("dealiasing", DEALIASINGS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_temporal_order_on_an_abc_flow_carried_by_a_uniform_one(scheme, dealiasing):
    mean, viscosity, end = np.array([0.5, -0.3, 0.2]), 0.05, 0.8

    def exact(x, y, z, t):
        x, y, z = x - mean[0] * t, y - mean[1] * t, z - mean[2] * t
        decay = math.exp(-viscosity * t)
        return (
            mean[0] + decay * (np.sin(z) + 0.4 * np.cos(y)),
            mean[1] + decay * (0.7 * np.sin(x) + np.cos(z)),
            mean[2] + decay * (0.4 * np.sin(y) + 0.7 * np.cos(x)),
        )

    def error(refinement):
        steps = 8 * refinement
        solver = make(viscosity=viscosity, dt=end / steps, scheme=scheme, dealiasing=dealiasing, courant_limit=9)
        solver.set_velocity(lambda x, y, z: exact(x, y, z, 0.0))
        solver.step(steps)
        x, y, z = solver.coordinates()
        return max(
            float(np.abs(found - wanted).max())
            for found, wanted in zip(solver.velocity(), exact(x, y, z, end), strict=True)
        )

    assert order_of(error) == pytest.approx(ORDERS[scheme], abs=0.15)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_two_thirds_truncation_takes_the_reference_trajectory(scheme):
    solver = make(scheme=scheme, dealiasing="two-thirds")
    solver.set_random(low_spectrum, seed=5)
    reference = Reference(16, 0.05, lambda *n: all(3 * abs(i) < 16 for i in n))
    u = reference.modes(solver.velocity())
    for _ in range(4):
        u = reference.step(u, 0.02, scheme)
    solver.step(4)
    np.testing.assert_allclose(solver.velocity(), reference.physical(u), atol=2e-14)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_aliases_of_shifted_grids_vanish_with_the_step(scheme):
    """The aliases left after predictor and corrector are of the order of the step; on unshifted grids they remain."""
    end, viscosity = 0.16, 0.02
    reference = Reference(16, viscosity, lambda *n: 9 * sum(i * i for i in n) < 2 * 16**2)

    def error(steps):
        solver = make(scheme=scheme, viscosity=viscosity, dt=end / steps, seed=3)
        solver.set_random(lambda k: 0.02 * k**0.5, seed=5)
        u = reference.modes(solver.velocity())
        for _ in range(steps):
            u = reference.step(u, end / steps, scheme)
        solver.step(steps)
        return float(np.abs(solver.velocity() - reference.physical(u)).max())

    coarse, fine = error(4), error(16)
    assert fine < 0.4 * coarse
    assert coarse < 1e-2


@pytest.mark.parametrize("sizes", [(16, 20, 18), (14, 21, 20)])
@pytest.mark.parametrize("dealiasing", DEALIASINGS)
def test_velocity_stays_solenoidal_real_and_truncated(dealiasing, sizes):
    solver = make(sizes, dealiasing=dealiasing, viscosity=0.001)
    solver.set_random(low_spectrum, seed=1)
    kx, ky, kz = solver.wavenumbers()
    kept = 0
    for _ in range(70):
        solver.step()
        u = solver.velocity_modes()
        divergence = np.abs(kx * u[0] + ky * u[1] + kz * u[2])
        assert divergence.max() < 1e-14
    n = [np.round(k).astype(int) for k in (kx, ky, kz)]
    if dealiasing == "two-thirds":
        inside = (3 * abs(n[0]) < sizes[0]) & (3 * abs(n[1]) < sizes[1]) & (3 * abs(n[2]) < sizes[2])
    else:
        inside = (n[0] / sizes[0]) ** 2 + (n[1] / sizes[1]) ** 2 + (n[2] / sizes[2]) ** 2 < 2 / 9 - 1e-12
    kept = np.count_nonzero(np.abs(u).max(0))
    assert kept == np.count_nonzero(inside) - 1  # all but the mean
    plane = u[:, :, :, 0]
    mirrored = np.conj(np.roll(plane[:, ::-1, ::-1], 1, axis=(1, 2)))
    np.testing.assert_allclose(plane, mirrored, atol=1e-15)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_energy_is_conserved_without_viscosity_to_the_order_of_the_scheme(scheme):
    def error(refinement):
        solver = make(viscosity=0.0, dt=0.05 / refinement, scheme=scheme, dealiasing="two-thirds")
        solver.set_random(low_spectrum, seed=2)
        before = energy(solver.velocity())
        solver.step(6 * refinement)
        return abs(energy(solver.velocity()) / before - 1)

    assert order_of(error) > ORDERS[scheme] - 0.2


def test_taylor_green_vortex_at_reynolds_100_has_the_energies_of_an_independent_code():
    """E(1) = 0.1174809 and E(10) = 0.0261997 (data README: a 64^3 RK4 run of another code)."""
    solver = turbulence.Solver(64, viscosity=0.01, dt=0.0625, scheme="rk4", dealiasing="two-thirds", device="host")
    solver.set_taylor_green()
    solver.step(16)
    assert energy(solver.velocity()) == pytest.approx(0.1174809, rel=2e-5)
    solver.step(144)
    assert solver.time == pytest.approx(10)
    assert energy(solver.velocity()) == pytest.approx(0.0261997, rel=2e-4)


def test_runs_repeat_bit_for_bit():
    def run():
        solver = make(forcing=turbulence.Forcing("stochastic", 2.5, 0.05, 0.5), scalars=[turbulence.Scalar(0.7)])
        solver.set_random(low_spectrum, seed=4)
        solver.set_random_scalar(low_spectrum, seed=4)
        solver.step(5)
        return solver.velocity_modes().copy(), solver.scalar_modes().copy(), solver.energy_input

    first, second = run(), run()
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one, other)


def test_single_precision_starts_from_double_precision_rounded_and_stays_near_it():
    solvers = [make(precision=p, courant=0.4, dt=None) for p in ("double", "single")]
    for solver in solvers:
        solver.set_random(low_spectrum, seed=9)
    double, single = (solver.velocity_modes() for solver in solvers)
    assert np.array_equal(double.astype(np.complex64), single)
    for solver in solvers:
        solver.step(10)
    double, single = (solver.velocity() for solver in solvers)
    np.testing.assert_allclose(single, double, atol=2e-5 * np.abs(double).max())


def test_random_field_has_the_spectrum_asked_for():
    solver = make(32)
    solver.set_random(low_spectrum, seed=1)
    expected = np.trapezoid(low_spectrum(np.linspace(0, 15, 3000)), np.linspace(0, 15, 3000))
    assert energy(solver.velocity()) == pytest.approx(expected, rel=0.05)
    other = make(32)
    other.set_random(low_spectrum, seed=2)
    assert not np.allclose(other.velocity(), solver.velocity())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_scalar_below_a_shear_flow_and_a_mean_gradient(scheme):
    """u = V sin(x) e_y, gradient g e_y: phi = -g V sin(x) (exp(-nu t) - exp(-D t)) / (D - nu)."""
    viscosity, schmidt, g, end = 0.4, 0.25, 1.5, 1.0
    diffusivity = viscosity / schmidt

    def error(refinement):
        steps = 10 * refinement
        scalars = [turbulence.Scalar(1.0), turbulence.Scalar(schmidt, (0.3, g, 0.0))]
        solver = make(viscosity=viscosity, dt=end / steps, scheme=scheme, scalars=scalars)
        solver.set_velocity(lambda x, y, z: (0 * x, 0.5 * np.sin(x), 0 * x))
        solver.step(steps)
        x, _, _ = solver.coordinates()
        decay = (math.exp(-viscosity * end) - math.exp(-diffusivity * end)) / (diffusivity - viscosity)
        assert np.abs(solver.scalar(0)).max() == 0
        return float(np.abs(solver.scalar(1) + g * 0.5 * np.sin(x) * decay).max())

    assert order_of(error) == pytest.approx(ORDERS[scheme], abs=0.2)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_scalar_wave_carried_by_a_uniform_flow_decays_exactly(scheme):
    mean, viscosity, schmidt, end = (0.5, 0.3, -0.4), 0.05, 0.5, 1.0

    def error(refinement):
        steps = 8 * refinement
        solver = make(viscosity=viscosity, dt=end / steps, scheme=scheme, scalars=[turbulence.Scalar(schmidt)])
        solver.set_velocity(lambda x, y, z: mean)
        solver.set_scalar(lambda x, y, z: np.sin(x + y - z))
        solver.step(steps)
        x, y, z = solver.coordinates()
        phase = x + y - z - (mean[0] + mean[1] - mean[2]) * end
        return float(np.abs(solver.scalar() - math.exp(-viscosity / schmidt * 3 * end) * np.sin(phase)).max())

    assert order_of(error) == pytest.approx(ORDERS[scheme], abs=0.2)


def test_band_forcing_holds_the_energy_of_its_shells():
    solver = make(32, viscosity=0.02, courant=0.5, dt=None, forcing=turbulence.Forcing("band", 2.5))
    solver.set_random(low_spectrum, seed=6)
    solver.step()

    def shells():
        kx, ky, kz = solver.wavenumbers()
        length = np.sqrt(kx**2 + ky**2 + kz**2)
        weighted = np.where(kx > 0, 1.0, 0.5) * (np.abs(solver.velocity_modes()) ** 2).sum(0)
        return [float(weighted[(np.round(length) == s) & (length <= 2.5)].sum()) for s in (1, 2)]

    held = shells()
    solver.step(30)
    np.testing.assert_allclose(shells(), held, rtol=1e-12)
    assert solver.energy_input > 0


def test_stochastic_forcing_keeps_turbulence_steady_and_dissipation_balances_its_work():
    forcing = turbulence.Forcing("stochastic", 2.0 * math.sqrt(2.0), amplitude=0.01, time=0.5)
    solver = make(32, viscosity=0.03, courant=0.6, dt=None, forcing=forcing, precision="single")
    solver.set_random(low_spectrum, seed=3)
    solver.step(300)
    kx, ky, kz = solver.wavenumbers()
    square = (kx**2 + ky**2 + kz**2) * np.where(kx > 0, 2.0, 1.0)
    start, begin, input_before = energy(solver.velocity()), solver.time, solver.energy_input
    dissipated = 0.0
    energies = []
    for _ in range(600):
        rate = 0.03 * float((square * (np.abs(solver.velocity_modes()) ** 2).sum(0)).sum())
        solver.step()
        dissipated += rate * solver.dt
        energies.append(0.5 * float((np.abs(solver.velocity_modes()) ** 2 * np.where(kx > 0, 2.0, 1.0)).sum()))
    gained = solver.energy_input - input_before
    # All that came in is there or was dissipated: the budget closes to the scheme's order in time.
    assert energies[-1] - start == pytest.approx(gained - dissipated, abs=0.03 * dissipated)
    assert max(energies) < 3 * np.mean(energies)
    assert min(energies) > 0.2 * np.mean(energies)
    assert gained / dissipated == pytest.approx(1, abs=0.35)
    assert solver.time - begin > 5 * 0.5


def test_blown_up_run_tells_step_and_courant_number_and_keeps_the_fields():
    solver = make(dt=0.5)
    solver.set_velocity(lambda x, y, z: (2 + np.sin(z), np.cos(x), np.sin(y)))
    with pytest.raises(turbulence.BlownUp, match=r"blown up in step 1 .*Courant number is \d") as failure:
        solver.step(3)
    assert failure.value.step == 1
    assert failure.value.courant > 1
    assert isinstance(failure.value, CollectiveError)
    assert solver.steps == 0
    assert np.isfinite(solver.velocity()).all()

    solver = make()
    solver.set_abc()
    solver.step(2)
    solver.velocity_modes()[0, 1, 0, 0] = math.nan
    with pytest.raises(turbulence.BlownUp, match=r"blown up in step 3 .*no longer finite"):
        solver.step(5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 22}, "22 points in x; sizes are products of 2, 3, 5 and 7"),
        ({"n": (16, 2, 16)}, "2 points in y"),
        ({"viscosity": -1.0}, "viscosity"),
        ({"dt": None}, "either a time step dt or a Courant number"),
        ({"courant": 0.5}, "either a time step dt or a Courant number"),
        ({"dt": None, "courant": 1.0}, "not stable: it must be below 1"),
        ({"lengths": (1.0, 0.0, 1.0)}, "length of the box in y"),
        ({"batch": 0}, "batch"),
        ({"process_grid": (2, 1)}, "2 ?x ?1"),
        ({"n": (2**14, 2**14, 2**14)}, "GiB on each of 1 ranks .*take fewer points or more ranks"),
        ({"scalars": [turbulence.Scalar(0.0)]}, "Schmidt"),
        ({"forcing": turbulence.Forcing("band", 0.5)}, "forces no mode"),
        ({"forcing": turbulence.Forcing("stochastic", 2.0)}, "needs an amplitude and a time"),
        ({"forcing": turbulence.Forcing("band", 2.5, energies=(1.0,))}, "2 shells, and 1 energies"),
        ({"forcing": turbulence.Forcing("band", 50.0)}, "beyond the largest wavenumber"),
    ],
)
def test_bad_options_are_one_clear_error(options, message):
    with pytest.raises(CollectiveError, match=message):
        make(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheme": "rk3"}, "is not one of: rk2, rk4"),
        ({"dealiasing": "none"}, "is not one of: phase-shift, two-thirds"),
        ({"precision": "half"}, "is not one of: double, single"),
        ({"process_grid": "two"}, "'PrxPc'"),
        ({"n": (16, 16)}, "three along x, y, z"),
    ],
)
def test_unknown_words_are_errors_that_name_the_known_ones(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_fields_of_other_shapes_are_refused():
    solver = make()
    with pytest.raises(ValueError, match="broadcast"):
        solver.set_velocity(np.zeros((3, 8, 8, 8)))
    with pytest.raises(ValueError, match="scalar index out of range: 0"):
        solver.set_scalar(0.0)
    with pytest.raises(CollectiveError, match="spectrum is -1"):
        solver.set_random(lambda k: -np.ones_like(k))


def test_memory_is_what_equation_9_says():
    n = 64
    for options in ({}, {"precision": "single"}):
        solver = make(n, **options)
        solver.set_abc()
        solver.step()
        word = solver.dtype.itemsize
        predicted = (8 + 2 + 0.5) * n**3 / 2 * 2 * word
        assert sum(solver.memory_bytes.values()) < 1.1 * predicted


def test_measured_parts_of_a_step_add_up():
    solver = make(32)
    solver.set_abc()
    parts = solver.measure(3)
    assert set(parts) == {"fft", "pack_unpack", "row_mpi", "column_mpi", "other", "total"}
    assert sum(v for k, v in parts.items() if k != "total") == pytest.approx(parts["total"], rel=1e-6)
    assert parts["fft"] > 0
    assert parts["other"] > 0
    assert not trace.enabled()


def test_an_automatic_process_grid_is_the_fastest_of_those_timed():
    code = """
    from weft import turbulence as t
    options = {"viscosity": 0.1, "dt": 0.01, "exchange": "pairwise:direct", "device": "host"}
    assert t.Solver(16, **options).process_grid == (1, 2)  # not timed
    s = t.Solver(16, process_grid="auto", **options)
    assert s.process_grid in ((1, 2), (2, 1)), s.process_grid
    assert s.comm.allgather(s.process_grid) == [s.process_grid] * 2
    """
    mpi_prints(2, code)


def test_threads_of_a_rank_change_no_bit_of_the_fields_and_only_the_rounding_of_statistics():
    code = """
    import numpy as np
    from weft import _weft, turbulence as t
    found = []
    for threads in (1, 3):
        _weft.device.use_threads(threads)
        scalar = t.Scalar(schmidt=0.7, gradient=(0, 1, 0))
        s = t.Solver(32, viscosity=0.01, courant=0.5, dealiasing="phase-shift", scalars=[scalar], device="host")
        s.set_random(lambda k: 0.05 * k**4 * np.exp(-2 * (k / 3) ** 2), seed=3)
        s.step(3)
        found.append((s.time, s.velocity(), s.scalar(0), s.statistics(), s.point_statistics()))
    (time, velocity, scalar, statistics, points), (time_3, velocity_3, scalar_3, statistics_3, points_3) = found
    assert time == time_3 and (velocity == velocity_3).all() and (scalar == scalar_3).all()
    for name, value in statistics.items():
        np.testing.assert_allclose(statistics_3[name], value, rtol=1e-12, atol=1e-14, err_msg=name)
    np.testing.assert_allclose(points_3.transfer, points.transfer, rtol=1e-12, atol=1e-15)
    for name, distribution in points.distributions.items():
        np.testing.assert_allclose(points_3.distributions[name].moments, distribution.moments, rtol=1e-12, atol=1e-13)
        assert points_3.distributions[name].density.sum() > 0
    """
    mpi_prints(1, code, WEFT_CACHE="off")


def test_waiting_for_messages_is_mpi_and_not_other_in_the_measured_parts():
    code = """
    from weft import trace, turbulence as t
    CALLS = ("publish", "receive", "until read", "post receives", "send", "start collective", "wait")
    for grid, mpi, idle in (((1, 2), "column_mpi", "row_mpi"), ((2, 1), "row_mpi", "column_mpi")):
        for exchange in ("pairwise:direct", "pairwise:staged", "alltoallv:direct", "neighbor:direct", "pairwise:ipc"):
            s = t.Solver(16, viscosity=0.1, dt=0.01, process_grid=grid, batch=3, exchange=exchange, device="host")
            s.set_abc()
            s.step()
            trace.start()
            before = trace.names()
            parts = s.measure(2)
            now = trace.names()
            trace.stop()
            calls = sum(now.get(name, 0.0) - before.get(name, 0.0) for name in CALLS) / 2
            assert calls > 0 and parts[idle] == 0, (exchange, parts)
            assert 0.999 * calls <= parts[mpi] <= parts["total"], (exchange, calls, parts)
            assert abs(sum(parts.values()) - 2 * parts["total"]) < 1e-6 * parts["total"], (exchange, parts)
    """
    mpi_prints(2, code)


WORKER = """
import itertools, json, sys
import numpy as np
from mpi4py import MPI
from weft import turbulence as t, trace, _weft
from weft.mpi import install_excepthook
install_excepthook()
comm = MPI.COMM_WORLD

def spectrum(k):
    return 0.05 * k**4 * np.exp(-2 * (k / 3) ** 2)

def run(grid, batch, exchange, ranks, **options):
    s = t.Solver((12, 10, 18), viscosity=0.02, courant=0.5, lengths=(6.0, 5.0, 7.0), process_grid=grid, batch=batch,
                 exchange=exchange, device="host", comm=ranks, scalars=[t.Scalar(0.7, (0.0, 1.0, 0.5)), t.Scalar(2)],
                 forcing=t.Forcing("stochastic", 2.9, 0.1, 0.5), **options)
    s.set_random(spectrum, 3)
    s.set_random_scalar(spectrum, 1, 5)
    first, count = s.modes
    modes = np.zeros((3, 18, 10, 7), complex)
    if min(count) > 0:
        place = np.s_[:, first[2]:first[2]+count[2], :, first[0]:first[0]+count[0]]
        modes[place] = s.velocity_modes()
    s.step(3)
    fields = np.zeros((5, 18, 10, 12))
    (_, y, z), (_, ny, nz) = s.points
    fields[:3, z:z+nz, y:y+ny] = s.velocity()
    for i in range(2):
        fields[3+i, z:z+nz, y:y+ny] = s.scalar(i)
    return ranks.allreduce(modes), ranks.allreduce(fields), s.energy_input

for options in ({}, {"scheme": "rk4", "dealiasing": "two-thirds"}):
    modes, fields, work = run((1, 1), 1, "auto", MPI.COMM_SELF, **options)
    choices = itertools.cycle([(1, "pairwise:direct"), (2, "alltoallv:staged"), (9, "pairwise:staged"),
                               (4, "alltoallv:direct")])
    for pr in [d for d in range(1, comm.size + 1) if comm.size % d == 0]:
        for _ in range(2):
            batch, exchange = next(choices)
            found = run((pr, comm.size // pr), batch, exchange, comm, **options)
            where = f"{pr}x{comm.size // pr}, Q = {batch}, {exchange}, {options}"
            assert np.array_equal(found[0], modes), "initial field, " + where
            error = np.abs(found[1] - fields).max()
            assert error < 1e-13, f"{error}: {where}"
            assert abs(found[2] - work) < 1e-14, where
if comm.rank == 0:
    print("same")
"""


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8])  # 8x1: a rank without modes
def test_trajectory_is_the_same_on_every_process_grid(ranks):
    printed = mpi_prints(ranks, WORKER)
    assert "same" in printed


def test_a_step_takes_14_column_and_16_row_all_to_alls():
    """GESTS, section 4.3 and 5.2, at Q = 1; with Q = 4 there are 2 x (1 + 1) and 2 x (1 + 2)."""
    code = """
    import collections
    from mpi4py import MPI
    from weft import _weft, trace, turbulence as t
    for batch, row, column in ((1, 16, 14), (4, 6, 4)):
        s = t.Solver(16, viscosity=0.1, dt=0.01, process_grid=(2, 2), batch=batch, exchange="alltoallv:direct",
                     device="host")
        s.set_abc()
        s.step()
        trace.start()
        s.step()
        trace.stop()
        calls = collections.Counter(interval[0] for interval in _weft.trace.intervals())
        assert (calls["row exchange"], calls["column exchange"]) == (row, column), calls
    """
    mpi_prints(4, code)


def test_blown_up_run_ends_all_ranks_with_one_message():
    code = """
    import numpy as np
    from mpi4py import MPI
    from weft import turbulence as t
    s = t.Solver(16, viscosity=0.1, dt=0.05, device="host", exchange="pairwise:direct")
    s.set_velocity(lambda x, y, z: (10 * np.exp(-4 * ((y - 1) ** 2 + (z - 1) ** 2)), 0 * y, 0 * z))
    try:
        s.step(1)
    except t.BlownUp as error:
        texts = MPI.COMM_WORLD.allgather(str(error))
        assert len(set(texts)) == 1
        assert "step 1" in texts[0]
    else:
        raise SystemExit("no error")
    """
    mpi_prints(2, code)


def test_a_checkpoint_that_does_not_fit_on_the_disk_is_one_line_and_leaves_the_one_before(tmp_path):
    """A limit on the size of files stands in for a full disk."""
    code = f"""
    import os, resource
    from mpi4py import MPI
    from weft import turbulence as t
    comm, folder = MPI.COMM_WORLD, {str(tmp_path)!r}
    s = t.Solver(16, viscosity=0.1, dt=0.01, device="host", exchange="pairwise:direct")
    s.set_abc()
    write = lambda: s.save(folder, ranks_per_file=comm.size)
    write()
    before = sorted(os.listdir(folder))
    s.step()
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, unlimited[1]))
    try:
        write()
    except RuntimeError as error:
        text = str(error)
    else:
        raise SystemExit("no error")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert "cannot be written: File too large; raise the limit of file sizes" in text or "disk is full" in text, text
    assert "checkpoint-00000001.tmp" in text and "\\n" not in text, text
    comm.Barrier()
    assert sorted(os.listdir(folder)) == before == ["checkpoint-00000000"], os.listdir(folder)
    comm.Barrier()
    write()
    """
    mpi_prints(2, code)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint-00000000", "checkpoint-00000001"]
