"""Readers of mesh files and writers of fields.

``read_raw`` reads a whole mesh on one process; ``weft.Mesh.read`` distributes it over the ranks.
"""

from __future__ import annotations

import os
from pathlib import Path

from weft.mesh_io.raw import FormatError, RawMesh

__all__ = ["FormatError", "RawMesh", "read_raw"]


def read_raw(path: str | os.PathLike[str]) -> RawMesh:
    """Reads a ``.re2``, ``.rea`` or ``.msh`` file. Raises FormatError for invalid files, and OSError."""
    from weft.mesh_io import gmsh, nek

    path = Path(path)
    readers = {".re2": nek.read_re2, ".rea": nek.read_rea, ".msh": gmsh.read_msh}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise FormatError(f"unknown mesh format {path.suffix!r}; weft reads {', '.join(readers)}")
    return reader(path)
