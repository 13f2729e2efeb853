"""How much memory is still available."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.device import Device

GROUP = Path("/sys/fs/cgroup")  # of this process's container


def free_host_bytes() -> int:
    """Bytes of host memory still available to the processes of this node, within the limit of their container."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        pass  # no estimate of memory that could be freed
    try:
        limit = (GROUP / "memory.max").read_text().strip()
        if limit != "max":
            stat = dict(line.split() for line in (GROUP / "memory.stat").read_text().splitlines())
            used = int((GROUP / "memory.current").read_text()) - int(
                stat.get("file", 0)
            )  # the page cache can be dropped
            free = min(free, max(0, int(limit) - used))
    except (OSError, ValueError):
        pass  # no such limit
    return free


def free_bytes(device: Device) -> int:
    """Bytes still available in the memory that ``device`` uses: of the host, or all memory of a GPU."""
    return free_host_bytes() if device.is_host else int(device.memory_bytes)
