"""What solvers in time on the spectral elements of a mesh have in common for their users: sizes and types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weft.arrays import DType

if TYPE_CHECKING:
    from mpi4py import MPI

    from weft.mesh import Mesh

TYPES = {"double": np.float64, "single": np.float32}


class SolverOnElements:
    """Of a ``mesh``, an ``order`` N and a ``precision``, which the solver sets."""

    mesh: Mesh
    order: int
    precision: str

    @property
    def comm(self) -> MPI.Intracomm:
        """The mpi4py communicator of the mesh."""
        return self.mesh.comm

    @property
    def dtype(self) -> DType:
        """Of the fields: float64 or float32, as ``precision`` says."""
        return np.dtype(TYPES[self.precision])

    @property
    def elements(self) -> int:
        """E, of all ranks."""
        return int(self.mesh.global_elements)

    @property
    def points(self) -> int:
        """n = E (N + 1)^3, of all ranks."""
        return self.elements * (self.order + 1) ** 3
