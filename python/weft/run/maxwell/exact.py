"""The exact solution that a case of `weft run maxwell` starts from, and the error against it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from weft.arrays import Values
from weft.cases.maxwell import MaxwellCase
from weft.exact.maxwell import BoxMode, CylinderMode, Harmonic, LayeredMode, PlaneWave
from weft.exact.mie import Sphere
from weft.mesh import Mesh
from weft.mpi import CollectiveError
from weft.run.maxwell.regions import VACUUM, Geometry


def exact(
    case: MaxwellCase, geometry: Geometry, table: dict[str, tuple[float, float, float]], regions: Values
) -> Harmonic | None:
    """The exact solution that a case starts from, or None. Raises CollectiveError if the case does not allow it.
    (collective)"""
    initial, mesh = case.initial, geometry.mesh
    field = initial.field
    if field in ("zero", "random", "expressions"):
        return None
    size = geometry.upper - geometry.lower
    try:
        if field == "layered-mode":
            return layered(case, geometry, table, regions)
        if field == "sphere":
            return sphere(case, geometry, table, regions)
        epsilon, mu, sigma = uniform(table, regions, mesh, f"{field!r}")
        if field == "plane-wave":
            k = 2 * math.pi * np.array(initial.waves) / size
            polarization = np.array(initial.polarization, float)
            polarization -= k * (k @ polarization) / (k @ k)
            return PlaneWave(k.tolist(), polarization.tolist(), epsilon, mu, sigma)
        if sigma:
            raise ValueError("its material conducts (sigma > 0)")
        if field == "box-mode":
            return BoxMode(size, initial.mode, initial.kind, geometry.lower.tolist(), epsilon, mu)
        radius = mesh.comm.allreduce(float(np.hypot(*geometry.points[:2]).max(initial=0.0)), MPI.MAX)
        m, n, waves = initial.mode
        return CylinderMode(radius, m, n, initial.kind, 2 * math.pi * waves / size[2], epsilon, mu)
    except ValueError as error:
        raise CollectiveError(f"case key 'initial.field': found {field!r}: {error}") from None


def uniform(table: dict[str, tuple[float, float, float]], regions: Values, mesh: Mesh, what: str) -> Sequence[float]:
    """The material of a mesh with one material. Raises CollectiveError if there are several. (collective)"""
    used = sorted({int(r) for found in mesh.comm.allgather(np.unique(regions)) for r in found})
    values = {list(table.values())[r] for r in used}
    if len(values) > 1:
        found = ", ".join(list(table)[r] for r in used)
        raise CollectiveError(f"case key 'initial.field': {what} requires a single material, but the mesh has {found}")
    return values.pop()


def sphere(
    case: MaxwellCase, geometry: Geometry, table: dict[str, tuple[float, float, float]], regions: Values
) -> Sphere:
    """The Mie series of the case's plane wave and material.

    Raises ValueError if the material does not fill a sphere. (collective)
    """
    comm = geometry.mesh.comm
    filled = [k for k, values in enumerate(table.values()) if values != VACUUM]
    used = [k for k in filled if comm.allreduce(bool((regions == k).any()), MPI.LOR)]
    if len(used) != 1:
        raise ValueError(f"{len(used)} materials other than vacuum; the Mie series allows one")
    epsilon, mu, sigma = list(table.values())[used[0]]
    if sigma:
        raise ValueError("its material conducts (sigma > 0)")
    mine = regions == used[0]
    radii = np.linalg.norm(geometry.points, axis=0)
    radius = comm.allreduce(float(radii[mine].max(initial=0.0)), MPI.MAX)
    nearest = comm.allreduce(float(radii[~mine].min(initial=math.inf)), MPI.MIN)
    if abs(radius - nearest) > 1e-3 * radius:
        raise ValueError(f"material {list(table)[used[0]]!r} is not a sphere around the origin")
    source = next(iter(case.sources.values()))
    if case.initial.amplitude != 1.0:
        raise ValueError("the amplitude is that of the source: set initial.amplitude to 1")
    if source.width or source.frequency == 0.0:
        raise ValueError(
            "the series has a single frequency: set the width of the source to 0 and its frequency above 0"
        )
    direction = np.array(source.direction) / np.linalg.norm(source.direction)
    k = 2 * math.pi * source.frequency * direction
    # sin(omega s + phase) with s = t - delay - direction . (x - at), as the real part of exp(-i omega t).
    late = 2 * math.pi * source.frequency * source.delay - k @ np.array(source.at)
    phase = late - source.phase + 0.5 * math.pi
    return Sphere(radius, k.tolist(), list(source.field), epsilon, mu, phase=phase)


def layered(
    case: MaxwellCase, geometry: Geometry, table: dict[str, tuple[float, float, float]], regions: Values
) -> LayeredMode:
    """The mode of layers normal to x, one per material. Raises ValueError if the materials are not such layers.
    (collective)"""
    values = list(table.values())
    x = geometry.points[0].reshape(geometry.mesh.elements, -1)
    mine = [(float(a), float(b), int(r)) for a, b, r in zip(x.min(axis=1), x.max(axis=1), regions, strict=True)]
    spans = sorted({s for rank in geometry.mesh.comm.allgather(set(mine)) for s in rank})
    tiny = 1e-9 * (geometry.upper[0] - geometry.lower[0])
    layers: list[list[float]] = []  # start, end, material
    for start, end, region in spans:
        if layers and layers[-1][2] == region and start <= layers[-1][1] + tiny:
            layers[-1][1] = max(layers[-1][1], end)
        elif layers and start < layers[-1][1] - tiny:
            raise ValueError("the materials are not layers normal to x")
        else:
            layers.append([start, end, region])
    if any(values[int(r)][2] for _, _, r in layers):
        raise ValueError("a material conducts (sigma > 0)")
    index, waves, none = case.initial.mode
    if none:
        raise ValueError("initial.mode must be [number, periods along y, 0]")
    stack = [(end - start, values[int(r)][0], values[int(r)][1]) for start, end, r in layers]
    wavenumber = 2 * math.pi * waves / (geometry.upper[1] - geometry.lower[1])
    return LayeredMode(stack, wavenumber, "s" if case.initial.kind == "te" else "p", index, layers[0][0])


class Exact:
    """An exact solution on this rank's elements, with the material of each, and whether each holds the total field."""

    def __init__(self, solution: Harmonic, geometry: Geometry, filled: Values, total: Values | None) -> None:
        self.solution, self.filled = solution, filled
        self.centres = geometry.centres
        self.total = np.ones(len(filled), bool) if total is None else total

    def fields(self, time: float, points: Values, which: slice | npt.NDArray[np.int64] = slice(None)) -> Values:
        """The fields [6][E][points] at points [3][E][points] of the elements ``which``."""
        solution = self.solution
        x, y, z = points
        if not isinstance(solution, Sphere):
            # Interfaces are planes: an element's centre is on the side of its material.
            near = [np.broadcast_to(c[which, None], x.shape) for c in self.centres]
            return solution.fields(time, x, y, z, near)
        # Elements may be curved around the sphere, so their centre may lie on its other side.
        radius = np.where(self.filled[which], 0.0, 2 * solution.radius)[:, None] * np.ones(x.shape)
        near = [radius, 0 * radius, 0 * radius]
        values = solution.part("total", x, y, z, near)
        scattered = ~self.total[which]
        values[:, scattered] -= solution.incident.phasor(x[scattered], y[scattered], z[scattered])
        return np.real(values * np.exp(-1j * solution.omega * time))


def not_exact(case: MaxwellCase, conditions: dict[str, str]) -> str:
    """Why the initial solution is not the exact solution of the case; empty if it is."""
    field = case.initial.field
    if field == "sphere":
        return ""  # the case includes its source; reflections from layers and boundaries are part of the error
    if case.sources or case.layer.thickness:
        return f"initial.field = {field!r} allows neither sources nor a matched layer"
    if field == "plane-wave":
        return "a plane wave is exact only in periodic boxes, but this mesh has boundaries" if conditions else ""
    others = [name for name, condition in conditions.items() if condition != "pec"]
    return f"modes are exact between conducting walls (pec), and {others[0]!r} is not" if others else ""
