"""The solution of a `weft run poisson`, written for ParaView."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weft.arrays import DeviceArray
from weft.cases.poisson import PoissonCase
from weft.run.record import open_folder

if TYPE_CHECKING:
    from weft.poisson import Poisson


def write(case: PoissonCase, operator: Poisson, solution: DeviceArray, folder: Path) -> None:
    """Creates the folder, and writes the output that the case requests. (collective)"""
    open_folder(folder, operator.mesh.comm)
    if case.output.fields:
        from weft.mesh_io.fields import write_fields

        write_fields(folder / "solution", operator.mesh, case.order, {"u": operator.at_points(solution)})
