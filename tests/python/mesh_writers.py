"""Writes small meshes of Nek and Neko for the tests, straight from the description of the formats."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

# Nek's corners and sides (from 0) of ours.
CORNERS = [0, 1, 3, 2, 4, 5, 7, 6]
SIDES = [3, 1, 0, 2, 4, 5]  # of r-, r+, s-, s+, t-, t+


def box(counts, periodic=(False, False, False), upper=(1.0, 1.0, 1.0)):
    """Corners [E][8][3] (ours), and Nek's boundary conditions {(element, side): (code, values)} of a box."""
    n = np.array(counts)
    at = np.stack(np.meshgrid(*(np.arange(c) for c in n[::-1]), indexing="ij")[::-1], axis=-1).reshape(-1, 3)
    offsets = np.array([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)])
    corners = (at[:, None] + offsets) / n * np.array(upper)
    conditions = {}
    for e, place in enumerate(at):
        for face in range(6):
            d, side = divmod(face, 2)
            if place[d] != (n[d] - 1 if side else 0):
                continue
            if periodic[d]:
                other = place.copy()
                other[d] = 0 if side else n[d] - 1
                number = other[0] + n[0] * (other[1] + n[1] * other[2])
                conditions[e, SIDES[face]] = ("P", [number + 1.0, SIDES[face ^ 1] + 1.0, 0, 0, 0])
            else:
                conditions[e, SIDES[face]] = (["W", "v", "O", "SYM", "W", "W"][face], [0.0] * 5)
    return corners, conditions


def rectangle(counts, periodic=(False, False), upper=(1.0, 1.0)):
    """Corners [E][4][2] (ours), and Nek's boundary conditions of a 2-D rectangle."""
    corners, conditions = box((*counts, 1), (*periodic, False), (*upper, 1.0))
    return corners[:, :4, :2], {key: value for key, value in conditions.items() if key[1] < 4}


def re2(corners, conditions, curves=(), version=2, order="<", fluid=None, thermal=None):
    """The bytes of a .re2, 3-D or 2-D like the corners [E][8][3] or [E][4][2].

    ``curves``: (element, side from 0, values, code). ``fluid``: number of elements before the solids of a conjugate
    mesh, whose conditions are ``thermal``.
    """
    word, (count, width, dimensions) = 4 if version == 1 else 8, np.shape(corners)
    fluid = count if fluid is None else fluid
    if version == 4:
        header = f"#v004{count:16d}{dimensions:3d}{fluid:16d}{1:4d}"
    else:
        header = f"#v{version:03d}{count:9d}{dimensions:3d}{fluid:9d} test"
    out = [header.ljust(80).encode(), np.array(6.54321, order + "f4").tobytes()]
    for element in corners:
        nek = np.concatenate([[0.0], element[CORNERS[:width]].T.ravel()])
        out.append(nek.astype(f"{order}f{word}").tobytes())
    integer = f"{order}i4" if word == 4 else f"{order}f8"

    def records(rows):
        out.append(np.array(len(rows), integer).tobytes())
        for element, side, values, code in rows:
            out.append(np.array([element + 1, side + 1], integer).tobytes())
            out.append(np.array(list(values) + [0.0] * (5 - len(values)), f"{order}f{word}").tobytes())
            out.append(code.encode().ljust(3).ljust(word)[:word])

    records(list(curves))
    for field in (conditions,) if thermal is None else (conditions, thermal):
        records([(e, s, values, code) for (e, s), (code, values) in sorted(field.items())])
    return b"".join(out)


def rea(corners, conditions, curves=()):
    """The text of a .rea, 3-D or 2-D like the corners [E][8][3] or [E][4][2]."""
    count, width, dimensions = np.shape(corners)
    lines = [
        " ****** PARAMETERS *****",
        " 2.6 NEKTON VERSION",
        f" {dimensions} DIMENSIONAL RUN",
        " 0 PARAMETERS FOLLOW",
    ]
    lines += [
        "  **MESH DATA** 6 lines are X,Y,Z;X,Y,Z. Columns corners 1-4;5-8",
        f"  {count:10d} {dimensions} {count:10d} NEL,NDIM,NELV",
    ]
    for e, element in enumerate(corners):
        lines.append(f"            ELEMENT {e + 1:5d} [    1 ]    GROUP     0")
        nek = element[CORNERS[:width]]
        for half in (nek[:4], nek[4:])[: width // 4]:
            lines += ["".join(f" {v: .12E}" for v in half[:, d]) for d in range(dimensions)]
    lines += ["  ***** CURVED SIDE DATA *****", f"  {len(curves)} Curved sides follow IEDGE,IEL,CURVE(I),I=1,5, CCURVE"]
    width = (3, 3) if count < 1000 else (2, 6)
    for element, side, values, code in curves:
        numbers = "".join(f"{v:14.6G}" for v in [*values, *[0.0] * (5 - len(values))])
        lines.append(f"{side + 1:{width[0]}d}{element + 1:{width[1]}d}{numbers} {code}")
    lines += ["  ***** BOUNDARY CONDITIONS *****", "  ***** NO FLUID   BOUNDARY CONDITIONS *****"]
    lines += ["  ***** THERMAL BOUNDARY CONDITIONS *****"]
    for e in range(count):
        for side in range(2 * dimensions):
            code, values = conditions.get((e, side), ("E", [0.0] * 5))
            numbers = "".join(f"{v:14.6G}" for v in values)
            head = f" {code:<3}{e + 1:3d}{side + 1:3d}" if count < 1000 else f" {code:<3}{e + 1:5d}{side + 1:1d}"
            lines.append(head + numbers)
    lines += ["   0 PRESOLVE/RESTART OPTIONS  *****"]
    return "\n".join(lines) + "\n"


# Neko's number of a zone, by Nek's letters, and Neko's faces (from 1) of Nek's sides.
ZONES = {"W": 1, "v": 2, "O": 3, "SYM": 4, "P": 5, "ON": 6, "zone": 7}
FACES = [3, 2, 4, 1, 5, 6]


def nmsh(corners, conditions, curves=()):
    """The bytes of a .nmsh, 3-D or 2-D; conditions and curves as for `re2`. A zone's label is its fifth value."""
    count, width, dimensions = np.shape(corners)
    out = [struct.pack("<2i", count, dimensions)]
    for e, element in enumerate(corners):
        out.append(struct.pack("<i", e + 1))
        for c in CORNERS[:width]:
            place = [*element[c], 0.0][:3]
            out.append(struct.pack("<i3d", 1 + hash(tuple(place)) % 10**6, *place))
    out.append(struct.pack("<i", len(conditions)))
    for (e, side), (code, values) in sorted(conditions.items()):
        partner = (0, 0)
        if code == "P":
            partner = (int(values[0]), FACES[int(values[1]) - 1])
        elif code == "zone":
            partner = (0, int(values[4]))
        out.append(struct.pack("<9i", e + 1, FACES[side], *partner, 0, 0, 0, 0, ZONES[code]))
    bent = sorted({e for e, *_ in curves})
    out.append(struct.pack("<i", len(bent)))
    for e in bent:
        values, kinds = np.zeros((12, 5)), np.zeros(12, "<i4")
        for _, side, given, code in (curve for curve in curves if curve[0] == e):
            values[side, : len(given)], kinds[side] = given, {"s": 1, "e": 2, "C": 3, "m": 4}[code]
        out.append(struct.pack("<i", e + 1) + values.astype("<f8").tobytes() + kinds.tobytes())
    return b"".join(out)


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path
