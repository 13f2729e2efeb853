"""A picture of a mesh: its elements in the plane, or its outer faces in space, with boundaries told apart by colour."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display needed; before pyplot

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from numpy.typing import NDArray

from weft.files import whole
from weft.report.plots import COLOURS, STYLE

INSIDE = "#9AA5B1"  # edges of elements, and periodic faces


def _rim(face: NDArray[np.float64]) -> NDArray[np.float64]:
    """The points around faces [F][n][n][3], along their four edges: [F][4 n - 4][3]."""
    return np.concatenate([face[:, 0, :-1], face[:, :-1, -1], face[:, -1, :0:-1], face[:, :0:-1, 0]], axis=1)


def draw_flat(path: Path, title: str, faces: NDArray[np.float64], kinds: NDArray[np.int32], names: list[str]) -> None:
    """Draws a 2-D mesh. ``faces`` [E][6][n][n][3]: points of the faces of one layer; ``kinds`` [E][6]: 0, or 1 + index
    into ``names``. Raises OSError."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8, 6))
        axes.grid(False)
        cells = _rim(faces[:, 4])[..., :2]
        axes.add_collection(PolyCollection(list(cells), facecolors="none", edgecolors=INSIDE, linewidths=0.6))
        shown: list[Line2D] = []
        for index, name in enumerate(names, 1):
            at = np.nonzero(kinds[:, :4] == index)
            if len(at[0]):
                colour = COLOURS[len(shown) % len(COLOURS)]
                axes.add_collection(LineCollection(list(faces[at][:, 0, :, :2]), colors=colour, linewidths=2.2))
                shown.append(Line2D([], [], color=colour, linewidth=2.2, label=name))
        axes.set(title=title, xlabel="x", ylabel="y", aspect="equal")
        axes.autoscale()
        if shown:
            axes.legend(handles=shown, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        _save(figure, path)


def draw_solid(path: Path, title: str, faces: NDArray[np.float64], kinds: Mapping[str, NDArray[np.bool_]]) -> None:
    """Draws the outer faces [F][n][n][3] of a 3-D mesh; ``kinds``: for each name which of them have it [F]; the others
    are grey. Raises OSError."""
    colours = np.full(len(faces), INSIDE, dtype=object)
    shown = []
    for index, (name, mine) in enumerate(kinds.items()):
        colours[mine] = COLOURS[index % len(COLOURS)]
        shown.append(Patch(color=COLOURS[index % len(COLOURS)], label=name))
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(8, 6))
        axes = figure.add_subplot(projection="3d")
        look = {"facecolors": list(colours), "edgecolors": "black", "linewidths": 0.25, "alpha": 0.9}
        axes.add_collection3d(Poly3DCollection(list(_rim(faces)), **look))
        points = faces.reshape(-1, 3)
        low, high = points.min(axis=0), points.max(axis=0)
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]), title=title)
        axes.set(xlabel="x", ylabel="y", zlabel="z")
        axes.set_box_aspect(np.maximum(high - low, 0.05 * (high - low).max()))
        if shown:
            axes.legend(handles=shown, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        _save(figure, path)


def _save(figure: plt.Figure, path: Path) -> None:
    try:
        with whole(path) as place:
            figure.savefig(place, bbox_inches="tight")
    finally:
        plt.close(figure)
