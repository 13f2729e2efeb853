"""Counts iterations of the pressure solve by order and number of elements, with and without an initial guess.

    python benchmarks/pressure_iterations.py [--orders 3 5 7 9] [--elements 8 16] [--steps 24] [--output FILE]

The first table solves -Laplacian p = f in a periodic box to a residual of 1e-8 of the first one, for the f of the
Taylor-Green vortex (two modes) and for noise (all modes). The second table gives the pressure iterations per step of
the vortex at Re = 1600 to the absolute tolerance 1e-7, with projection onto 8 earlier solutions, and starting from the
last pressure. It runs on one rank, and takes about three minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np

import weft
import weft.flow


def poisson_iterations(elements: int, order: int) -> dict[str, int]:
    mesh = weft.Mesh.box((elements,) * 3, upper=(2 * np.pi,) * 3, periodic=(True,) * 3)
    op = weft.Poisson(mesh, order=order, lam=0.0)
    vortex = op.project(lambda x, y, z: (np.cos(2 * x) + np.cos(2 * y)) * (2 + np.cos(2 * z)) - np.cos(2 * x))
    noise = op.random_rhs()
    return {name: op.multigrid(b, tolerance=1e-8).iterations for name, b in (("vortex", vortex), ("noise", noise))}


def step_iterations(elements: int, order: int, steps: int, projection: int) -> list[int]:
    mesh = weft.Mesh.box((elements,) * 3, upper=(2 * np.pi,) * 3, periodic=(True,) * 3)
    solver = weft.flow.Solver(
        mesh,
        order=order,
        viscosity=1 / 1600,
        dt=0.08 / (elements * order / 7),
        pressure=weft.flow.Pressure(projection=projection),
    )
    solver.set_velocity(
        lambda x, y, z, t: (np.sin(x) * np.cos(y) * np.cos(z), -np.cos(x) * np.sin(y) * np.cos(z), 0 * x)
    )
    found = []
    for _ in range(steps):
        solver.step(1)
        found.append(int(solver.figures["pressure_iterations"]))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, nargs="+", default=[3, 5, 7, 9])
    parser.add_argument("--elements", type=int, nargs="+", default=[8, 16], help="elements in each direction")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--output", help="JSON file of the record")
    options = parser.parse_args()
    record: dict[str, Any] = {"solves": [], "steps": []}
    print("elements  N  vortex  noise")
    for elements in options.elements:
        for order in options.orders:
            found = poisson_iterations(elements, order)
            record["solves"].append({"elements": elements, "order": order, **found})
            print(f"{elements:6}^3 {order:2} {found['vortex']:7} {found['noise']:6}", flush=True)
    print("pressure iterations per step, mean of the second half: elements  N  projection 8  0")
    for elements in options.elements[:1]:
        for order in options.orders:
            row: dict[str, Any] = {"elements": elements, "order": order}
            for projection in (8, 0):
                row[f"projection {projection}"] = step_iterations(elements, order, options.steps, projection)
            record["steps"].append(row)
            means = [np.mean(row[f"projection {p}"][options.steps // 2 :]) for p in (8, 0)]
            print(f"{elements:6}^3 {order:2} {means[0]:7.1f} {means[1]:7.1f}", flush=True)
    if options.output:
        with open(options.output, "w") as file:
            json.dump(record, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
