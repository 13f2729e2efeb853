"""A code of one's own on weft's exchange layer and transforms: the heat equation, twice.

The first part uses linear finite elements on a periodic line, whose nodes are shared by ranks: `weft.GatherScatter`
sums their parts. The second part solves the same equation in Fourier space: `weft.fft.Plan` transforms a distributed
field. Both are compared with the exact solution.

python heat.py [POINTS]      or      mpiexec -n 4 python heat.py
"""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

import weft


def on_elements(points: int, comm: MPI.Intracomm, end: float = 0.1) -> float:
    """Steps u_t = u_xx on elements that are distributed over the ranks; returns the largest error."""
    first, last = (points * r // comm.size for r in (comm.rank, comm.rank + 1))
    left = np.arange(first, last)  # this rank's elements, by their left nodes
    ids = np.stack([left, (left + 1) % points], axis=1) + 1  # global ids of their two nodes, from 1
    gs = weft.GatherScatter(ids.ravel(), comm)
    h = 2 * np.pi / points
    x = h * np.stack([left, left + 1], axis=1)
    mass = np.full(ids.shape, h / 2)  # lumped
    gs(flat := mass.ravel())
    mass = flat.reshape(ids.shape)
    u = np.sin(x)
    steps = int(np.ceil(end / (0.25 * h * h)))
    for _ in range(steps):
        slope = (u[:, 1] - u[:, 0]) / h
        r = np.stack([slope, -slope], axis=1).ravel()
        gs(r)  # every copy of a node now has the sum of the parts of its elements
        u += end / steps * r.reshape(u.shape) / mass
    return float(comm.allreduce(np.abs(u - np.exp(-end) * np.sin(x)).max(initial=0.0), MPI.MAX))


def in_fourier_space(points: int, comm: MPI.Intracomm, end: float = 0.1) -> float:
    """The same equation in a periodic box, one transform forward and one back; returns the largest error."""
    plan = weft.fft.Plan((points, points, points), comm)
    axis = 2 * np.pi * np.arange(points) / points
    z, y, x = (part[mine] for part, mine in zip((axis, axis, axis), plan.physical_slices, strict=True))
    field = np.sin(x)[None, None, :] * np.cos(2 * y)[None, :, None] * np.cos(z)[:, None, None]
    waves = np.fft.fftfreq(points, 1 / points)
    kz, ky, kx = (
        k[mine] for k, mine in zip((waves, waves, np.arange(points // 2 + 1)), plan.spectral_slices, strict=True)
    )
    square = kz[:, None, None] ** 2 + ky[None, :, None] ** 2 + kx[None, None, :] ** 2
    after = plan.backward(plan.forward(field) * np.exp(-square * end))
    return float(comm.allreduce(np.abs(after - np.exp(-6 * end) * field).max(initial=0.0), MPI.MAX))


def main(points: str = "64") -> None:
    """Prints both errors."""
    comm = MPI.COMM_WORLD
    errors = on_elements(int(points), comm), in_fourier_space(int(points), comm)
    if comm.rank == 0:
        print(f"finite elements, weft.GatherScatter: error {errors[0]:.1e}   (second order in the spacing)")
        print(f"Fourier space, weft.fft.Plan:        error {errors[1]:.1e}   (rounding)")


if __name__ == "__main__":
    main(*sys.argv[1:])
