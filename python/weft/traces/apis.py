"""Categories of runtime calls and device work, derived from their names."""

from __future__ import annotations

import re

from weft.traces.table import Category

_SUFFIX = re.compile(r"(_v\d+)?(_ptsz|_ptds)?$")  # version and default stream, as in cudaMalloc_v3020
_WAIT = re.compile(r"Synchronize|hsa_signal_wait|hsaKmtWait")
_BLOCKING_COPY = re.compile(r"(cuda|cu|hip)Memcpy(?!.*Async)")
_COLLECTIVE = re.compile(r"(nccl|rccl)", re.IGNORECASE)
_OPERATION = re.compile(
    r"(?:(?:nccl|rccl|gloo)[:_ ]?)?_?(?:dev)?(?:kernel)?_?"
    r"(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|reduce|gather|scatter|barrier|send_?recv|send|recv)",
    re.IGNORECASE,
)
_PLACE = "H|D|P|A|host|device|peer|array"
_COPIED = re.compile(
    rf"\[?(?:CUDA )?(?:memcpy|memory_?copy|copy)[ _]*(UVM )?({_PLACE})_?(?:to|2)_?({_PLACE})(?![a-z])", re.IGNORECASE
)
_SET = re.compile(r"\[?(?:CUDA )?memset\b", re.IGNORECASE)


def plain(name: str) -> str:
    """The documented name of a call, without version suffixes."""
    return _SUFFIX.sub("", name)


def call(name: str) -> Category:
    """The category of a host call: a wait for the device, a blocking copy, or any other call (`launch`)."""
    if _WAIT.search(name):
        return Category.sync
    return Category.copy if _BLOCKING_COPY.match(name) else Category.launch


def kernel(name: str) -> Category:
    """The category of a kernel: kernels of NCCL and RCCL communicate between processes, all others compute."""
    return Category.mpi if _COLLECTIVE.match(name) else Category.gpu


def collective(name: str) -> str:
    """The operation of a kernel or call of NCCL or RCCL, or of PyTorch's name for one: 'allreduce', ...; or ''.

    'sendrecv' is any exchange of messages, because the name of the kernel does not say more.
    """
    found = _OPERATION.match(name)
    operation = found[1].lower().replace("_", "") if found else ""
    return "bcast" if operation == "broadcast" else operation


def copy(between_host_and_device: bool) -> Category:
    """The category of a copy on a stream: copies between host and device count as t_CGdata (Eq. 3), others as t_GPU."""
    return Category.copy if between_host_and_device else Category.gpu


def copied(name: str) -> str:
    """The kind of a copy or memset on a stream, whichever tool named it: 'host to device', 'memset', ...; or ''."""
    if _SET.match(name):
        return "memset"
    if (found := _COPIED.match(name)) is None:
        return ""
    places = {"h": "host", "d": "device", "p": "peer", "a": "array"}
    there = " to ".join(places[found[k][0].lower()] for k in (2, 3))
    return f"{there}, unified memory" if found[1] else there
