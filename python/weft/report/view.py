"""A view of a run in space: an isosurface of Q or of the size of a field, drawn off-screen by PyVista."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from weft.files import whole

FILES = ("*.pvd", "*.vtkhdf", "*.pvtu", "*.vtu")  # in the order in which they are looked for
LEVEL = 95.0  # percentage of the points of the volume that lie below the isosurface, unless a level is given
CELLS = 96**3  # maximum size of the grid on which a view samples fields of curved elements
SIZE = (1200, 900)


def draw(folder: Path, field: str, level: float | None, path: Path) -> float:
    """Writes a picture of an isosurface and returns its level.

    ``folder``: that of a run that wrote fields. ``field``: ``q`` (the Q criterion of Hunt, Wray and Moin 1988) or a
    field in the files; the magnitude of a vector is used. The surface is coloured by speed if there is a velocity, and
    by height otherwise. Raises ValueError if PyVista is not installed, or the field or the level does not exist.
    """
    try:
        pyvista: Any = import_module("pyvista")
    except ImportError:
        raise ValueError("a 3-D view needs PyVista: pip install pyvista") from None
    file = next((found for pattern in FILES for found in sorted(folder.glob(pattern))), None)
    if file is None:
        raise ValueError(f"{folder}: no fields were written; set output.fields = true in the case, and run it again")
    pyvista.OFF_SCREEN = True
    grid, names = _sampled(pyvista, file)
    if field == "q" and "q" not in names:  # a scalar may have the name q
        if "velocity" not in names:
            raise ValueError(f"{file}: has no velocity from which to compute Q; it has {', '.join(names)}")
        grid = grid.compute_derivative("velocity", qcriterion="q", gradient=False)
    elif field not in names:
        raise ValueError(f"{file}: has no field {field!r}; it has {', '.join(names)}{', q' * ('velocity' in names)}")
    values = np.asarray(grid.point_data[field])
    grid.point_data["shown"] = values if values.ndim == 1 else np.linalg.norm(values, axis=-1)
    inside = np.asarray(grid.point_data.get("vtkValidPointMask", np.ones(grid.n_points)), bool)
    shown = grid.point_data["shown"][inside]
    level = float(np.percentile(shown, LEVEL)) if level is None else level
    if not shown.min() < level < shown.max():
        raise ValueError(
            f"level {level:g}: {field} goes from {shown.min():.4g} to {shown.max():.4g}; choose between them"
        )
    if "velocity" in names:
        grid.point_data["speed"] = np.linalg.norm(np.asarray(grid.point_data["velocity"]), axis=-1)
    else:
        grid.point_data["height z"] = np.asarray(grid.points)[:, 2]
    surface = grid.contour([level], scalars="shown")
    pyvista.vtk_verbosity("off")  # VTK warns where there is no display, and needs none
    plotter = pyvista.Plotter(off_screen=True, window_size=SIZE)
    plotter.set_background("white")
    bar = {"color": "black", "vertical": True, "position_x": 0.88, "position_y": 0.2, "height": 0.6, "width": 0.05}
    plotter.add_mesh(
        surface, scalars="speed" if "velocity" in names else "height z", cmap="viridis", smooth_shading=True,
        specular=0.3, scalar_bar_args={**bar, "label_font_size": 22, "title_font_size": 24, "fmt": "%.2g"},
    )  # fmt: skip
    plotter.add_mesh(grid.outline(), color="#607D8B", line_width=2)
    plotter.camera_position = "iso"
    plotter.camera.zoom(0.9)
    with whole(path) as place:
        plotter.screenshot(str(place))
    plotter.close()
    return level


def _sampled(pyvista: Any, file: Path) -> tuple[Any, list[str]]:
    """The fields of a file on a regular grid, and their names; for a time series, those of the last time."""
    reader = pyvista.get_reader(str(file))
    if file.suffix == ".pvd":
        reader.set_active_time_value(reader.time_values[-1])
    found = reader.read()
    found = found[0] if isinstance(found, pyvista.MultiBlock) else found
    names = [name for name in found.point_data if not re.match("vtk", name)]
    if isinstance(found, pyvista.ImageData):
        return found, names
    low, high = np.reshape(found.bounds, (3, 2)).T
    size = np.maximum(high - low, 1e-12 * (high - low).max())
    spacing = (size.prod() / CELLS) ** (1 / 3)
    counts = np.maximum(2, np.ceil(size / spacing).astype(int))
    box = pyvista.ImageData(dimensions=tuple(counts + 1), spacing=tuple(size / counts), origin=tuple(low))
    return box.sample(found), names
