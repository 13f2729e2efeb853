"""Every kernel that weft launches compiles for all supported GPUs, and no hot one has a stack frame or a spill.

No GPU is needed. cpp/weft/bindings/launched_kernels.cpp lists the kernels: every kernel, type, order and tile size that
is launched, for every architecture.
"""

from __future__ import annotations

import subprocess
from itertools import repeat

import kernels_without_spills as record
import pytest
from kernels_without_spills import ARCHITECTURES, LAUNCHED, compiled, digest, units

from weft import _weft, device

SHARE = 8  # one in so many units of the record is compiled again: others for each commit

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
    compiler = record.compiler(architecture)
    if not compiler["available"]:
        pytest.skip(compiler["reason"])


@pytest.fixture(scope="module")
def pool():
    with record.processes() as processes:
        yield processes


def turn():
    """Which part of the record this commit compiles again. Without git it is always the same."""
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=record.ROOT, capture_output=True, text=True)
    return int(git.stdout[:8] or "0", 16) % SHARE


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_hot_kernel_spills(architecture, pool):
    need(architecture)
    known, every = record.recorded(), {digest(unit, architecture): unit for unit in units(architecture)}
    assert sum(len(kernels) for _, kernels in every.values()) == len(LAUNCHED)
    again = turn()
    chosen = [unit for key, unit in every.items() if key not in known or int(key, 16) % SHARE == again]
    results = [row for rows in pool.map(compiled, chosen, repeat(architecture)) for row in rows]
    bad = [f"{label}: {wrong}" for label, wrong in results if wrong]
    assert not bad, f"{len(bad)} of {len(results)} kernels:\n" + "\n".join(bad)


def test_another_architecture_option_text_or_kernel_is_not_in_the_record():
    need("sm_80")
    unit = next(unit for unit in units("sm_80") if unit[0][0] == "poisson")
    (file, *defines), kernels = unit
    others = [
        digest(unit, "sm_90"),
        digest(((file, *defines, ("X", "1")), kernels), "sm_80"),
        digest((("flow_terms", *defines), kernels), "sm_80"),
        digest(((file, *defines), dict.fromkeys(kernels, None)), "sm_80"),
    ]
    assert digest(unit, "sm_80") not in others
    key = _weft.device.compilation_key(file, list(kernels), dict(defines), "sm_80")
    for included in ("poisson", "poisson_metric", "element", "dialect"):
        assert (record.ROOT / f"cpp/weft/kernels/{included}.hpp").read_text() in key
    assert record.compiler("sm_80")["reason"] in key
    assert all(f"-D{name}={value}" in key for name, value in defines)


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
