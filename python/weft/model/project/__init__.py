"""Projection of weft's workloads to any scale: computation from bytes, operations and rates; exchanges from messages.

One function per workload returns the time of an iteration or a time step, by phase. Machines are described in
`weft.model.machine`. The few constants that no data sheet gives are listed in `machine.CONSTANTS` and calibrated by
`weft.model.calibration`. Equation numbers are followed by the paper they refer to.
"""

from __future__ import annotations

from weft.model.project.boxes import box_of, crystal_points, halo, near_cube
from weft.model.project.elements import MAXWELL_STAGES, flow, maxwell, maxwell_step_flops, poisson
from weft.model.project.exchanges import Path
from weft.model.project.grids import (
    COLUMN_CALLS,
    CONTIGUOUS_LINES,
    ROW_CALLS,
    STRIDED_LINES,
    WORD,
    all_to_all_rate,
    all_to_all_seconds,
    alltoall_bandwidth,
    turbulence,
    turbulence_memory_gib,
)
from weft.model.project.projection import WORDS, OutOfMemoryError, Projection
from weft.model.project.ranges import constants_of, notes, results, tested, widening

__all__ = [
    "COLUMN_CALLS",
    "CONTIGUOUS_LINES",
    "MAXWELL_STAGES",
    "ROW_CALLS",
    "STRIDED_LINES",
    "WORD",
    "WORDS",
    "OutOfMemoryError",
    "Path",
    "Projection",
    "all_to_all_rate",
    "all_to_all_seconds",
    "alltoall_bandwidth",
    "box_of",
    "constants_of",
    "crystal_points",
    "flow",
    "halo",
    "maxwell",
    "maxwell_step_flops",
    "near_cube",
    "notes",
    "poisson",
    "results",
    "tested",
    "turbulence",
    "turbulence_memory_gib",
    "widening",
]
