"""Properties of a link from ping-pong times: latency, bandwidth, n1/2, and sizes where one path overtakes another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls


@dataclass(frozen=True)
class Link:
    """t(n) = alpha + n / beta: Hockney's model of a message of n bytes.

    ``alpha`` in seconds, ``beta`` in bytes per second, ``error`` the largest |t(n) / measured - 1| of the fit.
    """

    alpha: float
    beta: float
    error: float

    @property
    def half(self) -> float:
        """n1/2 = alpha beta: the bytes at which half of beta is reached."""
        return self.alpha * self.beta

    def seconds(self, size: float) -> float:
        """Time of a message."""
        return self.alpha + size / self.beta


def fit(sizes: Sequence[float], seconds: Sequence[float]) -> Link:
    """Fits alpha >= 0 and beta > 0 by least squares of *relative* errors, so that small and large sizes count alike.

    Raises ValueError for fewer than two sizes or a time that is not positive.
    """
    n, t = np.asarray(sizes, dtype=float), np.asarray(seconds, dtype=float)
    if len(set(n.tolist())) < 2 or n.shape != t.shape or not (t > 0).all():
        raise ValueError("a fit needs two sizes and positive times")
    scale = n.max()  # both unknowns of the same order
    (alpha, slope), _ = nnls(np.column_stack([1 / t, n / scale / t]), np.ones_like(t))
    model = alpha + slope * n / scale
    beta = scale / slope if slope > 0 else float("inf")
    return Link(float(alpha), float(beta), float(np.max(np.abs(model / t - 1))))


@dataclass(frozen=True)
class Point:
    """One size of a path: median and quartiles in seconds."""

    size: int
    low: float
    seconds: float
    high: float


@dataclass(frozen=True)
class Crossover:
    """From about ``size`` bytes on, ``faster`` is the fastest path; below, ``slower`` is."""

    size: float
    slower: str
    faster: str


def crossovers(curves: Mapping[str, Sequence[Point]]) -> tuple[str, list[Crossover]]:
    """The fastest path at the smallest size, and the sizes at which another one takes over.

    Another path takes over only if it is clearly faster: its upper quartile is below the lower quartile of the leading
    path. The size is where the two medians meet, between this size and the one before, on logarithmic scales. All
    curves have the same sizes.
    """
    names = list(curves)
    count = len(curves[names[0]])
    leader = min(names, key=lambda name: curves[name][0].seconds)
    found = []
    for i in range(count):
        best = min(names, key=lambda name: curves[name][i].seconds)
        if best == leader or curves[best][i].high >= curves[leader][i].low:
            continue
        size = float(curves[best][i].size)
        if i > 0:
            before = np.log(curves[best][i - 1].seconds / curves[leader][i - 1].seconds)
            after = np.log(curves[best][i].seconds / curves[leader][i].seconds)
            previous = float(curves[best][i - 1].size)
            if before > 0 > after:
                size = previous * (size / previous) ** float(before / (before - after))
        found.append(Crossover(size, leader, best))
        leader = best
    return min(names, key=lambda name: curves[name][0].seconds), found


def lower_bound(traffic: Mapping[str, float], links: Mapping[str, tuple[float, float]]) -> float:
    """The minimum time in which a rank can send these bytes, given by kind of link ("within" a node, "between" nodes).

    It is one latency plus the time of all bytes at full bandwidth: the maximum over the kinds of alpha + bytes / beta,
    with (alpha, beta) of each link measured alone. Messages of different kinds may overlap; those of one kind share its
    bandwidth.
    """
    return max((links[k][0] + size / links[k][1] for k, size in traffic.items() if size > 0), default=0.0)
