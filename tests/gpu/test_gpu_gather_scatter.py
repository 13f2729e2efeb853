"""Gather-scatter of device memory against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "i8"])
@pytest.mark.parametrize("op", ["add", "mul", "min", "max"])
@pytest.mark.parametrize("fields", [1, 6])
def test_gather_scatter_agrees_with_numpy(gpu, dtype, op, fields):
    rng = np.random.default_rng(5)
    ids = rng.integers(-2, 4000, 20_000)
    values = rng.integers(1, 4, (ids.size, fields)).astype(dtype)
    functions = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    start = {"add": 0, "mul": 1, "min": 9, "max": 0}[op]
    combined = np.full((4000, fields), start, dtype)
    live = ids > 0
    functions[op].at(combined, ids[live], values[live])
    expected = np.where(live[:, None], combined[np.maximum(ids, 0)], values)

    array = gpu.array(values)
    gs = weft.GatherScatter(ids, fields=fields)
    if gpu.is_host:
        view = np.array(values)
        gs(view, op)
        found = view
    else:
        cupy = pytest.importorskip("cupy")
        gs(cupy.from_dlpack(array.view()), op)
        found = array.numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5)
