"""Reader of Gmsh's ``.msh`` files: versions 2.2, 4.0 and 4.1, ASCII and binary, hexahedra or quadrangles of order 1, 2.

meshio reads these files too, but it identifies physical groups by name only, takes unknown node tags for the last node,
allocates memory by the largest tag, and requires consecutive tags in binary files. The boundaries of a mesh must not be
lost this way.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from weft.mesh_io.extrude import thickness
from weft.mesh_io.nodes import CORNERS, GMSH, lexicographic
from weft.mesh_io.raw import (
    FACE_CORNERS,
    FACE_NAMES,
    Floats,
    FormatError,
    Ints,
    RawMesh,
    check_numbers,
    unique_rows,
)

# Element types: dimension, number of nodes, name.
_TYPES = {
    1: (1, 2, "lines"),
    2: (2, 3, "triangles"),
    3: (2, 4, "quadrangles"),
    4: (3, 4, "tetrahedra"),
    5: (3, 8, "hexahedra"),
    6: (3, 6, "prisms"),
    7: (3, 5, "pyramids"),
    8: (1, 3, "lines"),
    9: (2, 6, "triangles"),
    10: (2, 9, "quadrangles"),
    11: (3, 10, "tetrahedra"),
    12: (3, 27, "hexahedra"),
    13: (3, 18, "prisms"),
    14: (3, 14, "pyramids"),
    15: (0, 1, "points"),
    16: (2, 8, "quadrangles"),
    17: (3, 20, "hexahedra"),
    18: (3, 15, "prisms"),
    19: (3, 13, "pyramids"),
}
_HEXAHEDRA = {5: 8, 12: 27, 17: 20}
_QUADRANGLES = (3, 10, 16)
_LINES = (1, 8)

# The hexahedron over a quadrangle: its type, and for each of its nodes the node of the quadrangle (its corners, the
# middles of its sides, its centre) and the level (0 to 2) at which it is.
_LEVELS = [0] * 4 + [2] * 4 + [0, 0, 1, 0, 1, 0, 1, 1] + [2] * 4
_BELOW = [*(2 * [0, 1, 2, 3]), 4, 7, 0, 5, 1, 6, 2, 3, 4, 7, 5, 6]
_OVER = {
    3: (5, _BELOW[:8], _LEVELS[:8]),
    16: (17, _BELOW, _LEVELS),
    10: (12, [*_BELOW, 8, 4, 7, 5, 6, 8, 8], [*_LEVELS, 0, 1, 1, 1, 1, 2, 1]),
}
_MIRRORED = [0, 3, 2, 1, 7, 6, 5, 4, 8]  # the nodes of a quadrangle seen from below


@dataclass
class _File:
    version: str = ""
    side: str = "surface"  # what the file calls the sides of elements
    names: dict[tuple[int, int], str] = field(default_factory=dict)  # (dimension, physical tag)
    physical: dict[tuple[int, int], list[int]] = field(default_factory=dict)  # by entity (dimension, tag), version 4
    tags: list[Ints] = field(default_factory=list)
    places: list[Floats] = field(default_factory=list)
    # By type: nodes [n][k], and the physical group (0: none) and the entity of each element.
    elements: dict[int, list[tuple[Ints, Ints, Ints]]] = field(default_factory=lambda: defaultdict(list))
    # dimension and tag of the slave entity; slave and master nodes [n][2]
    periodic: list[tuple[int, int, Ints]] = field(default_factory=list)


class _Numbers:
    """The numbers of a section, as text or binary. Each request is checked against the data that are left."""

    def __init__(self, data: bytes, offset: int, ascii_end: int | None, order: str, size: int, section: str) -> None:
        self.data, self.offset, self.order, self.size, self.section = data, offset, order, size, section
        self.words: Floats | None = None
        if ascii_end is not None:
            try:
                self.words = np.array(data[offset:ascii_end].split(), dtype=np.float64)
            except ValueError as error:
                raise FormatError(f"section ${section}: {str(error).replace('bytes', 'number')}") from None
            self.offset = 0

    def _left(self) -> int:
        return len(self.data) - self.offset if self.words is None else len(self.words) - self.offset

    def _take(self, kind: str, count: int) -> np.ndarray:
        need = count * (np.dtype(kind).itemsize if self.words is None else 1)
        if count < 0 or need > self._left():
            raise FormatError(f"section ${self.section} is truncated or damaged: {count} more numbers are expected")
        if self.words is None:
            result = np.frombuffer(self.data, self.order + kind, count, self.offset)
            self.offset += need
            return result.astype(np.float64 if kind[0] == "f" else np.int64)
        result = self.words[self.offset : self.offset + count]
        self.offset += count
        if kind[0] == "f":
            return result
        if not (np.isfinite(result) & (np.abs(result) < 2**53) & (result == np.rint(result))).all():
            raise FormatError(f"section ${self.section} is damaged: it must have whole numbers, but has others")
        return result.astype(np.int64)

    def ints(self, count: int) -> Ints:
        return self._take("i4", count)

    def sizes(self, count: int) -> Ints:
        return self._take(f"i{self.size}", count)

    def doubles(self, count: int) -> Floats:
        return self._take("f8", count)

    def tagged(self, count: int, values: int) -> tuple[Ints, Floats]:
        """Reads an int and ``values`` doubles, ``count`` times."""
        if self.words is None:
            record = np.dtype([("tag", self.order + "i4"), ("values", self.order + "f8", (values,))])
            if count < 0 or count * record.itemsize > self._left():
                raise FormatError(f"section ${self.section} is truncated or damaged: {count} nodes are expected")
            table = np.frombuffer(self.data, record, count, self.offset)
            self.offset += count * record.itemsize
            return table["tag"].astype(np.int64), table["values"].astype(np.float64)
        if count < 0 or count * (1 + values) > self._left():
            raise FormatError(f"section ${self.section} is truncated or damaged: {count} nodes are expected")
        rows = self._take("f8", count * (1 + values)).reshape(count, 1 + values)
        if not (np.isfinite(rows[:, 0]) & (np.abs(rows[:, 0]) < 2**53)).all():
            raise FormatError(f"section ${self.section} is damaged: its node tags are not whole numbers")
        return rows[:, 0].astype(np.int64), rows[:, 1:]


def read_msh(path: Path) -> RawMesh:
    """Reads the hexahedra, the named surfaces and the periodic surfaces of a Gmsh file.

    A file without hexahedra is 2-D: its quadrangles, named and periodic lines become a flat mesh.

    Surfaces inside the mesh are not boundaries. Surfaces that Gmsh made periodic are periodic, whatever their names.
    Surfaces without a name are called ``surface TAG``, and faces that are on no surface ``unnamed``.
    """
    return _assemble(_parse(path.read_bytes()), path.name)


def _parse(data: bytes) -> _File:
    file = _File()
    order, size, binary = "<", 8, False
    offset = 0
    seen: set[str] = set()
    while True:
        start = re.compile(rb"\s*").match(data, offset).end()  # type: ignore[union-attr]
        if start == len(data):
            break
        end = data.find(b"\n", start)
        line = data[start : end if end >= 0 else len(data)].strip()
        if not line.startswith(b"$"):
            what = "this is not a Gmsh file" if not seen else f"the file is damaged at byte {start}"
            raise FormatError(f"{what}: expected a section that begins with $")
        section = line[1:].decode("latin-1")
        closing = data.find(b"$End" + line[1:], start)
        if closing < 0 or end < 0:
            raise FormatError(f"the file is truncated: section ${section} has no $End{section}")
        body = end + 1
        if section == "MeshFormat":
            file.version, binary, size, order = _format(data, body, closing)
        elif section in ("Nodes", "Elements", "Entities", "PartitionedEntities", "Periodic", "PhysicalNames"):
            if not file.version:
                raise FormatError("this is not a Gmsh file: section $MeshFormat must come first")
            if section in seen:
                raise FormatError(f"section ${section} appears twice")
            if section == "PhysicalNames":
                _physical_names(data[body:closing], file)
            elif section == "Periodic" and file.version == "2.2":
                _periodic_lines(data[body:closing], file)
            elif section == "Periodic" and file.version == "4.0":
                if binary:
                    raise FormatError(
                        "periodic surfaces in binary files of version 4.0 are not supported: save the mesh as 4.1"
                    )
                _periodic_lines(data[body:closing], file)
            else:
                if binary and file.version == "2.2":  # the count is text, the rest is not
                    stop = data.find(b"\n", body)
                    count = _count(data[body:stop], section)
                    numbers = _Numbers(data, stop + 1, None, order, size, section)
                else:
                    numbers = _Numbers(data, body, None if binary else closing, order, size, section)
                    count = int(numbers.ints(1)[0]) if file.version == "2.2" else 0
                _SECTIONS[section, file.version[0]](numbers, count, file)
                if binary:
                    closing = data.find(b"$End" + line[1:], numbers.offset)
                    if closing < 0 or data[numbers.offset : closing].strip():
                        raise FormatError(f"section ${section} is damaged: $End{section} does not follow its data")
        seen.add(section)
        offset = closing + len(line) + 3
    for section in ("MeshFormat", "Nodes", "Elements"):
        if section not in seen:
            raise FormatError(f"the file is truncated or not a mesh: section ${section} is missing")
    return file


def _format(data: bytes, body: int, closing: int) -> tuple[str, bool, int, str]:
    words = data[body:closing].split(b"\n")[0].split()
    try:
        version, kind, size = words[0].decode("latin-1"), int(words[1]), int(words[2])
    except (IndexError, ValueError):
        raise FormatError("section $MeshFormat is damaged") from None
    version = {"2": "2.2", "2.0": "2.2", "2.1": "2.2", "4": "4.0"}.get(version, version)
    if version not in ("2.2", "4.0", "4.1"):
        raise FormatError(
            f"Gmsh format {version} is not supported; save as 4.1 (or 2.2): gmsh in.msh -save -format msh41 -o out.msh"
        )
    if kind not in (0, 1) or size not in (4, 8):
        raise FormatError(f"section $MeshFormat is damaged: file type {kind}, data size {size}")
    order = "<"
    if kind == 1:
        one = data[data.find(b"\n", body) + 1 :][:4]
        if one not in (b"\1\0\0\0", b"\0\0\0\1"):
            raise FormatError("the byte-order mark of the binary file is damaged")
        order = "<" if one[0] == 1 else ">"
    return version, kind == 1, size, order


def _count(line: bytes, section: str) -> int:
    try:
        return int(line)
    except ValueError:
        raise FormatError(f"section ${section} does not begin with a number") from None


def _physical_names(body: bytes, file: _File) -> None:
    for dimension, tag, name in re.findall(r'^\s*(\d+)\s+(\d+)\s+"([^"\n]*)"', body.decode("utf-8", "replace"), re.M):
        file.names[int(dimension), int(tag)] = name


def _periodic_lines(body: bytes, file: _File) -> None:
    """Reads the periodic section of versions 2.2 and 4.0, which is text even in binary files of version 2.2."""
    lines = iter(line for line in body.decode("latin-1").splitlines() if line.strip())
    try:
        for _ in range(int(next(lines))):
            dimension, slave, _master = (int(word) for word in next(lines).split())
            line = next(lines)
            if line.lstrip().startswith("Affine"):
                line = next(lines)
            pairs = [[int(word) for word in next(lines).split()] for _ in range(int(line))]
            file.periodic.append((dimension, slave, np.array(pairs, np.int64).reshape(-1, 2)))
    except (StopIteration, ValueError, OverflowError):
        raise FormatError("section $Periodic is truncated or damaged") from None


def _nodes_2(numbers: _Numbers, count: int, file: _File) -> None:
    tags, places = numbers.tagged(count, 3)
    file.tags.append(tags)
    file.places.append(places)


def _elements_2(numbers: _Numbers, count: int, file: _File) -> None:
    def nodes_of(kind: int) -> int:
        if kind not in _TYPES:
            raise FormatError(f"element type {kind} is not supported: weft reads hexahedra of order 1 and 2")
        return _TYPES[kind][1]

    def add(kind: int, rows: Ints, groups: int) -> None:
        tags = rows[:, 1 : 1 + groups]
        none = np.zeros(len(rows), np.int64)
        file.elements[kind].append(
            (rows[:, 1 + groups :], tags[:, 0] if groups > 0 else none, tags[:, 1] if groups > 1 else none)
        )

    if numbers.words is None:
        done = 0
        while done < count:
            kind, rows, groups = (int(n) for n in numbers.ints(3))
            width = 1 + groups + nodes_of(kind)
            if rows < 1 or groups < 0 or done + rows > count:
                raise FormatError("section $Elements is damaged")
            add(kind, numbers.ints(rows * width).reshape(rows, width), groups)
            done += rows
        return
    words = numbers.ints(numbers._left())
    flat = words.tolist()
    shapes: dict[tuple[int, int], list[int]] = defaultdict(list)
    at = 0
    for _ in range(count):
        if at + 3 > len(flat):
            raise FormatError(f"section $Elements is truncated or damaged: {count} elements are expected")
        kind, groups = flat[at + 1], flat[at + 2]
        if groups < 0:
            raise FormatError("section $Elements is damaged")
        shapes[kind, groups].append(at)
        at += 3 + groups + nodes_of(kind)
    if at != len(flat):
        raise FormatError(
            f"section $Elements is damaged: {count} elements need {at} numbers, but there are {len(flat)}"
        )
    for (kind, groups), starts in shapes.items():
        width = 1 + groups + nodes_of(kind)
        # A row begins with the element's number; type and number of groups are skipped.
        add(kind, words[np.array(starts)[:, None] + 2 + np.arange(width)], groups)


def _entities_4(numbers: _Numbers, _: int, file: _File) -> None:
    counts = numbers.sizes(4)
    for dimension in range(4):
        for _ in range(int(counts[dimension])):
            tag = int(numbers.ints(1)[0])
            numbers.doubles(3 if dimension == 0 and file.version == "4.1" else 6)
            file.physical[dimension, tag] = numbers.ints(int(numbers.sizes(1)[0])).tolist()
            if dimension > 0:
                numbers.ints(int(numbers.sizes(1)[0]))


def _partitioned_4(numbers: _Numbers, _: int, file: _File) -> None:
    """The parts into which Gmsh has cut entities, and to which elements then refer instead."""
    numbers.sizes(1)  # number of partitions
    numbers.ints(2 * int(numbers.sizes(1)[0]))  # ghost entities
    counts = numbers.sizes(4)
    for dimension in range(4):
        for _ in range(int(counts[dimension])):
            tag = int(numbers.ints(3)[0])  # then the dimension and the tag of the whole entity
            numbers.ints(int(numbers.sizes(1)[0]))  # partitions
            numbers.doubles(3 if dimension == 0 and file.version == "4.1" else 6)
            file.physical[dimension, tag] = numbers.ints(int(numbers.sizes(1)[0])).tolist()
            if dimension > 0:
                numbers.ints(int(numbers.sizes(1)[0]))


def _nodes_4(numbers: _Numbers, _: int, file: _File) -> None:
    blocks = int(numbers.sizes(4 if file.version == "4.1" else 2)[0])
    for _ in range(blocks):
        first, second, parametric = (int(n) for n in numbers.ints(3))
        dimension = first if file.version == "4.1" else second
        extra = dimension if parametric and 0 <= dimension <= 3 else 0
        count = int(numbers.sizes(1)[0])
        if file.version == "4.1":
            file.tags.append(numbers.sizes(count))
            file.places.append(numbers.doubles((3 + extra) * count).reshape(count, 3 + extra)[:, :3])
        else:
            tags, places = numbers.tagged(count, 3 + extra)
            file.tags.append(tags)
            file.places.append(places[:, :3])


def _elements_4(numbers: _Numbers, _: int, file: _File) -> None:
    blocks = int(numbers.sizes(4 if file.version == "4.1" else 2)[0])
    for _ in range(blocks):
        first, second, kind = (int(n) for n in numbers.ints(3))
        dimension, entity = (first, second) if file.version == "4.1" else (second, first)
        count = int(numbers.sizes(1)[0])
        if kind not in _TYPES:
            raise FormatError(f"element type {kind} is not supported: weft reads hexahedra of order 1 and 2")
        width = 1 + _TYPES[kind][1]
        rows = numbers.sizes(count * width) if file.version == "4.1" else numbers.ints(count * width)
        groups = [abs(g) for g in file.physical.get((dimension, entity), [])]
        if len(groups) > 1 and (dimension == 2 or kind in _LINES):
            what = "surface" if dimension == 2 else "line"
            named = ", ".join(file.names.get((dimension, g), f"{what} {g}") for g in groups)
            raise FormatError(
                f"{what} {entity} is in several physical groups ({named}), but a face can be in only one boundary"
            )
        file.elements[kind].append(
            (rows.reshape(count, width)[:, 1:], np.full(count, groups[0] if groups else 0), np.full(count, entity))
        )


def _periodic_4(numbers: _Numbers, _: int, file: _File) -> None:
    for _ in range(int(numbers.sizes(1)[0])):
        dimension, slave, _master = (int(n) for n in numbers.ints(3))
        numbers.doubles(int(numbers.sizes(1)[0]))
        pairs = numbers.sizes(2 * int(numbers.sizes(1)[0])).reshape(-1, 2)
        file.periodic.append((dimension, slave, pairs))


_SECTIONS: dict[tuple[str, str], Callable[[_Numbers, int, _File], None]] = {
    ("Nodes", "2"): _nodes_2,
    ("Elements", "2"): _elements_2,
    ("Entities", "2"): lambda *_: None,
    ("Entities", "4"): _entities_4,
    ("PartitionedEntities", "2"): lambda *_: None,
    ("PartitionedEntities", "4"): _partitioned_4,
    ("Nodes", "4"): _nodes_4,
    ("Elements", "4"): _elements_4,
    ("Periodic", "4"): _periodic_4,
}


def _assemble(file: _File, source: str) -> RawMesh:
    counts: dict[tuple[int, str], int] = defaultdict(int)
    for kind, blocks in file.elements.items():
        counts[_TYPES[kind][0], _TYPES[kind][2]] += sum(len(b[0]) for b in blocks)
    others = [f"{n} {name}" for (dimension, name), n in counts.items() if dimension == 3 and name != "hexahedra" and n]
    if others:
        raise FormatError(
            f"the mesh has {', '.join(others)}, but weft reads hexahedra only (in Gmsh, use transfinite or extruded "
            "volumes with Recombine, or Mesh.SubdivisionAlgorithm = 2)"
        )
    flat = counts[3, "hexahedra"] == 0
    if flat:
        file = _lifted(file, counts[2, "triangles"])
    kinds = [k for k in _HEXAHEDRA if sum(len(b[0]) for b in file.elements.get(k, []))]
    if len(kinds) > 1:
        raise FormatError("the mesh mixes elements of order 1 and 2: save it with a single order")

    places, index = _index(file)
    # Version 2 repeats an element for each of its physical groups; the first one is its region.
    hexahedra, groups = (np.concatenate([b[part] for b in file.elements[kinds[0]]]) for part in (0, 1))
    _, group = unique_rows(hexahedra.astype(np.int64))
    once = np.sort(np.unique(group, return_index=True)[1])
    hexahedra = index(hexahedra[once], "hexahedra")
    used, corner_ids = np.unique(hexahedra[:, CORNERS], return_inverse=True)
    vertices = corner_ids.reshape(-1, 8).astype(np.int64)
    raw = RawMesh(vertices, lexicographic(places[hexahedra], GMSH), np.zeros((len(vertices), 6), np.int32), [], source)
    raw.check()

    vertex_of = np.full(len(places), -1, np.int64)
    vertex_of[used] = np.arange(len(used))
    faces = np.sort(vertices[:, FACE_CORNERS], axis=2).reshape(-1, 4)
    quads, labels, surfaces = _quadrangles(file, lambda tags: vertex_of[index(tags, "quadrangles")])
    _, group = unique_rows(np.concatenate([faces, np.sort(quads, axis=1)]))
    face_group, quad_group = group[: len(faces)], group[len(faces) :]
    sides = np.bincount(face_group, minlength=len(group))  # number of elements that have the face
    lost = sides[quad_group] == 0
    if lost.any():
        raise FormatError(
            f"a quadrangle of {labels[int(np.argmax(lost))]!r} is not a face of any hexahedron: the surface mesh and "
            "the volume mesh do not match"
        )
    outer = sides[face_group] == 1

    label_of: dict[int, str] = {}  # by group of the face
    for g, label in zip(quad_group.tolist(), labels, strict=True):
        if label_of.setdefault(g, label) != label:
            raise FormatError(f"a face is in two boundaries, {label_of[g]!r} and {label!r}, but can be in only one")
    raw.periodic, periodic = _periodic(file, vertices, outer, vertex_of, index, quads, surfaces, face_group, quad_group)

    names: dict[str, int] = {}
    boundaries = raw.boundaries.reshape(-1)
    for face in np.flatnonzero(outer & ~periodic).tolist():
        if int(face_group[face]) in label_of:
            boundaries[face] = names.setdefault(label_of[int(face_group[face])], len(names) + 1)
    raw.boundary_names = list(names)
    raw.flat = flat
    raw.name_bare_faces()
    raw.tags = groups[once].astype(np.int64)
    raw.tag_names = {name: tag for (dimension, tag), name in file.names.items() if dimension == 3}
    return raw


def _index(file: _File) -> tuple[Floats, Callable[[Ints, str], Ints]]:
    """The places of the nodes [V][3], and a function from tags, and a word for what has them, to numbers of nodes."""
    tags = np.concatenate([np.empty(0, np.int64), *file.tags])
    if len(tags) == 0:
        raise FormatError("the mesh has no nodes")
    by_tag = np.argsort(tags, kind="stable")
    ordered = tags[by_tag]
    if (ordered[1:] == ordered[:-1]).any():
        raise FormatError(f"node {ordered[:-1][ordered[1:] == ordered[:-1]][0]} is defined twice")

    def index(wanted: Ints, what: str) -> Ints:
        at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
        if not (ordered[at] == wanted).all():
            raise FormatError(f"{what} refer to node {wanted[ordered[at] != wanted][0]}, which does not exist")
        return by_tag[at]

    return np.concatenate(file.places), index


def _lifted(file: _File, triangles: int) -> _File:
    """The 3-D file of one layer of hexahedra over the quadrangles of a 2-D file; lines become quadrangles."""
    if triangles:
        raise FormatError(
            f"the mesh has {triangles} triangles, but weft reads quadrangles and hexahedra only (in Gmsh, use "
            "Recombine Surface, or Mesh.SubdivisionAlgorithm = 1)"
        )
    flat = {k: file.elements[k] for k in _QUADRANGLES if sum(len(b[0]) for b in file.elements.get(k, []))}
    if not flat:
        raise FormatError("the mesh has neither hexahedra nor quadrangles")
    places, index = _index(file)
    tags = np.concatenate(file.tags)

    def corners(nodes: Ints) -> Floats:
        """The corners of quadrangles: [Q][4][3]."""
        return places[index(nodes, "quadrangles")][:, :4]

    every = np.concatenate([corners(nodes) for blocks in flat.values() for nodes, *_ in blocks])
    check_numbers(every)
    if np.ptp(every[:, :, 2]) > 1e-6 * np.ptp(every, axis=(0, 1)).max():
        raise FormatError("the quadrangles are not in a plane of constant z, so that they cannot be extruded along z")

    height = thickness(every[:, [0, 1, 3, 2], :2])
    step = int(np.abs(tags).max()) + 1  # tags of the same node at the next level
    result = _File(file.version, "line")
    result.names = {(dimension + 1, tag): name for (dimension, tag), name in file.names.items()}
    result.tags = [tags + level * step for level in range(3)]
    result.places = [places * [1, 1, 0] + [0, 0, 0.5 * height * level] for level in range(3)]
    for kind, blocks in flat.items():
        solid, node, level = _OVER[kind]
        for nodes, groups, entities in blocks:
            x = corners(nodes)
            along, across = x[:, 2] - x[:, 0], x[:, 3] - x[:, 1]
            mirrored = along[:, 0] * across[:, 1] < along[:, 1] * across[:, 0]
            upright = np.where(mirrored[:, None], nodes[:, _MIRRORED[: nodes.shape[1]]], nodes)
            result.elements[solid].append((upright[:, node] + step * np.array(level), groups, entities))
    for kind in _LINES:
        for nodes, groups, entities in file.elements.get(kind, []):
            side = np.concatenate([nodes[:, :2], nodes[:, 1::-1] + 2 * step], axis=1)
            result.elements[3].append((side, groups, entities))
    for dimension, tag, pairs in file.periodic:
        result.periodic.append((dimension + 1, tag, np.concatenate([pairs + level * step for level in range(3)])))
    return result


def _quadrangles(file: _File, vertices: Callable[[Ints], Ints]) -> tuple[Ints, list[str], Ints]:
    """The corners [Q][4] of the quadrangles as vertex ids (-1: not in a hexahedron), their boundaries and surfaces."""
    quads, labels, surfaces = [np.empty((0, 4), np.int64)], [], [np.empty(0, np.int64)]
    for kind in _QUADRANGLES:
        for nodes, groups, entities in file.elements.get(kind, []):
            if len(nodes) == 0:
                continue
            quads.append(vertices(nodes[:, :4]))
            surfaces.append(entities)
            labels += [
                file.names.get((2, g), f"{file.side} {g}") if g else f"{file.side} {e}"
                for g, e in zip(groups.tolist(), entities.tolist(), strict=True)
            ]
    return np.concatenate(quads), labels, np.concatenate(surfaces)


def _periodic(
    file: _File,
    vertices: Ints,
    outer: np.ndarray,
    vertex_of: Ints,
    index: Callable[[Ints, str], Ints],
    quads: Ints,
    surfaces: Ints,
    face_group: Ints,
    quad_group: Ints,
) -> tuple[Ints, np.ndarray]:
    """The periodic pairs of the mesh [K][8], and a mask of the faces [6 E] that they contain."""
    taken = np.zeros(len(outer), bool)
    rows = []
    corners = vertices[:, FACE_CORNERS].reshape(-1, 4)
    by_corners = (
        {tuple(sorted(corners[f].tolist())): f for f in np.flatnonzero(outer).tolist()} if file.periodic else {}
    )
    for surface, pairs in [(tag, pairs) for dimension, tag, pairs in file.periodic if dimension == 2]:
        slave, master = vertex_of[index(pairs[:, 0], "periodic pairs")], vertex_of[index(pairs[:, 1], "periodic pairs")]
        carry = {s: m for s, m in zip(slave.tolist(), master.tolist(), strict=True) if s >= 0 and m >= 0}
        on_surface = set(quad_group[surfaces == surface].tolist())
        for mine, face in by_corners.items():
            expected = int(face_group[face]) in on_surface
            partner = None
            if all(v in carry for v in mine):
                partner = by_corners.get(tuple(sorted(carry[v] for v in mine)))
            if partner is None or partner == face:
                if expected:
                    raise FormatError(
                        f"inconsistent periodic boundary: face {FACE_NAMES[face % 6]} of element "
                        f"{face // 6} (counting from 0) "
                        f"on periodic surface {surface} has no partner"
                    )
                continue
            if on_surface and not expected:
                continue
            if taken[face] or taken[partner]:
                raise FormatError(
                    f"face {FACE_NAMES[face % 6]} of element {face // 6} (counting from 0) is periodic twice"
                )
            taken[face] = taken[partner] = True
            theirs = corners[partner].tolist()
            match = [theirs.index(carry[v]) for v in corners[face].tolist()]
            rows.append([face // 6, face % 6, partner // 6, partner % 6, *match])
    return np.array(rows, np.int64).reshape(-1, 8), taken
