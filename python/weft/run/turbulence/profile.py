"""How the time of turbulence's steps is spent."""

from __future__ import annotations

import time

from weft import trace
from weft.turbulence import Solver

PROFILED = 10  # number of steps, after the first, whose time is broken down

# The parts of GESTS's Table 3, as the solver's measure() names them.
PARTS = {
    "fft": "FFT",
    "pack_unpack": "pack and unpack",
    "row_mpi": "row MPI",
    "column_mpi": "column MPI",
    "other": "other",
}


class Profile:
    """How the time of some steps is spent: by the recorder's categories, and by the parts of GESTS's Table 3."""

    def __init__(self, solver: Solver, end: float) -> None:
        self.solver, self.end = solver, end
        self.steps = 0
        self.seconds = 0.0
        self.parts = dict.fromkeys(PARTS.values(), 0.0)
        self.categories = dict.fromkeys(trace.categories(), 0.0)

    def step(self) -> float:
        """Takes a step and returns its seconds. Only the first PROFILED steps are broken down."""
        if self.steps >= PROFILED:
            begin = time.perf_counter()
            self.solver.step(1, self.end)
            return time.perf_counter() - begin
        before = trace.categories() if trace.enabled() else {}
        found = self.solver.measure(1, self.end)
        for category, seconds in trace.categories().items():
            self.categories[category] += seconds - before.get(category, 0.0)
        for name, part in PARTS.items():
            self.parts[part] += found[name]
        self.steps += 1
        self.seconds += found["total"]
        return float(found["total"])
