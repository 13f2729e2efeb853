"""A small pseudo-spectral solver in NumPy, independent of weft's.

Products are computed on a grid that is finer by 3/2, so that there are no aliases; the equations are GESTS, Eq. 7.
"""

from __future__ import annotations

import numpy as np


class Reference:
    """Cubes of side 2 pi; ``keep`` (nx, ny, nz) -> bool says which modes are kept. Fields are [3][z][y][x] modes."""

    def __init__(self, n: int, viscosity: float, keep) -> None:
        self.n, self.m, self.viscosity = n, 3 * n // 2, viscosity
        index = np.fft.fftfreq(n, 1 / n)
        self.k = np.array(np.meshgrid(index, index, index, indexing="ij")[::-1])  # kx, ky, kz on [z][y][x]
        self.square = np.where((self.k**2).sum(0) == 0, 1, (self.k**2).sum(0))
        self.kept = np.vectorize(keep)(*self.k)

    def modes(self, physical):
        return np.fft.fftn(physical, axes=(-3, -2, -1)) / self.n**3 * self.kept

    def physical(self, modes):
        return np.fft.ifftn(modes, axes=(-3, -2, -1)).real * self.n**3

    def padded(self, modes):
        large = np.zeros((*modes.shape[:-3], self.m, self.m, self.m), complex)
        low = (self.m - self.n) // 2
        inner = (..., *[slice(low, low + self.n)] * 3)
        large[inner] = np.fft.fftshift(modes, axes=(-3, -2, -1))
        return np.fft.ifftn(np.fft.ifftshift(large, axes=(-3, -2, -1)), axes=(-3, -2, -1)).real * self.m**3

    def cut(self, physical):
        large = np.fft.fftshift(np.fft.fftn(physical, axes=(-3, -2, -1)) / self.m**3, axes=(-3, -2, -1))
        low = (self.m - self.n) // 2
        inner = (..., *[slice(low, low + self.n)] * 3)
        return np.fft.ifftshift(large[inner], axes=(-3, -2, -1)) * self.kept

    def project(self, a):
        return a - self.k * (self.k * a).sum(0) / self.square

    def convection(self, u):
        v = self.padded(u)
        result = np.zeros_like(u)
        for j in range(3):
            for m in range(3):
                result[j] -= 1j * self.k[m] * self.cut(v[j] * v[m])
        return self.project(result)

    def step(self, u, dt: float, scheme: str):
        half = np.exp(-self.viscosity * (self.k**2).sum(0) * dt / 2)
        n = self.convection
        if scheme == "rk2":
            first = n(u)
            return half**2 * (u + dt / 2 * first) + dt / 2 * n(half**2 * (u + dt * first))
        first = n(u)
        second = n(half * (u + dt / 2 * first))
        third = n(half * u + dt / 2 * second)
        fourth = n(half**2 * u + dt * half * third)
        return half**2 * u + dt / 6 * (half**2 * first + 2 * half * (second + third) + fourth)


def energy(u) -> float:
    return 0.5 * float(np.mean((np.asarray(u, np.float64) ** 2).sum(0)))
