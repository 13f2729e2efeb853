"""The solution of a `weft run poisson`, written for ParaView."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weft.arrays import DeviceArray
from weft.cases.poisson import PoissonCase
from weft.record import Record
from weft.run.folder import open_folder
from weft.run.pictures import Pictures
from weft.run.record import Display

if TYPE_CHECKING:
    from weft.poisson import Poisson
    from weft.run.poisson.own import OwnProblem


def write(
    case: PoissonCase,
    operator: Poisson,
    solution: DeviceArray,
    own: OwnProblem | None,
    record: Record,
    display: Display,
) -> None:
    """Creates the folder, writes the output that the case requests, and adds planes to the record. (collective)"""
    folder = Path(case.output.directory)
    open_folder(case, display, operator.mesh.comm)
    if not case.output.fields and not case.output.cuts:
        return
    fields = {"u": operator.at_points(solution, boundary=None if own is None else own.held)}
    if own is not None:
        fields |= own.fields(operator, fields["u"])
    if case.output.fields:
        from weft.mesh_io.fields import write_fields

        write_fields(folder / "solution", operator.mesh, case.order, fields)
    pictures = Pictures(operator.mesh, case.order, case.output, folder, lambda name: (name, fields[name]), lambda: None)
    record["statistics"] = {"planes": pictures.planes()}
