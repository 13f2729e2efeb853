"""The files of statistics that a run of turbulence writes; docs/turbulence-files.md describes them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI

from weft.arrays import Values
from weft.files import require_room, whole, write_text
from weft.run.record import by_first
from weft.run.stepping import Cells, Table
from weft.turbulence import Solver
from weft.turbulence_statistics import Distribution, Points, Scales, Spectra

if TYPE_CHECKING:
    import h5py

HDF5_BYTES = 65_536  # upper bound on the size of an HDF5 file without its values

SCALES = [f.name for f in dataclasses.fields(Scales)]


class Files:
    """statistics.csv, spectra.csv, moments.csv, pdf.csv and (on request) statistics.h5 in the folder of a run."""

    def __init__(self, folder: Path, scalars: int, hdf5: bool, since_step: int | None) -> None:
        each = range(1, scalars + 1)
        first = ["step", "time"]
        variance = [f"scalar_{n}_{what}" for n in each for what in ("variance", "dissipation")]
        self.statistics = Table(
            folder / "statistics.csv", [*first, "dt", "courant", *SCALES, "energy_input", *variance], since_step
        )
        self.spectra = Table(
            folder / "spectra.csv",
            [*first, "wavenumber", "modes", "energy", "dissipation", "transfer", *variance],
            since_step,
        )
        self.moments = Table(
            folder / "moments.csv",
            [*first, "quantity", "scaled_by", "scale", "moment_1", "moment_2", "moment_3", "moment_4", "skewness",
             "flatness", "smallest", "largest"],
            since_step,
        )  # fmt: skip
        self.pdf = Table(folder / "pdf.csv", [*first, "quantity", "lower", "upper", "density"], since_step)
        self.hdf5 = folder / "statistics.h5" if hdf5 else None
        if self.hdf5 is not None and since_step is None:
            self.hdf5.unlink(missing_ok=True)

    def add_scales(self, now: Cells, dt: float, courant: float, scales: Scales, spectra: Spectra, work: float) -> None:
        """Writes a row of statistics.csv; `now` is (step, time)."""
        sums = [
            spectra.width * float(np.sum(values[i]))
            for i in range(len(spectra.scalar_variance))
            for values in (spectra.scalar_variance, spectra.scalar_dissipation)
        ]
        self.statistics.add([[*now, dt, courant, *dataclasses.astuple(scales), work, *sums]])

    def add_spectra(self, now: Cells, spectra: Spectra, transfer: Values | None) -> None:
        """Writes the rows of a spectrum."""
        scalars = [
            values[i]
            for i in range(len(spectra.scalar_variance))
            for values in (spectra.scalar_variance, spectra.scalar_dissipation)
        ]
        missing = np.full(len(spectra.modes), np.nan)
        columns: list[Values] = [spectra.wavenumbers, spectra.modes, spectra.energy, spectra.dissipation,
                   missing if transfer is None else transfer, *scalars]  # fmt: skip
        self.spectra.add([[*now, *(float(v) for v in row)] for row in zip(*columns, strict=True)])
        names = ["wavenumber", "modes", "energy", "dissipation", "transfer"]
        self._to_hdf5(now, "spectra", dict(zip(names, columns, strict=False)))

    def add_points(self, now: Cells, points: Points) -> None:
        """Writes the rows of distributions."""
        rows = []
        for d in points.distributions.values():
            rows.append([*now, d.name, d.scaled_by, d.scale, *d.moments, d.skewness, d.flatness, d.smallest, d.largest])
        self.moments.add(rows)
        self.pdf.add([[*now, d.name, *bin_] for d in points.distributions.values() for bin_ in filled(d)])
        for d in points.distributions.values():
            values: dict[str, Values | float] = {
                "edges": d.edges,
                "density": d.density,
                "moments": np.array(d.moments),
                "scale": d.scale,
            }
            self._to_hdf5(now, f"distributions/{d.name.replace('/', '_')}", values)

    def _to_hdf5(self, now: Cells, name: str, values: Mapping[str, Values | float]) -> None:
        if self.hdf5 is None:
            return
        import h5py

        require_room(self.hdf5, sum(np.asarray(value).nbytes for value in values.values()) + HDF5_BYTES)
        with h5py.File(self.hdf5, "a") as file:
            group = file.require_group(f"step_{int(now[0]):08d}")
            group.attrs["time"] = float(now[1])
            inside = group.require_group(name)
            for key, value in values.items():
                if key in inside:
                    del inside[key]
                inside[key] = value


def filled(d: Distribution) -> list[tuple[float, float, float]]:
    """The bins of a distribution that are not empty: lower edge, upper edge, density."""
    return [(float(d.edges[i]), float(d.edges[i + 1]), float(d.density[i])) for i in np.flatnonzero(d.density).tolist()]


def write_fields(folder: Path, solver: Solver, comm: MPI.Intracomm) -> None:
    """Writes velocity, vorticity and pressure at the grid points for ParaView: fields.vtkhdf. (collective)

    The file is VTK's own form of HDF5, and fields.xdmf describes it for other programs. Every direction has one point
    more than the grid: its last plane is the periodic image of the first. The ranks write one after the other.
    """
    import h5py

    fields = {
        "velocity": np.moveaxis(solver.velocity(), 0, -1),
        "vorticity": np.moveaxis(solver.vorticity(), 0, -1),
        "pressure": solver.pressure(),
    }  # [z][y][x] of this rank, then components
    components = sum(math.prod(values.shape[3:]) for values in fields.values())
    size = math.prod(n + 1 for n in solver.sizes) * components * solver.dtype.itemsize + HDF5_BYTES
    by_first(comm, require_room, folder / "fields.vtkhdf", size)
    with contextlib.ExitStack() as stack:
        place = comm.bcast(stack.enter_context(whole(folder / "fields.vtkhdf")) if comm.rank == 0 else None)
        for rank in range(comm.size):
            if rank == comm.rank:
                with h5py.File(place, "w" if rank == 0 else "a") as file:
                    root = file.require_group("VTKHDF")
                    if rank == 0:
                        describe_grid(root, solver)
                    for name, values in fields.items():
                        add_periodic(root.require_group("PointData"), name, values, solver)
            comm.Barrier()
    if comm.rank == 0:
        write_text(folder / "fields.xdmf", xdmf(solver))


def describe_grid(root: h5py.Group, solver: Solver) -> None:
    """The attributes of VTKHDF's ImageData."""
    root.attrs["Version"] = (2, 0)
    root.attrs.create("Type", b"ImageData", dtype="S9")
    root.attrs["WholeExtent"] = np.array([[0, n] for n in solver.sizes], np.int64).ravel()
    root.attrs["Origin"] = np.zeros(3)
    root.attrs["Spacing"] = np.divide(solver.lengths, solver.sizes)
    root.attrs["Direction"] = np.eye(3).ravel()
    root.require_group("FieldData")["TimeValue"] = np.array([solver.time])


def add_periodic(group: h5py.Group, name: str, values: Values, solver: Solver) -> None:
    """Writes this rank's part of a field, and its periodic images on the last planes."""
    first, count = solver.points
    shape = tuple(n + 1 for n in reversed(solver.sizes)) + values.shape[3:]
    data = group.require_dataset(name, shape, values.dtype)
    if not values.size:
        return
    # In each of z, y, x: the rank's own points, and from the first plane of the box its image.
    ways = [
        [(slice(first[d], first[d] + count[d]), slice(None))]
        + ([(slice(solver.sizes[d], solver.sizes[d] + 1), slice(0, 1))] if first[d] == 0 else [])
        for d in (2, 1, 0)
    ]
    for parts in itertools.product(*ways):
        to, of = zip(*parts, strict=True)
        data[to] = values[of]


def xdmf(solver: Solver) -> str:
    """The XDMF description of fields.vtkhdf."""
    shape = " ".join(str(n + 1) for n in reversed(solver.sizes))
    spacing = " ".join(repr(side / n) for side, n in zip(reversed(solver.lengths), reversed(solver.sizes), strict=True))
    kinds = {"velocity": ("Vector", " 3"), "vorticity": ("Vector", " 3"), "pressure": ("Scalar", "")}
    arrays = "\n".join(
        f'    <Attribute Name="{name}" AttributeType="{kind}" Center="Node"><DataItem Dimensions="{shape}{components}" '
        f'NumberType="Float" Precision="{solver.dtype.itemsize}" Format="HDF">'
        f"fields.vtkhdf:/VTKHDF/PointData/{name}</DataItem></Attribute>"
        for name, (kind, components) in kinds.items()
    )
    return f"""<?xml version="1.0"?>
<Xdmf Version="3.0"><Domain><Grid Name="flow"><Time Value="{solver.time!r}"/>
    <Topology TopologyType="3DCoRectMesh" Dimensions="{shape}"/>
    <Geometry GeometryType="ORIGIN_DXDYDZ">
      <DataItem Dimensions="3" Format="XML">0 0 0</DataItem>
      <DataItem Dimensions="3" Format="XML">{spacing}</DataItem>
    </Geometry>
{arrays}
</Grid></Domain></Xdmf>
"""
