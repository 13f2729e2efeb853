"""The common part of time-dependent solvers on spectral elements: sizes, types and checkpoints."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from weft.arrays import DType

if TYPE_CHECKING:
    from mpi4py import MPI

    from weft.mesh import Mesh

TYPES = {"double": np.float64, "single": np.float32}


@dataclass(frozen=True)
class Checkpoint:
    """The description of a checkpoint on disk; of the newest, if ``path`` was a folder of several."""

    path: str
    bytes: int
    order: int
    precision: str
    elements: int
    step: int
    time: float
    fields: dict[str, int]  # components by name
    text: str  # the text that was passed to `SolverOnElements.save`


class _Core(Protocol):
    """The solver of the extension."""

    def save(self, folder: str, text: str, keep: int, /) -> str: ...
    def restore(self, path: str, /) -> dict[str, Any]: ...


class SolverOnElements:
    """Base of such solvers, which set ``mesh``, ``order`` (N) and ``precision``."""

    _core: _Core
    mesh: Mesh
    order: int
    precision: str

    @property
    def comm(self) -> MPI.Intracomm:
        """The mpi4py communicator of the mesh."""
        return self.mesh.comm

    @property
    def dtype(self) -> DType:
        """Type of the fields: float64 or float32, by ``precision``."""
        return np.dtype(TYPES[self.precision])

    @property
    def elements(self) -> int:
        """Number of elements E on all ranks."""
        return int(self.mesh.global_elements)

    @property
    def points(self) -> int:
        """Number of element-local points n = E (N + 1)^3 on all ranks."""
        return self.elements * (self.order + 1) ** 3

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str], *, keep: int = 2, text: str = "") -> str:
        """Write ``folder/checkpoint-<step>`` and return its path. (collective)

        It gets this name once it is complete; only the ``keep`` newest are kept. ``text`` is a note for people. This
        run and a run that restarts from the checkpoint on the same ranks continue bit-identically.
        Raises ``weft.mpi.CollectiveError`` if it cannot be written; earlier checkpoints are then kept.
        """
        return str(self._core.save(os.fspath(folder), text, operator.index(keep)))

    def restore(self, path: str | os.PathLike[str]) -> Checkpoint:
        """Continue from a checkpoint, or from the newest in a folder of checkpoints or in a run's folder. (collective)

        The number of ranks and the precision may differ from those of the checkpoint; fields of another order are
        interpolated. Raises ``weft.mpi.CollectiveError`` if the checkpoint is missing, truncated or damaged, or is of
        another mesh or other fields; the solver's fields are then undefined.
        """
        return Checkpoint(**self._core.restore(os.fspath(path)))
