"""Options that all workloads share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import pydantic

from weft.cases.expressions import Expression, ExpressionError
from weft.cases.schema import Case, Section, option, section, workload_name
from weft.cases.values import PYTHON, FunctionsSection, Value, function_name

PLACE = ("x", "y", "z")


class ExtrudeSection(Section):
    """How a 2-D mesh file is extended along z, from z = 0."""

    layers: int = option(1, "number of layers of elements", ge=1)
    length: float = option(
        0.0, "total length along z; 0: every layer is as thick as the mean element is wide", unit="length", ge=0.0
    )
    ends: Literal["periodic", "symmetry", "named"] = option(
        "periodic", "periodic: joined; symmetry: both are the boundary SYM; named: they are the boundaries z- and z+"
    )


class MeshSection(Section):
    """Where the elements come from: a file, or a box that weft generates."""

    file: str = option(
        "",
        "mesh file: Nek .re2 or .rea, Neko .nmsh, Gmsh .msh, 2-D or 3-D; empty: generate a box",
        instead_of=("mesh.counts", "mesh.points"),
    )
    extrude: ExtrudeSection = section(ExtrudeSection)
    region: int | str = option(
        "", "keep only the elements of this region of the file: its number or name (conjugate meshes: fluid, solid)"
    )
    map: tuple[Value, Value, Value] | str = option(
        "", 'move every point to three expressions in x, y, z, or to what "python:name" returns; empty: do not move'
    )
    geometry_order: int = option(
        0, "polynomial order of curved elements; 0: what the file or shape needs, at least 7 with mesh.map", ge=0, le=15
    )
    partitioner: Literal["metis", "rcb"] = option(
        "metis", "method that distributes the elements of a file over the ranks"
    )
    points: int = option(
        2_097_152,
        "size of a box without mesh.counts: approximate number of element-local points N_L, in total",
        unit="points",
        ge=8,
        le=2**53,
        instead_of=("mesh.counts", "mesh.file"),
    )
    counts: tuple[int, int, int] = option(
        (0, 0, 0),
        "number of elements of the box in x, y, z; zeros: chosen from mesh.points",
        instead_of=("mesh.points", "mesh.file"),
    )
    lower: tuple[float, float, float] = option((0.0, 0.0, 0.0), "lower corner of the box", unit="length")
    upper: tuple[float, float, float] = option(
        (0.0, 0.0, 0.0), "upper corner of the box; zeros: elements of side 2, as in Nekbone", unit="length"
    )
    periodic: tuple[bool, bool, bool] = option((False, False, False), "periodic in x, y, z")
    deformation: Literal["none", "smooth", "kershaw"] = option("none", "deformation of the box")
    deformation_parameter: float = option(
        0.0,
        "smooth: amplitude relative to the box (0: 0.05); kershaw: 1 is undeformed, smaller is stronger (0: 0.3)",
        ge=0.0,
        le=1.0,
    )

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> MeshSection:
        if any(c < 1 for c in self.counts) and any(c != 0 for c in self.counts):
            raise ValueError(f"case key 'mesh.counts': found {list(self.counts)}; allowed: three integers, at least 1")
        if any(self.upper) and not all(lo < up for lo, up in zip(self.lower, self.upper, strict=True)):
            raise ValueError(
                f"case keys 'mesh.lower' and 'mesh.upper': found {list(self.lower)} and {list(self.upper)}; "
                "allowed: every lower coordinate below the upper one"
            )
        if not self.file:
            for key in ("extrude", "region"):
                if getattr(self, key) != type(self).model_fields[key].get_default(call_default_factory=True):
                    raise ValueError(f"case key 'mesh.{key}': it is for mesh files, but mesh.file is empty; remove it")
        return self


class TimedMesh(MeshSection):
    """The mesh file, or a box: for time-dependent runs, one that is smaller and has sides of length 1."""

    points: int = option(
        262_144,
        "size of a box without mesh.counts: approximate number of element-local points, in total",
        unit="points",
        ge=8,
        le=2**53,
        instead_of=("mesh.counts", "mesh.file"),
    )
    upper: tuple[float, float, float] = option((1.0, 1.0, 1.0), "upper corner of the box", unit="length")


MovieFormat = Literal["auto", "mp4", "gif"]
MOVIE_FORMATS = "format of the film: movie.mp4, which needs ffmpeg, or movie.gif; auto: mp4 if ffmpeg is found"


class OutputSection(Section):
    """The output of a run."""

    directory: str = option("", "folder of run.json and all other output; empty: weft-output/WORKLOAD")
    fields: bool = option(False, "write the solution for ParaView (one VTU file per rank, and a .pvtu)")
    trace: bool = option(False, "write trace.json, the timeline of every rank, to be opened in Perfetto")
    plots: bool = option(True, "draw plots (.png) at the end while other ranks wait; `weft report` draws them, too")


class Cut(NamedTuple):
    """A field on a plane: normal to an axis, at a fraction of the extent of the mesh."""

    field: str
    axis: str
    at: float


class PlaneOutput(OutputSection):
    """The output of a run on spectral elements: pictures of planes, in addition to fields."""

    slice: str | tuple[str, ...] = option("none", "fields to draw on planes")  # each workload has its own default
    slice_axis: Literal["x", "y", "z"] = option("z", "axis normal to the planes of output.slice")
    slice_at: float = option(0.5, "position of the planes, as a fraction of the extent of the mesh", ge=0.0, le=1.0)
    pixels: int = option(256, "pixels along the longer side of a picture of a plane", unit="pixels", ge=16, le=2048)

    @property
    def cuts(self) -> list[Cut]:
        """The planes to draw. Each word of output.slice is a field, or a field with its own plane: "speed@x=0.25"."""
        words = [self.slice] if isinstance(self.slice, str) else list(self.slice)
        return [self._cut(word) for word in words if word != "none"]

    def _cut(self, word: str) -> Cut:
        field, own, place = word.partition("@")
        if not own:
            return Cut(field, self.slice_axis, self.slice_at)
        axis, _, share = place.partition("=")
        try:
            at = float(share)
        except ValueError:
            at = math.nan
        if axis not in ("x", "y", "z") or not 0 <= at <= 1:
            raise ValueError(
                f"case key 'output.slice': found {word!r}; allowed: a field, or FIELD@AXIS=FRACTION, such as "
                f'"{field}@x=0.25"'
            )
        return Cut(field, axis, at)

    def require_fields(self, known: Sequence[str]) -> None:
        """Raises ValueError if the workload does not have a field that is to be drawn."""
        for cut in self.cuts:
            if cut.field not in known:
                raise ValueError(
                    f"case key 'output.slice': found {cut.field!r}; allowed: {', '.join(('none', *known))}, alone or "
                    "several in a list"
                )
        if getattr(self, "movie", 0) and not self.cuts:
            raise ValueError(
                "case key 'output.movie': the film shows the first plane of output.slice, which is 'none'; set "
                "output.slice"
            )


class ElementOutput(PlaneOutput):
    """The output of a time-dependent run on spectral elements."""

    movie: int = option(
        0, "time steps between frames of a film of the first plane in output.slice; 0: no film", unit="steps", ge=0
    )
    movie_format: MovieFormat = option("auto", MOVIE_FORMATS)
    compare_paths: bool = option(
        False, "after the run, time some more steps with each path of the exchange (direct, staged)"
    )


class CheckpointSection(Section):
    """Checkpoints, from which a later run can continue."""

    every: int = option(
        0, "steps between checkpoints; 0: only at the end and on signals, as set below", unit="steps", ge=0
    )
    at_end: bool = option(False, "write a checkpoint when the run ends")
    on_signal: bool = option(True, "write a checkpoint on Ctrl-C, SIGTERM or SIGUSR1")
    directory: str = option("", "folder of the checkpoints; empty: checkpoints/ in the output folder")
    keep: int = option(2, "number of checkpoints to keep; older ones are deleted", ge=1)

    @property
    def planned(self) -> bool:
        """Whether a run that is not stopped leaves a checkpoint."""
        return self.every > 0 or self.at_end


class TimeSpan(Section):
    """The length of a time-dependent run: a number of steps, or an end time."""

    steps: int = option(100, "number of time steps (if time.end is 0)", unit="steps", ge=0, instead_of=("time.end",))
    end: float = option(
        0.0, "run to this time; 0: run time.steps steps", unit="time", ge=0.0, instead_of=("time.steps",)
    )

    @pydantic.model_validator(mode="after")
    def _one_of(self) -> TimeSpan:
        default = type(self).model_fields["steps"].default
        if self.end > 0 and self.steps not in (0, default):
            raise ValueError(
                f"case keys 'time.steps' and 'time.end': found {self.steps} and {self.end:g}; allowed: one of them"
            )
        if self.steps == 0 and self.end == 0:
            raise ValueError("case keys 'time.steps' and 'time.end': both 0; allowed: one of them above 0")
        return self


class SharedCase(Case):
    """Base of every workload's case."""

    device: Literal["auto", "host", "cuda", "hip"] = option(
        "auto", "where kernels run; auto: a GPU if one is found", sets="device"
    )
    precision: Literal["double", "single"] = option("double", "floating-point type of the fields", sets="precision")
    exchange: str = option(
        "auto",
        "schedule[:path] of the exchange, such as pairwise:staged; auto: timed, the fastest is used",
        sets="exchange",
    )
    exchange_cache: bool = option(
        False,
        "store the timings of the exchange on disk (in WEFT_CACHE), and reuse those of earlier runs of the same case",
        sets="exchange_cache",
    )
    output: OutputSection = section(OutputSection)

    @pydantic.model_validator(mode="after")
    def _name_the_folder(self) -> SharedCase:
        if not self.output.directory:
            self.output.directory = f"weft-output/{workload_name(type(self))}"
        return self


class ElementCase(SharedCase):
    """Base of the workloads on spectral elements."""

    mesh: MeshSection = section(MeshSection)
    functions: FunctionsSection = section(FunctionsSection)
    order: int = option(7, "polynomial order N of the elements", ge=1, le=15, sets="order")

    @property
    def constants(self) -> dict[str, float]:
        """The constants that expressions of the case may use, by name."""
        return {}

    def references(self) -> Iterator[object]:
        """Every value that may refer to a Python function."""
        yield self.mesh.map

    @pydantic.model_validator(mode="after")
    def _functions_are_used(self) -> ElementCase:
        if self.functions.file and not any(isinstance(v, str) and v.startswith(PYTHON) for v in self.references()):
            raise ValueError(
                f"case key 'functions.file': found {self.functions.file!r}, but no value of the case refers to a "
                'function in it; use one, as in mesh.map = "python:name"'
            )
        return self

    @pydantic.model_validator(mode="after")
    def _map_can_be_used(self) -> ElementCase:
        given = self.mesh.map
        if isinstance(given, str):
            if given and not function_name(given).isidentifier():
                raise ValueError(f"case key 'mesh.map': found {given!r}; allowed: three expressions, or python:name")
            if given and not self.functions.file:
                raise ValueError(f"case key 'mesh.map': found {given!r}, but functions.file is not set; set it to the "
                                 "file that defines the function")  # fmt: skip
            return self
        for part in given:
            try:
                if isinstance(part, str):
                    Expression(part, PLACE, self.constants)
            except ExpressionError as error:
                raise ValueError(f"case key 'mesh.map': found {part!r}: {error}") from None
        return self
