"""The memory that a case of `weft run turbulence` needs, compared with what is available."""

from __future__ import annotations

import math

from mpi4py import MPI

from weft import _weft, mpi
from weft.cases.turbulence import TurbulenceCase
from weft.device import Device
from weft.turbulence import Scalar


def equation_9_bytes(points: int, ranks: int, batch: int, real_bytes: int) -> float:
    """Bytes per rank by GESTS, Eq. 9: (8 + 2 Q + 1/2) fields of N^3 / 2 complex numbers (single precision in the
    paper)."""
    return (8 + 2 * batch + 0.5) * points / (2 * ranks) * 2 * real_bytes


def predicted_bytes(case: TurbulenceCase, ranks: int, device: Device) -> int:
    """Bytes that a rank will need: Eq. 9 of GESTS for the modes that are kept, plus memory that Eq. 9 omits."""
    options = _weft.turbulence.Options(
        box=(case.points, case.lengths),
        scheme=case.time.scheme,
        dealiasing=case.dealiasing,
        scalars=[Scalar(schmidt, case.scalars.gradient) for schmidt in case.scalars.schmidt],
        batch=batch(case),
        device=device,
    )
    return _weft.turbulence.predicted_bytes(options, ranks, real_bytes(case))


def batch(case: TurbulenceCase) -> int:
    """Variables per message; the smallest possible number if it has yet to be chosen."""
    return case.batch if isinstance(case.batch, int) else 1


def real_bytes(case: TurbulenceCase) -> int:
    """Bytes of a real number."""
    return 4 if case.precision == "single" else 8


def require_memory(case: TurbulenceCase, device: Device, comm: MPI.Intracomm) -> None:
    """Raises CollectiveError, before anything large is allocated, if the box does not fit into memory. (collective)"""
    need = mpi.together(comm, lambda: predicted_bytes(case, comm.size, device))  # asks the FFT library of a GPU
    room = mpi.free_bytes_per_rank(device, comm)
    if need <= room:
        return
    box = " x ".join(map(str, case.points))
    paper = equation_9_bytes(math.prod(case.points), comm.size, batch(case), real_bytes(case))
    raise mpi.CollectiveError(
        f"a box of {box} points in {case.precision} precision needs {need / 2**30:.1f} GiB per rank on {comm.size} "
        f"rank(s) (Eq. 9 of GESTS: {paper / 2**30:.1f}), but {room / 2**30:.1f} GiB per rank are "
        f"free: use more nodes, a smaller grid" + ("" if case.precision == "single" else ", or --precision single")
    )
