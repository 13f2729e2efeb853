"""The formulas behind the limits of `weft run turbulence`: least bytes and operations of a step on hosts.

GESTS is "GPU-enabled extreme-scale turbulence simulations" (Yeung et al.). A step has 2 or 4 substeps. Each transforms
fields backward along y, z and x, forms products, and transforms them forward along x, z and y. What the truncation
removes is neither transformed nor moved (docs/turbulence-solver.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.model.formulas import Formula
from weft.model.project.grids import FORWARD_X, FORWARD_Y, INVERSE

SUBSTEPS = {"rk2": 2, "rk4": 4}
SOURCE = "docs/figures.md"


@dataclass(frozen=True)
class Kept:
    """What a truncation keeps of a field: modes, columns along ky, and planes of kx."""

    modes: int
    columns: int
    planes: int


def kept(points: Sequence[int], dealiasing: str) -> Kept:
    """What the truncation of a grid with points along x, y and z keeps."""
    nx, ny, nz = points
    if dealiasing == "two-thirds":
        x, y, z = (-(-n // 3) for n in points)  # from 0
        return Kept(x * (2 * y - 1) * (2 * z - 1), x * (2 * z - 1), x)
    modes = columns = 0
    planes = math.ceil(nx * math.sqrt(2 / 9))
    for kx in range(planes):  # (kx / nx)^2 + (ky / ny)^2 + (kz / nz)^2 < 2 / 9
        room = 2 / 9 - (kx / nx) ** 2
        kz = np.arange(math.ceil(nz * math.sqrt(room)))
        ky = 2 * np.ceil(ny * np.sqrt(np.maximum(0.0, room - (kz / nz) ** 2))) - 1
        columns += 2 * len(kz) - 1
        modes += int(2 * ky.sum() - ky[0])
    return Kept(modes, columns, planes)


def fields(scalars: int) -> tuple[int, int, int]:
    """The fields that a substep transforms: backward, forward along x and z, and forward along y."""
    return INVERSE + scalars, FORWARD_X + 3 * scalars, FORWARD_Y + 2 * scalars


def step_flops(points: Sequence[int], dealiasing: str, scheme: str, scalars: int) -> Formula:
    """Operations of a step's transforms by the usual count, 5 n log2 n per line of n complex numbers and half of that
    per line of real ones. Products and projection are not counted."""
    nx, ny, nz = points
    left = kept(points, dealiasing)
    inverse, forward, spectral = fields(scalars)
    x = (inverse + forward) * ny * nz * 2.5 * nx * math.log2(nx)
    z = (inverse + forward) * left.planes * ny * 5 * nz * math.log2(nz)
    y = (inverse + spectral) * left.columns * 5 * ny * math.log2(ny)
    text = (
        f"{SUBSTEPS[scheme]} x transforms of {inverse} fields and back: 5 n log2 n per complex line, half per real one"
    )
    return Formula(SUBSTEPS[scheme] * (x + y + z), text, SOURCE)


def step_bytes(points: Sequence[int], dealiasing: str, scheme: str, scalars: int, word: int) -> Formula:
    """Bytes of a step whose fields pass through memory once per pass: y; then z, x and z; then y with the update.

    `word`: bytes per real number. Between passes, the columns along y of a field are stored. Of I fields that are
    transformed backward and S forward along y, the first pass writes I (and reads them, but for the solution), the
    second reads I and writes S, and the third reads S and writes the I of the next substep. Of the solution and the
    partial sums of RK4, only the kept modes are stored. The solution is read once before the first substep. Then RK2
    reads and writes it in each substep; RK4 reads solution and sums and writes the sums, except that the first substep
    reads no sums, and that the last reads sums and writes the solution.
    """
    inverse, _, spectral = fields(scalars)
    left, substeps = kept(points, dealiasing), SUBSTEPS[scheme]
    columns = (4 * substeps - 2) * inverse + 2 * substeps * spectral
    modes = {"rk2": 1 + 2 + 2, "rk4": 1 + 2 + 3 + 3 + 2}[scheme] * inverse
    moved = 2 * word * (columns * left.columns * points[1] + modes * left.modes)
    return Formula(moved, f"{columns} fields of columns along y, {modes} of the kept modes", SOURCE)
