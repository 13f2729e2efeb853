"""Statistics of a running flow: energy, dissipation, divergence, extrema, forces, and the rate of the Courant number.

Integrals are sums over the points of the elements, of derivatives in each element; docs/flow-cases.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from weft import _weft

if TYPE_CHECKING:
    from weft.flow import Scalar

__all__ = ["Statistics"]


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

    def statistics(self, forces: Sequence[str] = ()) -> dict[str, float]:
        """One sample, by name; means are over the volume.

        ``energy`` <u . u> / 2, ``enstrophy`` <omega . omega>, ``dissipation`` 2 nu <S : S>, ``vorticity_dissipation``
        nu <omega . omega> (equal to the former if the velocity is divergence-free, and periodic or 0 on the
        boundaries), ``divergence`` <(div u)^2>^(1/2), ``largest_divergence``, ``courant_rate``; for u, v, w, pressure
        and scalars ``u_smallest``, ``u_largest``, for scalars also ``<name>_mean``. For each boundary in ``forces``,
        the force of the flow on the body behind it, over density: ``force_<name>_x``, and the pressure's part,
        ``force_<name>_pressure_x``.

        CollectiveError if the mesh has no such boundary.
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
            for boundary, (pressure, viscous) in zip(forces, measures.forces(), strict=True):
                for axis, p, v in zip("xyz", pressure, viscous, strict=True):
                    found[f"force_{boundary}_{axis}"] = p + v
                    found[f"force_{boundary}_pressure_{axis}"] = p
        return found
