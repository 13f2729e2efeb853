"""The cuda and hip backends on a device: kernels against NumPy, copies, graphs, events, cache, trace, limits."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest

from weft import _weft, device, trace
from weft.model import kernels

NAMES = {"f8": "double", "f4": "float"}
CHUNK, THREADS = 4096, (256, 1, 1)  # of kernels/vector.hpp


def blocks(n):
    return -(-n // CHUNK)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("n", [1, 4096, 1_000_003])
def test_vector_kernels_agree_with_numpy(gpu, dtype, n):
    rng = np.random.default_rng(n)
    x, y, w = rng.standard_normal((3, n)).astype(dtype)
    a, b = x.dtype.type(0.75), x.dtype.type(-1.5)
    stream = device.Stream(gpu)
    on_x, on_y, on_w = gpu.array(x), gpu.array(y), gpu.array(w)

    def launch(name, *arguments, count=None):
        kernel = gpu.kernel("vector", name, {"WEFT_REAL": NAMES[dtype]})
        kernel(stream, blocks(n) if count is None else count, THREADS, *arguments)

    def result(name, *arguments):
        out = gpu.array(y)
        launch(name, *[out if argument is None else argument for argument in arguments])
        stream.synchronize()
        return out.numpy()

    close = {"rtol": 0, "atol": 8 * np.finfo(dtype).eps * 5}
    size = np.int64(n)
    np.testing.assert_array_equal(result("set", size, a, None), np.full(n, a))
    np.testing.assert_array_equal(result("copy", size, on_x, None), x)
    np.testing.assert_allclose(result("scale", size, a, None), a * y, **close)
    np.testing.assert_allclose(result("axpy", size, a, on_x, None), a * x + y, **close)
    np.testing.assert_allclose(result("axpby", size, a, on_x, b, None), a * x + b * y, **close)
    np.testing.assert_allclose(result("multiply", size, on_x, on_y, None), x * y, **close)

    partials, total = gpu.array(np.zeros(blocks(n))), gpu.array(np.zeros(1))
    for name, arguments, expected in [
        ("dot", (on_x, on_y), np.dot(x.astype("f8"), y.astype("f8"))),
        ("weighted_dot", (on_w, on_x, on_y), np.sum(w.astype("f8") * x * y)),
    ]:
        launch(name, size, *arguments, partials)
        launch("sum", np.int64(blocks(n)), partials, total, count=1)
        stream.synchronize()
        assert total.numpy()[0] == pytest.approx(expected, rel=1e-6, abs=1e-4 * np.sqrt(n))


def test_a_dot_product_is_the_same_bits_every_time(gpu):
    x = gpu.array(np.random.default_rng(2).standard_normal(2_000_003))
    n, stream = np.int64(2_000_003), device.Stream(gpu)
    dot = gpu.kernel("vector", "dot", {"WEFT_REAL": "double"})
    results = []
    for _ in range(5):
        partials = gpu.array(np.zeros(blocks(2_000_003)))
        dot(stream, blocks(2_000_003), THREADS, n, x, x, partials)
        stream.synchronize()
        results.append(partials.numpy().tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "i8"])
def test_large_arrays_go_to_the_device_and_back_unchanged(gpu, dtype):
    values = np.random.default_rng(3).integers(-100, 100, (50, 40, 333)).astype(dtype)
    np.testing.assert_array_equal(gpu.array(values).numpy(), values)


def test_cupy_sees_the_memory_of_an_array(gpu):
    cupy = pytest.importorskip("cupy")
    if gpu.is_host:
        pytest.skip("host memory")
    array = gpu.array(np.arange(1000.0))
    view = cupy.from_dlpack(array.view())
    view *= 2
    cupy.cuda.Device().synchronize()
    np.testing.assert_array_equal(array.numpy(), 2 * np.arange(1000.0))


def test_a_graph_runs_when_replayed_and_not_when_captured(gpu):
    if not gpu.supports_graphs:
        pytest.skip("no graphs on this device")
    x, stream = gpu.array(np.ones(1000)), device.Stream(gpu)
    scale = gpu.kernel("vector", "scale", {"WEFT_REAL": "double"})

    def work():
        for factor in (2.0, 3.0):
            scale(stream, 1, THREADS, np.int64(1000), np.float64(factor), x)

    graph = device.Graph(stream, work)
    stream.synchronize()
    np.testing.assert_array_equal(x.numpy(), np.ones(1000))
    for _ in range(3):
        graph.replay(stream)
    stream.synchronize()
    np.testing.assert_array_equal(x.numpy(), np.full(1000, 216.0))


def test_events_time_work_and_order_streams(gpu):
    n = 2**24
    x = gpu.array(np.ones(n))
    first, second = device.Stream(gpu), device.Stream(gpu)
    begin, end = device.Event(gpu), device.Event(gpu)
    scale = gpu.kernel("vector", "scale", {"WEFT_REAL": "double"})
    begin.record(first)
    for _ in range(20):
        scale(first, blocks(n), THREADS, np.int64(n), np.float64(1.5), x)
    end.record(first)
    end.wait_on(second)
    scale(second, blocks(n), THREADS, np.int64(n), np.float64(1.5**-20), x)
    second.synchronize()
    np.testing.assert_allclose(x.numpy(), 1.0, rtol=1e-12)
    seconds = end.seconds_since(begin)
    # 20 passes over 2 x 128 MiB: slower than 20 TB/s, faster than 1 GB/s.
    assert 20 * 2 * 8 * n / 20e12 < seconds < 20 * 2 * 8 * n / 1e9


def test_kernel_times_in_the_trace_add_up_to_the_time_between_events(gpu):
    n = 2**24
    x, stream = gpu.array(np.ones(n)), device.Stream(gpu)
    scale = gpu.kernel("vector", "scale", {"WEFT_REAL": "double"})
    scale(stream, blocks(n), THREADS, np.int64(n), np.float64(1), x)
    stream.synchronize()
    begin, end = device.Event(gpu), device.Event(gpu)
    trace.start()
    begin.record(stream)
    for _ in range(10):
        scale(stream, blocks(n), THREADS, np.int64(n), np.float64(1), x)
    end.record(stream)
    stream.synchronize()
    trace.stop()
    category = "cpu" if gpu.is_host else "gpu"
    rows = [row for row in _weft.trace.intervals() if row[0] == "scale" and row[1] == category]
    assert len(rows) == 10
    assert all(later[3] >= earlier[3] for earlier, later in itertools.pairwise(rows))
    total = sum(row[4] - row[3] for row in rows) * 1e-9
    assert 0.5 * end.seconds_since(begin) < total < 1.05 * end.seconds_since(begin)


def test_loaded_kernels_spill_nothing_and_fit_the_multiprocessor(gpu):
    if gpu.is_host:
        pytest.skip("the host has no registers to count")
    # Numbers of registers were chosen with one version of NVRTC; others spill a few of them in some kernels.
    chosen_with = f"NVRTC {kernels.recorded()[0]['nvrtc']}"
    most = 0 if device.info()["compilers"]["nvrtc"]["reason"] == chosen_with else 256
    for file, name, defines, hot in _weft.device.launched_kernels():
        if int(defines.get("WEFT_N", 7)) not in (3, 7, 9, 15):
            continue
        resources = gpu.kernel(file, name, defines).resources
        label = f"{file}.{name} {defines}"
        assert resources["registers"] > 0, label
        assert resources["max_blocks_per_multiprocessor"] > 0, label
        if hot:
            assert resources["stack_bytes"] <= most, label


def test_kernels_of_a_second_process_come_from_the_cache(gpu, tmp_path, monkeypatch):
    if gpu.is_host:
        pytest.skip("host kernels are not compiled at run time")
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    code = f"from weft import device; device.open('{gpu.backend}').kernel('vector', 'dot', {{'WEFT_REAL': 'double'}})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    (entry,) = tmp_path.iterdir()
    stamp = entry.stat().st_mtime_ns
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert [path.stat().st_mtime_ns for path in tmp_path.iterdir()] == [stamp]


def test_the_limits_are_those_of_a_gpu(gpu):
    low = 1e9 if gpu.is_host else 1e11
    assert low < device.measure_bandwidth(gpu) < 2e13
    double, single = device.measure_peak(gpu, "double"), device.measure_peak(gpu, "single")
    assert low < double < 2e14
    assert single > 0.9 * double


def test_irregular_reads_and_copies_have_the_rates_of_hardware(gpu):
    line = 128
    assert line / device.measure_irregular_read(gpu, 2**26) < 2e13
    assert 1e-13 < device.measure_irregular_read(gpu, 2**26) < 1e-3
    assert all(1e8 < rate < 1e13 for rate in device.measure_copies(gpu, 2**26))
