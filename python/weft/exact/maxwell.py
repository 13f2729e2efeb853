"""Exact solutions of Maxwell's equations: eps dE/dt + sigma E = curl H, mu dH/dt = -curl E.

Each solution is harmonic in time. It has a phasor F(x, y, z) with six complex components, those of E first, and the
real fields are Re(F exp(-i omega t)), so that curl E = i omega mu H and curl H = (sigma - i omega eps) E. Lengths, eps
and mu are in the units of the mesh, with c = 1 / sqrt(eps mu); vacuum has eps = mu = 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Phasor = npt.NDArray[np.complex128]

COMPONENTS = ("Ex", "Ey", "Ez", "Hx", "Hy", "Hz")


class Harmonic:
    """A field with a single angular frequency, which is complex if the field decays."""

    omega: complex

    def phasor(self, x: Values, y: Values, z: Values, within: Sequence[Values] | None = None) -> Phasor:
        """The complex amplitudes [6][...] at places given by arrays of the same shape.

        ``within`` gives, for each place, a nearby place away from any interface, which selects the material whose value
        is returned.
        """
        raise NotImplementedError

    def fields(self, t: float, x: Values, y: Values, z: Values, within: Sequence[Values] | None = None) -> Values:
        """The fields Ex, Ey, Ez, Hx, Hy, Hz at time ``t``: [6][...]."""
        return np.real(self.phasor(x, y, z, within) * np.exp(-1j * self.omega * t))

    @property
    def period(self) -> float:
        """The period 2 pi / Re(omega); infinite if nothing oscillates."""
        return 2 * math.pi / abs(self.omega.real) if self.omega.real else math.inf


def _vector(electric: Sequence[Values | Phasor], magnetic: Sequence[Values | Phasor]) -> Phasor:
    return np.stack(np.broadcast_arrays(*electric, *magnetic)).astype(complex)


@dataclass
class PlaneWave(Harmonic):
    """The plane wave E = p exp(i k . x) in a uniform medium, which sigma > 0 damps.

    A complex ``polarization`` makes the wave elliptic. Raises ValueError unless it is normal to ``wavevector``.
    """

    wavevector: Sequence[float]
    polarization: Sequence[complex]
    epsilon: float = 1.0
    mu: float = 1.0
    sigma: float = 0.0

    def __post_init__(self) -> None:
        k, p = np.asarray(self.wavevector, float), np.asarray(self.polarization, complex)
        if not np.any(k) or not np.any(p):
            raise ValueError("the wave vector and the polarization of a plane wave must not be 0")
        if abs(k @ p) > 1e-12 * np.linalg.norm(k) * np.linalg.norm(p):
            raise ValueError(f"polarization {list(self.polarization)} is not normal to the wave vector {k.tolist()}")
        # (sigma - i omega eps)(i omega mu) = -k^2
        damping = 0.5 * self.sigma / self.epsilon
        self.omega = -1j * damping + np.sqrt(complex(k @ k / (self.epsilon * self.mu) - damping**2))

    def phasor(self, x: Values, y: Values, z: Values, within: Sequence[Values] | None = None) -> Phasor:
        k, p = np.asarray(self.wavevector, float), np.asarray(self.polarization, complex)
        wave = np.exp(1j * (k[0] * x + k[1] * y + k[2] * z))
        h = np.cross(k, p) / (self.omega * self.mu)
        return _vector([c * wave for c in p], [c * wave for c in h])


@dataclass
class BoxMode(Harmonic):
    """A standing wave in a box with perfectly conducting walls, which begins at ``lower`` and has edges ``lengths``.

    ``indices`` (m, n, p) are the numbers of half waves in x, y and z; ``kind`` is TE (Ez = 0) or TM (Hz = 0). Raises
    ValueError for modes that vanish: TE modes need p > 0 and m + n > 0, TM modes m > 0 and n > 0.
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
            raise ValueError(
                f"the {self.kind.upper()} mode {list(self.indices)} of a box vanishes; the indices must satisfy {rule}"
            )
        self.k = math.pi * np.asarray(self.indices) / np.asarray(self.lengths, float)
        self.omega = complex(np.linalg.norm(self.k) / math.sqrt(self.epsilon * self.mu))
        kx, ky, kz = self.k
        # E = (a cos sin sin, b sin cos sin, c sin sin cos) is free of divergence if k . (a, b, c) = 0.
        amplitude = np.array([-ky, kx, 0.0]) if self.kind == "te" else np.array([kx * kz, ky * kz, -kx * kx - ky * ky])
        self.amplitude = amplitude / np.linalg.norm(amplitude)

    def phasor(self, x: Values, y: Values, z: Values, within: Sequence[Values] | None = None) -> Phasor:
        (kx, ky, kz), (a, b, c) = self.k, self.amplitude
        places = [k * (place - low) for k, place, low in zip(self.k, (x, y, z), self.lower, strict=True)]
        (sx, sy, sz), (cx, cy, cz) = ([f(p) for p in places] for f in (np.sin, np.cos))
        electric = [a * cx * sy * sz, b * sx * cy * sz, c * sx * sy * cz]
        curl = [(ky * c - kz * b) * sx * cy * cz, (kz * a - kx * c) * cx * sy * cz, (kx * b - ky * a) * cx * cy * sz]
        return _vector(electric, [r / (1j * self.omega * self.mu) for r in curl])


@dataclass
class CylinderMode(Harmonic):
    """A wave along z inside a perfectly conducting cylinder around the z axis.

    J_m(k_c rho) exp(i (m phi + k_z z)) is Ez (``kind`` TM) or Hz (TE), where k_c ``radius`` is the n-th zero of J_m or
    of its derivative. ``wavenumber`` is k_z; on a mesh that is periodic in z, it must be a multiple of 2 pi over the
    length. (Jackson, Classical Electrodynamics, 3rd ed., section 8.)
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
            raise ValueError(f"the mode of a cylinder has m = {self.m} and n = {self.n}, but needs m >= 0 and n >= 1")
        from scipy.special import jn_zeros, jnp_zeros

        zeros = jn_zeros if self.kind == "tm" else jnp_zeros
        self.cutoff = float(zeros(self.m, self.n)[-1]) / self.radius
        self.omega = complex(math.hypot(self.cutoff, self.wavenumber) / math.sqrt(self.epsilon * self.mu))

    def phasor(self, x: Values, y: Values, z: Values, within: Sequence[Values] | None = None) -> Phasor:
        from scipy.special import jv

        kc, kz, m = self.cutoff, self.wavenumber, self.m
        rho, turn = np.hypot(x, y), np.exp(1j * np.arctan2(y, x))
        along = np.exp(1j * kz * z)
        psi = jv(m, kc * rho) * turn**m * along
        # (d/dx +- i d/dy) J_m(k rho) exp(i m phi) = -+ k J_(m+-1) exp(i (m +- 1) phi)
        up = -kc * jv(m + 1, kc * rho) * turn ** (m + 1) * along
        down = kc * jv(m - 1, kc * rho) * turn ** (m - 1.0) * along
        dx, dy = 0.5 * (up + down), -0.5j * (up - down)
        if self.kind == "tm":
            a, b = 1j * kz / kc**2, 1j * self.omega * self.epsilon / kc**2
            return _vector([a * dx, a * dy, psi], [-b * dy, b * dx, 0 * psi])
        a, b = 1j * kz / kc**2, 1j * self.omega * self.mu / kc**2
        return _vector([b * dy, -b * dx, 0 * psi], [a * dx, a * dy, psi])


@dataclass
class LayeredMode(Harmonic):
    """A wave that travels along y in layers normal to x, with perfectly conducting walls at both ends.

    ``layers`` are (thickness, epsilon, mu), starting at ``lower``. For ``polarization`` ``s``, Ez = f(x) exp(i k_y y)
    with f and f' / mu continuous. For ``p``, Hz = f(x) exp(i k_y y) with f and f' / epsilon continuous, so that the
    normal component of E jumps. ``index`` counts the frequencies from 1, without the static one for p and k_y = 0.
    """

    layers: Sequence[tuple[float, float, float]]
    wavenumber: float = 0.0
    polarization: Literal["s", "p"] = "s"
    index: int = 1
    lower: float = 0.0
    starts: list[float] = field(init=False)

    def __post_init__(self) -> None:
        if self.index < 1 or not self.layers or min(min(layer) for layer in self.layers) <= 0:
            raise ValueError("the thickness, epsilon and mu of layers must be above 0, and the index at least 1")
        self.starts = [self.lower, *(self.lower + d for d in itertools.accumulate(layer[0] for layer in self.layers))]
        # Frequencies are at least pi / (2 x optical length) apart at k_y = 0, so much smaller steps find them all.
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
        from scipy import optimize  # imported here because it takes longer than all other imports of a run

        self.omega = complex(optimize.brentq(self._mismatch, low, high, xtol=1e-15, rtol=1e-15))

    def _weight(self, layer: tuple[float, float, float]) -> float:
        return layer[2] if self.polarization == "s" else layer[1]

    def _start(self) -> Values:
        """f and f' / weight at the first wall, where the tangential component of E is 0."""
        return np.array([0.0, 1.0]) if self.polarization == "s" else np.array([1.0, 0.0])

    def _transfer(self, layer: tuple[float, float, float], omega: float, depth: float | Values) -> Values:
        """The transfer matrix [2][2][...] from the start of a layer to ``depth`` inside it."""
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

    def phasor(self, x: Values, y: Values, z: Values, within: Sequence[Values] | None = None) -> Phasor:
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
