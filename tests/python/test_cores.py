"""The cores of a node: divided among ranks that share them, and a warning where a binding leaves too few."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from mpi_run import VARIABLES, finish, messages, start
from test_cli import SMALL, weft_command

from weft.run.cores import binding_warning, fair_threads, sharers


def test_unbound_ranks_divide_the_part_of_a_node_that_they_share() -> None:
    part = set(range(8))  # of 16
    assert [fair_threads([part] * 4, rank) for rank in range(4)] == [2] * 4
    assert fair_threads([part] * 3, 0) == 2
    assert fair_threads([part] * 9, 0) == 1


def test_bound_ranks_keep_their_own_cores() -> None:
    masks = [{0, 1}, {2, 3}, {4, 5, 6}]
    assert [fair_threads(masks, rank) for rank in range(3)] == [2, 2, 3]


def test_ranks_whose_cores_overlap_through_others_share_all_of_them() -> None:
    masks = [{0, 1}, {1, 2}, {2, 3}, {7}]
    assert sharers(masks, 0) == ([0, 1, 2], {0, 1, 2, 3})
    assert [fair_threads(masks, rank) for rank in range(4)] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("masks", "threads", "processors", "words"),
    [
        ([{0}, {0}], [1, 1], 16, "2 ranks with 2 threads in all may use only 1 of the 16 processors of here"),
        ([{3}], [8], 16, "a rank with 8 threads may use only 1 of the 16 processors"),
        ([{0, 1}, {2, 3}, {2, 3}], [2, 2, 2], 4, "2 ranks with 4 threads in all may use only 2 of the 4"),
        ([{0, 1}, {2, 3}], [2, 2], 16, ""),
        ([{0, 1}] * 4, [1] * 4, 2, ""),  # a whole node, oversubscribed: no binding can help
        ([{0, 1}] * 2, [1] * 2, 16, ""),
    ],
)
def test_a_binding_that_leaves_fewer_cores_than_threads_is_named(masks, threads, processors, words) -> None:
    text = binding_warning(masks, threads, processors, "here")
    assert text.startswith(words)
    assert bool(text) == bool(words)
    assert "\n" not in text


@pytest.mark.skipif(shutil.which("taskset") is None, reason="binds by taskset")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor")
def test_two_ranks_on_one_core_of_several_are_warned_once(tmp_path) -> None:
    core = str(min(os.sched_getaffinity(0)))
    words = weft_command("run", "poisson", *SMALL, "--set", "solver.iterations=2", "--output", tmp_path)
    quick = {name: value for name, value in VARIABLES.items() if name != "OMP_NUM_THREADS"}
    done = finish(start(["taskset", "-c", core, *words], quick, ranks=2))
    assert done.returncode == 0, done.stderr
    (told,) = messages(done.stderr)
    assert "2 ranks with 2 threads in all may use only 1 of the" in told
    assert json.loads((tmp_path / "run.json").read_text())["machine"]["threads_per_rank"] == 1


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
@pytest.mark.parametrize(("variables", "extra"), [({}, 0), ({"OPENBLAS_NUM_THREADS": "3"}, 2)])
def test_numpy_starts_no_threads_beside_those_of_weft(variables: dict[str, str], extra: int) -> None:
    if extra and len(os.sched_getaffinity(0)) < 1 + extra:
        extra = len(os.sched_getaffinity(0)) - 1  # OpenBLAS starts no more than there are cores
    program = (
        "import os; from weft.run.cores import share_cores; share_cores()\n"
        "import numpy; print(len(os.listdir('/proc/self/task')))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "OMP_NUM_THREADS": "3", **variables},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert int(done.stdout) == 1 + extra
