"""Meshes of concentric spheres ("cubed spheres") and of cylinders: a cube or square, and curved layers around it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from weft.mesh_io.raw import ARC, SPHERE, Floats, FormatError, RawMesh, match_vertices, outer_faces

CORE = 0.5  # distance of the corners of the inner cube from the centre, in radii of the innermost sphere


def cubed_sphere(
    radii: Sequence[float],
    side: int,
    layers: Sequence[int] | int,
    half_width: float = 0.0,
    box_layers: Sequence[float] = (),
) -> RawMesh:
    """The mesh that ``weft.Mesh.sphere`` describes. Raises FormatError if the numbers are not valid."""
    counts = [layers] * len(radii) if isinstance(layers, int) else list(layers)
    if side < 1 or not radii or len(counts) != len(radii) or min(counts) < 1:
        raise FormatError(
            "a sphere needs at least one radius, at least 1 layer per radius and at least 1 element per side; found "
            f"radii {list(radii)}, layers {counts} and side {side}"
        )
    if not all(a < b for a, b in itertools.pairwise([0.0, *radii])):
        raise FormatError(f"the radii of spheres must be above 0 and ascend; found {list(radii)}")
    if half_width and not half_width > radii[-1]:
        raise FormatError(f"a cube of half width {half_width} is too small for a sphere of radius {radii[-1]}")
    if box_layers and (not half_width or min(box_layers) <= 0):
        raise FormatError("layers around the cube need a cube (half_width) and thicknesses above 0")

    # Equal angles along a face of the cube, so that elements on the sphere have similar sizes.
    grid = np.tan(0.25 * np.pi * np.linspace(-1, 1, side + 1))
    core = CORE * radii[0] / np.sqrt(3.0)
    corners, tags, spheres = [_cuboids([core * grid] * 3)], [np.ones(side**3, np.int64)], [np.zeros((side**3, 2))]

    shells: list[tuple[Floats, Floats, int, float, float]] = []  # two surfaces, tag, their radii (0: not a sphere)
    for tag, (radius, count) in enumerate(zip(radii, counts, strict=True), 1):
        # The first layers change gradually from the inner cube to the sphere.
        inner = radii[tag - 2] if tag > 1 else 0.0
        for k in range(count):
            low, high = k / count, (k + 1) / count
            if tag == 1:
                a, b = (_between(core, radius, s, grid) for s in (low, high))
                shells.append((a, b, tag, 0.0, radius if k + 1 == count else 0.0))
            else:
                r0, r1 = inner + low * (radius - inner), inner + high * (radius - inner)
                shells.append((_ball(r0, grid), _ball(r1, grid), tag, r0, r1))
    if half_width:
        shells.append((_ball(radii[-1], grid), _cube(half_width, grid), len(radii) + 1, radii[-1], 0.0))
    for a, b, tag, r0, r1 in shells:
        block = _shell(a, b)
        corners.append(block)
        tags.append(np.full(len(block), tag))
        spheres.append(np.tile([r0, r1], (len(block), 1)))
    if box_layers:
        out = half_width + np.cumsum(box_layers)
        lines = np.concatenate([-out[::-1], half_width * grid, out])
        inside = (np.arange(len(lines) - 1) >= len(out)) & (np.arange(len(lines) - 1) < len(out) + side)
        keep = ~(inside[:, None, None] & inside[:, None] & inside).ravel()
        block = _cuboids([lines] * 3)[keep]
        corners.append(block)
        tags.append(np.full(len(block), len(radii) + 2))
        spheres.append(np.zeros((len(block), 2)))

    nodes = np.concatenate(corners)
    vertices = match_vertices(nodes)
    curved = np.concatenate(spheres)
    sides, values = [], []
    for face in (4, 5):  # t points outwards in every shell
        at = np.flatnonzero(curved[:, face - 4])
        sides.append(np.stack([at, np.full(len(at), SPHERE), np.full(len(at), face)], axis=1))
        values.append(np.pad(curved[at, face - 4 : face - 3], ((0, 0), (3, 1))))
    raw = RawMesh(vertices, nodes, outer_faces(vertices).astype(np.int32), ["outer"], "sphere")
    raw.curve_sides, raw.curve_values = np.concatenate(sides).astype(np.int64), np.concatenate(values)
    raw.tags = np.concatenate(tags)
    return raw.check()


def _cuboids(lines: Sequence[Floats]) -> Floats:
    """The cuboids between lines of constant x, y and z: [E][8][3]."""
    nx, ny, nz = (len(line) - 1 for line in lines)
    k, j, i = (index.ravel() for index in np.meshgrid(range(nz), range(ny), range(nx), indexing="ij"))
    corner = [
        np.stack([lines[0][i + a], lines[1][j + b], lines[2][k + c]], axis=1)
        for c, b, a in itertools.product((0, 1), repeat=3)
    ]
    return np.stack(corner, axis=1)


def _faces(grid: Floats) -> Floats:
    """The six faces of the cube [-1, 1]^3: [6][n][n][3].

    On each face, the last index runs along the first tangent, and (first tangent, second tangent, outwards) is
    right-handed.
    """
    b, a = np.meshgrid(grid, grid, indexing="ij")  # a runs along the last index
    one = np.ones_like(a)
    faces = []
    for axis in range(3):
        u, v = (axis + 1) % 3, (axis + 2) % 3
        for sign in (-1.0, 1.0):
            face = np.empty((*a.shape, 3))
            face[..., axis] = sign * one
            # e_u x e_v = e_axis points outwards on the positive side; on the negative side, the tangents are swapped.
            face[..., u], face[..., v] = (a, b) if sign > 0 else (b, a)
            faces.append(face)
    return np.stack(faces)


def _cube(half_width: float, grid: Floats) -> Floats:
    return half_width * _faces(grid)


def _ball(radius: float, grid: Floats) -> Floats:
    faces = _faces(grid)
    return radius * faces / np.linalg.norm(faces, axis=-1, keepdims=True)


def _between(core: float, radius: float, share: float, grid: Floats) -> Floats:
    """The surface at a share of the way from the inner cube to the innermost sphere."""
    if share == 1.0:
        return _ball(radius, grid)
    return (1 - share) * _cube(core, grid) + share * _ball(radius, grid)


def _shell(inner: Floats, outer: Floats) -> Floats:
    """The elements between two surfaces [6][n][n][3], with t outwards: [E][8][3]."""
    corner = [
        surface[:, j : j + surface.shape[1] - 1, i : i + surface.shape[2] - 1].reshape(-1, 3)
        for surface in (inner, outer)
        for j, i in itertools.product((0, 1), repeat=2)
    ]
    return np.stack(corner, axis=1)


def cylinder(radius: float, length: float, side: int, layers: int, slices: int, periodic: bool) -> RawMesh:
    """The mesh that ``weft.Mesh.cylinder`` describes. Raises FormatError if the numbers are not valid."""
    if not (radius > 0 and length > 0) or min(side, layers, slices) < 1:
        raise FormatError(
            "a cylinder needs a radius and a length above 0, and at least 1 element per side of the inner square, 1 "
            f"layer and 1 slice; found radius {radius}, length {length}, side {side}, layers {layers}, slices {slices}"
        )
    grid = np.tan(0.25 * np.pi * np.linspace(-1, 1, side + 1))
    core = CORE * radius / np.sqrt(2.0)
    edge = np.stack([np.ones(side + 1), grid], axis=1)  # edge of the square, counterclockwise
    quarter = np.array([[0.0, 1.0], [-1.0, 0.0]])  # rotates rows by 90 degrees
    quads = [_cuboids([core * grid, core * grid, np.array([0.0, 1.0])])[:, :4, :2]]
    for turn in range(4):
        ray = edge @ np.linalg.matrix_power(quarter, turn)
        circle = ray / np.linalg.norm(ray, axis=1, keepdims=True)
        for layer in range(layers):
            a, b = ((1 - s) * core * ray + s * radius * circle for s in (layer / layers, (layer + 1) / layers))
            quads.append(np.stack([a[:-1], b[:-1], a[1:], b[1:]], axis=1))  # i outwards, j counterclockwise
    outermost = np.concatenate([np.full(len(q), k > 0 and (k - 1) % layers == layers - 1) for k, q in enumerate(quads)])
    flat = np.concatenate(quads)
    count = len(flat)
    z = length * np.linspace(0, 1, slices + 1)
    corners = np.empty((slices, count, 2, 4, 3))
    corners[..., :2] = flat[None, :, None]
    corners[:, :, 0, :, 2], corners[:, :, 1, :, 2] = z[:-1, None, None], z[1:, None, None]
    nodes = corners.reshape(-1, 8, 3)
    boundaries = np.zeros((slices, count, 6), np.int32)
    boundaries[:, outermost, 1] = 1
    names = ["wall"]
    pairs = np.empty((0, 8), np.int64)
    if periodic:
        low, high = np.arange(count), (slices - 1) * count + np.arange(count)
        columns = [low, np.full(count, 4), high, np.full(count, 5), *(np.full(count, c) for c in range(4))]
        pairs = np.stack(columns, axis=1)
    else:
        boundaries[0, :, 4], boundaries[-1, :, 5] = 2, 3
        names += ["z-", "z+"]
    raw = RawMesh(match_vertices(nodes), nodes, boundaries.reshape(-1, 6), names, "cylinder", pairs)
    bent = np.flatnonzero(np.tile(outermost, slices))
    raw.curve_sides = np.array([[e, ARC, side_of] for e in bent for side_of in (5, 7)], np.int64)
    raw.curve_values = np.tile([radius, 0.0, 0.0, 0.0, 0.0], (len(raw.curve_sides), 1))  # arcs bulge to the right
    return raw.check()
