"""Devices from Python: what is found, arrays, kernels against NumPy, limits, and the cache of compiled kernels."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from mpi_run import SECONDS

from weft import device

NAMES = {np.dtype("f8"): "double", np.dtype("f4"): "float"}


def test_info_gives_a_reason_for_every_backend_and_compiler():
    info = device.info()
    assert list(info["backends"]) == ["host", "cuda", "hip"]
    assert info["backends"]["host"]["available"]
    for entry in [*info["backends"].values(), *info["compilers"].values()]:
        assert entry["reason"]
    assert info["host"]["threads"] >= 1
    assert info["host"]["memory_bytes"] > 2**28


def test_an_unknown_device_is_a_value_error_that_names_the_known_ones():
    with pytest.raises(ValueError, match=r"abacus.*auto, host, cuda or hip"):
        device.open("abacus")


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "i8"])
def test_arrays_go_to_the_device_and_back_unchanged(dtype):
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    array = device.open("host").array(values)
    assert array.shape == values.shape
    back = array.numpy()
    assert back.dtype == values.dtype
    np.testing.assert_array_equal(back, values)


def test_the_view_of_an_array_is_its_memory_and_keeps_it_alive():
    host = device.open("host")
    array = host.array(np.zeros(5))
    view = np.from_dlpack(array.view())
    stream = device.Stream(host)
    host.kernel("vector", "set", {"WEFT_REAL": "double"})(stream, 1, (256, 1, 1), np.int64(5), np.float64(3), array)
    stream.synchronize()
    del array
    np.testing.assert_array_equal(view, np.full(5, 3.0))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_a_kernel_called_from_python_agrees_with_numpy(dtype):
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 10_000)).astype(dtype)
    host = device.open("host")
    on_x, on_y = host.array(x), host.array(y)
    axpy = host.kernel("vector", "axpy", {"WEFT_REAL": NAMES[x.dtype]})
    axpy(device.Stream(host), 3, (256, 1, 1), np.int64(x.size), x.dtype.type(0.5), on_x, on_y)
    np.testing.assert_allclose(on_y.numpy(), 0.5 * x + y, rtol=0, atol=4 * np.finfo(dtype).eps)


def test_python_floats_are_refused_as_kernel_arguments_since_they_have_no_size():
    host = device.open("host")
    scale = host.kernel("vector", "scale", {"WEFT_REAL": "float"})
    with pytest.raises(TypeError, match="NumPy scalars"):
        scale(device.Stream(host), 1, (256, 1, 1), np.int64(1), 0.5, host.array(np.zeros(1, "f4")))
    with pytest.raises(ValueError, match=r"argument 2 has 8 bytes, its parameter 4"):
        scale(device.Stream(host), 1, (256, 1, 1), np.int64(1), np.float64(0.5), host.array(np.zeros(1, "f4")))


def test_the_measured_bandwidth_is_in_bytes_per_second():
    # A shared machine allows no tighter bounds: any computer of these decades is between 0.1 GB/s and 100 TB/s.
    assert 1e8 < device.measure_bandwidth(device.open("host"), 2**26) < 1e14


def test_the_bytes_of_a_measurement_of_bandwidth_are_those_asked_for_and_others_are_named(monkeypatch):
    host = device.open("host")
    monkeypatch.setenv("WEFT_BANDWIDTH_BYTES", str(2**20))
    assert 1e7 < device.measure_bandwidth(host) < 1e15
    monkeypatch.setenv("WEFT_BANDWIDTH_BYTES", "1 GiB")
    with pytest.raises(ValueError, match="WEFT_BANDWIDTH_BYTES is '1 GiB'; allowed: a number of bytes"):
        device.measure_bandwidth(host)
    assert device.measure_bandwidth(host, 2**20) > 1e7


def test_the_measured_peaks_are_in_operations_per_second():
    host = device.open("host")
    for precision in ("double", "single"):
        assert 1e8 < device.measure_peak(host, precision) < 1e16
    with pytest.raises(ValueError, match="double or single"):
        device.measure_peak(host, "half")


# --- the cache of compiled kernels ---

COMPILE = """
import sys, time
from weft import device
time.sleep(max(0.0, float(sys.argv[1]) - time.time()))  # all processes at once
print(device.compile_check("vector", "dot", {"WEFT_REAL": "float"}, "sm_90"))
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    if not device.info()["compilers"]["nvrtc"]["available"]:
        pytest.skip(device.info()["compilers"]["nvrtc"]["reason"])
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def check(**defines):
    return device.compile_check("vector", "dot", {"WEFT_REAL": "double"} | defines, "sm_90")


def test_many_processes_starting_at_once_leave_one_whole_entry(cache):
    start = str(time.time() + 3)
    command = [sys.executable, "-c", COMPILE, start]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(12)]
    results = [child.communicate(timeout=SECONDS)[0] for child in children]
    assert all(child.returncode == 0 for child in children)
    assert len(set(results)) == 1
    assert "registers" in results[0]
    entries = list(cache.iterdir())
    assert [entry.suffix for entry in entries] == [".kernels"]  # one entry, no part left behind
    before = entries[0].read_bytes()
    subprocess.run([sys.executable, "-c", COMPILE, "0"], check=True, capture_output=True, timeout=SECONDS)
    assert entries[0].read_bytes() == before


def test_a_second_compilation_comes_from_the_cache(cache):
    first = check()
    (entry,) = cache.iterdir()
    stamp = entry.stat().st_mtime_ns
    assert check() == first
    assert entry.stat().st_mtime_ns == stamp  # not written again
    check(WEFT_TILE_X=7)
    assert len(list(cache.iterdir())) == 2  # another define is another entry


@pytest.mark.parametrize("damage", ["cut", "altered", "emptied", "of another key"])
def test_a_damaged_entry_is_compiled_again(cache, damage):
    expected = check()
    (entry,) = cache.iterdir()
    whole = entry.read_bytes()
    if damage == "cut":
        entry.write_bytes(whole[: len(whole) // 2])
    elif damage == "altered":
        entry.write_bytes(whole[:-100] + bytes(b ^ 0xFF for b in whole[-100:]))
    elif damage == "emptied":
        entry.write_bytes(b"")
    else:
        entry.write_bytes(whole.replace(b"WEFT_REAL=double", b"WEFT_REAL=doublf"))
    broken = entry.read_bytes()
    assert check() == expected
    repaired = entry.stat().st_mtime_ns
    assert entry.read_bytes() != broken
    assert check() == expected
    assert entry.stat().st_mtime_ns == repaired  # whole again: the last check did not compile


def test_a_cache_that_cannot_be_written_costs_a_warning_not_the_kernel(cache, capfd):
    cache.write_text("a file where the folder should be")
    assert check()["registers"] > 0
    assert "cannot be cached" in capfd.readouterr().err


def test_the_cache_can_be_turned_off(cache, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", "off")
    assert check()["registers"] > 0
    assert not cache.exists()
    assert device.info()["kernel_cache"] == ""


def test_the_chase_kernel_follows_every_pointer():
    host = device.open("host")
    lines, stride, steps, threads = 64, 32, 5, 256
    rng = np.random.default_rng(2)
    following = rng.permutation(lines).astype("i4")
    memory = np.zeros(lines * stride, "i4")
    memory[::stride] = following
    expected = ((np.arange(threads) * 2654435761) & (lines - 1)).astype("i4")
    for _ in range(steps):
        expected = following[expected]
    last = host.array(np.zeros(threads, "i4"))
    chase = host.kernel("limits", "chase", {"WEFT_REAL": "double"})
    counts = (np.int32(lines), np.int32(stride), np.int32(steps))
    chase(device.Stream(host), 1, (threads, 1, 1), *counts, host.array(memory), last)
    np.testing.assert_array_equal(last.numpy(), expected)


def test_chased_pointers_and_copies_give_rates_that_are_numbers() -> None:
    host = device.open("host")
    assert 0 < device.measure_irregular_read(host, 2**20) < 1e-3
    assert all(1e6 < r < 1e13 for r in device.measure_copies(host, 2**20))
