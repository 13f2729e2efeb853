"""Runs on every rank under mpiexec: gather-scatters of given ids, and the results of all ranks."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from worker_loop import answer_cases

import weft

comm = MPI.COMM_WORLD
SCHEDULES = ("pairwise", "alltoallv", "neighbor", "crystal")
PATHS = ("direct", "staged", "ipc") if comm.size > 1 else ("direct", "staged")


def on(values: np.ndarray, layout: str) -> np.ndarray:
    """``values`` (points, fields) as an array of this layout, a copy."""
    return np.array(values if layout == "points" else values.T, order="C")


def back(values: np.ndarray, layout: str) -> np.ndarray:
    return values if layout == "points" else values.T


def inner(x: np.ndarray, y: np.ndarray) -> float:
    """Over all ranks; exact for small integers."""
    return comm.allreduce(float((x.astype("f8") * y.astype("f8")).sum()))


def run(case: dict) -> dict[str, object]:
    ids = np.array(case["ids"][comm.rank], dtype=np.int64)
    fields, op = case["fields"], case["op"]
    if "values" in case:
        values = np.array(case["values"][comm.rank], dtype=case["type"]).reshape(ids.size, fields)
    else:  # rough: sums depend on the order of the terms
        random = np.random.default_rng([case["seed"], comm.rank])
        values = random.standard_normal((ids.size, fields)) * 10.0 ** random.integers(-12, 12, (ids.size, fields))
        values = values.astype(case["type"])
    first: dict[str, np.ndarray] = {}
    wrong: list[str] = []

    def same(name: str, found: np.ndarray, where: str) -> None:
        found = np.ascontiguousarray(found)
        if first.setdefault(name, found.copy()).tobytes() != found.tobytes():
            wrong.append(f"{name} of {where}")

    for layout in case["layouts"]:
        for exchange in [f"{schedule}:{path}" for schedule in SCHEDULES for path in PATHS]:
            where = f"{exchange}, {layout}"
            gs = weft.GatherScatter(ids, comm, fields, layout=layout, exchange=exchange)
            same("gather-scatter", back(gs(on(values, layout), op).reshape(on(values, layout).shape), layout), where)
            shape = (gs.local_dofs + 1, fields) if layout == "points" else (fields, gs.local_dofs + 1)
            dofs = gs.gather(on(values, layout), op, out=np.empty(shape, values.dtype))
            same("gather", back(dofs, layout)[: gs.owned_dofs], where)
            scattered = gs.scatter(dofs, out=np.empty(on(values, layout).shape, values.dtype))
            same("scatter", back(scattered, layout), where)
            if "values" in case and op == "add":  # <Z x, y> = <x, Z^T y>
                x = np.arange(dofs.size, dtype=values.dtype).reshape(shape) % 7
                zx = gs.scatter(x.copy(), out=np.empty(on(values, layout).shape, values.dtype))
                owned = back(x, layout)[: gs.owned_dofs], back(dofs, layout)[: gs.owned_dofs]
                if inner(zx, on(values, layout)) != inner(*owned):
                    wrong.append(f"<Zx, y> = <x, Z^T y> of {where}")
    # Field by field, and two patterns in flight, of two schedules.
    single = weft.GatherScatter(ids, comm, exchange=case["exchange"])
    other_ids = np.arange(1, 2 + comm.rank, dtype=np.int64)
    other = weft.GatherScatter(other_ids, comm, exchange="crystal:direct")
    columns = []
    for f in range(fields):
        column, count = values[:, f].copy(), np.ones(other_ids.size)
        single.start(column, op)
        other.start(count)
        single.finish()
        other.finish()
        columns.append(column)
        if not np.array_equal(count, comm.size - np.arange(other_ids.size)):
            wrong.append(f"a pattern in flight beside {case['exchange']}")
    same("gather-scatter", np.stack(columns, axis=1), f"{case['exchange']}, field by field")
    return {
        "wrong": wrong,
        "dofs": single.global_dofs,
        "gather-scatter": first["gather-scatter"].ravel().tolist(),
        "scatter": first["scatter"].ravel().tolist(),
    }


answer_cases(run, comm)
