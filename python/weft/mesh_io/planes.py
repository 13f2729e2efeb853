"""Images of fields on a plane through a mesh, and the outline of the mesh's boundaries there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from weft import _weft
from weft.mesh import Mesh, face_points
from weft.mesh_io.locate import Floats, Locator, lagrange, tensor

Values = npt.NDArray[np.floating]
Outline = dict[str, list[list[float]]]


class PlaneOfMesh:
    """A plane normal to an axis, at a share of the mesh's extent along it. The constructor is collective.

    ``extent`` is [left, right, bottom, top], of the next two axes, and ``at`` the coordinate of the plane. The longer
    side of images has ``pixels`` pixels. The places are found once, for any number of images.
    """

    def __init__(self, mesh: Mesh, order: int, axis: int, share: float, pixels: int) -> None:
        self.mesh, self.axis = mesh, axis
        locator = Locator(mesh, order)
        self._nodes, self._shape_order = locator.nodes, locator.order
        low, high = (np.empty(3) for _ in range(2))
        mesh.comm.Allreduce(locator.nodes.reshape(-1, 3).min(axis=0, initial=np.inf), low, MPI.MIN)
        mesh.comm.Allreduce(locator.nodes.reshape(-1, 3).max(axis=0, initial=-np.inf), high, MPI.MAX)
        self._sides = u, v = [d for d in range(3) if d != axis]
        size = high - low
        columns, rows = (max(2, round(pixels * size[d] / max(size[u], size[v]))) for d in (u, v))
        across, up = (low[d] + size[d] * (np.arange(n) + 0.5) / n for d, n in ((u, columns), (v, rows)))
        places = np.empty((rows, columns, 3))
        places[..., u], places[..., v] = across[None, :], up[:, None]
        self.at = float(low[axis] + share * size[axis])
        places[..., axis] = np.clip(self.at, low[axis] + 1e-9 * size[axis], high[axis] - 1e-9 * size[axis])
        self.extent = [float(e) for e in (low[u], high[u], low[v], high[v])]
        self._shape = rows, columns
        self._found = [
            (element, index, [lagrange(order, c)[0] for c in reference.T])
            for element, index, reference in locator.find(places.reshape(-1, 3))
        ]

    def image(self, values: Values) -> Values:
        """An image [rows][columns] of ``values`` [E][n][n][n] on rank 0, NaN outside the mesh; empty elsewhere.
        (collective)"""
        indices, found = [np.empty(0, np.int64)], [np.empty(0)]
        for element, index, (r, s, t) in self._found:
            indices.append(index)
            found.append(tensor(values[element], r, s, t))
        parts = self.mesh.comm.gather((np.concatenate(indices), np.concatenate(found)))
        if parts is None:
            return np.empty((0, 0))
        image = np.full(self._shape, np.nan)
        for index, part in parts:
            image.flat[index] = part
        return image

    def outline(self) -> Outline:
        """Where the plane cuts each boundary: segments [from x, from y, to x, to y] in the plane, on rank 0; empty
        elsewhere. (collective)"""
        kinds = np.asarray(self.mesh.boundaries)
        mine: Outline = {}
        nodes, _, _ = _weft.mesh.gll(self._shape_order)
        to = np.linspace(-1.0, 1.0, 2 * self._shape_order + 5)  # so that curved faces look curved
        matrix = np.asarray(_weft.mesh.interpolation(np.asarray(nodes), to))
        for number, name in enumerate(self.mesh.boundary_names, 1):
            faces = [self._nodes[face_points(face, np.flatnonzero(kinds[:, face] == number))] for face in range(6)]
            fine = np.einsum("ai,bj,fijc->fabc", matrix, matrix, np.concatenate(faces), optimize=True)
            cut = _cut(fine, self.axis, self.at)[..., self._sides]
            if len(cut):
                mine[name] = np.round(cut.reshape(-1, 4), 6).tolist()
        whole: Outline = {}
        for part in self.mesh.comm.gather(mine) or []:
            for name, segments in part.items():
                whole.setdefault(name, []).extend(segments)
        return whole


def _cut(faces: Floats, axis: int, at: float) -> Floats:
    """The segments [S][2][3] in which a plane cuts faces [F][n][n][3], whose cells are taken as two triangles each."""
    a, b, c, d = faces[:, :-1, :-1], faces[:, 1:, :-1], faces[:, :-1, 1:], faces[:, 1:, 1:]
    triangles = np.concatenate([np.stack(corners, axis=-2).reshape(-1, 3, 3) for corners in ((a, b, c), (d, c, b))])
    side = triangles[..., axis] >= at
    count = side.sum(axis=1)
    triangles, side = triangles[(count == 1) | (count == 2)], side[(count == 1) | (count == 2)]
    lone = np.where(side.sum(axis=1) == 1, side.argmax(axis=1), side.argmin(axis=1))  # the corner on its own side
    rows = np.arange(len(triangles))
    tip, first, second = (triangles[rows, (lone + k) % 3] for k in range(3))

    def crossing(other: Floats) -> Floats:
        share = (at - tip[:, axis]) / (other[:, axis] - tip[:, axis])
        return tip + share[:, None] * (other - tip)

    return np.stack([crossing(first), crossing(second)], axis=1)
