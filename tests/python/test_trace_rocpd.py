"""The rocpd databases of rocprofv3: small ones with its tables and columns, as its source writes them."""

import gzip
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from weft.model.replay import AS_TRACED, duration, program
from weft.traces import Category, attribute, load

TABLES = {
    "string": "id, guid, string", "info_process": "id, guid, nid, pid, environment",
    "info_thread": "id, guid, nid, pid, tid, name", "info_agent": "id, guid, nid, pid, type, type_index, name",
    "info_kernel_symbol": "id, guid, nid, pid, kernel_name, display_name",
    "event": "id, guid, category_id, stack_id, parent_stack_id, correlation_id, extdata",
    "region": "id, guid, nid, pid, tid, start, end, name_id, event_id",
    "kernel_dispatch": "id, guid, nid, pid, tid, agent_id, kernel_id, queue_id, stream_id, start, end, event_id",
    "memory_copy": "id, guid, nid, pid, tid, start, end, name_id, dst_agent_id, src_agent_id, size, event_id",
}  # fmt: skip
STRINGS = ["HIP_RUNTIME_API_EXT", "MARKER_CORE_RANGE_API", "KERNEL_DISPATCH", "MEMORY_COPY", "hipMemcpyAsync",
           "hipLaunchKernel", "hipDeviceSynchronize", "roctxRangePush", "MEMORY_COPY_HOST_TO_DEVICE"]  # fmt: skip


def add_process(path: Path, suffix: str, pid: int, shift: int = 0, rank: int | None = None) -> None:
    """One process: a copy and a kernel that calls launch and wait for, inside a marker."""
    base = sqlite3.connect(path)
    for table, columns in TABLES.items():
        quoted = ", ".join(f'"{c}"' for c in columns.split(", "))
        base.execute(f'CREATE TABLE "rocpd_{table}_{suffix}" ({quoted})')
        base.execute(f'CREATE VIEW IF NOT EXISTS "rocpd_{table}" AS SELECT * FROM "rocpd_{table}_{suffix}"')

    def insert(table: str, **row: object) -> None:
        columns = ", ".join(f'"{c}"' for c in row)
        marks = ", ".join("?" * len(row))
        base.execute(f'INSERT INTO "rocpd_{table}_{suffix}" ({columns}) VALUES ({marks})', list(row.values()))

    for number, text in enumerate(STRINGS):
        insert("string", id=number + 1, string=text)
    environment = "{}" if rank is None else f'{{"SLURM_PROCID": "{rank}", "SLURM_NTASKS": "2"}}'
    insert("info_process", id=7, nid=1, pid=pid, environment=environment)
    insert("info_thread", id=8, nid=1, pid=7, tid=pid)
    for number, kind in ((0, "CPU"), (4, "GPU")):
        insert("info_agent", id=number, nid=1, pid=7, type=kind, type_index=0, name="gfx90a")
    insert("info_kernel_symbol", id=3, nid=1, pid=7, kernel_name="_Z4axpyPd.kd", display_name="axpy(double*)")
    calls = [(5, 6_000, 6_500, 1, 1), (6, 7_000, 7_200, 2, 1), (7, 7_300, 9_900, 3, 1), (8, 5_500, 9_950, 4, 2)]
    for name, start, end, link, category in calls:
        extra = '{"message": "step 0"}' if category == 2 else "{}"
        insert("event", id=link, category_id=category, stack_id=link, parent_stack_id=0, extdata=extra)
        insert("region", id=link, pid=7, tid=8, start=start + shift, end=end + shift, name_id=name, event_id=link)
    insert("event", id=11, category_id=4, stack_id=1, extdata="{}")
    insert("memory_copy", id=1, pid=7, start=6_400 + shift, end=6_900 + shift, name_id=9, dst_agent_id=4,
           src_agent_id=0, size=4096, event_id=11)  # fmt: skip
    insert("event", id=12, category_id=3, stack_id=2, extdata="{}")
    insert("kernel_dispatch", id=1, pid=7, agent_id=4, kernel_id=3, queue_id=1, stream_id=0, start=7_500 + shift,
           end=9_800 + shift, event_id=12)  # fmt: skip
    base.commit()
    base.close()


def test_calls_markers_kernels_and_copies_of_a_process(tmp_path) -> None:
    add_process(tmp_path / "1_results.db", "0000_11", 77)
    trace = load(tmp_path / "1_results.db")
    assert (trace.format, list(trace.processes), trace.rank) == ("rocpd", [77], -1)
    found = {trace.names[n]: (int(s) + trace.origin, int(e) + trace.origin, Category(c).name, int(b), int(link))
             for n, s, e, c, b, link in zip(trace.name, trace.start, trace.end, trace.category, trace.bytes,
                                            trace.correlation, strict=True)}  # fmt: skip
    assert found == {
        "hipMemcpyAsync": (6_000, 6_500, "launch", -1, 1), "hipLaunchKernel": (7_000, 7_200, "launch", -1, 2),
        "hipDeviceSynchronize": (7_300, 9_900, "sync", -1, 3), "step 0": (5_500, 9_950, "other", -1, 4),
        "MEMORY_COPY_HOST_TO_DEVICE": (6_400, 6_900, "copy", 4096, 1), "axpy(double*)": (7_500, 9_800, "gpu", -1, 2),
    }  # fmt: skip
    assert {(line.label, line.kind) for line in trace.lines} == {
        ("thread 77", "host"), ("GPU 0 queue 1", "stream"), ("copies CPU 0 to GPU 0", "stream"),
    }  # fmt: skip
    assert attribute(trace).t_gpu[0] == pytest.approx(2.3e-6)
    assert duration(program(trace), AS_TRACED).value == pytest.approx(trace.span * 1e-9, rel=0.1)


def test_tables_of_several_processes_in_one_database_are_not_counted_twice(tmp_path) -> None:
    for suffix, pid in (("0000_11", 77), ("0000_22", 78)):
        add_process(tmp_path / "all.db", suffix, pid)
    trace = load(tmp_path / "all.db")
    assert np.bincount(np.searchsorted(trace.processes, trace.process)).tolist() == [6, 6]


def test_the_rank_is_that_of_the_launcher(tmp_path) -> None:
    add_process(tmp_path / "1.db", "0000_11", 77, rank=1)
    trace = load(tmp_path / "1.db")
    assert (trace.rank, trace.world) == (1, 2)


@pytest.mark.parametrize(("query", "said"), [
    ("DELETE FROM {}", "no calls, kernels or copies"), ("UPDATE {} SET start = 'soon'", "no integers"),
    ("UPDATE {} SET end = 0", "the clock runs backwards"), ("UPDATE {} SET name_id = NULL", None),
])  # fmt: skip
def test_wrong_values_are_an_error_in_a_sentence(query: str, said: str | None, tmp_path) -> None:
    path = tmp_path / "1.db"
    add_process(path, "0000_11", 77)
    base = sqlite3.connect(path)
    for table in ("kernel_dispatch", "memory_copy"):
        base.execute(f'DELETE FROM "rocpd_{table}_0000_11"')
    base.execute(query.format('"rocpd_region_0000_11"'))
    base.commit()
    base.close()
    if said is None:
        assert len(load(path)) == 4
        return
    with pytest.raises(ValueError, match=said):
        load(path)


def test_a_database_cut_short_says_so(tmp_path) -> None:
    path = tmp_path / "1.db"
    add_process(path, "0000_11", 77)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match=r"damaged or truncated|not in a trace format"):
        load(path)


def test_a_gzipped_database_says_that_it_must_be_unpacked(tmp_path) -> None:
    add_process(tmp_path / "1_results.db", "0000_11", 77)
    packed = tmp_path / "1_results.db.gz"
    packed.write_bytes(gzip.compress((tmp_path / "1_results.db").read_bytes()))
    for format in (None, "rocpd", "nsys"):
        with pytest.raises(ValueError, match=r"1_results\.db\.gz: a gzipped SQLite file, .*; unpack it first"):
            load(packed, format)
