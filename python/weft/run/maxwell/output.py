"""The fields, probes and plane of a `weft run maxwell`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from weft.arrays import Values
from weft.record import Record
from weft.run.maxwell.problem import Problem
from weft.run.pictures import Pictures
from weft.solver_on_elements import Checkpoint


class OutputFiles:
    """Writes the output that a case requests, during the run and at its end.

    `began`: the checkpoint that the run continues from.
    """

    def __init__(self, problem: Problem, folder: Path, began: Checkpoint | None) -> None:
        self.problem, self.folder = problem, folder
        self.since = began.time if began else None
        case, solver = problem.case, problem.solver
        self.pictures = Pictures(
            problem.mesh,
            case.order,
            case.output,
            folder,
            lambda name: component(solver.host_fields(), name),
            lambda: solver.time,
            began.step if began else None,
            case.checkpoint.planned,
        )

    def probes(self) -> list[Path]:
        """Writes the probes so far, below those of the run that wrote the checkpoint; returns the file. (collective)"""
        if not self.problem.probes.any:
            return []
        path = self.folder / "probes.csv"
        self.problem.probes.write(path, self.since)
        return [path]

    def at_end(self) -> list[Path]:
        """Writes fields and probes; returns the files. (collective)"""
        fields = [write_solution(self.problem, self.folder / "fields")] if self.problem.case.output.fields else []
        return fields + self.probes() + self.pictures.write_film(self.problem.conditions)

    def planes(self, record: Record) -> None:
        """The planes, for the record. (collective)"""
        record["statistics"]["planes"] = self.pictures.planes()


def write_solution(problem: Problem, path: Path) -> Path:
    """Writes E and H as vectors, and the material numbers; returns the file to open in ParaView. (collective)"""
    from weft.mesh_io.fields import write_fields

    fields = problem.solver.host_fields()
    count = fields.shape[2] ** 3
    vectors = np.moveaxis(fields.reshape(len(fields), 6, count), 1, -1)
    material = np.repeat(problem.regions[:, None], count, axis=1).astype(np.float32)
    values = {"E": vectors[..., :3], "H": vectors[..., 3:], "material": material}
    return write_fields(path, problem.mesh, problem.case.order, values)


def component(fields: Values, name: str) -> tuple[str, Values]:
    """The label and values [E][n][n][n] of a component (ex … hz), or of the magnitude of e or h."""
    if len(name) == 2:
        return name.capitalize(), fields[:, ("ex", "ey", "ez", "hx", "hy", "hz").index(name)].astype(float)
    first = 0 if name == "e" else 3
    return f"|{name.upper()}|", np.sqrt((fields[:, first : first + 3].astype(float) ** 2).sum(axis=1))
