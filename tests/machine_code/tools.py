"""Prints the files of NVRTC and of nvdisasm, separated by a semicolon, or one line that says which is missing."""

from __future__ import annotations

import sys
from pathlib import Path


def find(pattern: str) -> Path | None:
    """The newest file of NVIDIA's packages that matches."""
    found = [path for folder in sys.path for path in Path(folder).glob(f"nvidia/{pattern}")]
    return max(found, default=None)


nvrtc = find("*/lib/libnvrtc.so.*[0-9]")
nvdisasm = find("*/bin/nvdisasm")
if nvrtc and nvdisasm:
    print(nvrtc, nvdisasm, sep=";")
else:
    missing = "nvidia-cuda-nvdisasm" if nvrtc else "nvidia-cuda-nvrtc"
    print(f"the Python package {missing} is not installed")
