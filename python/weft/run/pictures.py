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
from weft.files import named, whole
from weft.mesh import Mesh
from weft.mesh_io.planes import Outline, PlaneOfMesh
from weft.record import Plane


class Pictures:
    """The planes of a case's output.

    ``field``: a collective function that returns, for the name of a field in the case, the name to show and the values
    [E][n][n][n]. ``time``: the time of the fields, None if they have none. ``since``: the step that the run continues
    from. ``keep_frames``: whether to keep the frames of the film.
    """

    def __init__(
        self,
        mesh: Mesh,
        order: int,
        output: PlaneOutput,
        folder: Path,
        field: Callable[[str], tuple[str, Values]],
        time: Callable[[], float | None],
        since: int | None = None,
        keep_frames: bool = False,
    ) -> None:
        self.mesh, self.order, self.output = mesh, order, output
        self.field, self.time = field, time
        self.film: Film | None = None
        if getattr(output, "movie", 0) > 0:
            self.film = Film(getattr(output, "movie_format", "auto"), folder, mesh.comm, since, keep_frames)
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

    def frame(self, step: int) -> None:
        """Adds a frame of the first plane after ``step`` to the film. (collective)"""
        assert self.film is not None
        cut = self.output.cuts[0]
        _, values = self.field(cut.field)
        self.film.add(step, self.time(), self._at(cut.axis, cut.at).image(values.astype(float)))

    def write_film(self, conditions: Mapping[str, str]) -> list[Path]:
        """Writes the film, if the case requests one, and returns its file.

        ``conditions``: the conditions of the boundaries by name. (collective)
        """
        if self.film is None:
            return []
        cut = self.output.cuts[0]
        plane = self._at(cut.axis, cut.at)
        name, _ = self.field(cut.field)
        head = picture(name, cut.axis, plane.at, 0.0, plane.extent, np.empty((0, 0)), plane.outline())
        return self.film.write(head, conditions)


class Film:
    """The frames of a film: images of a plane after some steps, one file each in the folder ``frames``, so that a run
    that continues from a checkpoint continues its film.

    ``kind``: the format of the film. ``since``: the step that the run continues from; frames of later steps are
    deleted. ``keep``: keeps the frames after the film is written, for runs that continue this one. (collective)
    """

    def __init__(self, kind: MovieFormat, folder: Path, comm: MPI.Intracomm, since: int | None, keep: bool) -> None:
        self.kind, self.folder, self.comm, self.keep = kind, folder, comm, keep
        self.frames = folder / "frames"

        def drop() -> None:
            for path in self._kept():
                if since is not None and int(path.stem) > since:
                    path.unlink()

        mpi.together(comm, drop)

    def _kept(self) -> list[Path]:
        """The files in the order of their steps on the first rank; none on other ranks."""
        return sorted(self.frames.glob("[0-9]*.npz")) if self.comm.rank == 0 else []

    def add(self, step: int, time: float | None, image: Values) -> None:
        """Adds a frame; ``image`` [rows][columns] is empty on all ranks but the first. (collective)"""

        def write() -> None:
            if self.comm.rank == 0:
                self.frames.mkdir(exist_ok=True)
                with whole(self.frames / f"{step:08}.npz") as place:
                    np.savez_compressed(place, time=time or 0.0, image=image.astype(np.float32))

        mpi.together(self.comm, write)

    def write(self, head: Plane, conditions: Mapping[str, str]) -> list[Path]:
        """Writes movie.mp4 or movie.gif, if there are frames, and returns its file. (collective)

        ``head`` describes the plane that the film shows.
        """

        def write() -> list[Path]:
            frames = []
            for path in self._kept():
                with named(path), np.load(path) as kept:
                    frames.append((float(kept["time"]), kept["image"]))
            # Frames of a run with another number of pixels do not fit.
            frames = [(time, image) for time, image in frames if image.shape == frames[-1][1].shape]
            if not frames:
                return []
            from weft.report.film import save

            times, images = zip(*frames, strict=True)
            program = "" if self.kind == "gif" else ffmpeg()
            film = save(head, times, images, conditions, self.folder, program)
            if not self.keep:
                shutil.rmtree(self.frames)
            return [film]

        return self.comm.bcast(mpi.together(self.comm, write, long=True))


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
    """Raises CollectiveError if the case requests a film in a format that cannot be written here. (collective)"""
    output = case.output
    wanted = getattr(output, "movie", 0) > 0 and getattr(output, "movie_format", "auto") == "mp4"
    if comm.bcast(wanted and not ffmpeg() if comm.rank == 0 else None):
        raise mpi.CollectiveError(
            "case key 'output.movie_format': found 'mp4', but ffmpeg was not found; install it (pip install "
            "imageio-ffmpeg, or your system's package), or use 'gif'"
        )


def picture(
    name: str, axis: str, at: float, time: float | None, extent: list[float], image: Values, outline: Outline
) -> Plane:
    """An image for a record, in single precision; NaN where there is no value."""
    values = image.astype(np.float32)
    return {"name": name, "axis": axis, "at": at, "time": time, "extent": extent, "values": values, "outline": outline}
