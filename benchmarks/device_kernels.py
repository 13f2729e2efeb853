"""Compiles the kernels that weft launches for a GPU of another machine, into the cache folder WEFT_CACHE.

    WEFT_CACHE=folder python benchmarks/device_kernels.py [ARCHITECTURE]      default: sm_90

`benchmarks/device.sh pack` calls it. An entry of the cache can be used on a machine whose NVRTC has the same version.
To compile with another NVRTC than the installed one, set WEFT_NVRTC to its folder.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from weft import _weft, device

Unit = tuple[str, str, tuple[tuple[str, str], ...]]


def units() -> list[Unit]:
    """One kernel of each compilation: file, kernel, constants. Kernels with an order are compiled alone.

    For kernels that use the order only in index arithmetic, the list of launched kernels has a few orders. A run on the
    other machine compiles any others with its own NVRTC.
    """
    found: dict[object, Unit] = {}
    for file, name, defines, _ in _weft.device.launched_kernels():
        constants = tuple(sorted(defines.items()))
        found[file, constants, name if "WEFT_N" in defines else ""] = (file, name, constants)
    return list(found.values())


def compiled(unit: Unit, architecture: str) -> None:
    """Compiles one unit; the cache keeps it."""
    file, name, constants = unit
    device.compile_check(file, name, dict(constants), architecture)


def main() -> None:
    architecture = sys.argv[1] if len(sys.argv) > 1 else "sm_90"
    compiler = device.info()["compilers"]["nvrtc"]
    if not compiler["available"]:
        sys.exit(compiler["reason"])
    wanted = units()
    # New processes: the MPI of this one does not survive a fork.
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(compiled, unit, architecture) for unit in wanted]:
            done.result()
    print(f"{len(wanted)} compilations for {architecture} by {compiler['reason']} in {device.info()['kernel_cache']}")


if __name__ == "__main__":
    main()
