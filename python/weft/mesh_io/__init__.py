"""Mesh files in, fields out. ``read_raw`` reads a whole mesh on one process; ``weft.Mesh.read`` deals it out."""

from __future__ import annotations

import os
from pathlib import Path

from weft.mesh_io.raw import FormatError, RawMesh

__all__ = ["FormatError", "RawMesh", "read_raw"]


def read_raw(path: str | os.PathLike[str]) -> RawMesh:
    """Read ``.re2``, ``.rea`` or ``.msh``; FormatError (or OSError) says what is wrong."""
    from weft.mesh_io import gmsh, nek

    path = Path(path)
    readers = {".re2": nek.read_re2, ".rea": nek.read_rea, ".msh": gmsh.read_msh}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise FormatError(f"unknown kind of mesh {path.suffix!r}; weft reads {', '.join(readers)}")
    return reader(path)
