"""A case of `weft run turbulence`: the solver, its decomposition, and the initial flow."""

from __future__ import annotations

import math

import numpy as np
from mpi4py import MPI

import weft
from weft.cases.schema import settings
from weft.cases.turbulence import TurbulenceCase
from weft.device import Device
from weft.run.turbulence.memory import require_memory
from weft.turbulence import Solver, Spectrum
from weft.turbulence_output import Checkpoint


class Problem:
    """A case in its box, with its solver ready to start. Construction is collective."""

    def __init__(self, case: TurbulenceCase, comm: MPI.Intracomm) -> None:
        self.case, self.comm = case, comm
        device = weft.device.open(case.device)
        require_memory(case, device, comm)
        self.solver = make_solver(case, comm, device)

    def begin(self) -> Checkpoint | None:
        """Sets the initial flow of the case; returns the checkpoint that it comes from, if any. (collective)"""
        case, solver, initial = self.case, self.solver, self.case.initial
        if initial.checkpoint:
            found: Checkpoint = solver.restore(initial.checkpoint)
            return found
        if initial.field == "taylor-green":
            solver.set_taylor_green(initial.velocity)
        elif initial.field == "taylor-green-2d":
            solver.set_taylor_green(initial.velocity, two_dimensional=True)
        elif initial.field == "abc":
            solver.set_abc((initial.velocity,) * 3, initial.wavenumber)
        else:
            solver.set_random(spectrum_of(case), case.seed)
        if case.scalars.field == "random":
            for number in range(len(case.scalars.schmidt)):
                solver.set_random_scalar(spectrum_of(case), number, case.seed)
        return None


def spectrum_of(case: TurbulenceCase) -> Spectrum:
    """E(k) = c k^s exp(-s/2 (k/p)^2), with its peak at p and a total of 3/2 initial.velocity^2."""
    peak = case.initial.wavenumber * 2 * math.pi / max(case.lengths)
    s = case.initial.slope
    # The integral of k^s exp(-s/2 (k/p)^2) over k > 0.
    whole = 0.5 * math.gamma((s + 1) / 2) * (2 * peak**2 / s) ** ((s + 1) / 2)
    factor = 1.5 * case.initial.velocity**2 / whole
    return lambda k: factor * k**s * np.exp(-s / 2 * (k / peak) ** 2)


def longest_dt(case: TurbulenceCase) -> float:
    """The limit of variable steps: the case's, or the time that diffusion takes across a cell; 0: none.

    Without a limit, steps would grow without bound as a flow decays.
    """
    if case.time.max_dt or case.viscosity == 0:
        return case.time.max_dt
    spacing = min(side / n for side, n in zip(case.lengths, case.points, strict=True))
    return spacing**2 / case.viscosity


def make_solver(case: TurbulenceCase, comm: MPI.Intracomm, device: Device) -> Solver:
    """The solver of a case, without an initial flow yet. (collective)"""
    chosen = {
        "courant": None if case.time.dt > 0 else case.time.courant,
        "max_dt": longest_dt(case),
        "scalars": [weft.turbulence.Scalar(schmidt, case.scalars.gradient) for schmidt in case.scalars.schmidt],
        "device": device,
    }
    return weft.turbulence.Solver(case.points, comm=comm, **settings(case) | chosen)
