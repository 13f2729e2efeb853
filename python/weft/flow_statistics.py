"""Statistics of a running flow: energy, dissipation, divergence, extrema, forces, and the Courant number per time.

`loads` reduces the forces of a run to means, coefficients and a Strouhal number. Integrals are quadrature sums over the
points of the elements, and derivatives are taken inside each element; docs/flow-cases.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from weft import _weft

if TYPE_CHECKING:
    from weft.flow import Scalar

__all__ = ["Statistics", "frequency", "loads"]


class Statistics:
    """Statistics of the fields of a `weft.flow.Solver`. All methods are collective and change no field."""

    if TYPE_CHECKING:
        _core: _weft.flow.FlowDouble | _weft.flow.FlowSingle
        precision: str
        viscosity: float
        scalars: Mapping[str, Scalar]

    _statistics: tuple[tuple[str, ...], _weft.flow.StatisticsDouble | _weft.flow.StatisticsSingle] | None = None

    def _measures(self, forces: Sequence[str]) -> _weft.flow.StatisticsDouble | _weft.flow.StatisticsSingle:
        """Created once, and again when forces on other boundaries are requested."""
        wanted = tuple(forces)
        if self._statistics is None or (wanted and self._statistics[0] != wanted):
            core = self._core
            self._statistics = (
                wanted,
                (
                    _weft.flow.StatisticsDouble(core, list(wanted))
                    if isinstance(core, _weft.flow.FlowDouble)
                    else _weft.flow.StatisticsSingle(core, list(wanted))
                ),
            )
        return self._statistics[1]

    def _statistics_bytes(self) -> dict[str, int]:
        """Memory on this rank in bytes; 0 before the first statistics."""
        return {} if self._statistics is None else {"statistics": int(self._statistics[1].bytes)}

    def courant_rate(self) -> float:
        """The Courant number of a step divided by its length: the largest value over the points.

        |u . grad r_a| over the spacing of the points in r_a, summed over the three directions a; the spacing is half
        the distance between a point's neighbours, as in Nek5000 and Neko. Unit: 1 / time.
        """
        return float(self._measures(()).courant_rate())

    def courant_rate_of_boundaries(self) -> float:
        """The same for a fluid at rest with the current velocities on its boundaries; limits the first step."""
        return float(self._measures(()).courant_rate_of_boundaries())

    def statistics(self, forces: Sequence[str] = (), centre: Sequence[float] = (0.0, 0.0, 0.0)) -> dict[str, float]:
        """One sample, by name; means are over the volume.

        ``energy`` <u . u> / 2, ``enstrophy`` <omega . omega>, ``dissipation`` 2 nu <S : S>, ``vorticity_dissipation``
        nu <omega . omega> (equal to the former if the velocity is divergence-free, and periodic or 0 on the
        boundaries), ``divergence`` <(div u)^2>^(1/2), ``largest_divergence``, ``courant_rate``; for u, v, w, pressure
        and scalars ``u_smallest``, ``u_largest``, for scalars also ``<name>_mean``. For each boundary in ``forces``,
        the force of the flow on the body behind it, over density: ``force_<name>_x``, and the pressure's part,
        ``force_<name>_pressure_x``; in the same way its moment about ``centre``, ``moment_<name>_x`` and
        ``moment_<name>_pressure_x``; the wall shear stress over density ``shear_<name>`` (mean over the area of its
        magnitude) and ``shear_<name>_largest``; and ``y_plus_<name>``, ``y_plus_<name>_largest``: the distance of the
        first points from the wall times the local friction velocity over the viscosity.

        Raises CollectiveError if the mesh has no such boundary.
        """
        measures = self._measures(forces)
        velocity = measures.velocity()
        found = {
            "energy": velocity["energy"],
            "enstrophy": velocity["enstrophy"],
            "dissipation": 2 * self.viscosity * velocity["strain"],
            "vorticity_dissipation": self.viscosity * velocity["enstrophy"],
            "divergence": velocity["divergence"],
            "largest_divergence": velocity["largest_divergence"],
            "courant_rate": measures.courant_rate(),
        }
        names = ["u", "v", "w", *self.scalars, "pressure"]
        for name, field in zip(names, measures.fields(), strict=True):
            if name in self.scalars:
                found[f"{name}_mean"] = field["mean"]
            found[f"{name}_smallest"], found[f"{name}_largest"] = field["smallest"], field["largest"]
        if forces:
            for boundary, of in zip(forces, measures.forces(list(map(float, centre))), strict=True):
                for kind in ("force", "moment"):
                    for axis in "xyz":
                        pressure = of[f"{kind}_pressure_{axis}"]
                        found[f"{kind}_{boundary}_{axis}"] = pressure + of[f"{kind}_viscous_{axis}"]
                        found[f"{kind}_{boundary}_pressure_{axis}"] = pressure
                for kind in ("shear", "y_plus"):
                    found[f"{kind}_{boundary}"] = of[kind]
                    found[f"{kind}_{boundary}_largest"] = of[f"largest_{kind}"]
        return found


def loads(
    rows: Sequence[Mapping[str, float]],
    boundary: str,
    *,
    since: float | None = None,
    drag: Sequence[float] = (1.0, 0.0, 0.0),
    lift: Sequence[float] = (0.0, 1.0, 0.0),
    velocity: float = 0.0,
    length: float = 0.0,
    area: float = 0.0,
) -> dict[str, float]:
    """Time averages of the forces on a boundary, from samples of `Statistics.statistics` that have a ``time``.

    Uses the samples from time ``since`` on, by default those of the second half. The result has, for force and moment,
    ``force_x_mean`` and ``force_x_rms`` (about the mean), …; and ``shear_mean``, ``y_plus_mean``, ``y_plus_largest``.
    With a reference ``velocity`` U and ``area`` A it also has the coefficients 2 F / (U^2 A) along ``drag`` and
    ``lift``: ``drag_coefficient_mean``, ``drag_coefficient_rms``, …. With U and ``length`` L it has the Strouhal number
    ``strouhal`` = f L / U, where f is the `frequency` of the lift, if the lift oscillates. The result is empty for
    fewer than two samples.
    """
    time = np.array([row["time"] for row in rows])
    if not len(time):
        return {}
    kept = time >= ((time[0] + time[-1]) / 2 if since is None else since)
    time = time[kept]
    if len(time) < 2:
        return {}

    def series(name: str) -> npt.NDArray[np.float64]:
        return np.array([row[name] for row in rows])[kept]

    def mean(values: npt.NDArray[np.float64]) -> float:
        return float(np.trapezoid(values, time) / (time[-1] - time[0]))

    def both(name: str, values: npt.NDArray[np.float64]) -> dict[str, float]:
        middle = mean(values)
        return {f"{name}_mean": middle, f"{name}_rms": float(np.sqrt(mean((values - middle) ** 2)))}

    found = {"since": float(time[0]), "until": float(time[-1]), "samples": float(len(time))}
    for kind in ("force", "moment"):
        for axis in "xyz":
            found |= both(f"{kind}_{axis}", series(f"{kind}_{boundary}_{axis}"))
    found |= {f"{kind}_mean": mean(series(f"{kind}_{boundary}")) for kind in ("shear", "y_plus")}
    found["y_plus_largest"] = float(series(f"y_plus_{boundary}_largest").max())
    force = np.stack([series(f"force_{boundary}_{axis}") for axis in "xyz"])
    up = np.asarray(lift, float) / np.linalg.norm(lift) @ force
    if velocity > 0 and area > 0:
        along = np.asarray(drag, float) / np.linalg.norm(drag) @ force
        for name, values in (("drag", along), ("lift", up)):
            found |= both(f"{name}_coefficient", 2 * values / (velocity**2 * area))
    if velocity > 0 and length > 0 and np.ptp(up) > 1e-6 * np.abs(force).max() and (rate := frequency(time, up)):
        found["strouhal"] = rate * length / velocity
    return found


def frequency(time: npt.ArrayLike, values: npt.ArrayLike) -> float | None:
    """The frequency of an oscillation about its mean, from the times of its upward crossings; None below two periods.

    Crossings between which the signal stays within a quarter of its root mean square of the mean are taken for noise,
    and count once.
    """
    t, y = np.asarray(time, float), np.asarray(values, float)
    y = y - np.trapezoid(y, t) / (t[-1] - t[0])
    least = 0.25 * np.sqrt(np.mean(y**2))
    crossings: list[float] = []
    low, last = False, 0.0
    for k in range(1, len(y)):
        low = low or y[k - 1] < -least
        if y[k - 1] <= 0 < y[k]:
            last = t[k - 1] - y[k - 1] * (t[k] - t[k - 1]) / (y[k] - y[k - 1])
        if low and y[k] > least:
            crossings.append(float(last))
            low = False
    return (len(crossings) - 1) / (crossings[-1] - crossings[0]) if len(crossings) > 2 else None
