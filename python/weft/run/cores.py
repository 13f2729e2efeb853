"""Divides the cores of a node among its ranks and their threads, and warns if the binding of ranks prevents this."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from weft.errors import tell

if TYPE_CHECKING:
    from mpi4py import MPI

Cores = AbstractSet[int]

_divided_here = False  # whether share_cores() set OMP_NUM_THREADS, rather than the user


def from_launcher(*names: str) -> int:
    """The number at the beginning of the first of these variables that is set, else 1.

    Slurm writes 4(x2) for 4 twice.
    """
    found = (re.match(r"\d+", os.environ.get(name, "")) for name in names)
    return next((int(number[0]) for number in found if number), 1)


def own_cores() -> Cores:
    """The processors that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def share_cores() -> None:
    """Divides the cores of a node among its ranks, unless OMP_NUM_THREADS is set: OpenMP would give all to each rank.

    Must be called before the C++ core is loaded, because OpenMP reads its variables then. The masks of other ranks are
    not known yet: settle_threads() corrects the number where only a part of a node is shared.
    """
    global _divided_here
    cores = len(own_cores())
    if cores == os.cpu_count():
        cores //= from_launcher("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE")
    _divided_here = "OMP_NUM_THREADS" not in os.environ
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores)))
    # OpenBLAS, which NumPy and SciPy load, would start as many threads of its own, which wait for work by spinning on
    # the cores that weft's threads need; weft's large arrays never go through it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def sharers(masks: Sequence[Cores], rank: int) -> tuple[list[int], Cores]:
    """The ranks whose cores overlap with those of `rank`, directly or through other ranks, and all their cores."""
    ranks, union = {rank}, set(masks[rank])
    while new := {r for r, mask in enumerate(masks) if r not in ranks and union & mask}:
        ranks |= new
        union.update(*(masks[r] for r in new))
    return sorted(ranks), union


def fair_threads(masks: Sequence[Cores], rank: int) -> int:
    """The number of threads (at least one) for `rank` so that all ranks that share its cores have a core per thread."""
    ranks, union = sharers(masks, rank)
    return max(1, min(len(masks[rank]), len(union) // len(ranks)))


def binding_warning(masks: Sequence[Cores], threads: Sequence[int], processors: int, host: str) -> str:
    """A warning if ranks of a node may use fewer cores than they have threads although the node has more.

    Else empty.
    """
    for rank in range(len(masks)):
        ranks, union = sharers(masks, rank)
        total = sum(threads[r] for r in ranks)
        if len(union) >= min(total, processors):
            continue
        each = max(threads[r] for r in ranks)
        who = f"{len(ranks)} ranks with {total} threads in all" if len(ranks) > 1 else f"a rank with {total} threads"
        return (
            f"{who} may use only {len(union)} of the {processors} processors of {host}: give each rank {each} of its "
            f"own (mpiexec -bind-to core:{each}; mpirun --map-by slot:PE={each} --bind-to core; srun "
            f"--cpus-per-task={each} --cpu-bind=cores), or set OMP_NUM_THREADS"
        )
    return ""


def settle_threads(comm: MPI.Intracomm) -> None:
    """Corrects the number of threads that share_cores() chose, now that the cores of all ranks of the node are known,
    and warns, once for all nodes, where more threads than cores are bound together. (collective)
    """
    from mpi4py import MPI

    from weft import _weft

    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    masks = node.allgather(own_cores())
    if _divided_here:
        _weft.device.use_threads(fair_threads(masks, node.rank))
    threads = node.allgather(_weft.device.threads())
    warning = binding_warning(masks, threads, os.cpu_count() or 1, MPI.Get_processor_name())
    node.Free()
    first = next(filter(None, comm.allgather(warning)), "")
    if first and comm.rank == 0:
        tell(f"weft: {first}")
