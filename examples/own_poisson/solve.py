"""A right-hand side of one's own with `weft.Poisson`: the potential of two charged balls in a grounded box.

python solve.py [ELEMENTS PER SIDE] [ORDER]      or      mpiexec -n 4 python solve.py
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

import weft

Values = npt.NDArray[np.float64]
WIDTH = 0.08  # of the clouds of charge
PLACES = ((0.35, 0.5, 0.5), (0.65, 0.5, 0.5))


def charge(x: Values, y: Values, z: Values) -> Values:
    """A positive and a negative Gaussian cloud."""
    total = np.zeros_like(x)
    for sign, (a, b, c) in zip((1.0, -1.0), PLACES, strict=True):
        total += sign * np.exp(-((x - a) ** 2 + (y - b) ** 2 + (z - c) ** 2) / (2 * WIDTH**2))
    return total / (2 * np.pi * WIDTH**2) ** 1.5


def main(side: str = "5", order: str = "7") -> None:
    """Solves -Laplacian u = charge with u = 0 on the box, and checks the energy of the field against a finer solve."""
    energies = []
    for n in (int(order) - 2, int(order)):
        mesh = weft.Mesh.box((int(side),) * 3, upper=(1.0, 1.0, 1.0))
        poisson = weft.Poisson(mesh, order=n, lam=0.0, dirichlet=True)
        b = poisson.project(charge)
        result = poisson.multigrid(b, tolerance=1e-10)
        share = float(np.vdot(b, result.x)) / 2  # the energy, 1/2 of the integral of charge times potential
        energies.append(mesh.comm.allreduce(share))
        if mesh.comm.rank == 0:
            print(f"order {n}: {poisson.dofs:,} unknowns, {result.iterations} iterations, energy {energies[-1]:.10f}")
    poisson.write_fields("potential", {"u": result.x})
    if mesh.comm.rank == 0:
        print(f"relative difference of the energies: {abs(energies[0] / energies[1] - 1):.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
