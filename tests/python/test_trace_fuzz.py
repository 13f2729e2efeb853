"""Damaged traces: for any bytes, a reader returns a trace or raises a ValueError with a sentence.

WEFT_FUZZ=5000 tries that many damages of every format instead of the few dozen of the suite.
"""

import gzip
import io
import json
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_trace_readers import GOAL, NSYS, NVPROF, ROCPROF, ROCPROFV3, cuda_events, database, event, otf2

from weft.traces import attribute, exclusive, load

MANY = int(os.environ.get("WEFT_FUZZ", "40"))
ARCHIVE = Path(__file__).parents[3] / "shared" / "data" / "traces" / "pipit" / "ping-pong-otf2"

KINETO = json.dumps(
    {
        "schemaVersion": 1,
        "distributedInfo": {"rank": 1},
        "traceEvents": [
            event("cpu_op", "aten::add", 50, 50, 0, 20.5),
            event("cuda_runtime", "cudaLaunchKernel", 50, 50, 1, 2, correlation=1),
            event("kernel", "k", 0, 7, 4, 5, correlation=1, stream=7),
            event("cuda_runtime", "cudaEventRecord", 50, 50, 4, 1, correlation=2),
            event("cuda_sync", "Event Sync", 0, -1, 6, 4, correlation=3, stream=-1, wait_on_stream=7,
                  wait_on_cuda_event_record_corr_id=2, cuda_sync_kind="Event Sync"),
            event("cuda_runtime", "cudaEventSynchronize", 50, 50, 6, 5, correlation=3),
            event("cpu_op", "record_param_comms", 50, 50, 12, 1, **{"Collective name": "send", "Dst Rank": 2,
                  "In msg nelems": 4, "dtype": "Float", "Process Group Ranks": "[1, 2]"}),
            event("cuda_runtime", "cudaLaunchKernelExC", 50, 50, 13, 1, correlation=4),
            event("kernel", "ncclDevKernel_SendRecv", 0, 20, 14, 5, correlation=4, stream=20),
            {"ph": "s", "id": 1, "pid": 50, "tid": 50, "ts": 1, "cat": "ac2g", "name": "ac2g"},
        ],
    }
).encode()  # fmt: skip
WEFT = (
    b'{"displayTimeUnit":"ns","traceEvents":[\n{"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"host"}},\n'
    b'{"ph":"X","name":"cg","cat":"cpu","pid":0,"tid":0,"ts":1.500,"dur":20.250,"args":{"bytes":0}},\n'
    b'{"ph":"X","name":"copy","cat":"copy","pid":0,"tid":1,"ts":3.000,"dur":1.000,"args":{"bytes":80}},\n'
    b'{"ph":"X","name":"send","cat":"mpi","pid":0,"tid":0,"ts":5.000,"dur":1.000,"args":{"bytes":24,"group":655361,'
    b'"request":3,"sends":[[1,8],[2,16]],"receives":[[1,8]]}},\n'
    b'{"ph":"X","name":"agree","cat":"mpi","pid":0,"tid":0,"ts":7.000,"dur":1.000,"args":{"bytes":8,"group":655360,'
    b'"collective":"allreduce"}}\n]}\n'
)
PIPIT = (
    b"Name,Process,Thread,Trace Type,Event Type,Timestamp (ns)\nmain,7,7,x,Enter,10\ncudaFree,7,7,x,Enter,12\n"
    b"cudaFree,7,7,x,Leave,14\nmain,7,7,x,Leave,20\n"
)


def archive() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for rank in range(2):
            for name, text in (
                (
                    f"run/trace_MPIAllreduce_{rank}.ct",
                    f"117,{rank},-1,8,1,{100 + rank},200,\n117,{rank},-1,8,2,300,400,\n",
                ),
                (f"run/skew_{rank}.ct", f"{1 + rank}\n{2 + rank}\n{3 + rank}\n"),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text.encode()))
    return data.getvalue()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[str, list[bytes]]:
    """Undamaged files by format."""
    folder = tmp_path_factory.mktemp("fuzz")
    report = database(folder / "r.sqlite", NSYS).read_bytes()
    return {
        "weft": [WEFT],
        "nsys": [report, cuda_events(folder / "e.sqlite").read_bytes()],
        "kineto": [KINETO, gzip.compress(KINETO)],
        "rocprof": [json.dumps({"traceEvents": ROCPROF}).encode(), json.dumps(ROCPROFV3).encode()],
        "collectives": [archive(), gzip.decompress(archive())],
        "goal": [GOAL.encode()],
        "tables": [NVPROF.encode(), PIPIT],
    }


PLACE = st.floats(0, 1)
DAMAGE = st.one_of(
    st.tuples(st.just("byte"), PLACE, st.integers(0, 255)),
    st.tuples(st.just("digit"), PLACE, st.sampled_from([b"9" * 30, b"-", b"1e400", b"NaN", b"null", b'"', b"[", b"{"])),
    st.tuples(st.just("cut"), PLACE, st.integers(0, 0)),
    st.tuples(st.just("drop"), PLACE, st.integers(1, 60)),
    st.tuples(st.just("twice"), PLACE, st.integers(1, 200)),
)


def damaged(data: bytes, damages: list[tuple]) -> bytes:
    for kind, place, what in damages:
        at = int(place * len(data))
        if kind == "byte":
            data = data[:at] + bytes([what]) + data[at + 1 :]
        elif kind == "digit":
            digits = [i for i in range(at, min(at + 400, len(data))) if data[i : i + 1].isdigit()]
            if digits:
                data = data[: digits[0]] + what + data[digits[0] + 1 :]
        elif kind == "cut":
            data = data[:at]
        elif kind == "drop":
            data = data[:at] + data[at + what :]
        else:
            data = data[: at + what] + data[at:]
    return data


def outcome(path: Path, format: str | None) -> None:
    said = ""
    try:
        trace = load(path, format)
    except ValueError as error:
        said = str(error)
    if said:
        assert str(path) in said, f"the error does not name the file: {said}"
        assert len(said) > len(str(path)) + 10
        return
    assert len(trace)
    terms = attribute(trace).nanoseconds
    assert terms.min() >= 0
    assert exclusive(trace).min() >= 0
    if trace.requires is not None and len(trace.requires):
        assert trace.requires.min() >= 0
        assert trace.requires.max() < len(trace)


@pytest.mark.parametrize("format", ["weft", "nsys", "kineto", "rocprof", "collectives", "goal", "tables"])
def test_a_damaged_file_is_a_trace_or_an_error_in_a_sentence(format: str, whole, tmp_path) -> None:
    path = tmp_path / "damaged"

    @settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.integers(0, 1), st.lists(DAMAGE, min_size=1, max_size=4), st.booleans())
    def run(which: int, damages: list[tuple], named: bool) -> None:
        files = whole[format]
        path.write_bytes(damaged(files[which % len(files)], damages))
        outcome(path, format if named else None)

    run()


@otf2
@pytest.mark.skipif(not ARCHIVE.is_dir(), reason=f"the sample archive is not at {ARCHIVE}")
def test_a_damaged_otf2_archive_is_a_trace_or_an_error_in_a_sentence(tmp_path) -> None:
    (tmp_path / "traces").mkdir()
    files = {
        p.relative_to(ARCHIVE): p.read_bytes() for p in ARCHIVE.rglob("*") if p.suffix in (".otf2", ".def", ".evt")
    }

    @settings(max_examples=max(4, MANY // 10), deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.sampled_from(sorted(files)), st.lists(DAMAGE, min_size=1, max_size=3))
    def run(which: Path, damages: list[tuple]) -> None:
        for name, data in files.items():
            (tmp_path / name).write_bytes(damaged(data, damages) if name == which else data)
        outcome(tmp_path / "traces.otf2", "otf2")

    run()
