"""Files of a `weft run maxwell` beside its record: fields for ParaView, probes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from weft.run.maxwell.loop import Run


def write(run: Run, folder: Path) -> list[Path]:
    """Writes what the case asks for; what was written. (collective)"""
    output = run.case.output
    written = []
    if output.fields:
        written.append(write_solution(run, folder / "fields"))
    if run.probes.any:
        run.probes.write(folder / "probes.csv")
        written.append(folder / "probes.csv")
    return written


def write_solution(run: Run, path: Path) -> Path:
    """E and H as vectors, and the materials by number; the file to open in ParaView. (collective)"""
    from weft.mesh_io.fields import write_fields

    fields = run.solver.host_fields()
    count = fields.shape[2] ** 3
    vectors = np.moveaxis(fields.reshape(len(fields), 6, count), 1, -1)
    material = np.repeat(run.regions[:, None], count, axis=1).astype(np.float32)
    values = {"E": vectors[..., :3], "H": vectors[..., 3:], "material": material}
    return write_fields(path, run.mesh, run.case.order, values)
