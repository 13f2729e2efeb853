"""Failures on each path as a user sees them: what ends, its message, and what is left behind.

tests/cpp checks the values.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mpi_run import VARIABLES, alive, descendants, finish, interrupt, mpi_prints, mpi_run, start, wait_until

import weft

LOOP = """
import os, signal, sys
import numpy as np
from mpi4py import MPI
import weft, weft.mpi
comm = MPI.COMM_WORLD
gs = weft.GatherScatter([1, 2, 3 + comm.rank], comm, exchange=os.environ.get("EXCHANGE", "pairwise:ipc"), check=False)
x = np.ones(3)
for _ in range(5):
    gs(x, "max")
"""

# Every path, and schedules that wait in MPI's collectives or between the steps of a router.
EXCHANGES = ("neighbor:direct", "crystal:staged", "pairwise:ipc")


def shared_memory() -> set[str]:
    """Names of shared memory that a crash could leave behind."""
    return {path.name for path in Path("/dev/shm").iterdir()}


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
    # The launcher ends a job when one of its processes ends. It therefore starts parents, which stay until the end.
    outer = """
    import pathlib, subprocess, sys, time
    subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[2]], close_fds=False)
    while not pathlib.Path(sys.argv[2]).exists():
        time.sleep(0.05)
    """
    result = mpi_run(2, outer, inner, str(tmp_path / "said"))
    assert "rank 1, whose process has ended" in result.stdout, result.stderr


# Ways in which a rank leaves the others alone in the middle of an exchange, and the message for each.
ENDS = {
    "an exception": ("raise RuntimeError('no more')", "weft: rank 1 of 3: no more"),
    "a signal": ("os.kill(os.getpid(), signal.SIGKILL)", ""),
}


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("end", ENDS)
def test_a_rank_that_goes_between_start_and_finish_ends_all_and_leaves_nothing(tmp_path, exchange, end):
    what, said = ENDS[end]
    code = LOOP + (
        "weft.mpi.install_excepthook()\n"
        "open(f'{sys.argv[1]}/{os.getpid()}', 'w').close()\n"
        "gs.start(x, 'max')\n"
        f"if comm.rank == 1: {what}\n"
        "gs.finish()\n"
        "while True: gs(x, 'max')\n"
    )
    before = shared_memory()
    result = mpi_run(3, code, str(tmp_path), EXCHANGE=exchange)
    assert result.returncode != 0
    assert result.stderr.count("weft:") == (1 if said else 0), result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    pids = [int(path.name) for path in tmp_path.iterdir()]
    wait_until(lambda: not alive(pids))
    assert not [name for name in shared_memory() - before if "weft" in name]


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_ctrl_c_ends_a_program_that_exchanges_in_one_line(tmp_path, exchange):
    code = LOOP + (
        "weft.mpi.install_excepthook()\nopen(f'{sys.argv[1]}/{os.getpid()}', 'w').close()\nwhile True: gs(x, 'max')\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    process = start(words, {**VARIABLES, "EXCHANGE": exchange}, ranks=3)
    wait_until(lambda: len(list(tmp_path.iterdir())) == 3, process)
    started = descendants(process)
    interrupt(process)
    done = finish(process)
    assert done.returncode != 0
    assert done.stderr.count("weft:") == 1, done.stderr
    assert "interrupted" in done.stderr or "terminated" in done.stderr
    assert "Traceback" not in done.stderr
    wait_until(lambda: not alive(started))


@pytest.mark.parametrize("per_node", ["1", "2"])
def test_virtual_nodes_mix_ipc_with_messages_or_refuse_it(per_node):
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
    printed = mpi_prints(3, code, WEFT_RANKS_PER_NODE=per_node)
    expected = "pairwise:ipc:16" if per_node == "2" else "no two ranks share a node"
    assert printed.count(expected) == 3


def test_a_bad_number_of_ranks_per_node_is_named():
    result = mpi_run(2, LOOP, WEFT_RANKS_PER_NODE="two")
    assert result.returncode != 0
    assert "WEFT_RANKS_PER_NODE is 'two'" in result.stderr
    result = mpi_run(2, LOOP.replace("gs =", "os.environ['WEFT_RANKS_PER_NODE'] = str(1 + comm.rank)\ngs ="))
    assert result.returncode != 0
    assert "WEFT_RANKS_PER_NODE must be the same on all ranks" in result.stderr


def test_every_path_has_a_reason():
    rows = weft.exchange.paths(weft.device.open("host"))
    assert [path for path, _, _ in rows] == ["direct", "staged", "ipc"]
    assert all(reason for _, _, reason in rows)
