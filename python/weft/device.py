"""Devices: the backends found on this machine, their memory and kernels, and their measured limits.

A backend is ``host``, ``cuda`` or ``hip``. Their drivers and compilers are opened at run time; :func:`info` says why a
backend is absent. If the loader does not find NVRTC or hipRTC, set ``WEFT_NVRTC`` or ``WEFT_HIPRTC`` to its folder;
NVRTC from PyPI (``pip install nvidia-cuda-nvrtc``) is found automatically. ``WEFT_CACHE`` is the folder of compiled
kernels (``off``: no cache).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypedDict

from weft import _weft, cuda_wheels

__all__ = ["Array", "Device", "Event", "Graph", "Kernel", "Stream", "compile_check", "info", "measure_bandwidth"]
__all__ += ["measure_copies", "measure_irregular_read", "measure_peak", "open"]

cuda_wheels.announce("WEFT_NVRTC", "libnvrtc")

Device = _weft.device.Device
Array = _weft.device.Array
Stream = _weft.device.Stream
Event = _weft.device.Event
Kernel = _weft.device.Kernel
Graph = _weft.device.Graph


def open(which: str = "auto", ordinal: int = -1) -> Device:
    """Open a device: ``auto`` (cuda, else hip, else host), ``host``, ``cuda`` or ``hip``.

    ``ordinal`` selects the GPU; -1: the rank within the node modulo the number of GPUs. Raises ``ValueError`` for an
    unknown name, and ``RuntimeError`` with the reason if the backend is absent.
    """
    return _weft.device.open(which, ordinal)


class Found(TypedDict):
    """Whether a library was found, and which one, or why not."""

    available: bool
    reason: str


class Host(TypedDict):
    """The processors of this machine, as `info` describes them."""

    processor: str
    vector_set: str
    threads: int
    processors: int
    memory_bytes: int


class Info(TypedDict):
    """The result of `info`."""

    backends: dict[str, Found]
    compilers: dict[str, Found]
    host: Host
    kernel_cache: str


def info() -> Info:
    """Describe what was found on this machine.

    ``backends``: per backend ``available`` and ``reason`` (the device's name, or why not); ``compilers``: the same for
    NVRTC and hipRTC; ``host``: ``processor``, the ``vector_set`` that the code is compiled for, ``threads`` of OpenMP
    in this process, ``processors`` that it may use, ``memory_bytes``; ``kernel_cache``: the folder, empty if there is
    none.
    """
    host = open("host")
    return {
        "backends": {name: {"available": there, "reason": why} for name, there, why in _weft.device.available()},
        "compilers": {
            name: {"available": there, "reason": why}
            for name, backend in (("nvrtc", "cuda"), ("hiprtc", "hip"))
            for there, why in [_weft.device.compiler(backend)]
        },
        "host": {
            "processor": host.name,
            "vector_set": host.architecture,
            "threads": host.multiprocessors,
            "processors": len(os.sched_getaffinity(0)),
            "memory_bytes": host.memory_bytes,
        },
        "kernel_cache": _weft.device.cache_directory(),
    }


def measure_bandwidth(device: Device, size: int = 0) -> float:
    """Bandwidth of hipBone's streaming kernel in bytes per second: reads and writes, 8 words read per word written.

    Moves ``size`` bytes per run (0: WEFT_BANDWIDTH_BYTES, or else enough to defeat the caches, up to 1 GiB on the host
    and 2 GiB on a GPU) and returns the best of ten runs; on the host it stops once three agree to 2 %. On the host all
    OpenMP threads of this process take part. Ranks that share a memory should measure at the same time and add their
    results. Source: Chalmers et al., "hipBone", section 4.
    """
    return float(_weft.device.measure_bandwidth(device, size or asked_bandwidth_bytes()))


def asked_bandwidth_bytes() -> int:
    """The value of WEFT_BANDWIDTH_BYTES; 0 if it is not set. Raises ValueError if it is no number of bytes."""
    asked = os.environ.get("WEFT_BANDWIDTH_BYTES", "")
    if asked and not asked.isdecimal():
        raise ValueError(f"WEFT_BANDWIDTH_BYTES is '{asked}'; allowed: a number of bytes")
    return int(asked or 0)


def measure_irregular_read(device: Device, size: int = 0) -> float:
    """Seconds per random read of a 128-byte line while the whole device makes such reads, by chasing pointers.

    The reads go to ``size`` bytes (0: enough to defeat the caches). The result is the time of a run divided by the
    reads of all threads, best of ten runs: ``t_irreg`` in Eq. 8 of the GPU integration report.
    """
    return float(_weft.device.measure_irregular_read(device, size))


def measure_copies(device: Device, size: int = 0) -> tuple[float, float]:
    """Bytes per second of copies of ``size`` bytes (0: 64 MiB) from the host to the device, and back; best of ten
    runs."""
    there, back = _weft.device.measure_copies(device, size)
    return float(there), float(back)


def measure_peak(device: Device, precision: str = "double") -> float:
    """Flops per second of fused multiply-adds on registers, two flops each; best of up to ten runs.

    ``precision`` is ``double`` or ``single``.
    """
    return float(_weft.device.measure_peak(device, precision))


def compile_check(
    file: str, name: str, defines: Mapping[str, object], architecture: str, text: str | None = None
) -> dict[str, int]:
    """Compile a kernel without a device and return the resources it needs.

    ``architecture`` selects the compiler: NVRTC for names like ``sm_90``, hipRTC for names like ``gfx90a``. The result
    has ``registers``, ``stack_bytes``, ``spill_bytes`` and ``shared_bytes``. ``text`` replaces the library's source of
    ``kernels/{file}.hpp``. Raises ``RuntimeError`` with the compiler's log.
    """
    constants = {key: str(value) for key, value in defines.items()}
    return dict(_weft.device.compile_check(file, [name], constants, architecture, text or "")[0])
