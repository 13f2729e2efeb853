"""Reader of meshes of Nek5000, nekRS and NekCEM: binary ``.re2`` (versions 1 to 4) and ASCII ``.rea``, 2-D and 3-D.

pymech reads both formats, but it truncates three-letter boundary conditions of ``.rea`` files to two letters, builds
Python objects element by element, and does not report where sections end, so that damaged files go unnoticed. Here
NumPy reads the records directly. The format follows Nek5000's ``reader_re2.f`` and ``reader_rea.f``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from weft.mesh_io.extrude import lift
from weft.mesh_io.raw import (
    ARC,
    FACE_CORNERS,
    FACE_NAMES,
    MIDPOINT,
    SPHERE,
    Floats,
    FormatError,
    Ints,
    RawMesh,
    check_numbers,
    match_faces,
    match_vertices,
    unique_rows,
)

# Our numbers for those of Nek's preprocessor, which count from 1.
CORNERS = [0, 1, 3, 2, 4, 5, 7, 6]  # index of our corner c in the order of the file
FACES = np.array([2, 1, 3, 0, 4, 5])
EDGES = np.array([0, 5, 1, 4, 2, 7, 3, 6, 8, 9, 11, 10])
BACKWARDS = np.array([False, False, True, True] * 2 + [False] * 4)  # edges with the opposite direction in the file

_RECORDS = {
    4: np.dtype([("element", "i4"), ("side", "i4"), ("values", "f4", 5), ("code", "S4")]),
    8: np.dtype([("element", "f8"), ("side", "f8"), ("values", "f8", 5), ("code", "S8")]),
}

REGIONS = ("fluid", "solid")  # of a conjugate mesh, by tag
NUMBERED = ("EXO", "MSH", "zone")  # conditions that are side sets of other programs: the fifth value is the number


@dataclass
class Records:
    """Curved sides or boundary conditions, in the numbering of the file but counted from 0."""

    elements: Ints
    sides: Ints
    values: Floats  # [n][5]
    codes: list[str]


def read_re2(path: Path) -> RawMesh:
    """Reads a binary mesh in either byte order, with coordinates in single (#v001) or double precision."""
    data = path.read_bytes()
    if len(data) < 84:
        raise FormatError(f"the file ends inside its header: it has {len(data)} bytes, but a .re2 has at least 84")
    header = data[:80].decode("latin-1")
    version = header[:5]
    if version not in ("#v001", "#v002", "#v003", "#v004"):
        raise FormatError(f"this is not a .re2 file: it begins with {header[:5]!r} instead of #v001 to #v004")
    try:
        if version == "#v004":
            words = header.split()
            count, dimensions, fluid = int(words[1]), int(words[2]), int(words[3])
        else:
            count, dimensions, fluid = int(header[5:14]), int(header[14:17]), int(header[17:26])
    except (ValueError, IndexError):
        raise FormatError(f"the header is damaged: {header.rstrip()!r}") from None
    order = "<"
    if abs(np.frombuffer(data, "<f4", 1, 80)[0] - 6.54321) > 1e-4:
        order = ">"
        if abs(np.frombuffer(data, ">f4", 1, 80)[0] - 6.54321) > 1e-4:
            raise FormatError("the byte-order mark 6.54321 after the header is damaged")
    check_size(count, dimensions, fluid)
    word = 4 if version == "#v001" else 8
    file = Words(data, 84, order, word)

    width = 2**dimensions
    elements = file.take(np.dtype((f"f{word}", 1 + dimensions * width)), count, "elements").astype(np.float64)
    corners = elements[:, 1:].reshape(count, dimensions, width).transpose(0, 2, 1)[:, CORNERS[:width]]
    curves = file.section("curved sides", count)
    fields = [file.section("boundary conditions", count)]
    if fluid < count:  # conditions of the temperature, which solids have too
        fields.append(file.section("boundary conditions of the temperature", count))
    raw = assemble(
        corners,
        Records(
            curves["element"].astype(np.int64) - 1,
            curves["side"].astype(np.int64) - 1,
            curves["values"].astype(np.float64),
            [bytes(code[:1]).decode("latin-1") for code in curves["code"]],
        ),
        [
            Records(
                field["element"].astype(np.int64) - 1,
                field["side"].astype(np.int64) - 1,
                _partners(field, word, count),
                [bytes(code[:3]).decode("latin-1").strip("\0 ") for code in field["code"]],
            )
            for field in fields
        ],
        fluid,
        path.name,
    )
    if fluid == count:
        raw.tags = np.nan_to_num(elements[:, 0], posinf=0, neginf=0).clip(-1e9, 1e9).astype(np.int64)
    return raw


def _partners(conditions: np.ndarray, word: int, count: int) -> Floats:
    """The five values per condition. Single-precision files store partners as integers from a million elements on."""
    values = conditions["values"].astype(np.float64)
    if word == 4 and count >= 1_000_000:
        periodic = np.char.startswith(conditions["code"], b"P  ")
        whole = np.ascontiguousarray(conditions["values"][:, 0]).view(conditions["element"].dtype)
        values[periodic, 0] = whole[periodic]
    return values


def check_size(count: int, dimensions: int, fluid: int) -> None:
    if dimensions not in (2, 3):
        raise FormatError(f"the header is damaged: it says that the mesh is {dimensions}-D, but it must be 2-D or 3-D")
    if count < 1:
        raise FormatError(f"the header says that the mesh has {count} elements, but it must have at least one")
    if not 1 <= fluid <= count:
        raise FormatError(f"the header says that {fluid} of {count} elements are fluid, which must be 1 to {count}")


class Words:
    """Arrays read from a file one after another, each checked against the end of the file first."""

    def __init__(self, data: bytes, offset: int, order: str, word: int) -> None:
        self.data, self.offset, self.word = data, offset, word
        self.order: Literal["<", ">"] = "<" if order == "<" else ">"

    def take(self, dtype: np.dtype, count: int, what: str) -> np.ndarray:
        need, have = count * dtype.itemsize, len(self.data) - self.offset
        if need > have:
            raise FormatError(
                f"the file is truncated or damaged: {count} {what} need {need} bytes, but only {max(have, 0)} are left"
            )
        base = dtype.base.newbyteorder(self.order)
        result = np.frombuffer(self.data, np.dtype((base, dtype.shape)), count, self.offset)
        self.offset += need
        return result

    def section(self, what: str, elements: int) -> np.ndarray:
        """Reads a section: a number, and as many records. The sections after the elements are optional."""
        if self.offset == len(self.data):
            return np.empty(0, _RECORDS[self.word])
        number = float(self.take(np.dtype("i4" if self.word == 4 else "f8"), 1, f"number of {what}")[0])
        if not (0 <= number <= 12 * elements) or number != int(number):
            raise FormatError(f"the file is damaged: it claims {number:g} {what} for {elements} elements")
        records = self.take(_RECORDS[self.word], int(number), what)
        for name, high in (("element", elements), ("side", 12)):
            if not ((records[name] >= 1) & (records[name] <= high)).all():
                raise FormatError(f"the file is damaged: {what} refer to a {name} outside 1..{high}")
        return records


def read_rea(path: Path) -> RawMesh:
    """Reads the mesh of an ASCII ``.rea`` file and ignores its parameters."""
    lines = path.read_text(encoding="latin-1").splitlines()
    at = _find(lines, 0, "MESH DATA")
    if at is None:
        raise FormatError("this is not a .rea file: it has no line with MESH DATA")
    try:
        count, dimensions, fluid = (int(word) for word in lines[at + 1].split()[:3])
    except (ValueError, IndexError):
        raise FormatError(
            f"line {at + 2}: the numbers of elements, dimensions and fluid elements are missing; the file may hold "
            "parameters alone, and no mesh"
        ) from None
    if count < 0:
        raise FormatError("the mesh is in the .re2 file next to this .rea file: read that file instead")
    check_size(count, dimensions, fluid)
    # A heading per element; then x, y (and z) of corners 1 to 4, and the same of corners 5 to 8 in 3-D.
    first, per = at + 2, 3 if dimensions == 2 else 7
    last = first + per * count
    if last > len(lines):
        raise FormatError(
            f"the file is truncated: {count} elements need {per * count} lines, but only {len(lines) - first} are left"
        )
    rows = [lines[i] for i in range(first, last) if (i - first) % per != 0]
    try:
        values = np.array(" ".join(rows).replace("D", "E").replace("d", "e").split(), dtype=np.float64)
    except ValueError as error:
        raise FormatError(
            f"the coordinates of the elements (lines {first + 1} to {last}) are not numbers: {error}"
        ) from None
    if values.size != 4 * (per - 1) * count:
        raise FormatError(f"{count} elements need {4 * (per - 1) * count} coordinates, but the file has {values.size}")
    corners = values.reshape(count, -1, dimensions, 4).transpose(0, 1, 3, 2).reshape(count, -1, dimensions)
    corners = corners[:, CORNERS[: 2**dimensions]]

    at = _find(lines, last, "CURVED SIDE")
    if at is None:
        raise FormatError("the file is truncated: section CURVED SIDE DATA is missing")
    curves, at = _rea_curves(lines, at + 1, count)
    at = _find(lines, at, "BOUNDARY CONDITIONS")
    if at is None:
        raise FormatError("the file is truncated: section BOUNDARY CONDITIONS is missing")
    fields = _rea_conditions(lines, at + 1, count, fluid, 2 * dimensions)
    raw = assemble(corners, curves, fields, fluid, path.name)
    if fluid == count:
        raw.tags = np.array([_group(lines[i]) for i in range(first, last, per)], np.int64)
    return raw


def _group(heading: str) -> int:
    """The number after GROUP in the first line of an element; 0 if there is none."""
    found = re.search(r"GROUP\s+(-?\d{1,9})\b", heading.upper())
    return int(found[1]) if found else 0


def _find(lines: list[str], start: int, text: str) -> int | None:
    return next((i for i in range(start, len(lines)) if text in lines[i].upper()), None)


def _number(text: str) -> float:
    return float(text.replace("D", "E").replace("d", "e"))


def _rea_curves(lines: list[str], at: int, count: int) -> tuple[Records, int]:
    try:
        number = int(lines[at].split()[0])
    except (ValueError, IndexError):
        raise FormatError(f"line {at + 1}: the number of curved sides is missing") from None
    if not 0 <= number <= 12 * count or at + 1 + number > len(lines):
        raise FormatError(f"line {at + 1}: the file is truncated or damaged: it cannot have {number} curved sides")
    width = 3 if count < 1000 else 2  # columns of the edge number, which the element number follows
    elements, sides = np.empty(number, np.int64), np.empty(number, np.int64)
    values, codes = np.empty((number, 5)), []
    for k in range(number):
        line = lines[at + 1 + k].rstrip()
        try:
            head, *numbers, code = line.rsplit(None, 6)
            if len(numbers) != 5:
                raise ValueError
            head = line[: len(line) - len(line.lstrip())] + head.lstrip()
            sides[k], elements[k] = int(head[:width]), int(head[width:])
            values[k] = [_number(text) for text in numbers]
        except ValueError:
            raise FormatError(f"line {at + 2 + k} is not a valid curved side: {line!r}") from None
        codes.append(code)
    if ((elements < 1) | (elements > count) | (sides < 1) | (sides > 12)).any():
        raise FormatError("a curved side refers to an element or a side that does not exist")
    return Records(elements - 1, sides - 1, values, codes), at + 1 + number


def _rea_conditions(lines: list[str], at: int, count: int, fluid: int, sides: int) -> list[Records]:
    """The boundary conditions of the first field that has any, one line per face; of two fields in a conjugate mesh.

    The heading of a field without boundary conditions begins with NO.
    """
    found: list[Records] = []
    while at < len(lines) and "BOUNDARY CONDITIONS" in lines[at].upper():
        words = lines[at].upper().replace("*", "").split()
        at += 1
        if words[:1] == ["NO"]:
            continue
        # Only the fluid has conditions of the velocity.
        elements = fluid if words[:1] == ["FLUID"] else count
        found.append(_rea_field(lines, at, elements, sides))
        at += sides * elements
        if elements == count:
            break
    if not found:
        raise FormatError("none of the fields in the file has boundary conditions")
    return found


def _rea_field(lines: list[str], at: int, count: int, sides: int) -> Records:
    if at + sides * count > len(lines):
        raise FormatError(f"the file is truncated: {count} elements need {sides * count} boundary conditions")
    elements, numbers_of_sides = np.divmod(np.arange(sides * count), sides)
    values, codes = np.empty((sides * count, 5)), []
    for k in range(sides * count):
        line = lines[at + k].rstrip()
        try:
            numbers = line.rsplit(None, 5)[1:]
            if len(numbers) != 5 or len(line) < 4:
                raise ValueError
            values[k] = [_number(text) for text in numbers]
        except ValueError:
            raise FormatError(f"line {at + k + 1} is not a valid boundary condition: {line!r}") from None
        codes.append(line[1:4].strip())
    return Records(elements, numbers_of_sides, values, codes)


def assemble(corners: Floats, curves: Records, fields: list[Records], fluid: int, source: str) -> RawMesh:
    """Converts the numbering of the file (in the order of Nek's preprocessor) to ours.

    ``fields``: the conditions of the velocity and, in a conjugate mesh, those of the temperature, from which the solid
    elements take theirs.
    """
    flat = corners.shape[1] == 4
    check_numbers(corners)
    corners = lift(corners) if flat else np.ascontiguousarray(corners)
    count = len(corners)
    for records in (curves, *fields):
        if flat and len(records.sides) and records.sides.max() > 3:
            raise FormatError("a curved side or boundary condition of the 2-D mesh refers to a side outside 1..4")
    if any(len(field.sides) and field.sides.max() > 5 for field in fields):
        raise FormatError("a boundary condition refers to a side outside 1..6")
    raw = RawMesh(match_vertices(corners), corners, np.zeros((count, 6), np.int32), [], source, flat=flat)

    conditions = fields[0]
    if fluid < count:
        conditions = _both(fields, fluid)
        raw.tags = (np.arange(count) >= fluid).astype(np.int64)
        raw.tag_names = {name: tag for tag, name in enumerate(REGIONS)}
    elements, faces, codes = conditions.elements, FACES[conditions.sides], np.array(conditions.codes, dtype="U4")
    for name in np.unique(codes):
        if name in ("", "E", "P", "p"):
            continue
        mine = codes == name
        labels = np.zeros(len(codes), np.int64)
        if name in NUMBERED:
            labels[mine] = (
                np.nan_to_num(conditions.values[mine, 4], posinf=0, neginf=0).clip(-1e9, 1e9).astype(np.int64)
            )
        for label in np.unique(labels[mine]):
            raw.boundary_names.append(f"{name} {label}" if name in NUMBERED else str(name))
            chosen = mine & (labels == label)
            raw.boundaries[elements[chosen], faces[chosen]] = len(raw.boundary_names)
    if fluid < count:
        _open_interfaces(raw)
    raw.periodic = _periodic_pairs(corners, elements, faces, conditions.values, np.isin(codes, ("P", "p")))
    raw.curve_sides, raw.curve_values = _curves(_on_both_levels(curves) if flat else curves)
    raw.check()
    raw.name_bare_faces()
    return raw


def _both(fields: list[Records], fluid: int) -> Records:
    """The conditions of a conjugate mesh: the first field's in the fluid, the last one's in the solid."""
    parts = [(fields[0], fields[0].elements < fluid), (fields[-1], fields[-1].elements >= fluid)]
    return Records(
        np.concatenate([field.elements[chosen] for field, chosen in parts]),
        np.concatenate([field.sides[chosen] for field, chosen in parts]),
        np.concatenate([field.values[chosen] for field, chosen in parts]),
        [code for field, chosen in parts for code in np.array(field.codes, dtype="U3")[chosen].tolist()],
    )


def _open_interfaces(raw: RawMesh) -> None:
    """Moves the conditions on faces between fluid and solid, which are inside the mesh, to ``raw.interfaces``."""
    at = np.sort(raw.vertices[:, FACE_CORNERS], axis=2).reshape(-1, 4)
    _, group = unique_rows(np.ascontiguousarray(at))
    tags = np.repeat(raw.tags, 6)
    kinds = np.zeros((group.max() + 1, 2), np.int64)
    kinds[group, tags] = 1
    between = (kinds.sum(axis=1)[group].reshape(-1, 6) == 2) & (raw.boundaries > 0)
    elements, faces = np.nonzero(between)
    raw.interfaces = np.stack([elements, faces, raw.boundaries[between]], axis=1).astype(np.int64)
    raw.boundaries[between] = 0


def _on_both_levels(curves: Records) -> Records:
    """The curved sides of a 2-D mesh, at both ends of its one layer: sides 1 to 4, and 5 to 8."""
    return Records(
        np.tile(curves.elements, 2),
        np.concatenate([curves.sides, curves.sides + 4]),
        np.tile(curves.values, (2, 1)),
        2 * curves.codes,
    )


def _periodic_pairs(corners: Floats, elements: Ints, faces: Ints, values: Floats, periodic: np.ndarray) -> Ints:
    elements, faces, values = elements[periodic], faces[periodic], values[periodic]

    def name(element: int, face: int) -> str:
        return f"face {FACE_NAMES[face]} of element {element} (counting from 0)"

    partner = np.nan_to_num(values[:, :2], posinf=-1, neginf=-1).clip(-1, 2**53).astype(np.int64)
    missing = (partner[:, 0] < 1) | (partner[:, 0] > len(corners)) | (partner[:, 1] < 1) | (partner[:, 1] > 6)
    if missing.any():
        k = int(np.argmax(missing))
        raise FormatError(
            f"inconsistent periodic boundary: {name(elements[k], faces[k])} is paired with side "
            f"{values[k, 1]:g} of element "
            f"{values[k, 0]:g} (counting from 1), which does not exist"
        )
    mine = 6 * elements + faces
    other = 6 * (partner[:, 0] - 1) + FACES[partner[:, 1] - 1]
    back = dict(zip(mine.tolist(), other.tolist(), strict=True))
    for a, b in back.items():
        if back.get(b) != a:
            raise FormatError(
                f"inconsistent periodic boundary: {name(a // 6, a % 6)} is paired with {name(b // 6, b % 6)}, "
                "but not vice versa"
            )
    pairs = np.array([[a // 6, a % 6, b // 6, b % 6] for a, b in back.items() if a < b], np.int64).reshape(-1, 4)
    ours, theirs = (
        corners[pairs[:, i], :][np.arange(len(pairs))[:, None], FACE_CORNERS[pairs[:, i + 1]]] for i in (0, 2)
    )
    match, meets = match_faces(ours, theirs)
    if not meets.all():
        e, f, e2, f2 = pairs[np.argmin(meets)]
        raise FormatError(
            f"inconsistent periodic boundary: {name(e, f)} and {name(e2, f2)} are paired, but their "
            f"corners do not match after "
            "a shift (weft supports periodicity by translation only)"
        )
    return np.hstack([pairs, match])


def _curves(curves: Records) -> tuple[Ints, Floats]:
    values = curves.values.copy()
    sides = np.empty((len(curves.codes), 3), np.int64)
    sides[:, 0] = curves.elements
    for k, code in enumerate(curves.codes):
        number = int(curves.sides[k])
        where = f"side {number + 1} of element {curves.elements[k] + 1} (both counting from 1)"
        if code == "C":
            if number > 7:
                raise FormatError(f"{where} is a circular arc, but only edges 1 to 8 can be arcs")
            sides[k, 1:] = ARC, EDGES[number]
            if BACKWARDS[number]:  # the arc bulges to the right of the edge, whose direction is reversed
                values[k, 0] = -values[k, 0]
        elif code == "m":
            sides[k, 1:] = MIDPOINT, EDGES[number]
        elif code == "s":
            if number > 5:
                raise FormatError(f"{where} is a sphere, but only faces 1 to 6 can be spheres")
            sides[k, 1:] = SPHERE, FACES[number]
        else:
            raise FormatError(
                f"{where} has curve type {code!r}, but weft supports only C (circle), s (sphere) and m (midside node)"
            )
    return sides, values
