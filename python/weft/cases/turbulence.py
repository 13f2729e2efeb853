"""The case of `weft run turbulence`: incompressible flow in a periodic box by the Fourier pseudo-spectral method."""

from __future__ import annotations

import math
import re
from typing import Literal

import pydantic

from weft.cases.schema import Section, option, section
from weft.cases.shared import MOVIE_FORMATS, CheckpointSection, MovieFormat, OutputSection, SharedCase, TimeSpan

CIRCLE = 2 * math.pi


class TimeSection(TimeSpan):
    """Time steps and time scheme."""

    scheme: Literal["rk2", "rk4"] = option(
        "rk2", "Runge-Kutta scheme of second order (as in GESTS) or fourth order", sets="scheme"
    )
    dt: float = option(
        0.0,
        "time step; 0: variable, from time.courant",
        unit="time",
        ge=0.0,
        sets="dt",
        instead_of=("time.courant", "time.max_dt"),
    )
    courant: float = option(
        0.5, "Courant number of each step (Eq. 8)", gt=0.0, lt=1.0, sets="courant", instead_of=("time.dt",)
    )
    max_dt: float = option(
        0.0,
        "longest variable step; 0: h^2 / viscosity, with h the smallest spacing of the grid",
        unit="time",
        ge=0.0,
        instead_of=("time.dt",),
        sets="max_dt",
    )
    courant_limit: float = option(
        1.0, "end the run with an error if a step's Courant number exceeds this", gt=0.0, le=1.0, sets="courant_limit"
    )


class InitialSection(Section):
    """The initial velocity."""

    field: Literal["taylor-green", "taylor-green-2d", "abc", "random"] = option(
        "taylor-green", "the Taylor-Green vortex, its two-dimensional form, the ABC flow, or random modes of a spectrum"
    )
    checkpoint: str = option(
        "", "checkpoint to continue from, or a folder whose newest is used; empty: start from initial.field"
    )
    velocity: float = option(
        1.0, "taylor-green, abc: amplitude; random: root mean square of each component", gt=0.0, le=1e100
    )
    wavenumber: int = option(
        1, "abc: wavenumber; random: wavenumber p of the peak of the spectrum", unit="2 pi / side", ge=1, le=10**6
    )
    slope: float = option(4.0, "random: exponent s of the spectrum E(k) = k^s exp(-s/2 (k/p)^2)", gt=0.0, le=20.0)


class ForcingSection(Section):
    """Forcing of the large scales."""

    kind: Literal["none", "stochastic", "band"] = option(
        "none",
        "stochastic: Eswaran and Pope 1988; band: constant energy in each low shell (Donzis and Yeung 2010)",
        sets="forcing.kind",
    )
    radius: float = option(
        2.5, "modes with 0 < |k| <= radius are forced", unit="1 / length", gt=0.0, sets="forcing.radius"
    )
    amplitude: float = option(
        0.02,
        "stochastic: sigma^2 T, an acceleration squared times time",
        unit="length^2 / time^3",
        ge=0.0,
        sets="forcing.amplitude",
    )
    time: float = option(1.0, "stochastic: correlation time T", unit="time", gt=0.0, sets="forcing.time")


class ScalarSection(Section):
    """Passive scalars."""

    schmidt: tuple[float, ...] = option((), "Schmidt number of each scalar, such as [1.0, 0.25]; empty: no scalars")
    gradient: tuple[float, float, float] = option((0.0, 0.0, 0.0), "mean gradient of every scalar", unit="1 / length")
    field: Literal["zero", "random"] = option("zero", "initial scalars: 0, or random with the spectrum of the velocity")

    @pydantic.field_validator("schmidt")
    @classmethod
    def _positive(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        if any(v <= 0 for v in values):
            raise ValueError("every Schmidt number must be above 0")
        return values


class StatisticsSection(Section):
    """Statistics computed during the run; docs/turbulence-files.md describes the files."""

    every: int = option(10, "steps between rows of statistics.csv (energy, dissipation, scales); 0: only at the end",
                        unit="steps", ge=0)  # fmt: skip
    spectra_every: int = option(0, "steps between spectra E(k), D(k), T(k); 0: none before the end", unit="steps", ge=0)
    points_every: int = option(
        0, "steps between moments and PDFs of dissipation, enstrophy, pressure and gradients; 0: none before the end",
        unit="steps", ge=0,
    )  # fmt: skip
    at_end: bool = option(True, "compute spectra, moments and PDFs when the run ends")
    pressure: bool = option(True, "include the pressure (Eq. 11); temporarily needs memory for one more field")
    transfer: bool = option(True, "include the transfer T(k) in the spectra")
    hdf5: bool = option(False, "also write spectra and distributions to statistics.h5")


class TurbulenceCheckpoint(CheckpointSection):
    """Checkpoints, from which a later run can continue."""

    files: str = option(
        "node", "ranks that share a file: node (those of a node), one (all ranks), or a number such as '16'"
    )
    turns: int = option(1, "number of groups of ranks, which write one after the other", ge=1)

    @pydantic.field_validator("files")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in ("node", "one") and not (value.isdigit() and 0 < int(value) < 2**31):
            raise ValueError("allowed: node, one, or a number of ranks")
        return value


class TurbulenceOutput(OutputSection):
    """The output of a run."""

    fields: bool = option(
        False, "write velocity, vorticity and pressure at the points for ParaView (fields.vtkhdf, fields.xdmf)"
    )
    slice: bool = option(True, "draw the enstrophy on the plane halfway along z")
    movie: int = option(0, "steps between frames of a film of that plane; 0: none", unit="steps", ge=0)
    movie_format: MovieFormat = option("auto", MOVIE_FORMATS)


class TurbulenceCase(SharedCase):
    """Isotropic turbulence and related flows in a periodic box (GESTS, section 3)."""

    workload: Literal["turbulence"] = option("turbulence", "the command this file is for")
    grid: int = option(64, "grid points per side, of the form 2^a 3^b 5^c 7^d", unit="points", ge=4, le=2**20)
    sizes: tuple[int, int, int] = option((0, 0, 0), "grid points along x, y, z, if they differ; zeros: grid")
    lengths: tuple[float, float, float] = option(
        (CIRCLE, CIRCLE, CIRCLE), "sides of the box", unit="length", sets="lengths"
    )
    viscosity: float = option(0.01, "kinematic viscosity nu", unit="length^2 / time", ge=0.0, sets="viscosity")
    dealiasing: Literal["phase-shift", "two-thirds"] = option(
        "phase-shift",
        "phase-shift: shifted grids and truncation at sqrt(2) N / 3; two-thirds: truncation at N / 3 per direction",
        sets="dealiasing",
    )
    process_grid: str = option(
        "auto", "grid of ranks Pr x Pc, such as 2x4; 1xP: slabs; auto: timed, the fastest is used", sets="process_grid"
    )
    batch: int | str = option(
        "auto", "variables per message, Q: 1 to 64; auto: timed, the fastest is used", sets="batch"
    )
    seed: int = option(1, "seed of phase shifts, forcing and random fields", ge=0, lt=2**63, sets="seed")
    time: TimeSection = section(TimeSection)
    initial: InitialSection = section(InitialSection)
    forcing: ForcingSection = section(ForcingSection)
    scalars: ScalarSection = section(ScalarSection)
    statistics: StatisticsSection = section(StatisticsSection)
    checkpoint: TurbulenceCheckpoint = section(TurbulenceCheckpoint)
    reference: str = option("", "file with reference data to compare with: columns time, energy, -dE/dt")
    output: TurbulenceOutput = section(TurbulenceOutput)

    @property
    def points(self) -> tuple[int, int, int]:
        """Points along x, y, z."""
        return self.sizes if any(self.sizes) else (self.grid, self.grid, self.grid)

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> TurbulenceCase:
        key, found = ("sizes", list(self.sizes)) if any(self.sizes) else ("grid", self.grid)
        for size in self.points:
            if size < 4 or not smooth(size):
                near = ", ".join(map(str, smooth_neighbours(size)))
                raise ValueError(
                    f"case key '{key}': found {found}; allowed: sizes of at least 4 of the form 2^a 3^b 5^c 7^d, "
                    f"such as {near}"
                )
        if any(not length > 0 for length in self.lengths):
            raise ValueError(f"case key 'lengths': found {list(self.lengths)}; allowed: numbers above 0")
        if self.process_grid != "auto" and not re.fullmatch(r"[1-9]\d{0,6}x[1-9]\d{0,6}", self.process_grid):
            raise ValueError(
                f"case key 'process_grid': found {self.process_grid!r}; allowed: auto, or PrxPc, such as '2x4'"
            )
        if self.batch != "auto" and not (isinstance(self.batch, int) and 1 <= self.batch <= 64):
            raise ValueError(f"case key 'batch': found {self.batch!r}; allowed: auto, or an integer from 1 to 64")
        if self.initial.field == "abc" and len(set(self.lengths)) > 1:
            raise ValueError(
                f"case key 'initial.field': found 'abc' with lengths = {list(self.lengths)}; allowed: equal sides"
            )
        return self


def smooth(n: int) -> bool:
    """Whether n has the form 2^a 3^b 5^c 7^d."""
    for prime in (2, 3, 5, 7):
        while n > 1 and n % prime == 0:
            n //= prime
    return n == 1


def smooth_neighbours(n: int) -> list[int]:
    """The nearest allowed sizes below and above n."""
    below = next((m for m in range(min(n, 2**20), 3, -1) if smooth(m)), None)
    above = next(m for m in range(max(n, 4), 2**21) if smooth(m))
    return [m for m in (below, above) if m is not None]
