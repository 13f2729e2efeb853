"""The time-dependent workloads and multigrid on a device against the host."""

from __future__ import annotations

import numpy as np
import pytest
from mpi_run import mpi_run

import weft
from weft import fft


def deformed(periodic: tuple[bool, bool, bool] = (True, True, True)) -> weft.Mesh:
    """Curved elements whose number is not a multiple of any tile."""
    return weft.Mesh.box((3, 2, 3), periodic=periodic, deformation="smooth")


def close(results, tolerance: float) -> None:
    found, expected = results
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def waves(x, y, z):
    return 0 * x, np.sin(2 * np.pi * x), np.sin(np.pi * y), np.cos(np.pi * z), 0 * x, np.sin(2 * np.pi * x)


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("order", [2, 5, 7, 8, 14])
def test_maxwell_steps_as_on_the_host(gpu, order, precision):
    fields = []
    for device in (gpu, "host"):
        solver = weft.maxwell.Solver(
            deformed((True, False, False)), order=order, device=device, precision=precision, kernels="portable",
            boundaries={"y-": "pec", "y+": "pmc", "z-": "pec", "z+": "absorbing"},
        )  # fmt: skip
        solver.set_fields(waves)
        solver.step(10)
        fields.append(solver.host_fields())
    close(fields, 1e-11 if precision == "double" else 1e-4)


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("dealiasing", ["two-thirds", "phase-shift"])
@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
def test_turbulence_steps_as_on_the_host(gpu, scheme, dealiasing, precision):
    problem = fft.libraries(gpu.backend)[0]["problem"]
    if problem:
        pytest.skip(problem)
    velocities = []
    for device in (gpu, "host"):
        solver = weft.turbulence.Solver(
            (24, 20, 18), viscosity=0.01, dt=0.01, scheme=scheme, dealiasing=dealiasing, precision=precision,
            scalars=[weft.turbulence.Scalar(gradient=(1.0, 0.0, 0.0))], device=device,
        )  # fmt: skip
        solver.set_taylor_green()
        solver.step(10)
        velocities.append(np.concatenate([solver.velocity(), solver.scalar()[None]]))
    close(velocities, 1e-12 if precision == "double" else 1e-4)


def vortex(x, y, z, t):
    return np.sin(x) * np.cos(y) * np.cos(z), -np.cos(x) * np.sin(y) * np.cos(z), 0 * x


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("order", [3, 5, 7, 8])
def test_a_flow_steps_as_on_the_host(gpu, order, precision):
    tolerance = 1e-9 if precision == "double" else 1e-5
    box = weft.Mesh.box((3, 2, 2), upper=(2 * np.pi, np.pi, np.pi), periodic=(True, False, False))
    found = []
    for device in (gpu, "host"):
        solver = weft.flow.Solver(
            box, order=order, viscosity=0.02, device=device, precision=precision, kernels="portable",
            boundaries={"y-": "symmetry", "y+": "symmetry", "z-": "wall", "z+": "wall"},
            pressure_tolerance=tolerance, velocity_tolerance=tolerance,
        )  # fmt: skip
        solver.set_velocity(vortex)
        solver.step(5, dt=0.01)
        found.append(solver.velocity())
    close(found, 100 * tolerance)


@pytest.mark.parametrize("order", [3, 7, 9])
def test_multigrid_takes_as_many_iterations_as_on_the_host(gpu, order):
    results = []
    for device in (gpu, "host"):
        op = weft.Poisson(deformed((False, False, False)), order=order, lam=0.0, dirichlet=True, device=device)
        results.append(op.multigrid(op.random_rhs(1), tolerance=1e-9))
    assert all(result.converged for result in results)
    assert abs(results[0].iterations - results[1].iterations) <= 1


CODE = """
import sys
import numpy as np
import weft
box = weft.Mesh.box((3, 2, 2), upper=(2 * np.pi, 2 * np.pi, 2 * np.pi), periodic=(True, True, True))
waves = weft.maxwell.Solver(box, order=5, device=sys.argv[1])
waves.set_fields(lambda x, y, z: (0 * x, np.sin(x), 0 * x, 0 * x, 0 * x, np.sin(x)))
waves.step(5)
flow = weft.flow.Solver(box, order=5, viscosity=0.02, device=sys.argv[1])
flow.set_velocity(
    lambda x, y, z, t: (np.sin(x) * np.cos(y) * np.cos(z), -np.cos(x) * np.sin(y) * np.cos(z), 0 * x)
)
flow.step(3, dt=0.01)
square = box.comm.allreduce(float((flow.velocity() ** 2).sum()))
if box.comm.rank == 0:
    print("sum of squares", square)
energy = waves.energy()
if box.comm.rank == 0:
    print("energy", energy)
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_that_share_a_device_step_as_one(gpu, ranks):
    values = []
    for count in (1, ranks):
        done = mpi_run(count, CODE, gpu.backend)
        assert done.returncode == 0, done.stderr
        values.append([float(line.split()[-1]) for line in done.stdout.splitlines()])
    np.testing.assert_allclose(values[1], values[0], rtol=1e-6)
