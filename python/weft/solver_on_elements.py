"""What solvers in time on the spectral elements of a mesh have in common for their users: sizes, types, checkpoints."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.arrays import DType

if TYPE_CHECKING:
    from mpi4py import MPI

    from weft.mesh import Mesh

TYPES = {"double": np.float64, "single": np.float32}


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint on disk says: of the newest, if ``path`` was a folder of several."""

    path: str
    bytes: int
    order: int
    precision: str
    elements: int
    step: int
    time: float
    fields: dict[str, int]  # components by name
    text: str  # what `SolverOnElements.save` was given


class SolverOnElements:
    """Of a ``mesh``, an ``order`` N and a ``precision``, which the solver sets."""

    _core: Any
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

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str], *, keep: int = 2, text: str = "") -> str:
        """Write ``folder/checkpoint-<step>`` and return its path. (collective)

        It has this name when it is whole; the ``keep`` newest stay. ``text`` is for people. This run, going on, and one
        that starts from the checkpoint on the same ranks are the same bit for bit. ``weft.mpi.CollectiveError`` where
        it cannot be written; what was there before stays.
        """
        return str(self._core.save(os.fspath(folder), text, operator.index(keep)))

    def restore(self, path: str | os.PathLike[str]) -> Checkpoint:
        """Go on from a checkpoint, or from the newest in a folder of checkpoints. (collective)

        Any number of ranks and either precision read it; from one of another order the fields are interpolated.
        ``weft.mpi.CollectiveError`` for what is absent, truncated or damaged, and for another mesh or other fields; the
        solver's fields are then undefined.
        """
        return Checkpoint(**self._core.restore(os.fspath(path)))
