"""Films of a plane over time: an MP4 where ffmpeg is installed, else a GIF by Pillow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import AbstractMovieWriter, FFMpegWriter, PillowWriter
from numpy.typing import NDArray

from weft.files import whole
from weft.record import Plane
from weft.report.planes import colours, drawn, place_of, shown

SECONDS = 8.0  # a film lasts about this long
RATES = (4, 25)  # frames per second, at least and at most
DOTS_PER_INCH = 100


def save(
    head: Plane,
    times: Sequence[float],
    images: Sequence[NDArray[np.floating]],
    conditions: Mapping[str, str],
    folder: Path,
) -> Path:
    """Writes movie.mp4 or movie.gif and returns its path. ``head``: the plane, whose time and values are not used;
    ``conditions``: those of the boundaries, by name.

    All frames have the same colours, those of the values of all of them.
    """
    rate = int(np.clip(round(len(times) / SECONDS), *RATES))
    film, name = (FFMpegWriter, "movie.mp4") if FFMpegWriter.isAvailable() else (PillowWriter, "movie.gif")
    writer: AbstractMovieWriter = film(fps=rate)
    shades = colours(head["name"], np.stack(images))
    figure, image, title = drawn(head, images[0], conditions, shades)
    with whole(folder / name) as place, writer.saving(figure, str(place), DOTS_PER_INCH):
        for time, values in zip(times, images, strict=True):
            image.set_data(shown(head["name"], values))
            title.set_text(place_of({**head, "time": time}))
            writer.grab_frame()
    plt.close(figure)
    return folder / name
