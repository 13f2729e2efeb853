"""Writer of binary ``.re2`` meshes for Nek5000, nekRS and Neko, in double precision (version 2)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from weft.files import whole
from weft.mesh_io.extrude import BOTTOM_EDGES
from weft.mesh_io.nek import BACKWARDS, CORNERS, EDGES, FACES, REGIONS
from weft.mesh_io.nodes import VTK, lexicographic
from weft.mesh_io.raw import ARC, EDGE_CORNERS, MIDPOINT, UNNAMED, Floats, FormatError, Ints, RawMesh

# Our number of the corner at each place of the file is CORNERS; these are the inverse maps, from ours to the file's.
_SIDES = np.argsort(FACES)
_NEK_EDGES = np.argsort(EDGES)
_MIDDLES = [  # the node in the middle of each of our edges, in the 3 x 3 x 3 lexicographic order
    int(sum(at) // 2)
    for at in ([[0, 2, 6, 8, 18, 20, 24, 26][corner] for corner in edge] for edge in EDGE_CORNERS.tolist())
]
_RECORD = np.dtype([("element", "<f8"), ("side", "<f8"), ("values", "<f8", 5), ("code", "S8")])


def conditions_of(raw: RawMesh) -> dict[str, tuple[str, int]]:
    """The letters and number that stand for each boundary of a mesh: three letters, or ``MSH`` and a number.

    Names longer than three letters get the numbers that no boundary has yet. Faces without a name have no condition.
    """
    found: dict[str, tuple[str, int]] = {}
    for name in raw.boundary_names:
        numbered = re.fullmatch(r"(MSH|EXO) (-?\d{1,9})", name)
        if numbered:
            found[name] = numbered[1], int(numbered[2])
        elif name != UNNAMED and len(name) <= 3 and name.isascii() and name not in ("E", "P", "p", "MSH", "EXO"):
            found[name] = name, 0
    taken = {number for code, number in found.values() if code == "MSH"}
    free = (number for number in range(1, len(raw.boundary_names) + len(taken) + 1) if number not in taken)
    for name in raw.boundary_names:
        if name not in found and name != UNNAMED:
            found[name] = "MSH", next(free)
    return {name: found[name] for name in raw.boundary_names if name in found}


def write_re2(path: str | os.PathLike[str], raw: RawMesh) -> None:
    """Writes a mesh; 2-D if it is flat. ``conditions_of`` says what stands for its boundaries. Raises OSError.

    Second-order elements keep the nodes in the middle of their edges; those in the middle of faces and elements follow
    from them. The solid elements of a conjugate mesh come last, with conditions of the temperature.
    """
    if Path(path).suffix.lower() != ".re2":
        raise FormatError(f"{path}: the name of a .re2 file must end in .re2")
    count = len(raw.vertices)
    conjugate = list(raw.tag_names) == list(REGIONS)
    order = np.argsort(raw.tags, kind="stable") if conjugate else np.arange(count)
    number = np.empty(count, np.int64)  # in the file, from 1
    number[order] = np.arange(1, count + 1)
    fluid = int((raw.tags == 0).sum()) if conjugate else count

    dimensions = 2 if raw.flat else 3
    corners = raw.corners()[order][:, CORNERS]
    elements = np.zeros((count, 1 + dimensions * 2**dimensions))
    if len(raw.tags) and not conjugate:
        elements[:, 0] = raw.tags
    elements[:, 1:] = corners[:, : 2**dimensions, :dimensions].transpose(0, 2, 1).reshape(count, -1)

    fields = [_conditions(raw, number, interfaces=True)]
    if conjugate:
        fields = [fields[0][fields[0]["element"] <= fluid], _conditions(raw, number, interfaces=False)]
    with whole(path) as place, place.open("wb") as file:
        file.write(f"#v002{count:9d}{dimensions:3d}{fluid:9d} written by weft".ljust(80).encode())
        file.write(np.array(6.54321, "<f4").tobytes())
        file.write(elements.astype("<f8").tobytes())
        for records in (_curves(raw, number), *fields):
            file.write(np.array(len(records), "<f8").tobytes())
            file.write(np.sort(records, order=("element", "side")).tobytes())


def lost_curvature(raw: RawMesh) -> float:
    """The largest distance of nodes in the middle of faces or elements, which a .re2 cannot hold, from the positions
    that follow from the edges."""
    if raw.nodes.shape[1] == 8:
        return 0.0
    middles = [[0, 2, 8, 6, 18, 20, 26, 24][corner] for corner in range(8)]
    ends = [sum(middles[corner] for corner in pair) // 2 for pair in VTK[:12]]
    rebuilt = lexicographic(raw.nodes[:, middles + ends], VTK)
    return float(np.abs(rebuilt - raw.nodes).max())


def _records(elements: Ints, sides: Ints, values: Floats, codes: list[str]) -> np.ndarray:
    result = np.zeros(len(elements), _RECORD)
    result["element"], result["side"], result["values"] = elements, sides, values
    result["code"] = [code.ljust(8 if len(code) == 1 else 3).encode() for code in codes]
    return result


def _conditions(raw: RawMesh, number: Ints, interfaces: bool) -> np.ndarray:
    """The conditions of all faces, and periodic pairs. ``interfaces``: those between fluid and solid too."""
    marks = raw.boundaries.copy()
    if interfaces:
        marks[raw.interfaces[:, 0], raw.interfaces[:, 1]] = raw.interfaces[:, 2]
    letters = conditions_of(raw)
    elements, faces, values, codes = [], [], [], []
    for index, name in enumerate(raw.boundary_names, 1):
        if name in letters:
            code, label = letters[name]
            at = np.nonzero(marks == index)
            elements.append(number[at[0]])
            faces.append(_SIDES[at[1]])
            values.append(np.tile([0.0, 0.0, 0.0, 0.0, float(label)], (len(at[0]), 1)))
            codes += [code] * len(at[0])
    for mine, other in ((0, 2), (2, 0)):
        pairs = raw.periodic
        elements.append(number[pairs[:, mine]])
        faces.append(_SIDES[pairs[:, mine + 1]])
        partner = np.stack([number[pairs[:, other]], 1 + _SIDES[pairs[:, other + 1]]], axis=1)
        values.append(np.pad(partner.astype(float), ((0, 0), (0, 3))))
        codes += ["P"] * len(pairs)
    return _records(np.concatenate(elements), 1 + np.concatenate(faces), np.concatenate(values), codes)


def _curves(raw: RawMesh, number: Ints) -> np.ndarray:
    kinds, sides, values = raw.curve_sides[:, 1], raw.curve_sides[:, 2], raw.curve_values.copy()
    on_edge = np.isin(kinds, (ARC, MIDPOINT))
    file_sides = np.where(on_edge, _NEK_EDGES[sides], _SIDES[np.minimum(sides, 5)])
    turned = (kinds == ARC) & BACKWARDS[file_sides]
    values[turned, 0] *= -1
    keep = np.isin(sides, BOTTOM_EDGES) if raw.flat else np.full(len(sides), True)
    letters = np.array(["C", "m", "s"])[kinds]
    parts = [_records(number[raw.curve_sides[keep, 0]], 1 + file_sides[keep], values[keep], letters[keep].tolist())]
    if raw.nodes.shape[1] == 27:
        corners = raw.corners()
        for edge in BOTTOM_EDGES if raw.flat else range(12):
            ends, middle = corners[:, EDGE_CORNERS[edge]], raw.nodes[:, _MIDDLES[edge]]
            off = np.linalg.norm(middle - ends.mean(axis=1), axis=1)
            bent = np.flatnonzero(off > 1e-9 * np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1))
            side = np.full(len(bent), 1 + _NEK_EDGES[edge])
            parts.append(_records(number[bent], side, np.pad(middle[bent], ((0, 0), (0, 2))), ["m"] * len(bent)))
    return np.concatenate(parts)
