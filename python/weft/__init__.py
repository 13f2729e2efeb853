"""weft runs, measures and projects high-order and spectral PDE simulations on clusters of GPUs and CPUs.

The names below are imported on first use, so that `import weft` needs neither MPI nor a GPU.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft import device, exchange, fft, flow, maxwell, mesh, poisson, trace, turbulence  # noqa: F401
    from weft.exchange import GatherScatter
    from weft.mesh import Mesh
    from weft.poisson import Poisson

__version__ = "0.1.0"
__all__ = ["GatherScatter", "Mesh", "Poisson", "__version__"]

_HOMES = {"GatherScatter": "weft.exchange", "Mesh": "weft.mesh", "Poisson": "weft.poisson"}
_MODULES = {"device", "exchange", "fft", "flow", "maxwell", "mesh", "poisson", "trace", "turbulence"}
_PROCESSORS = Path("/proc/cpuinfo")


def _extension_for_avx512() -> list[str]:
    """The folder of the extension for AVX-512, if this is a wheel that holds one (`make wheel`) and the processor has
    these instructions. `WEFT_AVX512=off` selects the extension for AVX2, which is in the package's own folder."""
    folder = Path(__file__).with_name("avx512")
    if not folder.is_dir() or os.environ.get("WEFT_AVX512") == "off":
        return []
    with _PROCESSORS.open() as lines:
        flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return [str(folder)] if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= set(flags) else []


__path__[:0] = _extension_for_avx512()


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"weft.{name}")
    raise AttributeError(f"module 'weft' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
