"""weft runs, measures and projects high-order and spectral PDE simulations on clusters of GPUs and CPUs.

The names below are imported on first use, so that `import weft` needs neither MPI nor a GPU.
"""

from __future__ import annotations

import importlib
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


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"weft.{name}")
    raise AttributeError(f"module 'weft' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
