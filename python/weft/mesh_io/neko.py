"""Reader of Neko's binary meshes, ``.nmsh``, 2-D and 3-D.

The format follows Neko's ``src/io/nmsh_file.f90`` and ``src/io/format/nmsh.f90``: the number of elements and of
dimensions; for each element its number, and for each of its corners a number and three coordinates; then zones, which
are conditions on faces; then elements with curved edges. Corners and edges are in the order of Nek's preprocessor.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from weft.mesh_io.nek import CORNERS, Records, Words, assemble, check_size
from weft.mesh_io.raw import FormatError, RawMesh

_ZONE = np.dtype([("element", "i4"), ("face", "i4"), ("other", "i4", 2), ("points", "i4", 4), ("kind", "i4")])
_CURVED = np.dtype([("element", "i4"), ("values", "f8", (12, 5)), ("kinds", "i4", 12)])

SIDES = np.array([3, 1, 0, 2, 4, 5])  # of Nek's preprocessor, from 0, by Neko's face: x-, x+, y-, y+, z-, z+
KINDS = {1: "W", 2: "v", 3: "O", 4: "SYM", 5: "P", 6: "ON", 7: "zone"}  # of zones, as Nek writes them
PERIODIC, LABELLED = 5, 7
CURVES = {1: "s", 2: "e", 3: "C", 4: "m"}  # of edges, as Nek writes them


def read_nmsh(path: Path) -> RawMesh:
    """Reads a mesh; labelled zones become boundaries ``zone 1``, ``zone 2`` …, the others have Nek's letters."""
    file = Words(path.read_bytes(), 0, "<", 4)
    count, dimensions = (int(n) for n in file.take(np.dtype("i4"), 2, "numbers of the header"))
    check_size(count, dimensions, count)
    width = 2**dimensions
    corner = np.dtype([("number", "i4"), ("place", "f8", 3)])
    elements = file.take(np.dtype([("element", "i4"), ("corners", corner, width)]), count, "elements")
    zones = _section(file, _ZONE, 2 * dimensions * count, count, "zones")
    curved = _section(file, _CURVED, count, count, "curved elements")
    if not np.isin(zones["kind"], list(KINDS)).all():
        raise FormatError(f"the file is damaged: zones have types {sorted(set(zones['kind'].tolist()))}, not 1 to 7")
    if not ((zones["face"] >= 1) & (zones["face"] <= 2 * dimensions)).all():
        raise FormatError(f"the file is damaged: zones refer to a face outside 1..{2 * dimensions}")
    return assemble(
        elements["corners"]["place"][:, CORNERS[:width], :dimensions].astype(np.float64),
        _curves(curved),
        [_conditions(zones, dimensions)],
        count,
        path.name,
    )


def _section(file: Words, record: np.dtype, most: int, elements: int, what: str) -> np.ndarray:
    """A number, and as many records, each of an existing element."""
    number = int(file.take(np.dtype("i4"), 1, f"number of {what}")[0])
    if not 0 <= number <= most:
        raise FormatError(f"the file is damaged: it claims {number} {what} for {elements} elements")
    records = file.take(record, number, what)
    if not ((records["element"] >= 1) & (records["element"] <= elements)).all():
        raise FormatError(f"the file is damaged: {what} refer to an element outside 1..{elements}")
    return records


def _conditions(zones: np.ndarray, dimensions: int) -> Records:
    """The zones as Nek's conditions: the partner of a periodic face first, the number of a labelled one last."""
    values = np.zeros((len(zones), 5))
    periodic = zones["kind"] == PERIODIC
    other = zones["other"][periodic]
    known = (other[:, 1] >= 1) & (other[:, 1] <= 2 * dimensions)
    values[periodic, 0] = other[:, 0]
    values[periodic, 1] = np.where(known, SIDES[other[:, 1].clip(1, 6) - 1] + 1, 0)
    values[:, 4] = np.where(zones["kind"] == LABELLED, zones["other"][:, 1], 0)
    return Records(
        zones["element"].astype(np.int64) - 1,
        SIDES[zones["face"] - 1],
        values,
        [KINDS[kind] for kind in zones["kind"].tolist()],
    )


def _curves(curved: np.ndarray) -> Records:
    """The curved edges, 12 for each element of the file, of which 0 means straight."""
    rows, edges = np.nonzero(curved["kinds"])
    kinds = curved["kinds"][rows, edges].tolist()
    return Records(
        curved["element"][rows].astype(np.int64) - 1,
        edges.astype(np.int64),
        curved["values"][rows, edges].astype(np.float64),
        [CURVES.get(kind, str(kind)) for kind in kinds],
    )
