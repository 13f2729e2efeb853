"""A run of `weft run maxwell` compared with the exact solution that it starts from."""

from __future__ import annotations

import math
import time

import numpy as np
from mpi4py import MPI

from weft.exact.mie import Sphere
from weft.run.maxwell.exact import not_exact
from weft.run.maxwell.problem import Problem

EXACT = 400  # number of times at which the exact energies are plotted


class Errors:
    """The error relative to the exact solution during a run, if one is known."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.known = problem.solution is not None and not not_exact(problem.case, problem.conditions)
        self.spent = 0.0  # seconds of the slowest rank
        self.found: dict[str, list[float]] = {"time": [], "energy_norm": [], "relative": []}

    def look(self) -> None:
        """Adds the current error: the energy norm of the difference, absolute and relative to the solution.
        (collective)"""
        if not self.known:
            return
        begin = time.perf_counter()
        difference, whole = self.problem.error_norms()
        row = self.problem.solver.time, difference, difference / whole if whole > 0 else math.inf
        for values, value in zip(self.found.values(), row, strict=True):
            values.append(value)
        self.spent += self.problem.comm.allreduce(time.perf_counter() - begin, MPI.MAX)


def exact_energies(problem: Problem, end: float) -> dict[str, list[float]]:
    """Electric and magnetic energy of the exact solution at EXACT times up to `end`. (collective)

    Uses the quadrature of the element points. A field Re(P exp(-i omega t)) is |exp(-i omega t)| (Re P cos + Im P sin),
    so its energies at every time follow from three integrals. The result is empty for the Mie series, whose domain ends
    in a matched layer.
    """
    assert problem.solution is not None
    harmonic = problem.solution.solution
    if isinstance(harmonic, Sphere):
        return {}
    omega, decay = harmonic.omega.real, harmonic.omega.imag
    quarter = 0.5 * math.pi / omega if omega else 0.0
    points, amplitude = problem.geometry.points, problem.case.initial.amplitude
    even = amplitude * problem.solution.fields(0.0, points)
    odd = amplitude * problem.solution.fields(quarter, points) * math.exp(-decay * quarter)
    values = np.array(list(problem.materials.values()))[problem.regions]
    weight = values[:, :2, None] * np.asarray(problem.mesh.mass_matrix(problem.case.order)).reshape(len(values), 1, -1)
    products = [
        0.5 * np.einsum("fcep,efp->f", (a * b).reshape(2, 3, *a.shape[1:]), weight)
        for a, b in ((even, even), (even, odd), (odd, odd))
    ]
    square, mixed, other = problem.comm.allreduce(np.array(products), MPI.SUM)
    at = np.linspace(0.0, end, EXACT)
    c, s = np.cos(omega * at), np.sin(omega * at)
    electric, magnetic = np.exp(2 * decay * at) * (
        square[:, None] * c * c + 2 * mixed[:, None] * c * s + other[:, None] * s * s
    )
    return {"time": at.tolist(), "electric_energy": electric.tolist(), "magnetic_energy": magnetic.tolist()}
