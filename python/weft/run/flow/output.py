"""The fields, averages and plane of a `weft run flow`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from weft.arrays import Values
from weft.flow import Solver
from weft.flow_output import FieldSeries
from weft.record import Record
from weft.run.flow.problem import Problem
from weft.run.stepping import plane
from weft.solver_on_elements import Checkpoint

COMPONENTS = {"u": 0, "v": 1, "w": 2}


class OutputFiles:
    """Writes the output that a case requests, during the run and at its end. `began`: the checkpoint it continues
    from."""

    def __init__(self, problem: Problem, folder: Path, began: Checkpoint | None) -> None:
        self.problem, self.folder = problem, folder
        self.written: list[Path] = []
        output = problem.case.output
        since = began.time if began else None
        self.series = FieldSeries(folder, problem.comm, vtk=output.fields, nek=output.nek, since=since)
        self.last = -1
        if output.averages_every:
            problem.solver.start_averages(output.averages_every)

    def fields(self) -> None:
        """Writes the current fields, unless this step already has them. (collective)"""
        if self.last != self.problem.solver.steps:
            self.written += self.series.write(self.problem.solver)
            self.last = self.problem.solver.steps

    def at_end(self, record: Record) -> None:
        """Writes fields and averages, and returns the plane for the record. (collective)"""
        output, solver = self.problem.case.output, self.problem.solver
        if output.fields or output.nek:
            self.fields()
        if output.averages_every:
            self.written.append(solver.write_fields(self.folder / "averages", averages=True))
        if output.slice != "none":
            values = field(solver, output.slice).astype(float)
            shown = plane(self.problem.mesh, solver.order, values, output.slice, solver.time, output)
            record["statistics"]["slice"] = shown


def field(solver: Solver, name: str) -> Values:
    """[E][n][n][n] by name: u, v, w, pressure, speed, vorticity (its magnitude), or a scalar's. (collective)"""
    if name in COMPONENTS:
        return solver.velocity()[COMPONENTS[name]]
    if name == "pressure":
        return solver.pressure()
    if name in ("speed", "vorticity"):
        vector = solver.velocity() if name == "speed" else solver.vorticity()
        return np.sqrt((vector.astype(float) ** 2).sum(axis=0))
    return solver.scalar(name)
