"""Compares every measurement of benchmarks/device.sh on a GPU with weft's prediction.

    python benchmarks/device_report.py FOLDER [--chip h100]     writes FOLDER/report.json and FOLDER/report.txt
    python benchmarks/device_report.py --predict h100 [--json FILE]    the same table before anything was measured
    python benchmarks/device_report.py --limits FILE            measures the limits of the GPU of this machine
    python benchmarks/device_report.py --metrics                the counters that Nsight Compute has to record

FOLDER may hold any part of the results; missing parts are left out. Predictions are those of `weft model kernels`
(docs/model-kernels.md) and `weft model project` (docs/model-project.md).
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from weft.files import write_json
from weft.format import table
from weft.model import chips, evidence, formulas, kernels, machine, project
from weft.model.chips import Chip
from weft.model.recorded_run import run_of
from weft.model.result import ModelError

KERNELS, PROJECT = "weft model kernels", "weft model project"
# Launches of an iteration on one GPU, and those of a small problem (docs/backends.md, Launches and waits).
CG_KERNELS, SMALL_CG_KERNELS, SMALL = 6, 3, 1 << 18
GRAPH_KERNEL = 1.3e-6  # s from one kernel of next to no work to the next in a graph, on an H200 (the same section)
NO_TIME = "not measured"


@dataclass(frozen=True)
class Row:
    """One figure, predicted and measured; None if there is no such value."""

    part: str
    what: str
    unit: str
    predicted: float | None
    measured: float | None
    model: str  # the source of the prediction, or the reason why there is none


@dataclass(frozen=True)
class Gpu:
    """The models of one GPU; none if the name is empty."""

    name: str

    @property
    def chip(self) -> Chip | None:
        """The description that `weft model kernels` uses."""
        return chips.CHIPS.get(self.name)

    @property
    def machine(self) -> machine.Machine | None:
        """The description that `weft model project` takes."""
        return machine.load(self.name) if self.name in machine.names() else None


def chip_of(device_name: str) -> str:
    """The name of the GPU's model, or an empty string if weft has none."""
    return next((name for name in chips.CHIPS if name.upper() in device_name.upper()), "")


# --- the Poisson operator and CG -------------------------------------------------------------------------------------


def counters_of(row: Mapping[str, Any], real: str) -> kernels.Counters | None:
    """The recorded counters of the kernel that a row of operator.json timed."""
    file, suffix = {
        "points": ("poisson", "3d"), "columns": ("poisson", "2d"), "matrices": ("poisson_matrix", "matrix"),
    }[row["threads"]]  # fmt: skip
    name = f"{file}.poisson_{row['geometry']}_{suffix}"
    found = [c for c in kernels.recorded()[1] if (c.kernel, c.order, c.real) == (name, row["order"], real)]
    return found[0] if found else None


def cg_seconds(row: Mapping[str, Any], share: float, gpu: Gpu) -> float | None:
    """The time of the operator at its predicted share of the roofline, other bytes at streaming rate, and launches."""
    chip = gpu.chip
    if chip is None:
        return None
    other = row["iteration_bytes"] - row["bytes"]
    launches = SMALL_CG_KERNELS if row["dofs"] <= SMALL else CG_KERNELS
    return (row["bytes"] / share + other) / chip.stream_rate + launches * GRAPH_KERNEL


def operator_rows(part: str, record: Mapping[str, Any], gpu: Gpu) -> Iterator[Row]:
    """Shares of the streaming roofline, and where CG was timed, times of an iteration, by order and variant."""
    real = "double" if record["precision"] == "double" else "float"
    for row in record["rows"]:
        if row["kernels"] != "portable":
            continue
        found, chip = counters_of(row, real), gpu.chip
        share = kernels.predict(found, chip).share if found and chip else None
        seconds = row.get("seconds")
        reached = row["bytes"] / seconds / chip.stream_rate if seconds and chip else None
        what = f"N = {row['order']}, {row['geometry']}, {row['threads']}, {record['precision']}"
        yield Row(
            part, f"{what}: operator", "% of the roofline", percent(share), percent(reached),
            KERNELS if share else "no model of this GPU" if chip is None else "no counters of this kernel",
        )  # fmt: skip
        if "iteration_bytes" not in row:
            continue
        size = f"{row['dofs']:.3g} unknowns"
        measured = row.get("seconds_per_iteration")
        predicted = cg_seconds(row, share, gpu) if share else None
        yield Row(part, f"{what}: CG, {size}", "µs per iteration", micro(predicted), micro(measured), KERNELS)
        fom = formulas.fom_flops(formulas.large_mesh(row["order"], row["elements"])).value / 1e9
        yield Row(
            part, f"{what}: CG, {size}", "GFLOP/s (FOM)", predicted and fom / predicted, row.get("fom_gflops"), KERNELS
        )
        if row["geometry"] == "stored":
            options = {"order": row["order"], "elements_per_rank": row["elements"], "precision": record["precision"]}
            seconds, model = projected("poisson", options, gpu)
            yield Row(part, f"{what}: CG, {size}", "µs per iteration", micro(seconds), micro(measured), model)


def percent(value: float | None) -> float | None:
    """A share in percent."""
    return None if value is None else 100 * value


def micro(seconds: float | None) -> float | None:
    """Seconds in microseconds."""
    return None if seconds is None else 1e6 * seconds


# --- runs of the workloads -------------------------------------------------------------------------------------------


def projected(workload: str, options: Mapping[str, Any], gpu: Gpu) -> tuple[float | None, str]:
    """Seconds per iteration or step on one GPU with the source of the prediction, or the reason why there is none."""
    if gpu.machine is None:
        return None, "no model of this GPU"
    try:
        projection: project.Projection = getattr(project, workload)(gpu.machine, 1, **options)
    except ModelError as error:
        return None, str(error)
    return projection.seconds, PROJECT


def run_row(workload: str, options: Mapping[str, Any], measured: float | None, gpu: Gpu) -> Row:
    """The time of a step."""
    at = "{grid}^3" if workload == "turbulence" else "N = {order}, {elements_per_rank} elements"
    what = f"{workload}, {at.format(**options)}, {options.get('precision', 'double')}"
    predicted, model = projected(workload, options, gpu)
    return Row("workloads", what, "ms per step", *(t and 1e3 * t for t in (predicted, measured)), model)


def record_rows(path: Path, gpu: Gpu) -> Iterator[Row]:
    """The time of a step, or of a solve by multigrid, from a run.json. No model predicts it."""
    [found] = evidence.read([path])
    figures = found.content["figures"]
    if found.content["case"]["workload"] == "poisson":
        what = f"poisson, N = {figures['order']}, {figures['dofs']:.3g} unknowns, multigrid"
        seconds = found.content["timings"]["solve_seconds"]
        yield Row("workloads", f"{what}, {figures['iterations']} iterations", "ms", None, 1e3 * seconds, "no model")
    else:
        run = run_of(found)
        yield run_row(run.workload, run.options, run.seconds, gpu)


def transform_rows(record: Mapping[str, Any], gpu: Gpu) -> Iterator[Row]:
    """A transform forward and backward, compared with its six passes through memory at the streaming rate."""
    for row in record["transforms"]:
        bound = row["bytes"] / gpu.chip.stream_rate if gpu.chip else None
        what = f"transforms, {row['points']}^3, {row['precision']}"
        model = "six passes at the streaming rate, a bound" if gpu.chip else "no model of this GPU"
        yield Row("workloads", what, "ms per pair", bound and 1e3 * bound, 1e3 * row["seconds"], model)


def limit_rows(limits: Mapping[str, Any], gpu: Gpu) -> Iterator[Row]:
    """The limits of the GPU, and those that the predictions assume."""
    chip = gpu.chip
    for what, key, unit, scale, assumed in (
        ("bandwidth, 8 reads : 1 write", "bandwidth_bytes_per_second", "GB/s", 1e9, chip and chip.stream_rate),
        ("peak, double", "peak_double_flops_per_second", "TFLOP/s", 1e12, chip and chip.peak_fp64),
        ("peak, single", "peak_single_flops_per_second", "TFLOP/s", 1e12, chip and chip.peak_fp32),
    ):
        measured = limits.get(key)
        yield Row(
            "limits", what, unit, assumed and assumed / scale, measured and measured / scale,
            "data sheets (weft.model.chips)" if chip else "no model of this GPU",
        )  # fmt: skip


# --- counters --------------------------------------------------------------------------------------------------------

# For each column, the metrics of Nsight Compute, whose values are added, and the emulator's counters, for one launch.
COUNTERS: dict[str, tuple[tuple[str, ...], Callable[[kernels.Counters], float]]] = {
    "instructions": (("smsp__inst_executed.sum",), lambda c: c.instructions),
    "FP64 instructions": (("smsp__inst_executed_pipe_fp64.sum",), lambda c: c.pipes["f64"]),
    "sectors loaded": (("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",), lambda c: c.loads[1]),
    "sectors stored": (("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",), lambda c: c.stores[1]),
    "shared wavefronts": (
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",), lambda c: c.shared_loads[1] + c.shared_stores[1],
    ),
    "L2 sectors read": (("lts__t_sectors_op_read.sum",), lambda c: c.block_sectors),
    "DRAM bytes": (
        ("dram__bytes_read.sum", "dram__bytes_write.sum"), lambda c: kernels.SECTOR * sum(c.memory_sectors),
    ),
}  # fmt: skip
REGISTERS, TIME, GRID = "launch__registers_per_thread", "gpu__time_duration.sum", "launch__grid_size"


def metrics() -> str:
    """The metrics that Nsight Compute has to record."""
    return ",".join([*(m for names, _ in COUNTERS.values() for m in names), REGISTERS, TIME, GRID])


def profiled(path: Path) -> dict[tuple[str, int], list[dict[str, float]]]:
    """The launches in a CSV file of `ncu --csv --page raw`: values of metrics by kernel and number of blocks."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return {}
    # The line after the head has the units; others between the launches are messages.
    rows = csv.DictReader([lines[start], *(line for line in lines[start + 2 :] if line.startswith('"'))])
    launches: dict[tuple[str, int], list[dict[str, float]]] = {}
    for row in rows:
        values = {name: number for name, text in row.items() if (number := number_in(text)) is not None}
        name = row["Kernel Name"].partition("(")[0].split()[-1]
        if GRID in values:
            launches.setdefault((name, int(values[GRID])), []).append(values)
    return launches


def number_in(text: str | None) -> float | None:
    """A number with separators of thousands, or None for other text."""
    cleaned = (text or "").replace(",", "")
    return float(cleaned) if re.fullmatch(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?", cleaned) else None


def counter_rows(path: Path, order: int, gpu: Gpu) -> Iterator[Row]:
    """Counters per block of each kernel in a CSV file, compared with those of the emulator in the same units."""
    for (name, blocks), launches in profiled(path).items():
        found = [c for c in kernels.recorded()[1] if c.kernel.partition(".")[2] == name]
        found = [c for c in found if c.order == order and c.real == "double"]
        if not found:
            continue
        counters = found[0]

        def middle(of: Sequence[str], among: Sequence[dict[str, float]] = launches) -> float | None:
            known = [sum(values[m] for m in of) for values in among if all(m in values for m in of)]
            return statistics.median(known) if known else None

        what = f"{name}, N = {order}"
        for column, (of, emulated) in COUNTERS.items():
            measured = middle(of)
            per_block = None if measured is None else measured / blocks
            yield Row("counters", f"{what}: {column}", "per block", emulated(counters) / counters.blocks, per_block,
                      "emulator")  # fmt: skip
        yield Row("counters", f"{what}: registers", "per thread", counters.registers, middle([REGISTERS]), "emulator")
        nanoseconds = middle([TIME])
        predicted = None
        if gpu.chip:
            predicted = 1e9 * kernels.predict(counters, gpu.chip).seconds / counters.blocks
        yield Row("counters", f"{what}: time", "ns per block", predicted,
                  None if nanoseconds is None else nanoseconds / blocks, KERNELS)  # fmt: skip


# --- all of it -------------------------------------------------------------------------------------------------------


def read_json(path: Path) -> Any:
    """The content of a file, or None if it does not exist."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def parts(folder: Path, gpu: Gpu) -> Iterator[tuple[Path, Callable[[], Iterable[Row]]]]:
    """The files of a folder, each with the function that makes rows of it."""
    operators = [
        folder / name / "operator.json" for name in ("shapes", "orders", "small-10000", "small-100000", "single")
    ]
    of_json: dict[Path, Callable[[Any, Gpu], Iterable[Row]]] = {
        folder / "limits.json": limit_rows,
        **{path: partial(operator_rows, path.parent.name.partition("-")[0]) for path in operators},
        folder / "fft" / "fft.json": transform_rows,
    }
    for path, function in of_json.items():
        if path.exists():
            yield path, lambda of=function, path=path: of(json.loads(path.read_text(encoding="utf-8")), gpu)
    for path in sorted(folder.glob("*/run.json")):
        if not path.parent.name.startswith("ncu-"):
            yield path, partial(record_rows, path, gpu)
    for path in sorted(folder.glob("ncu-*.csv")):
        yield path, partial(counter_rows, path, int(path.stem.rpartition("-")[2]), gpu)


def device_name(folder: Path) -> str:
    """The GPU on which the files of a folder were measured."""
    for path in (folder / "limits.json", *sorted(folder.glob("*/*.json"))):
        content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        if isinstance(content, dict) and isinstance(content.get("machine", {}), dict):
            name = content.get("device") or content.get("machine", {}).get("device", {}).get("name")
            if name:
                return str(name)
    return ""


def outcomes(logs: Iterable[Path]) -> dict[str, int]:
    """The numbers of tests that passed, failed and so on, from the lines of pytest."""
    text = "".join(log.read_text(encoding="utf-8", errors="replace") for log in logs)
    words = "PASSED|FAILED|SKIPPED|ERROR"
    # A test that fails has a line as it ends and one in the summary.
    found = {name: word for name, word in re.findall(rf"^(tests/.+?) ({words}) .*\[ *\d+%\]$", text, re.MULTILINE)}
    found |= {name: word for word, name in re.findall(rf"\b({words}) (tests/\S+)", text)}
    outcomes = [word.lower() for word in found.values()]
    return {word: outcomes.count(word) for word in dict.fromkeys(outcomes)}


def planned(gpu: Gpu, dofs: int = 6_000_000) -> Iterator[Row]:
    """The rows that device.sh measures with its own sizes, without measurements."""
    yield from limit_rows({}, gpu)
    for part, orders, shapes, size in (
        ("shapes", (3, 7, 14, 15), ("points", "columns"), dofs),
        ("orders", range(1, 16), ("auto",), dofs),
        ("small", (7,), ("auto",), 10_000),
        ("small", (7,), ("auto",), 100_000),
    ):
        rows = [
            planned_row(order, geometry, threads if threads != "auto" else chosen(gpu, order, geometry), size)
            for order in orders
            for geometry in ("stored", "trilinear", "box")
            for threads in shapes
            if threads != "points" or ((order + 1) ** 3 <= 1024 and geometry != "box")
        ]
        if part == "shapes":
            for row in rows:
                del row["iteration_bytes"]
        yield from operator_rows(part, {"precision": "double", "rows": rows}, gpu)
    for grid in (512, 1024):
        yield run_row("turbulence", {"grid": grid, "precision": "single"}, None, gpu)
    for order in (7, 14):
        yield run_row("maxwell", {"order": order, "elements_per_rank": round(4e6 / (order + 1) ** 3)}, None, gpu)


def chosen(gpu: Gpu, order: int, geometry: str) -> str:
    """The shape of blocks that weft chooses in double precision, as in cpp/weft/poisson/local_operator.cpp."""
    matrices = {"geometry": geometry, "order": order, "threads": "matrices"}
    fast = gpu.name in ("a100", "h100", "h200")
    return "matrices" if fast and counters_of(matrices, "double") else "columns"


def planned_row(order: int, geometry: str, threads: str, dofs: int) -> dict[str, Any]:
    """A row of operator.json before it is measured, with N_G = E N^3."""
    size = formulas.large_mesh(order, round(dofs / order**3))
    method = formulas.Method(geometry=geometry)
    if geometry == "box":
        method = formulas.Method(geometry="trilinear", parallelepipeds=size.elements)
    return {
        "order": order, "geometry": geometry, "kernels": "portable", "threads": threads, "elements": size.elements,
        "dofs": size.dofs, "bytes": formulas.weft_operator_bytes(size, method).value,
        "iteration_bytes": formulas.weft_iteration_bytes(size, method).value,
    }  # fmt: skip


def text_of(rows: Iterable[Row]) -> str:
    """The table. A row without a measurement says so."""
    lines: list[tuple[str, ...]] = [("PART", "WHAT", "PREDICTED", "MEASURED", "UNIT", "MEASURED/PREDICTED", "MODEL")]
    for row in rows:
        both = row.predicted and row.measured
        lines.append(
            (
                row.part, row.what, "-" if row.predicted is None else f"{row.predicted:.4g}",
                NO_TIME if row.measured is None else f"{row.measured:.4g}", row.unit,
                f"{row.measured / row.predicted:.2f}" if both else "", row.model,
            )
        )  # fmt: skip
    return table(lines)


def write(folder: Path, name: str) -> None:
    """Writes report.json and report.txt of a folder."""
    device = device_name(folder)
    gpu = Gpu(name or chip_of(device))
    rows: list[Row] = []
    problems = []
    for path, made in parts(folder, gpu):
        try:
            rows += made()
        except (ModelError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            problems.append(f"{path.relative_to(folder)} is left out: {type(error).__name__} {error}")
    log = folder / "commands.jsonl"
    commands = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    tests = outcomes(sorted(folder.glob("tests*.log")))
    lines = [f"measured on {device or 'an unknown device'}, predicted for {gpu.chip.title if gpu.chip else 'no GPU'}"]
    if tests:
        lines.append("tests: " + ", ".join(f"{count} {word}" for word, count in tests.items()))
    lines += [f"{c['command']}: {c['ended']} ({c['seconds']} s)" for c in commands if c["status"]]
    lines += problems
    (folder / "report.txt").write_text("\n".join([*lines, "", text_of(rows), ""]), encoding="utf-8")
    report = {
        "device": device, "predicted_for": gpu.name, "tests": tests, "commands": commands, "problems": problems,
        "rows": [asdict(row) for row in rows],
    }  # fmt: skip
    write_json(folder / "report.json", report)


def measure_limits() -> dict[str, Any]:
    """The GPU of this machine and its limits."""
    from weft import device

    gpu = device.open("auto")
    return {
        "device": gpu.name, "backend": gpu.backend, "architecture": gpu.architecture, "memory_bytes": gpu.memory_bytes,
        "bandwidth_bytes_per_second": device.measure_bandwidth(gpu),
        "peak_double_flops_per_second": device.measure_peak(gpu, "double"),
        "peak_single_flops_per_second": device.measure_peak(gpu, "single"), "found": device.info(),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("folder", nargs="?", type=Path, help="results of benchmarks/device.sh")
    what.add_argument("--predict", choices=chips.CHIPS, help="print what would be compared")
    what.add_argument("--limits", type=Path, metavar="FILE", help="measure the limits of the GPU here")
    what.add_argument("--metrics", action="store_true", help="print the metrics for Nsight Compute")
    parser.add_argument("--chip", default="", choices=["", *chips.CHIPS], help="GPU to predict for; default: by name")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows of --predict to FILE")
    options = parser.parse_args()
    if options.metrics:
        print(metrics())
    elif options.limits:
        write_json(options.limits, measure_limits())
    elif options.predict:
        rows = list(planned(Gpu(options.predict)))
        print(text_of(rows))
        if options.json:
            write_json(options.json, {"predicted_for": options.predict, "rows": [asdict(row) for row in rows]})
    elif not options.folder.is_dir():
        sys.exit(f"{options.folder}: no such folder")
    else:
        write(options.folder, options.chip)


if __name__ == "__main__":
    main()
