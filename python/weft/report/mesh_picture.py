"""A picture of a mesh: its elements in the plane, or its outer faces in space, with one colour per boundary."""

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
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from numpy.typing import NDArray

from weft.files import whole
from weft.report.plots import COLOURS, STYLE

ELEVATION, AZIMUTH = 30.0, -60.0  # direction of the viewer, in degrees
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


def draw_solid(
    path: Path,
    title: str,
    faces: NDArray[np.float64],
    centres: NDArray[np.float64],
    kinds: Mapping[str, NDArray[np.bool_]],
) -> None:
    """Draws a 3-D mesh from outside and, without the faces towards the viewer, from inside.

    ``faces`` [F][n][n][3]: points of the outer faces; ``centres`` [F][3]: of their elements; ``kinds``: for each name
    which faces have it [F]; the others are grey. Raises OSError.
    """
    colours = np.full(len(faces), INSIDE, dtype=object)
    shown = []
    for index, (name, mine) in enumerate(kinds.items()):
        colours[mine] = COLOURS[index % len(COLOURS)]
        shown.append(Patch(color=COLOURS[index % len(COLOURS)], label=name))
    rims, away = _rim(faces), _faces_away(faces, centres)
    points = faces.reshape(-1, 3)
    low, high = points.min(axis=0), points.max(axis=0)
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(12, 5))
        for place, text, keep in ((1, title, np.full(len(faces), True)), (2, "inside", away)):
            axes = figure.add_subplot(1, 2, place, projection="3d", elev=ELEVATION, azim=AZIMUTH)
            look = {"facecolors": list(colours[keep]), "edgecolors": "black", "linewidths": 0.25, "clip_on": False}
            axes.add_collection3d(Poly3DCollection(list(rims[keep]), **look))
            axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]), title=text)
            axes.set(xlabel="x", ylabel="y", zlabel="z")
            axes.tick_params(labelsize=8)
            sides = np.maximum((high - low) / (high - low).max(), 0.05)
            axes.set_box_aspect(sides)
            for axis, side in zip((axes.xaxis, axes.yaxis, axes.zaxis), sides, strict=True):
                axis.set_major_locator(MaxNLocator(max(1, round(4 * side))))  # as many numbers as there is room for
        if shown:
            figure.legend(handles=shown, loc="center left", bbox_to_anchor=(0.92, 0.6))
        _save(figure, path)


def _faces_away(faces: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which faces have outward normals that do not point towards the viewer."""
    corner = faces[:, [0, 0, -1, -1], [0, -1, 0, -1]]
    normal = np.cross(corner[:, 3] - corner[:, 0], corner[:, 2] - corner[:, 1])
    normal *= np.sign(np.einsum("fd,fd->f", normal, corner.mean(axis=1) - centres))[:, None]
    up, round_ = np.radians([ELEVATION, AZIMUTH])
    viewer = np.array([np.cos(up) * np.cos(round_), np.cos(up) * np.sin(round_), np.sin(up)])
    return np.asarray(normal @ viewer < 0)


def _save(figure: plt.Figure, path: Path) -> None:
    try:
        with whole(path) as place:
            figure.savefig(place, bbox_inches="tight")
    finally:
        plt.close(figure)
