"""Exact solutions of the incompressible Navier-Stokes equations, as functions of NumPy arrays x, y, z and of time t.

Each solution has ``viscosity``; ``velocity(x, y, z, t)``, three arrays; ``pressure(x, y, z, t)`` over density, which is
determined up to a constant; and ``force(x, y, z, t)``, the driving acceleration, which is 0 for most solutions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Channel", "EthierSteinman", "Kovasznay", "Solution", "TaylorGreen2D", "Womersley"]

Array = npt.NDArray[np.float64]
Triple = tuple[Array, Array, Array]


class Solution:
    """The interface of all solutions."""

    viscosity: float

    def velocity(self, x: Array, y: Array, z: Array, t: float) -> Triple:
        """The velocity components u, v, w at places given by arrays of the same shape."""
        raise NotImplementedError

    def pressure(self, x: Array, y: Array, z: Array, t: float) -> Array:
        """The pressure over density at these places, up to a constant."""
        raise NotImplementedError

    def force(self, x: Array, y: Array, z: Array, t: float) -> Triple:
        """The acceleration along x, y, z at these places."""
        zero = np.zeros(np.broadcast_shapes(np.shape(x), np.shape(y), np.shape(z)))
        return zero, zero, zero


@dataclass(frozen=True)
class EthierSteinman(Solution):
    """The unsteady 3-D flow of C. R. Ethier and D. A. Steinman, Int. J. Numer. Meth. Fluids 19 (1994) 369.

    All terms of the equations contribute, and the flow decays as exp(-nu d^2 t). The authors use the box [-1, 1]^3.
    """

    viscosity: float = 1.0
    a: float = math.pi / 4
    d: float = math.pi / 2

    def velocity(self, x: Array, y: Array, z: Array, t: float) -> Triple:
        a, d = self.a, self.d
        scale = -a * np.exp(-self.viscosity * d**2 * t)

        def component(p: Array, q: Array, r: Array) -> Array:
            turned: Array = scale * (np.exp(a * p) * np.sin(a * q + d * r) + np.exp(a * r) * np.cos(a * p + d * q))
            return turned

        return component(x, y, z), component(y, z, x), component(z, x, y)

    def pressure(self, x: Array, y: Array, z: Array, t: float) -> Array:
        a, d = self.a, self.d

        def part(p: Array, q: Array, r: Array) -> Array:
            crossed: Array = 2 * np.sin(a * p + d * q) * np.cos(a * r + d * p) * np.exp(a * (q + r))
            return np.exp(2 * a * p) + crossed

        total: Array = part(x, y, z) + part(y, z, x) + part(z, x, y)
        return -(a**2) / 2 * np.exp(-2 * self.viscosity * d**2 * t) * total


@dataclass(frozen=True)
class Kovasznay(Solution):
    """The steady flow behind a grid of period 1 in y, by L. I. G. Kovasznay, Proc. Camb. Phil. Soc. 44 (1948) 58."""

    reynolds: float = 40.0

    @property
    def viscosity(self) -> float:  # type: ignore[override]
        """1 / Re, because the period of the grid and the mean velocity are 1."""
        return 1 / self.reynolds

    @property
    def rate(self) -> float:
        """The decay rate lambda of disturbances, which behave as exp(lambda x)."""
        half = self.reynolds / 2
        return half - math.sqrt(half**2 + 4 * math.pi**2)

    def velocity(self, x: Array, y: Array, z: Array, t: float) -> Triple:
        k, decay = 2 * math.pi, np.exp(self.rate * x)
        u: Array = 1 - decay * np.cos(k * y) + 0 * z
        return u, self.rate / k * decay * np.sin(k * y) + 0 * z, 0 * u

    def pressure(self, x: Array, y: Array, z: Array, t: float) -> Array:
        result: Array = (1 - np.exp(2 * self.rate * x)) / 2 + 0 * y + 0 * z
        return result


@dataclass(frozen=True)
class TaylorGreen2D(Solution):
    """The decaying vortices of G. I. Taylor and A. E. Green, Proc. R. Soc. A 158 (1937) 499, in two dimensions."""

    viscosity: float = 0.01

    def velocity(self, x: Array, y: Array, z: Array, t: float) -> Triple:
        decay = np.exp(-2 * self.viscosity * t)
        u: Array = decay * np.sin(x) * np.cos(y) + 0 * z
        return u, -decay * np.cos(x) * np.sin(y) + 0 * z, 0 * u

    def pressure(self, x: Array, y: Array, z: Array, t: float) -> Array:
        result: Array = np.exp(-4 * self.viscosity * t) / 4 * (np.cos(2 * x) + np.cos(2 * y)) + 0 * z
        return result


@dataclass(frozen=True)
class Channel(Solution):
    """Poiseuille flow between walls at y = -1 and 1 with peak velocity 1, driven by a pressure gradient or a force."""

    viscosity: float = 0.1
    driven_by_force: bool = False

    def velocity(self, x: Array, y: Array, z: Array, t: float) -> Triple:
        u: Array = 1 - y**2 + 0 * x + 0 * z
        return u, 0 * u, 0 * u

    def pressure(self, x: Array, y: Array, z: Array, t: float) -> Array:
        result: Array = (0.0 if self.driven_by_force else -2 * self.viscosity) * x + 0 * y + 0 * z
        return result

    def force(self, x: Array, y: Array, z: Array, t: float) -> Triple:
        u, v, w = super().force(x, y, z, t)
        return (u + 2 * self.viscosity if self.driven_by_force else u), v, w


@dataclass(frozen=True)
class Womersley(Solution):
    """Flow between walls at y = -1 and 1 driven by the force cos(omega t) in x (J. R. Womersley, 1955; plane form)."""

    viscosity: float = 0.1
    omega: float = 2.0

    def velocity(self, x: Array, y: Array, z: Array, t: float) -> Triple:
        s = np.sqrt(1j * self.omega / self.viscosity)
        profile = (1 - np.cosh(s * y) / np.cosh(s)) / (1j * self.omega)
        u: Array = (profile * np.exp(1j * self.omega * t)).real + 0 * x + 0 * z
        return u, 0 * u, 0 * u

    def pressure(self, x: Array, y: Array, z: Array, t: float) -> Array:
        result: Array = 0 * x + 0 * y + 0 * z
        return result

    def force(self, x: Array, y: Array, z: Array, t: float) -> Triple:
        u, v, w = super().force(x, y, z, t)
        return u + math.cos(self.omega * t), v, w
