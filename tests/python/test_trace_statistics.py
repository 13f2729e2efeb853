"""Statistics per kernel, copy direction and call, against Python's `statistics` and SQL."""

import json
import sqlite3
import statistics as python
from collections import defaultdict
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from weft.cli.main import weft_command
from weft.report.trace_statistics import statistics
from weft.traces import Builder, Category, Trace, apis, load

NSYS = Path(__file__).parents[3] / "shared" / "data" / "traces" / "nsys" / "h100_2gpu_1s.sqlite"


@pytest.mark.parametrize(("name", "operation"), [
    ("[CUDA memcpy HtoD]", "host to device"), ("[CUDA memcpy UVM DtoH]", "device to host, unified memory"),
    ("Memcpy DtoD (Device -> Device)", "device to device"), ("MemcpyD2H", "device to host"),
    ("MEMORY_COPY_HOST_TO_DEVICE", "host to device"), ("CopyDeviceToHost", "device to host"),
    ("Memcpy PtoP (Device -> Device)", "peer to peer"), ("MemcpyHtoDLM", ""),
    ("Memset (Device)", "memset"), ("[CUDA memset]", "memset"), ("memset_kernel", ""), ("copy_kernel<HtoD>", ""),
])  # fmt: skip
def test_what_a_copy_does_is_read_from_the_name_that_a_tool_gave_it(name: str, operation: str) -> None:
    assert apis.copied(name) == operation


def made(rows: list[tuple[str, int, int]]) -> Trace:
    """Work on one stream, one after another: names, lengths and bytes."""
    builder = Builder("made", "made")
    line, time = builder.line(0, "stream 7", "stream"), 0
    for name, length, moved in rows:
        category = apis.copy(True) if apis.copied(name) == "host to device" else Category.gpu
        builder.add(
            line=line, start=time, end=time + length, category=int(category), name=builder.name(name), bytes=moved
        )
        time += length
    return builder.build()


WORK = st.tuples(
    st.sampled_from(["a", "b", "Memcpy HtoD", "[CUDA memcpy HtoD]", "Memset (Device)"]),
    st.integers(0, 10**12), st.integers(-1, 2**40),
)  # fmt: skip


@given(st.lists(WORK, min_size=1, max_size=30))
def test_statistics_are_those_of_python(rows: list[tuple[str, int, int]]) -> None:
    found = statistics(made(rows))
    expected: dict[str, dict[str, list[float]]] = {"kernels": defaultdict(list), "copies": defaultdict(list)}
    expected["copied"] = defaultdict(list)
    for name, length, moved in rows:
        operation = apis.copied(name)
        expected["copies" if operation else "kernels"][operation or name].append(length * 1e-9)
        if operation and moved >= 0:
            expected["copied"][operation].append(moved)
    assert found["calls"] == []
    for key, groups in expected.items():
        assert {row["name"] for row in found[key]} == set(groups)
        everything = sum(map(sum, groups.values()))
        assert [row["total"] for row in found[key]] == sorted((row["total"] for row in found[key]), reverse=True)
        for row in found[key]:
            values = groups[row["name"]]
            assert row["count"] == len(values)
            figures = (
                sum(values), python.mean(values), python.median(values), min(values), max(values),
                python.stdev(values) if len(values) > 1 else 0.0, sum(values) / everything if everything else 0.0,
            )  # fmt: skip
            mine = tuple(row[c] for c in ("total", "mean", "median", "min", "max", "stddev", "share"))
            assert mine == pytest.approx(figures, rel=1e-9, abs=1e-9 * max(values))


@pytest.mark.skipif(not NSYS.is_file(), reason=f"the sample trace is not at {NSYS}")
def test_statistics_are_those_that_sql_takes_from_a_report_of_nsys() -> None:
    found = statistics(load(NSYS))
    with sqlite3.connect(f"file:{NSYS}?mode=ro", uri=True) as base:
        queries = {
            "kernels": "select value, k.end - k.start from CUPTI_ACTIVITY_KIND_KERNEL k join StringIds s "
                       "on s.id = k.shortName",
            "calls": "select substr(value, 1, instr(value || '_v', '_v') - 1), r.end - r.start "
                     "from CUPTI_ACTIVITY_KIND_RUNTIME r join StringIds s on s.id = r.nameId",
            "copies": "select case copyKind when 1 then 'host to device' when 2 then 'device to host' else "
                      "'device to device' end, end - start from CUPTI_ACTIVITY_KIND_MEMCPY "
                      "union all select 'memset', end - start from CUPTI_ACTIVITY_KIND_MEMSET",
            "copied": "select case copyKind when 1 then 'host to device' when 2 then 'device to host' else "
                      "'device to device' end, bytes from CUPTI_ACTIVITY_KIND_MEMCPY "
                      "union all select 'memset', bytes from CUPTI_ACTIVITY_KIND_MEMSET",
        }  # fmt: skip
        for key, query in queries.items():
            groups = defaultdict(list)
            for name, value in base.execute(query):
                groups[name].append(value)
            unit = 1.0 if key == "copied" else 1e-9
            assert {r["name"]: r["count"] for r in found[key]} == {n: len(v) for n, v in groups.items()}
            for row in found[key]:
                values = groups[row["name"]]
                assert row["total"] == pytest.approx(sum(values) * unit, rel=1e-12)
                assert (row["median"], row["min"], row["max"]) == pytest.approx(
                    (python.median(values) * unit, min(values) * unit, max(values) * unit), rel=1e-12
                )
                assert row["stddev"] == pytest.approx(python.stdev(values) * unit, rel=1e-6)
    base.close()


def test_the_command_prints_the_reports_and_says_which_have_no_rows(tmp_path: Path) -> None:
    rows = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 10 * k, "dur": 4, "args": {"stream": 7}}
        for k, name in enumerate(("gemm", "gemm", "axpy"))
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": rows}))
    shown = CliRunner().invoke(weft_command, ["trace", "summary", str(path), "--stats", "--top", "1"])
    assert shown.exit_code == 0, shown.output
    lines = [line.split() for line in shown.output.splitlines()]
    assert "cuda_gpu_kern_sum, 1 of 2 rows" in shown.output
    assert ["gemm", "66.7", "%", "8", "µs", "2", "4", "µs", "4", "µs", "4", "µs", "4", "µs", "0", "ns"] in lines
    assert "cuda_api_sum: no such events" in shown.output
    given = CliRunner().invoke(weft_command, ["trace", "summary", str(path), "--stats", "--json"])
    assert [row["name"] for row in json.loads(given.output)["kernels"]] == ["gemm", "axpy"]
