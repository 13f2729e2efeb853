"""Readers of mesh files and writers of fields.

``read_raw`` reads a whole mesh on one process; ``weft.Mesh.read`` distributes it over the ranks.
"""

from __future__ import annotations

import os
from pathlib import Path

from weft.mesh_io.extrude import Extrusion, extrude
from weft.mesh_io.raw import FormatError, RawMesh

__all__ = ["Extrusion", "FormatError", "RawMesh", "read_raw", "read_solid"]


def read_raw(path: str | os.PathLike[str]) -> RawMesh:
    """Reads a ``.re2``, ``.rea``, ``.nmsh`` or ``.msh`` file, 2-D or 3-D.

    Raises FormatError if it is invalid, and OSError if it cannot be read.
    """
    from weft.mesh_io import gmsh, nek, neko

    path = Path(path)
    readers = {".re2": nek.read_re2, ".rea": nek.read_rea, ".nmsh": neko.read_nmsh, ".msh": gmsh.read_msh}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise FormatError(f"unknown mesh format {path.suffix!r}; weft reads {', '.join(readers)}")
    return reader(path)


def read_solid(path: str | os.PathLike[str], how: Extrusion | None = None, region: str | int | None = None) -> RawMesh:
    """Reads a file, keeps one region if asked, and extrudes a 2-D mesh (by default into one periodic layer).

    Raises FormatError if ``how`` is given for a 3-D mesh, or the region does not exist.
    """
    raw = read_raw(path)
    if region is not None:
        raw = raw.part(region)
    return extrude(raw, how or Extrusion()) if raw.flat or how is not None else raw
