"""`weft model calibrate`: machines from measurements, and what must not come out of them."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
from weft.cli.main import weft_command
from weft.model import caches, calibrate, held_out, machine, project
from weft.model.efficiency_table import IDLE, working_set
from weft.model.evidence import read
from weft.model.project.elements import maxwell_step_flops
from weft.model.recorded_run import run_of
from weft.model.result import ModelError

TRUE = machine.parse((files("weft.model") / "machines" / "template.toml").read_text(), "template")
DEVICE = {"backend": "cuda", "name": "its GPU", "memory_bytes": 4e10, "architecture": "", "multiprocessors": 1}


def place(ranks: int) -> dict[str, Any]:
    return {
        "processor": "", "processors": 4, "system": "", "ranks": ranks, "ranks_per_node": min(ranks, 4),
        "threads_per_rank": 1, "device": DEVICE,
    }  # fmt: skip


def record(made: project.Projection, **options: Any) -> dict[str, Any]:
    """The record of a run that takes as long as a projection."""
    ranks, seconds = made.ranks, made.seconds
    figures: dict[str, Any] = {
        "bandwidth_bytes_per_second": ranks * TRUE.device.stream_bytes_per_second.value,
        "peak_flops_per_second": ranks * TRUE.device.flops_per_second.value,
    }
    timings: dict[str, Any] = {"breakdown": {}}
    if made.workload == "turbulence":
        grid, rows = options["grid"], options.get("rows", 1)
        figures = {"grid": [grid] * 3, "process_grid": f"{rows}x{ranks // rows}", "batch": options.get("batch", 1)}
        timings |= {"seconds_per_step": seconds, "profiled_steps": 10}
        timings["parts"] = {n: {"mean_seconds": 12 * t, "max_seconds": 12 * t} for n, t in made.phases.items()}
    else:
        figures |= {"order": options["order"], "elements": options["elements_per_rank"] * ranks, "ranks": ranks}
        timings["seconds_per_iteration" if made.workload == "poisson" else "seconds_per_step"] = seconds
        figures["iterations"] = {name: {"mean": made.figures.get(f"{name} iterations")} for name in SOLVES}
    return {
        "schema": 1, "case": {"workload": made.workload, "precision": options.get("precision", "double")},
        "versions": {}, "machine": place(ranks), "choices": {}, "timings": timings, "figures": figures,
    }  # fmt: skip


SOLVES = ("pressure", "velocity")


def write(folder: Path, content: object, name: str = "run.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(content))
    return folder / name


def run(folder: Path, workload: str, ranks: int, on: machine.Machine = TRUE, **options: Any) -> Path:
    made = getattr(project, workload)(on, ranks, **options)
    return write(folder / f"{workload}-{ranks}-{len(list(folder.glob('*')))}", record(made, **options)).parent


PINGPONG = {
    "machine": place(2),
    "rows": [],
    "fits": [
        {
            "where": where, "pairs": 1, "memory": memory, "path": "direct", "alpha_seconds": 5e-6,
            "beta_bytes_per_second": beta, "half_bytes": 1.0, "largest_relative_error": 0.03,
        }
        for where, memory, beta in (
            ("within", "device", 50e9), ("within", "host", 90e9), ("between", "device", 25e9),
            ("between", "device", None),
        )
    ],
}  # fmt: skip


def test_a_flow_with_other_iterations_is_predicted_and_its_mean_step_counts(tmp_path: Path) -> None:
    """Steps of a flow whose solves often need no iteration have a median that jumps: their mean is what follows."""
    size = {"order": 7, "elements_per_rank": 4096}
    few = run(tmp_path, "flow", 1, **size, pressure_iterations=0.83, velocity_iterations=0.6)
    content = json.loads((few / "run.json").read_text())
    content["timings"]["mean_step_seconds"] = content["timings"]["seconds_per_step"]
    content["timings"]["seconds_per_step"] *= 0.6
    write(few, content)
    made = calibrate.calibrate(read([few]))
    for iterations in ({"pressure_iterations": 0.83, "velocity_iterations": 0.6}, {"pressure_iterations": 12.5}):
        expected = project.flow(TRUE, 1, **size, **iterations).seconds
        assert project.flow(made, 1, **size, **iterations).seconds == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("workload", ["poisson", "maxwell", "flow"])
def test_a_run_on_one_rank_predicts_other_sizes(tmp_path: Path, workload: str, precision: str) -> None:
    options: dict[str, Any] = {"order": 7, "precision": precision}
    small = run(tmp_path, workload, 1, **options, elements_per_rank=4096)
    large = run(tmp_path, workload, 1, **options, elements_per_rank=32768)
    made = calibrate.calibrate(read([small, large]))
    expected = getattr(project, workload)(TRUE, 1, **options, elements_per_rank=8000).seconds
    found = getattr(project, workload)(made, 1, **options, elements_per_rank=8000).seconds
    # Only poisson determines the cost of a launch; of the others, part of it becomes a part of the kernels' rate.
    assert found == pytest.approx(expected, rel=1e-6 if workload == "poisson" else 0.1)


CACHED = machine.Machine.model_validate(
    TRUE.model_dump(exclude_none=True)
    | {
        "device": TRUE.device.model_dump(exclude_none=True)
        | {
            "kernel_seconds": {"value": 0.0, "source": "none"},
            "cache_bytes": {"value": 2**25, "source": "lscpu"},
            "node_cache_bytes": {"value": 2**26, "source": "lscpu"},
        },
        "efficiency": {
            name: {"orders": [3, 7], "in_cache": [0.5, 1.2], "from_memory": [1 / (2 + 0.5), 1 / (1 / 1.2 + 0.5)],
                   "bytes_per_point": [150.0, 150.0], "source": "made up"}
            for name in ("poisson", "maxwell", "flow")
        },
    }
)  # fmt: skip


def cached(folder: Path, workload: str, order: int, elements: int) -> Path:
    """A run on one rank of a host with caches."""
    path = run(folder, workload, 1, CACHED, order=order, elements_per_rank=elements)
    content = json.loads((path / "run.json").read_text())
    content["machine"] |= {"device": {**DEVICE, "backend": "host"}, "caches": {"count": 2, "bytes": 2**25}}
    content["figures"] |= {"memory_bytes_per_point": 150.0}
    write(path, content)
    return path


@pytest.mark.parametrize("workload", ["poisson", "maxwell", "flow"])
def test_runs_in_and_beyond_the_cache_predict_others_by_their_working_set(tmp_path: Path, workload: str) -> None:
    runs = [cached(tmp_path, workload, *size) for size in ((7, 216), (7, 4096), (3, 1728))]
    made = calibrate.calibrate(read(runs))
    found = made.efficiency[workload]
    assert found.orders == (3, 7)
    assert found.in_cache == pytest.approx((0.5, 1.2), rel=1e-6)
    assert found.from_memory == pytest.approx(CACHED.efficiency[workload].from_memory, rel=1e-6)
    for order, elements in ((7, 1000), (7, 27000), (3, 64000)):
        options = {"order": order, "elements_per_rank": elements}
        expected = getattr(project, workload)(CACHED, 1, **options).seconds
        assert getattr(project, workload)(made, 1, **options).seconds == pytest.approx(expected, rel=1e-6)
    assert made.cache_of(1) == 2**25
    assert made.cache_of(4) == 2**24  # four ranks share two caches
    assert made.cache_of(400) == 2**24
    sizes = [getattr(project, workload)(made, 1, order=5, elements_per_rank=8).size]
    assert "order 5 was not measured: the efficiency is that of order 7" in project.notes(made, workload, sizes)
    assert "stream_efficiency" not in project.constants_of(made, workload)


@pytest.mark.parametrize(("architecture", "precision", "block"), [("avx512", "single", 16), ("avx2", "double", 4)])
@pytest.mark.parametrize("workload", ["poisson", "flow"])
def test_kernels_of_a_processor_compute_whole_blocks(
    tmp_path: Path, workload: str, architecture: str, precision: str, block: int
) -> None:
    """A small mesh, whose last block is hardly filled, says how fast a large one is."""
    size = {"order": 7, "precision": precision}
    path = run(tmp_path, workload, 1, **size, elements_per_rank=block + 1)
    content = json.loads((path / "run.json").read_text())
    content["machine"] |= {"device": {**DEVICE, "backend": "host", "architecture": architecture}}
    content["choices"] = {"kernels": "simd: made for the host's processors"}
    content["timings"]["seconds_per_iteration" if workload == "poisson" else "seconds_per_step"] = 1e-3
    write(path, content)
    made = calibrate.calibrate(read([path]))
    assert made.device.vector_bytes == {"avx512": 64, "avx2": 32}[architecture]
    both = (getattr(project, workload)(made, 1, **size, elements_per_rank=n * block) for n in (2, 200))
    small, large = (found.seconds for found in both)
    assert (small, large) == pytest.approx((1e-3, 0.1), rel=0.02)  # a flow's vectors have no blocks
    content["choices"] = {"kernels": "portable"}
    write(path, content)
    assert calibrate.calibrate(read([path])).device.vector_bytes is None


def test_an_odd_length_among_even_ones_gets_a_note(tmp_path: Path) -> None:
    made = calibrate.calibrate(read([run(tmp_path, "turbulence", 1, grid=grid) for grid in (64, 96)]))
    odd, even = ([project.turbulence(made, 1, grid=grid).size] for grid in (75, 72))
    assert any("odd length as 75" in note for note in project.notes(made, "turbulence", odd))
    assert not any("odd length" in note for note in project.notes(made, "turbulence", even))


def test_a_length_beyond_those_of_few_runs_and_a_network_without_topology_get_notes(tmp_path: Path) -> None:
    paths = [run(tmp_path, "turbulence", 1, grid=grid) for grid in (64, 128)]
    made = calibrate.calibrate(read([*paths, write(tmp_path / "messages", PINGPONG, "pingpong.json")]))
    few, many = ([project.turbulence(made, ranks, grid=grid).size] for ranks, grid in ((1, 96), (64, 256)))
    said = "\n".join(project.notes(made, "turbulence", many))
    assert "measured at 64 to 128 points: those of 256" in said
    assert "no topology" in said
    assert not any("those of 96" in note or "topology" in note for note in project.notes(made, "turbulence", few))


def test_a_run_on_three_ranks_of_two_nodes_counts_both(tmp_path: Path) -> None:
    path = run(tmp_path, "turbulence", 3, grid=48, batch=1)
    content = json.loads((path / "run.json").read_text())
    content["machine"] |= {"ranks_per_node": 2, "processors": 2}
    write(path, content)
    assert calibrate.calibrate(read([path])).nodes.value == 2


def test_the_range_of_lengths_of_an_unmeasured_kind_holds_twice_their_transforms(tmp_path: Path) -> None:
    paths = [run(tmp_path, "turbulence", 1, grid=grid, precision="single") for grid in (64, 90, 96, 120)]
    made = calibrate.calibrate(read(paths))
    for grid, kind in ((75, "odd"), (84, "prime factor 7"), (72, ""), (80, "")):
        central = project.turbulence(made, 1, grid=grid)
        found = project.results(made, lambda m, n=grid: project.turbulence(m, 1, grid=n))[0]
        width = 1 + made.errors["turbulence"].value
        longest = central.seconds + (central.phases["FFT"] if kind else 0)
        assert found.high == pytest.approx(longest * width), kind
        assert found.low == pytest.approx(central.seconds / width)
        assert ("widened" in found.range_is) is bool(kind)
        bare = made.model_copy(update={"errors": {}})
        unknown = project.results(bare, lambda m, n=grid: project.turbulence(m, 1, grid=n))[0]
        assert (unknown.high > unknown.value) is bool(unknown.range_is) is bool(kind)


def test_the_range_of_runs_widens_for_another_precision(tmp_path: Path) -> None:
    sizes = (512, 1000, 4096)
    paths = [run(tmp_path, "poisson", 1, order=7, elements_per_rank=n, precision="single") for n in sizes]
    made = calibrate.calibrate(read(paths))
    assert made.errors["poisson"].precision == "single"
    paths.append(run(tmp_path, "poisson", 1, order=7, elements_per_rank=2197))
    assert calibrate.calibrate(read(paths)).errors["poisson"].precision is None


def test_the_working_set_is_what_an_iteration_touches(tmp_path: Path) -> None:
    path = cached(tmp_path, "poisson", 7, 216)
    content = json.loads((path / "run.json").read_text())
    content["figures"] |= {
        "points": 1000, "memory_bytes_per_point": 36.0,
        "memory_bytes": {"CG: r, p, A p": 16000, "x and b": 16000, "points to unknowns, on the host": 4000},
    }  # fmt: skip
    write(path, content)
    assert working_set(run_of(read([path])[0])) == 24
    # The parts that are left out are those of real solvers.
    solver = weft.Poisson(weft.Mesh.box((2, 1, 1)), order=3, device="host")
    solver.cg(solver.random_rhs(), iterations=1)
    flow = weft.flow.Solver(weft.Mesh.box((2, 1, 1), periodic=True), 3, viscosity=1.0, device="host")
    assert set(IDLE) <= {*solver.memory_bytes, *flow.memory_bytes}


def test_a_range_holds_each_run_predicted_by_the_others_and_widens_outside_their_sizes(tmp_path: Path) -> None:
    runs = [cached(tmp_path, "poisson", *size) for size in ((7, 216), (7, 4096), (3, 1728))]
    content = json.loads((runs[2] / "run.json").read_text())
    content["timings"]["seconds_per_iteration"] *= 1.5  # so that the runs do not follow one law
    write(runs[2], content)
    assert not calibrate.calibrate(read(runs[:2])).errors  # two say nothing of a third
    evidence = read(runs)
    made = calibrate.calibrate(evidence)
    accuracy = made.errors["poisson"]
    printed = command("calibrate", *runs, "--output", tmp_path / "mine.toml").output
    said = f"range of poisson: within {100 * accuracy.value:.1f} %, for 90 % of others, from 3 problems"
    assert said in printed
    assert "which are few" in printed
    assert machine.load(tmp_path / "mine.toml").errors == made.errors
    assert accuracy.basis == "held-out runs"
    for out in evidence:
        others = [e for e in evidence if e is not out]
        run = run_of(out)
        on_others = run.on(calibrate.calibrate(others))
        known = project.tested(run_of(e).on(made).size for e in others)
        width = math.log1p(accuracy.value) * project.widening(on_others.size, known)
        assert abs(math.log(on_others.seconds / run.seconds)) <= width * (1 + 1e-9)

    def width_of(elements: int) -> float:
        found = project.results(made, lambda m: project.poisson(m, 1, order=7, elements_per_rank=elements))[0]
        return math.log(found.high / found.value)

    assert width_of(1000) == pytest.approx(math.log1p(accuracy.value))
    assert width_of(8192) == pytest.approx(2 * width_of(1000), rel=1e-3)


def test_runs_of_the_same_problem_are_held_out_together(tmp_path: Path) -> None:
    runs = [cached(tmp_path, "poisson", *size) for size in ((7, 216), (7, 216), (7, 4096), (7, 4096))]
    assert "poisson" not in calibrate.calibrate(read(runs)).errors  # two problems


@pytest.mark.parametrize("count", [3, 6, 9, 12, 18, 19, 40])
def test_a_range_from_few_problems_holds_90_percent_of_others(count: int) -> None:
    random = np.random.default_rng(count)
    draws = [np.abs(random.standard_normal((20_000, count + 1)))]
    if count >= held_out.ENOUGH:  # then whatever the distribution
        draws.append(np.abs(random.standard_cauchy((20_000, count + 1))))
    for drawn in draws:
        inside = [last <= held_out.half_width(known) for *known, last in drawn.tolist()]
        assert np.mean(inside) >= held_out.LEVEL - 0.01
        assert np.mean(inside) <= 0.98  # and no wider than that takes


def test_a_size_is_held_out_on_all_ranks_and_other_workloads_stay(tmp_path: Path) -> None:
    """A new size was run on no number of ranks; and without the runs that gave the bandwidth, rates are other ones."""
    sizes = (256, 512, 1024)
    runs = [run(tmp_path, "poisson", p, order=7, elements_per_rank=n // p) for n in sizes for p in (1, 2)]
    evidence = read([*runs, run(tmp_path, "maxwell", 1, order=7, elements_per_rank=512)])
    asked: list[set[object]] = []

    def calibrated(others: Any, workload: str) -> machine.Machine:
        if workload == "poisson":
            asked.append({(e.content["case"]["workload"], e.content["figures"]["elements"]) for e in others})
        return calibrate.calibrate(others)

    found = held_out.accuracies(evidence, [run_of(e) for e in evidence], calibrated)
    assert "from 3 problems" in found["poisson"].source
    assert asked == [{("poisson", n) for n in sizes if n != out} | {("maxwell", 512)} for out in sizes]


def test_an_order_of_similar_sizes_takes_what_memory_adds_from_the_others(tmp_path: Path) -> None:
    sizes = ((7, 100), (7, 4096), (3, 2400), (3, 2900))
    runs = [cached(tmp_path, "poisson", *size) for size in sizes]
    content = json.loads((runs[-1] / "run.json").read_text())
    content["timings"]["seconds_per_iteration"] *= 1.05  # an error that a small difference would enlarge
    write(runs[-1], content)
    found = calibrate.calibrate(read(runs)).efficiency["poisson"]
    low, high = (1 / memory - 1 / cache for memory, cache in zip(found.from_memory, found.in_cache, strict=True))
    assert low == pytest.approx(high)
    assert low == pytest.approx(0.5, rel=1e-3)
    own = calibrate.calibrate(read(runs[2:])).efficiency["poisson"]  # without others there is only its own
    assert 1 / own.from_memory[0] - 1 / own.in_cache[0] != pytest.approx(0.5, rel=0.1)


def test_operations_limit_no_part_of_a_run_that_was_measured(tmp_path: Path) -> None:
    """Some parts of a flow have more operations per byte: one peak from the whole run made these too slow."""
    path = run(tmp_path, "flow", 1, order=7, elements_per_rank=512)
    content = json.loads((path / "run.json").read_text())
    content["figures"]["peak_flops_per_second"] = 1e9
    write(path, content)
    (evidence,) = read([path])
    measured = run_of(evidence)
    assert measured.on(calibrate.calibrate([evidence])).seconds == pytest.approx(measured.seconds)


def test_ranks_that_shared_processors_get_a_note(tmp_path: Path) -> None:
    path = cached(tmp_path, "maxwell", 7, 216)
    content = json.loads((path / "run.json").read_text())
    for processors, shared in ((0, False), (1, False), (8, False)):
        content["machine"]["node_processors"] = processors
        write(path, content)
        assert read([path])[0].machine.shares_processors is shared
    content["machine"] |= {"node_processors": 2, "ranks": 4, "ranks_per_node": 4}
    write(path, content)
    assert "4 ranks of 1 thread shared 2 processors" in calibrate.notes(read([path]))[0]
    alone = cached(tmp_path, "maxwell", 7, 216)
    done = command("calibrate", alone, path, "--output", tmp_path / "mine.toml")
    assert "note: " in done.output, done.output


def test_runs_of_several_precisions_or_caches_get_a_note(tmp_path: Path) -> None:
    paths = [
        run(tmp_path / precision, "poisson", 1, order=7, elements_per_rank=512, precision=precision)
        for precision in ("double", "single")
    ]
    assert calibrate.notes(read(paths[:1])) == []
    assert "several precisions (double, single)" in calibrate.notes(read(paths))[0]
    for path, size in zip(paths, (2**24, 2**25), strict=True):
        content = json.loads((path / "run.json").read_text())
        content["case"]["precision"] = "double"
        content["machine"]["caches"] = {"count": 1, "bytes": size}
        write(path, content)
    assert "different last-level caches (1 of 16 MiB, 1 of 32 MiB)" in calibrate.notes(read(paths))[0]


def test_one_size_and_order_gives_one_efficiency(tmp_path: Path) -> None:
    one = calibrate.calibrate(read([cached(tmp_path, "maxwell", 7, 216), cached(tmp_path, "maxwell", 7, 125)]))
    assert not one.efficiency  # the cache holds both
    assert "maxwell.stream_efficiency" in one.constants
    several = calibrate.calibrate(read([cached(tmp_path, "maxwell", 3, 8), cached(tmp_path, "maxwell", 7, 8)]))
    assert several.efficiency["maxwell"].in_cache == several.efficiency["maxwell"].from_memory


def traced(folder: Path, ranks: int, order: int, elements: int, seconds: float, latency: float) -> Path:
    """A run of poisson on two ranks with a trace of 10 iterations, in which each exchange waits for one latency."""
    path = run(folder, "poisson", ranks, order=order, elements_per_rank=elements)
    content = json.loads((path / "run.json").read_text())
    content["timings"]["seconds_per_iteration"] = seconds
    content["figures"]["iterations"] = 10
    write(path, content)
    events, us = [], 1e6 * seconds
    for rank in range(ranks):

        def add(name: str, begin: float, length: float, of: int = rank, **args: object) -> None:
            about = {"bytes": 0, **args}
            category = "cpu" if name == "conjugate gradients" else "mpi"
            events.append({"ph": "X", "pid": of, "tid": 0, "name": name, "cat": category, "ts": begin, "dur": length,
                           "args": about})  # fmt: skip

        add("conjugate gradients", 0, 2 * us)  # the warm-up, which does not count
        add("send", 1, 1, sends=[[1 - rank, 8]], request=0, group=1)
        add("conjugate gradients", 3 * us, 10 * us)
        for k in range(10):
            begin = (3 + k) * us + 1
            add("send", begin, 1, sends=[[1 - rank, 6000]], request=1, group=1)
            add("wait", begin + 0.25 * us, 1e6 * latency, request=1)
            add("allreduce", begin + 0.8 * us, 1e6 * latency, collective="allreduce", group=2)
    write(path, {"displayTimeUnit": "ns", "traceEvents": events}, "trace.json")
    return path


def test_messages_counted_in_a_trace_do_not_take_the_place_of_formulas(tmp_path: Path) -> None:
    alone = run(tmp_path, "poisson", 1, order=7, elements_per_rank=512)
    seconds = 1.5 * json.loads((alone / "run.json").read_text())["timings"]["seconds_per_iteration"]
    two = traced(tmp_path, 2, 7, 512, seconds, 0.05 * seconds)
    made = calibrate.calibrate(read([alone, two, write(tmp_path / "p", PINGPONG, "pingpong.json").parent]))
    found = made.traffic["poisson"]
    assert project.constants_of(made, "poisson") == ("stream_efficiency", "split_overhead")
    assert found.exchanges == pytest.approx(1)
    assert found.reductions == pytest.approx(1)
    assert found.volume == pytest.approx(6000 / (57 * 57 * 8))  # a face of 8 x 8 elements of order 7
    assert found.overlap == pytest.approx(0.25 / 0.9, rel=0.05)  # of what is not in MPI
    options = {"order": 7, "elements_per_rank": 512}
    assert project.poisson(made, 2, **options).seconds == pytest.approx(seconds, rel=1e-6)
    slow = made.model_dump()
    added = 10 * seconds  # nothing hides it, so that it is seen twice: in the exchange and in the all-reduce
    for level in ("node", "network"):
        slow["links"][level]["latency_seconds"]["value"] += added
    later = project.poisson(machine.Machine.model_validate(slow), 2, **options).seconds
    alone_on_nodes = made.model_dump() | {"ranks_per_node": 1, "nodes": {"value": 64, "source": "test"}}
    alone_on_nodes["links"]["network"]["latency_seconds"]["value"] = added
    many = project.poisson(machine.Machine.model_validate(alone_on_nodes), 64, **options).phases
    # Messages to all neighbours travel at the same time; an all-reduce of 64 ranks takes six, one after another.
    assert many["exchange"] == pytest.approx(added, rel=0.1)
    assert many["reductions"] == pytest.approx(6 * added)
    hidden = found.overlap * (project.poisson(made, 2, **options).phases["stream"] + 0)
    assert later == pytest.approx(seconds + 2 * added, abs=2 * hidden)


def test_runs_of_several_sizes_tell_a_time_per_exchange_from_a_share(tmp_path: Path) -> None:
    """Two ranks that take a fixed time and a share longer than one, at sizes other than those given."""
    fixed, share = 200e-6, 0.05
    launches = 4 * TRUE.device.kernel_seconds.value  # which several ranks make more, and the projection counts
    paths = []
    for elements in (64, 512, 4096):
        alone = run(tmp_path, "poisson", 1, order=7, elements_per_rank=elements)
        seconds = json.loads((alone / "run.json").read_text())["timings"]["seconds_per_iteration"]
        paths += [alone, traced(tmp_path, 2, 7, elements, (1 + share) * seconds + fixed, 1e-9)]
    messages = json.loads(json.dumps(PINGPONG))
    for fit in messages["fits"]:
        fit["alpha_seconds"] = 1e-12
    made = calibrate.calibrate(read([*paths, write(tmp_path / "p", messages, "pingpong.json").parent]))
    assert made.constants["poisson.exchange_seconds"].value == pytest.approx(fixed - launches, rel=0.05)
    assert made.constants["poisson.split_overhead"].value < 0.2
    assert "exchange_seconds" in project.constants_of(made, "poisson")
    alone_seconds, seconds = (project.poisson(made, ranks, order=7, elements_per_rank=1728).seconds for ranks in (1, 2))
    assert seconds == pytest.approx((1 + share) * alone_seconds + fixed, rel=0.03)


def test_ranks_beside_each_other_get_less_from_memory_but_not_from_the_cache(tmp_path: Path) -> None:
    limit = CACHED.efficiency["poisson"].model_copy(update={"beside_others": 0.4})
    assert limit.at(7, 0.0, alone=False) == limit.at(7, 0.0)
    assert limit.at(7, 1.0) == pytest.approx(1 / (1 / 1.2 + 0.5))
    assert limit.at(7, 1.0, alone=False) == pytest.approx(0.4)
    assert limit.at(3, 1.0, alone=False) == pytest.approx(1 / 2.5)  # slower than the memory anyway


@pytest.mark.parametrize("from_memory_only", [True, False])
def test_a_limit_to_memory_is_taken_only_where_ranks_are_slower_from_memory(
    tmp_path: Path, from_memory_only: bool
) -> None:
    """Two orders, in the cache and beyond it: slower by a third from memory alone, or by 15 % everywhere."""
    paths = []
    for order, elements in ((7, 216), (7, 8000), (3, 1728), (3, 64000)):
        alone = cached(tmp_path, "poisson", order, elements)
        seconds = json.loads((alone / "run.json").read_text())["timings"]["seconds_per_iteration"]
        slower = (1.3 if (order + 1) ** 3 * elements > 10**6 else 1.0) if from_memory_only else 1.15
        two = traced(tmp_path, 2, order, elements, slower * seconds, 1e-9)
        content = json.loads((two / "run.json").read_text())
        for key in ("device", "caches"):
            content["machine"][key] = json.loads((alone / "run.json").read_text())["machine"][key]
        content["figures"] |= {"memory_bytes_per_point": 150.0}
        write(two, content)
        paths += [alone, two]
    made = calibrate.calibrate(read(paths))
    limit, share = made.efficiency["poisson"].beside_others, made.constants["poisson.split_overhead"].value
    assert (limit is not None) == from_memory_only
    assert share == pytest.approx(0.0 if from_memory_only else 0.15, abs=0.03)


def test_a_cache_keeps_what_fits_and_loses_what_is_larger() -> None:
    cache = 2.0**25
    for workload in ("poisson", "flow"):
        assert caches.missing_share(workload, 1e6, cache) < (1e-6 if workload == "poisson" else 1e-4)
        assert caches.missing_share(workload, 1e6, 0.0) == 1.0
        shares = [caches.missing_share(workload, cache * size, cache) for size in (0.25, 0.5, 1, 2, 4, 8)]
        assert shares == sorted(shares)
    assert caches.missing_share("maxwell", 2 * cache, cache) > 0.99  # read in turns
    assert caches.missing_share("flow", 2 * cache, cache) == pytest.approx(0.5, abs=0.01)  # parts of all sizes
    # The chance of 16 pages or more of one colour beside a page, counted in draws.
    drawn = np.random.default_rng(1).poisson(0.9 * caches.WAYS, 200_000)
    assert caches.missing_share("maxwell", 0.9 * cache, cache) == pytest.approx(np.mean(drawn >= 16), abs=0.005)


def test_a_trace_without_iterations_is_not_refused(tmp_path: Path) -> None:
    alone = run(tmp_path, "poisson", 1, order=7, elements_per_rank=512)
    two = traced(tmp_path, 2, 7, 512, 1e-2, 1e-4)
    events = json.loads((two / "trace.json").read_text())["traceEvents"]
    events = [e for e in events if e["name"] != "conjugate gradients"]
    write(two, {"displayTimeUnit": "ns", "traceEvents": events}, "trace.json")
    with pytest.raises(ModelError, match="has no span 'conjugate gradients'"):
        calibrate.calibrate(read([alone, two]))


def test_small_problems_on_a_host_make_no_launches_slow(tmp_path: Path) -> None:
    paths = []
    for elements, seconds in ((512, 2e-3), (4096, 10e-3)):
        path = run(tmp_path, "poisson", 1, order=7, elements_per_rank=elements)
        content = json.loads((path / "run.json").read_text())
        content["machine"]["device"] = {**DEVICE, "backend": "host"}
        content["timings"]["seconds_per_iteration"] = seconds
        write(path, content)
        paths.append(path)
    made = calibrate.calibrate(read(paths))
    assert made.device.kernel_seconds.value == 0
    assert made.ranks_per_node == 4  # one rank per core
    assert "spread" in made.constants["poisson.stream_efficiency"].source


@pytest.mark.parametrize("workload", ["poisson", "flow", "maxwell"])
def test_runs_on_several_ranks_come_back(tmp_path: Path, workload: str) -> None:
    options = {"order": 5, "elements_per_rank": 27000}
    paths = [run(tmp_path, workload, ranks, **options) for ranks in (1, 4)]
    write(tmp_path / "pingpong", PINGPONG, "pingpong.json")
    made = calibrate.calibrate(read([*paths, tmp_path / "pingpong"]))
    for evidence in read(paths):
        of = run_of(evidence)
        assert of.on(made).seconds == pytest.approx(of.seconds, rel=1e-6)


def test_ranks_that_share_fields_neither_pack_nor_send(tmp_path: Path) -> None:
    sharing = TRUE.model_copy(update={"shared_fields": True})
    paths = []
    for grid in (64, 256):
        content = record(project.turbulence(sharing, 4, grid=grid, precision="double"), grid=grid, precision="double")
        content["figures"]["memory_bytes"] = {"exchange buffers": 0, "fields": 1}
        paths.append(write(tmp_path / f"{grid}", content))
    made = calibrate.calibrate(read(paths))
    assert made.shared_fields
    expected = project.turbulence(sharing, 4, grid=256, precision="double")
    found = project.turbulence(made, 4, grid=256, precision="double")
    assert found.seconds == pytest.approx(expected.seconds, rel=0.02)  # no ping-pong said how long a wait is
    assert found.phases["pack and unpack"] == 0
    assert found.phases["column MPI"] < 0.01 * found.seconds
    assert project.turbulence(made, 1, grid=256, precision="double").phases["pack and unpack"] == 0
    assert project.turbulence(made, 4, grid=256, rows=2, precision="double").phases["pack and unpack"] > 0
    other = calibrate.calibrate(read([run(tmp_path / "other", "turbulence", 4, grid=256, precision="double")]))
    assert not other.shared_fields
    assert project.turbulence(other, 4, grid=256, precision="double").phases["pack and unpack"] > 0


@pytest.mark.parametrize("rows", [1, 2])
def test_a_turbulence_run_alone_comes_back_by_its_parts(tmp_path: Path, rows: int) -> None:
    path = run(tmp_path, "turbulence", 4, grid=256, rows=rows, batch=2, precision="double")
    write(tmp_path / "pingpong", PINGPONG, "pingpong.json")
    for paths in ([path], [path, tmp_path / "pingpong"]):
        (of, *_) = [run_of(e) for e in read(paths) if e.kind == "run"]
        found = of.on(calibrate.calibrate(read(paths))).phases
        assert of.options == {"grid": 256, "rows": rows, "batch": 2, "precision": "double"}
        for name in ("FFT", "column MPI", "row MPI"):
            assert found[name] == pytest.approx(of.parts[name], rel=1e-3)
        assert sum(found.values()) == pytest.approx(of.seconds, rel=1e-3)


def test_a_run_on_one_rank_that_sends_nothing_comes_back(tmp_path: Path) -> None:
    content = record(project.turbulence(TRUE, 1, grid=256), grid=256)
    moved = content["timings"]["parts"]["column MPI"]["mean_seconds"]
    content["timings"]["parts"]["column MPI"]["mean_seconds"] = 0.0
    content["timings"]["parts"]["other"]["mean_seconds"] += moved
    path = write(tmp_path, content)
    of = run_of(read([path])[0])
    assert of.on(calibrate.calibrate(read([path]), TRUE)).seconds == pytest.approx(of.seconds, rel=1e-3)


def test_messages_transforms_and_rates_are_taken_as_measured(tmp_path: Path) -> None:
    def row(method: str, size: int, ranks: int, seconds: float) -> dict[str, Any]:
        return {"method": method, "message_bytes": size, "ranks": ranks, "total_seconds": seconds}

    rows = [row("a", 2**20, 4, 1e-3), row("a", 2**22, 4, 2e-3), row("b", 2**22, 4, 1e-3), row("b", 2**22, 8, 5e-3)]
    write(tmp_path, {"machine": place(8), "rows": rows, "device_pointers": None}, "alltoall.json")
    write(tmp_path, PINGPONG, "pingpong.json")
    lines = []
    for points, seconds in ((128, 0.03), (64, 0.02)):
        steps = {"contiguous": {"seconds": 0.01}, "strided": {"seconds": seconds}}
        lines.append({"points": points, "precision": "double", "bytes": 1e9, "steps": steps})
    limits = {"bandwidth_bytes_per_second": 8e11}
    write(tmp_path, {"machine": place(1), "limits": limits, "lines": lines, "transforms": []}, "fft.json")
    rates = {"bandwidth_bytes_per_second": 9e11, "peak_flops_per_second": 7e12}
    write(tmp_path, {"machine": place(1), "rates": rates, "rates_before": rates, "rows": []}, "operator.json")
    made = calibrate.calibrate(read([tmp_path]))
    assert made.links.node is not None
    assert made.links.node.bytes_per_second.value == 50e9  # of device memory, not the host's
    assert made.links.network.latency_seconds.value == 5e-6
    assert made.links.node.all_to_all_bytes_per_second is not None
    assert made.links.node.all_to_all_bytes_per_second.value == pytest.approx(3 * 2**22 / 1e-3)
    assert made.links.network.all_to_all_bytes_per_second is not None
    assert made.links.network.all_to_all_bytes_per_second.value == pytest.approx(7 * 2**22 / 5e-3)
    assert made.device.transforms is not None
    assert made.device.transforms.points == (64, 128)
    assert made.device.transforms.strided_bytes_per_second == pytest.approx((5e10, 1e9 / 0.03))
    assert made.device.stream_bytes_per_second.value == pytest.approx(8.5e11)
    assert "spread +-5.9 %" in made.device.stream_bytes_per_second.source
    assert made.device.flops_per_second.value == 7e12
    assert all(
        "/" in source or "assumed" in source or "part of" in source for _, source in machine.numbers_of(made).values()
    )


def test_an_exchange_gives_links_and_the_efficiency_of_a_gather_scatter(tmp_path: Path) -> None:
    def row(order: int, fields: int, seconds: float, operation: str = "gather-scatter") -> dict[str, Any]:
        return {
            "ranks": 2, "order": order, "fields": fields, "operation": operation, "seconds": seconds,
            "bound_seconds": 1e-4,
        }  # fmt: skip

    rows = [row(7, 6, 4e-4), row(7, 6, 2e-4), row(7, 1, 1e-9), row(3, 6, 5e-4), row(7, 6, 1e-9, "halo")]
    links = {"within": {"alpha_seconds": 3e-6, "beta_bytes_per_second": 2e10, "rows": []}}
    content = {"runs": [{"machine": place(2), "bound": "", "links": links, "rows": rows}]}
    write(tmp_path, content, "exchange.json")
    base = calibrate.calibrate(read([tmp_path]), TRUE)
    assert base.links.node is not None
    assert base.links.node.latency_seconds.value == 3e-6
    assert base.links.network == TRUE.links.network
    assert base.constant("exchange_efficiency", "maxwell") == pytest.approx((0.5 + 0.2) / 2)
    write(tmp_path, PINGPONG, "pingpong.json")
    both = calibrate.calibrate(read([tmp_path]), TRUE)
    assert both.links.node is not None
    assert both.links.node.latency_seconds.value == 5e-6


def test_a_base_keeps_what_was_not_measured(tmp_path: Path) -> None:
    summit = machine.load("summit")
    path = run(tmp_path, "poisson", 1, order=7, elements_per_rank=4096)
    made = calibrate.calibrate(read([path]), summit)
    assert made.links == summit.links
    assert made.topology == summit.topology
    assert made.constant("exchange_factor", "poisson") == summit.constant("exchange_factor", "poisson")
    assert made.constant("stream_efficiency", "poisson") != summit.constant("stream_efficiency", "poisson")
    assert project.poisson(made, 48, order=7, elements_per_rank=4096).seconds > 0
    assert made.device.name == "its GPU"
    assert made.device.memory_bytes.value == 4e10
    assert not made.errors  # these were found with other constants


def command(*arguments: object) -> Result:
    return CliRunner().invoke(weft_command, ["model", *map(str, arguments)])


def test_the_written_file_projects_the_run(tmp_path: Path) -> None:
    path = run(tmp_path, "maxwell", 1, order=7, elements_per_rank=4096, precision="single")
    done = command("calibrate", path, "--output", tmp_path / "mine.toml")
    assert done.exit_code == 0, done.output
    assert "+0.0 %" in done.output
    loaded = machine.load(tmp_path / "mine.toml")
    assert loaded == calibrate.calibrate(read([path]))
    done = command("project", "maxwell", "--run", path)
    assert "points per rank = 2097152, elements per rank = 4096, precision = single" in done.output


def test_a_size_that_is_given_needs_no_note(tmp_path: Path) -> None:
    runs = [run(tmp_path, "maxwell", 1, order=7, elements_per_rank=n) for n in (64, 4096)]
    words = ["project", "maxwell", *(word for path in runs for word in ("--run", path))]
    assert "several values of elements_per_rank (64, 4096); give one with --elements" in command(*words).output
    assert "several values" not in command(*words, "--elements", 512).output


def test_counted_messages_leave_the_operations_as_they_are() -> None:
    traffic = {"exchanges": 1.0, "volume": 1.0, "reductions": 0.0, "overlap": 0.5, "source": "a trace"}
    content = TRUE.model_dump(exclude_none=True) | {"traffic": {"maxwell": traffic}}
    made = project.maxwell(machine.Machine.model_validate(content), 8, order=7, elements_per_rank=512)
    done = made.figures["GFLOP/s per rank"] * made.seconds * 1e9
    assert done == pytest.approx(maxwell_step_flops(7, 512 * 8**3))


def test_sizes_of_runs_are_those_of_the_projection(tmp_path: Path) -> None:
    path = run(tmp_path, "turbulence", 4, grid=128, rows=2, batch=3, precision="double")
    done = command("project", "turbulence", "--run", path, "--ranks", 4)
    assert "grid = 128, precision = double" in done.output
    paths = [run(tmp_path, "poisson", 1, order=7, elements_per_rank=n) for n in (512, 4096)]
    done = command("project", "poisson", "--run", paths[0], "--run", paths[1])
    assert "several values of elements_per_rank (512, 4096); give one with --elements" in done.output


def test_a_network_that_nothing_is_known_of_is_refused(tmp_path: Path) -> None:
    path = run(tmp_path, "poisson", 4, order=7, elements_per_rank=512)
    alone = run(tmp_path, "poisson", 1, order=7, elements_per_rank=512)
    done = command("project", "poisson", "--run", path, "--run", alone, "--ranks", 8)
    assert done.exit_code != 0
    assert "nothing measured says what more ranks do" in done.output + str(done.exception)
    mixed = command("project", "poisson", "--run", path, "--run", alone, "--machine", "summit", "--ranks", 48)
    assert mixed.exit_code == 0, mixed.output


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not valid JSON"),
        ("[]", "neither a run record nor a result"),
        ('{"machine": {}}', "neither a run record nor a result"),
        (None, "the folder has none of run.json, exchange.json"),
    ],
)
def test_what_is_no_measurement_is_refused_in_words(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(ModelError, match=said):
        read([tmp_path])


def test_measurements_that_do_not_suffice_are_refused_in_words(tmp_path: Path) -> None:
    several = run(tmp_path, "poisson", 4, order=7, elements_per_rank=512)
    with pytest.raises(ModelError, match="no poisson run on 1 rank"):
        calibrate.calibrate(read([several]))
    write(tmp_path / "a", PINGPONG, "pingpong.json")
    with pytest.raises(ModelError, match="the memory bandwidth was not measured"):
        calibrate.calibrate(read([tmp_path / "a"]))
    other = {**PINGPONG, "machine": {**place(2), "device": {**DEVICE, "name": "another"}}}
    write(tmp_path / "b", other, "pingpong.json")
    with pytest.raises(ModelError, match=r"several devices \(another, its GPU\)"):
        calibrate.calibrate(read([several, tmp_path / "b"]))


VALUES = st.one_of(st.none(), st.text(max_size=3), st.floats(), st.integers(-2, 3), st.lists(st.integers(), max_size=2))


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_record_calibrates_or_is_refused_in_words(tmp_path: Path, data: st.DataObject) -> None:
    workload = data.draw(st.sampled_from(["poisson", "maxwell", "flow", "turbulence"]))
    options: dict[str, Any] = {"grid": 64} if workload == "turbulence" else {"order": 3, "elements_per_rank": 512}
    content = record(getattr(project, workload)(TRUE, 1, **options), **options)
    section = content[data.draw(st.sampled_from(["figures", "timings", "machine", "case"]))]
    key = data.draw(st.sampled_from(sorted(section)))
    section[key] = data.draw(VALUES)
    path = write(tmp_path, content)
    try:
        made = calibrate.calibrate(read([path]))
    except ModelError:
        return
    assert made.device.stream_bytes_per_second.value > 0
