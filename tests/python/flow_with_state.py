"""A flow that uses everything with a state: a scalar that drives it, a constant flow rate, a filter, forces."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft


def make(comm: Any = None, order: int = 4, **options: Any) -> weft.flow.Solver:
    mesh = weft.Mesh.box((2, 2, 3), upper=(2, 2, 3), periodic=(True, True, False), comm=comm)
    solver = weft.flow.Solver(
        mesh,
        order=order,
        viscosity=0.02,
        dt=0.01,
        exchange="pairwise:direct",  # nothing to time
        boundaries={"z-": "wall", "z+": "symmetry"},
        scalars={"T": weft.flow.Scalar(0.05, boundaries={"z-": ("value", "1 + 0.1 * sin(t)")})},
        buoyancy=[weft.flow.Buoyancy("T", (0.0, 0.0, 1.0), 0.5)],
        flow_rate=weft.flow.FlowRate(0.3),
        filter=weft.flow.Filter(0.05),
        force=("sin(t)", 0, 0),
        **options,
    )
    solver.set_velocity(lambda x, y, z, t: (z * (6 - z), 0.1 * np.sin(np.pi * x), 0.1 * np.sin(np.pi * y) * z))
    solver.set_scalar("T", lambda x, y, z, t: np.exp(-z) + 0.1 * np.cos(np.pi * x))
    return solver


def fields(solver: weft.flow.Solver) -> list[Any]:
    return [solver.velocity(), solver.pressure(), solver.scalar("T")]


def same(a: weft.flow.Solver, b: weft.flow.Solver) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(fields(a), fields(b), strict=True))
