"""The path ipc between processes that share a device, without any other library on it."""

from __future__ import annotations

import pytest
from mpi_run import mpi_run

CODE = """
import sys
import numpy as np
from mpi4py import MPI
import weft
from weft import device, exchange

comm, gpu = MPI.COMM_WORLD, device.open(sys.argv[1])
usable, reason = next((usable, reason) for path, usable, reason in exchange.paths(gpu, comm) if path == "ipc")
assert usable, reason
mesh = weft.Mesh.box((4, 4, 4), comm=comm)
histories = {}
for choice in ("pairwise:staged", "pairwise:ipc", "crystal:ipc:200"):
    op = weft.Poisson(mesh, order=5, device=gpu, exchange=choice)
    result = op.cg(op.random_rhs(1), iterations=200)
    histories[choice] = np.asarray(result.residuals).tobytes()
assert len(set(histories.values())) == 1, "the paths differ"
"""


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_solve_by_ipc_has_the_bits_of_a_staged_one(gpu, ranks):
    result = mpi_run(ranks, CODE, gpu.backend)
    assert result.returncode == 0, result.stdout + result.stderr
