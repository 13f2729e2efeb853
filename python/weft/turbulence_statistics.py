"""Statistics of a running turbulence simulation, and the scales derived from them.

`Statistics` is a part of `weft.turbulence.Solver`. Formulas and sources: docs/turbulence.md.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft import _weft

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Distribution", "Points", "Scales", "Spectra", "Statistics"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scales:
    """One-point statistics of homogeneous turbulence, in the units of the run; NaN for a velocity of 0."""

    energy: float  #: <u_i u_i> / 2
    dissipation: float  #: mean of Eq. 10, nu <omega_i omega_i>
    enstrophy: float  #: <omega_i omega_i> (Eq. 10)
    helicity: float  #: <u . omega>
    u_rms: float  #: root mean square of u, v, w
    v_rms: float
    w_rms: float
    integral_scale: float  #: L = pi / (2 u'^2) sum E(k) / k, with u'^2 = 2 energy / 3
    taylor_scale: float  #: lambda = (15 nu u'^2 / dissipation)^(1/2)
    kolmogorov_scale: float  #: eta = (nu^3 / dissipation)^(1/4)
    eddy_turnover_time: float  #: L / u'
    kolmogorov_time: float  #: (nu / dissipation)^(1/2)
    reynolds_taylor: float  #: u' lambda / nu
    kmax_eta: float  #: kmax eta, where kmax is the wavenumber up to which all modes are kept
    divergence: float  #: largest |k . u| of a mode over the root of <omega_i omega_i>: of the order of rounding errors


@dataclass(frozen=True)
class Spectra:
    """Spectra by shells round(|k| / width), whose sums times ``width`` are the totals (Parseval)."""

    viscosity: float
    width: float  #: of a shell
    modes: Array  #: number of modes in each shell
    energy: Array  #: E(k), energy per wavenumber
    dissipation: Array  #: D(k) = 2 nu k^2 E(k)
    scalar_variance: list[Array]  #: of each scalar, <phi^2> per wavenumber
    scalar_dissipation: list[Array]  #: 2 kappa <|grad phi|^2> per wavenumber
    totals: dict[str, Any]

    @property
    def wavenumbers(self) -> Array:
        """The middle of every shell."""
        return np.asarray(self.width * np.arange(len(self.modes)), np.float64)

    def scales(self) -> Scales:
        """The one-point statistics derived from the spectrum."""
        t, nu = self.totals, self.viscosity
        square = t["square"]
        energy, dissipation = sum(square) / 2, nu * t["enstrophy"]
        u2 = 2 * energy / 3
        moves, decays = u2 > 0, dissipation > 0
        integral = math.pi / (2 * u2) * t["energy_over_wavenumber"] if moves else math.nan
        taylor = math.sqrt(15 * nu * u2 / dissipation) if decays else math.nan
        kolmogorov = (nu**3 / dissipation) ** 0.25 if decays else math.nan
        return Scales(
            energy=energy,
            dissipation=dissipation,
            enstrophy=t["enstrophy"],
            helicity=t["helicity"],
            u_rms=math.sqrt(square[0]),
            v_rms=math.sqrt(square[1]),
            w_rms=math.sqrt(square[2]),
            integral_scale=integral,
            taylor_scale=taylor,
            kolmogorov_scale=kolmogorov,
            eddy_turnover_time=integral / math.sqrt(u2) if moves else math.nan,
            kolmogorov_time=math.sqrt(nu / dissipation) if decays else math.nan,
            reynolds_taylor=math.sqrt(u2) * taylor / nu if decays else math.nan,
            kmax_eta=t["kmax"] * kolmogorov,
            divergence=t["divergence"],
        )


@dataclass(frozen=True)
class Distribution:
    """The distribution of a quantity x over the points."""

    name: str
    scaled_by: str  #: the scale that x is divided by: its ``mean`` or its ``root mean square``
    scale: float
    moments: list[float]  #: means of (x / scale)^p, p = 1 to 4
    smallest: float  #: of x / scale
    largest: float
    logarithmic: bool
    edges: Array  #: of the bins, of x / scale
    density: Array  #: probability density of x / scale; of log10(x / scale) where ``logarithmic``

    @property
    def skewness(self) -> float:
        """Third central moment over the second to the power 3/2."""
        m1, m2, m3, _ = self.moments
        variance = m2 - m1**2
        return (m3 - 3 * m1 * m2 + 2 * m1**3) / variance**1.5 if variance > 0 else math.nan

    @property
    def flatness(self) -> float:
        """Fourth central moment over the second squared."""
        m1, m2, m3, m4 = self.moments
        variance = m2 - m1**2
        return (m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4) / variance**2 if variance > 0 else math.nan


@dataclass(frozen=True)
class Points:
    """Statistics at the points, and the transfer."""

    distributions: dict[str, Distribution]
    transfer: Array | None  #: T(k), energy per wavenumber and time transferred to a shell by the nonlinear terms
    enstrophy_slice: NDArray[np.float32] | None  #: enstrophy [y][x] on the requested plane, on rank 0
    extra_bytes: int  #: bytes allocated on this rank in addition to the solver's


class Statistics:
    """Statistics of the flow of a `weft.turbulence.Solver`. All methods are collective and change no field."""

    if TYPE_CHECKING:
        _core: _weft.turbulence.SolverDouble | _weft.turbulence.SolverSingle
        comm: MPI.Intracomm
        viscosity: float

    def statistics(self) -> dict[str, float]:
        """One sample of statistics, by name: the members of `Scales`."""
        return dataclasses.asdict(self.spectra().scales())

    def spectra(self) -> Spectra:
        """Current spectra and totals: a cheap sum over the modes."""
        found = _weft.turbulence.spectra(self._core)
        width = found["width"]
        return Spectra(
            viscosity=self.viscosity,
            width=width,
            modes=found["modes"],
            energy=found["energy"] / width,
            dissipation=found["dissipation"] / width,
            scalar_variance=[v / width for v in found["scalar_variance"]],
            scalar_dissipation=[v / width for v in found["scalar_dissipation"]],
            totals=found,
        )

    def point_statistics(
        self,
        *,
        distributions: bool = True,
        pressure: bool = True,
        transfer: bool = True,
        slice_z: int = -1,
        slice_points: int = 1024,
    ) -> Points:
        """Moments and PDFs of dissipation, enstrophy (Eq. 10), pressure (Eq. 11) and longitudinal gradients.

        Transforms the velocity gradients and the pressure to the points, which costs about as much as two steps.
        ``slice_z``: also gathers the enstrophy on the plane with that z index on rank 0, thinned to at most
        ``slice_points`` per side.
        """
        found = _weft.turbulence.statistics(self._core, distributions, pressure, transfer, slice_z, slice_points)
        plane = None
        if slice_z >= 0 and distributions:
            parts = self.comm.gather((found["slice_first_row"], found["slice"]))
            if parts is not None:
                whole = sorted(((first, rows) for first, rows in parts if len(rows)), key=lambda part: part[0])
                plane = np.concatenate([rows for _, rows in whole])
        width = _weft.turbulence.shell_width(self._core)
        return Points(
            distributions={d["name"]: _distribution(d) for d in found["distributions"]},
            transfer=found["transfer"] / width if transfer else None,
            enstrophy_slice=plane,
            extra_bytes=found["extra_bytes"],
        )


def _distribution(d: dict[str, Any]) -> Distribution:
    edges = np.linspace(d["lower"], d["upper"], len(d["counts"]) + 1)
    return Distribution(
        name=d["name"],
        scaled_by=d["scaled_by"],
        scale=d["scale"],
        moments=list(d["moments"]),
        smallest=d["smallest"],
        largest=d["largest"],
        logarithmic=d["logarithmic"],
        edges=10.0**edges if d["logarithmic"] else edges,
        density=d["counts"] / d["points"] / (edges[1] - edges[0]),
    )
