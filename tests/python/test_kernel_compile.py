"""Every kernel that weft launches compiles for all supported GPUs, and no hot one has a stack frame or a spill.

No GPU is needed. cpp/weft/bindings/launched_kernels.cpp lists the kernels: every kernel, type, order and tile size that
is launched, for every architecture.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import pytest

from weft import _weft, device

LAUNCHED = _weft.device.launched_kernels()
ARCHITECTURES = ["sm_80", "sm_90", "sm_100", "gfx90a"]
COMPILERS = {"sm": "nvrtc", "gfx": "hiprtc"}
RUN = "sm_90"  # what the tests on machine code run
CACHE = str(Path(__file__).parents[2] / "build/machine_code")  # theirs

SPILLS = """
#include "weft/kernels/dialect.hpp"
WEFT_KERNEL(tidy, 64, (const double* x, double* y)) {
  WEFT_THREADS(t, 64) { y[t] = 2 * x[t]; }
}
WEFT_KERNEL(has_a_stack, 64, (const int* index, const double* x, double* y)) {
  WEFT_THREADS(t, 64) {
    double own[32];
    for (int k = 0; k < 32; ++k) own[k] = x[32 * t + k];
    y[t] = own[index[t]];
  }
}
WEFT_KERNEL(spills, 1024, (const double* x, double* y)) {
  WEFT_THREADS(t, 1024) {
    double own[96];
    WEFT_UNROLL
    for (int k = 0; k < 96; ++k) own[k] = x[1024 * k + t];
    WEFT_BARRIER();
    double sum = 0;
    WEFT_UNROLL
    for (int k = 0; k < 96; ++k) sum = own[95 - k] * sum + own[k];
    WEFT_UNROLL
    for (int k = 0; k < 96; ++k) y[1024 * k + t] = own[k] * sum;
  }
}
"""


def need(architecture: str) -> None:
    compiler = device.info()["compilers"][COMPILERS[architecture.rstrip("0123456789abcdef_")]]
    if not compiler["available"]:
        pytest.skip(compiler["reason"])


def compiled(unit, architecture):
    """Compiles kernels of one file with the same constants; of each its label, and what is wrong with it or None."""
    (file, *defines), kernels = unit
    labels = [f"{architecture} {file}.{name} " + " ".join(f"{k}={v}" for k, v in defines) for name in kernels]
    try:
        resources = _weft.device.compile_check(file, list(kernels), dict(defines), architecture)
    except RuntimeError as error:
        return [(label, str(error)) for label in labels]
    return list(zip(labels, map(problem, resources, kernels.values()), strict=True))


def problem(resources, hot):
    if hot and (resources["stack_bytes"] or resources["spill_bytes"]):
        return f"a stack of {resources['stack_bytes']} bytes, spills of {resources['spill_bytes']} bytes"
    return "no registers reported" if resources["registers"] <= 0 else None


def use_cache():
    os.environ["WEFT_CACHE"] = CACHE


@pytest.fixture(scope="module")
def pool():
    # New processes: the MPI and OpenMP of this one do not survive a fork.
    processors = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(processors, mp_context=get_context("spawn"), initializer=use_cache) as processes:
        yield processes


def units(architecture):
    """The kernels of each file and its constants, and which of them are hot.

    Kernels of the architecture that the tests on machine code run are compiled as these do, which then need not be
    compiled again.
    """
    found, together = [], {}
    for file, name, defines, hot in LAUNCHED:
        constants = (file, *sorted(defines.items()))
        if architecture == RUN and "WEFT_N" in defines:
            found.append((constants, {name: hot}))
        else:
            together.setdefault(constants, {})[name] = hot
    return found + list(together.items())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_hot_kernel_spills(architecture, pool):
    need(architecture)
    results = [row for rows in pool.map(compiled, units(architecture), repeat(architecture)) for row in rows]
    assert len(results) == len(LAUNCHED)
    bad = [f"{label}: {wrong}" for label, wrong in results if wrong]
    assert not bad, f"{len(bad)} of {len(results)} kernels:\n" + "\n".join(bad)


def test_every_kernel_of_the_library_is_in_the_list():
    listed = {(file, name) for file, name, _, _ in LAUNCHED}
    assert set(_weft.device.kernel_names()) == listed


@pytest.mark.parametrize("architecture", ["sm_90", "gfx90a"])
def test_a_stack_frame_and_spills_are_seen(architecture):
    need(architecture)

    def check(name):
        return device.compile_check("probe", name, {}, architecture, text=SPILLS)

    tidy, stack, spills = check("tidy"), check("has_a_stack"), check("spills")
    assert tidy["stack_bytes"] == tidy["spill_bytes"] == 0
    assert stack["stack_bytes"] >= 32 * 8
    assert spills["spill_bytes"] > 0
    with pytest.raises(RuntimeError, match="absent"):
        check("absent")


def test_a_compilation_error_quotes_the_compiler():
    need("sm_90")
    with pytest.raises(RuntimeError, match=r"broken\.hpp.*sm_90") as caught:
        device.compile_check("broken", "k", {}, "sm_90", text="__global__ void k() { nonsense; }")
    assert 'identifier "nonsense" is undefined' in str(caught.value)


def test_a_compiler_that_aborts_is_an_error_and_not_the_end():
    need("gfx90a")
    # hipRTC 5.2 aborts its process on an architecture it does not know; newer ones report it.
    with pytest.raises(RuntimeError, match="gfx000"):
        device.compile_check("vector", "axpy", {"WEFT_REAL": "double"}, "gfx000")


def test_an_unknown_kind_of_architecture_names_the_known_ones():
    with pytest.raises(ValueError, match=r"x87.*sm_90 or gfx90a"):
        device.compile_check("vector", "axpy", {"WEFT_REAL": "double"}, "x87")
