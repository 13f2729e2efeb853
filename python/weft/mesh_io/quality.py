"""The quality of the elements of a mesh, and the areas of its boundaries.

Bad elements are not an error here, because this module serves to find them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft import _weft
from weft.arrays import Values
from weft.mesh import Mesh
from weft.mesh_io.raw import EDGE_CORNERS

CHUNK = 2**21  # points at a time, which bounds the memory of the Jacobians


@dataclass(frozen=True)
class Quality:
    """Figures of each element [E]."""

    order: int  # of the Gauss-Lobatto-Legendre points at which Jacobians are sampled
    #: smallest Jacobian over the product of the lengths of its three columns: 1 for cuboids, 0 or less if folded
    scaled_jacobian: Values
    #: smallest over largest Jacobian: 1 for parallelepipeds
    jacobian_ratio: Values
    #: longest over shortest edge, between the corners
    edge_ratio: Values
    volumes: Values
    centres: Values  # [E][3]


def sampling_order(mesh: Mesh) -> int:
    """The order at which ``quality`` samples the elements of a mesh."""
    return min(10, max(3, 2 * mesh.geometry_order))


def quality(mesh: Mesh) -> Quality:
    """The quality of this rank's elements, by number in the file."""
    order = sampling_order(mesh)
    _, weights, derivative = _weft.mesh.gll(order)
    x = np.asarray(mesh.point_coordinates(order)).reshape(-1, *[order + 1] * 3, 3)
    x = x[np.argsort(mesh.element_ids)]
    weight = np.einsum("k,j,i->kji", weights, weights, weights)
    scaled, ratio, volumes = (np.empty(len(x)) for _ in range(3))
    step = max(1, CHUNK // (order + 1) ** 3)
    for start in range(0, len(x), step):
        part = slice(start, start + step)
        r, s, t = (np.moveaxis(np.tensordot(derivative, x[part], axes=(1, axis)), 0, axis) for axis in (3, 2, 1))
        jacobian = np.einsum("...d,...d->...", np.cross(r, s), t)
        lengths = np.prod([np.linalg.norm(column, axis=-1) for column in (r, s, t)], axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled[part] = np.nan_to_num(jacobian / lengths, nan=0.0).min(axis=(1, 2, 3))
            ratio[part] = np.nan_to_num(jacobian.min(axis=(1, 2, 3)) / np.abs(jacobian).max(axis=(1, 2, 3)), nan=0.0)
        volumes[part] = np.einsum("ekji,kji->e", jacobian, weight)
    corners = x[:, ::order, ::order, ::order].reshape(-1, 8, 3)
    edges = np.linalg.norm(corners[:, EDGE_CORNERS[:, 1]] - corners[:, EDGE_CORNERS[:, 0]], axis=2)
    return Quality(order, scaled, ratio, edges.max(axis=1) / edges.min(axis=1), volumes, corners.mean(axis=1))


def face_points(mesh: Mesh, order: int) -> Values:
    """The points of an order on the faces of this rank's elements, by number in the file: [E][6][n][n][3]."""
    x = np.asarray(mesh.point_coordinates(order)).reshape(-1, *[order + 1] * 3, 3)
    x = x[np.argsort(mesh.element_ids)]
    faces = [x[:, :, :, 0], x[:, :, :, -1], x[:, :, 0], x[:, :, -1], x[:, 0], x[:, -1]]
    return np.stack(faces, axis=1)


def areas(mesh: Mesh) -> dict[str, tuple[int, float]]:
    """The number and the area of the faces on this rank, for each boundary that has some."""
    order = min(10, mesh.geometry_order + 2)
    _, weights, derivative = _weft.mesh.gll(order)
    kinds = np.asarray(mesh.boundaries)[np.argsort(mesh.element_ids)]
    points = face_points(mesh, order)[kinds > 0]
    along = np.einsum("ab,fcbd->fcad", derivative, points)
    across = np.einsum("ab,fbcd->facd", derivative, points)
    sizes = np.einsum("fba,b,a->f", np.linalg.norm(np.cross(along, across), axis=-1), weights, weights)
    found = {}
    for index, name in enumerate(mesh.boundary_names, 1):
        mine = kinds[kinds > 0] == index
        if mine.any():
            found[name] = int(mine.sum()), float(sizes[mine].sum())
    return found
