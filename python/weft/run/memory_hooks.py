"""Turns off the memory hooks of UCX on nodes without RDMA devices, which alone need them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

MODE = "UCX_MEM_MMAP_HOOK_MODE"
RDMA_DEVICES = Path("/sys/class/infiniband")

_chosen_here = False  # whether skip_hooks() set the variable, rather than the user


def skip_hooks() -> None:
    """Tells UCX, the transport below MPICH and Open MPI, to install no hooks if the node has no RDMA device.

    The hooks patch munmap and its like, so that UCX notices when memory that such a device has registered is unmapped.
    Installing them takes each process 40 ms, as UCX waits until no other thread can be in a function that it patches.
    Must be called before the MPI library is loaded.
    """
    global _chosen_here
    if MODE not in os.environ and not any(RDMA_DEVICES.glob("*")):
        _chosen_here = True
        os.environ[MODE] = "none"


def for_other_nodes() -> Mapping[str, str]:
    """The environment for programs that may run on other nodes, which may have RDMA devices."""
    return {name: value for name, value in os.environ.items() if not (_chosen_here and name == MODE)}
