"""What a simulation of turbulence leaves on disk to go on from. docs/turbulence-files.md describes the files.

`Output` is a part of `weft.turbulence.Solver`.
"""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft import _weft

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Checkpoint", "Output", "describe"]


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint on disk says: of the newest, if ``path`` was a folder of several."""

    path: str
    bytes: int
    sizes: list[int]
    lengths: list[float]
    dealiasing: str
    precision: str
    scalars: int
    step: int
    time: float
    text: str  # what `Output.save` was given


def describe(path: str | os.PathLike[str], comm: MPI.Intracomm | None = None) -> Checkpoint:
    """What a checkpoint says of itself, without its fields. Errors as `Output.restore`. (collective)"""
    return Checkpoint(**_weft.turbulence.checkpoint(os.fspath(path), comm))


class Output:
    """Checkpoints of a `weft.turbulence.Solver`."""

    if TYPE_CHECKING:
        _core: Any

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

        It has this name when it is whole; the ``keep`` newest stay. ``text`` is for people. ``ranks_per_file`` ranks
        share a file (0: those of a node), and ``turns`` groups of them write one after the other. This run, going on,
        and one that starts from the checkpoint on the same ranks are the same bit for bit. ``weft.mpi.CollectiveError``
        where it cannot be written; what was there before stays.
        """
        numbers = map(operator.index, (ranks_per_file, turns, keep))
        return str(self._core.save(os.fspath(folder), text, *numbers))

    def restore(self, path: str | os.PathLike[str]) -> Checkpoint:
        """Go on from a checkpoint, or from the newest in a folder of checkpoints. (collective)

        Any number of ranks and either precision read it; a run with another forcing begins that anew.
        ``weft.mpi.CollectiveError`` for what is absent, truncated or damaged, and for another box or number of scalars;
        the fields are then undefined.
        """
        return Checkpoint(**self._core.restore(os.fspath(path)))
