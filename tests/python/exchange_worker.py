"""Runs on every rank under mpiexec: reads cases (JSON lines) on rank 0, answers each with what all ranks got."""

from __future__ import annotations

import json
import sys

import numpy as np
from mpi4py import MPI

import weft

comm = MPI.COMM_WORLD
while True:
    case = comm.bcast(json.loads(sys.stdin.readline() or "null") if comm.rank == 0 else None)
    if case is None:
        break
    ids = np.array(case["ids"][comm.rank], dtype=np.int64)
    fields = case["fields"]
    values = np.array(case["values"][comm.rank], dtype=case["type"])
    if fields > 1:
        values = values.reshape(ids.size, fields)
    answer: dict[str, object] = {}
    for path in ("direct", "staged"):
        gs = weft.GatherScatter(ids, comm, fields, exchange=f"pairwise:{path}")
        answer[path] = gs(values.copy(), case["op"]).tolist()
        dofs = gs.gather(values, case["op"])
        answer[path + " halo after gather"] = gs.scatter(dofs).tolist()
        answer["dofs"] = gs.global_dofs
    answers = comm.gather(answer)
    if comm.rank == 0:
        print(json.dumps(answers), flush=True)
