"""Records the registers and spills of weft's kernels on AMD GPUs, for `weft model kernels --machine mi250x|mi300x`.

Compiles each kernel for gfx90a and gfx942 with Clang 17 or newer (Debian: apt install clang-19) and reads the metadata
of the code object. It needs neither a GPU nor ROCm: the few lines of PRELUDE replace the built-ins of hipRTC.

    python benchmarks/hip_resources.py [--clang clang-19] [--jobs 2] [--files flow_terms]

The record holds a digest of the sources of each kernel file. By default, the files that have changed are recorded
again; tests/python/test_model_kernels.py fails until this is done.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from weft import _weft

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "python" / "weft" / "model" / "hip_resources.jsonl"
ARCHITECTURES = ("gfx90a", "gfx942")
KERNELS = ROOT / "cpp" / "weft" / "kernels"
FILES = (
    "poisson", "poisson_matrix", "gather", "cg", "cg_gather", "maxwell", "transfer", "schwarz", "flow_terms",
    "flow_convect", "fft", "turbulence", "exchange",
)  # fmt: skip
PRELUDE = """
#define __HIP__ 1
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
// As in HIP's amd_hip_runtime.h.
#define __launch_bounds__(threads, waves) \\
  __attribute__((amdgpu_flat_work_group_size(1, threads), amdgpu_waves_per_eu(waves)))
typedef __SIZE_TYPE__ size_t;
struct WeftIndex { unsigned x, y, z; };
static __device__ __forceinline__ WeftIndex weft_thread() {
  return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z()};
}
static __device__ __forceinline__ WeftIndex weft_block() {
  return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()};
}
#define threadIdx weft_thread()
#define blockIdx weft_block()
static __device__ __forceinline__ void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
static __device__ __forceinline__ double __shfl_down(double value, int distance, int width) {
  const int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
  const int from = (lane & (width - 1)) + distance < width ? lane + distance : lane;
  struct Halves { int low, high; } halves = __builtin_bit_cast(Halves, value);
  halves.low = __builtin_amdgcn_ds_bpermute(from << 2, halves.low);
  halves.high = __builtin_amdgcn_ds_bpermute(from << 2, halves.high);
  return __builtin_bit_cast(double, halves);
}
static __device__ __forceinline__ double sqrt(double x) { return __builtin_sqrt(x); }
static __device__ __forceinline__ float sqrt(float x) { return __builtin_sqrtf(x); }
static __device__ __forceinline__ double fabs(double x) { return __builtin_fabs(x); }
static __device__ __forceinline__ float fabs(float x) { return __builtin_fabsf(x); }
static __device__ __forceinline__ double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
static __device__ __forceinline__ float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
"""
FIELDS = {
    "vgprs": "vgpr_count", "agprs": "agpr_count", "sgprs": "sgpr_count", "lds_bytes": "group_segment_fixed_size",
    "scratch_bytes": "private_segment_fixed_size", "vector_spills": "vgpr_spill_count",
    "scalar_spills": "sgpr_spill_count", "threads": "max_flat_workgroup_size",
}  # fmt: skip


def sources(file: str) -> str:
    """The texts of a kernel file and of those that it includes, without comments and indentation."""
    texts, left = {}, [file]
    while left:
        name = left.pop()
        if name in texts or name in ("host", "fiber"):  # other targets of the dialect
            continue
        text = (KERNELS / f"{name}.hpp").read_text(encoding="utf-8")
        lines = (line.partition("//")[0].strip() for line in text.splitlines())
        texts[name] = "\n".join(line for line in lines if line)
        left += re.findall(r'#include "weft/kernels/(\w+)\.hpp"', text)
    return "\n".join(texts[name] for name in sorted(texts))


def digests() -> dict[str, str]:
    """A digest of the sources of each recorded kernel file."""
    return {file: hashlib.sha256(sources(file).encode()).hexdigest()[:16] for file in FILES}


def changed() -> list[str]:
    """The kernel files whose sources are not those of the record."""
    head = json.loads(RECORD.read_text(encoding="utf-8").partition("\n")[0])
    return [file for file, digest in digests().items() if head.get("sources", {}).get(file) != digest]


def launched_kernels() -> list[tuple]:
    """The kernels of these files that weft launches, without the variants that also compute a product."""
    rows = _weft.device.launched_kernels()
    return [row for row in rows if row[0] in FILES and "WEFT_WITH_PRODUCT" not in row[2]]


def resources(assembly: str, kernel: str) -> dict[str, int]:
    """The metadata of a kernel in the assembly of its code object."""
    metadata = assembly[assembly.index(".amdgpu_metadata") :]
    for part in re.split(r"\n  - (?=\.agpr_count|\.args)", metadata):
        if re.search(rf"\.name:\s+{kernel}\n", part):
            found = {name: re.search(rf"\.{key}:\s+(\d+)", part) for name, key in FIELDS.items()}
            return {name: int(match.group(1)) if match else 0 for name, match in found.items()}
    raise ValueError(f"the assembly has no metadata of {kernel}")


def compiled(clang: str, architecture: str, launched: tuple) -> dict[str, object]:
    """The resources of one kernel on one architecture."""
    file, name, defines, _ = launched
    alone = ["-DWEFT_ONE_KERNEL=1", f"-DWEFT_ONLY_{name}=~,WEFT_ENTRY"] if "WEFT_N" in defines else []
    with tempfile.TemporaryDirectory() as folder:
        prelude = Path(folder) / "prelude.hpp"
        prelude.write_text(PRELUDE)
        text = subprocess.run(
            [clang, "-x", "hip", "--offload-device-only", f"--offload-arch={architecture}", "-nogpuinc", "-nogpulib",
             "-std=c++17", "-O3", "-S", "-o", "-", "-include", str(prelude), f"-I{ROOT / 'cpp'}",
             "-DWEFT_TARGET_GPU=1", *alone,
             *(f"-D{key}={value}" for key, value in defines.items()),
             str(KERNELS / f"{file}.hpp")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if text.returncode != 0:
        sys.exit(f"{architecture} {file}.{name}:\n{text.stderr}")
    return {
        "architecture": architecture, "kernel": f"{file}.{name}", "real": defines["WEFT_REAL"],
        "order": int(defines.get("WEFT_N", 0)), "tile": int(defines.get("WEFT_TILE_ELEMENTS", 1)),
        **resources(text.stdout, name),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clang", default="clang-19", help="compiler")
    parser.add_argument("--jobs", type=int, default=2, help="compilations at once")
    parser.add_argument("--files", nargs="+", choices=FILES, help="kernels of these; default: those that have changed")
    options = parser.parse_args()
    files = options.files or changed()
    version = subprocess.run([options.clang, "--version"], capture_output=True, text=True, check=True).stdout
    compiler = version.partition("\n")[0]
    before, *kept = (json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines())
    if len(files) < len(FILES) and before["compiler"] != compiler:
        sys.exit(f"the record is of {before['compiler']}, and this is {compiler}: record all files")
    launched = [row for row in launched_kernels() if row[0] in files]
    work = [(architecture, row) for architecture in ARCHITECTURES for row in launched]
    with ThreadPoolExecutor(options.jobs) as pool:
        lines = list(pool.map(lambda job: compiled(options.clang, *job), work))
    lines += [line for line in kept if line["kernel"].partition(".")[0] not in files]
    lines.sort(key=lambda line: (line["architecture"], line["kernel"]))
    now = digests()
    head = {"compiler": compiler, "sources": before.get("sources", {}) | {file: now[file] for file in files}}
    RECORD.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [head, *lines]))
    print(f"wrote {RECORD}: {len(lines)} kernels")


if __name__ == "__main__":
    main()
