"""weft.fft.Plan on device memory against NumPy, and its lines by cuFFT or hipFFT."""

from __future__ import annotations

import numpy as np
import pytest
from mpi4py import MPI
from mpi_run import mpi_run

import weft
from weft import _weft, fft


def library_or_skip(gpu) -> None:
    problem = fft.libraries(gpu.backend)[0]["problem"]
    if problem:
        pytest.skip(problem)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("shape", [(32, 32, 32), (15, 20, 12), (8, 1, 9)])
def test_coefficients_are_numpys_and_fields_come_back(gpu, dtype, shape):
    library_or_skip(gpu)
    plan = fft.Plan(shape, dtype=dtype, variables=2, batch=2, device=gpu)
    field = np.random.default_rng(1).standard_normal((2, *shape)).astype(dtype)
    physical = gpu.array(field)
    spectral = gpu.array(np.zeros((2, *plan.spectral_shape), plan.spectral_dtype))
    plan.forward(physical.view(), spectral.view())
    expected = np.fft.rfftn(field.astype("f8"), axes=(1, 2, 3))
    scale = np.sqrt((np.abs(expected) ** 2).mean())
    tolerance = 2e-5 if dtype == "f4" else 1e-13
    np.testing.assert_allclose(spectral.numpy() / scale, expected / scale, atol=tolerance)
    back = gpu.array(np.zeros_like(field))
    plan.backward(spectral.view(), back.view())
    np.testing.assert_allclose(back.numpy(), field, atol=10 * tolerance)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("shape", [(32, 16, 64), (15, 21, 35), (9, 1, 8), (1, 6, 7)])
def test_whole_fields_are_numpys_also_if_their_coefficients_are_of_no_real_field(gpu, shape, dtype, norm):
    # Of two fields with an odd number of points, the second is not aligned for complex numbers.
    library_or_skip(gpu)
    plan = fft.Plan(shape, dtype=dtype, norm=norm, device=gpu)
    random = np.random.default_rng(1)
    field = random.standard_normal((2, *shape)).astype(dtype)
    physical = gpu.array(field)
    spectral = gpu.array(np.zeros((2, *plan.spectral_shape), plan.spectral_dtype))
    plan.forward(physical.view(), spectral.view())
    tolerance = 2e-5 if dtype == "f4" else 1e-13

    def compare(found, expected):
        largest = abs(expected).max()
        np.testing.assert_allclose(found / largest, expected / largest, atol=tolerance)

    compare(spectral.numpy(), np.fft.rfftn(field.astype("f8"), axes=(1, 2, 3), norm=norm))
    np.testing.assert_array_equal(physical.numpy(), field)

    given = np.empty((2, *plan.spectral_shape), plan.spectral_dtype)
    given.real, given.imag = random.standard_normal((2, *given.shape))
    expected = np.fft.irfftn(given.astype("c16"), shape, axes=(1, 2, 3), norm=norm)
    spectral = gpu.array(given)
    plan.backward(spectral.view(), physical.view())
    compare(physical.numpy(), expected)
    np.testing.assert_array_equal(spectral.numpy(), given)
    physical = gpu.array(np.zeros_like(field))
    plan.backward(spectral.view(), physical.view(), overwrite=True)
    compare(physical.numpy(), expected)


def test_cupy_arrays_are_transformed_where_they_are(gpu):
    library_or_skip(gpu)
    if gpu.is_host:
        pytest.skip("CuPy has no arrays on the host")
    cupy = pytest.importorskip("cupy")
    plan = fft.Plan((16, 16, 16), device=gpu)
    field = cupy.random.random((16, 16, 16))
    out = cupy.empty(plan.spectral_shape, complex)
    assert plan.forward(field, out) is out
    np.testing.assert_allclose(out.get(), np.fft.rfftn(field.get()), atol=1e-9)


def test_an_array_on_another_device_is_refused(gpu):
    library_or_skip(gpu)
    plan = fft.Plan((8, 8, 8), device=gpu)
    elsewhere = np.zeros(plan.physical_shape, "f4" if gpu.is_host else "f8")
    with pytest.raises(TypeError, match=r"physical (is not on the plan's device|must be of type float64)"):
        plan.forward(elsewhere)


@pytest.mark.parametrize("single", [False, True])
def test_lines_by_the_devices_library_are_those_of_the_host(gpu, single):
    library_or_skip(gpu)
    for way in _weft.bench.lines_ways(gpu):
        for n in (16, 30, 96):
            _weft.bench.lines(MPI.COMM_WORLD, gpu, way, n, n // 2 + 1, 3, single).check()


CODE = """
import sys
import numpy as np
from mpi4py import MPI
import weft
from weft import fft

comm, gpu = MPI.COMM_WORLD, weft.device.open(sys.argv[1])
shape = (12, 10, 18)
field = np.random.default_rng(1).standard_normal(shape)
expected = np.fft.rfftn(field)
for grid in (f"1x{comm.size}", f"{comm.size}x1", "2x2" if comm.size == 4 else "auto"):
    plan = fft.Plan(shape, comm, process_grid=grid, device=gpu)
    physical = gpu.array(np.ascontiguousarray(field[plan.physical_slices]))
    spectral = gpu.array(np.zeros(plan.spectral_shape, complex))
    plan.forward(physical.view(), spectral.view())
    np.testing.assert_allclose(spectral.numpy(), expected[plan.spectral_slices], atol=1e-11)
    plan.backward(spectral.view(), physical.view())
    np.testing.assert_allclose(physical.numpy(), field[plan.physical_slices], atol=1e-12)
"""


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_that_share_a_device_agree_with_numpy_on_every_grid(gpu, ranks):
    library_or_skip(gpu)
    done = mpi_run(ranks, CODE, gpu.backend)
    assert done.returncode == 0, done.stderr


def test_the_library_names_itself(gpu):
    library_or_skip(gpu)
    assert fft.libraries(gpu.backend)[0]["version"]
    assert weft.fft is fft
