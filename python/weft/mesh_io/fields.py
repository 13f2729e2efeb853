"""Writer of fields for ParaView and VisIt: a ``.vtu`` of Lagrange hexahedra per rank, and a ``.pvtu`` that joins them.

meshio also writes VTK files, but neither Lagrange hexahedra above order 2 nor ``.pvtu`` files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np
import numpy.typing as npt

from weft import _weft
from weft.files import whole, write_text
from weft.mesh import Mesh, MeshError

Column = npt.NDArray[np.generic]  # floating-point or integer

VTK_LAGRANGE_HEXAHEDRON = 72
_TYPES = {"f4": "Float32", "f8": "Float64", "i4": "Int32", "i8": "Int64", "u1": "UInt8"}


def lagrange_order(order: int) -> npt.NDArray[np.int64]:
    """The lexicographic index (i fastest) of each node of a VTK_LAGRANGE_HEXAHEDRON: [(order+1)^3].

    The corners come first, followed by the interiors of the edges, of the faces and of the cell, each in lexicographic
    order. The vertical edges go around the cell like the corners (VTK 9.1 and later, file version 2.1 and later).
    """
    n1, inside = order + 1, range(1, order)
    around = [(0, 0), (order, 0), (order, order), (0, order)]
    nodes = [(i, j, k) for k in (0, order) for i, j in around]
    for k in (0, order):
        nodes += [(i, 0, k) for i in inside] + [(order, j, k) for j in inside]
        nodes += [(i, order, k) for i in inside] + [(0, j, k) for j in inside]
    nodes += [(i, j, k) for i, j in around for k in inside]
    nodes += [(i, j, k) for i in (0, order) for k in inside for j in inside]
    nodes += [(i, j, k) for j in (0, order) for k in inside for i in inside]
    nodes += [(i, j, k) for k in (0, order) for j in inside for i in inside]
    nodes += [(i, j, k) for k in inside for j in inside for i in inside]
    return np.array(nodes) @ [1, n1, n1 * n1]


def write_fields(path: str | os.PathLike[str], mesh: Mesh, order: int, fields: Mapping[str, npt.ArrayLike]) -> Path:
    """Writes fields given at the points of ``order`` and returns the file to open. (collective)

    ``fields`` maps names to real arrays [E][(order+1)^3] or [E][(order+1)^3][components], where the points may be one
    axis or three. One rank writes ``path`` with the suffix ``.vtu``; several ranks write ``path`` with the suffix
    ``.pvtu`` and a folder next to it with one ``.vtu`` per rank. Values are interpolated from the GLL points to the
    equidistant points that VTK expects, at the same order and thus without loss. Raises MeshError, the same on every
    rank, if any rank cannot write.
    """
    comm = mesh.comm
    path = Path(path)
    problem = None
    try:
        arrays = {name: _equidistant(np.asarray(values), mesh.elements, order, name) for name, values in fields.items()}
        target = path.with_suffix(".vtu")
        if comm.size > 1:
            folder = path.with_suffix("")
            folder.mkdir(parents=True, exist_ok=True)
            target = folder / f"{comm.rank}.vtu"
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
        points = _equidistant(mesh.point_coordinates(order), mesh.elements, order, "coordinates")
        _write_vtu(target, points, order, arrays)
        if comm.size > 1 and comm.rank == 0:
            _write_pvtu(path.with_suffix(".pvtu"), comm.size, arrays)
            target = path.with_suffix(".pvtu")
    except OSError as error:
        problem = f"cannot write {error.filename or path}: {error.strerror or error}"
    except ValueError as error:
        problem = str(error)
    problems = [text for text in comm.allgather(problem) if text is not None]
    if problems:
        raise MeshError(problems[0])
    return path.with_suffix(".vtu" if comm.size == 1 else ".pvtu")


def _equidistant(values: Column, elements: int, order: int, name: str) -> npt.NDArray[np.floating]:
    """Values at equidistant points in VTK's node order: [E n1^3][components]."""
    n1 = order + 1
    if values.dtype.kind not in "fiu":
        raise ValueError(f"field {name!r} has the type {values.dtype}, but only real numbers can be written")
    if values.shape[1:4] == (n1, n1, n1):
        values = values.reshape(elements, n1**3, *values.shape[4:])
    if values.shape[:2] != (elements, n1**3) or values.ndim > 3:
        raise ValueError(
            f"field {name!r} has the shape {values.shape}, but needs ({elements}, {n1**3}) or ({elements}, {n1**3}, "
            "components)"
        )
    points, _, _ = _weft.mesh.gll(order)
    matrix = _weft.mesh.interpolation(points, np.linspace(-1, 1, n1))
    components = 1 if values.ndim == 2 else values.shape[2]
    kind = values.dtype if values.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    cube = values.reshape(elements, n1, n1, n1, components).astype(np.float64)
    for axis in (1, 2, 3):
        cube = np.moveaxis(np.tensordot(matrix, cube, axes=(1, axis)), 0, axis)
    return cube.reshape(elements, n1**3, components)[:, lagrange_order(order)].reshape(-1, components).astype(kind)


def _attributes(array: Column, name: str) -> str:
    components = "" if array.ndim == 1 else f" NumberOfComponents={quoteattr(str(array.shape[1]))}"
    return f'type="{_TYPES[array.dtype.str[1:]]}" Name={quoteattr(name)}{components}'


_HEADER = '<?xml version="1.0"?>\n<VTKFile type="{}" version="2.2" byte_order="LittleEndian" header_type="UInt64">\n'


def _write_vtu(path: Path, points: Column, order: int, fields: Mapping[str, Column]) -> None:
    per_cell = (order + 1) ** 3
    cells = len(points) // per_cell
    sections: dict[str, Mapping[str, Column]] = {
        "PointData": fields,
        "Points": {"Points": points},
        "Cells": {
            "connectivity": np.arange(len(points), dtype=np.int64),
            "offsets": per_cell * np.arange(1, cells + 1, dtype=np.int64),
            "types": np.full(cells, VTK_LAGRANGE_HEXAHEDRON, np.uint8),
        },
    }
    with whole(path) as place, place.open("wb") as file:
        text = _HEADER.format("UnstructuredGrid")
        text += f'<UnstructuredGrid><Piece NumberOfPoints="{len(points)}" NumberOfCells="{cells}">\n'
        offset = 0
        for section, arrays in sections.items():
            text += f"<{section}>\n"
            for name, array in arrays.items():
                text += f'<DataArray {_attributes(array, name)} format="appended" offset="{offset}"/>\n'
                offset += 8 + array.nbytes
            text += f"</{section}>\n"
        text += '</Piece></UnstructuredGrid>\n<AppendedData encoding="raw">\n_'
        file.write(text.encode())
        for arrays in sections.values():
            for array in arrays.values():
                file.write(np.uint64(array.nbytes).tobytes())
                file.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
        file.write(b"\n</AppendedData>\n</VTKFile>\n")


def _write_pvtu(path: Path, ranks: int, fields: Mapping[str, Column]) -> None:
    lines = [_HEADER.format("PUnstructuredGrid"), '<PUnstructuredGrid GhostLevel="0">\n<PPointData>\n']
    lines += [f"<PDataArray {_attributes(array, name)}/>\n" for name, array in fields.items()]
    lines += [
        '</PPointData>\n<PPoints>\n<PDataArray type="Float64" Name="Points" NumberOfComponents="3"/>\n</PPoints>\n'
    ]
    lines += [f"<Piece Source={quoteattr(f'{path.stem}/{rank}.vtu')}/>\n" for rank in range(ranks)]
    write_text(path, "".join(lines) + "</PUnstructuredGrid>\n</VTKFile>\n")
