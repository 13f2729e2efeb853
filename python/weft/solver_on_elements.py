"""What solvers in time on the spectral elements of a mesh have in common for their users: sizes and types."""

from __future__ import annotations

from typing import Any

import numpy as np

TYPES = {"double": np.float64, "single": np.float32}


class SolverOnElements:
    """Of a ``mesh``, an ``order`` N and a ``precision``, which the solver sets."""

    mesh: Any
    order: int
    precision: str

    @property
    def comm(self) -> Any:
        """The mpi4py communicator of the mesh."""
        return self.mesh.comm

    @property
    def dtype(self) -> np.dtype[Any]:
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
