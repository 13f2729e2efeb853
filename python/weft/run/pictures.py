"""Pictures and films of planes, for runs on spectral elements."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from mpi4py import MPI

from weft import mpi
from weft.arrays import Values
from weft.cases.shared import MovieFormat, PlaneOutput, SharedCase
from weft.mesh import Mesh
from weft.mesh_io.planes import Outline, PlaneOfMesh
from weft.record import Plane


class Pictures:
    """The planes of a case's output.

    ``field``: by the name of a field in the case, the name to show and its values [E][n][n][n]; collective. ``time``:
    the time of the fields, None if they have none.
    """

    def __init__(
        self,
        mesh: Mesh,
        order: int,
        output: PlaneOutput,
        folder: Path,
        field: Callable[[str], tuple[str, Values]],
        time: Callable[[], float | None],
    ) -> None:
        self.mesh, self.order, self.output, self.folder = mesh, order, output, folder
        self.field, self.time = field, time
        self.film = Film(getattr(output, "movie_format", "auto"))
        self.name = ""  # of the field of the film
        self._at = functools.cache(self._find)

    def _find(self, axis: str, at: float) -> PlaneOfMesh:
        return PlaneOfMesh(self.mesh, self.order, "xyz".index(axis), at, self.output.pixels)

    def planes(self) -> list[Plane]:
        """The current planes, for the record; complete on rank 0. (collective)"""
        found = []
        for cut in self.output.cuts:
            plane = self._at(cut.axis, cut.at)
            name, values = self.field(cut.field)
            image = plane.image(values.astype(float))
            found.append(picture(name, cut.axis, plane.at, self.time(), plane.extent, image, plane.outline()))
        return found

    def frame(self) -> None:
        """Adds a frame of the first plane to the film. (collective)"""
        cut = self.output.cuts[0]
        plane = self._at(cut.axis, cut.at)
        self.name, values = self.field(cut.field)
        self.film.add(self.time(), plane.image(values.astype(float)))

    def write_film(self, conditions: Mapping[str, str]) -> list[Path]:
        """Writes the film, if it has frames, and returns its file. ``conditions``: those of the boundaries, by name.
        (collective)"""
        if not self.film.times:
            return []
        cut = self.output.cuts[0]
        plane = self._at(cut.axis, cut.at)
        head = picture(self.name, cut.axis, plane.at, 0.0, plane.extent, np.empty((0, 0)), plane.outline())
        return self.film.write(head, conditions, self.folder, self.mesh.comm)


class Film:
    """The frames of a film: images of a plane at several times. Rank 0 keeps them, in single precision."""

    def __init__(self, kind: MovieFormat) -> None:
        self.kind = kind
        self.times: list[float] = []
        self.images: list[Values] = []

    def add(self, time: float | None, image: Values) -> None:
        """Adds a frame; ``image`` [rows][columns] is empty on all ranks but the first."""
        self.times.append(time or 0.0)
        self.images.append(image.astype(np.float32))

    def write(self, head: Plane, conditions: Mapping[str, str], folder: Path, comm: MPI.Intracomm) -> list[Path]:
        """Writes movie.mp4 or movie.gif; ``head`` says which plane it shows. (collective)"""

        def write() -> list[Path]:
            if comm.rank != 0:
                return []
            from weft.report.film import save

            return [save(head, self.times, self.images, conditions, folder, ffmpeg() if self.kind != "gif" else "")]

        return comm.bcast(mpi.together(comm, write))


def ffmpeg() -> str:
    """The program ffmpeg: the one on PATH, else that of the package imageio-ffmpeg; "" if there is none."""
    if found := shutil.which("ffmpeg"):
        return found
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        return ""


def require_film(case: SharedCase, comm: MPI.Intracomm) -> None:
    """CollectiveError if the case wants a film in a format that cannot be written here. (collective)"""
    output = case.output
    wanted = getattr(output, "movie", 0) > 0 and getattr(output, "movie_format", "auto") == "mp4"
    if comm.bcast(wanted and not ffmpeg() if comm.rank == 0 else None):
        raise mpi.CollectiveError(
            "case key 'output.movie_format': found 'mp4', but there is no ffmpeg; install it (pip install "
            "imageio-ffmpeg, or your system's package), or use 'gif'"
        )


def picture(
    name: str, axis: str, at: float, time: float | None, extent: list[float], image: Values, outline: Outline
) -> Plane:
    """An image for a record, in single precision; NaN where there is no value."""
    values = image.astype(np.float32)
    return {"name": name, "axis": axis, "at": at, "time": time, "extent": extent, "values": values, "outline": outline}
