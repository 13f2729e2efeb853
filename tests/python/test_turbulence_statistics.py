"""Statistics of turbulence against sums and transforms by NumPy, on several ranks too."""

import json

import numpy as np
import pytest
from mpi_run import mpi_run

import weft

SIZES = (24, 20, 30)  # along x, y, z
LENGTHS = (2 * np.pi, 5.0, 7.0)


def solver_of(dealiasing: str = "two-thirds", **options):
    solver = weft.turbulence.Solver(SIZES, lengths=LENGTHS, viscosity=0.03, dt=0.01, dealiasing=dealiasing, **options)
    solver.set_random(lambda k: k**2 * np.exp(-(k**2) / 8), seed=3)
    return solver


class Reference:
    """The velocity of a solver at the points, and its derivatives, by NumPy."""

    def __init__(self, solver) -> None:
        self.u = solver.velocity().astype(float)
        kx, ky, kz = (
            2 * np.pi * transform(n, side / n)
            for n, side, transform in zip(SIZES, LENGTHS, (np.fft.rfftfreq, *2 * [np.fft.fftfreq]), strict=True)
        )
        self.axes = (kx[None, None, :], ky[None, :, None], kz[:, None, None])
        self.modes = np.fft.rfftn(self.u, axes=(1, 2, 3), norm="forward")
        self.square = sum(k**2 for k in self.axes)
        self.weight = np.where(self.axes[0] == 0, 1, 2) * np.ones_like(self.square)
        self.gradient = np.array([[self.back(1j * k * m) for k in self.axes] for m in self.modes])  # [i][j]

    def back(self, modes):
        return np.fft.irfftn(modes, s=tuple(reversed(SIZES)), axes=(0, 1, 2), norm="forward")

    def shells(self, values):
        width = 2 * np.pi / max(LENGTHS)
        shell = np.floor(np.sqrt(self.square) / width + 0.5).astype(int)
        return np.bincount(shell.ravel(), (self.weight * values).ravel()) / width


def same_start(found, expected, tolerance=1e-12) -> None:
    """Equal as far as both go; the rest is 0."""
    n = min(len(found), len(expected))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found[:n], expected[:n], atol=tolerance * scale)
    assert np.abs(expected[n:]).max(initial=0) < tolerance * scale
    assert np.abs(found[n:]).max(initial=0) < tolerance * scale


@pytest.mark.parametrize("dealiasing", ["two-thirds", "phase-shift"])
def test_shells_hold_what_numpy_sums_and_add_up_to_the_totals(dealiasing: str) -> None:
    solver = solver_of(dealiasing)
    found, reference = solver.spectra(), Reference(solver)
    energy = 0.5 * np.sum(np.abs(reference.modes) ** 2, axis=0)
    same_start(found.energy, reference.shells(energy))
    same_start(found.dissipation, reference.shells(2 * 0.03 * reference.square * energy))
    scales = found.scales()
    assert found.width * found.energy.sum() == pytest.approx(scales.energy)
    assert found.width * found.dissipation.sum() == pytest.approx(scales.dissipation)
    assert scales.energy == pytest.approx(0.5 * np.mean(np.sum(reference.u**2, axis=0)))
    vorticity = [reference.gradient[c][b] - reference.gradient[b][c] for b, c in ((1, 2), (2, 0), (0, 1))]
    assert scales.enstrophy == pytest.approx(np.mean(np.sum(np.square(vorticity), axis=0)))
    assert scales.helicity == pytest.approx(np.mean(np.sum(reference.u * vorticity, axis=0)), abs=1e-12)
    assert scales.divergence < 1e-14


@pytest.mark.parametrize("dealiasing", ["two-thirds", "phase-shift"])
def test_moments_are_those_of_the_fields_that_numpy_makes(dealiasing: str) -> None:
    solver = solver_of(dealiasing)
    reference = Reference(solver)
    found = solver.point_statistics(slice_z=11)
    a = reference.gradient
    strain = 0.5 * (a + a.transpose(1, 0, 2, 3, 4))
    dissipation = 2 * 0.03 * np.sum(strain**2, axis=(0, 1))
    rotation = sum((a[c][b] - a[b][c]) ** 2 for b, c in ((1, 2), (2, 0), (0, 1)))
    # Eq. 11 without aliases: the products on a grid twice as fine.
    fine = [2 * n for n in SIZES]
    padded = np.zeros((3, fine[2], fine[1], fine[0] // 2 + 1), complex)
    ky, kz = (np.fft.fftfreq(n, 1 / n).astype(int) for n in (SIZES[1], SIZES[2]))
    padded[np.ix_(range(3), kz, ky, range(SIZES[0] // 2 + 1))] = reference.modes
    u = np.fft.irfftn(padded, s=tuple(reversed(fine)), axes=(1, 2, 3), norm="forward")
    pressure = np.zeros_like(reference.modes[0])
    # The random field leaves no kept mode empty but the mean, whose pressure is 0.
    size = np.abs(reference.modes).sum(axis=0)
    inverse = np.where(size > 1e-12 * size.max(), 1 / np.maximum(reference.square, 1e-300), 0)
    for i in range(3):
        for j in range(3):
            product = np.fft.rfftn(u[i] * u[j], norm="forward")[np.ix_(kz, ky, range(SIZES[0] // 2 + 1))]
            pressure -= reference.axes[i] * reference.axes[j] * product * inverse
    expected = {"dissipation": dissipation, "enstrophy": rotation, "pressure": reference.back(pressure),
                "du/dx": a[0][0], "dv/dy": a[1][1], "dw/dz": a[2][2]}  # fmt: skip
    assert set(found.distributions) == set(expected)
    for name, values in expected.items():
        d = found.distributions[name]
        scale = values.mean() if d.scaled_by == "mean" else np.sqrt(np.mean(values**2))
        assert d.scale == pytest.approx(scale), name
        for p in range(4):
            assert d.moments[p] == pytest.approx(np.mean((values / scale) ** (p + 1)), rel=1e-8, abs=1e-9), name
        assert d.largest == pytest.approx(values.max() / scale), name
        counts, _ = np.histogram(values / scale, d.edges)
        widths = np.diff(np.log10(d.edges)) if d.logarithmic else np.diff(d.edges)
        # A value at an edge may go to either side of it by rounding.
        assert np.abs(np.cumsum(d.density * widths - counts / values.size)).max() < 2.5 / values.size, name
    np.testing.assert_allclose(found.enstrophy_slice, rotation[11], rtol=1e-5)


def transfer_of(solver):
    return solver.point_statistics(distributions=False, pressure=False).transfer


@pytest.mark.parametrize("dealiasing", ["two-thirds", "phase-shift"])
def test_the_transfer_moves_energy_and_makes_none(dealiasing: str) -> None:
    transfer = transfer_of(solver_of(dealiasing))
    assert abs(transfer.sum()) < 1e-12 * np.abs(transfer).sum()


def test_the_transfer_less_the_dissipation_is_the_rate_of_change_of_the_spectrum() -> None:
    solver = weft.turbulence.Solver(
        SIZES, lengths=LENGTHS, viscosity=0.03, dt=5e-4, dealiasing="two-thirds", scheme="rk4"
    )
    solver.set_random(lambda k: k**2 * np.exp(-(k**2) / 8), seed=3)
    sides = []
    for _ in range(2):
        found = solver.spectra()
        sides.append((found.energy, transfer_of(solver) - found.dissipation))
        solver.step(2)
    rate, expected = (sides[1][0] - sides[0][0]) / 1e-3, (sides[0][1] + sides[1][1]) / 2
    assert np.abs(rate - expected).max() < 1e-3 * np.abs(expected).max()


def test_single_precision_and_pencils_give_the_same_statistics() -> None:
    program = """
        import json, sys
        sys.path.insert(0, sys.argv[1])
        from test_turbulence_statistics import solver_of
        from mpi4py import MPI
        solver = solver_of("phase-shift", process_grid=sys.argv[2], precision=sys.argv[3],
                           exchange="pairwise:direct")
        found = solver.point_statistics(slice_z=11)
        if MPI.COMM_WORLD.rank == 0:
            values = {n: [d.scale, *d.moments, d.largest] for n, d in found.distributions.items()}
            rows = found.enstrophy_slice.tolist()
            print(json.dumps([values, found.transfer.tolist(), rows]))
    """
    from pathlib import Path

    folder = str(Path(__file__).parent)
    results = {}
    for ranks, grid, precision in ((1, "1x1", "double"), (4, "2x2", "double"), (3, "1x3", "single")):
        done = mpi_run(ranks, program, folder, grid, precision)
        assert done.returncode == 0, done.stderr
        results[grid] = json.loads(done.stdout.splitlines()[-1])
    for grid, tolerance in (("2x2", 1e-10), ("1x3", 2e-4)):
        for name, values in results["1x1"][0].items():
            np.testing.assert_allclose(results[grid][0][name], values, rtol=tolerance, atol=tolerance, err_msg=name)
        np.testing.assert_allclose(results[grid][2], results["1x1"][2], rtol=tolerance, atol=tolerance)
        scale = np.abs(results["1x1"][1]).max()
        np.testing.assert_allclose(results[grid][1], results["1x1"][1], atol=tolerance * scale)
