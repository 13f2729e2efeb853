"""Values of fields at given places: time series at points, and images of a plane."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from weft.files import whole
from weft.mesh import Mesh, MeshError
from weft.mesh_io.locate import Floats, Locator, lagrange, tensor

Values = npt.NDArray[np.floating]


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
        self._mine: list[tuple[str, int, list[Floats], list[Values]]] = []  # name, element, polynomials, series
        if not places:
            return
        where = np.array(list(places.values()), float).reshape(-1, 3)
        found: dict[int, tuple[int, list[Floats]]] = {}
        for element, indices, reference in Locator(mesh, order).find(where):
            for k, index in enumerate(indices):
                found[int(index)] = element, [lagrange(order, reference[k : k + 1, d])[0] for d in range(3)]
        # A place on a face shared by several ranks belongs to the lowest rank.
        owner = np.array([self.comm.rank if k in found else self.comm.size for k in range(len(where))])
        self.comm.Allreduce(MPI.IN_PLACE, owner, MPI.MIN)
        for k, name in enumerate(self.names):
            if owner[k] == self.comm.size:
                raise MeshError(f"probe {name!r} at {where[k].tolist()} lies outside {mesh.source}")
            if owner[k] == self.comm.rank:
                self._mine.append((name, *found[k], []))

    def take(self, time: float, fields: Values | None) -> None:
        """Adds the values at a time. ``fields`` may be None on ranks whose ``holds`` is False."""
        self.times.append(time)
        for _, element, (r, s, t), series in self._mine:
            assert fields is not None
            series.append(tensor(np.moveaxis(fields[element], 0, -1), r, s, t)[0])

    @property
    def holds(self) -> bool:
        """Whether the elements of this rank contain a probe."""
        return bool(self._mine)

    def series(self) -> dict[str, Values]:
        """The series [times][components] by name on rank 0; empty on other ranks. (collective)"""
        gathered = self.comm.gather([(name, np.array(values)) for name, *_, values in self._mine])
        return dict(item for rank in gathered or [] for item in rank)

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


def on_plane(
    mesh: Mesh, order: int, values: Values, axis: int, share: float, pixels: int = 400
) -> tuple[Values, list[float], float]:
    """An image of ``values`` [E][n][n][n] on a plane normal to an axis, its extent, and its coordinate. (collective)

    On rank 0, the image [rows][columns] shows the next two axes (NaN outside the mesh); on other ranks it is empty. The
    extent is [left, right, bottom, top], and the plane is at the given ``share`` of the mesh's extent. The longer side
    has ``pixels`` pixels.
    """
    comm = mesh.comm
    locator = Locator(mesh, order)
    low, high = (np.empty(3) for _ in range(2))
    comm.Allreduce(locator.nodes.reshape(-1, 3).min(axis=0, initial=np.inf), low, MPI.MIN)
    comm.Allreduce(locator.nodes.reshape(-1, 3).max(axis=0, initial=-np.inf), high, MPI.MAX)
    u, v = (d for d in range(3) if d != axis)
    size = high - low
    columns, rows = (max(2, round(pixels * size[d] / max(size[u], size[v]))) for d in (u, v))
    across, up = (low[d] + size[d] * (np.arange(n) + 0.5) / n for d, n in ((u, columns), (v, rows)))
    places = np.empty((rows, columns, 3))
    places[..., u], places[..., v] = across[None, :], up[:, None]
    at = low[axis] + share * size[axis]
    places[..., axis] = np.clip(at, low[axis] + 1e-9 * size[axis], high[axis] - 1e-9 * size[axis])
    indices, found = [np.empty(0, np.int64)], [np.empty(0)]
    for element, index, reference in locator.find(places.reshape(-1, 3)):
        r, s, t = (lagrange(order, c)[0] for c in reference.T)
        indices.append(index)
        found.append(tensor(values[element], r, s, t))
    picture = np.full(rows * columns, np.nan)
    for index, part in comm.gather((np.concatenate(indices), np.concatenate(found))) or []:
        picture[index] = part
    return picture.reshape(rows, columns), [low[u], high[u], low[v], high[v]], float(at)
