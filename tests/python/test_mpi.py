"""Errors under MPI end every rank with one message, and the trace of all ranks is one file."""

from __future__ import annotations

import json

import pytest
from mpi_run import messages, mpi_prints, mpi_run

from weft import trace

HOOK = "import sys, time\nfrom mpi4py import MPI\nimport weft.mpi\nweft.mpi.install_excepthook()\n"
HOOK += "r = MPI.COMM_WORLD.rank\n"


def own_lines(result) -> list[str]:
    """The lines of weft; launchers and MPI libraries add lines of their own."""
    return messages(result.stderr)


@pytest.mark.parametrize("ranks", [2, 4])
def test_an_exception_on_one_rank_brings_all_down_with_one_line(ranks):
    # The others wait in a barrier that the failed rank never reaches.
    result = mpi_run(ranks, HOOK + "if r == 1: raise ValueError('the mesh is torn')\nMPI.COMM_WORLD.Barrier()\n")
    assert result.returncode != 0
    assert result.stderr.count("the mesh is torn") == 1
    assert f"weft: rank 1 of {ranks}: the mesh is torn" in result.stderr
    assert "Traceback" not in result.stderr


def test_several_ranks_failing_alone_still_give_one_message():
    result = mpi_run(4, HOOK + "if r != 2: raise KeyError('lost')\nMPI.COMM_WORLD.Barrier()\n")
    assert result.returncode != 0
    assert result.stderr.count("lost") == 1
    assert "rank 0 of 4: KeyError: 'lost'" in result.stderr


@pytest.mark.parametrize(
    ("ranks", "failure"),
    [
        pytest.param(3, "if r: time.sleep((2, 0)[r - 1])", id="the lower one late, so that both come to their turn"),
        pytest.param(6, "if r > 2: pass", id="high ranks at once"),
    ],
)
def test_ranks_that_fail_alone_agree_on_who_prints(ranks, failure):
    code = HOOK + failure + "; raise KeyError('lost')\nMPI.COMM_WORLD.Barrier()\n"
    result = mpi_run(ranks, code)
    assert result.returncode != 0
    assert len(own_lines(result)) == 1


def test_an_error_that_all_ranks_raise_is_printed_once():
    result = mpi_run(3, HOOK + "raise ValueError('order must be 1 to 15')\n")
    assert result.returncode != 0
    assert own_lines(result) == ["weft: order must be 1 to 15"]


def test_an_agreed_error_is_printed_by_rank_0_and_every_rank_exits_by_itself(tmp_path):
    code = HOOK + (
        "import atexit, pathlib\n"
        "atexit.register(lambda: pathlib.Path(sys.argv[1], str(r)).touch())\n"  # an aborted rank leaves no file
        "time.sleep(0.3 * r)\n"
        "raise weft.mpi.CollectiveError('no such mesh')\n"
    )
    result = mpi_run(3, code, str(tmp_path))
    assert result.returncode != 0
    assert own_lines(result) == ["weft: no such mesh"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1", "2"]


def test_the_traceback_is_there_for_those_who_ask():
    result = mpi_run(2, HOOK + "if r == 1: raise ValueError('bad')\nMPI.COMM_WORLD.Barrier()\n", WEFT_TRACEBACK="1")
    assert "Traceback" in result.stderr


def test_two_mpi_libraries_in_one_process_are_an_import_error_naming_both():
    code = """
    from mpi4py import MPI
    from weft import _weft
    import sys, types
    fake = types.SimpleNamespace(**{k: getattr(_weft.mpi, k) for k in dir(_weft.mpi) if not k.startswith("__")})
    fake.library_text = lambda: "Other MPI v1.2.3, package"
    _weft.mpi = fake
    try:
        import weft.mpi
    except ImportError as error:
        print(error)
    """
    result = mpi_run(1, code)
    assert "different MPI libraries" in result.stdout
    assert "Other MPI v1.2.3" in result.stdout
    assert "PATH" in result.stdout


def test_a_freed_communicator_or_another_object_is_a_clear_error():
    code = """
    from mpi4py import MPI
    import weft.mpi
    from weft import _weft
    for comm in (MPI.COMM_NULL, 7):
        try:
            _weft.mpi.duplicate(comm)
        except (TypeError, ValueError) as error:
            print(error)
    copy = _weft.mpi.duplicate(MPI.COMM_SELF)
    assert copy.size == 1 and copy != MPI.COMM_SELF
    """
    printed = mpi_prints(1, code)
    assert len(printed.splitlines()) == 2


TRACE = """
import sys, time
from mpi4py import MPI
import weft.trace
comm = MPI.COMM_WORLD
weft.trace.start(comm)
with weft.trace.span("outer"):
    with weft.trace.span("wait \\"for\\" others", "mpi"):
        comm.Barrier()
    with weft.trace.span("copy", "copy"):
        time.sleep(0.01)
weft.trace.stop()
weft.trace.write(sys.argv[1], comm)
print(comm.rank, sum(weft.trace.categories().values()), sum(weft.trace.names().values()))
"""


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_joined_trace_loads_nests_and_adds_up(tmp_path, ranks):
    path = tmp_path / "trace.json"
    printed = mpi_prints(ranks, TRACE, str(path))
    events = json.loads(path.read_text())["traceEvents"]
    names = {(e["pid"], e["args"]["name"]) for e in events if e["name"] == "process_name"}
    assert names == {(rank, f"rank {rank}") for rank in range(ranks)}
    sums = {int(line.split()[0]): [float(x) for x in line.split()[1:]] for line in printed.splitlines()}
    for rank in range(ranks):
        spans = {e["name"]: e for e in events if e["ph"] == "X" and e["pid"] == rank}
        assert set(spans) == {"outer", 'wait "for" others', "copy"}
        outer = spans["outer"]
        for inner in spans.values():
            assert inner["tid"] == 0
            assert outer["ts"] <= inner["ts"]
            assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1e-3
        assert spans["copy"]["dur"] >= 10_000
        assert sums[rank] == pytest.approx([outer["dur"] * 1e-6] * 2, rel=1e-9)


def test_a_trace_that_cannot_be_written_fails_on_all_ranks():
    result = mpi_run(2, HOOK + "import weft.trace\nweft.trace.write('/nowhere/trace.json', MPI.COMM_WORLD)\n")
    assert result.returncode != 0
    assert result.stderr.count("cannot write the trace") == 1


def test_spans_with_the_recorder_off_leave_nothing():
    trace.start()
    trace.stop()
    with trace.span("unseen"):
        pass
    assert trace.names() == {}
