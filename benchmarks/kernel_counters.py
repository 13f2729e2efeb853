"""Records counters of weft's GPU kernels for `weft model kernels`, in python/weft/model/kernel_counters.jsonl.

Runs build/benchmarks/kernel_counters, which launches the kernels on the emulator of sm_90 machine code. Needs the
packages nvidia-cuda-nvrtc and nvidia-cuda-nvdisasm, and a build folder with tests:

    cmake -S . -B build -DWEFT_BUILD_TESTS=ON && cmake --build build --target kernel_counters
    python benchmarks/kernel_counters.py [--build build] [--jobs 2]

With --check, nothing is written: the kernels of the named runs (such as poisson:3:double) are counted again and
compared with the record. The exit code is 1 if they differ.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "python" / "weft" / "model" / "kernel_counters.jsonl"
SOME = (3, 7, 15)
ORDERS = {
    "poisson": range(1, 16), "solve": SOME, "transfer": SOME, "maxwell": SOME, "flow": SOME, "turbulence": (0,),
}  # fmt: skip
# The kernels for which a workload is run; others that it launches are counted elsewhere.
OWN = {
    "poisson": ("poisson.", "poisson_matrix.", "gather.gather_points"),
    "solve": ("cg.", "cg_gather.", "vector.", "gather.gather_product"),
    "transfer": ("transfer.", "schwarz.", "smoother."), "maxwell": ("maxwell.", "exchange."),
    "flow": ("flow_terms.", "flow_convect."), "turbulence": ("turbulence.", "fft."),
}  # fmt: skip
REALS = ("double", "float")
PIPES = ("integer", "f32", "f64", "special", "memory", "uniform", "control", "tensor")


def tools() -> list[str]:
    """The files of NVRTC and of nvdisasm."""
    script = ROOT / "tests" / "machine_code" / "tools.py"
    found = subprocess.run([sys.executable, "-P", str(script)], capture_output=True, text=True, check=True)
    parts = found.stdout.strip().split(";")
    if len(parts) != 2:
        sys.exit(f"skipped: {parts[0]}")
    return parts


def version(nvrtc: str) -> str:
    """Major and minor version of an NVRTC, from the library of built-ins next to it."""
    names = [path.name for path in Path(nvrtc).parent.glob("libnvrtc-builtins.so.*")]
    found = [m.group(1) for name in names if (m := re.search(r"\.so\.(\d+\.\d+)", name))]
    return found[0] if found else "unknown"


def environment(build: Path, nvrtc: str, nvdisasm: str, report: str) -> dict[str, str]:
    """Environment variables with which the test driver is found, and compiles with the real NVRTC."""
    driver = build / "tests" / "cpp" / "fake_gpu_driver"
    return os.environ | {
        "LD_LIBRARY_PATH": f"{driver}:{os.environ.get('LD_LIBRARY_PATH', '')}", "WEFT_FAKE_GPU": "1",
        "WEFT_FAKE_GPU_NVRTC": nvrtc, "WEFT_NVRTC": "", "WEFT_HIPRTC": "", "WEFT_CUFFT": "", "WEFT_HIPFFT": "",
        "WEFT_NVDISASM": nvdisasm, "OMP_NUM_THREADS": "1", "WEFT_CACHE": str(build / "machine_code"),
        "WEFT_MACHINE_CODE_REPORT": report, "WEFT_MACHINE_CODE_COMPARE": "0",
    }  # fmt: skip


def count(build: Path, run: tuple[str, int, str], found: list[str]) -> list[dict[str, object]]:
    """The counters of the kernels of one run: workload, order, type."""
    workload, order, real = run
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.jsonl"
        program = build / "benchmarks" / "kernel_counters"
        done = subprocess.run(
            [str(program), workload, str(order), real], env=environment(build, *found, str(report)),
            capture_output=True, text=True, timeout=1800, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"kernel_counters {workload} {order} {real} failed:\n{done.stderr}")
        size = json.loads(done.stdout)
        lines = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    return [compact(line, run, size["elements"]) for line in lines if line["kernel"].startswith(OWN[workload])]


def compact(line: dict, run: tuple[str, int, str], elements: int) -> dict[str, object]:
    """A line of the emulator's report in the form in which it is stored."""
    workload, order, real = run
    kernel, _, constants = line["kernel"].partition(" ")
    defined = dict(pair.split("=") for pair in constants.split(",") if pair)
    operator = workload == "poisson" and kernel.startswith(("poisson.", "poisson_matrix."))
    opcodes = line["opcodes"]
    return {
        "run": workload, "kernel": kernel, "real": defined.get("real", real), "order": int(defined.get("N", order)),
        "tile": int(defined.get("WEFT_TILE_ELEMENTS", 1)), "elements": elements if operator else 0,
        **{k: line[k] for k in ("blocks", "threads", "registers", "shared_bytes", "instructions")},
        "lanes": line["lane_instructions"], "barriers": line["barriers"],
        "pipes": dict(zip(PIPES, line["pipes"], strict=True))
        | {"imad": opcodes.get("IMAD", 0), "shuffle": opcodes.get("SHFL", 0)},
        "flops": line["flops"], "loads": line["global_loads"], "stores": line["global_stores"],
        **{k: line[k] for k in ("shared_loads", "shared_stores", "memory_sectors", "block_sectors", "path")},
    }  # fmt: skip


def kept_record() -> tuple[dict[str, str], list[dict[str, object]]]:
    """The header of the record, and its lines."""
    head, *lines = (json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines())
    return head, lines


def check(lines: list[dict[str, object]], nvrtc: str) -> None:
    """Compares counters with the record, and ends the program with 1 if they differ."""
    head, kept = kept_record()
    if head["nvrtc"] != nvrtc:
        sys.exit(f"skipped: the counters were recorded with NVRTC {head['nvrtc']}, and this is {nvrtc}")
    wrong = [line for line in lines if line not in kept]
    for line in wrong:
        print(f"counted now, but not in {RECORD.name}: {json.dumps(line)}")
    if wrong:
        sys.exit("kernels have changed: record their counters again with benchmarks/kernel_counters.py")
    print(f"{len(lines)} kernels as recorded")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="build folder")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    parser.add_argument("--workloads", nargs="+", choices=ORDERS, default=list(ORDERS), help="the others are kept")
    parser.add_argument("--check", nargs="+", metavar="RUN", help="runs to compare with the record")
    options = parser.parse_args()
    found = tools()
    runs = [(w, order, real) for w in options.workloads for order in ORDERS[w] for real in REALS]
    if options.check:
        named = [name.split(":") for name in options.check]
        runs = [(workload, int(order), real) for workload, order, real in named]
    with ThreadPoolExecutor(options.jobs) as pool:
        lines = [line for part in pool.map(lambda run: count(options.build, run, found), runs) for line in part]
    if options.check:
        return check(lines, version(found[0]))
    head = {"nvrtc": version(found[0]), "architecture": "sm_90"}
    if len(options.workloads) < len(ORDERS):
        before, kept = kept_record()
        if before != head:
            sys.exit(f"the record is of {before}, and this is {head}: record all workloads")
        lines = [line for line in kept if line["run"] not in options.workloads] + lines
    RECORD.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [head, *lines]))
    print(f"wrote {RECORD}: {len(lines)} kernels")


if __name__ == "__main__":
    main()
