"""Scattering of a plane wave by a sphere (Mie series): the fields everywhere, and the efficiencies.

Equation numbers refer to Bohren and Huffman, Absorption and Scattering of Light by Small Particles (1983), chapter 4.
The time dependence is exp(-i omega t), and the medium outside the sphere has eps = mu = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weft.exact.maxwell import Harmonic, Phasor, PlaneWave, Values


@dataclass
class Sphere(Harmonic):
    """A sphere around the origin in the incident wave E = p exp(i k . x + i phase).

    ``conducting`` makes it a perfect conductor. ``terms`` is the number of terms of the series, by default Wiscombe's
    x + 4 x^(1/3) + 2 for the size parameter x, plus 8 for near fields.
    """

    radius: float
    wavevector: Sequence[float]
    polarization: Sequence[float]
    epsilon: float = 1.0
    mu: float = 1.0
    conducting: bool = False
    phase: float = 0.0
    terms: int = 0

    def __post_init__(self) -> None:
        turned = np.asarray(self.polarization, float) * np.exp(1j * self.phase)
        self.incident = PlaneWave(self.wavevector, turned.tolist())
        self.k = float(np.linalg.norm(self.wavevector))
        self.omega = complex(self.k)
        x = self.k * self.radius
        count = self.terms or int(np.ceil(x + 4 * x ** (1 / 3) + 2)) + 8
        self.n = np.arange(1, count + 1)
        # Rows: the directions called x, y and z in the book.
        p, k = np.asarray(self.polarization, float), np.asarray(self.wavevector, float)
        self.amplitude = float(np.linalg.norm(p))
        self.axes = np.stack([p / self.amplitude, np.cross(k, p) / (self.k * self.amplitude), k / self.k])
        self._coefficients(x)

    def _coefficients(self, x: float) -> None:
        """The coefficients a_n, b_n of the scattered field (Eqs. 4.52, 4.53), and c_n, d_n inside."""
        from scipy.special import spherical_jn, spherical_yn

        n, m, mu = self.n, np.sqrt(self.epsilon * self.mu), self.mu
        j, h = spherical_jn(n, x), spherical_jn(n, x) + 1j * spherical_yn(n, x)
        dj = j + x * spherical_jn(n, x, derivative=True)  # [x j_n(x)]'
        dh = h + x * (spherical_jn(n, x, derivative=True) + 1j * spherical_yn(n, x, derivative=True))
        if self.conducting:
            self.a, self.b = dj / dh, j / h
            self.c = self.d = np.zeros(len(n), complex)
            return
        inside = spherical_jn(n, m * x)
        dinside = inside + m * x * spherical_jn(n, m * x, derivative=True)
        bottom_a, bottom_b = m**2 * inside * dh - mu * h * dinside, mu * inside * dh - h * dinside
        self.a = (m**2 * inside * dj - mu * j * dinside) / bottom_a
        self.b = (mu * inside * dj - j * dinside) / bottom_b
        self.c = mu * (j * dh - h * dj) / bottom_b
        self.d = mu * m * (j * dh - h * dj) / bottom_a

    def efficiencies(self) -> tuple[float, float]:
        """The cross sections of scattering and of extinction over pi radius^2 (Eqs. 4.61, 4.62)."""
        x, weight = self.k * self.radius, 2 * self.n + 1
        scattering = np.sum(weight * (np.abs(self.a) ** 2 + np.abs(self.b) ** 2))
        return float(2 / x**2 * scattering), float(2 / x**2 * np.sum(weight * (self.a + self.b).real))

    def phasor(self, x: Values, y: Values, z: Values, within: Sequence[Values] | None = None) -> Phasor:
        """The total field: transmitted inside the sphere, incident plus scattered outside."""
        return self.part("total", x, y, z, within)

    def part(
        self,
        what: Literal["total", "scattered"],
        x: Values,
        y: Values,
        z: Values,
        within: Sequence[Values] | None = None,
    ) -> Phasor:
        """The total or the scattered field [6][...]; inside the sphere, the latter is the total minus the incident."""
        x, y, z = np.broadcast_arrays(x, y, z)
        place = self.axes @ np.stack([x.ravel(), y.ravel(), z.ravel()])
        meant = place if within is None else np.stack([np.broadcast_to(w, x.shape).ravel() for w in within])
        inside = np.linalg.norm(meant, axis=0) < self.radius
        result = np.empty((6, x.size), complex)
        for chosen, interior in ((inside, True), (~inside, False)):
            if chosen.any():
                result[:, chosen] = self._series(place[:, chosen], interior)
        result[:3], result[3:] = self.axes.T @ result[:3], self.axes.T @ result[3:]
        result = self.amplitude * np.exp(1j * self.phase) * result.reshape(6, *x.shape)
        outside = (~inside).reshape(x.shape)
        incident = self.incident.phasor(x, y, z)
        return result + outside * incident if what == "total" else result - ~outside * incident

    def _series(self, place: Values, interior: bool) -> Phasor:
        """The fields [6][points] in the book's axes for unit amplitude: total inside, scattered outside."""
        from scipy.special import spherical_jn, spherical_yn

        n = self.n[:, None]
        centre = np.linalg.norm(place, axis=0) < 1e-6 * self.radius  # the series has 0/0 there
        place = np.where(centre, np.array([[0.0], [0.0], [1e-6 * self.radius]]), place)
        r = np.linalg.norm(place, axis=0)
        cos, sin = place[2] / r, np.hypot(place[0], place[1]) / r
        phi = np.arctan2(place[1], place[0])
        k = self.k * (np.sqrt(self.epsilon * self.mu) if interior else 1.0)
        rho = k * r
        z, dz = spherical_jn(n, rho), spherical_jn(n, rho, derivative=True)
        if not interior:
            z, dz = z + 1j * spherical_yn(n, rho), dz + 1j * spherical_yn(n, rho, derivative=True)
        over, slope = z / rho, z / rho + dz  # z / rho, [rho z]' / rho
        pi, tau = self._angular(cos)
        zero = np.zeros_like(z)
        # Components along r, theta and phi (Eqs. 4.17 to 4.20 with m = 1; e: even, o: odd).
        m_o = np.stack([zero, np.cos(phi) * pi * z, -np.sin(phi) * tau * z])
        m_e = np.stack([zero, -np.sin(phi) * pi * z, -np.cos(phi) * tau * z])
        radial = n * (n + 1) * sin * pi * over
        n_o = np.stack([np.sin(phi) * radial, np.sin(phi) * tau * slope, np.cos(phi) * pi * slope])
        n_e = np.stack([np.cos(phi) * radial, np.cos(phi) * tau * slope, -np.sin(phi) * pi * slope])
        each = 1j**n * (2 * n + 1) / (n * (n + 1))
        a, b, c, d = (each * v[:, None] for v in (self.a, self.b, self.c, self.d))
        if interior:  # Eq. 4.40; k / (omega mu) is the admittance
            electric = c * m_o - 1j * d * n_e
            magnetic = -np.sqrt(self.epsilon / self.mu) * (d * m_e + 1j * c * n_o)
        else:  # Eq. 4.45
            electric = 1j * a * n_e - b * m_o
            magnetic = 1j * b * n_o + a * m_e
        basis = np.array(
            [
                [sin * np.cos(phi), sin * np.sin(phi), cos],
                [cos * np.cos(phi), cos * np.sin(phi), -sin],
                [-np.sin(phi), np.cos(phi), 0 * phi],
            ]
        )  # [r theta phi][x y z][points]
        turned = [np.einsum("cdp,cp->dp", basis, f.sum(axis=1)) for f in (electric, magnetic)]
        return np.concatenate(turned)

    def _angular(self, cos: Values) -> tuple[Values, Values]:
        """The functions pi_n and tau_n [n][points], by recurrence (Eq. 4.47)."""
        pi, tau = (np.zeros((len(self.n) + 1, len(cos))) for _ in range(2))
        pi[1], tau[1] = 1.0, cos
        for n in range(2, len(self.n) + 1):
            pi[n] = ((2 * n - 1) * cos * pi[n - 1] - n * pi[n - 2]) / (n - 1)
            tau[n] = n * cos * pi[n] - (n + 1) * pi[n - 1]
        return pi[1:], tau[1:]
