"""Energy that a run consumes, where the machine reports it: processors by RAPL, NVIDIA GPUs by NVML.

RAPL counters are files of Linux's powercap. They count whole packages, including other processes, and wrap around.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mpi4py import MPI

from weft.record import Energy

if TYPE_CHECKING:
    from weft.device import Device

POWERCAP = Path("/sys/class/powercap")


@dataclass
class _Counter:
    """A counter in joules that wraps around at ``range`` (0: never)."""

    name: str
    read: Callable[[], float]
    range: float
    last: float = 0.0
    total: float = 0.0

    def sample(self, first: bool = False) -> None:
        now = self.read()
        if not first:
            passed = now - self.last
            self.total += passed if passed >= 0 else passed + self.range
        self.last = now


def rapl_counters(root: Path = POWERCAP) -> tuple[list[_Counter], str]:
    """The package counters of this node, and the reason if there are none."""
    zones = sorted(z for z in root.glob("*-rapl:*") if z.name.count(":") == 1)
    counters = []
    for zone in zones:
        try:
            name = (zone / "name").read_text().strip()
            if name.startswith("psys"):  # the platform, packages included
                continue
            counter = _Counter(name, partial(_joules, zone / "energy_uj"), _joules(zone / "max_energy_range_uj"))
            counter.read()
            counters.append(counter)
        except PermissionError:
            return [], f"{zone}/energy_uj may only be read by the administrator (chmod a+r it)"
        except (OSError, ValueError) as error:
            return [], f"{zone} cannot be read: {error}"
    return counters, "" if counters else f"energy of processors is not available: {root} has no RAPL counters"


def _joules(path: Path) -> float:
    return int(path.read_text()) * 1e-6


def nvml_counter(device: Device) -> tuple[list[_Counter], str]:
    """The energy counter of an open CUDA device, or the reason why there is none."""
    if device.is_host:
        return [], ""
    if device.backend != "cuda":
        return [], f"weft reads no energy counters of {device.backend} devices"
    try:
        import pynvml
    except ImportError:
        return [], "the package nvidia-ml-py is not installed"
    try:
        pynvml.nvmlInit()
        visible = _visible(device.ordinal)
        by = pynvml.nvmlDeviceGetHandleByIndex if isinstance(visible, int) else pynvml.nvmlDeviceGetHandleByUUID
        handle = by(visible)
        pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except pynvml.NVMLError as error:
        return [], f"NVML: {error}"
    return [_Counter("GPU", lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) * 1e-3, 0.0)], ""


def _visible(ordinal: int) -> int | str:
    """NVML's index of a CUDA device: NVML counts all GPUs, CUDA only those in CUDA_VISIBLE_DEVICES (numbers or
    UUIDs)."""
    import os

    names = [n.strip() for n in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if n.strip()]
    if ordinal < len(names):
        return int(names[ordinal]) if names[ordinal].isdigit() else names[ordinal]
    return ordinal


@dataclass
class Meter:
    """Sums the energy of the nodes' processors and of the devices used, from ``start`` on. All methods are
    collective."""

    device: Device
    comm: MPI.Intracomm
    counters: list[_Counter] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Starts counting. One rank per node reads its packages; one of the ranks that use a GPU reads that GPU."""
        node = self.comm.Split_type(MPI.COMM_TYPE_SHARED)
        users = node.allgather((self.device.backend, self.device.ordinal))
        first_of_node, first_of_device = node.rank == 0, users.index(users[node.rank]) == node.rank
        node.Free()
        found = [rapl_counters()] if first_of_node else []
        found += [nvml_counter(self.device)] if first_of_device else []
        self.counters = [c for counters, _ in found for c in counters]
        self.reasons = [reason for _, reason in found if reason]
        self.sample(first=True)

    def sample(self, first: bool = False) -> None:
        """Reads the counters. Call it regularly: those of processors wrap around after some minutes."""
        for counter in self.counters:
            counter.sample(first)

    def stop(self) -> Energy:
        """Joules since ``start``, summed over all ranks, and the counters that could not be read, with the reason."""
        self.sample()
        mine: dict[str, float] = {}
        for counter in self.counters:
            kind = "gpus" if counter.name == "GPU" else "processors"
            mine[kind] = mine.get(kind, 0.0) + counter.total
        parts: dict[str, float] = {}
        for rank in self.comm.allgather(mine):
            for name, joules in rank.items():
                parts[name] = parts.get(name, 0.0) + joules
        reasons = list(dict.fromkeys(r for rank in self.comm.allgather(self.reasons) for r in rank))
        return {"joules": sum(parts.values()) if parts else None, "parts_joules": parts, "missing": reasons}
