"""Several ranks on one device: every schedule on every path that works there, against the host, bit for bit."""

from __future__ import annotations

import pytest
from mpi_run import mpi_run

CODE = """
import itertools
import sys
import numpy as np
from mpi4py import MPI
import weft
from weft import device, exchange

comm, backend = MPI.COMM_WORLD, sys.argv[1]
rows = exchange.paths(device.open(backend), comm)
choices = [f"{s}:{p}" for s in ("pairwise", "alltoallv", "neighbor", "crystal") for p, usable, _ in rows if usable]
random = np.random.default_rng(comm.rank)
# Rank 1 has no points; all ids of rank 0 are somebody else's too; some points take no part.
ids = random.integers(-2, 3000, 0 if comm.rank == 1 and comm.size > 2 else 8000)
wrong = []

if backend == "host":
    def there(values): return values.copy()
    def here(values): return values
else:
    import cupy
    def there(values): return cupy.array(values)
    def here(values): return values.get()

def calls(gs, points, dofs, op):
    yield "gather-scatter", gs(points, op)
    yield "gather", gs.gather(points, op, out=dofs)
    yield "scatter", gs.scatter(dofs, out=points)

for fields, layout in ((1, "points"), (6, "points"), (6, "fields")):
    on_host = weft.GatherScatter(ids, comm, fields, layout=layout, exchange="pairwise:direct")
    shapes = [(n, fields) if layout == "points" else (fields, n) for n in (ids.size, on_host.local_dofs + 1)]
    for choice in choices:
        gs = weft.GatherScatter(ids, comm, fields, layout=layout, exchange=choice)
        for kind, op in itertools.product(("f8", "f4", "i4", "i8"), ("add", "mul", "min", "max")):
            values = random.uniform(-9, 9, shapes[0]).astype(kind)
            dofs = np.zeros(shapes[1], kind)
            expected = [(name, x.copy()) for name, x in calls(on_host, values.copy(), dofs.copy(), op)]
            for (name, x), (_, y) in zip(expected, calls(gs, there(values), there(dofs), op)):
                if x.tobytes() != here(y).tobytes():
                    wrong.append(f"{name} {kind} {op} {choice} {fields} {layout}")

# Two patterns in flight.
other = weft.GatherScatter(np.arange(1, 5), comm, exchange="crystal")
gs = weft.GatherScatter(ids, comm, exchange="neighbor")
x, y = there(np.ones(ids.size)), there(np.ones(4))
expected = weft.GatherScatter(ids, comm)(np.ones(ids.size))
gs.start(x)
other.start(y)
gs.finish()
other.finish()
if not (here(y) == comm.size).all() or here(x).tobytes() != expected.tobytes():
    wrong.append("two patterns in flight")
wrong = comm.allreduce(wrong)
if comm.rank == 0:
    print(len(choices), "choices;", *sorted(set(wrong))[:20], sep="\\n")
sys.exit(1 if wrong else 0)
"""


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_ranks_that_share_a_device_get_the_hosts_bits_by_every_choice(gpu, ranks):
    if not gpu.is_host:
        pytest.importorskip("cupy")
    result = mpi_run(ranks, CODE, gpu.backend)
    assert result.returncode == 0, result.stdout + result.stderr
