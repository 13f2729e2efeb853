"""Exact solutions of Maxwell's equations: eps dE/dt + sigma E = curl H, mu dH/dt = -curl E.

Each is harmonic in time: a phasor F(x, y, z) with six complex components, E first, and the real fields
Re(F exp(-i omega t)); so curl E = i omega mu H and curl H = (sigma - i omega eps) E. Lengths, eps and mu are in the
mesh's own units with c = 1 / sqrt(eps mu); eps = mu = 1 is vacuum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import special

Values = npt.NDArray[Any]

COMPONENTS = ("Ex", "Ey", "Ez", "Hx", "Hy", "Hz")


class Harmonic:
    """A field with one angular frequency (complex where it decays)."""

    omega: complex

    def phasor(self, x: Values, y: Values, z: Values, within: Sequence[Values] | None = None) -> Values:
        """[6][...] complex amplitudes at places of any one shape.

        ``within``: for each place one near it, off any interface, that says which material's value is meant.
        """
        raise NotImplementedError

    def fields(self, t: float, x: Values, y: Values, z: Values, within: Sequence[Values] | None = None) -> Values:
        """[6][...] Ex, Ey, Ez, Hx, Hy, Hz at time ``t``."""
        return np.real(self.phasor(x, y, z, within) * np.exp(-1j * self.omega * t))

    @property
    def period(self) -> float:
        """2 pi / the real part of omega; infinite where nothing oscillates."""
        return 2 * math.pi / abs(self.omega.real) if self.omega.real else math.inf


def _vector(electric: Sequence[Any], magnetic: Sequence[Any]) -> Values:
    return np.stack(np.broadcast_arrays(*electric, *magnetic)).astype(complex)


@dataclass
class PlaneWave(Harmonic):
    """E = p exp(i k . x) in a uniform medium; sigma > 0 damps it.

    ``polarization`` is complex where the wave is elliptic. ValueError unless it is normal to ``wavevector``.
    """

    wavevector: Sequence[float]
    polarization: Sequence[complex]
    epsilon: float = 1.0
    mu: float = 1.0
    sigma: float = 0.0

    def __post_init__(self) -> None:
        k, p = np.asarray(self.wavevector, float), np.asarray(self.polarization, complex)
        if not np.any(k) or not np.any(p):
            raise ValueError("a plane wave needs a wave vector and a polarization that are not 0")
        if abs(k @ p) > 1e-12 * np.linalg.norm(k) * np.linalg.norm(p):
            raise ValueError(f"polarization {list(self.polarization)} is not normal to the wave vector {k.tolist()}")
        # (sigma - i omega eps)(i omega mu) = -k^2
        damping = 0.5 * self.sigma / self.epsilon
        self.omega = -1j * damping + np.sqrt(complex(k @ k / (self.epsilon * self.mu) - damping**2))

    def phasor(self, x: Values, y: Values, z: Values, within: Sequence[Values] | None = None) -> Values:
        k, p = np.asarray(self.wavevector, float), np.asarray(self.polarization, complex)
        wave = np.exp(1j * (k[0] * x + k[1] * y + k[2] * z))
        h = np.cross(k, p) / (self.omega * self.mu)
        return _vector([c * wave for c in p], [c * wave for c in h])


@dataclass
class BoxMode(Harmonic):
    """A standing wave between perfectly conducting walls: the box from ``lower`` of edges ``lengths``.

    ``indices`` (m, n, p) are half waves in x, y and z; ``kind``: TE (Ez = 0) or TM (Hz = 0). ValueError for modes that
    vanish: TE needs p > 0 and m + n > 0, TM m > 0 and n > 0.
    """

    lengths: Sequence[float]
    indices: Sequence[int]
    kind: Literal["te", "tm"] = "te"
    lower: Sequence[float] = (0.0, 0.0, 0.0)
    epsilon: float = 1.0
    mu: float = 1.0

    def __post_init__(self) -> None:
        m, n, p = self.indices
        if min(m, n, p) < 0 or (self.kind == "te" and (p == 0 or m + n == 0)) or (self.kind == "tm" and m * n == 0):
            rule = "p > 0 and m + n > 0" if self.kind == "te" else "m > 0 and n > 0"
            raise ValueError(f"the {self.kind.upper()} mode {list(self.indices)} of a box vanishes; it needs {rule}")
        self.k = math.pi * np.asarray(self.indices) / np.asarray(self.lengths, float)
        self.omega = complex(np.linalg.norm(self.k) / math.sqrt(self.epsilon * self.mu))
        kx, ky, kz = self.k
        # E = (a cos sin sin, b sin cos sin, c sin sin cos) is free of divergence where k . (a, b, c) = 0.
        amplitude = np.array([-ky, kx, 0.0]) if self.kind == "te" else np.array([kx * kz, ky * kz, -kx * kx - ky * ky])
        self.amplitude = amplitude / np.linalg.norm(amplitude)

    def phasor(self, x: Values, y: Values, z: Values, within: Sequence[Values] | None = None) -> Values:
        (kx, ky, kz), (a, b, c) = self.k, self.amplitude
        places = [k * (place - low) for k, place, low in zip(self.k, (x, y, z), self.lower, strict=True)]
        (sx, sy, sz), (cx, cy, cz) = ([f(p) for p in places] for f in (np.sin, np.cos))
        electric = [a * cx * sy * sz, b * sx * cy * sz, c * sx * sy * cz]
        curl = [(ky * c - kz * b) * sx * cy * cz, (kz * a - kx * c) * cx * sy * cz, (kx * b - ky * a) * cx * cy * sz]
        return _vector(electric, [r / (1j * self.omega * self.mu) for r in curl])


@dataclass
class CylinderMode(Harmonic):
    """A wave along z inside a perfectly conducting cylinder round the z axis, of Bessel functions.

    J_m(k_c rho) exp(i (m phi + k_z z)) is Ez (``kind`` TM) or Hz (TE); k_c ``radius`` is the n-th zero of J_m or of its
    derivative. ``wavenumber`` is k_z: 2 pi times a whole number over the length where z is periodic. (Jackson,
    Classical Electrodynamics, 3rd ed., section 8.)
    """

    radius: float
    m: int = 1
    n: int = 1
    kind: Literal["te", "tm"] = "tm"
    wavenumber: float = 0.0
    epsilon: float = 1.0
    mu: float = 1.0

    def __post_init__(self) -> None:
        if self.m < 0 or self.n < 1:
            raise ValueError(f"a cylinder's mode has m >= 0 and n >= 1, found m = {self.m}, n = {self.n}")
        zeros = special.jn_zeros if self.kind == "tm" else special.jnp_zeros
        self.cutoff = float(zeros(self.m, self.n)[-1]) / self.radius
        self.omega = complex(math.hypot(self.cutoff, self.wavenumber) / math.sqrt(self.epsilon * self.mu))

    def phasor(self, x: Values, y: Values, z: Values, within: Sequence[Values] | None = None) -> Values:
        kc, kz, m = self.cutoff, self.wavenumber, self.m
        rho, turn = np.hypot(x, y), np.exp(1j * np.arctan2(y, x))
        along = np.exp(1j * kz * z)
        psi = special.jv(m, kc * rho) * turn**m * along
        # (d/dx +- i d/dy) J_m(k rho) exp(i m phi) = -+ k J_(m+-1) exp(i (m +- 1) phi)
        up = -kc * special.jv(m + 1, kc * rho) * turn ** (m + 1) * along
        down = kc * special.jv(m - 1, kc * rho) * turn ** (m - 1.0) * along
        dx, dy = 0.5 * (up + down), -0.5j * (up - down)
        if self.kind == "tm":
            a, b = 1j * kz / kc**2, 1j * self.omega * self.epsilon / kc**2
            return _vector([a * dx, a * dy, psi], [-b * dy, b * dx, 0 * psi])
        a, b = 1j * kz / kc**2, 1j * self.omega * self.mu / kc**2
        return _vector([b * dy, -b * dx, 0 * psi], [a * dx, a * dy, psi])


@dataclass
class LayeredMode(Harmonic):
    """A wave in layers across x between perfectly conducting walls at both ends, travelling along y.

    ``layers``: (thickness, epsilon, mu) from ``lower`` on. ``polarization`` ``s``: Ez = f(x) exp(i k_y y), with f and
    f' / mu continuous; ``p``: Hz = f(x) exp(i k_y y), with f and f' / epsilon continuous, so that normal E jumps.
    ``index`` counts the frequencies, from 1 (for p with k_y = 0 the static one is left out).
    """

    layers: Sequence[tuple[float, float, float]]
    wavenumber: float = 0.0
    polarization: Literal["s", "p"] = "s"
    index: int = 1
    lower: float = 0.0
    starts: list[float] = field(init=False)

    def __post_init__(self) -> None:
        if self.index < 1 or not self.layers or min(min(layer) for layer in self.layers) <= 0:
            raise ValueError("layers need thickness, epsilon and mu above 0, and the mode an index of at least 1")
        self.starts = [self.lower, *(self.lower + d for d in itertools.accumulate(layer[0] for layer in self.layers))]
        # Between two frequencies lies at least pi / (2 x optical length) at k_y = 0; steps far below find them all.
        optical = sum(d * math.sqrt(e * m) for d, e, m in self.layers)
        step = math.pi / optical / 40
        low = max(1e-3 * step, abs(self.wavenumber) / max(math.sqrt(e * m) for _, e, m in self.layers) * 0.999)
        found, value = 0, self._mismatch(low)
        while True:
            high = low + step
            after = self._mismatch(high)
            if value * after < 0:
                found += 1
                if found == self.index:
                    break
            low, value = high, after
        from scipy import optimize  # takes longer than the rest of what a run imports

        self.omega = complex(optimize.brentq(self._mismatch, low, high, xtol=1e-15, rtol=1e-15))

    def _weight(self, layer: tuple[float, float, float]) -> float:
        return layer[2] if self.polarization == "s" else layer[1]

    def _start(self) -> Values:
        """f and f' / weight at the first wall: E tangential to it is 0."""
        return np.array([0.0, 1.0]) if self.polarization == "s" else np.array([1.0, 0.0])

    def _transfer(self, layer: tuple[float, float, float], omega: float, depth: Any) -> Values:
        """[2][2][...] from the start of a layer to ``depth`` into it."""
        kappa = np.sqrt(complex(omega**2 * layer[1] * layer[2] - self.wavenumber**2))
        weight = self._weight(layer)
        cosine, sine = np.cos(kappa * depth), np.sin(kappa * depth)
        over = depth * np.ones_like(sine) if abs(kappa) < 1e-12 else sine / kappa
        return np.real(np.array([[cosine, weight * over], [-kappa * sine / weight, cosine]]))

    def _mismatch(self, omega: float) -> float:
        state = self._start()
        for layer in self.layers:
            state = self._transfer(layer, omega, layer[0]) @ state
        return float(state[0] if self.polarization == "s" else state[1])

    def phasor(self, x: Values, y: Values, z: Values, within: Sequence[Values] | None = None) -> Values:
        x, y, z = np.broadcast_arrays(x, y, z)
        omega, state = self.omega.real, self._start()
        f, slope, epsilon, mu = (np.zeros(x.shape) for _ in range(4))
        inside = x if within is None else np.broadcast_to(within[0], x.shape)
        which = np.clip(np.searchsorted(self.starts, inside, side="right") - 1, 0, len(self.layers) - 1)
        for number, layer in enumerate(self.layers):
            here = which == number
            value = np.tensordot(self._transfer(layer, omega, x[here] - self.starts[number]), state, axes=(1, 0))
            f[here], slope[here] = value[0], value[1]  # f and f' / weight
            epsilon[here], mu[here] = layer[1], layer[2]
            state = self._transfer(layer, omega, layer[0]) @ state
        wave = np.exp(1j * self.wavenumber * y)
        across = 1j * self.wavenumber * f * wave
        zero = np.zeros(x.shape)
        if self.polarization == "s":  # H = curl E / (i omega mu)
            h = [across / (1j * omega * mu), -slope * wave / (1j * omega), zero]
            return _vector([zero, zero, f * wave], h)
        e = [across / (-1j * omega * epsilon), -slope * wave / (-1j * omega), zero]
        return _vector(e, [zero, zero, f * wave])
