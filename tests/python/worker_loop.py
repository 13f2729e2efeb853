"""The loop of workers under mpiexec: rank 0 reads cases (JSON lines) and answers each with the results of all ranks."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from mpi4py import MPI


def answer_cases(run: Callable[[dict], object], comm: MPI.Comm) -> None:
    while True:
        line = sys.stdin.readline() if comm.rank == 0 else None
        # A rank that waits inside MPI would keep a processor busy while other tests run.
        arrived = comm.Ibarrier()
        while not arrived.Test():
            time.sleep(1e-3)
        line = comm.bcast(line)
        if not line:
            return
        answers = comm.gather(run(json.loads(line)))
        if comm.rank == 0:
            print(json.dumps(answers), flush=True)
