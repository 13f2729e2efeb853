"""benchmarks/device.sh keeps its time limit and its results; device_report.py compares them with the predictions."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest

from weft.cli.main import weft_command
from weft.model import chips, formulas, kernels, project
from weft.model import machine as machines

ROOT = Path(__file__).parents[2]
SECONDS = 120.0  # how long a program may take before it counts as hanging
H100 = chips.CHIPS["h100"]
DEVICE = {"backend": "cuda", "name": "NVIDIA H100 80GB HBM3", "architecture": "sm_90", "memory_bytes": 8e10}
MACHINE = {"ranks": 1, "ranks_per_node": 1, "processors": 16, "threads_per_rank": 16, "device": DEVICE}


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def operator(order: int, slower: float) -> dict[str, Any]:
    """An operator.json whose kernel takes `slower` times as long as predicted, and CG 0.5 ms per iteration."""
    size = formulas.large_mesh(order, 8000)
    method = formulas.Method()
    [counters] = [c for c in kernels.select(kernels.recorded()[1], "stored_2d", "double", [order]) if c.points]
    moved = formulas.weft_operator_bytes(size, method).value
    return {
        "precision": "double", "machine": MACHINE,
        "rows": [{
            "order": order, "geometry": "stored", "kernels": "portable", "threads": "columns",
            "elements": size.elements, "dofs": size.dofs, "bytes": moved,
            "seconds": slower * moved / kernels.predict(counters, H100).share / H100.stream_rate,
            "seconds_per_iteration": 5e-4, "fom_gflops": formulas.fom_flops(size).value / 5e-4 / 1e9,
            "iteration_bytes": formulas.weft_iteration_bytes(size, method).value,
        }],
    }  # fmt: skip


def profile(path: Path, counters: kernels.Counters, times: float) -> None:
    """The output of Nsight Compute for two launches of a kernel that does `times` as much as on the emulator."""
    of = "smsp__inst_executed.sum", "launch__grid_size", "gpu__time_duration.sum", "lts__t_sectors_op_read.sum"
    with path.open("w", newline="") as file:
        file.write("==PROF== Connected to process 7\n")
        lines = csv.writer(file, quoting=csv.QUOTE_ALL)
        lines.writerow(["ID", "Process ID", "Kernel Name", *of])
        lines.writerow(["", "", "", "inst", "", "ns", "sector"])
        for number in range(2):
            work = f"{round(times * 1000 * counters.instructions):,}"  # with separators of thousands
            lines.writerow([number, 7, counters.kernel.partition(".")[2], work, 1000 * counters.blocks, "1,000", "n/a"])


def report(folder: Path, *options: str) -> dict[str, Any]:
    subprocess.run(
        [sys.executable, str(ROOT / "benchmarks/device_report.py"), str(folder), *options], check=True, timeout=SECONDS
    )
    return json.loads((folder / "report.json").read_text())


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The results of a stopped run on a machine with a GPU."""
    write(tmp_path / "limits.json", {"device": DEVICE["name"], "bandwidth_bytes_per_second": 3.1e12})
    write(tmp_path / "orders" / "operator.json", operator(7, 1.25))
    write(
        tmp_path / "turbulence-512" / "run.json",
        {
            "schema": 1, "case": {"workload": "turbulence", "precision": "single"}, "machine": MACHINE,
            "figures": {"grid": [512] * 3, "process_grid": "1x1", "batch": 1},
            "timings": {"seconds_per_step": 0.1, "parts": {"FFT": {"mean_seconds": 1.0}}},
        },
    )  # fmt: skip
    [counters] = kernels.select(kernels.recorded()[1], "stored_2d", "double", [7])
    profile(tmp_path / "ncu-poisson-7.csv", counters, 2)
    (tmp_path / "flow-7").mkdir()
    (tmp_path / "flow-7" / "run.json").write_text('{"schema": 1, "case": {"workload": "flow"}, "fig')
    (tmp_path / "tests.log").write_text(
        "[gw0] [ 50%] PASSED tests/gpu/a.py::x\ntests/gpu/a.py::y SKIPPED (no hip) [ 75%]\n"
        "tests/gpu/a.py::z FAILED [100%]\nSKIPPED [1] tests/gpu/conftest.py:26: no hip\nFAILED tests/gpu/a.py::z - no\n"
    )
    (tmp_path / "commands.jsonl").write_text(
        '{"command": "fft", "status": 124, "seconds": 9, "ended": "stopped at its time limit"}\n'
    )
    return tmp_path


def test_measurements_stand_beside_their_predictions(results: Path) -> None:
    found = report(results)
    assert found["predicted_for"] == "h100"
    ratios = {
        (row["part"], row["what"], row["unit"], row["model"]): row["measured"] / row["predicted"]
        for row in found["rows"]
        if row["predicted"] and row["measured"]
    }
    variant = "N = 7, stored, columns, double"
    assert ratios["orders", f"{variant}: operator", "% of the roofline", "weft model kernels"] == pytest.approx(0.8)
    h100 = machines.load("h100")
    iteration = project.poisson(h100, 1, order=7, elements_per_rank=8000).seconds
    cg = "orders", f"{variant}: CG, 2.74e+06 unknowns", "µs per iteration"
    assert ratios[*cg, "weft model project"] == pytest.approx(5e-4 / iteration)
    step = project.turbulence(h100, 1, grid=512).seconds
    at = "workloads", "turbulence, 512^3, single", "ms per step", "weft model project"
    assert ratios[at] == pytest.approx(0.1 / step)
    counted = "counters", "poisson_stored_2d, N = 7: instructions", "per block", "emulator"
    assert ratios[counted] == pytest.approx(2)
    # Metrics of a kernel that Nsight Compute could not measure have no value.
    assert {r["measured"] for r in found["rows"] if r["what"].endswith("L2 sectors read")} == {None}


def test_damaged_and_stopped_results_are_reported_and_the_rest_is_kept(results: Path) -> None:
    found = report(results)
    assert [text.partition(" ")[0] for text in found["problems"]] == ["flow-7/run.json"]
    # pytest's summary names skipped tests once more; the line of a worker of pytest-xdist counts like any other.
    assert found["tests"] == {"skipped": 1, "failed": 1, "passed": 1}
    text = (results / "report.txt").read_text()
    for words in ("fft: stopped at its time limit", "flow-7/run.json is left out", "not measured"):
        assert words in text


def test_a_gpu_without_a_model_has_measurements_alone(results: Path) -> None:
    write(results / "limits.json", {"device": "NVIDIA GeForce", "bandwidth_bytes_per_second": 1e12})
    rows = report(results)["rows"]
    assert [r["measured"] for r in rows if "CG" in r["what"] and "FOM" in r["unit"]]
    assert {r["predicted"] for r in rows if r["part"] != "counters"} == {None}
    assert {r["model"] for r in rows if r["part"] == "workloads"} == {"no model of this GPU"}


# Stands in for Python: the report is made, everything else is done at once or never.
PYTHON = """#!/bin/sh
case "$*" in
  *device_report.py*--limits*) echo $$ >>"$PIDS"; exec sleep 600 ;;
  *device_report.py*) [ -n "$QUICK" ] || exec {python} "$@" ;;
  *small-100000*) echo measured; exit 0 ;;
  *small-10000*) echo $$ >>"$PIDS"; exec sleep 600 ;;
  *fft*) echo broken >&2; exit 3 ;;
esac
"""


@pytest.fixture
def script(tmp_path: Path):
    """Starts the script with the stand-in for Python; processes that it leaves behind are an error."""
    python, pids = tmp_path / "python", tmp_path / "pids"
    python.write_text(PYTHON.format(python=sys.executable))
    python.chmod(0o755)
    pids.touch()

    def start(**variables: str) -> subprocess.Popen[str]:
        environment = {
            **os.environ, "PYTHON": str(python), "BUILD": "no", "WEFT_GPU_TESTS_ON": "host", "PIDS": str(pids),
            "WEFT_CACHE": str(tmp_path / "cache"), "PACK": str(tmp_path / "pack"), "CHIP": "h100", **variables,
        }  # fmt: skip
        return subprocess.Popen(
            [str(ROOT / "benchmarks/device.sh"), str(tmp_path / "out")], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    yield start
    assert not [pid for pid in pids.read_text().split() if Path(f"/proc/{pid}").exists()]


def ends(folder: Path) -> dict[str, tuple[int, str]]:
    lines = (folder / "out" / "commands.jsonl").read_text().splitlines()
    return {one["command"]: (one["status"], one["ended"]) for one in map(json.loads, lines)}


def test_a_step_that_hangs_leaves_time_to_the_others(script, tmp_path: Path) -> None:
    running = script(BUDGET="24", STEPS="small fft", QUICK="yes")
    output, _ = running.communicate(timeout=SECONDS)
    assert running.returncode == 1, output
    assert "not whole: small-10000 (stopped at its time limit) fft (failed, see fft.log)" in output
    assert ends(tmp_path) == {
        "small-10000": (124, "stopped at its time limit"), "small-100000": (0, "done"),
        "fft": (3, "failed, see fft.log"), "compare-fft": (3, "failed, see compare-fft.log"),
    }  # fmt: skip
    assert (tmp_path / "out" / "small-100000.log").read_text() == "measured\n"


def test_a_script_that_is_stopped_leaves_a_report(script, tmp_path: Path) -> None:
    running = script(BUDGET="500", STEPS="fft limits small")
    begin = time.monotonic()
    while not (tmp_path / "pids").read_text():
        assert running.poll() is None
        assert time.monotonic() - begin < SECONDS
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    output, _ = running.communicate(timeout=SECONDS)
    assert running.returncode == 143, output
    assert ends(tmp_path) == {
        "fft": (3, "failed, see fft.log"), "compare-fft": (3, "failed, see compare-fft.log"),
        "limits": (143, "stopped from outside"),
    }  # fmt: skip
    assert "limits: stopped from outside" in (tmp_path / "out" / "report.txt").read_text()


def test_an_unknown_step_is_named(script) -> None:
    running = script(STEPS="fft everything")
    output, _ = running.communicate(timeout=SECONDS)
    assert running.returncode == 2
    assert "unknown step 'everything' in STEPS" in output


# Stands in for Python, and for Nsight Compute: notes its arguments.
RECORDER = """#!/bin/sh
case "$*" in
  *device_report.py*--metrics*) exec {python} "$@" ;;
  *) printf '%s\\0' "${{0##*/}}" "$@" >>{record}; printf '\\n' >>{record} ;;
esac
"""


def test_every_command_has_options_that_weft_knows(tmp_path: Path) -> None:
    record = tmp_path / "record"
    for name in ("python", "ncu", "mpiexec"):
        (tmp_path / name).write_text(RECORDER.format(python=sys.executable, record=record))
        (tmp_path / name).chmod(0o755)
    environment = os.environ | {
        "PYTHON": str(tmp_path / "python"), "NCU": str(tmp_path / "ncu"), "BUILD": "no", "WEFT_GPU_TESTS_ON": "host",
        "WEFT_CACHE": str(tmp_path / "cache"), "PACK": str(tmp_path / "pack"), "BUDGET": "100",
    }  # fmt: skip
    script = [str(ROOT / "benchmarks/device.sh"), str(tmp_path / "out")]
    done = subprocess.run(script, env=environment, timeout=SECONDS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    calls = [line.rstrip("\0").split("\0") for line in record.read_text().splitlines()]
    weft = [call[call.index("weft.cli.main") + 1 :] for call in calls if "weft.cli.main" in call]
    runs = {"run turbulence", "run maxwell", "run flow", "run poisson"}
    assert {" ".join(call[:2]) for call in weft} == runs | {
        "bench operator",
        "bench fft",
        "bench pingpong",
        "bench exchange",
    }
    for call in weft:
        assert problem_of(call) == "", " ".join(call)
    reports = [call for call in calls if "benchmarks/device_report.py" in call]
    assert any("--limits" in call for call in reports)
    assert [call[0] for call in calls].count("ncu") == 5


def problem_of(call: list[str]) -> str:
    """The error of the command line for a call of weft, without executing it; empty if the call is valid."""
    command: click.Command = weft_command
    context = click.Context(command)
    arguments = list(call)
    try:
        while isinstance(command, click.Group):
            name = arguments.pop(0)
            found = command.get_command(context, name)
            if found is None:
                return f"no command {name}"
            command = found
        command.make_context(call[1], arguments)
    except click.ClickException as error:
        return error.format_message()
    return ""
