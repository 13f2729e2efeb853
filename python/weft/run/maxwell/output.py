"""Files of a `weft run maxwell` beside its record and checkpoints: fields for ParaView, probes, a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from weft.run.maxwell.problem import Problem
from weft.run.record import Record
from weft.run.stepping import plane


class OutputFiles:
    """What a case asks for, written as the run goes on and at its end. `began`: the checkpoint it goes on from."""

    def __init__(self, problem: Problem, folder: Path, began: Any) -> None:
        self.problem, self.folder = problem, folder
        self.since = began.time if began else None

    def probes(self) -> list[Path]:
        """The probes so far, after those of the run that wrote the checkpoint; what was written. (collective)"""
        if not self.problem.probes.any:
            return []
        path = self.folder / "probes.csv"
        self.problem.probes.write(path, self.since)
        return [path]

    def at_end(self) -> list[Path]:
        """Fields and probes; what was written. (collective)"""
        fields = [write_solution(self.problem, self.folder / "fields")] if self.problem.case.output.fields else []
        return fields + self.probes()

    def slice(self, record: Record) -> None:
        """The plane, which the record keeps. (collective)"""
        problem, output = self.problem, self.problem.case.output
        if output.slice != "none":
            name, values = component(problem.solver.host_fields(), output.slice)
            shown = plane(problem.mesh, problem.case.order, values, name, problem.solver.time, output)
            record["statistics"]["slice"] = shown


def write_solution(problem: Problem, path: Path) -> Path:
    """E and H as vectors, and the materials by number; the file to open in ParaView. (collective)"""
    from weft.mesh_io.fields import write_fields

    fields = problem.solver.host_fields()
    count = fields.shape[2] ** 3
    vectors = np.moveaxis(fields.reshape(len(fields), 6, count), 1, -1)
    material = np.repeat(problem.regions[:, None], count, axis=1).astype(np.float32)
    values = {"E": vectors[..., :3], "H": vectors[..., 3:], "material": material}
    return write_fields(path, problem.mesh, problem.case.order, values)


def component(fields: Any, name: str) -> tuple[str, Any]:
    """A component by name (ex … hz), or the magnitude of e or h: as it is written, and its values [E][n][n][n]."""
    if len(name) == 2:
        return name.capitalize(), fields[:, ("ex", "ey", "ez", "hx", "hy", "hz").index(name)].astype(float)
    first = 0 if name == "e" else 3
    return f"|{name.upper()}|", np.sqrt((fields[:, first : first + 3].astype(float) ** 2).sum(axis=1))
