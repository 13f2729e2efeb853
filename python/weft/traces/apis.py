"""What a call into a device's runtime, or a piece of device work, is, told by its name."""

from __future__ import annotations

import re

from weft.traces.table import Category

_SUFFIX = re.compile(r"(_v\d+)?(_ptsz|_ptds)?$")  # of the version and of the default stream: cudaMalloc_v3020
_WAIT = re.compile(r"Synchronize|hsa_signal_wait|hsaKmtWait")
_BLOCKING_COPY = re.compile(r"(cuda|cu|hip)Memcpy(?!.*Async)")
_COLLECTIVE = re.compile(r"(nccl|rccl)", re.IGNORECASE)


def plain(name: str) -> str:
    """The name of a call as its documentation has it."""
    return _SUFFIX.sub("", name)


def call(name: str) -> Category:
    """A call of the host: one that waits for the device, a copy that blocks, or anything else (`launch`)."""
    if _WAIT.search(name):
        return Category.sync
    return Category.copy if _BLOCKING_COPY.match(name) else Category.launch


def kernel(name: str) -> Category:
    """A kernel: those of NCCL and RCCL communicate between processes, all others compute."""
    return Category.mpi if _COLLECTIVE.match(name) else Category.gpu


def copy(between_host_and_device: bool) -> Category:
    """A copy on a stream: Eq. 3's t_CGdata is what crosses between host and device; the rest is the device's work."""
    return Category.copy if between_host_and_device else Category.gpu
