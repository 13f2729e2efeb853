"""The limits of GPU kernels: the arithmetic on counters made by hand, the recorded counters, and the command."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from weft.cli.main import weft_command
from weft.model import chips, formulas, hip_kernels
from weft.model import kernels as method
from weft.model.result import ModelError

PIPES = ["integer", "f32", "f64", "special", "memory", "uniform", "control", "tensor", "imad", "shuffle"]
ROOT = Path(__file__).resolve().parents[2]
NO_PIPES = dict.fromkeys(PIPES, 0)


def counters(**changes) -> method.Counters:
    """Four blocks of 64 threads that do next to nothing."""
    plain = method.Counters(
        run="solve", kernel="vector.axpy", real="double", order=0, tile=1, elements=0, blocks=4, threads=256,
        registers=32, shared_bytes=0, instructions=0, lanes=0, barriers=0, pipes=dict(NO_PIPES), flops=0,
        loads=(0, 0, 0, 0), stores=(0, 0, 0, 0), shared_loads=(0, 0, 0), shared_stores=(0, 0, 0),
        memory_sectors=(4, 0), block_sectors=0, path=(0, 0, 0, 0),
    )  # fmt: skip
    return dataclasses.replace(plain, **changes)


def run(*arguments: str):
    result = CliRunner().invoke(weft_command, ["model", "kernels", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_one_customer_meets_no_queue_and_two_meet_each_other() -> None:
    assert method.mean_value_analysis(1, (3.0, 2.0), 5.0) == pytest.approx(1 / 10)
    # By hand: with one customer the queues hold 0.3 and 0.2; the second takes 3 x 1.3 + 2 x 1.2 + 5 = 11.3.
    assert method.mean_value_analysis(2, (3.0, 2.0), 5.0) == pytest.approx(2 / 11.3)


@pytest.mark.parametrize("customers", [1, 3, 10])
def test_a_balanced_network_of_two_stations_has_the_known_throughput(customers) -> None:
    assert method.mean_value_analysis(customers, (4.0, 4.0), 0.0) == pytest.approx(customers / (customers + 1) / 4)


def test_many_customers_saturate_the_slowest_station() -> None:
    assert method.mean_value_analysis(500, (4.0, 1.0), 100.0) == pytest.approx(1 / 4)


def test_clocks_of_each_resource_by_hand() -> None:
    chip = chips.load("h200")
    c = counters(
        instructions=80, pipes=NO_PIPES | {"f64": 16, "f32": 40, "integer": 24, "imad": 8, "special": 4, "shuffle": 2},
        loads=(4, 32, 32, 10), stores=(4, 32, 32, 6), shared_loads=(4, 20, 8), shared_stores=(4, 10, 8),
        memory_sectors=(200, 100), block_sectors=150,
    )  # fmt: skip
    found = method.resources(c, chip)
    per_clock = chip.multiprocessors.value * chip.clock.value
    assert found["DRAM"] == pytest.approx(32 * 300 / 4 / (0.9 * 4.8e12 / per_clock))
    assert found["L2"] == pytest.approx(32 * (150 + 32) / 4 / (9.8e12 / per_clock))
    assert found["LSU"] == pytest.approx((10 + 6 + 20 + 10 + 2) / 4)
    assert found["issue"] == pytest.approx(80 / 4 / 4)
    assert found["FP64"] == pytest.approx(16 / 2 / 4)
    assert found["FP32"] == pytest.approx(40 / 4 / 4)
    assert found["integer"] == pytest.approx(24 / 2 / 4)
    assert found["special"] == pytest.approx(4 * 2 / 4)
    assert found["blocks"] == pytest.approx(per_clock / 1.66e9)


def test_a_kernel_that_only_streams_reaches_the_roofline_and_latency_takes_it_away() -> None:
    chip = chips.load("h200")
    streams = method.predict(counters(memory_sectors=(40_000, 0)), chip)
    assert streams.share == pytest.approx(1)
    assert streams.limit == "DRAM"
    waits = method.predict(counters(memory_sectors=(400, 0), path=(400, 0, 0, 0), registers=255), chip)
    assert waits.limit == "latency"
    assert waits.share < 0.1


def test_what_was_prefetched_is_waited_for_as_long_as_the_l2_takes() -> None:
    chip = chips.load("h200")
    totals = [
        method.predict(counters(memory_sectors=(400, 0), path=path, registers=255, shared_bytes=200 * 1024), chip).total
        for path in ((4, 0, 0, 0), (0, 4, 0, 0))
    ]
    assert totals[0] - totals[1] == pytest.approx(chip.global_latency.value - chip.l2_latency.value)


def test_blocks_that_do_next_to_nothing_are_bounded_by_the_rate_at_which_they_begin() -> None:
    chip = chips.load("h200")
    small = method.predict(counters(memory_sectors=(4, 0)), chip)
    assert small.limit == "blocks"
    assert small.total == pytest.approx(chip.per_clock(1) ** -1 / 1.66e9, rel=0.1)
    tenfold = method.predict(counters(memory_sectors=(400, 0)), chip)
    assert tenfold.share > 10 * small.share


def test_without_the_l2_each_block_reads_from_memory_what_others_have_read() -> None:
    chip = chips.load("h200")
    shared = counters(kernel="poisson.poisson_stored_2d", order=7, elements=8, memory_sectors=(40_000, 0))
    halved = method.predict(dataclasses.replace(shared, block_sectors=80_000), chip)
    assert halved.share_without_l2 == pytest.approx(halved.share / 2, rel=1e-3)
    assert method.predict(shared, chip).share_without_l2 == method.predict(shared, chip).share
    # A layer of k^2 elements that fills the L2, of a cube of k^3.
    per_element = halved.least_bytes * 4 / 8
    assert halved.largest_cube == pytest.approx(512 * (50e6 / per_element) ** 1.5)


def test_shared_memory_that_takes_longer_than_memory_bounds_the_share() -> None:
    chip = chips.load("h200")
    plain = counters(memory_sectors=(40_000, 0))
    clocks = method.resources(plain, chip)["DRAM"]
    bound = method.predict(dataclasses.replace(plain, shared_loads=(1, round(4 * 2 * clocks), 1)), chip)
    assert bound.limit == "LSU"
    assert 0.45 < bound.share <= 0.5


def test_fewer_registers_mean_more_blocks_and_a_larger_share() -> None:
    chip = chips.load("h200")
    shares = [
        method.predict(counters(memory_sectors=(400, 0), path=(12, 0, 0, 0), registers=r), chip).share
        for r in (32, 64, 128, 255)
    ]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.9 * shares[0]


def test_a_block_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ModelError, match="does not fit"):
        method.predict(counters(shared_bytes=200 * 1024), chips.load("a100"))


def test_the_least_bytes_of_the_operator_are_those_of_hipbone() -> None:
    c = counters(kernel="poisson.poisson_stored_2d", order=7, elements=8, blocks=4)
    assert method.least_bytes(c) == pytest.approx((8 * 7**3 + 68 * 8**3) * 8 / 4)
    c = counters(kernel="poisson.poisson_trilinear_3d", order=7, elements=8, blocks=4)
    size = formulas.large_mesh(7, 8)
    expected = formulas.weft_operator_bytes(size, formulas.Method(geometry="trilinear")).value
    assert method.least_bytes(c) == pytest.approx(expected / 4)
    c = counters(kernel="poisson.poisson_box_2d", order=7, elements=8, blocks=4)
    # x, y, index and the metric.
    assert method.least_bytes(c) == pytest.approx((8 * 7**3 + 12 * 8**3 + 6 * 8) * 8 / 4)


def test_every_figure_of_a_gpu_names_its_source() -> None:
    for chip in chips.CHIPS.values():
        for name, figure in chip.figures().items():
            assert figure.value > 0, f"{chip.title}: {name}"
            assert len(figure.source) > 10, f"{chip.title}: {name}"
        assert chip.memory.value * chip.stream_share.value < chip.l2.value


def test_peaks_are_those_of_the_data_sheets() -> None:
    # A100: 9.7 and 19.5 TFLOP/s; H100 SXM and H200: 34 and 67 (data sheets, without tensor cores).
    assert chips.load("a100").peak_fp64 == pytest.approx(9.7e12, rel=0.01)
    assert chips.load("a100").peak_fp32 == pytest.approx(19.5e12, rel=0.01)
    assert chips.load("h200").peak_fp64 == pytest.approx(34e12, rel=0.02)
    # By tensor cores 19.5, 67 and 37 TFLOP/s.
    for name, peak in (("a100", 19.5e12), ("h100", 67e12), ("b200", 37e12)):
        chip = chips.load(name)
        reached = 2 * chip.fp64_matrix.value * chip.multiprocessors.value * chip.clock.value
        assert reached == pytest.approx(peak, rel=0.02)


def test_matrix_multiply_adds_take_the_pipe_of_double_precision():
    chip = chips.load("h100")
    found = next(c for c in method.recorded()[1] if c.kernel.endswith("affine_matrix") and c.order == 7)
    without = dataclasses.replace(found, pipes=found.pipes | {"tensor": 0})
    matrices = method.resources(found, chip)["FP64"] - method.resources(without, chip)["FP64"]
    # Per element, four products of 8 x 8 matrices in each of 8 layers, each of two instructions.
    assert found.pipes["tensor"] == found.elements * 4 * 8 * 2
    assert matrices == pytest.approx(4 * 8 * 2 * 256 / 128)
    assert chips.load("h200").peak_fp32 == pytest.approx(67e12, rel=0.01)


def test_the_operator_was_recorded_in_every_variant() -> None:
    _, found = method.recorded()
    have = {(c.kernel, c.order, c.real) for c in found if c.run == "poisson"}
    for real in ("double", "float"):
        for shape in ("stored", "trilinear", "affine", "box"):
            for order in range(1, 16):
                assert (f"poisson.poisson_{shape}_2d", order, real) in have
                by_points = order <= 9 and shape != "box"
                assert ((f"poisson.poisson_{shape}_3d", order, real) in have) == by_points


def test_recorded_counters_agree_with_each_other() -> None:
    _, found = method.recorded()
    for c in found:
        what = f"{c.kernel} {c.order} {c.real}"
        assert c.threads % c.blocks == 0, what
        assert c.lanes <= 32 * c.instructions, what
        assert sum(c.memory_sectors) <= c.loads[1] + c.stores[1], what
        assert c.memory_sectors[0] <= c.block_sectors <= c.loads[1], what
        for _, units, least, *_rest in (c.loads, c.stores, c.shared_loads, c.shared_stores):
            assert least <= units, what


def test_the_counted_sectors_of_the_stored_operator_are_those_of_the_formula() -> None:
    # The box has (k N + 1)^3 unknowns for k^3 elements, so x is larger than on a large mesh.
    _, found = method.recorded()
    operator = [c for c in found if c.kernel.startswith("poisson.poisson_stored")]
    assert operator
    for c in operator:
        counted = 32 * sum(c.memory_sectors) / c.blocks
        assert 0.99 < counted / method.least_bytes(c) < 1.06, f"{c.kernel} {c.order} {c.real}"


def test_all_recorded_kernels_are_predicted_on_all_gpus() -> None:
    _, found = method.recorded()
    for chip in chips.CHIPS.values():
        for c in found:
            assert 0 < method.predict(c, chip).share < 1.1, f"{c.kernel} {c.order} {c.real} on {chip.title}"


def test_the_command_prints_a_table_and_writes_a_plot_and_a_file(tmp_path) -> None:
    plot, file = tmp_path / "fig3.png", tmp_path / "kernels.json"
    text = run("--machine", "h100", "--orders", "3,7", "--plot", str(plot), "--json", str(file))
    rows = [line for line in text.splitlines() if line.startswith("poisson.poisson_")]
    assert len(rows) == 14  # four geometries by columns, three by points, two orders
    assert "sm_90" in text
    assert plot.stat().st_size > 10_000
    content = json.loads(file.read_text())
    assert content["gpu"] == "NVIDIA H100 SXM5 80GB"
    assert len(content["kernels"]) == 14
    assert all(figure["source"] for figure in content["figures"].values())


def test_a_measured_share_stands_beside_the_predicted_one(tmp_path) -> None:
    _, found = method.recorded()
    c = next(c for c in found if (c.kernel, c.order, c.real) == ("poisson.poisson_stored_2d", 7, "double"))
    chip = chips.load("h200")
    record = {
        "precision": "double",
        "rows": [
            {"geometry": "stored", "kernels": "portable", "order": 7, "bytes": 0.8 * chip.stream_rate, "seconds": 1}
        ],
        "occupancy": [{"geometry": "stored", "order": 7, "threads_per_block": c.threads_per_block}],
    }  # fmt: skip
    path = tmp_path / "operator.json"
    path.write_text(json.dumps(record))
    lines = run(str(path), "--orders", "7", "--kernel", "stored_2d").splitlines()
    predicted = method.predict(c, chip)
    share = 100 * predicted.share
    assert lines[1].endswith("MEASURED %  ERROR")
    bound = f"{100 * predicted.share_without_l2:.0f}"
    assert lines[2].split()[-4:] == [f"{share:.0f}", bound, "80", f"{share - 80:+.0f}"]
    record["occupancy"] = []
    path.write_text(json.dumps(record))
    refused = CliRunner().invoke(weft_command, ["model", "kernels", str(path)])
    assert refused.exit_code == 1
    assert "measured on the host" in str(refused.exception)


def test_an_unknown_kernel_names_the_known_ones() -> None:
    refused = CliRunner().invoke(weft_command, ["model", "kernels", "--kernel", "nonsense"])
    assert refused.exit_code == 1
    assert "poisson.poisson_stored_2d" in str(refused.exception)


@pytest.mark.parametrize("gpu", ["mi250x", "mi300x"])
def test_registers_and_waves_on_amd_gpus(gpu, tmp_path) -> None:
    file = tmp_path / "hip.json"
    lines = run("--machine", gpu, "--kernel", "poisson_stored_2d", "--json", str(file)).splitlines()
    assert len([line for line in lines if line.startswith("poisson.poisson_stored_2d")]) == 15
    for kernel in json.loads(file.read_text())["kernels"]:
        # 512 registers per lane of a SIMD unit, given out in eights, for at most 8 waves.
        assert 0 < kernel["waves_per_simd"] <= min(8, 512 // (-(-kernel["vgprs"] // 8) * 8))


def test_waves_are_limited_by_registers_and_shared_memory() -> None:
    found = hip_kernels.Resources("gfx90a", "k.k", "double", 7, 1, 130, 2, 30, 40 * 1024, 0, 0, 3, 256)
    # 136 registers leave 3 waves per SIMD unit, that is 3 blocks of 4 waves; LDS leaves one block.
    assert found.occupancy("mi250x").blocks == 1
    assert found.occupancy("mi250x").limited_by == "shared memory"
    assert hip_kernels.rows("mi250x", [found])[1][-2:] == ("1", "shared memory")


def test_the_limits_kept_as_a_result_are_those_of_the_recorded_counters() -> None:
    """Otherwise run benchmarks/kernel_limits.py."""
    file = ROOT / "benchmarks/results/kernel_limits_h200.json"
    kept = {
        (row["kernel"], row["order"], row["precision"]): row["share"] for row in json.loads(file.read_text())["kernels"]
    }
    chip, precisions = chips.load("h200"), {"double": "double", "float": "single"}
    assert kept == {
        (c.kernel, c.order, precisions[c.real]): round(method.predict(c, chip).share, 3) for c in method.recorded()[1]
    }


def hip_resources():
    """The program benchmarks/hip_resources.py."""
    spec = importlib.util.spec_from_file_location("hip_resources", ROOT / "benchmarks" / "hip_resources.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


def test_the_amd_resources_are_recorded_for_the_present_kernels() -> None:
    """Otherwise run benchmarks/hip_resources.py."""
    program = hip_resources()
    assert program.changed() == []
    launched = sorted(
        (
            f"{file}.{name}",
            defines["WEFT_REAL"],
            int(defines.get("WEFT_N", 0)),
            int(defines.get("WEFT_TILE_ELEMENTS", 1)),
        )
        for file, name, defines, _ in program.launched_kernels()
    )
    for architecture in program.ARCHITECTURES:
        of = [r for r in hip_kernels.recorded()[1] if r.architecture == architecture]
        assert sorted((r.kernel, r.real, r.order, r.tile) for r in of) == launched


def test_a_digest_of_kernel_sources_ignores_comments_and_sees_included_files(tmp_path, monkeypatch) -> None:
    program = hip_resources()
    monkeypatch.setattr(program, "KERNELS", tmp_path)
    monkeypatch.setattr(program, "FILES", ("outer",))
    outer, inner = tmp_path / "outer.hpp", tmp_path / "inner.hpp"
    outer.write_text('#include "weft/kernels/inner.hpp"\nint a;\n')
    inner.write_text("int b;  // one\n")
    before = program.digests()
    inner.write_text("// Two.\n  int b;\n")
    assert program.digests() == before
    inner.write_text("int c;\n")
    assert program.digests() != before
