"""benchmarks/model_scale.py: its messages are those that ranks send, and its routes those of the network model."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from mpi_run import mpi_prints

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def scale() -> ModuleType:
    spec = importlib.util.spec_from_file_location("model_scale", BENCHMARKS / "model_scale.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["model_scale"] = module
    spec.loader.exec_module(module)
    return module


SENDS = """
    import sys
    from pathlib import Path
    import numpy as np
    import weft
    from mpi4py import MPI
    from weft import trace, traces
    from weft.mesh_io.partition import partition
    sys.path.insert(0, sys.argv[1])
    import model_scale
    comm = MPI.COMM_WORLD
    whole = model_scale.box(4)
    part = partition(whole, comm.size, "metis")
    mesh = weft._weft.mesh.distribute(whole, part, 1, comm)
    gs = weft.GatherScatter(np.asarray(mesh.point_ids(3)), exchange="pairwise:direct")
    values = np.ones(np.asarray(mesh.point_ids(3)).shape)
    gs(values)
    trace.start(comm)
    gs(values)
    trace.stop()
    trace.write(sys.argv[2], comm)
    if comm.rank == 0:
        t = traces.load(sys.argv[2])
        for k in range(len(t)):
            if t.names[t.name[k]].startswith("isend"):
                print("sent", t.process[k], t.peer[k], t.bytes[k])
"""


def test_messages_counted_without_ranks_are_those_that_ranks_send(scale: ModuleType, tmp_path: Path) -> None:
    printed = mpi_prints(3, SENDS, str(BENCHMARKS), str(tmp_path / "trace.json"))
    rows = [list(map(int, line.split()[1:])) for line in printed.splitlines() if line.startswith("sent")]
    sent = Counter({(a, b): size for a, b, size in rows})
    whole = scale.box(4)
    mesh = scale._weft.mesh.distribute(whole, np.zeros(64, np.int32), 1, scale.MPI.COMM_SELF)
    part = scale.partition(whole, 3, "metis")[np.asarray(mesh.element_ids)].astype(np.int64)
    messages = scale.shared(np.asarray(mesh.point_ids(2)).reshape(-1, 27), part, 3)
    ends = zip(messages.source.tolist(), messages.target.tolist(), strict=True)
    assert sent == Counter(dict(zip(ends, map(int, messages.bytes_at(3)), strict=True)))


@pytest.mark.parametrize("machine", ["frontier", "summit", "titan", "frontier-cpu"])
@pytest.mark.parametrize("ranks", [1000, 100_000])
def test_routes_are_those_of_the_network_model(scale: ModuleType, machine: str, ranks: int) -> None:
    where = scale.place(machine, ranks)
    assert (
        np.prod(where.sizes[: 3 if where.kind == "torus" else 2])
        * where.machine.ranks_per_node
        * (where.machine.topology.nodes_per_router)
        >= ranks
    )
    scale.check_routes(where)


def test_refined_meshes_keep_their_shape(scale: ModuleType) -> None:
    fine = scale.refined(scale.read_solid(scale.MESHES / "ethier.re2"), 3) if scale.MESHES.exists() else scale.box(3)
    neighbors = np.asarray(fine.neighbors)
    inside = neighbors >= 0
    element, face = np.nonzero(inside)
    there = neighbors[inside]
    assert (neighbors[there // 6, there % 6] == 6 * element + face).all()  # the neighbour of a neighbour
    assert len(neighbors) in (32 * 27, 27)
