"""The description of a checkpoint of `weft.maxwell.Solver`; docs/run-maxwell.md describes the files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from weft import _weft
from weft.solver_on_elements import Checkpoint

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Checkpoint", "describe"]


def describe(path: str | os.PathLike[str], comm: MPI.Intracomm | None = None) -> Checkpoint:
    """The description of a checkpoint, without its fields. Errors as in `SolverOnElements.restore`. (collective)"""
    return Checkpoint(**_weft.maxwell.checkpoint(os.fspath(path), comm))
