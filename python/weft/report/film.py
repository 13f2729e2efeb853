"""Films of a plane over time: an MP4 by ffmpeg, or a GIF by Pillow."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
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
    ffmpeg: str,
) -> Path:
    """Writes movie.mp4 with the program ``ffmpeg``, or movie.gif if ``ffmpeg`` is empty; returns the path.

    ``head``: the plane, whose time and values are not used; ``conditions``: the conditions of the boundaries by name.
    All frames share one colour scale, which covers the values of all frames. Raises OSError if ffmpeg fails.
    """
    rate = int(np.clip(round(len(times) / SECONDS), *RATES))
    film, name = (FFMpegWriter, "movie.mp4") if ffmpeg else (PillowWriter, "movie.gif")
    shades = colours(head["name"], np.stack(images))
    figure, image, title = drawn(head, images[0], conditions, shades)
    with whole(folder / name) as place, _failures_of(ffmpeg), plt.rc_context({"animation.ffmpeg_path": ffmpeg}):
        writer: AbstractMovieWriter = film(fps=rate)
        with writer.saving(figure, str(place), DOTS_PER_INCH):
            for time, values in zip(times, images, strict=True):
                image.set_data(shown(head["name"], values))
                title.set_text(place_of({**head, "time": time}))
                writer.grab_frame()
    plt.close(figure)
    return folder / name


@contextlib.contextmanager
def _failures_of(ffmpeg: str) -> Iterator[None]:
    """Turns errors of ffmpeg into an OSError without a file name: that of a full disk, or the last line it printed."""
    logger = logging.getLogger("matplotlib.animation")  # it includes the whole output of ffmpeg
    before, logger.disabled = logger.disabled, True
    try:
        yield
    except (subprocess.CalledProcessError, BrokenPipeError) as error:
        said = getattr(error, "stderr", None) or getattr(error, "output", None) or ""
        text = said.decode(errors="replace") if isinstance(said, bytes) else said
        if os.strerror(errno.ENOSPC) in text:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
        lines = text.strip().splitlines()
        last = re.sub(r"^\[.*?\] ", "", lines[-1]) if lines else "it ended"
        raise OSError(errno.EIO, f"{ffmpeg} failed: {last}") from None
    finally:
        logger.disabled = before
