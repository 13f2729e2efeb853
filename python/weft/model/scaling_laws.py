"""Laws of a quantity against ranks and problem size, fitted to few points and chosen by cross-validation.

A law is a sum of one or two terms with coefficients not below zero. With P ranks and n points per rank, the terms are
1, log2 P, P^a, the surface n^(2/3) and the volume n of a rank's part, and n log2 P. Coefficients minimise relative
errors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from weft.model.result import ModelError

Floats = NDArray[np.float64]
FEWEST = 3  # distinct numbers of ranks or sizes: two to fit a law, one to check it
WORST = 4.0  # error (distance of logarithms) of a law that predicts nothing


def _power(exponent: float) -> Callable[[Floats, Floats], Floats]:
    return lambda ranks, _: ranks**exponent


TERMS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "1": lambda ranks, _: np.ones_like(ranks),
    "log2 P": lambda ranks, _: np.log2(ranks),
    "P^(1/3)": _power(1 / 3),
    "P^(1/2)": _power(1 / 2),
    "P^(2/3)": _power(2 / 3),
    "P": _power(1),
    "n^(2/3)": lambda _, size: size ** (2 / 3),
    "n": lambda _, size: size,
    "n log2 P": lambda ranks, size: size * np.log2(ranks),
}
NAMES = {"1": "constant", "n^(2/3)": "surface", "n": "volume"}
Law = tuple[str, ...]
LAWS: tuple[Law, ...] = (*((t,) for t in TERMS), *itertools.combinations(TERMS, 2))


@dataclass(frozen=True)
class Data:
    """Values above zero at points: P ranks, n points per rank. Points may repeat."""

    ranks: Floats
    size: Floats
    values: Floats

    def take(self, chosen: NDArray[np.bool_]) -> Data:
        """Some of the points."""
        return Data(self.ranks[chosen], self.size[chosen], self.values[chosen])

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """The index of the distinct (P, n) of each point, ascending in P, then in P n."""
        pairs = np.stack([self.ranks, self.ranks * self.size], axis=1)
        return np.asarray(np.unique(pairs, axis=0, return_inverse=True)[1], np.int64).reshape(-1)


def _columns(law: Law, ranks: Floats, size: Floats) -> Floats:
    return np.stack([TERMS[t](ranks, size) for t in law], axis=1)


def _fit(law: Law, data: Data) -> Floats | None:
    """The coefficients of a law, not below zero; None if the points cannot tell its terms apart."""
    design = _columns(law, data.ranks, data.size) / data.values[:, None]
    norms = np.linalg.norm(design, axis=0)
    if not (norms > 0).all() or (len(law) > 1 and np.linalg.cond(design / norms) > 1e4):
        return None
    found, _ = nnls(design / norms, np.ones(len(data.values)))
    return found / norms if found.any() else None


def _folds(places: NDArray[np.int64]) -> list[NDArray[np.bool_]]:
    """The folds of the cross-validation: each place alone, and the last two, three, … as long as FEWEST remain."""
    count = int(places.max()) + 1
    single = [places == k for k in range(count)]
    return single + [places >= k for k in range(FEWEST, count - 1)]


@dataclass(frozen=True)
class Candidate:
    """A law with its coefficients, the fits without each fold, and their errors (distances of logarithms)."""

    law: Law
    coefficients: Floats
    folds: tuple[tuple[Floats, float], ...]  # coefficients without a fold, and the largest error there
    errors: Floats  # of all held-out points

    @property
    def score(self) -> float:
        """The mean squared error of the held-out points.

        It is rounded, so that laws that agree at the measured points tie, and the first one wins.
        """
        return float(f"{max(np.mean(self.errors**2), 1e-20):.6g}")

    def at(self, ranks: float, size: float, coefficients: Floats | None = None) -> float:
        """The value of the law, with its own coefficients or with those of a fold."""
        used = self.coefficients if coefficients is None else coefficients
        return float(_columns(self.law, np.array([float(ranks)]), np.array([float(size)]))[0] @ used)

    @property
    def text(self) -> str:
        """The law as a formula with its name."""
        terms = [f"{c:.3g}" if t == "1" else f"{c:.3g} {t}" for t, c in zip(self.law, self.coefficients, strict=True)]
        names = [NAMES[t] for t in self.law if t in NAMES]
        return " + ".join(terms) + (f" ({', '.join(names)})" if names else "")


@dataclass(frozen=True)
class Fitted:
    """The best law, those that fit about as well, and the points that they were fitted to."""

    data: Data
    candidates: tuple[Candidate, ...]

    @property
    def error(self) -> float:
        """The root mean squared relative error of the held-out points."""
        return math.expm1(math.sqrt(self.candidates[0].score))

    def at(self, ranks: float, size: float) -> tuple[float, float, float]:
        """The value at P ranks and n points per rank, and the lowest and highest that the fits allow.

        Every law that fits about as well, fitted without each fold, is moved by its error on that fold (the
        jackknife+ of Barber et al. 2021). The error grows as a random walk with each doubling outside the measurements.
        """
        value = self.candidates[0].at(ranks, size)
        outside = _doublings(ranks, self.data.ranks) + _doublings(size, self.data.size)
        low = high = value
        for candidate in self.candidates:
            for coefficients, error in candidate.folds:
                there = candidate.at(ranks, size, coefficients)
                move = math.exp(min(error * math.sqrt(1 + outside), 50.0))
                low, high = min(low, there / move), max(high, there * move)
        return value, low, high


def _doublings(value: float, measured: Floats) -> float:
    return max(0.0, math.log2(value / measured.max()), math.log2(measured.min() / value))


def _candidate(law: Law, data: Data, folds: Sequence[NDArray[np.bool_]]) -> Candidate | None:
    coefficients = _fit(law, data)
    if coefficients is None or not (coefficients > 0).all():  # a law with fewer terms is the same
        return None
    fits, errors = [], []
    for held in folds:
        found = _fit(law, data.take(~held))
        if found is None:  # the rest does not determine the law, or not all of its terms
            errors.append(np.full(int(held.sum()), WORST))
            continue
        out = data.take(held)
        predicted = np.maximum(_columns(law, out.ranks, out.size) @ found, out.values * math.exp(-WORST))
        distance = np.abs(np.log(predicted / out.values))
        fits.append((found, float(distance.max())))
        errors.append(distance)
    return Candidate(law, coefficients, tuple(fits), np.concatenate(errors))


def fit(ranks: Sequence[float], size: Sequence[float], values: Sequence[float], what: str = "the time") -> Fitted:
    """The law of some values against ranks and points per rank, chosen by cross-validation.

    Each distinct point is held out in turn, and the largest two, three, … together, because a law serves to predict
    larger ones. The law with the smallest mean squared error is chosen; those within one standard error of it (Breiman
    et al. 1984) widen the range. Raises ModelError for fewer than FEWEST distinct points, and for values that
    are not above zero.
    """
    data = Data(*(np.asarray(x, np.float64) for x in (ranks, size, values)))
    distinct = int(data.places.max(initial=-1)) + 1
    if distinct < FEWEST:
        raise ModelError(
            f"{what} is known at {distinct} distinct number{'s' * (distinct != 1)} of ranks or sizes, but at least "
            f"{FEWEST} are needed: two to fit a law, and one to check it"
        )
    wrong = data.values[~(np.isfinite(data.values) & (data.values > 0))]
    if len(wrong):
        raise ModelError(f"{what} is {wrong[0]:g} in a run, but a law needs finite values above zero")
    folds = _folds(data.places)
    found = [c for c in (_candidate(law, data, folds) for law in LAWS) if c is not None]
    best = min(found, key=lambda c: c.score)
    margin = best.score + float(np.std(best.errors**2)) / math.sqrt(len(best.errors))
    good = [c for c in found if c.score <= margin]
    if distinct == FEWEST:  # one check is too few for laws with two terms: the best law with one also counts
        good.append(min((c for c in found if len(c.law) == 1), key=lambda c: c.score))
    return Fitted(data, tuple(sorted(good, key=lambda c: c.score)))
