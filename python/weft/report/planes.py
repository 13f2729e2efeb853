"""Pictures of fields on planes, for readers who know the field but not weft."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")  # no display needed; before pyplot

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from weft.record import Plane
from weft.report.plots import STYLE
from weft.report.rows import Plot

OUTSIDE = "#ECEFF1"  # holes and what lies beyond the mesh
SOLID = ("wall", "pec", "pmc")  # boundary conditions that are drawn with bold lines
LONG_SIDE, SHORT_SIDE = 7.2, 4.8  # inches of a wide picture, and of the height of the others
SIGNED = 0.05  # a field is signed if its smaller extreme is at least this fraction of the larger
TAIL = 0.2  # % of the pixels at either end that may saturate: peaks at corners would hide the rest

LABELS = {
    "speed": "speed $|u|$", "vorticity": r"vorticity $|\omega|$", "enstrophy": "enstrophy / mean of the plane",
    "u": "$u$", "v": "$v$", "w": "$w$", "pressure": "pressure $p$",
    **{f"vorticity_{axis}": rf"vorticity $\omega_{axis}$" for axis in "xyz"},
    **{f"{field}{axis}": f"${field}_{axis}$" for field in "EH" for axis in "xyz"},
    **{f"|{field}|": f"$|{field}|$" for field in "EH"},
}  # fmt: skip
MAGNITUDES = ("speed", "vorticity", "enstrophy", "|E|", "|H|")  # never negative, whatever interpolation makes of them
SWIRLING = re.compile(r"u|v|w|speed|vorticity.*|enstrophy|\|?[EH].*")  # contours would clutter these
PLATEAU = 1e-3  # of the range of a field: how far apart the values of a plateau are
FLAT = 0.1  # share of a plane that makes a plateau


def pixels(found: Plane) -> NDArray[np.float64]:
    """The values as an array, NaN outside the mesh."""
    return np.asarray(found["values"], float)


@dataclass(frozen=True)
class Colours:
    """The mapping from values to colours."""

    cmap: str
    norm: Normalize
    extend: str  # of the colour bar, as Matplotlib has it


def colours(name: str, values: NDArray[np.floating]) -> Colours:
    """A map with white at 0 for fields of both signs; one from dark to bright for magnitudes and the rest."""
    seen = values[np.isfinite(values)]
    if seen.size == 0:
        return Colours("viridis", Normalize(0, 1), "neither")
    if name == "enstrophy":
        return Colours("inferno", LogNorm(1e-2, 30), "both")
    low, high = (float(v) for v in np.percentile(seen, [TAIL, 100 - TAIL]))
    least, most = float(seen.min()), float(seen.max())
    # Only a tail that is far out is left outside the range.
    low, high = (a if abs(a - b) > 0.25 * (high - low) else b for a, b in ((low, least), (high, most)))
    if name in MAGNITUDES:
        low = 0.0
    elif min(-low, high) > SIGNED * max(-low, high):
        high = max(-low, high)
        low = -high
        return Colours("RdBu_r", Normalize(low, high), _extend(least < low, most > high))
    if high <= low:
        high = low + (abs(low) or 1.0)
    return Colours("viridis", Normalize(low, high), _extend(least < low - 1e-9 and name not in MAGNITUDES, most > high))


def _extend(below: bool, above: bool) -> str:
    return {(False, False): "neither", (True, False): "min", (False, True): "max"}.get((below, above), "both")


def pictures(planes: Sequence[Plane], conditions: Mapping[str, str]) -> list[Plot]:
    """The plots of the planes of a record: heading, file name, figure."""
    names = ["slice", *(f"slice-{number}" for number in range(2, len(planes) + 1))]
    return [
        (
            LABELS.get(plane["name"], plane["name"]).split(" $")[0].replace("$", "").capitalize(),
            name,
            figure_of(plane, conditions),
        )
        for name, plane in zip(names, planes, strict=False)
    ]


def figure_of(found: Plane, conditions: Mapping[str, str]) -> Figure:
    """A field on a plane, with the boundaries that it cuts. ``conditions``: those of the boundaries by name."""
    values = pixels(found)
    return drawn(found, values, conditions, colours(found["name"], values), contours=True)[0]


def drawn(
    found: Plane,
    values: NDArray[np.floating],
    conditions: Mapping[str, str],
    shades: Colours,
    contours: bool = False,
) -> tuple[Figure, AxesImage, Text]:
    """The figure of a plane with these values, the image in it, and its title."""
    left, right, lower, upper = found["extent"]
    shape = (right - left) / (upper - lower)
    above = shape > 1.6  # the colour bar of a wide picture is above it
    width, height = (LONG_SIDE, LONG_SIDE / shape) if above else (SHORT_SIDE * shape, SHORT_SIDE)
    margins = (0.75, 0.2, 0.55, 0.95) if above else (0.75, 0.95, 0.55, 0.35)  # left, right, bottom, top, in inches
    whole = width + margins[0] + margins[1], height + margins[2] + margins[3]
    with plt.rc_context({**STYLE, "axes.grid": False, "axes.spines.top": True, "axes.spines.right": True}):
        figure = plt.figure(figsize=whole)
        axes = figure.add_axes((margins[0] / whole[0], margins[2] / whole[1], width / whole[0], height / whole[1]))
        image = axes.imshow(
            shown(found["name"], values), origin="lower", extent=(left, right, lower, upper),
            interpolation="bilinear", cmap=shades.cmap, norm=shades.norm, aspect="auto",
        )  # fmt: skip
        _mask(axes, values, found["extent"])
        if contours and (found["time"] is None or not SWIRLING.fullmatch(found["name"])):
            _contours(axes, values, found["extent"])
        _outline(axes, found, conditions)
        across, up = (a for a in "xyz" if a != found["axis"])
        axes.set(xlim=(left, right), ylim=(lower, upper), xlabel=f"${across}$")
        axes.set_ylabel(f"${up}$", rotation=0, labelpad=12)
        for axis, inches in ((axes.xaxis, width), (axes.yaxis, height)):
            axis.set_major_locator(MaxNLocator(max(2, min(7, round(1.3 * inches))), steps=[1, 2, 2.5, 5, 10]))
        box = (0.3, 1 + 0.12 / height, 0.7, 0.14 / height) if above else (1 + 0.12 / width, 0, 0.16 / width, 1)
        place = axes.inset_axes(box)
        bar = figure.colorbar(
            image, cax=place, extend=shades.extend, orientation="horizontal" if above else "vertical",
            label=LABELS.get(found["name"], found["name"]),
        )  # fmt: skip
        bar.outline.set_linewidth(0.6)
        if above:
            place.xaxis.set_ticks_position("top")
            place.xaxis.set_label_position("top")
        title = axes.annotate(
            place_of(found), (0, 1), (0, 6), xycoords="axes fraction", textcoords="offset points", fontsize=10
        )
    return figure, image, title


def place_of(found: Plane) -> str:
    """The position and the time of a plane, for a title."""
    when = "" if found["time"] is None else f", $t$ = {found['time']:.4g}"
    return f"${found['axis']}$ = {found['at']:.4g}{when}"


def shown(name: str, values: NDArray[np.floating]) -> NDArray[np.floating]:
    """The values of a field as an image shows them."""
    if name == "enstrophy":
        return np.maximum(values / (values.mean() or 1.0), 1e-3)
    return _filled(values)


def _filled(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """The values, extended by the nearest ones where there are none, so that interpolation reaches the boundary."""
    outside = ~np.isfinite(values)
    if not outside.any() or outside.all():
        return values
    from scipy.ndimage import distance_transform_edt

    nearest = distance_transform_edt(outside, return_distances=False, return_indices=True)
    return np.asarray(values[tuple(nearest)])


def _mask(axes: Axes, values: NDArray[np.floating], extent: list[float]) -> None:
    """Covers the pixels outside the mesh."""
    left, right, lower, upper = extent
    outside = ~np.isfinite(values)
    if outside.any():
        cover = np.empty((*values.shape, 4))
        cover[..., :3] = matplotlib.colors.to_rgb(OUTSIDE)
        cover[..., 3] = outside
        axes.imshow(cover, origin="lower", extent=(left, right, lower, upper), interpolation="bilinear", aspect="auto")


def _contours(axes: Axes, values: NDArray[np.floating], extent: list[float]) -> None:
    left, right, lower, upper = extent
    rows, columns = values.shape
    if min(rows, columns) < 2 or not np.nanmax(values) > np.nanmin(values):
        return
    x, y = (a + (b - a) * (np.arange(n) + 0.5) / n for a, b, n in ((left, right, columns), (lower, upper, rows)))
    low, high = float(np.nanmin(values)), float(np.nanmax(values))

    def drawn_at(level: float) -> bool:
        """Whether to draw the contour of a level: the field must cross it.

        On a plateau it would follow rounding errors.
        """
        return float(np.mean(np.abs(values - level) < PLATEAU * (high - low))) < FLAT

    levels = [level for level in MaxNLocator(14).tick_values(low, high) if drawn_at(level)]
    if levels:
        lines = axes.contour(x, y, values, levels=levels, colors="black", linewidths=0.5, alpha=0.6)
        lines.set_linestyle("solid")  # below 0, too


def _outline(axes: Axes, found: Plane, conditions: Mapping[str, str]) -> None:
    for name, segments in found["outline"].items():
        solid = conditions.get(name, "wall") in SOLID
        look = {"colors": "black", "linewidths": 1.6} if solid else {"colors": "#78909C", "linewidths": 0.8}
        pairs = np.array(segments).reshape(-1, 2, 2)
        axes.add_collection(LineCollection(list(pairs), capstyle="round", clip_on=False, zorder=3, **look))
