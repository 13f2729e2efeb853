"""Files of a `weft run maxwell` beside its record: fields for ParaView, a picture of a plane, probes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from weft.bench.maxwell import Run


def write(run: Run, folder: Path) -> list[Path]:
    """Writes what the case asks for; what was written. (collective)"""
    output = run.case.output
    written = []
    if output.fields:
        written.append(write_solution(run, folder / "fields"))
    if output.slice != "none":
        written.append(write_plane(run, folder / f"slice-{output.slice}.png"))
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


def write_plane(run: Run, path: Path) -> Path:
    """A component, or a magnitude, on a plane as a picture. (collective)"""
    from weft.mesh_io.probes import on_plane
    from weft.report import maxwell_plots, plots

    output = run.case.output
    axis = "xyz".index(output.slice_axis)
    values, extent, at = on_plane(
        run.mesh, run.case.order, component(run.solver.host_fields(), output.slice), axis, output.slice_at
    )
    if run.comm.rank == 0:
        names = "".join(a for a in "xyz" if a != output.slice_axis)
        plots.save(maxwell_plots.plane(values, extent, names, at, output.slice, run.solver.time), path)
    return path


def component(fields: Any, name: str) -> Any:
    """[E][n][n][n] a component by name (ex … hz), or the magnitude of e or h."""
    if len(name) == 2:
        return fields[:, ("ex", "ey", "ez", "hx", "hy", "hz").index(name)]
    first = 0 if name == "e" else 3
    return np.sqrt((fields[:, first : first + 3].astype(float) ** 2).sum(axis=1))
