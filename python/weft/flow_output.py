"""Output of a flow: fields for ParaView, Nek field files, time averages, and the description of a checkpoint.

`Output` is a part of `weft.flow.Solver`. docs/flow-files.md describes the files.
"""

from __future__ import annotations

import operator
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weft import _weft
from weft.arrays import DType, Values
from weft.files import write_text
from weft.mesh import Mesh, MeshError
from weft.solver_on_elements import Checkpoint

if TYPE_CHECKING:
    from mpi4py import MPI

    from weft.flow import Scalar

__all__ = ["Averages", "Checkpoint", "FieldSeries", "Output", "describe"]


@dataclass(frozen=True)
class Averages:
    """Time averages at this rank's points from ``since`` to ``until``; <> is the average, ' the fluctuation about it.

    velocity [3][E][n][n][n] <u_i>; pressure [E][n][n][n] <p>; stress [6][E][n][n][n] <u_i' u_j'> in VTK's order xx, yy,
    zz, xy, yz, xz; pressure_variance <p' p'>; for each scalar its mean, variance <s' s'> and flux [3] <u_i' s'>.
    """

    since: float
    until: float
    samples: int
    velocity: Values
    pressure: Values
    stress: Values
    pressure_variance: Values
    scalars: dict[str, Values]
    scalar_variance: dict[str, Values]
    scalar_flux: dict[str, Values]


def describe(path: str | os.PathLike[str], comm: MPI.Intracomm | None = None) -> Checkpoint:
    """The description of a checkpoint, without its fields. Errors as in `SolverOnElements.restore`. (collective)"""
    return Checkpoint(**_weft.flow.checkpoint(os.fspath(path), comm))


class Output:
    """Output of the fields and averages of a `weft.flow.Solver`."""

    if TYPE_CHECKING:
        _core: _weft.flow.FlowDouble | _weft.flow.FlowSingle
        mesh: Mesh
        order: int
        scalars: Mapping[str, Scalar]

        @property
        def dtype(self) -> DType: ...
        @property
        def time(self) -> float: ...
        @property
        def steps(self) -> int: ...
        def velocity(self) -> Values: ...
        def pressure(self) -> Values: ...
        def scalar(self, name: str) -> Values: ...
        def set_velocity(self, values: Values) -> None: ...
        def set_pressure(self, values: Values) -> None: ...
        def set_scalar(self, name: str, values: Values) -> None: ...
        def start(self, time: float, step: int) -> None: ...

    # --- fields ------------------------------------------------------------------------------------------------------

    def term(self, name: str) -> Values:
        """A term at the current velocity and pressure, made continuous by projection; a copy. (collective)

        ``[3][E][n][n][n]``: ``convection`` (u . grad) u in the solver's form, ``pressure gradient``, ``vorticity``;
        ``[1][E][n][n][n]``: ``divergence`` of the velocity.
        """
        return np.asarray(_weft.flow.term(self._core, name))

    def vorticity(self) -> Values:
        """A copy of curl u, ``[3][E][n][n][n]``, made continuous by projection. (collective)"""
        return self.term("vorticity")

    def write_fields(
        self, path: str | os.PathLike[str], *, vorticity: bool = True, averages: bool = False, precision: str = "single"
    ) -> Path:
        """Write velocity, pressure, scalars and vorticity for ParaView; returns the file to open. (collective)

        Suffix and layout as in ``weft.mesh_io.fields.write_fields``: one ``.vtu``, or a ``.pvtu`` and one ``.vtu`` per
        rank. ``averages``: write the fields of `Averages` instead. Raises MeshError, the same on every rank, if a rank
        cannot write.
        """
        from weft.mesh_io.fields import write_fields

        dtype = {"single": np.float32, "double": np.float64}[precision]
        fields = _average_fields(self.averages()) if averages else self._fields_of(vorticity)
        return write_fields(path, self.mesh, self.order, {k: v.astype(dtype) for k, v in fields.items()})

    def _fields_of(self, vorticity: bool) -> dict[str, Values]:
        fields = {"velocity": np.moveaxis(self.velocity(), 0, -1), "pressure": self.pressure()}
        fields |= {name: self.scalar(name) for name in self.scalars}
        if vorticity:
            fields["vorticity"] = np.moveaxis(self.vorticity(), 0, -1)
        return fields

    def write_nek(self, path: str | os.PathLike[str], *, precision: str = "single", coordinates: bool = True) -> Path:
        """Write a Nek field file; the first scalar is its temperature. Name it as ``name0.f00001``. (collective)

        Errors as in ``weft.mesh_io.nek_fields.write_nek``.
        """
        from weft.mesh_io.nek_fields import NekFields, write_nek

        fields = NekFields(
            self.time, self.steps, self.velocity(), self.pressure(), list(map(self.scalar, self.scalars))
        )
        return write_nek(path, self.mesh, self.order, fields, precision=precision, coordinates=coordinates)

    def read_nek(self, path: str | os.PathLike[str], *, time: float | None = None) -> None:
        """Start from a Nek field file on the same mesh, of any order, with a step of order 1. (collective)

        Its time and step become the flow's, unless ``time`` is given (the step is then 0). Scalars that the file lacks
        are unchanged. Raises MeshError, the same on every rank, if the file cannot be used or has no velocity.
        """
        from weft.mesh_io.nek_fields import read_nek

        fields = read_nek(path, self.mesh, self.order)
        if fields.velocity is None:
            raise MeshError(f"{path}: the file has no velocity to start from")
        self.set_velocity(fields.velocity.astype(self.dtype))
        if fields.pressure is not None:
            self.set_pressure(fields.pressure.astype(self.dtype))
        for name, values in zip(self.scalars, fields.scalars, strict=False):
            self.set_scalar(name, values.astype(self.dtype))
        self.start(fields.time if time is None else time, fields.step if time is None else 0)

    # --- averages ----------------------------------------------------------------------------------------------------

    def start_averages(self, every: int = 1) -> None:
        """Start averaging velocity, pressure, stresses and scalars in time, with a sample every ``every`` steps.

        Averages restored from a checkpoint continue; others start from zero. They need 11 + 5 scalars vectors.
        (collective)
        """
        if operator.index(every) < 1:
            raise ValueError(f"flow: every = {every} for averages; allowed: at least 1")
        _weft.flow.start_averages(self._core, every)

    def averages(self) -> Averages:
        """The averages so far. Raises RuntimeError before the first sample after `start_averages`. (collective)"""
        found = _weft.flow.averages(self._core)
        if found is None or found["samples"] == 0:
            raise RuntimeError("flow: nothing has been averaged yet; call start_averages, then step")
        v = found["values"]  # [11 + 5 scalars][E][n][n][n]
        of = {name: v[11 + 5 * i : 16 + 5 * i] for i, name in enumerate(self.scalars)}
        return Averages(
            found["since"],
            found["until"],
            found["samples"],
            v[0:3],
            v[3],
            v[[4, 5, 6, 7, 9, 8]],
            v[10],
            {name: s[0] for name, s in of.items()},
            {name: s[1] for name, s in of.items()},
            {name: s[2:5] for name, s in of.items()},
        )

    def profile(self, over: Sequence[str]) -> dict[str, Values]:
        """The averages of `averages`, also averaged over the homogeneous directions ``over``: one or two of x, y, z.

        Returns columns by name, the same on all ranks, sorted by the remaining coordinates: these coordinates, the
        means ``u``, ``v``, ``w``, ``pressure`` and scalars, and the covariances ``uu`` … ``vw``, ``pp``, and for each
        scalar ``variance_<name>``, ``u_<name>`` …, of fluctuations about the means over time and ``over``. Points whose
        remaining coordinates agree to 1e-7 of the mesh's extent are averaged together, so elements have to be aligned
        with ``over``. The weights are those of the elements' quadrature. Raises RuntimeError as `averages` does.
        (collective)
        """
        a = self.averages()
        means = {"u": a.velocity[0], "v": a.velocity[1], "w": a.velocity[2], "pressure": a.pressure, **a.scalars}
        pairs = ("u", "u"), ("v", "v"), ("w", "w"), ("u", "v"), ("v", "w"), ("u", "w")
        products = {f"{i}{j}": (i, j, values) for (i, j), values in zip(pairs, a.stress, strict=True)}
        products["pp"] = "pressure", "pressure", a.pressure_variance
        for name in a.scalars:
            products[f"variance_{name}"] = name, name, a.scalar_variance[name]
            products |= {f"{u}_{name}": (u, name, a.scalar_flux[name][c]) for c, u in enumerate("uvw")}
        left = [axis for axis in "xyz" if axis not in over]
        where = np.asarray(self.mesh.point_coordinates(self.order)).reshape(-1, 3)[:, ["xyz".index(x) for x in left]]
        weights = np.asarray(self.mesh.mass_matrix(self.order)).ravel()

        def summed(values: Sequence[Values]) -> tuple[list[Values], list[Values]]:
            return _means_by_place(self.mesh.comm, where, weights, [np.asarray(v, float).ravel() for v in values])

        places, found_means = summed(list(means.values()))
        _, squares = summed([c + means[i] * means[j] for i, j, c in products.values()])
        found = dict(zip([*left, *means], [*places, *found_means], strict=True))
        for (name, (i, j, _)), value in zip(products.items(), squares, strict=True):
            found[name] = value - found[i] * found[j]
        return found


def wall_units(columns: Mapping[str, Values], order: int, viscosity: float) -> tuple[list[float], dict[str, Values]]:
    """A profile of `Output.profile` over two directions, with further columns in wall units.

    Returns the friction velocities sqrt(nu |dU/dn|) at the lower and the upper end, and the columns; U is the mean
    velocity along the wall, and its slope is that of the polynomial in the element at that end. If an end is not a wall
    (U is not 0 there), its friction velocity is NaN. The further columns are scaled by the nearer wall:
    ``distance_plus``, ``velocity_plus`` and ``uu_plus``, ``vv_plus``, ``ww_plus``, ``uv_plus``, ``uw_plus``,
    ``vw_plus``.
    """
    from weft.mesh_io.locate import lagrange

    axis = next(iter(columns))
    y = columns[axis]
    along = np.stack([columns[u] for u, x in zip("uvw", "xyz", strict=True) if x != axis])
    scales: list[float] = []
    for end in (slice(0, order + 1), slice(-1, -order - 2, -1)):
        place, velocity = y[end], along[:, end]
        # The points of the end's element are the GLL points, in its own coordinate.
        slope = velocity @ lagrange(order, np.array([-1.0]))[1][0] * 2 / (place[-1] - place[0])
        wall = np.abs(velocity[:, 0]).max() <= 1e-6 * np.abs(along).max()
        scales.append(float(np.sqrt(viscosity * np.linalg.norm(slope))) if wall else float("nan"))
    found = dict(columns)
    walls = ~np.isnan(scales)
    if walls.any():
        distances = np.where(walls[:, None], [y - y[0], y[-1] - y], np.inf)
        scale = np.array(scales)[distances.argmin(axis=0)]
        with np.errstate(divide="ignore", invalid="ignore"):  # a fluid at rest has no wall units
            found["distance_plus"] = distances.min(axis=0) * scale / viscosity
            found["velocity_plus"] = np.linalg.norm(along, axis=0) / scale
            found |= {f"{pair}_plus": columns[pair] / scale**2 for pair in ("uu", "vv", "ww", "uv", "uw", "vw")}
    return scales, found


def _means_by_place(
    comm: MPI.Intracomm, where: Values, weights: Values, values: Sequence[Values]
) -> tuple[list[Values], list[Values]]:
    """Weighted means of values [points] over all points with the same place in ``where`` [points][d]: the places and
    the means, the same on all ranks. (collective)"""
    labels, levels = [], []
    for coordinate in where.T:
        all_levels = np.unique(np.concatenate(comm.allgather(np.unique(coordinate))))
        apart = np.diff(all_levels, prepend=-np.inf) > 1e-7 * np.ptp(all_levels)
        levels.append(all_levels[apart])
        labels.append((np.cumsum(apart) - 1)[np.searchsorted(all_levels, coordinate)])
    shape = tuple(map(len, levels))
    cell = np.ravel_multi_index(labels, shape)
    sums = np.stack([np.bincount(cell, weights * v, np.prod(shape)) for v in [np.ones_like(weights), *values]])
    sums = comm.allreduce(sums)
    held = sums[0] > 0  # cells of two dimensions may lie outside the mesh
    places = [level[index] for level, index in zip(levels, np.unravel_index(np.flatnonzero(held), shape), strict=True)]
    return places, list(sums[1:, held] / sums[0, held])


def _average_fields(a: Averages) -> dict[str, Values]:
    """The averages by their names in files."""
    fields = {
        "mean_velocity": np.moveaxis(a.velocity, 0, -1),
        "mean_pressure": a.pressure,
        "reynolds_stress": np.moveaxis(a.stress, 0, -1),
        "pressure_variance": a.pressure_variance,
    }
    for name in a.scalars:
        fields[f"mean_{name}"] = a.scalars[name]
        fields[f"variance_{name}"] = a.scalar_variance[name]
        fields[f"flux_{name}"] = np.moveaxis(a.scalar_flux[name], 0, -1)
    return fields


class FieldSeries:
    """Fields of a run at several times, in files that ParaView opens as one time series.

    ``vtk``: writes ``<name>-<step>`` as `Output.write_fields` does, and ``<name>.pvd``, which lists these files by
    time. ``nek``: writes ``<name>0.f<number>``, numbered from 1, the first with coordinates, and ``<name>.nek5000``. A
    run that continues from a checkpoint at time ``since`` keeps the earlier files. (collective)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        comm: MPI.Intracomm,
        *,
        name: str = "flow",
        vtk: bool = True,
        nek: bool = False,
        vorticity: bool = True,
        precision: str = "single",
        since: float | None = None,
    ) -> None:
        self.folder, self.comm, self.name = Path(folder), comm, name
        self.vtk, self.nek, self.vorticity, self.precision = vtk, nek, vorticity, precision
        kept: list[tuple[float, str]] = []
        numbers: list[int] = []
        if comm.rank == 0 and since is not None:
            kept = [(t, f) for t, f in _read_pvd(self._pvd) if t <= since * (1 + 1e-12)]
            numbers = self._nek_numbers(since)
        self._times, numbers = comm.bcast((kept, numbers))
        self._nek_first, self._nek_count = (numbers[0], len(numbers)) if numbers else (1, 0)

    @property
    def _pvd(self) -> Path:
        return self.folder / f"{self.name}.pvd"

    def _nek_numbers(self, since: float) -> list[int]:
        """The consecutive field files that exist and are not later than ``since``."""
        from weft.mesh_io.nek_fields import HEADER_BYTES, Header

        found: list[int] = []
        pattern = re.compile(re.escape(self.name) + r"0\.f(\d{5})")
        matches = (pattern.fullmatch(path.name) for path in self.folder.glob(f"{self.name}0.f*"))
        for number in sorted(int(match[1]) for match in matches if match):
            try:
                with (self.folder / f"{self.name}0.f{number:05d}").open("rb") as file:
                    late = Header.parse(file.read(HEADER_BYTES)).time > since * (1 + 1e-12)
            except ValueError:
                late = True
            if late or (found and number != found[-1] + 1):
                break
            found.append(number)
        return found

    def write(self, solver: Output) -> list[Path]:
        """Write the current fields; returns the files. (collective)

        Raises MeshError, the same on every rank, if a rank cannot write.
        """
        from weft.mesh_io.nek_fields import series_text

        written: list[Path] = []
        if self.vtk:
            stem = self.folder / f"{self.name}-{solver.steps:08d}"
            path = solver.write_fields(stem, vorticity=self.vorticity, precision=self.precision)
            written.append(path)
            self._times = [(t, f) for t, f in self._times if f != path.name] + [(solver.time, path.name)]
            self._note(self._pvd, _pvd_text(self._times))
        if self.nek:
            number = self._nek_first + self._nek_count
            path = self.folder / f"{self.name}0.f{number:05d}"
            written.append(solver.write_nek(path, precision=self.precision, coordinates=self._nek_count == 0))
            self._nek_count += 1
            text = series_text(self.name, self._nek_first, self._nek_count)
            self._note(self.folder / f"{self.name}.nek5000", text)
        return written

    def _note(self, path: Path, text: str) -> None:
        """Write a small file on rank 0, atomically. (collective)"""
        problem = None
        if self.comm.rank == 0:
            try:
                write_text(path, text)
            except OSError as error:
                problem = f"cannot write {path}: {error.strerror or error}"
        problem = self.comm.bcast(problem)
        if problem is not None:
            raise MeshError(problem)


def _pvd_text(times: list[tuple[float, str]]) -> str:
    root = ET.Element("VTKFile", type="Collection", version="0.1")
    collection = ET.SubElement(root, "Collection")
    for time, file in times:
        ET.SubElement(collection, "DataSet", timestep=repr(time), part="0", file=file)
    ET.indent(root)
    return '<?xml version="1.0"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _read_pvd(path: Path) -> list[tuple[float, str]]:
    """Times and files of a collection; none if there is no such file, or it is damaged."""
    try:
        nodes = ET.parse(path).getroot().iter("DataSet")
        return [(float(node.attrib["timestep"]), node.attrib["file"]) for node in nodes]
    except (OSError, ET.ParseError, KeyError, ValueError):
        return []
