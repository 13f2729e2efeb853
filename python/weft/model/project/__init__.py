"""Projection of weft's workloads to any scale: computation from bytes, operations and rates; exchanges from messages.

One function per workload returns the time of an iteration or a time step, by phase. Machines are described in
`weft.model.machine`. The few constants that no data sheet gives are listed in `machine.CONSTANTS` and calibrated by
`weft.model.calibration`. Equation numbers are followed by the paper they refer to.
"""

from __future__ import annotations

from weft.model.project.elements import flow, maxwell, poisson
from weft.model.project.exchanges import Path
from weft.model.project.grids import turbulence
from weft.model.project.projection import OutOfMemoryError, Projection
from weft.model.project.ranges import constants_of, notes, results, tested, widening

__all__ = [
    "OutOfMemoryError",
    "Path",
    "Projection",
    "constants_of",
    "flow",
    "maxwell",
    "notes",
    "poisson",
    "results",
    "tested",
    "turbulence",
    "widening",
]
