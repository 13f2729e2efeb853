"""Values of a flow's fields at points, along lines and on planes.

A velocity profile every ten steps::

    probes = weft.flow_probes.Probes(solver, {"wake": weft.flow_probes.line((2, -1, 0.5), (2, 1, 0.5), 41)})
    while solver.time < 20:
        solver.step(10)
        values = probes.values()  # {"wake": [41][4]}: u, v, w, pressure; on rank 0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from weft.arrays import Values
from weft.mesh_io.probes import Places

if TYPE_CHECKING:
    from weft.flow import Solver

__all__ = ["Probes", "line", "plane"]

VECTORS = {"velocity": ("u", "v", "w"), "vorticity": ("vorticity_x", "vorticity_y", "vorticity_z")}
FIELDS = ("velocity", "pressure", "vorticity")  # besides the scalars


def line(start: npt.ArrayLike, end: npt.ArrayLike, count: int) -> npt.NDArray[np.float64]:
    """``count`` equidistant points [count][3] from one end to the other."""
    return np.linspace(np.asarray(start, float), np.asarray(end, float), count)


def plane(
    corner: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike, counts: tuple[int, int]
) -> npt.NDArray[np.float64]:
    """Points [counts[0] counts[1]][3] of a parallelogram with a corner and its two neighbours; the index along the side
    to ``first`` runs fastest."""
    up = line(corner, second, counts[1])[:, None] - np.asarray(corner, float)
    return (line(corner, first, counts[0])[None] + up).reshape(-1, 3)


class Probes:
    """The fields of a `weft.flow.Solver` at named sets of places [3] or [P][3].

    Values are those of the spectral elements' polynomials, not of the nearest points. ``fields``: for all sets or by
    name, any of ``velocity``, ``pressure``, ``vorticity`` and the scalars. MeshError, the same on all ranks, names all
    sets with places outside the mesh; raises ValueError for a field that does not exist. Construction is collective.
    """

    def __init__(
        self,
        solver: Solver,
        places: Mapping[str, npt.ArrayLike],
        fields: Sequence[str] | Mapping[str, Sequence[str]] = ("velocity", "pressure"),
    ) -> None:
        self.solver = solver
        known = (*FIELDS, *solver.scalars)
        self._fields = {name: tuple(fields[name] if isinstance(fields, Mapping) else fields) for name in places}
        for name, wanted in self._fields.items():
            for field in wanted:
                if field not in known:
                    raise ValueError(f"probe {name!r}: field {field!r} is not one of: {', '.join(known)}")
        located = Places(solver.mesh, solver.order, places)
        self._places = {name: located.part(name) for name in places}
        #: the names of the values at a place, by set
        self.columns = {
            name: [column for field in wanted for column in VECTORS.get(field, (field,))]
            for name, wanted in self._fields.items()
        }

    def where(self, name: str) -> npt.NDArray[np.float64]:
        """The places [P][3] of a set."""
        return self._places[name].where

    def values(self, names: Sequence[str] | None = None) -> dict[str, Values]:
        """The current values [P][columns] by set on rank 0; empty on other ranks. ``names``: only these sets.
        (collective)"""
        found: dict[str, Values] = {}
        fields: dict[str, Values] = {}
        for name in self._places if names is None else names:
            for field in self._fields[name]:
                if field not in fields:
                    fields[field] = self._field(field)
            places = self._places[name]
            values = np.concatenate([fields[field] for field in self._fields[name]])
            gathered = places.gather(places.of_rank(np.moveaxis(values, 0, -1)))
            if gathered is not None:
                found[name] = gathered
        return found

    def _field(self, name: str) -> Values:
        """[components][E][n][n][n] (collective)"""
        if name == "velocity":
            return self.solver.velocity()
        if name == "vorticity":
            return self.solver.vorticity()
        return (self.solver.pressure() if name == "pressure" else self.solver.scalar(name))[None]
