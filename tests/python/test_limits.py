"""The three limits of a run: which binds, what the instructions allow, and that the recorded counts still hold."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.model import flow_formulas, formulas, instructions, processors, turbulence_formulas
from weft.model.limits import by_instructions, limits
from weft.report.rows import limit_rows

ROOT = Path(__file__).parents[2]
SECONDS = 300
INTEL = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nflags\t\t: fpu avx2 "
AMD = "vendor_id\t: AuthenticAMD\ncpu family\t: {}\nflags\t\t: fpu avx2 {}\n\nvendor_id\t: none\n"


def test_the_limit_that_takes_longest_binds() -> None:
    counted = {"name": "instructions", "seconds": 4.0, "share": 0.0, "what": "loads"}
    found = limits(10.0, 20.0, 10.0, 300.0, 100.0, counted)
    assert [(limit["name"], limit["seconds"], limit["share"]) for limit in found] == [
        ("instructions", 4.0, 0.4),
        ("arithmetic", 3.0, 0.3),
        ("bandwidth", 2.0, 0.2),
    ]
    assert [limit["name"] for limit in limits(10.0, 50.0, 10.0, 300.0, 100.0)] == ["bandwidth", "arithmetic"]


def test_a_run_in_cache_is_told_from_one_that_beats_the_memory() -> None:
    shown = [limit_rows(limits(seconds, 20.0, 10.0, 0.0, 1.0))[0][1] for seconds in (2.5, 1.6)]
    assert [line.split(":")[0] for line in shown] == ["bandwidth binds, 80 % reached", "bandwidth binds, 125 % reached"]
    assert ["caches" in line for line in shown] == [False, True]


def test_a_core_is_limited_by_what_takes_most_cycles() -> None:
    core = processors.core("Zen 5", "avx512")
    mix = {"slots": 80.0, "multiply": 30.0, "add": 10.0, "vector": 4.0, "load": 20.0, "gather": 1.0, "store": 8.0}
    assert instructions.cycles(core, mix) == {
        "instructions entering": (79 + 48) / 8,
        "multiply-adds": 15.0,
        "additions": 5.0,
        "vector operations": 11.0,
        "shuffles": 0.0,
        "divisions": 0.0,
        "loads": 25.0,
        "stores": 8.0,
    }


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (INTEL + "avx512f avx512_vbmi2 amx_tile", "Sapphire Rapids"),
        (INTEL + "avx512f avx512_vbmi2", "Ice Lake-SP"),
        (INTEL + "avx512f", "Skylake-SP"),
        (INTEL, "generic"),
        (AMD.format(26, "avx512f"), "Zen 5"),
        (AMD.format(25, "avx512f"), "Zen 4"),
        (AMD.format(25, ""), "Zen 3"),
        ("processor\t: 0\nCPU architecture: 8\n", "generic"),
    ],
)
def test_a_processor_is_known_by_its_family_and_flags(text: str, name: str, tmp_path) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert processors.microarchitecture(tmp_path / "cpuinfo") == name
    assert processors.core(name, "avx2") is not None


def test_differences_of_shape_work_and_access_add_up_and_orders_are_interpolated() -> None:
    def kernel(order: int, shape: str, work: str, access: str) -> instructions.Kernel:
        return instructions.Kernel("avx2", order, shape, work, access)

    mixes = {
        kernel(order, *way): {"slots": slots + order}
        for order in (2, 4)
        for way, slots in {
            ("parallelepiped", "operator", "gather"): 10.0,
            ("trilinear", "operator", "gather"): 15.0,
            ("parallelepiped", "merged", "gather"): 12.0,
            ("parallelepiped", "operator", "loads"): 11.0,
        }.items()
    }
    assert instructions.mix(kernel(4, "trilinear", "merged", "loads"), mixes) == {"slots": 22.0}
    assert instructions.mix(kernel(3, "trilinear", "merged", "loads"), mixes) == {"slots": 21.0}
    assert instructions.mix(kernel(5, "trilinear", "merged", "loads"), mixes) is None
    assert instructions.mix(kernel(3, "stored", "merged", "loads"), mixes) is None


@pytest.mark.parametrize("vectors", ["avx512", "avx2"])
def test_the_record_has_every_shape_access_and_work(vectors: str) -> None:
    for order in (1, 3, 7):
        # Boxes were counted where there was a processor at hand.
        for shape in ("parallelepiped", "trilinear", "stored", *(["box"] if vectors == "avx2" else [])):
            for access in ("gather", "loads", "gather and runs", "loads and runs"):
                for work in ("operator", "merged"):
                    assert instructions.mix(instructions.Kernel(vectors, order, shape, work, access)), (order, shape)


def test_a_parallelepiped_needs_fewer_cycles_than_a_trilinear_element() -> None:
    size = formulas.Size(1000, 7, 343_000)

    def method(flat: int, boxes: int = 0) -> formulas.Method:
        return formulas.Method("assembled", "trilinear", 0, flat, boxes, "simd")

    found = [
        by_instructions(size, method(flat), "operator", "gather", v, 1e11)
        for v in ("avx512", "avx2")
        for flat in (1000, 500, 0)
    ]
    for flat, half, trilinear in (found[:3], found[3:]):
        assert flat["seconds"] < half["seconds"] < trilinear["seconds"]
    boxes = by_instructions(size, method(1000, 1000), "operator", "gather", "avx2", 1e11)
    assert boxes["seconds"] < found[3]["seconds"]
    assert by_instructions(size, formulas.Method(kernels="portable"), "operator", "gather", "avx2", 1e11) is None


def test_weft_counts_its_own_operations() -> None:
    size = formulas.Size(10, 7, 3430)
    stored = formulas.weft_operator_flops(size, formulas.Method(kernels="simd")).value
    assert stored == 6 * 10 * 64 * 72 + 2 * 5120 + 15 * 5120 + 2 * 3430  # docs/cpu-kernels.md
    boxes = formulas.Method(geometry="trilinear", parallelepipeds=10, boxes=4, kernels="simd")
    # Lines of 9 points take 4 * 4 * 4 + 6 * 4 - 1 operations, or 2 more with a symmetric matrix.
    odd = formulas.weft_operator_flops(formulas.Size(10, 8, 5120), boxes).value
    lines, metric = 81 * (36 * 87 + 12 * 89), 81 * (6 * (18 * 9 + 6) + 4 * (3 * 9 + 3))
    assert odd == lines + 2 * 7290 + metric + 2 * 5120
    straight = formulas.weft_operator_flops(size, formulas.Method(geometry="trilinear", kernels="simd")).value
    assert straight == stored - 15 * 5120 + 10 * (32.5 * 512 + 60 * 64 + 230 * 8)
    merged = formulas.weft_iteration_flops(size, formulas.Method(kernels="simd", algorithm="merged"))
    assert merged.value == stored + 14 * 3430
    assert merged.text.endswith("16 N_G")


@pytest.mark.parametrize("points", [(24, 20, 16), (18, 18, 18)])
@pytest.mark.parametrize("dealiasing", ["phase-shift", "two-thirds"])
def test_a_truncation_keeps_the_modes_columns_and_planes_of_its_definition(points, dealiasing: str) -> None:
    x, y, z = np.meshgrid(*(np.fft.fftfreq(n) for n in points), indexing="ij")
    if dealiasing == "phase-shift":
        keeps = x**2 + y**2 + z**2 < 2 / 9 - 1e-12
    else:
        keeps = np.maximum(np.maximum(abs(x), abs(y)), abs(z)) < 1 / 3 - 1e-12
    keeps = keeps[: points[0] // 2 + 1]  # of a real field
    found = turbulence_formulas.kept(points, dealiasing)
    assert found.modes == keeps.sum()
    assert found.columns == keeps.any(axis=1).sum()
    assert found.planes == keeps.any(axis=(1, 2)).sum()


def test_a_step_of_turbulence_moves_its_fields_once_per_pass() -> None:
    points = (24, 20, 16)
    kept = turbulence_formulas.kept(points, "phase-shift")
    column, mode = 16 * kept.columns * 20, 16 * kept.modes

    def moved(scheme: str, scalars: int = 0, word: int = 8) -> float:
        return turbulence_formulas.step_bytes(points, "phase-shift", scheme, scalars, word).value

    # RK2: y 3 + 3, x and z 3 + 4, y 4 + 3 + 3 + 3; y 3 + 3, x and z 3 + 4, y 4 + 3 + 3.
    assert moved("rk2") == (3 + 7 + 4 + 3 + 6 + 7 + 4) * column + 15 * mode
    # Each of RK4's first three substeps also leaves the next velocities; sums are read three times and written three.
    assert moved("rk4") == (3 + 3 * 6 + 4 * 7 + 4 * 4 + 3 * 3) * column + (3 + 6 + 9 + 9 + 6) * mode
    assert moved("rk2", 1) == (6 * 4 + 4 * 6) * column + 5 * 4 * mode
    assert 2 * moved("rk2", word=4) == moved("rk2")
    x, z, y = (points[d] * np.log2(points[d]) for d in (0, 2, 1))
    lines = 8 * 20 * 16 * 2.5 * x + 8 * kept.planes * 20 * 5 * z + 7 * kept.columns * 5 * y
    assert turbulence_formulas.step_flops(points, "phase-shift", "rk2", 0).value == pytest.approx(2 * lines)


def test_the_velocities_of_a_flow_share_geometry_and_indices() -> None:
    size = formulas.Size(10, 7, 3430)
    method = formulas.Method(geometry="trilinear", kernels="simd")
    once = flow_formulas.velocity(size, method, (0.0, 0.0), 0)
    twice = flow_formulas.velocity(size, method, (0.0, 0.0), 2)
    surface, corners = 4 * 10 * (512 - 216), 24 * 8 * 10
    # x and A x of three fields, 9 words to subtract the gradient and 17 for the residual; then 26 and 9 for x.
    assert once.bytes.value == surface + corners + (6 + 9 + 17) * 8 * 3430
    assert twice.bytes.value == 3 * (surface + corners) + (6 + 9 + 17 + 2 * 26 + 9) * 8 * 3430
    one, stored = (
        formulas.weft_operator_flops(size, m).value - 2 * 3430 for m in (method, formulas.Method(kernels="simd"))
    )
    assert once.flops.value == one + 2 * stored + 33 * 3430
    assert twice.flops.value == 3 * (one + 2 * stored) + (33 + 144 + 6) * 3430


def test_a_flow_extrapolates_all_its_fields_at_every_level() -> None:
    size = formulas.Size(10, 7, 3430, 4)
    for components, order, words in ((3, 3, 29), (4, 3, 37), (3, 2, 23), (3, 1, 17)):
        phase = flow_formulas.convection(size, (1000.0, 10.0), components, order)
        assert phase.bytes.value == 1000 + words * 4 * 3430
        assert phase.flops.value == 10 + 4 * components * order * 3430


@pytest.mark.skipif(platform.machine() != "x86_64", reason="counts x86 instructions")
@pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("objdump")), reason="needs gcc and objdump")
def test_the_recorded_instructions_are_those_of_the_kernels() -> None:
    vectors = weft.device.open("host").architecture
    if vectors not in ("avx512", "avx2"):
        pytest.skip("weft was compiled for other vectors than those of the record")
    command = [sys.executable, str(ROOT / "benchmarks" / "instruction_mix.py"), "--orders", "7", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    counted = [json.loads(line) for line in done.stdout.splitlines()]
    # The compiler may choose and order instructions differently for a processor other than those of the record.
    recorded = {("avx512", "Zen 5"), ("avx2", "Zen 3")}
    tolerance = 0.05 if (vectors, processors.microarchitecture()) in recorded else 0.2
    assert {row["shape"] for row in counted} == {"box", "parallelepiped", "trilinear", "stored"}
    for row in counted:
        kernel = instructions.Kernel(*(row[key] for key in instructions.Kernel.__dataclass_fields__))
        known = instructions.recorded()[kernel]
        for key in ("instructions", "slots", "multiply", "load"):
            assert row[key] == pytest.approx(known[key], rel=tolerance), (
                f"{key} of {kernel}: record them again with benchmarks/instruction_mix.py"
            )
