"""The fields, averages and plane of a `weft run flow`."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from weft.arrays import Values
from weft.files import whole
from weft.flow import Solver
from weft.flow_output import FieldSeries, wall_units
from weft.record import Record
from weft.run.flow.problem import Problem
from weft.run.pictures import Pictures
from weft.run.record import by_first
from weft.run.stepping import Table
from weft.solver_on_elements import Checkpoint

COMPONENTS = {"u": 0, "v": 1, "w": 2}


class OutputFiles:
    """Writes the output that a case requests, during the run and at its end.

    `began`: the checkpoint that the run continues from.
    """

    def __init__(self, problem: Problem, folder: Path, began: Checkpoint | None) -> None:
        self.problem, self.folder = problem, folder
        self.written: list[Path] = []
        output = problem.case.output
        since = began.time if began else None
        self.series = FieldSeries(folder, problem.comm, vtk=output.fields, nek=output.nek, since=since)
        self.last = -1
        self.tables: dict[str, Table] = {}
        if problem.comm.rank == 0:
            since_step = began.step if began else None
            for name, columns in problem.probes.columns.items():
                head = ["step", "time", "x", "y", "z", *columns]
                self.tables[name] = Table(folder / f"probe-{name}.csv", head, since_step)
        solver = problem.solver
        self.pictures = Pictures(
            problem.mesh,
            solver.order,
            output,
            folder,
            lambda name: (name, field(solver, name)),
            lambda: solver.time,
            began.step if began else None,
            problem.case.checkpoint.planned,
        )
        if output.averages_every:
            problem.solver.start_averages(output.averages_every)

    def fields(self) -> None:
        """Writes the current fields, unless this step already has them. (collective)"""
        if self.last != self.problem.solver.steps:
            self.written += self.series.write(self.problem.solver)
            self.last = self.problem.solver.steps

    def probes(self) -> None:
        """Writes one row per point of each probe that is due after this step. (collective)"""
        problem, solver = self.problem, self.problem.solver
        names = [name for name, given in problem.case.probes.items() if solver.steps % given.every == 0]
        for name, values in problem.probes.values(names).items():
            rows = np.hstack([problem.probes.where(name), values]).tolist()
            self.tables[name].add([[solver.steps, solver.time, *row] for row in rows])

    def at_end(self, record: Record) -> None:
        """Writes fields, averages and the film. (collective)"""
        output, solver = self.problem.case.output, self.problem.solver
        if output.fields or output.nek:
            self.fields()
        if output.averages_every:
            self.written.append(solver.write_fields(self.folder / "averages", averages=True))
        if output.average_over:
            self.profile(record)
        self.written += self.pictures.write_film({name: b.condition for name, b in self.problem.boundaries.items()})

    def profile(self, record: Record) -> None:
        """Writes the averages over homogeneous directions; those over two also go into the record. (collective)"""
        solver, over = self.problem.solver, self.problem.case.output.average_over
        columns = solver.profile(over)
        left = [axis for axis in "xyz" if axis not in over]
        if len(left) == 1:
            scales, columns = wall_units(columns, solver.order, solver.viscosity)
            record["statistics"]["profile"] = {
                "coordinate": left[0],
                "columns": {name: values.tolist() for name, values in columns.items()},
                "friction_velocities": scales,
            }
        path = self.folder / "profiles.csv"
        by_first(self.problem.comm, write_table, path, list(columns), np.stack(list(columns.values()), axis=-1))
        self.written.append(path)


def write_table(path: Path, head: list[str], rows: Values) -> None:
    """Writes a CSV file."""
    with whole(path) as place, place.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *([repr(v) for v in row] for row in rows.tolist())])


def field(solver: Solver, name: str) -> Values:
    """[E][n][n][n] by name: u, v, w, pressure, speed, vorticity (its magnitude), vorticity_x, _y or _z, or a scalar's.
    (collective)"""
    if name in COMPONENTS:
        return solver.velocity()[COMPONENTS[name]]
    if name == "pressure":
        return solver.pressure()
    if name in ("speed", "vorticity"):
        vector = solver.velocity() if name == "speed" else solver.vorticity()
        return np.sqrt((vector.astype(float) ** 2).sum(axis=0))
    if name.startswith("vorticity_"):
        return solver.vorticity()["xyz".index(name[-1])]
    return solver.scalar(name)
