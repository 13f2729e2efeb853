"""How much memory processes may still take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

GROUP = Path("/sys/fs/cgroup")  # of this process's container


def free_host_bytes() -> int:
    """Bytes of host memory that processes of this node may still take, within the limit of their container."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        pass  # a system that does not say what it could free
    try:
        limit = (GROUP / "memory.max").read_text().strip()
        if limit != "max":
            stat = dict(line.split() for line in (GROUP / "memory.stat").read_text().splitlines())
            used = int((GROUP / "memory.current").read_text()) - int(stat.get("file", 0))  # files can be dropped
            free = min(free, max(0, int(limit) - used))
    except (OSError, ValueError):
        pass  # no such limit
    return free


def free_bytes(device: Any) -> int:
    """Bytes that processes may still take of the memory that ``device`` uses: the host's, or all that a GPU has."""
    return free_host_bytes() if device.is_host else int(device.memory_bytes)
