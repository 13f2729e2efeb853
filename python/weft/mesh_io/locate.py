"""Search for places in a mesh: their elements and reference coordinates, and interpolation there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from weft import _weft
from weft.mesh import Mesh

Floats = npt.NDArray[np.float64]

# Reference coordinates this far outside an element count as inside, because faces of curved elements are inexact.
SLACK = 1e-6


def lagrange(order: int, at: Floats) -> tuple[Floats, Floats]:
    """The Lagrange polynomials on the GLL points and their derivatives at places in [-1, 1]: [points][order + 1]."""
    nodes, _, derivative = _weft.mesh.gll(order)
    values = np.asarray(_weft.mesh.interpolation(np.asarray(nodes), np.ascontiguousarray(at)))
    return values, values @ np.asarray(derivative)


class Locator:
    """Finds places in the elements of this rank, by Newton's method on the shapes of the elements at an order.

    ``order`` becomes 1 if all edges are straight, because such elements are the images of their corners.
    """

    def __init__(self, mesh: Mesh, order: int) -> None:
        self.order = 1 if mesh.straight else order
        n = self.order + 1
        self.points = np.asarray(_weft.mesh.gll(self.order)[0])
        self.nodes = np.asarray(mesh.point_coordinates(self.order)).reshape(-1, n, n, n, 3)
        flat = self.nodes.reshape(len(self.nodes), -1, 3)
        # A curved element can extend slightly beyond its nodes.
        self.low, self.high = flat.min(axis=1), flat.max(axis=1)
        margin = 0.05 * (self.high - self.low).max(axis=1, keepdims=True)
        self.low, self.high = self.low - margin, self.high + margin

    def find(self, places: Floats) -> Iterator[tuple[int, npt.NDArray[np.int64], Floats]]:
        """Yields each element that contains some of the places [P][3], with the indices and the reference coordinates
        [K][3] of these places."""
        # Only elements whose boxes meet the box of all places, and for each only the places between its bounds along
        # the direction in which the places extend most: the work grows with what is found, not with all pairs.
        along = int(np.ptp(places, axis=0).argmax()) if len(places) else 0
        order = np.argsort(places[:, along], kind="stable")
        places = places[order]
        boxes = (self.low <= places.max(axis=0, initial=-np.inf)) & (self.high >= places.min(axis=0, initial=np.inf))
        elements = np.flatnonzero(boxes.all(axis=1))
        first = np.searchsorted(places[:, along], self.low[elements, along], "left")
        last = np.searchsorted(places[:, along], self.high[elements, along], "right")
        left = np.ones(len(places), bool)
        for element, begin, end in zip(elements.tolist(), first, last, strict=True):
            part = places[begin:end]
            near = left[begin:end] & ((part >= self.low[element]) & (part <= self.high[element])).all(axis=1)
            index = begin + np.flatnonzero(near)
            if len(index) == 0:
                continue
            at, inside = self._invert(element, places[index])
            if inside.any():
                left[index[inside]] = False
                yield element, order[index[inside]], at[inside]

    def _invert(self, element: int, places: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
        size = (self.high[element] - self.low[element]).max()
        at, miss = self._newton(element, places, np.zeros_like(places))
        # From the middle of a strongly curved element Newton's method may diverge: start again at the nearest node.
        lost = np.flatnonzero(~(miss < 1e-6 * size))
        if len(lost):
            nodes = self.nodes[element].reshape(-1, 3)
            nearest = np.array([((nodes - place) ** 2).sum(axis=1).argmin() for place in places[lost]])
            k, j, i = np.unravel_index(nearest, self.nodes.shape[1:4])
            at[lost], miss[lost] = self._newton(element, places[lost], self.points[np.stack([i, j, k], axis=1)])
        return np.clip(at, -1, 1), (np.abs(at) <= 1 + SLACK).all(axis=1) & (miss < 1e-6 * size)

    def _newton(self, element: int, places: Floats, at: Floats) -> tuple[Floats, Floats]:
        """Reference coordinates [P][3], from a first guess, and how far from the places they lead [P]."""
        nodes = self.nodes[element]
        for _ in range(20):
            (r, dr), (s, ds), (t, dt) = (lagrange(self.order, np.clip(c, -1.5, 1.5)) for c in at.T)
            x = tensor(nodes, r, s, t)
            jacobian = np.stack([tensor(nodes, dr, s, t), tensor(nodes, r, ds, t), tensor(nodes, r, s, dt)], axis=-1)
            miss = places - x
            with np.errstate(all="ignore"):
                step = np.linalg.solve(jacobian + 1e-300 * np.eye(3), miss[..., None])[..., 0]
            at = np.clip(at + np.nan_to_num(step), -1.5, 1.5)
            if np.abs(step).max() < 1e-12:
                break
        return at, np.abs(miss).max(axis=1)


def tensor(values: npt.NDArray[np.floating], r: Floats, s: Floats, t: Floats) -> Floats:
    """Interpolates values [k][j][i][...] with the polynomials r, s, t [points][n] of each point: [points][...]."""
    count, n = r.shape
    lines = (t @ values.reshape(n, -1)).reshape(count, n, -1)
    lines = np.einsum("pj,pjm->pm", s, lines).reshape(count, n, -1)
    return np.asarray(np.einsum("pi,pic->pc", r, lines)).reshape(count, *values.shape[3:])
