"""The options every workload shares."""

from __future__ import annotations

from typing import Literal

import pydantic

from weft.cases.schema import Case, Section, option, section


class MeshSection(Section):
    """Where the elements come from: a file, or a box that weft generates."""

    file: str = option("", "mesh file: Nek .re2 or .rea, Gmsh .msh; empty: generate a box")
    partitioner: Literal["metis", "rcb"] = option("metis", "how the elements of a file are distributed over the ranks")
    points: int = option(
        2_097_152, "size of a box without counts: approximate total of element-local points N_L", unit="points", ge=8
    )
    counts: tuple[int, int, int] = option((0, 0, 0), "elements of the box in x, y, z; zeros: chosen from mesh.points")
    lower: tuple[float, float, float] = option((0.0, 0.0, 0.0), "lower corner of the box", unit="length")
    upper: tuple[float, float, float] = option(
        (0.0, 0.0, 0.0), "upper corner of the box; zeros: elements of side 2, as in NekBone", unit="length"
    )
    periodic: tuple[bool, bool, bool] = option((False, False, False), "periodic in x, y, z")
    deformation: Literal["none", "smooth", "kershaw"] = option("none", "how the box is deformed")
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
        return self


class OutputSection(Section):
    """What a run leaves behind."""

    directory: str = option("weft-output", "folder of run.json and all other output")
    fields: bool = option(False, "write the solution for ParaView (one VTU file per rank, and a .pvtu)")
    trace: bool = option(False, "write trace.json, the time line of every rank, which Perfetto opens")


class ElementOutput(OutputSection):
    """What a run in time on spectral elements leaves behind."""

    slice_axis: Literal["x", "y", "z"] = option("z", "axis normal to the plane of output.slice")
    slice_at: float = option(0.5, "position of the plane, as a fraction of the extent of the mesh", ge=0.0, le=1.0)
    compare_paths: bool = option(
        False, "after the run, also time some steps with every path of the exchange (direct, staged)"
    )


class CheckpointSection(Section):
    """What a run leaves to go on from."""

    every: int = option(0, "steps between checkpoints; 0: none but at the end and on signals", unit="steps", ge=0)
    at_end: bool = option(False, "write one when the run ends")
    on_signal: bool = option(True, "write one on Ctrl-C and SIGTERM")
    directory: str = option("", "where they go; empty: checkpoints in the output's folder")
    keep: int = option(2, "how many are kept", ge=1)


class SharedCase(Case):
    """Base of every workload's case."""

    device: Literal["auto", "host", "cuda", "hip"] = option(
        "auto", "where kernels run; auto: a GPU if there is one", sets="device"
    )
    precision: Literal["double", "single"] = option("double", "floating-point type of the fields", sets="precision")
    exchange: str = option(
        "auto",
        "schedule[:path] of the exchange, such as pairwise:staged; auto: the fastest, by timing",
        sets="exchange",
    )
    exchange_cache: bool = option(
        False,
        "keep the timings of the exchange on disk (WEFT_CACHE), and reuse those of an earlier run of the same case",
        sets="exchange_cache",
    )
    output: OutputSection = section(OutputSection)


class ElementCase(SharedCase):
    """Base of the workloads on spectral elements."""

    mesh: MeshSection = section(MeshSection)
    order: int = option(7, "polynomial order N of the elements", ge=1, le=15, sets="order")
