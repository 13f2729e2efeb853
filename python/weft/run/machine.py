"""The machine of a run: versions, processor, device, MPI, and measured rates."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypedDict

import mpi4py
import numpy as np
from mpi4py import MPI

import weft
from weft.device import Device
from weft.format import rate
from weft.model.processors import microarchitecture
from weft.record import Caches, Machine, Versions
from weft.run.cores import settle_threads
from weft.run.launch import processor_name


class Place(TypedDict):
    """The place of a rank on the machine."""

    rank: int
    node: int
    host: str
    cores: str
    device: str


class Rates(TypedDict):
    """The measured limits of a machine."""

    bandwidth_bytes_per_second: float
    peak_flops_per_second: float


def versions(transforms_on: Device | None = None) -> Versions:
    """Versions of weft and the libraries used. ``transforms_on``: the device of Fourier transforms, if there are
    any."""
    from weft import mpi

    found = Versions(
        weft=weft.__version__,
        python=platform.python_version(),
        numpy=np.__version__,
        mpi=mpi.library_version(),
        mpi4py=mpi4py.__version__,
    )
    if transforms_on is not None:
        from weft import fft

        found["fft"] = ", ".join(f"{one['name']} {one['version']}" for one in fft.libraries(transforms_on.backend))
    return found


def machine(device: Device, comm: MPI.Intracomm) -> Machine:
    """The machine that a run used. (collective)"""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    ranks_per_node = comm.allreduce(node.size, MPI.MAX)
    node.Free()
    return {
        "processor": processor_name(),
        "microarchitecture": microarchitecture(),
        "processors": len(os.sched_getaffinity(0)),
        "node_processors": os.cpu_count() or 1,
        "caches": last_level_caches(),
        "system": f"{platform.system()} {platform.release()}",
        "ranks": comm.size,
        "ranks_per_node": ranks_per_node,
        "threads_per_rank": weft.device.open("host").multiprocessors,
        "device": {
            "backend": device.backend,
            "name": device.name,
            "architecture": device.architecture,
            "multiprocessors": device.multiprocessors,
            "memory_bytes": device.memory_bytes,
        },
    }


def last_level_caches(processors: Path = Path("/sys/devices/system/cpu")) -> Caches:
    """The last-level caches of this node; their number is 0 if the system does not report them."""
    found = {}
    for folder in processors.glob("cpu[0-9]*/cache"):
        last = max(folder.glob("index[0-9]*"), key=lambda index: int(index.name.removeprefix("index")), default=None)
        with contextlib.suppress(OSError, ValueError):
            if last is not None:
                size = (last / "size").read_text().strip().removesuffix("K")
                found[(last / "shared_cpu_list").read_text()] = int(size) << 10
    return {"count": len(found), "bytes": max(found.values(), default=0)}


def spans(numbers: Iterable[int]) -> str:
    """{0, 1, 2, 5} -> '0-2,5'."""
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def nodes(comm: MPI.Intracomm) -> list[int]:
    """The node number of each rank; nodes are numbered from 0 in the order of their lowest ranks. (collective)

    As in the exchange layer, WEFT_RANKS_PER_NODE=k splits every node into virtual nodes of k ranks.
    """
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    ranks = node.allgather(comm.rank)
    pretended = int(
        os.environ.get("WEFT_RANKS_PER_NODE", "") or node.size
    )  # the exchange layer has already checked the value
    first = comm.allgather(ranks[node.rank // pretended * pretended])
    node.Free()
    order = sorted(set(first))
    return [order.index(f) for f in first]


def placement(device: Device, comm: MPI.Intracomm) -> list[Place]:
    """The node, allowed cores and device of each rank. (collective)"""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    name = "host" if device.is_host else f"{device.backend}:{device.ordinal} {device.name}"
    node = nodes(comm)[comm.rank]
    mine = Place(rank=comm.rank, node=node, host=MPI.Get_processor_name(), cores=spans(cores), device=name)
    return comm.allgather(mine)


def crowd_warning(comm: MPI.Intracomm) -> str:
    """A warning about timings if a node has more ranks than processors available to them; else empty. (collective)"""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    shared = len(set().union(*node.allgather(set(cores))))
    ranks, processors = comm.allreduce((node.size, shared) if node.size > shared else (0, 0), MPI.MAX)
    node.Free()
    if ranks == 0:
        return ""
    return f"{ranks} ranks share {processors} processors of a node: timings include waiting for a processor"


def placement_rows(records: Sequence[Place]) -> list[tuple[str, str]]:
    """The placement of the ranks, with ranks that are placed alike on one line."""
    alike: dict[str, list[int]] = {}
    for r in records:
        words = f"node {r['node']} ({r['host']}), cores {r['cores']}, device {r['device']}"
        alike.setdefault(words, []).append(r["rank"])
    return [(f"rank {spans(ranks)}" if len(ranks) == 1 else f"ranks {spans(ranks)}", t) for t, ranks in alike.items()]


def rates(device: Device, precision: str, comm: MPI.Intracomm) -> Rates:
    """Streaming bandwidth (8 reads : 1 write) and FMA peak, summed over ranks that measure at once. (collective)"""
    comm.Barrier()
    bandwidth = weft.device.measure_bandwidth(device)
    comm.Barrier()
    peak = weft.device.measure_peak(device, precision)
    return {
        "bandwidth_bytes_per_second": comm.allreduce(bandwidth, MPI.SUM),
        "peak_flops_per_second": comm.allreduce(peak, MPI.SUM),
    }


MEASURING = "machine: measuring bandwidth and peak"
LARGEST_BANDWIDTH_BYTES = 1 << 30  # on the host, unless WEFT_BANDWIDTH_BYTES asks for another number


def rates_beside(device: Device, precision: str, comm: MPI.Intracomm, announce: Callable[[str], None]) -> Rates | None:
    """The rates of a host whose memory holds the fields of a finished run, which must not fail now: None for a GPU,
    where less than twice the memory of the measurement is free, and for a wrong WEFT_BANDWIDTH_BYTES. `announce` is
    called only before a measurement. (collective)"""
    from weft import mpi

    try:
        size = weft.device.asked_bandwidth_bytes() or LARGEST_BANDWIDTH_BYTES
    except ValueError:
        size = 0
    usable = comm.allreduce(size > 0 and device.is_host, MPI.LAND)
    if not usable or mpi.free_bytes_per_rank(device, comm) < comm.allreduce(2 * size, MPI.MAX):
        return None
    announce(MEASURING)
    return rates(device, precision, comm)


def describe(comm: MPI.Intracomm, measure: bool) -> list[tuple[str, str]]:
    """The lines of `weft info`. (collective)"""
    settle_threads(comm)
    found = weft.device.info()
    host = found["host"]
    rows = [("weft", ", ".join(f"{name} {value}" for name, value in versions().items()))]
    rows.append(("host", f"{host['processor']}, {host['vector_set']}, {host['memory_bytes'] / 2**30:.0f} GiB"))
    rows.append(("threads", f"{host['threads']} per rank (OMP_NUM_THREADS), {host['processors']} processors to run on"))
    rows += [
        (f"backend {name}", f"{'found' if b['available'] else 'absent'}: {b['reason']}")
        for name, b in found["backends"].items()
    ]
    rows += [
        (f"compiler {name}", f"{'found' if c['available'] else 'absent'}: {c['reason']}")
        for name, c in found["compilers"].items()
    ]
    rows.append(("kernel cache", found["kernel_cache"] or "none"))
    device = weft.device.open("auto")
    for backend in ["host", *([] if device.is_host else [device.backend])]:
        for library in weft.fft.libraries(backend):
            there = f"found: {library['name']} {library['version']}  {library['path']}".rstrip()
            rows.append((f"{backend} transforms", f"absent: {library['problem']}" if library["problem"] else there))
    from weft import mpi

    rows.append(("MPI", f"{mpi.library_version()}, {comm.size} rank(s)"))
    if device.is_host:
        rows.append(("GPU-aware", "not checked: there is no GPU"))
    else:
        aware = mpi.gpu_aware(device)
        rows.append(("GPU-aware", f"{'yes' if aware.usable else 'no'}: {aware.reason}"))
    for where in [weft.device.open("host"), *([] if device.is_host else [device])]:
        rows += [
            (f"{where.backend} exchange {path}", f"{'works' if usable else 'does not work'}: {reason}")
            for path, usable, reason in weft.exchange.paths(where, comm)
        ]
    if measure:
        for candidate in [weft.device.open("host"), *([] if device.is_host else [device])]:
            for precision in ("double", "single"):
                measured = rates(candidate, precision, comm)
                if precision == "double":
                    bandwidth = rate(measured["bandwidth_bytes_per_second"], "B/s")
                    rows.append(
                        (f"{candidate.backend} bandwidth", f"{bandwidth}, 8 reads : 1 write, all ranks at once")
                    )
                peak = rate(measured["peak_flops_per_second"], "FLOP/s")
                rows.append((f"{candidate.backend} FMA peak", f"{peak}, {precision}, all ranks at once"))
    return rows
