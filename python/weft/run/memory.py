"""A lower bound on the memory of a case on spectral elements, compared with the available memory."""

from __future__ import annotations

from mpi4py import MPI

import weft
from weft import mpi
from weft.cases.shared import ElementCase

MESH_BYTES = 440  # per element with straight edges, on the host: numbers, corners, conditions (cpp/weft/mesh/mesh.hpp)


def real_bytes(case: ElementCase) -> int:
    """Bytes of a real number of the fields."""
    return 4 if case.precision == "single" else 8


def dofs(case: ElementCase, elements: int) -> int:
    """A lower bound on the degrees of freedom: their number on a periodic mesh."""
    return elements * case.order**3


def points(case: ElementCase, elements: int) -> int:
    """Element-local points n = E (N + 1)^3."""
    return elements * (case.order + 1) ** 3


def require_memory(case: ElementCase, elements: int, array_bytes: int, comm: MPI.Intracomm) -> None:
    """Raises CollectiveError, before anything large is allocated, if a case does not fit into memory. (collective)

    ``array_bytes``: a lower bound on the memory of the solver's arrays on all ranks. They are on the device of the
    case; the mesh is on the host.
    """
    device = weft.device.open(case.device)
    host = weft.device.open("host")
    mesh_bytes = elements * MESH_BYTES
    needs = [(host, mesh_bytes + array_bytes)] if device.is_host else [(host, mesh_bytes), (device, array_bytes)]
    for place, total in needs:
        need, room = total / comm.size, mpi.free_bytes_per_rank(place, comm)
        if need > room:
            single = "" if case.precision == "single" or place is not device else ", or --precision single"
            raise mpi.CollectiveError(
                f"a mesh of {elements:,} elements of order {case.order} needs at least {need / 2**30:,.1f} GiB per "
                f"rank on {comm.size} rank(s), but {room / 2**30:.1f} GiB per rank are free: use more nodes, fewer "
                f"elements, a lower order{single}"
            )
