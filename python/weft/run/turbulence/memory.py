"""The memory that a case of `weft run turbulence` needs, compared with what is available."""

from __future__ import annotations

import math

from mpi4py import MPI

from weft import mpi
from weft.cases.turbulence import TurbulenceCase
from weft.device import Device
from weft.run.memory import free_bytes
from weft.turbulence import kept_modes_x


def equation_9_bytes(points: int, ranks: int, batch: int, real_bytes: int) -> float:
    """Bytes per rank by GESTS, Eq. 9: (8 + 2 Q + 1/2) fields of N^3 / 2 complex numbers (single precision in the
    paper)."""
    return (8 + 2 * batch + 0.5) * points / (2 * ranks) * 2 * real_bytes


def predicted_bytes(case: TurbulenceCase, ranks: int, gpu: bool = False) -> float:
    """Bytes that a rank will need: Eq. 9 of GESTS for the modes that are kept, plus what Eq. 9 leaves out.

    A scalar takes one field and three work fields, and one more with a mean gradient. RK4 stores every field twice. One
    rank needs no message buffers. On a GPU the transforms hold all variables of a stage, both as modes and at points.
    predicted_bytes in cpp/weft/turbulence/solver.hpp is the same count.
    """
    scalars = len(case.scalars.schmidt)
    fields, work = 3 + scalars, 5 + 3 * scalars
    more = fields if case.time.scheme == "rk4" else 0
    more += scalars if any(case.scalars.gradient) else 0
    more += 2 * max(1, case.batch) if ranks > 1 else 0
    more += 2 * work if gpu else 0
    nx, ny, nz = case.points
    return (fields + work + more) * kept_modes_x(nx, case.dealiasing) * ny * nz / ranks * 2 * real_bytes(case)


def real_bytes(case: TurbulenceCase) -> int:
    """Bytes of a real number."""
    return 4 if case.precision == "single" else 8


def require_memory(case: TurbulenceCase, device: Device, comm: MPI.Intracomm) -> None:
    """Raises CollectiveError, before anything large is allocated, if the box does not fit into memory. (collective)"""
    need = predicted_bytes(case, comm.size, gpu=not device.is_host)
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    sharing = node.size if device.is_host else node.allgather(device.ordinal).count(device.ordinal)
    room = node.bcast(free_bytes(device)) if device.is_host else free_bytes(device)
    node.Free()
    room = comm.allreduce(room / sharing, MPI.MIN)
    if need <= room:
        return
    box = " x ".join(map(str, case.points))
    paper = equation_9_bytes(math.prod(case.points), comm.size, max(1, case.batch), real_bytes(case))
    raise mpi.CollectiveError(
        f"a box of {box} points in {case.precision} precision needs {need / 2**30:.1f} GiB per rank on {comm.size} "
        f"rank(s) (Eq. 9 of GESTS: {paper / 2**30:.1f}), but {room / 2**30:.1f} GiB per rank are "
        f"available: use more nodes, a smaller grid" + ("" if case.precision == "single" else ", or --precision single")
    )
