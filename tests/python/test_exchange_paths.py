"""The path ipc as a user meets it: what dies, what is said, and what is left behind. Its values: tests/cpp."""

from __future__ import annotations

import pytest
from mpi_run import alive, mpi_run, wait_until

import weft

LOOP = """
import os, signal, sys
import numpy as np
from mpi4py import MPI
import weft, weft.mpi
comm = MPI.COMM_WORLD
gs = weft.GatherScatter([1, 2, 3 + comm.rank], comm, exchange="pairwise:ipc", check=False)
x = np.ones(3)
for _ in range(5):
    gs(x, "max")
"""


def test_a_rank_that_is_killed_ends_the_job_and_leaves_no_shared_memory(tmp_path):
    code = LOOP + (
        "names = [line.split()[-1] for line in open('/proc/self/maps') if 'weft' in line and '.so' not in line]\n"
        "shared = [line for line in open('/proc/self/maps') if 'memfd:weft' in line]\n"
        "assert shared and not any(name.startswith('/dev/shm') for name in names), names\n"
        "open(f'{sys.argv[1]}/{os.getpid()}', 'w').close()\n"
        "comm.Barrier()\n"
        "if comm.rank == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "while True: gs(x, 'max')\n"
    )
    result = mpi_run(3, code, str(tmp_path))
    assert result.returncode != 0
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert len(pids) == 3, result.stderr
    # Anonymous memory lives as long as a process that has it.
    wait_until(lambda: not alive(pids))


def test_a_rank_that_is_left_alone_says_who_has_ended(tmp_path):
    inner = LOOP + (
        "if comm.rank == 1: os._exit(0)\n"
        "try:\n"
        "    while True: gs(x, 'max')\n"
        "except RuntimeError as error:\n"
        "    os.write(1, f'{error}\\n'.encode())\n"
        "    open(sys.argv[1], 'w').close()\n"
        "    os._exit(0)\n"
    )
    # The launcher ends a job one process of which ends. So it sees parents only, which stay until all is said.
    outer = """
    import pathlib, subprocess, sys, time
    subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[2]], close_fds=False)
    while not pathlib.Path(sys.argv[2]).exists():
        time.sleep(0.05)
    """
    result = mpi_run(2, outer, inner, str(tmp_path / "said"))
    assert "rank 1, whose process has ended" in result.stdout, result.stderr


def test_an_exception_on_one_rank_ends_all_with_its_message():
    code = LOOP + (
        "weft.mpi.install_excepthook()\nif comm.rank == 1: raise RuntimeError('no more')\nwhile True: gs(x, 'max')\n"
    )
    result = mpi_run(3, code)
    assert result.returncode != 0
    assert "no more" in result.stderr


@pytest.mark.parametrize("per_node", ["1", "2"])
def test_pretended_nodes_mix_ipc_with_messages_or_refuse_it(per_node):
    code = """
    import numpy as np
    from mpi4py import MPI
    import weft, weft.mpi
    comm = MPI.COMM_WORLD
    states = {path: (usable, reason) for path, usable, reason in weft.exchange.paths(weft.device.open("host"), comm)}
    try:
        gs = weft.GatherScatter(np.arange(1, 100), comm, exchange="pairwise:ipc:16")
        assert states["ipc"][0]
        x = np.full(99, 1.0 + comm.rank)
        assert (gs(x) == 6).all(), x
        answer = gs.choice
    except weft.mpi.CollectiveError as error:
        assert not states["ipc"][0]
        answer = str(error)
    print(answer, flush=True)
    """
    result = mpi_run(3, code, WEFT_RANKS_PER_NODE=per_node)
    assert result.returncode == 0, result.stderr
    expected = "pairwise:ipc:16" if per_node == "2" else "no two ranks share a node"
    assert result.stdout.count(expected) == 3


def test_a_bad_number_of_ranks_per_node_is_named():
    result = mpi_run(2, LOOP, WEFT_RANKS_PER_NODE="two")
    assert result.returncode != 0
    assert "WEFT_RANKS_PER_NODE is 'two'" in result.stderr


def test_every_path_has_a_reason():
    rows = weft.exchange.paths(weft.device.open("host"))
    assert [path for path, _, _ in rows] == ["direct", "staged", "ipc"]
    assert all(reason for _, _, reason in rows)
