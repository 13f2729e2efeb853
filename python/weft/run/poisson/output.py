"""The solution of a `weft run poisson`, written for ParaView."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weft.arrays import DeviceArray
from weft.cases.poisson import PoissonCase
from weft.run.record import open_folder

if TYPE_CHECKING:
    from weft.poisson import Poisson
    from weft.run.poisson.own import OwnProblem


def write(case: PoissonCase, operator: Poisson, solution: DeviceArray, own: OwnProblem | None, folder: Path) -> None:
    """Creates the folder, and writes the output that the case requests. (collective)"""
    open_folder(folder, operator.mesh.comm)
    if case.output.fields:
        from weft.mesh_io.fields import write_fields

        fields = {"u": operator.at_points(solution, boundary=None if own is None else own.held)}
        if own is not None:
            fields |= own.fields(operator, fields["u"])
        write_fields(folder / "solution", operator.mesh, case.order, fields)
