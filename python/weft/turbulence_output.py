"""Checkpoints of a turbulence simulation; docs/turbulence-files.md describes the files.

`Output` is a part of `weft.turbulence.Solver`.
"""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft import _weft

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Checkpoint", "Output", "describe"]


@dataclass(frozen=True)
class Checkpoint:
    """The description of a checkpoint on disk; of the newest, if ``path`` was a folder of several."""

    path: str
    bytes: int
    sizes: list[int]
    lengths: list[float]
    dealiasing: str
    precision: str
    scalars: int
    step: int
    time: float
    text: str  # the text given to `Output.save`


def describe(path: str | os.PathLike[str], comm: MPI.Intracomm | None = None) -> Checkpoint:
    """The description of a checkpoint, without its fields. Errors as in `Output.restore`. (collective)"""
    return Checkpoint(**_weft.turbulence.checkpoint(os.fspath(path), comm))


class Output:
    """Checkpoints of a `weft.turbulence.Solver`."""

    if TYPE_CHECKING:
        _core: _weft.turbulence.SolverDouble | _weft.turbulence.SolverSingle

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        keep: int = 2,
        text: str = "",
        ranks_per_file: int = 0,
        turns: int = 1,
    ) -> str:
        """Write ``folder/checkpoint-<step>`` and return its path. (collective)

        It gets this name once it is complete; only the ``keep`` newest are kept. ``text`` is a note for people.
        ``ranks_per_file`` ranks share a file (0: those of a node), and ``turns`` groups of them write one after the
        other. This run and a run that restarts from the checkpoint on the same ranks continue bit-identically.
        Raises ``weft.mpi.CollectiveError`` if it cannot be written; earlier checkpoints are then kept.
        """
        numbers = map(operator.index, (ranks_per_file, turns, keep))
        return str(self._core.save(os.fspath(folder), text, *numbers))

    def restore(self, path: str | os.PathLike[str]) -> Checkpoint:
        """Continue from a checkpoint, or from the newest in a folder of checkpoints or in a run's folder. (collective)

        The number of ranks and the precision may differ from those of the checkpoint; a different forcing starts anew.
        Raises ``weft.mpi.CollectiveError`` if the checkpoint is missing, truncated or damaged, or is of another box or
        number of scalars; the fields are then undefined.
        """
        return Checkpoint(**self._core.restore(os.fspath(path)))
