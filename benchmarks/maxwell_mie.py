"""Scattering by a dielectric sphere compared with the Mie series: errors of the fields in the energy norm, by order.

    python benchmarks/maxwell_mie.py --output benchmarks/results/maxwell_mie.json

`from the series`: the fields start from the series, in the total and the scattered field, and are followed for a fifth
of a period, in the sphere and the shell around it, before reflections from the outer boundary arrive. This is the error
of the method itself. `from nothing`: the case `sphere`, whose wave is switched on slowly and which has a matched layer
around it. This is the error that a user gets, including those of the layer and the ramp.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from mpi4py import MPI

from weft.cases import MaxwellCase
from weft.cases.schema import load
from weft.run.machine import machine, versions
from weft.run.maxwell.problem import Problem, make_mesh, take

SERIES = ["mesh.radii=[0.5,0.8,1.3,1.8]", "mesh.half_width=0", "mesh.box_layers=[]", "layer.thickness=0", "mesh.side=2",
          "initial.zero=false", "sources.wave.ramp=0", "time.end=0.4"]  # fmt: skip


def measure(order: int, assignments: list[str], tags: tuple[int, ...] | None) -> dict[str, object]:
    case = load(MaxwellCase, "sphere", {"order": order}, assignments)
    assert isinstance(case, MaxwellCase)
    problem = Problem(case, make_mesh(case, MPI.COMM_WORLD))
    problem.begin()
    take(problem.solver, problem.steps, problem.dt)
    difference, whole = problem.error_norms(None if tags is None else np.isin(problem.mesh.element_tags, tags))
    return {
        "order": order,
        "elements": problem.solver.elements,
        "points": problem.solver.points,
        "steps": problem.steps,
        "relative_error": difference / whole,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series-orders", default="2,3,4,5,6,7,8", help="orders of the runs from the series")
    parser.add_argument("--orders", default="3,4,5", help="orders of the runs from nothing")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    rows: dict[str, list[dict[str, object]]] = {"from the series": [], "from nothing": []}
    case = load(MaxwellCase, "sphere")
    about = {
        "case": case.model_dump(by_alias=True),
        "from_the_series_changes": SERIES,
        "versions": versions(),
        "machine": machine(Problem(case, make_mesh(case, comm)).solver.device, comm),
    }
    for name, orders, words, tags in (
        ("from the series", options.series_orders, SERIES, (1, 2)),
        ("from nothing", options.orders, [], None),
    ):
        for order in orders.split(","):
            rows[name].append(measure(int(order), words, tags))
            if comm.rank == 0:
                print(name, rows[name][-1], flush=True)
                record = {**about, **{key.replace(" ", "_"): found for key, found in rows.items()}}
                options.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
