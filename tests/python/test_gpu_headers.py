"""weft's declarations of GPU drivers, compilers and FFT libraries agree with their headers.

weft builds without these headers. tests/headers compares signatures, constants and sizes with them at compile time. The
headers of CUDA 12 and 13 are those of NVIDIA's wheels; HIP's are looked for where its packages install them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# All folders of packages are searched: an environment may take some from the system's Python.
WHEELS = [Path(folder) / "nvidia" for folder in dict.fromkeys([sysconfig.get_path("purelib"), *sys.path]) if folder]
NAMES = {"CUDA 13": ["cu13"], "CUDA 12": ["cuda_runtime", "cuda_nvrtc", "cufft", "cuda_nvcc"]}
PLACES = {
    **{vendor: [w / name / "include" for name in names for w in WHEELS] for vendor, names in NAMES.items()},
    "HIP": [Path("/opt/rocm/include"), Path("/usr/include")],
}
HEADERS = {  # by file of tests/headers: the header, and the wheel that has it
    "driver": {"CUDA 13": "cuda.h", "CUDA 12": "cuda.h", "HIP": "hip/hip_runtime_api.h"},
    "compiler": {"CUDA 13": "nvrtc.h", "CUDA 12": "nvrtc.h", "HIP": "hip/hiprtc.h"},
    "fft": {"CUDA 13": "cufft.h", "CUDA 12": "cufft.h", "HIP": "hipfft/hipfft.h"},
}
PACKAGES = {
    ("driver", "CUDA 13"): "nvidia-cuda-runtime",
    ("driver", "CUDA 12"): "nvidia-cuda-runtime-cu12",
    ("compiler", "CUDA 13"): "nvidia-cuda-nvrtc",
    ("compiler", "CUDA 12"): "nvidia-cuda-nvrtc-cu12",
    ("fft", "CUDA 13"): "nvidia-cufft nvidia-cuda-crt",
    ("fft", "CUDA 12"): "nvidia-cufft-cu12 nvidia-cuda-nvcc-cu12",
}


def compile_check(source: str, vendor: str, folder: Path, *, own: Path = ROOT / "cpp") -> str:
    """The compiler's errors for a file of tests/headers; skips where a header is missing."""
    compiler = shutil.which("g++") or pytest.skip("needs g++")
    header = HEADERS[source][vendor]
    options = ["-std=c++20", "-fsyntax-only", "-x", "c++"]
    for place in PLACES[vendor]:
        options += [] if place == Path("/usr/include") else ["-isystem", str(place)]
    if vendor == "HIP":
        options += ["-DWEFT_HEADERS_OF_HIP", "-D__HIP_PLATFORM_AMD__=1"]
    probe = folder / "probe.cpp"
    probe.write_text(f"#include <{header}>\n")
    if subprocess.run([compiler, *options, str(probe)], capture_output=True).returncode != 0:
        package = PACKAGES.get((source, vendor), "the vendor's development packages")
        pytest.skip(f"{vendor} has no usable {header} here: install {package}")
    options += ["-I", str(own), "-I", str(ROOT / "cpp"), "-I", str(ROOT / "tests/headers")]
    done = subprocess.run(
        [compiler, *options, str(ROOT / f"tests/headers/{source}.cpp")], capture_output=True, text=True
    )
    return "" if done.returncode == 0 else done.stderr


@pytest.mark.parametrize("vendor", PLACES)
@pytest.mark.parametrize("source", HEADERS)
def test_declarations_agree_with_the_headers(source: str, vendor: str, tmp_path: Path) -> None:
    assert compile_check(source, vendor, tmp_path) == ""


@pytest.mark.parametrize(
    ("right", "wrong", "error"),
    [
        ("X(warp_size, 10,", "X(warp_size, 11,", "warp_size has another value"),
        ("cuMemGetInfo_v2", "cuMemGetInfo", "has another signature"),
        ("X(init, cuInit,", "X(init, cuInitialise,", "cuInitialise"),
    ],
)
def test_a_wrong_name_value_or_signature_is_found(right: str, wrong: str, error: str, tmp_path: Path) -> None:
    names = "weft/device/gpu_names.hpp"
    text = (ROOT / "cpp" / names).read_text()
    assert right in text
    changed = tmp_path / names
    changed.parent.mkdir(parents=True)
    changed.write_text(text.replace(right, wrong))
    assert error in compile_check("driver", "CUDA 13", tmp_path, own=tmp_path)
