"""Time series of fields at given points."""

from __future__ import annotations

import copy
import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from weft.files import whole
from weft.mesh import Mesh, MeshError
from weft.mesh_io.locate import Floats, Locator, lagrange, tensor

Values = npt.NDArray[np.floating]


class Places:
    """Named sets of places in a mesh, where fields are interpolated with the polynomials of their elements.

    ``places``: coordinates [3] or [P][3] by name. ``order``: the order N of the fields; the shape of an element is
    given by its points of this order, and Newton's method finds the place in it. A place on a face between ranks
    belongs to the lowest of them. Raises one MeshError for all places outside the mesh. Construction is collective.
    """

    def __init__(self, mesh: Mesh, order: int, places: Mapping[str, npt.ArrayLike]) -> None:
        self.comm = mesh.comm
        sets = [np.array(where, float).reshape(-1, 3) for where in places.values()]
        #: the places of all sets, [P][3]
        self.where = np.concatenate([np.empty((0, 3)), *sets])
        ends = np.cumsum([0, *map(len, sets)])
        #: the rows of ``where`` that each set has, by name
        self.rows = {name: slice(*ends[k : k + 2]) for k, name in enumerate(places)}
        found = list(Locator(mesh, order).find(self.where)) if len(self.where) else []
        owner = np.full(len(self.where), self.comm.size)
        for _, indices, _ in found:
            owner[indices] = self.comm.rank
        self.comm.Allreduce(MPI.IN_PLACE, owner, MPI.MIN)
        if (owner == self.comm.size).any():
            raise MeshError(f"probes outside {mesh.source}: " + "; ".join(self._outside(owner == self.comm.size)))
        #: this rank's elements with places: element, rows of ``where``, and the Lagrange polynomials there
        self.mine: list[tuple[int, npt.NDArray[np.int64], list[Floats]]] = []
        for element, indices, reference in found:
            own = owner[indices] == self.comm.rank
            if own.any():
                self.mine.append((element, indices[own], [lagrange(order, c)[0] for c in reference[own].T]))

    def part(self, name: str) -> Places:
        """The set of that name alone."""
        rows, part = self.rows[name], copy.copy(self)
        part.where, part.rows, part.mine = self.where[rows], {name: slice(0, rows.stop - rows.start)}, []
        for element, indices, polynomials in self.mine:
            inside = (indices >= rows.start) & (indices < rows.stop)
            if inside.any():
                part.mine.append((element, indices[inside] - rows.start, [p[inside] for p in polynomials]))
        return part

    def _outside(self, outside: npt.NDArray[np.bool_]) -> Iterator[str]:
        for name, rows in self.rows.items():
            where = self.where[rows][outside[rows]].tolist()
            if where:
                of = f" and {len(where) - 1} more of its {rows.stop - rows.start} points" if len(where) > 1 else ""
                yield f"{name!r} at {where[0]}{of}"

    def of_rank(self, fields: Values) -> Values:
        """Values [own places][C] of fields [E][n][n][n][C] of this rank, in the order of ``mine``."""
        parts = [tensor(fields[element], *polynomials) for element, _, polynomials in self.mine]
        return np.concatenate([np.empty((0, fields.shape[-1])), *parts])

    def gather(self, mine: Values) -> Values | None:
        """The results of ``of_rank`` on all ranks, [P][C] in the order of the places, on rank 0; None on others.
        (collective)"""
        order = np.concatenate([np.empty(0, np.int64), *(rows for _, rows, _ in self.mine)])
        gathered = self.comm.gather((order, mine))
        if gathered is None:
            return None
        values = np.empty((len(self.where), mine.shape[-1]))
        for rows, part in gathered:
            values[rows] = part
        return values


class Probes:
    """Time series of fields [E][components][n][n][n] at named places. The constructor is collective.

    Raises MeshError if a place lies outside the mesh.
    """

    def __init__(
        self, mesh: Mesh, order: int, places: Mapping[str, Sequence[float]], components: Sequence[str]
    ) -> None:
        self.comm = mesh.comm
        self.names, self.components = list(places), list(components)
        #: whether any rank has a probe, in which case all ranks advance one step at a time
        self.any = bool(places)
        self.times: list[float] = []
        self._places = Places(mesh, order, places)
        self._series: list[Values] = []  # [own places][components] by time

    def take(self, time: float, fields: Values | None) -> None:
        """Adds the values at a time. ``fields`` may be None on ranks whose ``holds`` is False."""
        self.times.append(time)
        if self.holds:
            assert fields is not None
            self._series.append(self._places.of_rank(np.moveaxis(fields, 1, -1)))

    @property
    def holds(self) -> bool:
        """Whether the elements of this rank contain a probe."""
        return bool(self._places.mine)

    def series(self) -> dict[str, Values]:
        """The series [times][components] by name on rank 0; empty on other ranks. (collective)"""
        own = sum(len(rows) for _, rows, _ in self._places.mine)
        shape = own, len(self.times), len(self.components)
        mine = np.moveaxis(np.array(self._series), 0, 1) if self._series else np.empty(shape)
        values = self._places.gather(mine.reshape(own, shape[1] * shape[2]))
        if values is None:
            return {}
        return {name: values[k].reshape(shape[1:]) for k, name in enumerate(self.names)}

    def write(self, path: Path, since: float | None = None) -> None:
        """Writes a CSV file with one row per time and one column per component: ``time, NAME.Ex, …``. (collective)

        A run that continues from a checkpoint (``since``, its time) keeps the earlier rows of the file.
        """
        series = self.series()
        if self.comm.rank == 0:
            head = ["time", *(f"{name}.{c}" for name in self.names for c in self.components)]
            kept = [] if since is None else _rows_before(path, head, since)
            with whole(path) as place, place.open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerows([head, *kept])
                for k, time in enumerate(self.times):
                    writer.writerow([repr(time), *(repr(float(v)) for n in self.names for v in series[n][k])])


def _rows_before(path: Path, head: list[str], time: float) -> list[list[str]]:
    """The complete rows of a probe file at earlier times; none if the file is absent or has other probes."""
    try:
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
        kept = [row for row in rows[1:] if len(row) == len(head) and float(row[0]) < time]
    except (OSError, ValueError):
        return []
    return kept if rows and rows[0] == head else []
