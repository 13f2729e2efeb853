"""`weft trace export`: the event table as CSV."""

import csv
import io
from pathlib import Path

from click.testing import CliRunner
from protobuf_traces import rocprofv3

from weft.cli.main import weft_command
from weft.traces import load


def test_rows_of_the_table_are_the_events_of_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "a.pftrace"
    path.write_bytes(rocprofv3().bytes())
    done = CliRunner().invoke(weft_command, ["trace", "export", str(path), "--output", str(tmp_path / "a.csv")])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{tmp_path / 'a.csv'}: 6 events")
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    trace = load(path)
    assert [int(r["start_ns"]) for r in rows] == trace.start.tolist()
    (kernel,) = [r for r in rows if r["category"] == "gpu"]
    assert kernel == {
        "process": "77", "line": "COMPUTE AGENT [4] STREAM [1] (GPU)", "kind": "stream", "start_ns": "2000",
        "end_ns": "4300", "category": "gpu", "name": "axpy(double*)", "bytes": "-1", "peer": "-1", "correlation": "2",
        "group": "-1",
    }  # fmt: skip


def test_a_window_is_exported_to_standard_output(tmp_path: Path) -> None:
    path = tmp_path / "a.pftrace"
    path.write_bytes(rocprofv3().bytes())
    done = CliRunner().invoke(weft_command, ["trace", "export", str(path), "-o", "-", "--from", "2us"])
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert {r["name"] for r in rows} == {"step 0", "hipDeviceSynchronize", "axpy(double*)"}
