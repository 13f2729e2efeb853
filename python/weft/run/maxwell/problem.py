"""What a case of `weft run maxwell` means on its mesh: materials, boundaries, initial fields, the exact solution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

import weft
from weft import maxwell, program
from weft.arrays import Values
from weft.cases import MaxwellCase
from weft.cases.maxwell import CONDITIONS, RegionSection
from weft.cases.schema import settings
from weft.exact.maxwell import BoxMode, CylinderMode, Harmonic, LayeredMode, PlaneWave
from weft.exact.mie import Sphere
from weft.mpi import CollectiveError
from weft.run.elements import box, conditions, places

VACUUM = (1.0, 1.0, 0.0)
INSIDE = 4  # order at whose inner points an expression has to be true, or false, for a whole element


def make_mesh(case: MaxwellCase, comm: MPI.Intracomm) -> Any:
    """The mesh a case asks for, shared out over the ranks. (collective)"""
    mesh = case.mesh
    if mesh.file:
        return weft.Mesh.read(mesh.file, comm=comm, partitioner=mesh.partitioner)
    if mesh.shape == "cylinder":
        return weft.Mesh.cylinder(
            mesh.radii[0],
            mesh.length,
            side=mesh.side,
            layers=mesh.layers,
            slices=mesh.slices,
            periodic=mesh.periodic[2],
            comm=comm,
        )
    if mesh.shape == "sphere":
        return weft.Mesh.sphere(
            mesh.radii,
            side=mesh.side,
            layers=mesh.layers,
            half_width=mesh.half_width,
            box_layers=mesh.box_layers,
            comm=comm,
        )
    return box(case, comm)


class Geometry:
    """Places in a mesh that set-up needs: points at the order, elements' centres, the extent of the whole."""

    def __init__(self, mesh: Any, order: int) -> None:
        self.mesh = mesh
        self.order = order
        self.points = places(mesh, order)
        inner = np.asarray(mesh.point_coordinates(INSIDE)).reshape(-1, *[INSIDE + 1] * 3, 3)[:, 1:-1, 1:-1, 1:-1]
        self.inner = np.moveaxis(inner.reshape(len(inner), -1, 3), -1, 0)  # [3][E][27]
        self.centres = self.inner.mean(axis=2)
        comm = mesh.comm
        self.lower = np.array([comm.allreduce(float(c.min()) if c.size else math.inf, MPI.MIN) for c in self.points])
        self.upper = np.array([comm.allreduce(float(c.max()) if c.size else -math.inf, MPI.MAX) for c in self.points])


def together(mesh: Any, problem: str | None) -> None:
    """CollectiveError with the first rank's problem, if any has one. (collective)"""
    found = next((p for p in mesh.comm.allgather(problem) if p), None)
    if found:
        raise CollectiveError(found)


def chosen(region: RegionSection, name: str, geometry: Geometry) -> npt.NDArray[np.bool_]:
    """[E] which of this rank's elements a region means. CollectiveError naming it. (collective)"""
    mesh = geometry.mesh
    problem = None
    found: Values
    if region.tag != "":
        known = sorted({int(t) for tags in mesh.comm.allgather(np.unique(mesh.element_tags)) for t in tags})
        tag = mesh.tag_names.get(str(region.tag), region.tag)
        if tag not in known:
            have = ", ".join([*map(str, known), *mesh.tag_names])
            problem = f"case key '{name}.tag': found {region.tag!r}; {mesh.source} has the regions {have}"
        found = np.asarray(mesh.element_tags == tag, bool)
    else:
        inner = geometry.inner
        inside: Any  # [E][points]
        if region.where:
            inside = program.values(program.compiled(region.where), *inner) != 0
        else:
            low, high = (np.array(c)[:, None, None] for c in (region.lower, region.upper))
            inside = np.logical_and(inner > low, inner < high).all(axis=0)
        found = inside.all(axis=1)
        cut = inside.any(axis=1) & ~found
        if cut.any():
            element = int(np.argmax(cut))
            at = ", ".join(f"{c:.4g}" for c in geometry.centres[:, element])
            problem = (
                f"case key '{name}': its surface cuts through element {mesh.element_ids[element]} (counting from 0) "
                f"round ({at}) and {cut.sum() - 1} more; regions are made of whole elements: align the mesh with it"
            )
    together(mesh, problem)
    if not mesh.comm.allreduce(bool(found.any()), MPI.LOR):
        raise CollectiveError(f"case key '{name}': it means no element of {mesh.source}; check its box or expression")
    return found


def materials(case: MaxwellCase, geometry: Geometry) -> tuple[dict[str, tuple[float, float, float]], Values]:
    """Values (eps, mu, sigma) by the material's name, and for each of this rank's elements which it is. (collective)

    CollectiveError for a region that means no element or cuts one, for elements of two regions, and for regions of a
    mesh file that are left without a material where others have one.
    """
    mesh = geometry.mesh
    table = {"vacuum": VACUUM} | {n: (m.epsilon, m.mu, m.sigma) for n, m in case.materials.items()}
    names = list(table)
    rest = next((n for n, m in case.materials.items() if not m.ways), "vacuum")
    regions = np.full(mesh.elements, -1, np.int32)
    for name, material in case.materials.items():
        if not material.ways:
            continue
        found = chosen(material, f"materials.{name}", geometry)
        twice = found & (regions >= 0)
        together(
            mesh,
            f"case keys 'materials.{names[regions[np.argmax(twice)]]}' and 'materials.{name}' both mean element "
            f"{mesh.element_ids[np.argmax(twice)]} (counting from 0); allowed: regions that do not overlap"
            if twice.any()
            else None,
        )
        regions[found] = names.index(name)
    left = regions < 0
    if (
        rest == "vacuum"
        and "vacuum" not in case.materials
        and case.mesh.file
        and any(m.tag != "" for m in case.materials.values())
    ):
        bare = left & (mesh.element_tags != 0)
        tag = int(mesh.element_tags[np.argmax(bare)]) if bare.any() else 0
        named = next((n for n, t in mesh.tag_names.items() if t == tag), str(tag))
        problem = (
            f"region {named} of {mesh.source} has no material: add [materials.NAME] with tag = {tag} and epsilon, mu, "
            "or one material without tag, box and where for all that is left"
        )
        together(mesh, problem if bare.any() else None)
    regions[left] = names.index(rest)
    return table, regions


def boundaries(case: MaxwellCase, mesh: Any) -> dict[str, str]:
    """The condition on each boundary of the mesh: the case's, what the boundary's own name says (PEC), that of "*".

    CollectiveError for a boundary without a condition, and for a condition of a boundary that is not there.
    (collective)
    """
    spoken = {name: name.lower() for name in mesh.boundary_names if name.lower() in CONDITIONS}
    return conditions(mesh, case.boundaries, spoken, CONDITIONS)


def uniform(table: dict[str, tuple[float, float, float]], regions: Values, mesh: Any, what: str) -> Sequence[float]:
    """The one material of a mesh. CollectiveError where there are several. (collective)"""
    used = sorted({int(r) for found in mesh.comm.allgather(np.unique(regions)) for r in found})
    values = {list(table.values())[r] for r in used}
    if len(values) > 1:
        found = ", ".join(list(table)[r] for r in used)
        raise CollectiveError(f"case key 'initial.field': {what} is for one material, and the mesh has {found}")
    return values.pop()


def exact(
    case: MaxwellCase, geometry: Geometry, table: dict[str, tuple[float, float, float]], regions: Values
) -> Harmonic | None:
    """The exact solution that a case starts from, if it has one. CollectiveError where it cannot be. (collective)"""
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


def sphere(
    case: MaxwellCase, geometry: Geometry, table: dict[str, tuple[float, float, float]], regions: Values
) -> Sphere:
    """The Mie series of the case's plane wave and one material. ValueError if that is no sphere. (collective)"""
    comm = geometry.mesh.comm
    filled = [k for k, values in enumerate(table.values()) if values != VACUUM]
    used = [k for k in filled if comm.allreduce(bool((regions == k).any()), MPI.LOR)]
    if len(used) != 1:
        raise ValueError(f"{len(used)} materials other than vacuum; the series is that of one")
    epsilon, mu, sigma = list(table.values())[used[0]]
    if sigma:
        raise ValueError("its material conducts (sigma > 0)")
    mine = regions == used[0]
    radii = np.linalg.norm(geometry.points, axis=0)
    radius = comm.allreduce(float(radii[mine].max(initial=0.0)), MPI.MAX)
    nearest = comm.allreduce(float(radii[~mine].min(initial=math.inf)), MPI.MIN)
    if abs(radius - nearest) > 1e-3 * radius:
        raise ValueError(f"material {list(table)[used[0]]!r} is no sphere round the origin")
    source = next(iter(case.sources.values()))
    if case.initial.amplitude != 1.0:
        raise ValueError("the source says how strong the fields are: initial.amplitude stays 1")
    if source.width or source.frequency == 0.0:
        raise ValueError("the series is that of one frequency: the source has width = 0 and frequency above 0")
    direction = np.array(source.direction) / np.linalg.norm(source.direction)
    k = 2 * math.pi * source.frequency * direction
    # sin(omega s + phase) with s = t - delay - direction . (x - at), as the real part of exp(-i omega t).
    late = 2 * math.pi * source.frequency * source.delay - k @ np.array(source.at)
    phase = late - source.phase + 0.5 * math.pi
    return Sphere(radius, k.tolist(), list(source.field), epsilon, mu, phase=phase)


class Exact:
    """An exact solution on this rank's elements: which material each is of, and whether it holds the total field."""

    def __init__(self, solution: Harmonic, geometry: Geometry, filled: Values, total: Values | None) -> None:
        self.solution, self.filled = solution, filled
        self.centres = geometry.centres
        self.total = np.ones(len(filled), bool) if total is None else total

    def fields(self, time: float, points: Values, which: Any = slice(None)) -> Values:
        """[6][E][points] at points [3][E][points] of the elements ``which``."""
        solution = self.solution
        x, y, z = points
        if not isinstance(solution, Sphere):
            # Interfaces are planes: an element's centre is on the side of its material.
            near = [np.broadcast_to(c[which, None], x.shape) for c in self.centres]
            return solution.fields(time, x, y, z, near)
        # Elements may bend round the sphere, and then their centre may lie on its other side.
        radius = np.where(self.filled[which], 0.0, 2 * solution.radius)[:, None] * np.ones(x.shape)
        near = [radius, 0 * radius, 0 * radius]
        values = solution.part("total", x, y, z, near)
        scattered = ~self.total[which]
        values[:, scattered] -= solution.incident.phasor(x[scattered], y[scattered], z[scattered])
        return np.real(values * np.exp(-1j * solution.omega * time))


def not_exact(case: MaxwellCase, conditions: dict[str, str]) -> str:
    """Why the solution that a case starts from is not that of the case; empty where it is."""
    field = case.initial.field
    if field == "sphere":
        return ""  # it is asked for with its source; what layers and boundaries send back is part of the error
    if case.sources or case.layer.thickness:
        return f"initial.field = {field!r} has no sources and no matched layer"
    if field == "plane-wave":
        return "a plane wave is exact in periodic boxes, and this mesh has boundaries" if conditions else ""
    others = [name for name, condition in conditions.items() if condition != "pec"]
    return f"modes are exact between conducting walls (pec), and {others[0]!r} is not" if others else ""


def sources(case: MaxwellCase) -> tuple[list[Any], list[Any]]:
    """The plane waves and the dipoles of a case, as weft.maxwell.Solver takes them."""
    waves, dipoles = [], []
    for source in case.sources.values():
        given = settings(source)
        if source.kind == "plane-wave":
            waves.append(maxwell.PlaneWave(given["direction"], given["field"], source.at, pulse=given["pulse"]))
        else:
            dipoles.append(maxwell.Dipole(source.at, given["moment"], given["pulse"]))
    return waves, dipoles


def total_field(case: MaxwellCase, geometry: Geometry) -> Values | None:
    """[E] which of this rank's elements hold the total field; None where the case says none. (collective)"""
    return chosen(case.total_field, "total_field", geometry) if case.total_field.ways else None


def damping(case: MaxwellCase, geometry: Geometry) -> Values | None:
    """The damping of the case's perfectly matched layer; None without one. (collective)"""
    layer = case.layer
    if not layer.thickness:
        return None
    size = (geometry.upper - geometry.lower)[["xyz".index(side[0]) for side in layer.sides]]
    if layer.thickness >= 0.5 * size.min(initial=math.inf):
        half = 0.5 * size.min()
        raise CollectiveError(
            f"case key 'layer.thickness': found {layer.thickness:g}; allowed: less than half of the mesh, {half:g}"
        )
    return maxwell.matched_layer(
        geometry.mesh,
        geometry.order,
        layer.thickness,
        lower=geometry.lower.tolist(),
        upper=geometry.upper.tolist(),
        sides=layer.sides,
        reflection=layer.reflection,
        power=layer.power,
    )


def layered(
    case: MaxwellCase, geometry: Geometry, table: dict[str, tuple[float, float, float]], regions: Values
) -> LayeredMode:
    """The mode of layers across x, as the materials are. ValueError where they are no layers. (collective)"""
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
            raise ValueError("the materials are not layers across x")
        else:
            layers.append([start, end, region])
    if any(values[int(r)][2] for _, _, r in layers):
        raise ValueError("a material conducts (sigma > 0)")
    index, waves, none = case.initial.mode
    if none:
        raise ValueError("initial.mode is number, periods along y, 0")
    stack = [(end - start, values[int(r)][0], values[int(r)][1]) for start, end, r in layers]
    wavenumber = 2 * math.pi * waves / (geometry.upper[1] - geometry.lower[1])
    return LayeredMode(stack, wavenumber, "s" if case.initial.kind == "te" else "p", index, layers[0][0])


def initial_fields(case: MaxwellCase, geometry: Geometry, solution: Exact | None) -> Values:
    """[E][6][n][n][n] the fields at time 0 on this rank."""
    initial, n = case.initial, case.order + 1
    points = geometry.points
    if initial.zero:
        values = np.zeros((6, *points[0].shape))
    elif solution is not None:
        values = solution.fields(0.0, points)
    elif initial.field == "random":
        values = _random(geometry, initial.seed)
    else:
        zero = np.zeros(points[0].shape)
        values = np.stack(
            [program.values(program.compiled(text), *points) if text else zero for text in initial.expressions.values()]
        )
    values = initial.amplitude * np.asarray(values, float)
    return np.ascontiguousarray(np.moveaxis(values, 0, 1).reshape(-1, 6, n, n, n))


def _random(geometry: Geometry, seed: int) -> Values:
    """Uniform in [-1, 1), each element's from a stream of its own: the same on any ranks."""
    shape = geometry.points.shape[2]
    draw: Callable[[int], Values] = lambda e: np.random.default_rng((seed, int(e))).uniform(-1, 1, (6, shape))  # noqa: E731
    return np.stack([draw(e) for e in geometry.mesh.element_ids], axis=1)
